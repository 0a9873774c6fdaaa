//! Computes how long a computer takes for its work.

use fedrecsim_core::SimDuration;
use fedrecsim_core::work::Work;
use fedrecsim_scenario::ServerSpec;

/// The speed of a device, or of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speed {
    /// Time per row visit.
    pub picoseconds_per_row_visit: u64,
    /// Time per multiplication with an addition.
    pub picoseconds_per_multiply_add: u64,
    /// Time that every participation takes before its first operation: the start of the app, the
    /// load of the table.
    pub fixed: SimDuration,
}

impl Speed {
    /// Returns the speed of the server, and of every third party.
    pub fn of_server(server: &ServerSpec) -> Self {
        Self {
            picoseconds_per_row_visit: picoseconds(server.ns_per_row_visit),
            picoseconds_per_multiply_add: picoseconds(server.ns_per_multiply_add),
            fixed: SimDuration::ZERO,
        }
    }

    /// Returns the virtual time that `work` takes, rounded up to a nanosecond.
    pub fn time_for(&self, work: Work) -> SimDuration {
        let picoseconds = self.picoseconds_for(work);
        let operations = match u64::try_from(picoseconds) {
            // The sum nearly always fits, and dividing it is then many times as fast.
            Ok(picoseconds) => picoseconds.div_ceil(1000),
            Err(_) => u64::try_from(picoseconds.div_ceil(1000)).unwrap_or(u64::MAX),
        };
        self.fixed + SimDuration::from_nanos(operations)
    }

    /// Returns how much of `work` is done after `elapsed`: nothing within the fixed time, then of
    /// all kinds of operations the same share. Only whole operations count.
    pub fn done_in(&self, elapsed: SimDuration, work: Work) -> Work {
        let operations_ns = elapsed.as_nanos().saturating_sub(self.fixed.as_nanos());
        let (mut done, mut whole) = (u128::from(operations_ns) * 1000, self.picoseconds_for(work));
        if elapsed < self.fixed {
            return Work::default();
        }
        if done >= whole {
            return work;
        }
        // The share is shortened to less than 64 bits, so that its product with an amount fits.
        while done > u128::from(u64::MAX) {
            (done, whole) = (done >> 1, whole >> 1);
        }
        let share =
            |amount: u64| u64::try_from(u128::from(amount) * done / whole).unwrap_or(amount);
        Work {
            row_visits: share(work.row_visits),
            multiply_adds: share(work.multiply_adds),
        }
    }

    fn picoseconds_for(&self, work: Work) -> u128 {
        let visits = u128::from(work.row_visits) * u128::from(self.picoseconds_per_row_visit);
        visits.saturating_add(
            u128::from(work.multiply_adds) * u128::from(self.picoseconds_per_multiply_add),
        )
    }
}

/// Rounds a time per operation to the picosecond.
pub(super) fn picoseconds(nanoseconds: f64) -> u64 {
    (nanoseconds * 1000.0 + 0.5) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(row_visits: u64, multiply_adds: u64) -> Work {
        Work {
            row_visits,
            multiply_adds,
        }
    }

    /// If this fails, a training takes another time than its operations do at the device's speed.
    #[test]
    fn time_is_the_fixed_part_and_every_operation_at_its_speed() {
        let mut speed = Speed {
            picoseconds_per_row_visit: 1_500,
            ..Speed::default()
        };
        assert_eq!(
            speed.time_for(work(3, 9)).as_nanos(),
            5,
            "4.5 ns rounded up"
        );
        speed.picoseconds_per_multiply_add = 250;
        assert_eq!(speed.time_for(work(3, 10)).as_nanos(), 7);
        speed.fixed = SimDuration::from_nanos(100);
        assert_eq!(speed.time_for(work(3, 10)).as_nanos(), 107);
        assert_eq!(speed.time_for(Work::default()).as_nanos(), 100);
        let slow = Speed {
            picoseconds_per_row_visit: u64::MAX,
            picoseconds_per_multiply_add: u64::MAX,
            ..speed
        };
        assert_eq!(
            slow.time_for(work(u64::MAX, u64::MAX)).as_nanos(),
            u64::MAX,
            "and never less for more"
        );
    }

    #[test]
    fn of_work_that_is_cut_off_every_kind_is_done_in_the_same_share() {
        let mut speed = Speed {
            picoseconds_per_row_visit: 1_500,
            ..Speed::default()
        };
        let visits = |nanoseconds| {
            speed
                .done_in(SimDuration::from_nanos(nanoseconds), work(9, 0))
                .row_visits
        };
        assert_eq!(
            [visits(4), visits(5), visits(6), visits(99)],
            [2, 3, 4, 9],
            "only whole ones count"
        );
        speed.picoseconds_per_multiply_add = 500;
        speed.fixed = SimDuration::from_nanos(10);
        let done = |nanoseconds| speed.done_in(SimDuration::from_nanos(nanoseconds), work(10, 30));
        assert_eq!(speed.time_for(work(10, 30)).as_nanos(), 40);
        assert_eq!(
            [done(9), done(10), done(25), done(40)],
            [work(0, 0), work(0, 0), work(5, 15), work(10, 30)]
        );
        let slow = Speed {
            picoseconds_per_row_visit: u64::MAX,
            ..Speed::default()
        };
        let half = slow
            .done_in(SimDuration::from_nanos(u64::MAX), work(2_000, 0))
            .row_visits;
        assert_eq!(half, 1_000);
    }
}
