//! The event calendar, which tells what happens next in virtual time.
//!
//! The queue (`queue.rs`, on the lists of `buckets.rs`) sorts small entries. The events themselves
//! stay in slots that are reused, and are touched once on the way in and once on the way out. A
//! cancelled event leaves its slot at once and its entry later.

mod buckets;
mod queue;
#[cfg(test)]
mod tests;

use self::buckets::Entry;
use self::queue::Queue;
use fedrecsim_core::SimTime;

/// The number of cancelled entries that are always tolerated. Sweeping out fewer is not worth a
/// pass over the buckets.
const CANCELLED_TOLERATED: usize = 1024;

/// Pending events, which are popped in the order of time, and within one instant in the order of
/// scheduling.
///
/// On average, the time for scheduling and popping does not grow with the number of pending events:
/// an entry goes through eleven buckets at most, and mostly through two or three. The same holds
/// for cancelling, since cancelled entries are swept out when they outnumber the pending ones. So
/// the memory is that of twice the largest number of events ever pending at a time. There is one
/// bad case: if many earlier events are scheduled after looking ahead with [`Calendar::next_time`],
/// the entries between the two instants go back into one bucket.
#[derive(Debug)]
pub struct Calendar<E> {
    queue: Queue,
    slots: Vec<Slot<E>>,
    /// The slots without an event. The one that was freed last is used next, as it is still in the
    /// cache.
    free: Vec<u32>,
    pending: usize,
    now: SimTime,
}

#[derive(Debug)]
struct Slot<E> {
    event: Option<E>,
    /// The number of events that this slot has held before.
    generation: u32,
}

/// Names one event of one calendar, and never a later event. [`Calendar::schedule`] returns it, for
/// [`Calendar::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Appointment {
    slot: u32,
    generation: u32,
}

impl<E> Slot<E> {
    /// Removes and returns the event of an appointment, if it is still there, and ends the
    /// generation.
    fn take(&mut self, generation: u32) -> Option<E> {
        if self.generation != generation {
            return None;
        }
        let event = self.event.take()?;
        self.generation = self.generation.saturating_add(1);
        Some(event)
    }

    /// Returns whether another event may be put here. After 2^32 - 1 generations the number would
    /// repeat, and an old appointment would cancel a new event, so such a slot is not used again.
    fn is_usable(&self) -> bool {
        self.generation < u32::MAX
    }
}

/// Returns whether the event of an entry is still to come.
fn is_live<E>(slots: &[Slot<E>], entry: &Entry) -> bool {
    slots[entry.slot as usize].generation == entry.generation
}

impl<E> Default for Calendar<E> {
    fn default() -> Self {
        Self {
            queue: Queue::default(),
            slots: Vec::new(),
            free: Vec::new(),
            pending: 0,
            now: SimTime::ZERO,
        }
    }
}

impl<E> Calendar<E> {
    /// Makes the calendar of a checkpoint, with `events` in the order that [`Calendar::pending`]
    /// gives them. The order counts where times are equal. The appointments are those of the
    /// events, in the same order.
    pub(crate) fn restore(now: SimTime, events: &[(SimTime, E)]) -> (Self, Vec<Appointment>)
    where
        E: Copy,
    {
        let mut calendar = Self {
            now,
            ..Self::default()
        };
        let appointments = events
            .iter()
            .map(|(time, event)| calendar.schedule(*time, *event))
            .collect();
        (calendar, appointments)
    }

    /// Returns the virtual time, which is the time of the event that was popped last.
    pub(crate) fn now(&self) -> SimTime {
        self.now
    }

    /// Schedules `event` at `time`. A time in the past means now, so that the clock never runs
    /// backwards.
    pub fn schedule(&mut self, time: SimTime, event: E) -> Appointment {
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize].event = Some(event);
            slot
        } else {
            self.slots.push(Slot {
                event: Some(event),
                generation: 0,
            });
            // The number fits, since 2^32 entries would take 64 GB.
            (self.slots.len() - 1) as u32
        };
        let generation = self.slots[slot as usize].generation;
        let time = time.max(self.now).as_nanos();
        self.queue.push(
            Entry {
                time,
                slot,
                generation,
            },
            self.now.as_nanos(),
        );
        self.pending += 1;
        Appointment { slot, generation }
    }

    /// Cancels a scheduled event and returns it; `None` if it has happened or was cancelled before.
    pub(crate) fn cancel(&mut self, appointment: Appointment) -> Option<E> {
        let event = self.take(appointment.slot, appointment.generation)?;
        if self.queue.len() - self.pending > self.pending + CANCELLED_TOLERATED {
            let slots = &self.slots;
            self.queue.retain(|entry| is_live(slots, entry));
        }
        Some(event)
    }

    /// Removes and returns the next event, and moves the clock to it.
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        loop {
            let slots = &self.slots;
            let entry = self
                .queue
                .remove_first(self.now.as_nanos(), |entry| is_live(slots, entry))?;
            if let Some(event) = self.take(entry.slot, entry.generation) {
                self.now = SimTime::from_nanos(entry.time);
                return Some((self.now, event));
            }
        }
    }

    /// Returns the time of the next event. The clock does not move, and earlier events may still be
    /// scheduled.
    pub(crate) fn next_time(&mut self) -> Option<SimTime> {
        self.first().map(|entry| SimTime::from_nanos(entry.time))
    }

    /// Returns the event that is likely to be popped after `position` others, so that what it needs
    /// can be prefetched. The answer may be `None` although there is such an event, and other
    /// events may still come before it.
    pub(crate) fn upcoming(&self, position: usize) -> Option<&E> {
        self.slots[self.queue.sorted(position)?.slot as usize]
            .event
            .as_ref()
    }

    /// Returns every pending event, in the order of popping.
    pub(crate) fn pending(&self) -> Vec<(SimTime, &E)> {
        let entries = self.queue.iter();
        let live = entries.filter(|entry| is_live(&self.slots, entry));
        let event = |entry: &Entry| {
            let event = self.slots[entry.slot as usize].event.as_ref()?;
            Some((SimTime::from_nanos(entry.time), event))
        };
        let mut pending: Vec<_> = live.filter_map(event).collect();
        // The queue gives the events of one instant in their order, and the sort is stable.
        pending.sort_by_key(|(time, _)| *time);
        pending
    }

    fn first(&mut self) -> Option<Entry> {
        let slots = &self.slots;
        self.queue
            .first(self.now.as_nanos(), |entry| is_live(slots, entry))
    }

    /// Takes an event out of its slot, and returns it.
    fn take(&mut self, slot: u32, generation: u32) -> Option<E> {
        let place = self.slots.get_mut(slot as usize)?;
        let event = place.take(generation)?;
        if place.is_usable() {
            self.free.push(slot);
        }
        self.pending -= 1;
        Some(event)
    }
}
