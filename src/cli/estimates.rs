//! Says what a run is expected to take, and refuses one that would not fit into memory.

use std::sync::Arc;
use std::time::Duration;

use super::memory;
use crate::{Bytes, Error, Result};
use fedrecsim_report::words::{counted, duration};
use fedrecsim_sim::{self as sim, Estimate, RehearsalLength, World};

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
/// scenarios of this repository. What the allocator keeps for a second after it was freed comes on
/// top: a tenth in most runs, a fifth in some, and [`KEPT_PERCENT`] where the server makes a table for each user.
const BYTES_OF_ANY_RUN: u64 = 24 << 20;

/// The most that the allocator has kept in a run of this repository.
const KEPT_PERCENT: u64 = 27;

/// The expected cost of a run on this machine.
pub(crate) struct Expected {
    /// The measurements of the rehearsal.
    pub estimate: Estimate,
    /// The memory of this process with its data and what the rehearsal holds after a round.
    resident_bytes: u64,
    /// What the rehearsal held besides within a round, such as the tables that a step makes of uploads.
    within_a_round_bytes: u64,
    /// The most that the process has had so far, as the reading of the data may take more than the
    /// run.
    peak_so_far_bytes: u64,
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
        let rehearsal = match thoroughly {
            true => LONG_REHEARSAL,
            false => SHORT_REHEARSAL,
        };
        // The allocator gives memory back when it likes, so that what the rehearsal has taken shows
        // only while it is held, and what a step takes is gone before the round is over.
        let peak_before = memory::peak_resident_bytes().unwrap_or(0);
        let mut held = (0, None);
        let mut watch = || {
            let resident_bytes = memory::resident_bytes().unwrap_or(0);
            if resident_bytes >= held.0 {
                held = (resident_bytes, memory::free_bytes());
            }
        };
        let estimate = sim::estimate_watched(world, threads, rehearsal, &mut watch)?;
        let (resident_bytes, free_bytes) = held;
        let peak_so_far_bytes = memory::peak_resident_bytes().unwrap_or(0);
        // A peak that was there before is that of reading the data.
        let within_a_round_bytes = match peak_so_far_bytes > peak_before {
            true => peak_so_far_bytes.saturating_sub(resident_bytes),
            false => 0,
        };
        Ok(Self {
            estimate,
            resident_bytes,
            within_a_round_bytes,
            peak_so_far_bytes,
            free_bytes,
            users: world.dataset.users(),
            threads,
        })
    }

    /// Returns the memory that the process will have at its peak.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.resident_bytes + self.needed_bytes()
    }

    /// Returns the memory that the run needs beside what the process has.
    pub(crate) fn needed_bytes(&self) -> u64 {
        self.within_a_round_bytes + self.estimate.memory.total_bytes() + BYTES_OF_ANY_RUN
    }

    /// Returns the expectation in one line.
    pub(crate) fn line(&self) -> String {
        let estimate = &self.estimate;
        let [up, down] = [estimate.bytes_per_round.up, estimate.bytes_per_round.down]
            .map(|bytes| Bytes::new(bytes as u64));
        let peak_bytes = self.peak_bytes().max(self.peak_so_far_bytes);
        format!(
            "a round sends {up} up and {down} down in {} of virtual time; this machine takes {} for it on {}; the run needs {} \
             of memory, or up to {}",
            duration(estimate.virtual_time_per_round_s),
            duration(estimate.wall_time_per_round_s),
            counted(self.threads as u64, "thread"),
            Bytes::new(peak_bytes),
            Bytes::new(peak_bytes + peak_bytes * KEPT_PERCENT / 100),
        )
    }

    /// Refuses a run that will not fit into memory.
    ///
    /// # Errors
    /// [`Error::Memory`], saying what would fit.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(free) = self.free_bytes.filter(|free| self.needed_bytes() > *free) else {
            return Ok(());
        };
        let memory = &self.estimate.memory;
        let uploads = memory.uploads_bytes + self.within_a_round_bytes;
        let devices = memory.devices_bytes;
        let (needed, free_words) = (Bytes::new(self.needed_bytes()), Bytes::new(free));
        // How many fit into what is left beside the other part, if `bytes` are for this many.
        let fitting = |bytes: u64, of: f64, other: u64| {
            let left = free.saturating_sub(other + BYTES_OF_ANY_RUN);
            (left as f64 * of.max(1.0) / bytes as f64) as u64
        };
        let advice = if uploads > devices {
            let fitting = fitting(uploads, self.estimate.invited_per_round, devices);
            format!(
                "most of it is uploads that wait for the step, and what that makes of them: a cohort of {fitting} users would fit \
                 (training.participation), or uploads of changed rows only (codec.uplink = \"rows-f32\")"
            )
        } else {
            let fitting = fitting(devices, self.users as f64, uploads);
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
    use fedrecsim_sim::MemoryEstimate;
    use fedrecsim_sim::outcome::ByDirection;

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
            within_a_round_bytes: 0,
            peak_so_far_bytes: 0,
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
            "down in 12.0 s of virtual time; this machine takes 250 ms for it on 2 threads",
            "85.2 MB",
        ] {
            assert!(line.contains(part), "{line}");
        }
        let reading = Expected {
            peak_so_far_bytes: 283_000_000,
            ..expected(1_000_000, 9_000_000, None)
        };
        assert!(reading.line().contains("283 MB"), "{}", reading.line());
    }
}
