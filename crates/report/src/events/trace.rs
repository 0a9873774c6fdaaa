//! Writes events in the Trace Event format, which Perfetto (ui.perfetto.dev) and chrome://tracing
//! show on a time line.
//!
//! There is one process, with a track for the rounds and below it one for each client that took
//! part, in the order of their numbers; and a counter for each quantity that is watched at the
//! server. Times are microseconds; the nanoseconds stand behind the point, written as integers so
//! that none is lost in a float. The details of a slice are among its arguments. Colours are hints,
//! which chrome://tracing follows and Perfetto ignores.

use std::collections::BTreeSet;
use std::io::{self, Write};

use fedrecsim_core::legs::Route;
use fedrecsim_core::{Direction, SimTime, UserId, Who};
use fedrecsim_sim::outcome::{Ending, Gauges, GaugesSince, RoundSpan};

use super::stretch::{Phase, Stretch};

const PROCESS: u32 = 1;

/// The number of the rounds' track: Perfetto puts the track that has its process's number first.
const ROUNDS: u32 = PROCESS;

/// The number of the first user's track. Perfetto shows the number of a track after its name, so
/// the user's number has to be recognisable in it; small numbers, above all 0, have another meaning
/// there.
const FIRST_USER: u32 = 1_000_000_000;

/// A trace that is being written.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Whether an element has been written.
    begun: bool,
    /// The clients that have a track already.
    named: BTreeSet<UserId>,
    /// The values that the counters show.
    shown: Option<Gauges<u64>>,
}

/// The counters: names and units, in the order of [`Gauges`].
const COUNTERS: [(&str, &str); 5] = [
    ("server link up", "bytes_per_s"),
    ("server link down", "bytes_per_s"),
    ("transfers at once", "transfers"),
    ("line for connections", "users"),
    ("users waited for", "users"),
];

impl Trace {
    /// Writes what comes before the first event.
    pub(crate) fn begin(&mut self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        self.metadata(out, ROUNDS, "process_name", "\"name\":\"simulation\"")?;
        self.track(out, ROUNDS, "rounds")
    }

    /// Writes what comes after the last event.
    pub(crate) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"\n]}\n")
    }

    /// Writes a slice on the rounds' track.
    pub(crate) fn round(&mut self, out: &mut impl Write, span: &RoundSpan) -> io::Result<()> {
        let head = format!("\"cat\":\"round\",\"name\":\"round {}\"", span.round);
        let args = format!("\"updates\":{}", span.aggregated);
        self.slice(out, ROUNDS, &head, (span.began, span.ended), &args)
    }

    /// Writes a slice on a client's track, with a mark at its end if it did not end as planned.
    pub(crate) fn stretch(
        &mut self,
        out: &mut impl Write,
        stretch: &Stretch,
        who: impl Fn(UserId) -> Who,
    ) -> io::Result<()> {
        let track = FIRST_USER.saturating_add(stretch.user.0);
        if self.named.insert(stretch.user) {
            self.track(out, track, &format!("{:#}", who(stretch.user)))?;
        }
        let (name, end) = (stretch.phase.name(), stretch.ending.name());
        let (category, color) = match stretch.phase {
            Phase::InLine(_) => ("line", "grey"),
            Phase::Transfer(Route {
                direction: Direction::Down,
                ..
            }) => ("transfer", "thread_state_runnable"),
            Phase::Work(_) => ("training", "rail_idle"),
            Phase::Transfer(Route {
                direction: Direction::Up,
                ..
            }) => ("transfer", "rail_load"),
        };
        let mut args = format!(
            "\"round\":{},\"invitation_id\":{},\"end\":\"{end}\"",
            stretch.round, stretch.invitation_id.0
        );
        match stretch.phase {
            Phase::InLine(route) => args += &format!(",\"for\":\"{}\"", route.name()),
            Phase::Transfer(_) => {
                args += &format!(
                    ",\"bytes\":{},\"carried_bytes\":{}",
                    stretch.frame_bytes, stretch.carried_bytes
                );
            }
            Phase::Work(_) => args += &format!(",\"row_visits\":{}", stretch.work.row_visits),
        }
        let head = format!("\"cat\":\"{category}\",\"name\":\"{name}\",\"cname\":\"{color}\"");
        self.slice(out, track, &head, (stretch.from, stretch.to), &args)?;
        let color = match stretch.ending {
            Ending::Done => return Ok(()),
            Ending::Lost => "terrible",
            Ending::Late | Ending::Stale => "bad",
            Ending::Cancelled | Ending::Unfinished => "black",
        };
        let ts = microseconds(stretch.to.as_nanos());
        self.element(
            out,
            &format!(
                "{{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"end\",\"name\":\"{end}\",\"cname\":\"{color}\",\"ts\":{ts},\"pid\":{PROCESS},\"tid\":{track},\"args\":{{\"in\":\"{name}\",\"round\":{}}}}}",
                stretch.round
            ),
        )
    }

    /// Writes the values that have changed, each on the track of its counter.
    pub(crate) fn counters(
        &mut self,
        out: &mut impl Write,
        change: &GaugesSince,
    ) -> io::Result<()> {
        let before = self.shown.replace(change.gauges);
        let values = in_shown_units(&change.gauges).into_iter().zip(COUNTERS);
        let before = before.as_ref().map(in_shown_units);
        let ts = microseconds(change.at.as_nanos());
        for (number, (value, (name, unit))) in values.enumerate() {
            if before.is_some_and(|before| before[number] == value) {
                continue;
            }
            self.element(
                out,
                &format!(
                    "{{\"ph\":\"C\",\"cat\":\"server\",\"name\":\"{name}\",\"ts\":{ts},\"pid\":{PROCESS},\"tid\":{ROUNDS},\"args\":{{\"{unit}\":{value}}}}}"
                ),
            )?;
        }
        Ok(())
    }

    fn slice(
        &mut self,
        out: &mut impl Write,
        track: u32,
        head: &str,
        (from, to): (SimTime, SimTime),
        args: &str,
    ) -> io::Result<()> {
        let (ts, dur) = (
            microseconds(from.as_nanos()),
            microseconds(to.since(from).as_nanos()),
        );
        self.element(
            out,
            &format!(
                "{{\"ph\":\"X\",{head},\"ts\":{ts},\"dur\":{dur},\"pid\":{PROCESS},\"tid\":{track},\"args\":{{{args}}}}}"
            ),
        )
    }

    /// Names a track and states its place, because chrome://tracing would otherwise sort users by
    /// their names as texts.
    fn track(&mut self, out: &mut impl Write, track: u32, name: &str) -> io::Result<()> {
        self.metadata(
            out,
            track,
            "thread_name",
            &format!("\"name\":{}", serde_json::json!(name)),
        )?;
        self.metadata(
            out,
            track,
            "thread_sort_index",
            &format!("\"sort_index\":{track}"),
        )
    }

    fn metadata(
        &mut self,
        out: &mut impl Write,
        track: u32,
        what: &str,
        args: &str,
    ) -> io::Result<()> {
        self.element(
            out,
            &format!("{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{PROCESS},\"tid\":{track},\"args\":{{{args}}}}}"),
        )
    }

    /// Writes an element. What comes neither from this file nor from numbers has been escaped.
    fn element(&mut self, out: &mut impl Write, element: &str) -> io::Result<()> {
        out.write_all(if std::mem::replace(&mut self.begun, true) {
            b",\n"
        } else {
            b"\n"
        })?;
        out.write_all(element.as_bytes())
    }
}

/// Returns the values of the counters: rates in whole bytes per second, the others as they are.
fn in_shown_units(gauges: &Gauges<u64>) -> [u64; 5] {
    let Gauges {
        up_bits_per_s,
        down_bits_per_s,
        transfers,
        line,
        waiting_users,
    } = *gauges;
    [
        up_bits_per_s / 8,
        down_bits_per_s / 8,
        transfers,
        line,
        waiting_users,
    ]
}

fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}
