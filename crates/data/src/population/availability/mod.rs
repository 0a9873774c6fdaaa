//! Decides when users can take part.
//!
//! Every pattern answers one question, which is the first stay of a user that ends after an
//! instant; the clock's questions follow from it. Outages, which are fault rules, shorten the stays
//! of the users that they hit. An answer depends on the user and the instant alone, never on
//! what was asked before.

use std::sync::Arc;

use fedrecsim_core::{Purpose, Result, SimTime, Streams, UserId};
use fedrecsim_scenario::{AvailabilityPattern, AvailabilitySpec, FaultSpec};

mod daily;
mod groups;
mod on_off;
mod outages;
mod trace;

#[cfg(test)]
mod tests;

pub(super) use daily::Daily;
pub(super) use groups::{Groups, Rule};
use on_off::OnOff;
use outages::Outages;
pub(super) use trace::AvailabilityTrace;

/// Knows when the users of a run can take part. It never changes and is shared by all who ask.
#[derive(Clone, Debug)]
pub struct Availability {
    users: u32,
    pattern: Pattern,
    outages: Outages,
}

#[derive(Clone, Debug)]
enum Pattern {
    Always,
    Daily(Daily),
    OnOff(OnOff),
    Trace(Arc<AvailabilityTrace>),
}

/// A time during which a user is available, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stay {
    /// Its first instant, or a later one that is not after the one asked about.
    from: u64,
    /// The first instant after it; `None` if it never ends.
    until: Option<u64>,
}

impl Availability {
    /// Makes the availability of `users` users: a pattern minus the outages among `faults`. `trace`
    /// is what was read of the file that `spec` names, if it names one.
    ///
    /// # Errors
    /// [`Error::Usage`](fedrecsim_core::Error::Usage) if it names a file and that was not read.
    pub(super) fn new(
        spec: &AvailabilitySpec,
        faults: &[FaultSpec],
        users: u32,
        trace: Option<Arc<AvailabilityTrace>>,
        groups: &Arc<Groups>,
        streams: Streams,
    ) -> Result<Self> {
        let pattern = match &spec.pattern {
            AvailabilityPattern::Always => Pattern::Always,
            AvailabilityPattern::Daily(daily) => match Daily::new(daily, streams) {
                daily if daily.is_always() => Pattern::Always,
                daily => Pattern::Daily(daily),
            },
            AvailabilityPattern::OnOff(on_off) => {
                Pattern::OnOff(OnOff::new(on_off, Purpose::Availability, streams))
            }
            AvailabilityPattern::Trace { path, .. } => {
                Pattern::Trace(super::was_read(trace, path)?)
            }
        };
        Ok(Self {
            users,
            pattern,
            outages: Outages::new(faults, groups, streams),
        })
    }

    /// Returns whether everybody is available at any time, judged by the pattern and by whether
    /// there are outages.
    pub fn is_always(&self) -> bool {
        matches!(self.pattern, Pattern::Always) && self.outages.is_empty()
    }

    /// Returns a clock that answers questions about these users.
    pub fn clock(self: &Arc<Self>) -> AvailabilityClock {
        let cached = if self.is_always() {
            0
        } else {
            self.users as usize
        };
        // The system gives zeroed memory without touching it, so memory is used only for users who
        // are asked about.
        AvailabilityClock {
            availability: Arc::clone(self),
            cache: vec![[0; 3]; cached],
        }
    }

    /// Returns the number of the fault rule whose outage keeps `user` away at the instant `at`,
    /// counted from 0 among all rules of the scenario, and the first one if there are several.
    /// Returns `None` if the pattern itself keeps the user away then, or nothing does.
    pub fn outage_at(&self, user: UserId, at: SimTime) -> Option<u32> {
        let at = at.as_nanos();
        if self.outages.is_empty() {
            return None;
        }
        let is_there = self
            .pattern
            .stay_after(user, at)
            .is_some_and(|stay| stay.from <= at);
        is_there.then(|| self.outages.rule_at(user, at)).flatten()
    }

    /// Returns the user's first stay that ends after `at`; `None` if there is none before the end
    /// of time.
    fn stay_after(&self, user: UserId, mut at: u64) -> Option<Stay> {
        loop {
            let stay = self.pattern.stay_after(user, at)?;
            if self.outages.is_empty() {
                return Some(stay);
            }
            let from = self.outages.first_without(user, stay.from.max(at))?;
            if stay.until.is_some_and(|until| until <= from) {
                // The outage lasts longer than the stay.
                at = from;
                continue;
            }
            let until = [stay.until, self.outages.first_after(user, from)]
                .into_iter()
                .flatten()
                .min();
            return Some(Stay { from, until });
        }
    }
}

impl Pattern {
    /// Returns the user's first stay that ends after `at`; `None` if there is none before the end
    /// of time.
    fn stay_after(&self, user: UserId, at: u64) -> Option<Stay> {
        match self {
            Self::Always => Some(Stay {
                from: 0,
                until: None,
            }),
            Self::Daily(daily) => daily.stay_after(user, at),
            Self::OnOff(on_off) => on_off.stay_after(user, at),
            Self::Trace(trace) => trace.stay_after(user, at),
        }
    }
}

/// Answers when users are available, and remembers the last stay of each, which takes 24 bytes for
/// a user who was asked about.
///
/// Questions may come in any order; those about instants that do not go back are the cheapest.
#[derive(Clone, Debug)]
pub struct AvailabilityClock {
    availability: Arc<Availability>,
    /// For each user, the instant of the last question, and the beginning and end of the stay that
    /// was the answer. They answer every question from that instant up to the stay's end; 2^64 - 1
    /// stands for no end.
    cache: Vec<[u64; 3]>,
}

impl AvailabilityClock {
    /// Returns whether `user` is available at the instant `at`.
    pub fn is_available(&mut self, user: UserId, at: SimTime) -> bool {
        self.next_arrival(user, at) == Some(at)
    }

    /// Returns the end of the stay that covers `at`, which is the first instant when `user` is
    /// gone. Returns `at` itself if the user is not available then, and `None` if the user never
    /// leaves.
    pub fn leaves_at(&mut self, user: UserId, at: SimTime) -> Option<SimTime> {
        match self.stay_after(user, at.as_nanos()) {
            Some(stay) if stay.from <= at.as_nanos() => stay.until.map(SimTime::from_nanos),
            _ => Some(at),
        }
    }

    /// Returns the first instant from `at` on when `user` is available; `None` if the user never is
    /// again.
    pub fn next_arrival(&mut self, user: UserId, at: SimTime) -> Option<SimTime> {
        let stay = self.stay_after(user, at.as_nanos())?;
        Some(SimTime::from_nanos(stay.from).max(at))
    }

    fn stay_after(&mut self, user: UserId, at: u64) -> Option<Stay> {
        let Some(cached) = self.cache.get_mut(user.index()) else {
            return self.availability.stay_after(user, at);
        };
        if (cached[0]..cached[2]).contains(&at) {
            return Some(Stay {
                from: cached[1],
                until: (cached[2] != u64::MAX).then_some(cached[2]),
            });
        }
        let stay = self.availability.stay_after(user, at)?;
        *cached = [at, stay.from, stay.until.unwrap_or(u64::MAX)];
        Some(stay)
    }
}
