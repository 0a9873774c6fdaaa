//! The order of the calendar: a monotone radix queue of (time, ticket).
//!
//! Virtual time never runs backwards, so nothing is ever put before the instant that was taken out last. A radix queue
//! (Ahuja, Mehlhorn, Orlin and Tarjan, *Faster algorithms for the shortest path problem*, 1990) makes use of it: an
//! entry lies in a bucket that is named by the highest digit in which its time differs from `base`, and by that digit.
//! Only the first bucket is ever looked into; it is dealt out to buckets of lower digits, so an entry moves once for
//! each digit in the worst case, and two or three times in practice, always from one list to the end of another.
//! A heap moves it along a path of cache misses instead.
//!
//! A first bucket that is short is sorted into the *front*, from which entries are taken one by one.
//!
//! **First in, first out.** No number of order is stored, since entries of one time are always in one place: the
//! front holds exactly what is not later than `covered`, and a bucket's name is a function of the time and `base`.
//! Within a place they are in the order in which they came: whatever moves them takes them in order and appends them,
//! the sort is stable, and an insertion into the front goes behind its equals.

use super::buckets::{Buckets, Entry};

/// Bits of a digit: 64 buckets, whose occupation is one word.
const DIGIT_BITS: u32 = 6;
const BUCKETS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
/// A first bucket of at most so many entries is sorted rather than dealt out. Measured: with a million pending, 512 are
/// half as fast again as 96, as their slots are then loaded side by side. Few in tests: short sequences go every way.
const SORTED_AT_ONCE: usize = if cfg!(test) { 8 } else { 512 };
/// An insertion that would move more entries of the front than this puts the front back into buckets.
const MOVED_AT_MOST: usize = if cfg!(test) { 3 } else { 128 };

/// Entries in the order of their times, and of their coming within one time.
#[derive(Debug)]
pub(super) struct Queue {
    /// The first entries, in order, from `taken` on; those before have been taken out.
    front: Vec<Entry>,
    taken: usize,
    /// The front holds every entry up to this time, inclusive; `None`: it is empty and holds nothing to come.
    covered: Option<u64>,
    /// `LEVELS * BUCKETS` lists; no entry of theirs is earlier than `base`.
    buckets: Buckets,
    /// Which buckets of a level are not empty.
    occupied: [u64; LEVELS],
    /// Not later than any entry in a bucket; not later than `covered`, or than now if that is `None`.
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

/// The highest digit, counted from the lowest one, in which two times differ; 0 if they are equal.
fn level_of(time: u64, base: u64) -> usize {
    ((time ^ base) | 1).ilog2() as usize / DIGIT_BITS as usize
}

/// The bucket of a time that is not earlier than `base`.
fn list_of(time: u64, base: u64) -> usize {
    let level = level_of(time, base);
    level * BUCKETS + (time >> (level as u32 * DIGIT_BITS)) as usize % BUCKETS
}

impl Queue {
    /// Entries that are held, cancelled ones included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Puts `entry` in. Its time must not be earlier than `now`, nor `now` earlier than what was taken out last.
    pub fn push(&mut self, entry: Entry, now: u64) {
        self.len += 1;
        if Some(entry.time) > self.covered {
            return self.place(entry);
        }
        // Mostly a late one among the first.
        let position = self.taken + self.front[self.taken..].partition_point(|other| other.time <= entry.time);
        let (earlier, later) = (position - self.taken, self.front.len() - position);
        if self.taken > 0 && earlier <= later.min(MOVED_AT_MOST) {
            // Into the place of one that was taken out.
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

    /// The first entry for which `is_live` holds; entries before it are forgotten.
    pub fn first(&mut self, now: u64, is_live: impl Fn(&Entry) -> bool) -> Option<Entry> {
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

    /// Removes the first entry, whether or not `is_live` holds for it; for most it does, since those for which it does
    /// not hold when they come among the first are forgotten there.
    pub fn remove_first(&mut self, now: u64, is_live: impl Fn(&Entry) -> bool) -> Option<Entry> {
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

    /// Forgets the entries for which `is_live` does not hold. Takes time for every entry.
    pub fn retain(&mut self, is_live: impl Fn(&Entry) -> bool) {
        self.front.drain(..std::mem::take(&mut self.taken));
        self.front.retain(&is_live);
        self.len = self.front.len();
        let mut kept = Vec::new();
        for list in 0..LEVELS * BUCKETS {
            self.buckets.drain(list, |_, entries| kept.extend(entries.iter().copied().filter(&is_live)));
            self.len += kept.len();
            if kept.is_empty() {
                self.occupied[list / BUCKETS] &= !(1 << (list % BUCKETS));
            }
            kept.drain(..).for_each(|entry| self.buckets.push(list, entry));
        }
    }

    /// Every entry; those of one time in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.front[self.taken..].iter().chain((0..LEVELS * BUCKETS).flat_map(|list| self.buckets.iter(list)))
    }

    /// Puts an entry that is not earlier than `base` into its bucket.
    fn place(&mut self, entry: Entry) {
        let list = list_of(entry.time, self.base);
        self.occupied[list / BUCKETS] |= 1 << (list % BUCKETS);
        self.buckets.push(list, entry);
    }

    /// Deals a bucket out to others, of lower digits.
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

    /// Moves the first bucket, or the first part of it, to the front, of which nothing must be left; false if there is
    /// none.
    #[inline(never)]
    fn refill(&mut self, now: u64, is_live: impl Fn(&Entry) -> bool) -> bool {
        self.front.clear();
        self.taken = 0;
        loop {
            // All entries of a lower level are earlier than those of a higher one, as they share more with `base`.
            let Some(level) = self.occupied.iter().position(|buckets| *buckets != 0) else {
                self.covered = None;
                self.base = now;
                return false;
            };
            let list = level * BUCKETS + self.occupied[level].trailing_zeros() as usize;
            if level > 0 && self.buckets.len(list) > SORTED_AT_ONCE {
                // From the least time rather than the bucket's first instant: entries close together go down at once.
                let least = self.buckets.iter(list).map(|entry| entry.time).min();
                self.deal_out(list, least.unwrap_or(self.base));
                continue;
            }
            self.occupied[level] &= !(1 << (list % BUCKETS));
            let (front, len, mut within) = (&mut self.front, &mut self.len, self.base);
            self.buckets.drain(list, |_, entries| {
                within = entries[0].time;
                if level == 0 {
                    // All are of one instant, in order, and may be very many.
                    front.extend_from_slice(entries);
                } else {
                    // Besides forgetting the cancelled ones, this has the slots loaded side by side before they are
                    // needed one by one.
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

    /// Puts the front back into buckets.
    fn spill(&mut self, now: u64) {
        if now < self.base {
            self.rewind(now);
        }
        let mut front = std::mem::take(&mut self.front);
        front.drain(std::mem::take(&mut self.taken)..).for_each(|entry| self.place(entry));
        // What had been taken out goes with the rest; the memory is kept.
        front.clear();
        self.front = front;
        self.covered = None;
    }

    /// Moves `base` back to `now`. This is for whoever looked ahead and then schedules earlier events after all.
    ///
    /// With the highest digit in which the two differ, entries that differ from the old base there or above differ
    /// from the new one in the same digit; the others come together in one bucket, which was empty: that of the old
    /// base's own digit.
    fn rewind(&mut self, now: u64) {
        let level = level_of(self.base, now);
        let mut together = Vec::new();
        for lower in 0..level {
            self.occupied[lower] = 0;
            for list in lower * BUCKETS..(lower + 1) * BUCKETS {
                self.buckets.drain(list, |_, entries| together.extend_from_slice(entries));
            }
        }
        self.base = now;
        for entry in together {
            self.place(entry);
        }
    }
}
