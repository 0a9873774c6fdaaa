//! Rates of links as a file lists them, over and over again.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use super::super::columns::{self, Row, Users};
use fedrecsim_core::{BitsPerSecond, Bytes, Direction, Result, SimDuration, SimTime, UserId};

/// The largest rate that a trace can name, which is that of a scenario's keys.
const LARGEST_MBIT_PER_S: f64 = 1e9;

/// The least rate beside 0, which is 1 bit/s.
const LEAST_MBIT_PER_S: f64 = 1e-6;

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

/// The rate at an instant, which may be zero, and the first instant after it when the rate may change; `None` if it
/// never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub rate: BitsPerSecond,
    pub until: Option<SimTime>,
}

/// The bytes that a link has carried until an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    pub until: SimTime,
    /// In bit ns / s.
    pub work: u128,
}

/// The bit ns / s of a byte.
const WORK_OF_BYTE: u128 = 8_000_000_000;

/// Returns the whole bytes of this many bit ns / s.
pub(super) fn bytes_of(work: u128) -> Bytes {
    Bytes::new(u64::try_from(work / WORK_OF_BYTE).unwrap_or(u64::MAX))
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
        let whole = u128::from(size.get()) * WORK_OF_BYTE;
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
    /// The lines of each user are in the order of time, and the first one is of time 0.
    users: Vec<Vec<Line>>,
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
    /// The errors of the columns. A user's lines must begin at time 0, their times must grow and
    /// end before the period does, and each direction needs a rate in some line.
    pub(crate) fn parse(
        (text, run): (impl BufRead, &Users<'_>),
        path: &Path,
        period_s: Option<f64>,
    ) -> Result<Self> {
        let nanoseconds = |seconds: f64| SimDuration::from_secs_f64(seconds).as_nanos();
        let names = ["user", "time_s", "down_mbit_per_s", "up_mbit_per_s"];
        let parse = |row: &Row<'_>| {
            let time_s = row.not_negative(1, columns::LAST_SECOND)?;
            let is_late = |period_s: &f64| nanoseconds(time_s) >= nanoseconds(*period_s);
            if let Some(period_s) = period_s.filter(is_late) {
                return Err(format!(
                    "the time of {time_s} s is not before the end of the period of {period_s} s (`period_s`)"
                ));
            }
            let rate = |column| {
                // A rate below 1 bit/s would be raised to it.
                let rate = row.zero_or_from(column, LEAST_MBIT_PER_S, LARGEST_MBIT_PER_S);
                rate.map(BitsPerSecond::from_mbit_f64)
            };
            Ok(Line {
                time: nanoseconds(time_s),
                down: rate(2)?,
                up: rate(3)?,
            })
        };
        let users = columns::read_users((text, run), path, names, 4, parse, |lines| {
            check(&lines)?;
            let lines: Vec<Line> = lines.into_iter().map(|(_, line)| line).collect();
            let period = match lines[..] {
                [.., before, last] => {
                    let all = last.time + (last.time - before.time);
                    Some(period_s.map_or(all, nanoseconds))
                }
                _ => None,
            };
            Ok((lines, period))
        })?;
        let (users, periods) = users.into_iter().unzip();
        Ok(Self { users, periods })
    }

    /// Feeds the trace to `sink`, as little-endian bytes in a fixed order.
    pub(crate) fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        columns::visit_offsets(&self.users, sink);
        for line in self.users.iter().flatten() {
            [line.time, line.down.get(), line.up.get()]
                .iter()
                .for_each(|number| sink(&number.to_le_bytes()));
        }
        self.periods
            .iter()
            .for_each(|period| sink(&period.unwrap_or(0).to_le_bytes()));
    }

    /// Returns the lines of a user, and the period after which they begin again.
    fn of(&self, user: UserId) -> (&[Line], Option<u64>) {
        let user = user.index() % self.users.len();
        (&self.users[user], self.periods[user])
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

/// Checks the lines of a user, who has some. An error has the number of the line in the file, and
/// goes on after the user's name.
fn check(lines: &[(u64, Line)]) -> Result<(), (u64, String)> {
    let seconds = |time| SimDuration::from_nanos(time).as_secs_f64();
    let (number, first) = lines[0];
    if first.time != 0 {
        let message = format!(
            "begins at {} s, and a user's lines begin at 0 s",
            seconds(first.time)
        );
        return Err((number, message));
    }
    for pair in lines.windows(2) {
        let [(earlier, before), (number, line)] = [pair[0], pair[1]];
        if line.time <= before.time {
            let message = format!(
                "has a time of {} s, which is not after the {} s in line {earlier}",
                seconds(line.time),
                seconds(before.time)
            );
            return Err((number, message));
        }
    }
    let is_idle =
        |rate: fn(&Line) -> BitsPerSecond| lines.iter().all(|(_, line)| rate(line).get() == 0);
    let column = match (is_idle(|line| line.down), is_idle(|line| line.up)) {
        (true, _) => "down_mbit_per_s",
        (_, true) => "up_mbit_per_s",
        _ => return Ok(()),
    };
    let message = format!("has no rate above 0 in column `{column}`");
    Err((number, message))
}
