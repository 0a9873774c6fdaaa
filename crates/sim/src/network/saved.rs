//! The state of the network in a checkpoint.
//!
//! A checkpoint stores the calendar, the participations and the server's link. Appointments are not
//! stored, since a pending event tells whose it is. The result of a training that has not ended is
//! not stored either. Its inputs are, and it is worked out again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::participation::{Activity, Dropout, Loss, Participation};
use super::{Event, Network};
use crate::calendar::{Appointment, Calendar};
use crate::consultation::{Consultation, ReplySource};
use crate::download::RestoredDownloads;
use crate::invitation::{Invitation, Invited};
use crate::resident::unanswered;
use crate::upload::Upload;
use fedrecsim_core::{InvitationId, Result, SimTime, Step, UserId};
use fedrecsim_model::archive::damaged;
use fedrecsim_model::codec::{Frame, FrameParts};
use fedrecsim_model::{Archive, ArchiveReader};

/// A participation, without what follows from the scenario. In the checkpoint its download follows,
/// then its upload, if it has one, and the consultation of a third party, if there was one.
#[derive(Serialize, Deserialize)]
struct Saved {
    user: UserId,
    step: Step,
    invitation_id: InvitationId,
    sent: SimTime,
    leg: u8,
    activity: Activity,
    upload: Option<(FrameParts, f64)>,
    has_consultation: bool,
    dropout: Option<Dropout>,
    loss: Option<Loss>,
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
        if self.rounds.is_open() {
            let reason = "a checkpoint is of a state between two rounds";
            return Err(unanswered("network", reason));
        }
        if self.rounds.peers.third_party.is_some() {
            // Consultations are saved, since the third party cannot be asked again in the state
            // that it had.
            self.work_out_trainings().await?;
        }
        let mut archive = self.rounds.saved(write).await?;
        self.append_to(&mut archive)?;
        write(archive.take()?)
    }

    /// Appends the network's own state. What belongs to a round that is over is left out: bookings,
    /// local losses, and what was counted and watched.
    fn append_to(&self, archive: &mut Archive) -> Result<()> {
        archive.put(&(self.rounds.over(), self.now()));
        archive.put(&self.traffic.calendar.pending());
        archive.put(&self.traffic.server_link);
        archive.put(&(self.taking_part.len() as u64));
        for (user, participation) in self.taking_part.iter() {
            let (invitation, upload) = (&participation.invitation, &participation.upload);
            // A participation that has its upload no longer needs the consultation.
            let effort = participation.effort.as_ref().filter(|_| upload.is_none());
            let consultation = effort.and_then(|effort| effort.third_party.as_ref());
            archive.put(&Saved {
                user,
                step: invitation.step,
                invitation_id: invitation.id,
                sent: invitation.sent,
                leg: participation.leg,
                activity: participation.activity,
                upload: upload.as_ref().map(|upload| (upload.parts(), upload.loss)),
                has_consultation: consultation.is_some(),
                dropout: participation.dropout,
                loss: participation.loss,
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
    /// As [`ArchiveReader::take`], also for a state that is not one of this world.
    pub(crate) async fn restore(
        &mut self,
        archive: &mut ArchiveReader,
        downloads: &mut RestoredDownloads,
    ) -> Result<()> {
        let (rounds, now): (u32, SimTime) = archive.take()?;
        self.rounds.resume_after(rounds);
        let events: Vec<(SimTime, Event)> = archive.take()?;
        self.traffic.server_link = archive.take()?;
        self.traffic.watch.begin_at(now);
        let count: u64 = archive.take()?;
        let mut is_effort_needed = false;
        for _ in 0..count {
            let participation = self.restored(archive, downloads)?;
            // If a participation is at its first transfer, its training is worked out when that has
            // arrived.
            let works = matches!(participation.activity, Activity::Work { .. });
            is_effort_needed |= participation.upload.is_none() && (works || participation.leg > 0);
            self.taking_part.insert(participation.user, participation);
        }
        let (calendar, appointments) = Calendar::restore(now, &events);
        self.traffic.calendar = calendar;
        for ((time, event), appointment) in events.into_iter().zip(appointments) {
            self.know_appointment(time, event, appointment)?;
        }
        if is_effort_needed {
            self.work_out_trainings().await?;
        }
        Ok(())
    }

    /// Reads a participation, and has its user submit its training again if that has not ended.
    fn restored(
        &mut self,
        archive: &mut ArchiveReader,
        downloads: &mut RestoredDownloads,
    ) -> Result<Box<Participation>> {
        let saved: Saved = archive.take()?;
        let (user, leg) = (saved.user, saved.leg);
        if user.index() >= self.world.dataset.users() {
            return Err(damaged(format!("{user} takes part and is not there")));
        }
        let invitation = Invitation {
            step: saved.step,
            id: saved.invitation_id,
            download: downloads.take(archive, &self.world)?,
            sent: saved.sent,
        };
        if usize::from(leg) >= self.world.legs(invitation.download.phase()).len() {
            return Err(damaged(format!(
                "{user} is at leg {leg}, which is not there"
            )));
        }
        let upload = match saved.upload {
            Some((parts, loss)) => {
                let frame = Frame::of_saved(archive.take_bytes()?, parts)?;
                Some(Upload::saved(frame, loss))
            }
            None => None,
        };
        // A checkpoint has no consultation for a participation whose training fails. The third
        // party is asked again for it.
        let reply_source = match saved.has_consultation {
            true => Some(ReplySource::Saved(Arc::new(Consultation::restore(
                archive,
            )?))),
            false => self.rounds.reply_source()?,
        };
        if upload.is_none() {
            self.rounds.peers.workers.submit(Invited {
                user,
                invitation: invitation.clone(),
                reply_source,
                // A participation that outlasts its round may end early.
                keep: true,
            })?;
        }
        let conditions = self.world.population.conditions(user, invitation.id);
        let participation = Participation {
            leg,
            activity: saved.activity,
            upload,
            dropout: saved.dropout,
            loss: saved.loss,
            ..Participation::new(user, invitation, conditions)
        };
        if let Activity::Transfer(transfer) = &participation.activity {
            let arrives = participation.arrival(transfer);
            self.traffic.unshared.enter(transfer, arrives);
        }
        Ok(Box::new(participation))
    }

    /// Gives a pending event's appointment to the participation or link that waits for it.
    fn know_appointment(
        &mut self,
        time: SimTime,
        event: Event,
        appointment: Appointment,
    ) -> Result<()> {
        match event {
            Event::Alarm => {}
            Event::TransfersEnded(direction) => {
                if let Some(server) = &mut self.traffic.server_link {
                    server.lanes.of_mut(direction).next_end = Some((time, appointment));
                }
            }
            Event::Lost(user) => {
                if let Some(loss) = &mut self.participant(user)?.1.loss {
                    loss.appointment = Some(appointment);
                }
            }
            Event::FrameArrived(user)
            | Event::WorkEnded(user)
            | Event::StartUpEnded(user)
            | Event::RateChanges(user) => self.participant(user)?.1.next = Some(appointment),
        }
        Ok(())
    }
}
