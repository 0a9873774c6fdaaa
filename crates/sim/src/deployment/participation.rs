//! A participation as the server sees it from outside: the leg that it is at, and since when.
//!
//! The device says when a frame has come and how long its own work took. What is left of the time
//! between two messages is the way of a frame.

use serde::{Deserialize, Serialize};

use crate::consultation::ReplySource;
use crate::download::RestoredDownloads;
use crate::invitation::{Invitation, Participant};
use crate::outcome::{Ending, LinkEvent};
use crate::world::World;
use fedrecsim_core::legs::{Job, Leg, Peer, Route};
use fedrecsim_core::work::Work;
use fedrecsim_core::{InvitationId, Result, SimTime, Step, UserId};
use fedrecsim_model::archive::damaged;
use fedrecsim_model::codec::{Frame, FrameParts};
use fedrecsim_model::{Archive, ArchiveReader};

use super::Sent;

/// A participation that is under way.
pub(super) struct Participation {
    user: UserId,
    pub invitation: Invitation,
    /// The third party as it was when the user was invited.
    pub reply_source: Option<ReplySource>,
    at: At,
    since: SimTime,
}

/// The leg that a participation is at.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum At {
    /// A frame is on its way to the device.
    Transfer(Route, u64),
    /// The device lists the rows that it will ask for, which takes no time in a simulation.
    Listing,
    /// The device works, and will send the result.
    Work(Job),
    /// Its upload of this many bytes has come, after so many nanoseconds on its way.
    Upload(u64, u64),
}

impl Participation {
    pub(super) fn new(
        user: UserId,
        invitation: Invitation,
        reply_source: Option<ReplySource>,
    ) -> Self {
        Self {
            user,
            invitation,
            reply_source,
            at: At::Listing,
            since: SimTime::ZERO,
        }
    }

    pub(super) fn participant(&self) -> Participant {
        (self.user, self.invitation.id)
    }

    /// Appends it to a checkpoint. When a run goes on, all that is under way is lost, so that nobody
    /// needs the third party as it was.
    ///
    /// # Errors
    /// As [`Download::save`](crate::download::Download::save).
    pub(super) fn save(&self, archive: &mut Archive) -> Result<()> {
        let Invitation {
            step, id, download, ..
        } = &self.invitation;
        archive.put(&(self.user, step, id, self.at, self.since));
        download.save(self.user, archive)
    }

    /// Reads what [`Self::save`] appended.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(super) fn restore(
        archive: &mut ArchiveReader,
        downloads: &mut RestoredDownloads,
        world: &World,
    ) -> Result<Self> {
        let (user, step, id, at, since): (UserId, Step, InvitationId, At, SimTime) =
            archive.take()?;
        if user.index() >= world.dataset.users() {
            return Err(damaged(format!("{user} takes part and is not there")));
        }
        let download = downloads.take(archive, world)?;
        let sent = SimTime::ZERO;
        let invitation = Invitation {
            step,
            id,
            download,
            sent,
        };
        Ok(Self {
            at,
            since,
            ..Self::new(user, invitation, None)
        })
    }

    /// Returns the route of the frame on its way to the device, if one is.
    pub(super) fn route(&self) -> Option<Route> {
        match self.at {
            At::Transfer(route, _) => Some(route),
            _ => None,
        }
    }

    /// Begins its first leg, and returns the frame of the invitation, which is empty unless a
    /// download comes first.
    ///
    /// # Errors
    /// Those of the method, where it makes a download for each user.
    pub(super) fn begun(
        mut self,
        now: SimTime,
        world: &World,
    ) -> Result<(Self, Frame, Option<LinkEvent>)> {
        self.since = now;
        let legs = world.legs(self.invitation.download.phase());
        let (frame, event) = match legs.first() {
            Some(Leg::Transfer(Route::DOWNLOAD)) => {
                let frame = self.invitation.download.frame(self.user)?;
                self.at = At::Transfer(Route::DOWNLOAD, frame.parts.total());
                let sent = LinkEvent::Sent(Route::DOWNLOAD, frame.parts);
                (frame, Some(sent))
            }
            Some(Leg::Work(job)) => {
                self.at = At::Work(*job);
                (Frame::none(), Some(LinkEvent::WorkBegan(*job)))
            }
            _ => (Frame::none(), None),
        };
        Ok((self, frame, event))
    }

    /// Moves on as the frame on its way has come; `None` if none is on its way.
    pub(super) fn received(&mut self, now: SimTime, world: &World) -> Option<Vec<LinkEvent>> {
        let At::Transfer(route, size) = self.at else {
            return None;
        };
        let asks = world.exchange(self.invitation.download.phase()).is_some();
        self.at = At::Work(match asks && route.peer == Peer::Server {
            true => Job::Request,
            false => Job::Training,
        });
        let took_ns = now.since(self.since).as_nanos();
        self.since = now;
        Some(vec![transferred(route, size, Ending::Done, took_ns)])
    }

    /// Moves on as a request to `peer` has come; `None` if it is not the time for one.
    pub(super) fn asked(
        &mut self,
        now: SimTime,
        peer: Peer,
        sent: &Sent,
    ) -> Option<Vec<LinkEvent>> {
        let (route, worked) = match (peer, self.at) {
            (Peer::Server, At::Listing) => (Route::ROW_REQUEST, None),
            (Peer::ThirdParty, At::Work(Job::Request)) => {
                (Route::REQUEST, Some(self.worked(now, Job::Request, sent)))
            }
            _ => return None,
        };
        let (parts, way) = (sent.frame.parts, self.way_of(now, sent));
        self.since = now;
        let came = transferred(route, parts.total(), Ending::Done, way);
        let events = worked
            .into_iter()
            .chain([LinkEvent::Sent(route, parts), came]);
        Some(events.collect())
    }

    /// Moves on as the reply to a request leaves.
    pub(super) fn replied(
        &mut self,
        now: SimTime,
        peer: Peer,
        (parts, work): (FrameParts, Work),
    ) -> Vec<LinkEvent> {
        let route = match peer {
            Peer::Server => Route::ASKED_ROWS,
            Peer::ThirdParty => Route::REPLY,
        };
        self.at = At::Transfer(route, parts.total());
        self.since = now;
        let sent = LinkEvent::Sent(route, parts);
        let made = LinkEvent::WorkEnded {
            job: Job::Reply,
            ending: Ending::Done,
            work,
            took_ns: 0,
        };
        match peer {
            Peer::Server => vec![sent],
            Peer::ThirdParty => vec![made, sent],
        }
    }

    /// Moves on as the upload has come; `None` if it is not the time for one.
    pub(super) fn uploaded(&mut self, now: SimTime, sent: &Sent) -> Option<[LinkEvent; 2]> {
        let At::Work(Job::Training) = self.at else {
            return None;
        };
        let worked = self.worked(now, Job::Training, sent);
        let took_ns = self.way_of(now, sent);
        self.at = At::Upload(sent.frame.parts.total(), took_ns);
        let sent = LinkEvent::Sent(Route::UPLOAD, sent.frame.parts);
        Some([worked, sent])
    }

    /// Returns the event of the end of what it is at; `None` if that is not booked.
    pub(super) fn ended(&self, now: SimTime, ending: Ending) -> Option<LinkEvent> {
        let took_ns = now.since(self.since).as_nanos();
        match self.at {
            At::Listing => None,
            At::Transfer(route, size) => Some(transferred(route, size, ending, took_ns)),
            At::Work(job) => Some(LinkEvent::WorkEnded {
                job,
                ending,
                work: Work::default(),
                took_ns,
            }),
            At::Upload(size, took_ns) => Some(transferred(Route::UPLOAD, size, ending, took_ns)),
        }
    }

    fn worked(&self, now: SimTime, job: Job, sent: &Sent) -> LinkEvent {
        LinkEvent::WorkEnded {
            job,
            ending: Ending::Done,
            work: sent.work,
            took_ns: now.since(self.since).as_nanos() - self.way_of(now, sent),
        }
    }

    /// Returns the time since the last message that the device did not work.
    fn way_of(&self, now: SimTime, sent: &Sent) -> u64 {
        let elapsed = now.since(self.since).as_nanos();
        elapsed.saturating_sub(sent.took_ns)
    }
}

/// Returns the event of the end of a frame's way. A connection carries all of it or breaks, and
/// nobody knows how far it had come then.
fn transferred(route: Route, carried: u64, ending: Ending, took_ns: u64) -> LinkEvent {
    LinkEvent::TransferEnded {
        route,
        ending,
        carried,
        received: true,
        took_ns,
    }
}
