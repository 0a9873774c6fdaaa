//! The state of the network in a checkpoint.
//!
//! A checkpoint stores the calendar, the participations and the server's link. Appointments are
//! stored as positions in the list of pending events. The result of a training that has not ended
//! is not stored. Its inputs are, and it is worked out again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::participation::{Activity, Cut, Dropout, Participation, Transfer, Upload, Way};
use super::server_link::{Places, SavedLink, ServerLink};
use super::transfers::Traffic;
use super::{Network, answered, asked, unanswered};
use crate::sim::calendar::Calendar;
use crate::sim::checkpoints::Save;
use crate::sim::consultation::{Consultation, ReplySource};
use crate::sim::download::{OutgoingDownload, RestoredDownloads};
use crate::sim::messages::{FromClient, LossCause, ToClient};
use crate::sim::upload::UploadFrame;
use crate::sim::world::World;
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::{InvitationId, Step, UserId};
use fedrecsim_core::units::SimTime;
use fedrecsim_model::codec::{Frame, FrameParts};
use fedrecsim_model::model::archive::{Archive, ArchiveReader, damaged};

/// The number of bytes from which on a piece is written to the store.
const WRITTEN_AT_ONCE: usize = 1 << 20;

/// A participation, without what follows from the scenario.
#[derive(Serialize, Deserialize)]
struct SavedParticipation {
    user: UserId,
    step: Step,
    invitation_id: InvitationId,
    leg: u8,
    activity: SavedActivity,
    has_consultation: bool,
    next: Option<u32>,
    dropout: Option<Dropout>,
    cut: Option<(SimTime, u32, LossCause)>,
}

/// The activity of a participation. In the checkpoint, the frame of an upload follows it, and so
/// does an exchange with a third party.
#[derive(Serialize, Deserialize)]
enum SavedActivity {
    Transfer(Transfer),
    Work {
        began: SimTime,
    },
    Upload {
        transfer: Transfer,
        parts: FrameParts,
        loss: f64,
    },
}

/// A participation as it is read, with what follows it in the checkpoint.
struct ReadParticipation {
    saved: SavedParticipation,
    download: Arc<OutgoingDownload>,
    frame: Vec<u8>,
    consultation: Option<Arc<Consultation>>,
}

/// The network of a checkpoint.
pub struct NetworkState {
    /// The number of rounds that are over.
    rounds: u32,
    now: SimTime,
    events: Vec<(SimTime, Event)>,
    link: Option<SavedLink>,
    participations: Vec<ReadParticipation>,
}

impl NetworkState {
    /// Reads the network's state from `archive`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`](fedrecsim_core::error::Error::Checkpoint) if the archive holds something else.
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
            let saved: SavedParticipation = archive.take()?;
            if saved.user.index() >= world.dataset.users() {
                return Err(damaged(format!(
                    "{} takes part and is not there",
                    saved.user
                )));
            }
            let download = downloads.take(archive, world)?;
            if usize::from(saved.leg) >= world.legs(download.phase()).len() {
                return Err(damaged(format!(
                    "{} is at leg {}, which is not there",
                    saved.user, saved.leg
                )));
            }
            let frame = match saved.activity {
                SavedActivity::Upload { .. } => archive.take_bytes()?,
                SavedActivity::Transfer(_) | SavedActivity::Work { .. } => Vec::new(),
            };
            let consultation = saved
                .has_consultation
                .then(|| Consultation::restore(archive))
                .transpose()?
                .map(Arc::new);
            participations.push(ReadParticipation {
                saved,
                download,
                frame,
                consultation,
            });
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
            return Err(unanswered(
                "network",
                "a checkpoint is of a state between two rounds",
            ));
        }
        if self.peers.third_party.is_some() {
            // Exchanges are saved, since the third party cannot be asked again in the state that it
            // had.
            self.work_out_trainings().await?;
        }
        let mut archive = Archive::default();
        archive = asked(self.peers.save_server.send(Save(archive)), "server").await??;
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
        archive = asked(self.peers.save_metrics.send(Save(archive)), "metrics").await??;
        self.append_to(&mut archive)?;
        write(archive.take()?)
    }

    /// Appends the network's own state. Bookings, losses, counts and what was watched are left out,
    /// since they belong to a round that is over.
    fn append_to(&self, archive: &mut Archive) -> Result<()> {
        let Traffic {
            calendar,
            server_link,
            ..
        } = &self.traffic;
        let pending = calendar.pending();
        let events: Vec<(SimTime, Event)> = pending
            .iter()
            .map(|(time, _, event)| (*time, **event))
            .collect();
        let places: Places = (0..)
            .zip(&pending)
            .map(|(place, (_, appointment, _))| (*appointment, place))
            .collect();
        archive.put(&(self.rounds, self.now()));
        archive.put(&events);
        archive.put(&server_link.as_ref().map(|link| link.save(&places)));
        archive.put(&(self.taking_part.len() as u64));
        for (user, participation) in self.taking_part.iter() {
            let Participation {
                step,
                invitation_id,
                leg,
                dropout,
                ..
            } = **participation;
            let activity = match (&participation.activity, &participation.upload) {
                (Activity::Transfer(transfer), Some(Upload { frame, loss })) => {
                    SavedActivity::Upload {
                        transfer: *transfer,
                        parts: frame.parts(),
                        loss: *loss,
                    }
                }
                (Activity::Transfer(transfer), None) => SavedActivity::Transfer(*transfer),
                (Activity::Work { began }, _) => SavedActivity::Work { began: *began },
            };
            // A participation that has its upload no longer needs the exchange.
            let consultation = participation
                .consultation()
                .filter(|_| participation.upload.is_none());
            let has_consultation = consultation.is_some();
            // The event of an appointment may have happened, and is then not among the pending
            // ones.
            let next = participation
                .next
                .and_then(|next| places.get(&next).copied());
            let cut = participation
                .cut
                .and_then(|cut| Some((cut.at, *places.get(&cut.appointment)?, cut.cause)));
            archive.put(&SavedParticipation {
                user,
                step,
                invitation_id,
                leg,
                activity,
                has_consultation,
                next,
                dropout,
                cut,
            });
            participation.download.save(user, archive)?;
            if let Some(Upload { frame, .. }) = &participation.upload {
                archive.put_bytes(&frame.bytes(&participation.origin(user), &self.world)?);
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
    /// [`Error::Checkpoint`](fedrecsim_core::error::Error::Checkpoint) if the state is not one of this
    /// world.
    pub(crate) async fn resume(&mut self, state: NetworkState) -> Result<()> {
        let NetworkState {
            rounds,
            now,
            events,
            link,
            participations,
        } = state;
        let (calendar, appointments) = Calendar::restore(now, events);
        (self.rounds, self.traffic.calendar) = (rounds, calendar);
        self.traffic.watch.begin_at(now);
        let appointment = |place: u32| {
            appointments
                .get(place as usize)
                .copied()
                .ok_or_else(|| damaged("an appointment that is not there"))
        };
        if let Some(link) = link {
            self.traffic.server_link =
                ServerLink::restore(link, &self.world.scenario.network, appointment)?;
        }
        let mut is_effort_needed = false;
        for ReadParticipation {
            saved,
            download,
            frame,
            consultation,
        } in participations
        {
            let SavedParticipation {
                user,
                step,
                invitation_id,
                leg,
                activity,
                next,
                dropout,
                cut,
                ..
            } = saved;
            let (activity, upload) = match activity {
                SavedActivity::Transfer(transfer) => (Activity::Transfer(transfer), None),
                SavedActivity::Work { began } => (Activity::Work { began }, None),
                SavedActivity::Upload {
                    transfer,
                    parts,
                    loss,
                } => {
                    let frame = UploadFrame::saved(Frame::of_saved(frame.into(), parts)?);
                    (Activity::Transfer(transfer), Some(Upload { frame, loss }))
                }
            };
            if upload.is_none() {
                self.submit_again(user, (step, invitation_id), &download, consultation)?;
                // If a participation is at its first transfer, its training is worked out when that
                // has arrived.
                is_effort_needed |= matches!(activity, Activity::Work { .. }) || leg > 0;
            }
            let conditions = self.world.population.conditions(user, invitation_id);
            let next = next.map(appointment).transpose()?;
            let cut = cut
                .map(|(at, place, cause)| {
                    Ok(Cut {
                        at,
                        appointment: appointment(place)?,
                        cause,
                    })
                })
                .transpose()?;
            let effort = None;
            let participation = Participation {
                step,
                invitation_id,
                download,
                conditions,
                leg,
                activity,
                effort,
                upload,
                next,
                dropout,
                cut,
            };
            if let Activity::Transfer(transfer) = &participation.activity
                && transfer.way == Way::Alone
            {
                self.traffic
                    .unshared
                    .enter(transfer, participation.arrival(transfer));
            }
            self.taking_part.insert(user, Box::new(participation));
        }
        if is_effort_needed {
            self.work_out_trainings().await?;
        }
        Ok(())
    }

    /// Has a user submit again the training that was under way.
    fn submit_again(
        &self,
        user: UserId,
        (step, invitation_id): (Step, InvitationId),
        download: &Arc<OutgoingDownload>,
        consultation: Option<Arc<Consultation>>,
    ) -> Result<()> {
        let download = Arc::clone(download);
        // A checkpoint has no exchange for a participation whose training fails. The third party is
        // asked again for it.
        let reply_source = consultation.map(ReplySource::Saved).map_or_else(
            || self.reply_source(),
            |reply_source| Ok(Some(reply_source)),
        )?;
        // A participation that outlasts its round may be cut off, so the user keeps its parameters
        // from before the training.
        match self.tell(
            user,
            ToClient::Participate {
                step,
                invitation_id,
                download,
                reply_source,
                keep: true,
            },
        ) {
            FromClient::Done => Ok(()),
            _ => Err(unanswered("client", "it takes part twice")),
        }
    }
}
