//! Availability in stays as a file lists them, over and over again.

use std::io::BufRead;
use std::path::Path;

use super::super::columns::{self, Row, Users};
use super::Stay;
use fedrecsim_core::{Result, SimDuration, UserId};

/// Stays by user within one period, in nanoseconds.
#[derive(Debug, PartialEq)]
pub(crate) struct AvailabilityTrace {
    /// Beginning and end of each user's stays, which are in order and have gaps between them. A user
    /// without any is never there.
    users: Vec<Vec<(u64, u64)>>,
    period: u64,
}

impl AvailabilityTrace {
    /// Reads `text`, whose faults are reported under `path`. A user whose only line has neither a
    /// beginning nor an end is never there.
    ///
    /// # Errors
    /// The errors of the columns, and one for such a line beside others, for a stay that ends before it
    /// begins, begins before the user's last one in the file has ended, or ends after the period.
    pub(crate) fn parse(
        (text, run): (impl BufRead, &Users<'_>),
        path: &Path,
        period_s: Option<f64>,
    ) -> Result<Self> {
        let nanoseconds = |seconds: f64| SimDuration::from_secs_f64(seconds).as_nanos();
        let period = period_s.map(nanoseconds);
        let parse = |row: &Row<'_>| {
            if !row.has(1) && !row.has(2) {
                return Ok(None);
            }
            let (on_s, off_s) = (
                row.not_negative(1, columns::LAST_SECOND)?,
                row.not_negative(2, columns::LAST_SECOND)?,
            );
            let (on, off) = (nanoseconds(on_s), nanoseconds(off_s));
            match (period_s, period) {
                _ if off <= on => Err(format!(
                    "the stay ends at {off_s} s, which is not after its beginning at {on_s} s"
                )),
                (Some(period_s), Some(period)) if off > period => Err(format!(
                    "the stay ends at {off_s} s, after the period of {period_s} s (`period_s`)"
                )),
                _ => Ok(Some((on, off))),
            }
        };
        let names = ["user", "on", "off"];
        let users =
            columns::read_users((text, run), path, names, 3, parse, |lines| stays_of(&lines))?;
        let ends = users.iter().flatten().map(|(_, off)| *off);
        Ok(Self {
            period: period.unwrap_or(ends.max().unwrap_or(1)),
            users,
        })
    }

    /// Feeds the trace to `sink`, as little-endian bytes in a fixed order.
    pub(crate) fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        sink(&self.period.to_le_bytes());
        columns::visit_offsets(&self.users, sink);
        for (on, off) in self.users.iter().flatten() {
            sink(&on.to_le_bytes());
            sink(&off.to_le_bytes());
        }
    }

    /// Returns the first stay that ends after `at`.
    pub(super) fn stay_after(&self, user: UserId, at: u64) -> Option<Stay> {
        let stays = &self.users[user.index() % self.users.len()];
        let (first, last) = (*stays.first()?, *stays.last()?);
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

/// Returns the stays in the lines of a user, which are in order. An error has the number of the line
/// in the file, and goes on after the user's name.
fn stays_of(lines: &[(u64, Option<(u64, u64)>)]) -> Result<Vec<(u64, u64)>, (u64, String)> {
    let mut stays: Vec<(u64, u64)> = Vec::new();
    for (index, &(line, stay)) in lines.iter().enumerate() {
        let Some((on, off)) = stay else {
            if lines.len() == 1 {
                continue;
            }
            let fault = format!(
                "has a line without `on` and `off`, which says that it is never there, and {} more",
                lines.len() - 1
            );
            return Err((line, fault));
        };
        match stays.last_mut() {
            Some(before) if on < before.1 => {
                let [begin_s, end_s] =
                    [on, before.1].map(|time| SimDuration::from_nanos(time).as_secs_f64());
                let earlier = lines[index - 1].0;
                let fault = format!(
                    "has a stay that begins at {begin_s} s, before the one in line {earlier} has ended at {end_s} s"
                );
                return Err((line, fault));
            }
            // A stay that begins when the one before ends is part of it.
            Some(before) if on == before.1 => before.1 = off,
            _ => stays.push((on, off)),
        }
    }
    Ok(stays)
}
