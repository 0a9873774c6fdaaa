//! Writes the events of a run to files: JSON lines, a trace for a viewer, a picture, or the state
//! at one instant.
//!
//! What a run books is written while the run goes on, and kept in memory only as long as its
//! participation lasts; a picture keeps what it shows. Reading order: `stretch` turns events into
//! stretches of time; `lines`, `trace` and `timeline` write them; `state` sums them up.

use std::io::{self, Write};
use std::ops::RangeInclusive;

mod lines;
mod state;
mod stretch;
#[cfg(feature = "arrow")]
mod table;
#[cfg(feature = "plots")]
mod timeline;
mod trace;

use fedrecsim_core::{UserId, Who};
use fedrecsim_sim::outcome::{Booking, GaugesSince, RoundSpan};
pub use state::{Reached, State};
use stretch::{Participations, Stretch};
#[cfg(feature = "arrow")]
pub use table::EventTable;
#[cfg(feature = "plots")]
pub use timeline::Timeline;
use trace::Trace;

/// How events are written.
#[derive(Debug)]
pub enum Form {
    /// One JSON object per event and line.
    Lines,
    /// The Trace Event format of Perfetto and Chrome.
    Trace,
    /// A table, which [`EventLog::into_table`] returns.
    #[cfg(feature = "arrow")]
    Table(Box<EventTable>),
    /// A picture of the participations, as SVG.
    #[cfg(feature = "plots")]
    Picture(Timeline),
}

/// Writes the events of the participations that were invited in some rounds, each to its end even
/// if that comes later.
pub struct EventLog<W> {
    out: W,
    form: Form,
    /// The names of users.
    who: Box<dyn Fn(UserId) -> Who + Send>,
    trace: Trace,
    /// The rounds that are asked for, from 1.
    rounds: RangeInclusive<u32>,
    participations: Participations,
    /// Number of rounds that have ended.
    ended: u32,
}

impl<W: Write> EventLog<W> {
    /// Begins a log of the participations of `rounds` (from 1), whose users are named as `who`
    /// says.
    ///
    /// # Errors
    /// Returns the error of `out`.
    pub fn begin(
        mut out: W,
        form: Form,
        rounds: RangeInclusive<u32>,
        who: impl Fn(UserId) -> Who + Send + 'static,
    ) -> io::Result<Self> {
        let mut trace = Trace::default();
        if let Form::Trace = form {
            trace.begin(&mut out)?;
        }
        Ok(Self {
            out,
            form,
            who: Box::new(who),
            trace,
            rounds,
            participations: Participations::default(),
            ended: 0,
        })
    }

    /// Takes what happened while a round was open, or since the last one ended.
    ///
    /// # Errors
    /// Returns the error of `out`.
    pub fn take(&mut self, span: Option<RoundSpan>, bookings: &[Booking]) -> io::Result<()> {
        let open_round = self.ended + 1;
        for booking in bookings {
            let known = self.participations.round_of(booking.user);
            let stretch = self.participations.follow(open_round, booking);
            let Some(round) = known.or_else(|| self.participations.round_of(booking.user)) else {
                continue;
            };
            if self.rounds.contains(&round) {
                self.write(booking, round, stretch.as_ref())?;
            }
        }
        let Some(span) = span else { return Ok(()) };
        self.ended = span.round;
        if !self.rounds.contains(&span.round) {
            return Ok(());
        }
        match &mut self.form {
            Form::Lines => lines::put(&mut self.out, &lines::round(&span)),
            #[cfg(feature = "arrow")]
            Form::Table(table) => {
                table.push(&lines::round(&span));
                Ok(())
            }
            Form::Trace => self.trace.round(&mut self.out, &span),
            #[cfg(feature = "plots")]
            Form::Picture(timeline) => {
                timeline.rounds.push(span);
                Ok(())
            }
        }
    }

    /// Takes the changes at the server's link since the last call, before what happened meanwhile
    /// is taken. A trace shows them from the first of the rounds on that are asked for.
    ///
    /// # Errors
    /// Returns the error of `out`.
    pub fn take_changes(&mut self, changes: &[GaugesSince]) -> io::Result<()> {
        let is_shown = self.shows_the_server() && self.ended + 1 >= *self.rounds.start();
        changes
            .iter()
            .filter(|_| is_shown)
            .try_for_each(|change| self.trace.counters(&mut self.out, change))
    }

    /// Returns whether the log shows the load of the server's link.
    pub fn shows_the_server(&self) -> bool {
        matches!(self.form, Form::Trace)
    }

    fn write(
        &mut self,
        booking: &Booking,
        round: u32,
        stretch: Option<&Stretch>,
    ) -> io::Result<()> {
        let (who, open_round) = (&self.who, self.ended + 1);
        let line = || lines::event((booking, who(booking.user)), round, open_round, stretch);
        match (&mut self.form, stretch) {
            (Form::Lines, _) => lines::put(&mut self.out, &line()),
            #[cfg(feature = "arrow")]
            (Form::Table(table), _) => {
                table.push(&line());
                Ok(())
            }
            (Form::Trace, Some(stretch)) => self.trace.stretch(&mut self.out, stretch, who),
            #[cfg(feature = "plots")]
            (Form::Picture(timeline), Some(stretch)) => {
                timeline.stretches.push(*stretch);
                timeline.named.insert(stretch.user, who(stretch.user));
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    /// Returns whether the log is complete, so that no later event belongs into it.
    pub fn is_complete(&self) -> bool {
        let last = *self.rounds.end();
        self.ended >= last
            && self
                .participations
                .earliest_round()
                .is_none_or(|earliest| earliest > last)
    }

    /// Returns the table, if the log is one.
    #[cfg(feature = "arrow")]
    pub fn into_table(self) -> Option<EventTable> {
        if let Form::Table(table) = self.form {
            Some(*table)
        } else {
            None
        }
    }

    /// Writes what is left, and returns the destination. A table is written as a Parquet file.
    ///
    /// # Errors
    /// Returns the error of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        match &mut self.form {
            Form::Lines => {}
            #[cfg(feature = "parquet")]
            Form::Table(table) => {
                let table = std::mem::take(&mut **table).finish();
                let file =
                    table.and_then(|table| super::arrow::to_parquet("events.parquet", &table));
                self.out.write_all(&file.map_err(io::Error::other)?)?;
            }
            #[cfg(all(feature = "arrow", not(feature = "parquet")))]
            Form::Table(_) => {}
            Form::Trace => self.trace.end(&mut self.out)?,
            #[cfg(feature = "plots")]
            Form::Picture(timeline) => {
                let picture = timeline
                    .render()
                    .map_err(|error| io::Error::other(error.to_string()))?;
                self.out.write_all(picture.as_bytes())?;
            }
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::Value;

    use super::*;
    use crate::tests::events as sample;
    use fedrecsim_core::SimTime;
    use fedrecsim_sim::outcome::Gauges;

    /// Names one of the users, with what JSON has to escape.
    fn who(user: UserId) -> Who {
        Who {
            id: user,
            name: (user == UserId(2)).then(|| "\"Ann\", Bea".into()),
        }
    }

    fn written(form: Form, rounds: RangeInclusive<u32>) -> String {
        let mut log = EventLog::begin(Vec::new(), form, rounds, who).unwrap();
        for (span, bookings) in sample::two_rounds() {
            log.take(Some(span), &bookings).unwrap();
        }
        String::from_utf8(log.finish().unwrap()).unwrap()
    }

    #[test]
    fn the_lines_of_a_round_read_like_this() {
        insta::assert_snapshot!(written(Form::Lines, 1..=1));
    }

    #[test]
    fn participations_of_other_rounds_are_left_out() {
        let lines = written(Form::Lines, 2..=2);
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(
            lines.contains("round-ended"),
            "the late upload is of round 1: {lines}"
        );
    }

    /// Checks the required fields of the Trace Event format by phase: `X` (complete), `i`
    /// (instant), `M` (metadata).
    #[test]
    fn every_element_of_a_trace_has_what_the_format_requires() {
        let trace: Value = serde_json::from_str(&written(Form::Trace, 1..=2)).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let mut slices = 0;
        for event in events {
            for key in ["pid", "tid"] {
                assert!(event[key].is_u64(), "{key} of {event}");
            }
            assert!(event["name"].is_string(), "{event}");
            match event["ph"].as_str().unwrap() {
                "X" => {
                    slices += 1;
                    assert!(
                        event["ts"].is_number() && event["dur"].as_f64().unwrap() >= 0.0,
                        "{event}"
                    );
                }
                "i" => assert!(event["ts"].is_number() && event["s"] == "t", "{event}"),
                "M" if event["name"] == "thread_sort_index" => {
                    assert!(event["args"]["sort_index"].is_u64(), "{event}")
                }
                "M" => assert!(event["args"]["name"].is_string(), "{event}"),
                other => panic!("{other}"),
            }
        }
        // The slices are four downloads, one wait in line, three trainings, two uploads and two
        // rounds.
        assert_eq!(slices, 4 + 1 + 3 + 2 + 2);
        let upload = events
            .iter()
            .find(|e| e["name"] == "upload" && e["tid"] == 1_000_000_001)
            .unwrap();
        assert_eq!(
            (upload["ts"].as_f64(), upload["dur"].as_f64()),
            (Some(4.5), Some(1.501)),
            "microseconds"
        );
        let mut marks: Vec<_> = events
            .iter()
            .filter(|e| e["ph"] == "i")
            .map(|e| e["name"].as_str().unwrap())
            .collect();
        marks.sort_unstable();
        assert_eq!(marks, ["cancelled", "late", "lost"]);
    }

    /// If this fails, a viewer shows no load, a load in other units, or one of a round that nobody
    /// has asked for.
    #[test]
    fn a_trace_has_a_counter_for_every_quantity_that_changes() {
        let change = |at, up_bits_per_s, line| {
            let gauges = Gauges {
                up_bits_per_s,
                down_bits_per_s: 0,
                transfers: 1,
                line,
                waiting_users: 4,
            };
            GaugesSince {
                at: SimTime::from_nanos(at),
                gauges,
            }
        };
        let counters = |rounds| {
            let mut log = EventLog::begin(Vec::new(), Form::Trace, rounds, who).unwrap();
            assert!(log.shows_the_server());
            log.take_changes(&[
                change(1_000, 80, 0),
                change(2_500, 160, 0),
                change(3_000, 160, 2),
            ])
            .unwrap();
            let [(span, bookings), _] = sample::two_rounds();
            log.take(Some(span), &bookings).unwrap();
            log.take_changes(&[change(9_000, 0, 2)]).unwrap();
            let trace: Value = serde_json::from_slice(&log.finish().unwrap()).unwrap();
            let events = trace["traceEvents"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|event| event["ph"] == "C");
            let told = |event: &Value| {
                (
                    event["name"].to_string(),
                    event["ts"].as_f64().unwrap(),
                    event["args"].clone(),
                )
            };
            events.map(told).collect::<Vec<_>>()
        };
        let all = counters(1..=2);
        let of = |name: &str| {
            let name = format!("\"{name}\"");
            all.iter()
                .filter(|told| told.0 == name)
                .map(|(_, ts, args)| (*ts, args.to_string()))
                .collect::<Vec<_>>()
        };
        let rate = |bytes| format!("{{\"bytes_per_s\":{bytes}}}");
        assert_eq!(
            of("server link up"),
            [(1.0, rate(10)), (2.5, rate(20)), (9.0, rate(0))]
        );
        assert_eq!(
            of("line for connections"),
            [(1.0, "{\"users\":0}".into()), (3.0, "{\"users\":2}".into())]
        );
        assert_eq!(
            [
                of("server link down"),
                of("transfers at once"),
                of("users waited for")
            ]
            .map(|c| c.len()),
            [1; 3]
        );
        assert_eq!(
            counters(2..=2).len(),
            5,
            "every counter has its value at the beginning of the round"
        );
    }

    /// If this fails, tracks are shown in no order or taken for something else: Perfetto puts the
    /// track with the number of its process first and gives number 0 a meaning of its own, and
    /// chrome://tracing sorts by the index.
    #[test]
    fn tracks_are_the_rounds_and_then_the_users_by_number() {
        let trace: Value = serde_json::from_str(&written(Form::Trace, 1..=2)).unwrap();
        let of = |event: &Value, key: &str| event[key].as_u64().unwrap();
        let metadata = |what| {
            let events = trace["traceEvents"].as_array().unwrap().iter();
            let mut found: Vec<_> = events
                .filter(|e| e["ph"] == "M" && e["name"] == what)
                .collect();
            found.sort_by_key(|event| of(event, "tid"));
            found
        };
        let names = metadata("thread_name");
        let shown: Vec<_> = names
            .iter()
            .map(|event| event["args"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            shown,
            [
                "rounds",
                "user 1",
                r#"user 2 "\"Ann\", Bea""#,
                "user 3",
                "user 4"
            ]
        );
        assert_eq!(of(names[0], "tid"), of(names[0], "pid"));
        assert!(
            names[1..]
                .iter()
                .all(|event| of(event, "tid") >= 1_000_000_000),
            "{names:?}"
        );
        let order: Vec<_> = metadata("thread_sort_index")
            .iter()
            .map(|e| of(&e["args"], "sort_index"))
            .collect();
        assert!(order.len() == 5 && order.is_sorted(), "{order:?}");
    }

    /// If this fails, a viewer shows one slice inside another, or drops a slice.
    #[test]
    fn slices_of_a_track_follow_one_another() {
        let trace: Value = serde_json::from_str(&written(Form::Trace, 1..=2)).unwrap();
        let mut ends = std::collections::BTreeMap::new();
        for event in trace["traceEvents"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["ph"] == "X")
        {
            let track = (
                event["pid"].as_u64().unwrap(),
                event["tid"].as_u64().unwrap(),
            );
            let (ts, dur) = (
                event["ts"].as_f64().unwrap(),
                event["dur"].as_f64().unwrap(),
            );
            let end = ends.insert(track, ts + dur).unwrap_or(0.0);
            assert!(ts >= end - 1e-9, "{event} begins before {end}");
        }
    }

    #[test]
    fn a_log_is_complete_when_the_last_participation_of_its_rounds_has_ended() {
        let mut log = EventLog::begin(Vec::new(), Form::Lines, 1..=1, who).unwrap();
        let [(first, bookings), (second, late)] = sample::two_rounds();
        log.take(Some(first), &bookings).unwrap();
        assert!(!log.is_complete(), "user 2 is still uploading");
        log.take(Some(second), &late).unwrap();
        assert!(log.is_complete());
    }
}
