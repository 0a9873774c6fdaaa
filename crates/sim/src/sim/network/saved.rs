//! The state of the network in a checkpoint.
//!
//! A checkpoint stores the calendar, the participations and the server's link. Appointments are
//! stored as positions in the list of pending events. The result of a training that has not ended
//! is not stored. Its inputs are, and it is worked out again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::participation::{Activity, Dropout, Loss, Participation, Transfer, Way};
use super::server_link::{Places, SavedLink, ServerLink};
use super::{Event, Network, answered, asked, unanswered};
use crate::sim::calendar::Calendar;
use crate::sim::checkpoints::Save;
use crate::sim::consultation::{Consultation, ReplySource};
use crate::sim::download::RestoredDownloads;
use crate::sim::messages::{Invitation, Invited, LossCause};
use crate::sim::upload::Upload;
use crate::sim::world::World;
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::{InvitationId, Step, UserId};
use fedrecsim_core::units::SimTime;
use fedrecsim_model::codec::{Frame, FrameParts};
use fedrecsim_model::model::archive::{Archive, ArchiveReader, damaged};

/// The number of bytes from which on a piece is written to the store.
const WRITTEN_AT_ONCE: usize = 1 << 20;

/// A participation, without what follows from the scenario. In the checkpoint its download follows,
/// then its upload, if it has one, and what it has consultation with a third party.
#[derive(Serialize, Deserialize)]
struct Saved {
    user: UserId,
    step: Step,
    invitation_id: InvitationId,
    leg: u8,
    activity: Activity,
    upload: Option<(FrameParts, f64)>,
    has_consultation: bool,
    next: Option<u32>,
    dropout: Option<Dropout>,
    loss: Option<(SimTime, u32, LossCause)>,
}

/// The network of a checkpoint.
pub(crate) struct NetworkState {
    /// The number of rounds that are over.
    rounds: u32,
    now: SimTime,
    events: Vec<(SimTime, Event)>,
    link: Option<SavedLink>,
    participations: Vec<(Saved, Invitation, Option<Upload>, Option<Consultation>)>,
}

impl NetworkState {
    /// Reads the network's state from `archive`.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(crate) fn restore(
        archive: &mut ArchiveReader,
        world: &World,
        downloads: &mut RestoredDownloads,
    ) -> Result<Self> {
        let (rounds, now) = archive.take()?;
        let events = archive.take()?;
        let link = archive.take()?;
        let count: u64 = archive.take()?;
        let mut participations = Vec::new();
        for _ in 0..count {
            let saved: Saved = archive.take()?;
            let (user, leg) = (saved.user, saved.leg);
            if user.index() >= world.dataset.users() {
                return Err(damaged(format!("{user} takes part and is not there")));
            }
            let invitation = Invitation {
                step: saved.step,
                id: saved.invitation_id,
                download: downloads.take(archive, world)?,
            };
            if usize::from(leg) >= world.legs(invitation.download.phase()).len() {
                return Err(damaged(format!(
                    "{user} is at leg {leg}, which is not there"
                )));
            }
            let upload = match saved.upload {
                Some((parts, loss)) => {
                    let frame = Frame::of_saved(archive.take_bytes()?.into(), parts)?;
                    Some(Upload::saved(frame, loss))
                }
                None => None,
            };
            let consultation = match saved.has_consultation {
                true => Some(Consultation::restore(archive)?),
                false => None,
            };
            participations.push((saved, invitation, upload, consultation));
        }
        Ok(Self {
            rounds,
            now,
            events,
            link,
            participations,
        })
    }
}

impl Network {
    /// Writes a checkpoint of the state between two rounds, in pieces.
    ///
    /// # Errors
    /// Those of `write`, an error if a round is open, and defects of the simulator.
    pub(crate) async fn save(
        &mut self,
        write: &mut dyn FnMut(Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        if self.open.is_some() {
            let reason = "a checkpoint is of a state between two rounds";
            return Err(unanswered("network", reason));
        }
        if self.peers.third_party.is_some() {
            // Exchanges are saved, since the third party cannot be asked again in the state that it
            // had.
            self.work_out_trainings().await?;
        }
        let mut archive = answered(&self.peers.save_server, Save(Archive::default()))?;
        self.peers.workers.save(
            self.rounds,
            &mut archive,
            &mut |archive| match archive.pending() >= WRITTEN_AT_ONCE {
                true => write(archive.take()?),
                false => Ok(()),
            },
        )?;
        if let Some(third_party) = &self.peers.third_party {
            archive = answered(&third_party.save, Save(archive))?;
        }
        archive = asked(self.peers.save_metrics.send(Save(archive))).await?;
        self.append_to(&mut archive)?;
        write(archive.take()?)
    }

    /// Appends the network's own state. Bookings, losses, counts and what was watched are left out,
    /// since they belong to a round that is over.
    fn append_to(&self, archive: &mut Archive) -> Result<()> {
        let pending = self.traffic.calendar.pending();
        let events: Vec<(SimTime, Event)> = pending
            .iter()
            .map(|(time, _, event)| (*time, **event))
            .collect();
        let places: Places = (0..)
            .zip(&pending)
            .map(|(place, (_, appointment, _))| (*appointment, place))
            .collect();
        let link = self.traffic.server_link.as_ref();
        archive.put(&(self.rounds, self.now()));
        archive.put(&events);
        archive.put(&link.map(|link| link.save(&places)));
        archive.put(&(self.taking_part.len() as u64));
        for (user, participation) in self.taking_part.iter() {
            let (invitation, upload) = (&participation.invitation, &participation.upload);
            // A participation that has its upload no longer needs the exchange.
            let consultation = participation.effort.as_ref();
            let consultation = consultation
                .and_then(|effort| effort.third_party.as_ref())
                .filter(|_| upload.is_none());
            // The event of an appointment may have happened, and is then not among the pending
            // ones.
            let place_of = |appointment| places.get(&appointment).copied();
            archive.put(&Saved {
                user,
                step: invitation.step,
                invitation_id: invitation.id,
                leg: participation.leg,
                activity: participation.activity,
                upload: upload.as_ref().map(|upload| (upload.parts(), upload.loss)),
                has_consultation: consultation.is_some(),
                next: participation.next.and_then(place_of),
                dropout: participation.dropout,
                loss: participation
                    .loss
                    .and_then(|loss| Some((loss.at, place_of(loss.appointment)?, loss.cause))),
            });
            invitation.download.save(user, archive)?;
            if let Some(upload) = upload {
                archive.put_bytes(&upload.bytes(user, invitation, &self.world)?);
            }
            if let Some(consultation) = consultation {
                consultation.save(archive);
            }
        }
        Ok(())
    }

    /// Takes over the state of a checkpoint. Trainings that are under way are worked out again.
    ///
    /// # Errors
    /// `Error::Unrestorable` if the state is not one of this
    /// world.
    pub(crate) async fn resume(&mut self, state: NetworkState) -> Result<()> {
        let (calendar, appointments) = Calendar::restore(state.now, state.events);
        (self.rounds, self.traffic.calendar) = (state.rounds, calendar);
        self.traffic.watch.begin_at(state.now);
        let appointment = |place: u32| {
            appointments
                .get(place as usize)
                .copied()
                .ok_or_else(|| damaged("an appointment that is not there"))
        };
        if let Some(link) = state.link {
            let network = &self.world.scenario.network;
            self.traffic.server_link = ServerLink::restore(link, network, appointment)?;
        }
        let mut is_effort_needed = false;
        for (saved, invitation, upload, consultation) in state.participations {
            let user = saved.user;
            if upload.is_none() {
                // A checkpoint has no exchange for a participation whose training fails. The third
                // party is asked again for it.
                let reply_source = match consultation {
                    Some(consultation) => Some(ReplySource::Saved(Arc::new(consultation))),
                    None => self.reply_source()?,
                };
                // A participation that outlasts its round may be cut off, so the user keeps its
                // parameters from before the training.
                self.submit(Invited {
                    user,
                    invitation: invitation.clone(),
                    reply_source,
                    keep: true,
                })?;
                // If a participation is at its first transfer, its training is worked out when that
                // has arrived.
                is_effort_needed |=
                    matches!(saved.activity, Activity::Work { .. }) || saved.leg > 0;
            }
            let conditions = self.world.population.conditions(user, invitation.id);
            let loss = match saved.loss {
                Some((at, place, cause)) => Some(Loss {
                    at,
                    appointment: appointment(place)?,
                    cause,
                }),
                None => None,
            };
            let participation = Participation {
                leg: saved.leg,
                activity: saved.activity,
                upload,
                next: saved.next.map(appointment).transpose()?,
                dropout: saved.dropout,
                loss,
                ..Participation::new(user, invitation, conditions, state.now)
            };
            if let Activity::Transfer(
                transfer @ Transfer {
                    way: Way::Alone, ..
                },
            ) = &participation.activity
            {
                let arrives = participation.arrival(transfer);
                self.traffic.unshared.enter(transfer, arrives);
            }
            self.taking_part.insert(user, Box::new(participation));
        }
        if is_effort_needed {
            self.work_out_trainings().await?;
        }
        Ok(())
    }
}
