//! Rates of links as a file lists them, over and over again.

use std::path::Path;
use std::sync::Arc;

use super::super::columns::{self, Fault};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_core::units::{BitsPerSecond, Bytes, Direction, SimDuration, SimTime};

/// The latest second that a trace can name: 31 years.
const LAST_SECOND: f64 = 1e9;
/// The largest rate that a trace can name, which is that of a scenario's keys.
const LARGEST_MBIT_PER_S: f64 = 1e9;

/// The rates of one direction of a user's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rates {
    /// A rate that does not change during the transfer.
    Constant(BitsPerSecond),
    /// The rates that a trace has for the user.
    Traced {
        trace: Arc<LinkTrace>,
        user: UserId,
        direction: Direction,
    },
}

/// The rate at an instant, and the first instant after it at which the rate may change; `None` if
/// it never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub rate: BitsPerSecond,
    pub until: Option<SimTime>,
}

/// What a link has carried until an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    pub until: SimTime,
    /// In bit ns / s, of which 8 * 10^9 are a byte.
    work: u128,
}

impl Carried {
    /// Returns the whole bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes::new(u64::try_from(self.work / 8_000_000_000).unwrap_or(u64::MAX))
    }
}

impl Rates {
    pub(crate) fn at(&self, at: SimTime) -> Piece {
        match self {
            Self::Constant(rate) => Piece {
                rate: *rate,
                until: None,
            },
            Self::Traced {
                trace,
                user,
                direction,
            } => trace.piece(*user, *direction, at),
        }
    }

    /// Lets a frame of `size` leave from the instant `from` on, at the rate that `cap` makes of
    /// that of the link, until all of it has left or `until` is reached. Ends are rounded up to a
    /// whole nanosecond.
    pub(crate) fn carry(
        &self,
        from: SimTime,
        size: Bytes,
        until: SimTime,
        cap: impl Fn(BitsPerSecond) -> BitsPerSecond,
    ) -> Carried {
        let whole = u128::from(size.get()) * 8_000_000_000;
        let (mut at, mut work) = (from, 0);
        // The first change of the rate, and the work that had been done by then. A period later the
        // same rates begin again, and as many periods as possible are passed over at once.
        let mut first_change = None;
        while at < until && work < whole {
            let piece = self.at(at);
            let rate = u128::from(cap(piece.rate).get());
            let end = piece.until.unwrap_or(SimTime::END).min(until);
            let possible = rate * u128::from(end.since(at).as_nanos());
            if possible >= whole - work {
                let nanoseconds = (whole - work).div_ceil(rate) as u64;
                return Carried {
                    until: at + SimDuration::from_nanos(nanoseconds),
                    work: whole,
                };
            }
            (at, work) = (end, work + possible);
            let Some(period) = self.period() else {
                continue;
            };
            match first_change {
                None => first_change = Some((at, work)),
                Some((time, before)) if at.since(time).as_nanos() == period && work > before => {
                    let each = work - before;
                    let in_time = until.since(at).as_nanos() / period;
                    let skipped = u64::try_from((whole - work) / each)
                        .unwrap_or(u64::MAX)
                        .min(in_time);
                    at = at + SimDuration::from_nanos(skipped * period);
                    work += u128::from(skipped) * each;
                    first_change = Some((SimTime::END, 0));
                }
                Some(_) => {}
            }
        }
        Carried { until: at, work }
    }

    fn period(&self) -> Option<u64> {
        match self {
            Self::Constant(_) => None,
            Self::Traced { trace, user, .. } => trace.of(*user).1,
        }
    }
}

/// The rates of users' links, by user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LinkTrace {
    /// The index of each user's first line in `lines`, and at the end the number of all lines.
    offsets: Vec<usize>,
    /// The lines of a user are in the order of time, and the first one is of time 0.
    lines: Vec<Line>,
    /// The nanoseconds after which each user's lines begin again; `None` for a rate that never
    /// changes.
    periods: Vec<Option<u64>>,
}

/// The rates from an instant on, in nanoseconds from the beginning of the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    time: u64,
    down: BitsPerSecond,
    up: BitsPerSecond,
}

impl LinkTrace {
    /// Reads `text`, whose faults are reported under `path`.
    ///
    /// # Errors
    /// The errors of the columns, and one for a user whose first line is not of time 0, whose times
    /// do not grow, whose last time is not before the period's end, or who has no rate in a
    /// direction in any line, and for a gap in the users' numbers.
    pub(crate) fn parse(text: &str, path: &Path, period_s: Option<f64>) -> Result<Self> {
        let nanoseconds = |seconds: f64| SimDuration::from_secs_f64(seconds).as_nanos();
        let mut rows: Vec<(u32, u64, Line)> = Vec::new();
        let names = ["user", "time_s", "down_mbit_per_s", "up_mbit_per_s"];
        columns::read(text, path, names, 4, |row| {
            let time_s = row.not_negative(1, LAST_SECOND)?;
            if let Some(period_s) =
                period_s.filter(|period_s| nanoseconds(time_s) >= nanoseconds(*period_s))
            {
                return Err(Fault::new(format!(
                    "the time of {time_s} s is not before the end of the period of {period_s} s (`period_s`)"
                )));
            }
            let [down, up] = [
                row.not_negative(2, LARGEST_MBIT_PER_S)?,
                row.not_negative(3, LARGEST_MBIT_PER_S)?,
            ]
            .map(BitsPerSecond::from_mbit_f64);
            rows.push((
                row.user()?,
                row.line,
                Line {
                    time: nanoseconds(time_s),
                    down,
                    up,
                },
            ));
            Ok(())
        })?;
        // The sort is stable, so that a user's lines keep the order of the file.
        rows.sort_by_key(|(user, ..)| *user);
        let mut trace = Self {
            offsets: Vec::new(),
            lines: Vec::with_capacity(rows.len()),
            periods: Vec::new(),
        };
        for of_user in rows.chunk_by(|(user, ..), (next, ..)| user == next) {
            trace
                .add(of_user, period_s.map(nanoseconds))
                .map_err(|(fault, line)| fault.at(path, line))?;
        }
        trace.offsets.push(trace.lines.len());
        Ok(trace)
    }

    /// Adds the lines of the next user, who has some. An error comes with the number of the line in
    /// the file.
    fn add(&mut self, rows: &[(u32, u64, Line)], period: Option<u64>) -> Result<(), (Fault, u64)> {
        let (user, number, _) = rows[0];
        if user as usize != self.offsets.len() {
            return Err((columns::gap(user, self.offsets.len() as u32), number));
        }
        self.offsets.push(self.lines.len());
        let seconds = |time| SimDuration::from_nanos(time).as_secs_f64();
        for (index, (_, number, line)) in rows.iter().enumerate() {
            let fault = match index.checked_sub(1).map(|before| rows[before]) {
                None if line.time != 0 => {
                    format!(
                        "the first line of user {user} is of {} s; a user's lines begin at 0 s",
                        seconds(line.time)
                    )
                }
                Some((_, earlier, before)) if line.time <= before.time => format!(
                    "user {user} has a time of {} s, which is not after the {} s in line {earlier}",
                    seconds(line.time),
                    seconds(before.time)
                ),
                _ => {
                    self.lines.push(*line);
                    continue;
                }
            };
            return Err((Fault::new(fault), *number));
        }
        // A rate of zero stands as 1 bit/s.
        let none = BitsPerSecond::new(0);
        let idle =
            |rate: fn(&Line) -> BitsPerSecond| rows.iter().all(|(.., line)| rate(line) == none);
        for (column, idle) in [
            ("down_mbit_per_s", idle(|line| line.down)),
            ("up_mbit_per_s", idle(|line| line.up)),
        ] {
            if idle {
                let message =
                    format!("no line of user {user} has a rate above 0 in column `{column}`");
                return Err((Fault::new(message), number));
            }
        }
        let times: Vec<u64> = rows.iter().rev().map(|(.., line)| line.time).collect();
        self.periods.push(match times[..] {
            [last, before, ..] => Some(period.unwrap_or(last + (last - before))),
            _ => None,
        });
        Ok(())
    }

    /// Feeds the trace to `sink`, as little-endian bytes in a fixed order.
    pub(crate) fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        let Self {
            offsets,
            lines,
            periods,
        } = self;
        offsets
            .iter()
            .for_each(|offset| sink(&(*offset as u64).to_le_bytes()));
        for line in lines {
            [line.time, line.down.get(), line.up.get()]
                .iter()
                .for_each(|number| sink(&number.to_le_bytes()));
        }
        periods
            .iter()
            .for_each(|period| sink(&period.unwrap_or(0).to_le_bytes()));
    }

    /// Returns the lines of a user, and the period after which they begin again.
    fn of(&self, user: UserId) -> (&[Line], Option<u64>) {
        let user = user.index() % self.periods.len();
        (
            &self.lines[self.offsets[user]..self.offsets[user + 1]],
            self.periods[user],
        )
    }

    fn piece(&self, user: UserId, direction: Direction, at: SimTime) -> Piece {
        let (lines, period) = self.of(user);
        let rate = |line: &Line| {
            if direction == Direction::Up {
                line.up
            } else {
                line.down
            }
        };
        let Some(period) = period else {
            return Piece {
                rate: rate(&lines[0]),
                until: None,
            };
        };
        let within = at.as_nanos() % period;
        // The first line is of time 0, so at least one is not after any time.
        let next = lines.partition_point(|line| line.time <= within);
        let end = lines.get(next).map_or(period, |line| line.time);
        // There is no change beyond the end of time.
        let until = (at.as_nanos() - within)
            .checked_add(end)
            .map(SimTime::from_nanos);
        Piece {
            rate: rate(&lines[next - 1]),
            until,
        }
    }
}
