//! Turns events into stretches of time, which say what a client was doing, from when to when, and
//! how that ended.

use std::collections::BTreeMap;

use fedrecsim_core::legs::{Job, Route};
use fedrecsim_core::work::Work;
use fedrecsim_core::{InvitationId, SimTime, UserId};
use fedrecsim_sim::outcome::{Booking, Ending, LinkEvent};

/// The activity of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It waits for one of the server's connections.
    InLine(Route),
    /// A frame is on its way.
    Transfer(Route),
    /// It works, or a third party works for it.
    Work(Job),
}

impl Phase {
    /// Returns the name of the phase in a few words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InLine(_) => "in line",
            Self::Transfer(route) => route.name(),
            Self::Work(job) => job.name(),
        }
    }
}

/// A stretch of time in a participation, during which its phase is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The user.
    pub user: UserId,
    /// The invitation.
    pub invitation_id: InvitationId,
    /// The round of the invitation, from 1.
    pub round: u32,
    /// The activity of the client.
    pub phase: Phase,
    /// When it began.
    pub from: SimTime,
    /// When it ended.
    pub to: SimTime,
    /// How it ended.
    pub ending: Ending,
    /// Length of the frame and of the modelled bytes that travel with it; 0 in training.
    pub frame_bytes: u64,
    /// Bytes of the frame that had been carried by then.
    pub carried_bytes: u64,
    /// Work of the training that had been done by then; nothing in a transfer.
    pub work: Work,
}

impl Stretch {
    /// Returns whether the participation ends with this stretch.
    pub(crate) fn is_last(&self) -> bool {
        self.ending != Ending::Done || self.phase == Phase::Transfer(Route::UPLOAD)
    }
}

/// The participations that have not ended, by user.
#[derive(Debug, Default)]
pub(crate) struct Participations {
    open: BTreeMap<UserId, Open>,
}

/// The current phase of a participation.
#[derive(Clone, Copy, Debug)]
struct Open {
    round: u32,
    phase: Phase,
    since: SimTime,
    frame_bytes: u64,
}

impl Participations {
    /// Returns the round, from 1, when the current participation of `user` began, if there is one.
    pub(crate) fn round_of(&self, user: UserId) -> Option<u32> {
        self.open.get(&user).map(|open| open.round)
    }

    /// Returns the earliest round when one of the current participations began.
    pub(crate) fn earliest_round(&self) -> Option<u32> {
        self.open.values().map(|open| open.round).min()
    }

    /// Takes `booking`, which is made while `round` (from 1) is open, and returns the stretch that
    /// ends with it, if one does.
    pub(crate) fn follow(&mut self, round: u32, booking: &Booking) -> Option<Stretch> {
        let Booking {
            at,
            invitation_id,
            user,
            event,
        } = *booking;
        let begun = match event {
            LinkEvent::Sent(route, parts) => Some((
                Phase::Transfer(route),
                parts.total(),
                matches!(route, Route::DOWNLOAD | Route::ROW_REQUEST),
            )),
            LinkEvent::WorkBegan(job) => Some((Phase::Work(job), 0, true)),
            _ => None,
        };
        if let Some((phase, frame_bytes, is_first)) = begun {
            let round = self.round_of(user).filter(|_| !is_first).unwrap_or(round);
            self.open.insert(
                user,
                Open {
                    round,
                    phase,
                    since: at,
                    frame_bytes,
                },
            );
            return None;
        }
        let open = self.open.get_mut(&user)?;
        let (ending, carried_bytes, work) = match event {
            LinkEvent::Sent(..) | LinkEvent::WorkBegan(_) => return None,
            LinkEvent::InLine(route) => {
                open.phase = Phase::InLine(route);
                return None;
            }
            LinkEvent::Connected(_) => (Ending::Done, 0, Work::default()),
            LinkEvent::TransferEnded {
                ending, carried, ..
            } => (ending, carried, Work::default()),
            LinkEvent::WorkEnded {
                job, ending, work, ..
            } => {
                // That work began showed in the end of a transfer, which does not say what the work
                // was.
                open.phase = Phase::Work(job);
                (ending, 0, work)
            }
        };
        let before = *open;
        match event {
            LinkEvent::Connected(route) => (open.phase, open.since) = (Phase::Transfer(route), at),
            // The next thing that is booked is the end of work, or the beginning of a transfer at
            // this instant.
            LinkEvent::TransferEnded {
                ending: Ending::Done,
                ..
            } => {
                *open = Open {
                    phase: Phase::Work(Job::Training),
                    since: at,
                    frame_bytes: 0,
                    ..before
                };
            }
            _ => {}
        }
        let Open {
            round,
            phase,
            since: from,
            frame_bytes,
        } = before;
        let stretch = Stretch {
            user,
            invitation_id,
            round,
            phase,
            from,
            to: at,
            ending,
            frame_bytes,
            carried_bytes,
            work,
        };
        if stretch.is_last() {
            self.open.remove(&user);
        }
        Some(stretch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::events::{Scene, ended, parts, trained};
    use fedrecsim_model::codec::FrameParts;

    #[test]
    fn a_participation_is_a_download_a_training_and_an_upload_without_a_gap() {
        let bookings = Scene::default()
            .at(0, 7, LinkEvent::Sent(Route::DOWNLOAD, parts(100)))
            .at(0, 7, LinkEvent::InLine(Route::DOWNLOAD))
            .at(5, 7, LinkEvent::Connected(Route::DOWNLOAD))
            .at(20, 7, ended(Route::DOWNLOAD, Ending::Done, 100, 20))
            .at(50, 7, trained(Ending::Done, 9, 30))
            .at(50, 7, LinkEvent::Sent(Route::UPLOAD, parts(40)))
            .at(80, 7, ended(Route::UPLOAD, Ending::Late, 40, 30))
            .bookings;
        let mut participations = Participations::default();
        // The open round has changed meanwhile, but the participation belongs to the round that it
        // was invited in.
        let stretches: Vec<Stretch> = bookings
            .iter()
            .filter_map(|booking| {
                participations.follow(if booking.at.as_nanos() < 60 { 3 } else { 4 }, booking)
            })
            .collect();
        let seen: Vec<_> = stretches
            .iter()
            .map(|s| {
                (
                    s.phase.name(),
                    s.from.as_nanos(),
                    s.to.as_nanos(),
                    s.ending,
                    s.carried_bytes,
                    s.work.row_visits,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("in line", 0, 5, Ending::Done, 0, 0),
                ("download", 5, 20, Ending::Done, 100, 0),
                ("training", 20, 50, Ending::Done, 0, 9),
                ("upload", 50, 80, Ending::Late, 40, 0)
            ]
        );
        assert!(
            stretches
                .iter()
                .all(|stretch| stretch.round == 3 && stretch.invitation_id == InvitationId(0))
        );
        assert_eq!(
            participations.earliest_round(),
            None,
            "it has come to its end"
        );
    }

    /// If this fails, the end of a transfer tells fewer bytes than its beginning.
    #[test]
    fn what_travels_with_a_frame_counts_at_its_end_as_at_its_beginning() {
        let sent = FrameParts {
            modelled: 7,
            ..parts(100)
        };
        let bookings = Scene::default()
            .at(0, 7, LinkEvent::Sent(Route::DOWNLOAD, sent))
            .at(9, 7, ended(Route::DOWNLOAD, Ending::Lost, 60, 9))
            .bookings;
        let mut participations = Participations::default();
        let stretches = bookings
            .iter()
            .filter_map(|booking| participations.follow(1, booking));
        let bytes: Vec<u64> = stretches.map(|stretch| stretch.frame_bytes).collect();
        assert_eq!(bytes, [sent.total()]);
    }

    #[test]
    fn whatever_cuts_a_participation_short_ends_it() {
        for ending in [Ending::Lost, Ending::Cancelled, Ending::Unfinished] {
            let bookings = Scene::default()
                .at(0, 7, LinkEvent::Sent(Route::DOWNLOAD, parts(100)))
                .at(9, 7, ended(Route::DOWNLOAD, ending, 60, 9))
                .bookings;
            let mut participations = Participations::default();
            assert_eq!(participations.follow(1, &bookings[0]), None);
            assert_eq!(participations.round_of(UserId(7)), Some(1));
            let stretch = participations.follow(1, &bookings[1]);
            assert_eq!(
                stretch.map(|s| (s.ending, s.carried_bytes, s.frame_bytes)),
                Some((ending, 60, 100))
            );
            assert_eq!(participations.round_of(UserId(7)), None);
        }
    }
}
