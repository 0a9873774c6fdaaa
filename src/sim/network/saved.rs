//! The network in a checkpoint.
//!
//! Stored are the calendar, the participations and the server's link. Appointments are stored as places in the list of
//! pending events. The result of a training that has not ended is not stored: its inputs are, and it is worked out
//! again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::participation::{Dropout, Participation, Phase, Training, Transfer};
use super::transfers::{Places, SavedLink, ServerLink};
use super::{Timeline, asked, unanswered};
use crate::error::Result;
use crate::ids::{InvitationId, Step, UserId};
use crate::model::archive::{Archive, ArchiveReader, damaged};
use crate::model::state::StateVisitor;
use crate::sim::calendar::Calendar;
use crate::sim::checkpoints::Save;
use crate::sim::download::{OutgoingDownload, RestoredDownloads};
use crate::sim::messages::{ASKED_AT_ONCE, FromClient, ToClient};
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

impl Timeline {
    /// Leaves a checkpoint after so many rounds, if one is due.
    pub(super) async fn save_if_due(&mut self, rounds: u32) -> Result<()> {
        // After the last round there is nothing to go on with.
        if rounds == self.world.scenario.training.rounds || !self.store.is_due(rounds) {
            return Ok(());
        }
        self.store.begin(rounds)?;
        let mut archive = Archive::default();
        archive = asked(self.peers.save_server.send(Save(archive)), "server").await??;
        self.save_clients(&mut archive).await?;
        archive = asked(self.peers.save_metrics.send(Save(archive)), "metrics").await??;
        self.save(rounds, &mut archive)?;
        self.store.write(&archive.take()?)?;
        self.store.commit()
    }

    /// Appends the private parameters that somebody has touched; each user lends them meanwhile.
    async fn save_clients(&mut self, archive: &mut Archive) -> Result<()> {
        for users in self.peers.clients.started().chunks(ASKED_AT_ONCE) {
            let asking: Vec<_> = users.iter().map(|user| self.peers.clients.send(*user, ToClient::Lend)).collect();
            let mut returns = Vec::new();
            for answer in asking {
                match asked(answer, "client").await? {
                    FromClient::Lent(_, None) => {}
                    FromClient::Lent(user, Some(mut client)) => {
                        archive.put(&Some(user));
                        client.visit_state(&mut StateVisitor::Save(archive))?;
                        returns.push(self.peers.clients.send(user, ToClient::Return(client)));
                    }
                    _ => return Err(unanswered("client", "it is busy and cannot lend its parameters")),
                }
                if archive.pending() >= WRITTEN_AT_ONCE {
                    self.store.write(&archive.take()?)?;
                }
            }
            for answer in returns {
                match asked(answer, "client").await? {
                    FromClient::Done => {}
                    _ => return Err(unanswered("client", "it did not take its parameters back")),
                }
            }
        }
        archive.put(&None::<UserId>);
        Ok(())
    }

    /// Appends the network's own state. Bookings, losses and counts are those of a round, which is over.
    fn save(&self, rounds: u32, archive: &mut Archive) -> Result<()> {
        let pending = self.calendar.pending();
        let events: Vec<(SimTime, Event)> = pending.iter().map(|(time, _, event)| (*time, **event)).collect();
        let places: Places = (0..).zip(&pending).map(|(place, (_, appointment, _))| (*appointment, place)).collect();
        archive.put(&(rounds, self.calendar.now()));
        archive.put(&events);
        archive.put(&self.server_link.as_ref().map(|link| link.save(&places)));
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

    /// Takes up what a checkpoint says; the rounds that are over by then. Trainings that are under way are worked out
    /// again.
    pub(super) async fn resume(&mut self, state: NetworkState) -> Result<u32> {
        let NetworkState { rounds, now, events, link, participations } = state;
        let (calendar, appointments) = Calendar::restore(now, events);
        self.calendar = calendar;
        let appointment = |place: u32| {
            appointments.get(place as usize).copied().ok_or_else(|| damaged("an appointment that is not there"))
        };
        if let Some(link) = link {
            self.server_link = ServerLink::restore(link, &self.world.scenario.network.server, appointment)?;
        }
        let mut training = false;
        for (saved, download, frame) in participations {
            let SavedParticipation { user, step, invitation_id, phase, next, dropout, cut } = saved;
            training |= matches!(phase, SavedPhase::Training { .. });
            let (phase, training_of) = match phase {
                SavedPhase::Uploading { transfer, loss } => {
                    (Phase::Uploading { transfer, frame: frame.into(), loss }, Training::Over)
                }
                SavedPhase::Downloading(transfer) => {
                    (Phase::Downloading(transfer), self.work_again(user, step, invitation_id, &download).await?)
                }
                SavedPhase::Training { began } => {
                    (Phase::Training { began }, self.work_again(user, step, invitation_id, &download).await?)
                }
            };
            let conditions = self.world.population.conditions(user, invitation_id);
            let next = next.map(appointment).transpose()?;
            let cut = cut.map(|(time, place)| Ok((time, appointment(place)?))).transpose()?;
            let participation = Participation {
                step,
                invitation_id,
                download,
                conditions,
                phase,
                training: training_of,
                next,
                dropout,
                cut,
            };
            self.put(user, Box::new(participation));
        }
        if training {
            self.work_out_trainings()?;
        }
        Ok(rounds)
    }

    /// The training of a participation that was under way, from what the user kept.
    async fn work_again(
        &mut self,
        user: UserId,
        step: Step,
        invitation_id: InvitationId,
        download: &Arc<OutgoingDownload>,
    ) -> Result<Training> {
        let download = Arc::clone(download);
        // What lasts beyond a round may be cut short, so that its user keeps what it had.
        match self.ask(user, ToClient::Participate { step, invitation_id, download, keep: true }).await? {
            FromClient::Assignment(assignment) => {
                self.untrained.push(user);
                Ok(Training::Untrained(assignment))
            }
            _ => Err(unanswered("client", "it takes part twice")),
        }
    }
}
