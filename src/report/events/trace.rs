//! Events in the Trace Event format, which Perfetto (ui.perfetto.dev) and chrome://tracing show on a time line.
//!
//! One process for the server, with a track for its rounds, and one for the clients, with a track for each. Times are
//! microseconds; the nanoseconds stand behind the point, written as integers so that none is lost in a float.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::ids::UserId;
use crate::sim::outcome::events::RoundSpan;
use crate::units::SimTime;

use super::stretch::{End, Phase, Stretch};

const SERVER: u32 = 1;
const CLIENTS: u32 = 2;

/// A trace that is being written.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Whether an element has been written.
    begun: bool,
    /// Clients with a track.
    named: BTreeSet<UserId>,
}

impl Trace {
    /// What comes before the first event.
    pub fn begin(&mut self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        self.metadata(out, SERVER, 0, "process_name", "server")?;
        self.metadata(out, SERVER, 1, "thread_name", "rounds")?;
        self.metadata(out, CLIENTS, 0, "process_name", "clients")
    }

    /// What comes after the last event.
    pub fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"\n]}\n")
    }

    /// A slice on the server's track.
    pub fn round(&mut self, out: &mut impl Write, span: &RoundSpan) -> io::Result<()> {
        let name = format!("round {}", span.round);
        let args = format!("\"updates\":{}", span.aggregated);
        self.slice(out, (SERVER, 1), &name, (span.began, span.ended), &args)
    }

    /// A slice on a client's track; what ends in another way than planned has a mark at its end.
    pub fn stretch(&mut self, out: &mut impl Write, stretch: &Stretch) -> io::Result<()> {
        let track = (CLIENTS, stretch.user.0.saturating_add(1));
        if self.named.insert(stretch.user) {
            self.metadata(out, track.0, track.1, "thread_name", &stretch.user.to_string())?;
        }
        let mut args =
            format!("\"round\":{},\"wave\":{},\"end\":\"{}\"", stretch.round, stretch.wave.0, stretch.end.name());
        match stretch.phase {
            Phase::InLine(_) => {}
            Phase::Transfer(_) => {
                args += &format!(",\"bytes\":{},\"carried_bytes\":{}", stretch.frame_bytes, stretch.carried_bytes);
            }
            Phase::Training => args += &format!(",\"row_visits\":{}", stretch.row_visits),
        }
        self.slice(out, track, stretch.phase.name(), (stretch.from, stretch.to), &args)?;
        if stretch.end == End::Done {
            return Ok(());
        }
        let (name, ts, (pid, tid)) = (stretch.end.name(), microseconds(stretch.to.as_nanos()), track);
        self.element(
            out,
            &format!("{{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"fate\",\"name\":\"{name}\",\"ts\":{ts},\"pid\":{pid},\"tid\":{tid}}}"),
        )
    }

    fn slice(
        &mut self,
        out: &mut impl Write,
        (pid, tid): (u32, u32),
        name: &str,
        (from, to): (SimTime, SimTime),
        args: &str,
    ) -> io::Result<()> {
        let (ts, dur) = (microseconds(from.as_nanos()), microseconds(to.since(from).as_nanos()));
        self.element(
            out,
            &format!(
                "{{\"ph\":\"X\",\"cat\":\"simulated\",\"name\":\"{name}\",\"ts\":{ts},\"dur\":{dur},\"pid\":{pid},\"tid\":{tid},\"args\":{{{args}}}}}"
            ),
        )
    }

    fn metadata(&mut self, out: &mut impl Write, pid: u32, tid: u32, what: &str, name: &str) -> io::Result<()> {
        self.element(
            out,
            &format!(
                "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":\"{name}\"}}}}"
            ),
        )
    }

    /// Names come from this file and from numbers: nothing in them needs to be escaped.
    fn element(&mut self, out: &mut impl Write, element: &str) -> io::Result<()> {
        out.write_all(if std::mem::replace(&mut self.begun, true) { b",\n" } else { b"\n" })?;
        out.write_all(element.as_bytes())
    }
}

fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}
