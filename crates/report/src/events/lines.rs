//! Writes events as JSON lines, one object per event, in the order of virtual time.

use std::io::{self, Write};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use fedrecsim_core::legs::Route;
use fedrecsim_core::{InvitationId, Who};
use fedrecsim_sim::outcome::{Booking, Ending, LinkEvent, PrivacyRecord, RoundSpan};

use super::stretch::Stretch;

/// What one line says. What does not belong to an event is left out.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub time_ns: u64,
    pub event: String,
    pub user: Option<Who>,
    pub invitation_id: Option<InvitationId>,
    /// The round of the participation's invitation, or the round itself.
    pub round: u32,
    /// The round that was open at the time, if it is another one.
    pub open_round: Option<u32>,
    pub bytes: Option<u64>,
    pub carried_bytes: Option<u64>,
    pub row_visits: Option<u64>,
    pub multiply_adds: Option<u64>,
    pub took_ns: Option<u64>,
    pub updates: Option<u32>,
    pub r#use: Option<&'static str>,
    pub privacy: Option<PrivacyRecord>,
}

/// A count of a line, by its name.
pub(super) type Count = (&'static str, fn(&Line) -> Option<u64>);

/// The counts in order. The name of the event comes before the user's number, and the user's name
/// after it.
pub(super) const COUNTS: [Count; 11] = [
    ("time_ns", |line| Some(line.time_ns)),
    ("user", |line| Some(line.user.as_ref()?.id.0.into())),
    ("invitation_id", |line| Some(line.invitation_id?.0.into())),
    ("round", |line| Some(line.round.into())),
    ("open_round", |line| line.open_round.map(u64::from)),
    ("bytes", |line| line.bytes),
    ("carried_bytes", |line| line.carried_bytes),
    ("row_visits", |line| line.row_visits),
    ("multiply_adds", |line| line.multiply_adds),
    ("took_ns", |line| line.took_ns),
    ("updates", |line| line.updates.map(u64::from)),
];

impl Line {
    /// Returns the user's name in the ratings file, if the line is about a user and there is a file.
    pub(super) fn name(&self) -> Option<&str> {
        self.user.as_ref()?.name.as_deref()
    }
}

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (place, (name, of)) in COUNTS.iter().enumerate() {
            match (place, self.name()) {
                (1, _) => map.serialize_entry("event", &self.event)?,
                (2, Some(name)) => map.serialize_entry("name", name)?,
                _ => {}
            }
            if let Some(count) = of(self) {
                map.serialize_entry(name, &count)?;
            }
        }
        if let Some(used) = self.r#use {
            map.serialize_entry("use", used)?;
        }
        if let Some(privacy) = &self.privacy {
            map.serialize_entry("privacy", privacy)?;
        }
        map.end()
    }
}

/// Makes the line of `booking` of `user`, which belongs to a participation of `round` and was made
/// while `open_round` was open. `stretch` is the stretch of time that ended with it.
pub(super) fn event(
    (booking, user): (&Booking, Who),
    round: u32,
    open_round: u32,
    stretch: Option<&Stretch>,
) -> Line {
    let mut line = Line {
        time_ns: booking.at.as_nanos(),
        user: Some(user),
        invitation_id: Some(booking.invitation_id),
        round,
        open_round: (open_round != round).then_some(open_round),
        ..Line::default()
    };
    let transfer = |route: Route, what: &str| format!("{}-{what}", route.name());
    match booking.event {
        LinkEvent::Sent(route, parts) => {
            line.bytes = Some(parts.total());
            line.event = transfer(route, "started");
        }
        LinkEvent::InLine(route) => line.event = transfer(route, "in-line"),
        LinkEvent::Connected(route) => line.event = transfer(route, "connected"),
        LinkEvent::TransferEnded {
            route,
            ending,
            carried,
            took_ns,
            ..
        } => {
            line.bytes = stretch.map(|stretch| stretch.frame_bytes);
            if ending.is_arrival() {
                line.event = transfer(route, "arrived");
                line.took_ns = Some(took_ns);
                let used = if ending == Ending::Done {
                    "useful"
                } else {
                    ending.name()
                };
                line.r#use = (route == Route::UPLOAD).then_some(used);
            } else {
                line.event = transfer(route, ending.name());
                line.carried_bytes = Some(carried);
            }
        }
        LinkEvent::WorkBegan(job) => line.event = format!("{}-started", job.name()),
        LinkEvent::WorkEnded {
            job,
            ending,
            work,
            took_ns,
        } => {
            line.event = format!(
                "{}-{}",
                job.name(),
                if ending == Ending::Done {
                    "ended"
                } else {
                    ending.name()
                }
            );
            (line.row_visits, line.took_ns) = (Some(work.row_visits), Some(took_ns));
            line.multiply_adds = (work.multiply_adds > 0).then_some(work.multiply_adds);
        }
    }
    line
}

/// Makes the line of a round's end.
pub(super) fn round(span: &RoundSpan) -> Line {
    Line {
        time_ns: span.ended.as_nanos(),
        event: "round-ended".to_owned(),
        round: span.round,
        took_ns: Some(span.ended.since(span.began).as_nanos()),
        updates: Some(span.aggregated),
        privacy: span.privacy,
        ..Line::default()
    }
}

/// Writes a line.
pub(super) fn put(out: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}
