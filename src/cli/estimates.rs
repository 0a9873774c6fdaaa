//! Says what a run is expected to take, and refuses one that would not fit into memory.

use std::sync::Arc;
use std::time::Duration;

use super::memory;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::units::Bytes;
use fedrecsim_report::report::words::duration;
use fedrecsim_sim::sim::{self, Estimate, RehearsalLength, World};

/// The length of the rehearsal of `validate --estimate`.
const LONG_REHEARSAL: RehearsalLength = RehearsalLength {
    rounds: 3,
    at_least: Duration::from_secs(2),
    at_most: Duration::from_secs(20),
};

/// The length of the rehearsal in front of a run.
const SHORT_REHEARSAL: RehearsalLength = RehearsalLength {
    rounds: 2,
    at_least: Duration::from_millis(50),
    at_most: Duration::from_secs(1),
};

/// The memory that any run takes beside its data, devices, uploads and what its rehearsal has left
/// in use: more buffers of the threads, bookings, and the report with its charts. Measured over the
/// scenarios of this repository.
const BYTES_OF_ANY_RUN: u64 = 12 << 20;

/// What a run is expected to take on this machine.
pub(crate) struct Expected {
    estimate: Estimate,
    /// The memory of this process with its data, before the first round.
    resident_bytes: u64,
    /// The memory that the run may take beside that; `None` where the system does not tell.
    free_bytes: Option<u64>,
    users: usize,
    threads: usize,
}

impl Expected {
    /// Rehearses the first rounds of `world`, more of them if `thoroughly`.
    ///
    /// # Errors
    /// As [`sim::estimate`].
    pub(crate) fn of(world: &Arc<World>, threads: usize, thoroughly: bool) -> Result<Self> {
        let rehearsal = if thoroughly {
            LONG_REHEARSAL
        } else {
            SHORT_REHEARSAL
        };
        let estimate = sim::estimate(world, threads, rehearsal)?;
        let resident_bytes = memory::resident_bytes().unwrap_or(0);
        Ok(Self {
            estimate,
            resident_bytes,
            free_bytes: memory::free_bytes(),
            users: world.dataset.users(),
            threads,
        })
    }

    /// Returns the memory that the process will have at its peak.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.resident_bytes + self.needed_bytes()
    }

    /// Returns the wall-clock time of a round, in seconds.
    pub(crate) fn round_s(&self) -> f64 {
        self.estimate.wall_time_per_round_s
    }

    /// Returns the part of it, in seconds, that is neither training nor scoring, which more threads
    /// may not shorten.
    pub(crate) fn serial_s(&self) -> f64 {
        self.estimate.serial_time_per_round_s
    }

    /// Returns the memory that the run needs beside what the process has.
    pub(crate) fn needed_bytes(&self) -> u64 {
        self.estimate.memory.total_bytes() + BYTES_OF_ANY_RUN
    }

    /// Returns the expectation in one line.
    pub(crate) fn line(&self) -> String {
        let Estimate {
            bytes_per_round,
            virtual_time_per_round_s,
            wall_time_per_round_s,
            ..
        } = &self.estimate;
        format!(
            "a round sends {} up and {} down, takes {} of virtual time and {} here on {}; the run needs {} of memory",
            Bytes::new(bytes_per_round.up as u64),
            Bytes::new(bytes_per_round.down as u64),
            duration(*virtual_time_per_round_s),
            duration(*wall_time_per_round_s),
            if self.threads == 1 {
                "1 thread".to_owned()
            } else {
                format!("{} threads", self.threads)
            },
            Bytes::new(self.peak_bytes()),
        )
    }

    /// Refuses a run that will not fit into memory.
    ///
    /// # Errors
    /// [`Error::Memory`], saying what would fit.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(free) = self.free_bytes else {
            return Ok(());
        };
        let memory = &self.estimate.memory;
        if self.needed_bytes() <= free {
            return Ok(());
        }
        let (needed, free_words) = (Bytes::new(self.needed_bytes()), Bytes::new(free));
        let advice = if memory.uploads_bytes > memory.devices_bytes {
            let each = memory.uploads_bytes as f64 / self.estimate.invited_per_round.max(1.0);
            let fitting =
                (free.saturating_sub(memory.devices_bytes + BYTES_OF_ANY_RUN) as f64 / each) as u64;
            format!(
                "most of it are uploads that wait for the step: a cohort of {fitting} users would fit \
                 (training.participation), or uploads of changed rows only (codec.uplink = \"rows-f32\")"
            )
        } else {
            let each = memory.devices_bytes as f64 / self.users.max(1) as f64;
            let fitting =
                (free.saturating_sub(memory.uploads_bytes + BYTES_OF_ANY_RUN) as f64 / each) as u64;
            format!(
                "most of it is what the devices keep: about {fitting} users would fit, or fewer rounds, or a smaller \
                 latent_dimension"
            )
        };
        Err(Error::Memory(format!(
            "the run needs {needed} of memory beside the data, and {free_words} are free; {advice}; --force runs it all \
             the same"
        )))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use fedrecsim_sim::sim::MemoryEstimate;
    use fedrecsim_sim::sim::outcome::ByDirection;

    fn expected(devices_bytes: u64, uploads_bytes: u64, free_bytes: Option<u64>) -> Expected {
        let estimate = Estimate {
            bytes_per_round: ByDirection { up: 4e6, down: 2e6 },
            virtual_time_per_round_s: 12.0,
            wall_time_per_round_s: 0.25,
            serial_time_per_round_s: 0.05,
            memory: MemoryEstimate {
                devices_bytes,
                uploads_bytes,
            },
            invited_per_round: 100.0,
        };
        Expected {
            estimate,
            resident_bytes: 50_000_000,
            free_bytes,
            users: 1000,
            threads: 2,
        }
    }

    /// If this fails, a run is killed for want of memory, or one that fits is refused.
    #[test]
    fn only_a_run_that_does_not_fit_is_refused_with_what_would_fit() {
        let refusal = |devices, uploads| {
            expected(devices, uploads, Some(BYTES_OF_ANY_RUN + 1_000_000))
                .check()
                .unwrap_err()
        };
        let error = refusal(200_000, 2_000_000);
        assert_eq!(error.exit_code(), 1);
        assert!(
            error.to_string().contains("a cohort of 40 users would fit"),
            "{error}"
        );
        let error = refusal(2_000_000, 0);
        assert!(
            error.to_string().contains("about 500 users would fit"),
            "{error}"
        );
        assert!(
            expected(400_000, 600_000, Some(BYTES_OF_ANY_RUN + 1_000_000))
                .check()
                .is_ok()
        );
        assert!(
            expected(u64::MAX / 4, 0, None).check().is_ok(),
            "a system that does not tell refuses nothing"
        );
    }

    #[test]
    fn the_line_has_every_figure() {
        let line = expected(1_000_000, 9_000_000, None).line();
        for part in [
            "4.00 MB up",
            "2.00 MB down",
            "12.0 s of virtual time",
            "250 ms here on 2 threads",
            "72.6 MB",
        ] {
            assert!(line.contains(part), "{line}");
        }
    }
}
