//! Availability in stays as a file lists them, over and over again.

use std::path::Path;

use super::super::columns::{self, Fault};
use super::Stay;
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_core::units::SimDuration;

/// The latest second that a trace can name: 31 years.
const LAST_SECOND: f64 = 1e9;

/// Stays by user within one period, in nanoseconds.
#[derive(Debug, PartialEq)]
pub(crate) struct AvailabilityTrace {
    /// The index of each user's first stay in `stays`, and at the end the number of all stays.
    offsets: Vec<usize>,
    /// Beginning and end of stays; those of a user are in order and have gaps between them.
    stays: Vec<(u64, u64)>,
    period: u64,
}

impl AvailabilityTrace {
    /// Reads `text`, whose faults are reported under `path`.
    ///
    /// # Errors
    /// The errors of the columns, and one for a stay that ends before it begins, begins before the
    /// user's last one in the file has ended, or ends after the period, and for a gap in the users'
    /// numbers.
    pub(crate) fn parse(text: &str, path: &Path, period_s: Option<f64>) -> Result<Self> {
        let nanoseconds = |seconds: f64| SimDuration::from_secs_f64(seconds).as_nanos();
        let period = period_s.map(nanoseconds);
        let mut rows: Vec<(u32, u64, u64, u64)> = Vec::new();
        columns::read(text, path, ["user", "on", "off"], 3, |row| {
            let (on_s, off_s) = (
                row.not_negative(1, LAST_SECOND)?,
                row.not_negative(2, LAST_SECOND)?,
            );
            let (on, off) = (nanoseconds(on_s), nanoseconds(off_s));
            if off <= on {
                return Err(Fault::new(format!(
                    "the stay ends at {off_s} s, which is not after its beginning at {on_s} s"
                )));
            }
            if let (Some(period_s), Some(period)) = (period_s, period)
                && off > period
            {
                let message = format!(
                    "the stay ends at {off_s} s, after the period of {period_s} s (`period_s`)"
                );
                return Err(Fault::new(message));
            }
            rows.push((row.user()?, row.line, on, off));
            Ok(())
        })?;
        let last = rows.iter().map(|(_, _, _, off)| *off).max().unwrap_or(1);
        // The sort is stable, so that a user's stays keep the order of the file.
        rows.sort_by_key(|(user, ..)| *user);
        let mut trace = Self {
            offsets: Vec::new(),
            stays: Vec::new(),
            period: period.unwrap_or(last),
        };
        let mut before: Option<(u32, u64)> = None;
        for (user, line, on, off) in rows {
            if before.is_none_or(|(other, _)| other != user) {
                if user as usize != trace.offsets.len() {
                    return Err(columns::gap(user, trace.offsets.len() as u32).at(path, line));
                }
                trace.offsets.push(trace.stays.len());
                trace.stays.push((on, off));
            } else if let (Some((_, earlier)), Some(stay)) = (before, trace.stays.last_mut()) {
                if on < stay.1 {
                    let [begin_s, end_s] =
                        [on, stay.1].map(|time| SimDuration::from_nanos(time).as_secs_f64());
                    let message = format!(
                        "user {user} has a stay that begins at {begin_s} s, before the one in line {earlier} has ended \
                         at {end_s} s"
                    );
                    return Err(Fault::new(message).at(path, line));
                }
                // A stay that begins when the one before ends is part of it.
                if on == stay.1 {
                    stay.1 = off
                } else {
                    trace.stays.push((on, off))
                }
            }
            before = Some((user, line));
        }
        trace.offsets.push(trace.stays.len());
        Ok(trace)
    }

    /// Feeds the trace to `sink`, as little-endian bytes in a fixed order.
    pub(crate) fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        let Self {
            offsets,
            stays,
            period,
        } = self;
        sink(&period.to_le_bytes());
        offsets
            .iter()
            .for_each(|offset| sink(&(*offset as u64).to_le_bytes()));
        for (on, off) in stays {
            sink(&on.to_le_bytes());
            sink(&off.to_le_bytes());
        }
    }

    /// Returns the first stay that ends after `at`.
    pub(super) fn stay_after(&self, user: UserId, at: u64) -> Option<Stay> {
        let user = user.index() % (self.offsets.len() - 1);
        let stays = &self.stays[self.offsets[user]..self.offsets[user + 1]];
        let (first, last) = (stays[0], stays[stays.len() - 1]);
        let next = stays.partition_point(|(_, off)| *off <= at % self.period);
        let (start, next) = match at - at % self.period {
            start if next < stays.len() => (start, next),
            start => (start.checked_add(self.period)?, 0),
        };
        let (on, off) = stays[next];
        let from = start.checked_add(on)?;
        // A stay that reaches the end of the period goes on with the first one, if that begins with
        // the period.
        let goes_on = off == self.period && first.0 == 0;
        if goes_on && first == last {
            return Some(Stay { from, until: None });
        }
        let length = off - on + if goes_on { first.1 } else { 0 };
        Some(Stay {
            from,
            until: from.checked_add(length),
        })
    }
}
