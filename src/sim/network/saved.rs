//! The network in a checkpoint.
//!
//! Stored are the calendar, the participations and the server's link. Appointments are stored as places in the list of
//! pending events. The result of a training that has not ended is not stored: its inputs are, and it is worked out
//! again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::participation::{Dropout, Participation, Phase, Transfer};
use super::transfers::{Places, SavedLink, ServerLink, Traffic};
use super::{Network, asked, unanswered};
use crate::error::Result;
use crate::ids::{InvitationId, Step, UserId};
use crate::model::archive::{Archive, ArchiveReader, damaged};
use crate::sim::calendar::Calendar;
use crate::sim::checkpoints::Save;
use crate::sim::download::{OutgoingDownload, RestoredDownloads};
use crate::sim::messages::{FromClient, ToClient};
use crate::sim::world::World;
use crate::units::SimTime;

/// So many bytes go to the store at once, at least.
const WRITTEN_AT_ONCE: usize = 1 << 20;

/// A participation without what follows from the scenario.
#[derive(Serialize, Deserialize)]
struct SavedParticipation {
    user: UserId,
    step: Step,
    invitation_id: InvitationId,
    phase: SavedPhase,
    next: Option<u32>,
    dropout: Option<Dropout>,
    cut: Option<(SimTime, u32)>,
}

/// What it is at. The frame of an upload follows it.
#[derive(Serialize, Deserialize)]
enum SavedPhase {
    Downloading(Transfer),
    Training { began: SimTime },
    Uploading { transfer: Transfer, loss: f64 },
}

/// The network of a checkpoint.
pub struct NetworkState {
    /// Rounds that are over.
    rounds: u32,
    now: SimTime,
    events: Vec<(SimTime, Event)>,
    link: Option<SavedLink>,
    participations: Vec<(SavedParticipation, Arc<OutgoingDownload>, Vec<u8>)>,
}

impl NetworkState {
    /// Reads it.
    ///
    /// # Errors
    /// [`Error::Checkpoint`](crate::error::Error::Checkpoint) for what no network has saved.
    pub fn restore(archive: &mut ArchiveReader, world: &World, downloads: &mut RestoredDownloads) -> Result<Self> {
        let (rounds, now) = archive.take()?;
        let events = archive.take()?;
        let link = archive.take()?;
        let count: u64 = archive.take()?;
        let mut participations = Vec::new();
        for _ in 0..count {
            let saved: SavedParticipation = archive.take()?;
            if saved.user.index() >= world.dataset.users() {
                return Err(damaged(format!("{} takes part and is not there", saved.user)));
            }
            let download = downloads.take(archive, world)?;
            let frame = match saved.phase {
                SavedPhase::Uploading { .. } => archive.take_bytes()?,
                _ => Vec::new(),
            };
            participations.push((saved, download, frame));
        }
        Ok(Self { rounds, now, events, link, participations })
    }
}

impl Network {
    /// Writes a checkpoint in pieces. It holds the state between two rounds.
    ///
    /// # Errors
    /// Those of `write`; a round that is open, and defects of the simulator.
    pub async fn save(&self, write: &mut dyn FnMut(Vec<u8>) -> Result<()>) -> Result<()> {
        if self.open.is_some() {
            return Err(unanswered("network", "a checkpoint is of a state between two rounds"));
        }
        let mut archive = Archive::default();
        archive = asked(self.peers.save_server.send(Save(archive)), "server").await??;
        self.peers.workers.save(&mut archive, &mut |archive| match archive.pending() >= WRITTEN_AT_ONCE {
            true => write(archive.take()?),
            false => Ok(()),
        })?;
        archive = asked(self.peers.save_metrics.send(Save(archive)), "metrics").await??;
        self.append_to(&mut archive)?;
        write(archive.take()?)
    }

    /// Appends the network's own state. Bookings, losses and counts are those of a round, which is over.
    fn append_to(&self, archive: &mut Archive) -> Result<()> {
        let Traffic { calendar, server_link, .. } = &self.traffic;
        let pending = calendar.pending();
        let events: Vec<(SimTime, Event)> = pending.iter().map(|(time, _, event)| (*time, **event)).collect();
        let places: Places = (0..).zip(&pending).map(|(place, (_, appointment, _))| (*appointment, place)).collect();
        archive.put(&(self.rounds, self.now()));
        archive.put(&events);
        archive.put(&server_link.as_ref().map(|link| link.save(&places)));
        archive.put(&(self.taking_part.len() as u64));
        for (user, participation) in self.taking_part.iter() {
            let Participation { step, invitation_id, dropout, .. } = **participation;
            let phase = match &participation.phase {
                Phase::Downloading(transfer) => SavedPhase::Downloading(*transfer),
                Phase::Training { began } => SavedPhase::Training { began: *began },
                Phase::Uploading { transfer, loss, .. } => SavedPhase::Uploading { transfer: *transfer, loss: *loss },
            };
            // An appointment that was kept stands here no longer, and cancels nothing.
            let next = participation.next.and_then(|next| places.get(&next).copied());
            let cut = participation.cut.and_then(|(time, cut)| Some((time, *places.get(&cut)?)));
            archive.put(&SavedParticipation { user, step, invitation_id, phase, next, dropout, cut });
            participation.download.save(user, archive)?;
            if let Phase::Uploading { frame, .. } = &participation.phase {
                archive.put_bytes(frame);
            }
        }
        Ok(())
    }

    /// Takes up what a checkpoint says. Trainings that are under way are worked out again.
    ///
    /// # Errors
    /// [`Error::Checkpoint`](crate::error::Error::Checkpoint) for what no network of this world has saved.
    pub async fn resume(&mut self, state: NetworkState) -> Result<()> {
        let NetworkState { rounds, now, events, link, participations } = state;
        let (calendar, appointments) = Calendar::restore(now, events);
        (self.rounds, self.traffic.calendar) = (rounds, calendar);
        let appointment = |place: u32| {
            appointments.get(place as usize).copied().ok_or_else(|| damaged("an appointment that is not there"))
        };
        if let Some(link) = link {
            self.traffic.server_link = ServerLink::restore(link, &self.world.scenario.network.server, appointment)?;
        }
        let mut training = false;
        for (saved, download, frame) in participations {
            let SavedParticipation { user, step, invitation_id, phase, next, dropout, cut } = saved;
            training |= matches!(phase, SavedPhase::Training { .. });
            let phase = match phase {
                SavedPhase::Uploading { transfer, loss } => Phase::Uploading { transfer, frame: frame.into(), loss },
                SavedPhase::Downloading(transfer) => Phase::Downloading(transfer),
                SavedPhase::Training { began } => Phase::Training { began },
            };
            if !matches!(phase, Phase::Uploading { .. }) {
                self.submit_again(user, step, invitation_id, &download)?;
            }
            let conditions = self.world.population.conditions(user, invitation_id);
            let next = next.map(appointment).transpose()?;
            let cut = cut.map(|(time, place)| Ok((time, appointment(place)?))).transpose()?;
            let effort = None;
            let participation =
                Participation { step, invitation_id, download, conditions, phase, effort, next, dropout, cut };
            self.taking_part.insert(user, Box::new(participation));
        }
        if training {
            self.work_out_trainings().await?;
        }
        Ok(())
    }

    /// The user submits the training again that was under way, from what it kept.
    fn submit_again(
        &self,
        user: UserId,
        step: Step,
        invitation_id: InvitationId,
        download: &Arc<OutgoingDownload>,
    ) -> Result<()> {
        let download = Arc::clone(download);
        // What lasts beyond a round may be cut short, so that its user keeps what it had.
        match self.tell(user, ToClient::Participate { step, invitation_id, download, keep: true }) {
            FromClient::Done => Ok(()),
            _ => Err(unanswered("client", "it takes part twice")),
        }
    }
}
