//! Compares the calendar with a sorted list, and tests what can go wrong in its buckets.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Operation {
    /// Schedules an event this many nanoseconds after now, and the next one this many before.
    After(u64),
    Before(u64),
    Pop,
    Look,
    /// Cancels one of all appointments ever made.
    Cancel(prop::sample::Index),
    Restore,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    // The delays have every magnitude up to the end of time, and many of them are equal.
    let delay = prop_oneof![
        4 => 0u64..4,
        4 => 0u64..5_000,
        2 => (0u32..64, 0u64..3).prop_map(|(bits, more)| (1u64 << bits) + more),
        1 => Just(u64::MAX),
    ];
    let operation = prop_oneof![
        10 => delay.prop_map(Operation::After),
        1 => (0u64..100).prop_map(Operation::Before),
        5 => Just(Operation::Pop),
        2 => Just(Operation::Look),
        3 => any::<prop::sample::Index>().prop_map(Operation::Cancel),
    ];
    // Restoring takes time for every event, so it is rare.
    let operation = prop_oneof![60 => operation, 1 => Just(Operation::Restore)];
    prop::collection::vec(operation, 0..600)
}

/// The reference, which is a list that is searched for the least (time, number).
#[derive(Default)]
struct List {
    pending: Vec<(u64, usize)>,
    now: u64,
}

impl List {
    fn first(&self) -> Option<(u64, usize)> {
        self.pending.iter().min().copied()
    }

    fn pop(&mut self) -> Option<(u64, usize)> {
        let first = self.first()?;
        self.pending.retain(|entry| *entry != first);
        self.now = first.0;
        Some(first)
    }
}

proptest! {
    /// If this fails, events happen in another order than that of virtual time, first in first out;
    /// or a cancelled event happens, or one that was not cancelled does not; or a restored calendar
    /// goes on differently.
    #[test]
    fn the_calendar_does_what_a_sorted_list_does(operations in operations()) {
        let mut calendar = Calendar::default();
        let mut list = List::default();
        let mut appointments = Vec::new();
        for operation in operations {
            match operation {
                Operation::After(_) | Operation::Before(_) => {
                    let time = match operation {
                        Operation::After(delay) => list.now.saturating_add(delay),
                        Operation::Before(time) => list.now.saturating_sub(time),
                        _ => unreachable!(),
                    };
                    let number = appointments.len();
                    appointments.push(calendar.schedule(SimTime::from_nanos(time), number));
                    list.pending.push((time.max(list.now), number));
                }
                Operation::Pop => {
                    let popped = calendar.pop().map(|(time, event)| (time.as_nanos(), event));
                    prop_assert_eq!(popped, list.pop());
                }
                Operation::Look => {
                    let next = calendar.next_time().map(SimTime::as_nanos);
                    prop_assert_eq!(next, list.first().map(|(time, _)| time));
                    // Having looked, the calendar has sorted the first event at least.
                    prop_assert_eq!(calendar.upcoming(0).copied(), list.first().map(|(_, event)| event));
                }
                Operation::Cancel(_) if appointments.is_empty() => {}
                Operation::Cancel(index) => {
                    let number = index.index(appointments.len());
                    let is_pending = list.pending.iter().any(|(_, event)| *event == number);
                    list.pending.retain(|(_, event)| *event != number);
                    prop_assert_eq!(calendar.cancel(appointments[number]), is_pending.then_some(number));
                }
                Operation::Restore => {
                    let pending = calendar.pending();
                    let saved: Vec<_> = pending.into_iter().map(|(time, event)| (time, *event)).collect();
                    let (restored, renewed) = Calendar::restore(calendar.now(), &saved);
                    // The appointments of the former calendar are not valid in the restored one.
                    let nothing = Appointment { slot: u32::MAX, generation: 0 };
                    appointments.fill(nothing);
                    for ((_, number), appointment) in saved.into_iter().zip(renewed) {
                        appointments[number] = appointment;
                    }
                    calendar = restored;
                }
            }
            prop_assert_eq!(calendar.now().as_nanos(), list.now);
            prop_assert_eq!(calendar.pending, list.pending.len());
                    }
        list.pending.sort_unstable();
        let pending: Vec<_> =
            calendar.pending().into_iter().map(|(time, event)| (time.as_nanos(), *event)).collect();
        prop_assert_eq!(&pending, &list.pending, "what is pending, in its order");
        let rest: Vec<_> = std::iter::from_fn(|| calendar.pop()).map(|(time, event)| (time.as_nanos(), event)).collect();
        prop_assert_eq!(rest, pending);
    }
}

/// Returns a delay that looks random and is the same on every machine.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
}

#[test]
fn many_events_come_out_in_order_through_every_level() {
    // This goes from a few instants with very many events each to as many instants as events, in
    // lists of many chunks.
    for bits in [4, 10, 24] {
        let mut calendar = Calendar::default();
        let mut expected: Vec<(u64, u64)> = (0..20_000)
            .map(|number| (scattered(number) >> (24 - bits), number))
            .collect();
        for &(time, number) in &expected {
            calendar.schedule(SimTime::from_nanos(time), number);
        }
        expected.sort_unstable();
        let pending: Vec<(u64, u64)> = calendar
            .pending()
            .into_iter()
            .map(|(time, number)| (time.as_nanos(), *number))
            .collect();
        assert_eq!(pending, expected);
        for expected in expected {
            assert_eq!(
                calendar
                    .pop()
                    .map(|(time, number)| (time.as_nanos(), number)),
                Some(expected)
            );
        }
        assert_eq!(calendar.pop(), None);
    }
}

#[test]
fn looking_ahead_costs_earlier_events_nothing() {
    // Events are scheduled before the one that was looked at, in falling, rising and mixed order.
    // They are more than the front takes, so that it goes back into buckets that are filled from an
    // earlier base.
    let mut calendar = Calendar::default();
    for number in 0..5_000 {
        calendar.schedule(SimTime::from_nanos(1 << 40 | scattered(number)), number);
    }
    assert!(
        calendar
            .next_time()
            .is_some_and(|time| time.as_nanos() >= 1 << 40)
    );
    for number in 0..5_000 {
        calendar.schedule(SimTime::from_nanos(scattered(number + 7)), number);
        if number % 100 == 0 {
            calendar.next_time();
        }
    }
    let times: Vec<u64> = std::iter::from_fn(|| calendar.pop())
        .map(|(time, _)| time.as_nanos())
        .collect();
    assert_eq!(times.len(), 10_000);
    assert!(times.is_sorted());
}

#[test]
fn an_appointment_never_cancels_a_later_event_in_its_slot() {
    let mut calendar = Calendar::default();
    let first = calendar.schedule(SimTime::ZERO, 'a');
    assert_eq!(calendar.pop(), Some((SimTime::ZERO, 'a')));
    let second = calendar.schedule(SimTime::ZERO, 'b');
    assert_eq!(first.slot, second.slot, "the slot is reused");
    assert_eq!(calendar.cancel(first), None);
    assert_eq!(calendar.cancel(second), Some('b'));
    assert_eq!(calendar.cancel(second), None);
    assert_eq!(calendar.next_time(), None);
    // A slot that has used up its generations is not used again.
    calendar.slots[0].generation = u32::MAX - 1;
    let last = calendar.schedule(SimTime::ZERO, 'c');
    assert_eq!((last.slot, calendar.cancel(last)), (0, Some('c')));
    let other = calendar.schedule(SimTime::ZERO, 'd');
    assert_eq!((other.slot, calendar.cancel(last)), (1, None));
    assert_eq!(
        calendar.cancel(Appointment {
            slot: 0,
            generation: u32::MAX
        }),
        None,
        "nothing was ever there"
    );
    assert_eq!(calendar.pop(), Some((SimTime::ZERO, 'd')));
}

#[test]
fn rescheduling_without_end_takes_no_memory() {
    let mut calendar = Calendar::default();
    let mut appointments: Vec<Appointment> = (0..100)
        .map(|number| calendar.schedule(SimTime::from_nanos(number), number))
        .collect();
    for round in 0..100_000u64 {
        let place = scattered(round) as usize % appointments.len();
        let event = calendar.cancel(appointments[place]);
        assert!(event.is_some());
        appointments[place] = calendar.schedule(SimTime::from_nanos(scattered(round)), round);
    }
    assert_eq!(calendar.pending, 100);
    assert_eq!(calendar.slots.len(), 100);
    assert!(calendar.queue.len() <= 2 * 100 + CANCELLED_TOLERATED + 1);
    assert_eq!(calendar.pending().len(), 100);
}
