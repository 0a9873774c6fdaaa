//! The event calendar: what happens next in virtual time.
//!
//! The queue (`queue.rs`, on the lists of `buckets.rs`) sorts small entries; the events themselves stay in slots that
//! are reused, and are touched once on the way in and once on the way out. A cancelled event leaves its slot at once and
//! its entry later.

mod buckets;
mod queue;
#[cfg(test)]
mod tests;

use self::buckets::Entry;
use self::queue::Queue;
use crate::units::SimTime;

/// So many cancelled entries are always tolerated: looking through the buckets is not worth less.
const CANCELLED_TOLERATED: usize = 1024;

/// Pending events, popped in the order of time; events of one instant in the order in which they were scheduled.
///
/// Scheduling and popping take time that does not grow with what is pending, on average: an entry goes through eleven
/// buckets at most, mostly two or three. So does cancelling: what is cancelled is swept out when it outnumbers what is
/// pending. So memory is that of twice the events that were ever pending at one time, however many were scheduled and
/// cancelled since. Looking ahead with [`Calendar::next_time`] and then scheduling earlier events has one worst case:
/// many of them at a time make entries between the two go back into one bucket.
#[derive(Debug)]
pub struct Calendar<E> {
    queue: Queue,
    slots: Vec<Slot<E>>,
    /// Slots without an event; the one left last is the next to be used, as it is still in the cache.
    free: Vec<u32>,
    pending: usize,
    now: SimTime,
}

#[derive(Debug)]
struct Slot<E> {
    event: Option<E>,
    /// Events that this slot has held before.
    generation: u32,
}

/// What [`Calendar::schedule`] gives for [`Calendar::cancel`]: one event of one calendar, never a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Appointment {
    slot: u32,
    generation: u32,
}

impl<E> Slot<E> {
    /// Takes the event of an appointment, if it is still there, and ends the generation.
    fn take(&mut self, generation: u32) -> Option<E> {
        if self.generation != generation {
            return None;
        }
        let event = self.event.take()?;
        self.generation = self.generation.saturating_add(1);
        Some(event)
    }

    /// Whether another event may be put here. After 2^32 - 1 generations the number would repeat, and an old
    /// appointment would cancel a new event: such a slot is given up.
    fn is_usable(&self) -> bool {
        self.generation < u32::MAX
    }
}

/// Whether the event of an entry is still to come.
fn is_live<E>(slots: &[Slot<E>], entry: &Entry) -> bool {
    slots[entry.slot as usize].generation == entry.generation
}

impl<E> Default for Calendar<E> {
    fn default() -> Self {
        Self { queue: Queue::default(), slots: Vec::new(), free: Vec::new(), pending: 0, now: SimTime::ZERO }
    }
}

impl<E> Calendar<E> {
    /// The calendar of a checkpoint: `events` in the order in which they are to be popped where their times are equal,
    /// as [`Calendar::pending`] gives them. The appointments are theirs, in the same order.
    pub fn restore(now: SimTime, events: Vec<(SimTime, E)>) -> (Self, Vec<Appointment>) {
        let mut calendar = Self { now, ..Self::default() };
        let appointments = events.into_iter().map(|(time, event)| calendar.schedule(time, event)).collect();
        (calendar, appointments)
    }

    /// The virtual time: that of the event popped last.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Schedules `event` at `time`; a time in the past means now, so that the clock never runs backwards.
    pub fn schedule(&mut self, time: SimTime, event: E) -> Appointment {
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize].event = Some(event);
            slot
        } else {
            self.slots.push(Slot { event: Some(event), generation: 0 });
            // 2^32 entries would take 64 GB.
            (self.slots.len() - 1) as u32
        };
        let generation = self.slots[slot as usize].generation;
        let time = time.max(self.now).as_nanos();
        self.queue.push(Entry { time, slot, generation }, self.now.as_nanos());
        self.pending += 1;
        Appointment { slot, generation }
    }

    /// Takes a scheduled event back; `None` if it has happened or was cancelled before.
    pub fn cancel(&mut self, appointment: Appointment) -> Option<E> {
        let event = self.take(appointment.slot, appointment.generation)?;
        if self.queue.len() - self.pending > self.pending + CANCELLED_TOLERATED {
            let slots = &self.slots;
            self.queue.retain(|entry| is_live(slots, entry));
        }
        Some(event)
    }

    /// Removes the next event and moves the clock to it.
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        loop {
            let slots = &self.slots;
            let entry = self.queue.remove_first(self.now.as_nanos(), |entry| is_live(slots, entry))?;
            if let Some(event) = self.take(entry.slot, entry.generation) {
                self.now = SimTime::from_nanos(entry.time);
                return Some((self.now, event));
            }
        }
    }

    /// The time of the next event. The clock stays where it is, and earlier events may still be scheduled.
    pub fn next_time(&mut self) -> Option<SimTime> {
        self.first().map(|entry| SimTime::from_nanos(entry.time))
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.pending
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.pending == 0
    }

    /// Every pending event, in the order in which they would be popped.
    pub fn pending(&self) -> Vec<(SimTime, Appointment, &E)> {
        let mut pending = Vec::with_capacity(self.pending);
        for entry in self.queue.iter().filter(|entry| is_live(&self.slots, entry)) {
            let appointment = Appointment { slot: entry.slot, generation: entry.generation };
            if let Some(event) = &self.slots[entry.slot as usize].event {
                pending.push((SimTime::from_nanos(entry.time), appointment, event));
            }
        }
        // The queue has the events of one instant in their order, and the sort is stable.
        pending.sort_by_key(|(time, ..)| *time);
        pending
    }

    fn first(&mut self) -> Option<Entry> {
        let slots = &self.slots;
        self.queue.first(self.now.as_nanos(), |entry| is_live(slots, entry))
    }

    /// Takes an event out of its slot.
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
