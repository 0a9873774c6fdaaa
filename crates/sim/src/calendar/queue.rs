//! The queue of the calendar, which sorts entries by time: a monotone radix queue.
//!
//! Virtual time never runs backwards, so no entry is earlier than the one that was taken out last.
//! A radix queue (Ahuja, Mehlhorn, Orlin and Tarjan, *Faster algorithms for the shortest path
//! problem*, 1990) makes use of this. The bucket of an entry depends on the highest digit where its
//! time differs from `base`, and on the value of that digit. Only the first bucket is ever looked
//! into. Its entries are moved to buckets of lower digits, so an entry moves once for each digit in
//! the worst case, and two or three times in practice, always from one list to the end of another.
//! A heap would move it along a path of cache misses instead.
//!
//! If the first bucket is short, it is sorted into the *front*, and entries are taken from there
//! one by one.
//!
//! **First in, first out.** Entries of one time come out in the order they came in. That needs no
//! sequence number, since entries of one time are always in the same place. The front holds exactly
//! the entries not later than `covered`, and the bucket is a function of the time and `base`.
//! Within a place they keep the order of their arrival: entries are moved in order and appended,
//! the sort is stable, and an insertion into the front goes behind the entries of the same time.

use super::buckets::{Buckets, Entry};

/// The bits of a digit. A level then has 64 buckets, and one word says which of them are occupied.
const DIGIT_BITS: u32 = 6;
const BUCKETS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
/// A first bucket of at most this many entries is sorted rather than dealt out. With a million
/// pending events, 512 was measured to be half as fast again as 96, since their slots are then
/// loaded side by side. Tests have few, so that short sequences of operations reach every branch.
const SORTED_AT_ONCE: usize = if cfg!(test) { 8 } else { 512 };
/// If an insertion would move more entries of the front than this, the front goes back into buckets
/// instead.
const MOVED_AT_MOST: usize = if cfg!(test) { 3 } else { 128 };

/// Entries in the order of their times, and within one time in the order of their arrival.
#[derive(Debug)]
pub(super) struct Queue {
    /// The first entries in order. Those before position `taken` have been taken out.
    front: Vec<Entry>,
    taken: usize,
    /// The front holds every entry up to this time, inclusive. `None` if the front is empty and no
    /// entry belongs there.
    covered: Option<u64>,
    /// The buckets of all levels, which are `LEVELS * BUCKETS` lists. None of their entries is
    /// earlier than `base`.
    buckets: Buckets,
    /// For each level, the buckets that are not empty, one bit each.
    occupied: [u64; LEVELS],
    /// A time that is not later than any entry in a bucket, nor later than `covered`, or than now
    /// if that is `None`.
    base: u64,
    len: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            front: Vec::new(),
            taken: 0,
            covered: None,
            buckets: Buckets::new(LEVELS * BUCKETS),
            occupied: [0; LEVELS],
            base: 0,
            len: 0,
        }
    }
}

/// Returns the highest digit, counted from the lowest one, where two times differ; 0 if they are
/// equal.
fn level_of(time: u64, base: u64) -> usize {
    ((time ^ base) | 1).ilog2() as usize / DIGIT_BITS as usize
}

/// Returns the bucket of a time that is not earlier than `base`.
fn list_of(time: u64, base: u64) -> usize {
    let level = level_of(time, base);
    level * BUCKETS + (time >> (level as u32 * DIGIT_BITS)) as usize % BUCKETS
}

impl Queue {
    /// Returns how many entries there are, cancelled ones included.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds `entry`. Its time must not be earlier than `now`, nor `now` earlier than the entry that
    /// was taken out last.
    pub(crate) fn push(&mut self, entry: Entry, now: u64) {
        self.len += 1;
        if Some(entry.time) > self.covered {
            return self.place(entry);
        }
        // Most entries belong near the end of the front.
        let position =
            self.taken + self.front[self.taken..].partition_point(|other| other.time <= entry.time);
        let (earlier, later) = (position - self.taken, self.front.len() - position);
        if self.taken > 0 && earlier <= later.min(MOVED_AT_MOST) {
            // The earlier entries move down by one, into the place of an entry that was taken out.
            self.front.copy_within(self.taken..position, self.taken - 1);
            self.taken -= 1;
            self.front[position - 1] = entry;
        } else if later <= MOVED_AT_MOST {
            self.front.insert(position, entry);
        } else {
            self.spill(now);
            self.place(entry);
        }
    }

    /// Returns the first entry that `is_live` accepts, and removes the entries before it.
    pub(crate) fn first(&mut self, now: u64, is_live: impl Fn(&Entry) -> bool) -> Option<Entry> {
        loop {
            while let Some(&entry) = self.front.get(self.taken) {
                if is_live(&entry) {
                    return Some(entry);
                }
                self.taken += 1;
                self.len -= 1;
            }
            if !self.refill(now, &is_live) {
                return None;
            }
        }
    }

    /// Removes and returns the first entry, whether or not `is_live` holds for it. Most entries
    /// that it rejects are dropped when the front is filled.
    pub(crate) fn remove_first(
        &mut self,
        now: u64,
        is_live: impl Fn(&Entry) -> bool,
    ) -> Option<Entry> {
        while self.taken == self.front.len() {
            if !self.refill(now, &is_live) {
                return None;
            }
        }
        let entry = self.front[self.taken];
        self.taken += 1;
        self.len -= 1;
        Some(entry)
    }

    /// Returns the entry that comes `position` entries after the first one. The answer is `None`
    /// not only if there is no such entry, but also if it has not been sorted yet.
    pub(crate) fn sorted(&self, position: usize) -> Option<&Entry> {
        self.front.get(self.taken + position)
    }

    /// Removes the entries that `is_live` rejects. This looks at every entry.
    pub(crate) fn retain(&mut self, is_live: impl Fn(&Entry) -> bool) {
        self.front.drain(..std::mem::take(&mut self.taken));
        self.front.retain(&is_live);
        self.len = self.front.len();
        let mut kept = Vec::new();
        for list in 0..LEVELS * BUCKETS {
            self.buckets.drain(list, |_, entries| {
                kept.extend(entries.iter().copied().filter(&is_live))
            });
            self.len += kept.len();
            if kept.is_empty() {
                self.occupied[list / BUCKETS] &= !(1 << (list % BUCKETS));
            }
            kept.drain(..)
                .for_each(|entry| self.buckets.push(list, entry));
        }
    }

    /// Returns all entries. Those of one time are in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.front[self.taken..]
            .iter()
            .chain((0..LEVELS * BUCKETS).flat_map(|list| self.buckets.iter(list)))
    }

    /// Puts an entry that is not earlier than `base` into its bucket.
    fn place(&mut self, entry: Entry) {
        let list = list_of(entry.time, self.base);
        self.occupied[list / BUCKETS] |= 1 << (list % BUCKETS);
        self.buckets.push(list, entry);
    }

    /// Moves the entries of a bucket to buckets of lower digits, with the new `base`.
    fn deal_out(&mut self, list: usize, base: u64) {
        self.base = base;
        self.occupied[list / BUCKETS] &= !(1 << (list % BUCKETS));
        let occupied = &mut self.occupied;
        self.buckets.drain(list, |buckets, entries| {
            for &entry in entries {
                let list = list_of(entry.time, base);
                occupied[list / BUCKETS] |= 1 << (list % BUCKETS);
                buckets.push(list, entry);
            }
        });
    }

    /// Moves the first bucket, or the first part of it, to the front, which must have no entry
    /// left. Returns false if all buckets are empty.
    #[inline(never)]
    fn refill(&mut self, now: u64, is_live: impl Fn(&Entry) -> bool) -> bool {
        self.front.clear();
        self.taken = 0;
        loop {
            // Entries of a lower level are earlier than those of a higher one, as they share more
            // digits with `base`.
            let Some(level) = self.occupied.iter().position(|buckets| *buckets != 0) else {
                self.covered = None;
                self.base = now;
                return false;
            };
            let list = level * BUCKETS + self.occupied[level].trailing_zeros() as usize;
            if level > 0 && self.buckets.len(list) > SORTED_AT_ONCE {
                // The new base is the least time rather than the bucket's first instant, so that
                // entries that are close together go down several levels at once.
                let least = self.buckets.iter(list).map(|entry| entry.time).min();
                self.deal_out(list, least.unwrap_or(self.base));
                continue;
            }
            self.occupied[level] &= !(1 << (list % BUCKETS));
            let (front, len, mut within) = (&mut self.front, &mut self.len, self.base);
            self.buckets.drain(list, |_, entries| {
                within = entries[0].time;
                if level == 0 {
                    // All are of one instant and in order, so they need no sorting, and there may
                    // be very many of them.
                    front.extend_from_slice(entries);
                } else {
                    // This drops the cancelled entries. It also loads the slots side by side,
                    // before they are needed one by one.
                    let held = front.len() + entries.len();
                    front.extend(entries.iter().copied().filter(&is_live));
                    *len -= held - front.len();
                }
            });
            let span = (1 << (level as u32 * DIGIT_BITS)) - 1;
            self.base = within & !span;
            self.covered = Some(self.base | span);
            if level > 0 {
                self.front.sort_by_key(|entry| entry.time);
            }
            return true;
        }
    }

    /// Puts the entries of the front back into buckets.
    fn spill(&mut self, now: u64) {
        if now < self.base {
            self.rewind(now);
        }
        let mut front = std::mem::take(&mut self.front);
        front
            .drain(std::mem::take(&mut self.taken)..)
            .for_each(|entry| self.place(entry));
        // The entries that had been taken out are dropped as well, and the memory is kept.
        front.clear();
        self.front = front;
        self.covered = None;
    }

    /// Moves `base` back to `now`, which is needed when earlier events are scheduled after looking
    /// ahead.
    ///
    /// Take the highest digit where the two differ. Entries that differ from the old base in that
    /// digit or a higher one differ from the new base in the same digit, so they stay. The others
    /// come together in one bucket, which was empty: that of the old base's own digit.
    fn rewind(&mut self, now: u64) {
        let level = level_of(self.base, now);
        let mut together = Vec::new();
        for lower in 0..level {
            self.occupied[lower] = 0;
            for list in lower * BUCKETS..(lower + 1) * BUCKETS {
                self.buckets
                    .drain(list, |_, entries| together.extend_from_slice(entries));
            }
        }
        self.base = now;
        for entry in together {
            self.place(entry);
        }
    }
}
