//! Sorts what comes from connections: what is for the run, and what is not.

use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::accept::Incoming;
use super::connection::Reader;
use super::connections::{Connections, Joined};
use super::host::Lost;
use super::message::{Head, Made, Message};
use super::room::Place;
use fedrecsim_core::work::Work;
use fedrecsim_core::{Error, InvitationId, UserId};
use fedrecsim_model::codec::{Frame, FrameParts};
use fedrecsim_sim::deployment::{Event, Sent, Told};

/// What the run is told.
pub(crate) enum Happened {
    /// The run hears of an event, which happened at this instant. Where a peer has said it, it takes a
    /// place until it is handled.
    Event(Instant, Event, Option<Place>),
    /// A connection has ended, for this reason, and this is lost with it.
    Gone(Lost, String),
    /// This was lost with a connection, and the owner of the server knows it.
    Lost(Lost),
    /// A process has come.
    Joined,
    /// Peers were cut off.
    CutOff,
    /// The devices of these users begin anew, since their process has not kept them.
    BeginsAnew(Range<u32>),
}

/// Sorts what comes: answers go to who has asked, and the rest to the run.
pub(crate) async fn sort(
    connections: Rc<Connections>,
    mut inbox: UnboundedReceiver<(Instant, Incoming)>,
    events: UnboundedSender<Happened>,
) {
    while let Some((at, incoming)) = inbox.recv().await {
        let happened = match incoming {
            Incoming::Alarm => {
                // The server may be waiting for a process. Once it is woken, it sees whether the run is
                // interrupted.
                connections.changed.notify_one();
                Happened::Event(at, Event::AlarmRings, None)
            }
            Incoming::Joined(coming, id, writer, door) => {
                door.pass();
                let answer = writer.clone();
                match connections.join(&coming, id, writer) {
                    Ok(Joined { lost, begins_anew }) => {
                        let gone = lost.map(|lost| {
                            Happened::Gone(lost, "its process has connected again".to_owned())
                        });
                        let anew = begins_anew.then(|| Happened::BeginsAnew(coming.users));
                        // If this fails, so does the next one.
                        for happened in gone.into_iter().chain([Happened::Joined]).chain(anew) {
                            let _ = events.send(happened);
                        }
                        continue;
                    }
                    Err(reason) => {
                        let refusal = reason.clone().into_bytes();
                        answer.send(Message::with(Head::Refusal, refusal));
                        match connections.refused(reason) {
                            true => Happened::CutOff,
                            false => continue,
                        }
                    }
                }
            }
            Incoming::Refused(reason) => match connections.refused(reason) {
                true => Happened::CutOff,
                false => continue,
            },
            Incoming::Gone(id, reason) => match connections.gone(id) {
                Some(lost) => Happened::Gone(lost, reason),
                // The connection was refused, replaced or lost before, and the log has it already.
                None => continue,
            },
            Incoming::Said(id, message, _) if message.head == Head::Answer => {
                if connections.answered(id, message.payload) {
                    continue;
                }
                match connections.gone(id) {
                    Some(lost) => {
                        Happened::Gone(lost, "it answers what nobody has asked".to_owned())
                    }
                    None => continue,
                }
            }
            Incoming::Said(id, message, place) => match event_of(message) {
                Some(Event::Of(participant, told)) if connections.has(id, participant.0.0) => {
                    Happened::Event(at, Event::Of(participant, told), Some(place))
                }
                // The peer says what no device says, or speaks for a user that another process has.
                _ => match connections.gone(id) {
                    Some(lost) => Happened::Gone(lost, "it says what no device says".to_owned()),
                    None => continue,
                },
            },
        };
        if events.send(happened).is_err() {
            return;
        }
    }
}

/// Reads what a peer has sent, messages of `largest` bytes at most, as both ends read it and as the
/// server understands it. Returns the number of messages before something that is none. For `fuzz/`.
pub fn read_all(sent: &[u8], largest: u32) -> usize {
    let mut reader = Reader::new(sent, None, largest);
    let mut count = 0;
    while let Ok(message) = reader.next() {
        let _ = event_of(message);
        count += 1;
    }
    count
}

/// The work that a device may say that it has done, of each kind. Sums of what no device does would
/// overflow.
const MOST_WORK: u64 = 1 << 48;

/// Returns what a message tells the coordinator; `None` if a device does not say that.
fn event_of(message: Message) -> Option<Event> {
    let payload = message.payload;
    let sent = |made: Made, payload: Bytes| {
        if made.row_visits.max(made.multiply_adds) > MOST_WORK {
            return None;
        }
        let (header, index) = (u64::from(made.header), u64::from(made.index));
        let values = (payload.len() as u64)
            .checked_sub(header)?
            .checked_sub(index)?;
        let parts = FrameParts {
            header,
            index,
            values,
            modelled: 0,
        };
        let (row_visits, multiply_adds) = (made.row_visits, made.multiply_adds);
        Some(Sent {
            frame: Frame::of_saved(payload, parts).ok()?,
            work: Work {
                row_visits,
                multiply_adds,
            },
            took_ns: made.took_ns,
        })
    };
    let (to, told) = match message.head {
        Head::Received { to } => (to, Told::Received),
        Head::Request { to, peer, made } => (to, Told::Asked(peer, sent(made, payload)?)),
        Head::Upload { loss, .. } if !loss.is_finite() => return None,
        Head::Upload { to, made, loss } => (to, Told::Uploaded(sent(made, payload)?, loss)),
        Head::Failed { to, kind } => {
            let message = String::from_utf8_lossy(&payload).into_owned();
            (to, Told::Failed(Error::Told { kind, message }))
        }
        _ => return None,
    };
    let participant = (UserId(to.user), InvitationId(to.invitation));
    Some(Event::Of(participant, told))
}
