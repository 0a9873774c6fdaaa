//! The event calendar: what happens next in virtual time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::units::SimTime;

/// Pending events, popped in the order of (time, sequence): events of one instant in the order in which they
/// were scheduled.
#[derive(Debug)]
pub struct Calendar<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    next_sequence: u64,
    now: SimTime,
}

#[derive(Debug)]
struct Entry<E> {
    time: SimTime,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (SimTime, u64) {
        (self.time, self.sequence)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Default for Calendar<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), next_sequence: 0, now: SimTime::ZERO }
    }
}

impl<E> Calendar<E> {
    /// The virtual time: that of the event popped last.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Schedules `event` at `time`; a time in the past means now, so that the clock never runs backwards.
    pub fn schedule(&mut self, time: SimTime, event: E) {
        let entry = Entry { time: time.max(self.now), sequence: self.next_sequence, event };
        self.next_sequence += 1;
        self.heap.push(Reverse(entry));
    }

    /// Removes the next event and moves the clock to it.
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.time;
        Some((entry.time, entry.event))
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn entries_are_equal_exactly_where_their_order_says_so() {
        // The heap relies on it.
        let entry = |time, sequence| Entry { time: SimTime::from_nanos(time), sequence, event: () };
        for (left, right) in [((1, 2), (1, 2)), ((1, 2), (1, 3)), ((1, 2), (2, 2))] {
            let (left, right) = (entry(left.0, left.1), entry(right.0, right.1));
            assert_eq!(left == right, left.cmp(&right) == Ordering::Equal);
            assert_eq!(left.partial_cmp(&right), Some(left.cmp(&right)));
        }
    }

    proptest! {
        /// If this fails, events happen in another order than that of virtual time, first in first out.
        #[test]
        fn pops_in_order_of_time_then_of_scheduling(
            operations in prop::collection::vec(prop_oneof![3 => (0u64..50).prop_map(Some), 2 => Just(None)], 0..200)
        ) {
            let mut calendar = Calendar::default();
            // The reference: a list searched for the least (time, number).
            let mut pending: Vec<(u64, usize)> = Vec::new();
            let mut now = 0;
            for (number, operation) in operations.into_iter().enumerate() {
                if let Some(time) = operation {
                    calendar.schedule(SimTime::from_nanos(time), number);
                    pending.push((time.max(now), number));
                } else {
                    let expected = pending.iter().min().copied();
                    pending.retain(|entry| Some(*entry) != expected);
                    let popped = calendar.pop().map(|(time, event)| (time.as_nanos(), event));
                    prop_assert_eq!(popped, expected);
                    now = expected.map_or(now, |(time, _)| time);
                    prop_assert_eq!(calendar.now().as_nanos(), now);
                }
                prop_assert_eq!(calendar.len(), pending.len());
                prop_assert_eq!(calendar.is_empty(), pending.is_empty());
            }
        }
    }
}
