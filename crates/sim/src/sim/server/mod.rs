//! The server, which picks cohorts, sends the model and makes steps of the updates that come back.
//!
//! It sees frames and nothing else. Whatever happens (a step begins, an upload arrives, a
//! participation is lost, an alarm rings), it answers with its orders: whom to invite, when to wake
//! it, and whether the step is complete. `steps` has the rules by which a mode decides that,
//! `cohort` those by which users are picked, and `averages` makes a step of the updates.

use std::sync::Arc;

use actix::prelude::*;

use super::audit::Audit;
use super::by_user::ByUser;
use super::checkpoints::Save;
use super::download::{OutgoingDownload, RestoredDownloads, Versions};
use super::identity::Identity;
use super::messages::{
    AlarmRang, BeginStep, CloseStep, Ending, GetModel, Orders, ParticipationLost, Receipt,
    SetModel, StepOutcome, UplinkArrived,
};
use super::upload::UploadOrigin;
use super::workers::Pool;
use super::world::World;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::{InvitationId, Round, Step, UserId};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::units::SimTime;
use fedrecsim_methods::method::server::StepReport;
use fedrecsim_methods::method::{Phase, Server};
use fedrecsim_model::model::archive::{Archive, ArchiveReader};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::state::{StateVisitor, restore_model, save_model};
use fedrecsim_scenario::scenario::{LateUpdates, Stragglers};

mod alone;
mod averages;
mod cohort;
mod downloads;
mod oort;
mod roster;
mod spending;
mod steps;

use alone::StepAlone;
use averages::Arrived;
use cohort::Cohorts;
use spending::Spending;
use steps::OpenStep;

/// The server's actor. It knows the model and what arrives, but no private parameter.
pub(crate) struct ServerActor {
    world: Arc<World>,
    workers: Pool,
    /// The method's server side, with the model.
    server: Box<dyn Server>,
    /// The number of the model's present version, which names the download that says it. Every step
    /// with an update makes a new version, and so does a model that is set from outside.
    version: u32,
    /// The number of steps that the server has made, which leaves out empty ones.
    steps: u32,
    /// The step without participants that is under way, if there is one.
    alone: Option<StepAlone>,
    /// The download for participants until the next step; `None` until somebody needs it.
    download: Option<Arc<OutgoingDownload>>,
    /// The versions of each phase's download of which changes are sent.
    versions: Vec<Versions>,
    /// The number of invitations so far.
    invitations_sent: u32,
    cohorts: Cohorts,
    /// What is read out of uploads, if the scenario asks for it. It changes nothing.
    audit: Audit,
    spending: Spending,
    /// The participations under way, of this step or an earlier one.
    open: ByUser<Open>,
    step: OpenStep,
    arrived: Vec<Arrived>,
    /// The number of steps in a row without an update.
    empty_steps: u32,
    /// The number of participations in a row that ended without an update that was used.
    ended_without_update: u64,
    /// When the calendar wakes the server because somebody becomes available, so that it sets no
    /// second alarm for that.
    wakes_at: Option<SimTime>,
}

/// A participation as the server knows it.
struct Open {
    step: Step,
    invitation_id: InvitationId,
    began: SimTime,
    download: Arc<OutgoingDownload>,
    /// The rows that the user has asked for, once it has.
    asked: Option<Arc<[u32]>>,
}

/// A participation in a checkpoint, where its download follows apart.
type SavedOpen = (UserId, Step, InvitationId, SimTime, Option<Vec<u32>>);

impl ServerActor {
    /// Makes the server of a run that begins.
    pub(crate) fn new(world: Arc<World>, workers: Pool) -> Self {
        Self {
            server: world.method.server(),
            version: 0,
            steps: 0,
            alone: None,
            download: None,
            versions: Vec::new(),
            invitations_sent: 0,
            cohorts: Cohorts::new(Arc::clone(&world)),
            audit: Audit::new(&world),
            spending: Spending::default(),
            open: ByUser::default(),
            step: OpenStep::default(),
            arrived: Vec::new(),
            empty_steps: 0,
            ended_without_update: 0,
            wakes_at: None,
            world,
            workers,
        }
    }

    /// Reads the server of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if the archive holds something else.
    pub(crate) fn restore(
        archive: &mut ArchiveReader,
        downloads: &mut RestoredDownloads,
        world: Arc<World>,
        workers: Pool,
    ) -> Result<Self> {
        archive.take::<Identity>()?.check(&world)?;
        let mut server = Self::new(world, workers);
        let (open, has_download): (Vec<SavedOpen>, bool);
        (
            server.invitations_sent,
            server.empty_steps,
            server.ended_without_update,
            server.wakes_at,
            has_download,
            open,
        ) = archive.take()?;
        server.cohorts.restore(archive)?;
        let world = Arc::clone(&server.world);
        server.audit.restore(archive, &world)?;
        server.spending.restore(archive)?;
        (server.version, server.steps) = archive.take()?;
        let model = restore_model(archive, server.server.model().layout())?;
        server.server.set_model(model)?;
        server
            .server
            .visit_state(&mut StateVisitor::Restore(archive))?;
        let phases: Vec<u8> = archive.take()?;
        for phase in phases {
            server
                .versions
                .push(Versions::restore(Phase(phase), archive, &server.world)?);
        }
        if has_download {
            server.download = Some(downloads.take(archive, &server.world)?);
        }
        for (user, step, invitation_id, began, asked) in open {
            let (download, asked) = (
                downloads.take(archive, &server.world)?,
                asked.map(Arc::from),
            );
            server.open.insert(
                user,
                Open {
                    step,
                    invitation_id,
                    began,
                    download,
                    asked,
                },
            );
        }
        Ok(server)
    }

    /// Appends the server to `archive`. At the end of a step, the state of the step and the list of
    /// arrivals are empty.
    fn save(&mut self, archive: &mut Archive) -> Result<()> {
        archive.put(&Identity::of(&self.world));
        let saved = |(user, open): (UserId, &Open)| {
            (
                user,
                open.step,
                open.invitation_id,
                open.began,
                open.asked.as_ref().map(|rows| rows.to_vec()),
            )
        };
        let open: Vec<_> = self.open.iter().map(saved).collect();
        archive.put(&(
            self.invitations_sent,
            self.empty_steps,
            self.ended_without_update,
            self.wakes_at,
            self.download
                .as_ref()
                .is_some_and(|download| download.has_to_be_kept()),
            open,
        ));
        self.cohorts.save(archive);
        self.audit.save(archive);
        self.spending.save(archive);
        archive.put(&(self.version, self.steps));
        save_model(archive, self.server.model());
        self.server.visit_state(&mut StateVisitor::Save(archive))?;
        archive.put(
            &self
                .versions
                .iter()
                .map(|versions| versions.phase().0)
                .collect::<Vec<_>>(),
        );
        self.versions
            .iter()
            .for_each(|versions| versions.save(archive));
        // Downloads of single users can be made again from the state that was just saved.
        if let Some(download) = self
            .download
            .as_ref()
            .filter(|download| download.has_to_be_kept())
        {
            download.save(UserId(0), archive)?;
        }
        self.open
            .iter()
            .try_for_each(|(user, open)| open.download.save(user, archive))
    }

    /// Returns the number of the next step, among those that are not empty, and the round that it
    /// belongs to.
    fn step_name(&self) -> (u32, Round) {
        (
            self.steps,
            self.world.scenario.training.round_of(self.step.step),
        )
    }

    /// Removes and returns a participation that has come to an end; `None` if the server had given
    /// it up before.
    fn account_for(&mut self, user: UserId, invitation_id: InvitationId) -> Option<Open> {
        self.open
            .get(&user)
            .filter(|open| open.invitation_id == invitation_id)?;
        let open = self.open.remove(&user)?;
        self.cohorts.released(user);
        if open.step == self.step.step {
            self.step.open -= 1;
        }
        Some(open)
    }

    /// Counts a participation that has come to its end, with an update that is used or without.
    fn count_ended_participation(&mut self, with_update: bool) {
        self.ended_without_update = if with_update {
            0
        } else {
            self.ended_without_update + 1
        };
    }

    /// Returns the ending of a sound upload in a participation that began in step `began`.
    fn ending(&self, began: Step) -> Ending {
        let staleness = self.step.step.0 - began.0;
        match self.world.policy.late_updates {
            // The server makes the open step by itself and takes no update into it.
            _ if self.alone.is_some() => Ending::Late,
            _ if staleness == 0 => Ending::Done,
            LateUpdates::NotUsed => Ending::Late,
            LateUpdates::Used {
                maximum_staleness, ..
            } if staleness > maximum_staleness => Ending::Stale,
            LateUpdates::Used { .. } => Ending::Done,
        }
    }

    /// Gives up the participations for which the step did not wait, if the policy says so, and
    /// returns their users.
    fn give_up(&mut self) -> Vec<UserId> {
        if self.world.policy.stragglers == Stragglers::Late {
            return Vec::new();
        }
        let given_up: Vec<UserId> = self.open.drain().map(|(user, _)| user).collect();
        given_up
            .iter()
            .for_each(|user| self.cohorts.released(*user));
        given_up
    }
}

impl Actor for ServerActor {
    type Context = Context<Self>;
}

impl Handler<BeginStep> for ServerActor {
    type Result = Result<Orders>;

    fn handle(
        &mut self,
        BeginStep { step, now }: BeginStep,
        _context: &mut Self::Context,
    ) -> Result<Orders> {
        let training = &self.world.scenario.training;
        let limit = training.empty_rounds_limit;
        if self.empty_steps >= limit {
            return Err(Error::NobodyFinished {
                round: training.round_of(step),
                steps: limit,
            });
        }
        self.step = OpenStep::begin(step, &self.world);
        if self.steps_alone() {
            return self.step_alone(now);
        }
        self.advance(now)
    }
}

impl Handler<UplinkArrived> for ServerActor {
    type Result = Result<Receipt>;

    fn handle(&mut self, arrival: UplinkArrived, _context: &mut Self::Context) -> Result<Receipt> {
        let UplinkArrived {
            user,
            invitation_id,
            frame,
            now,
        } = arrival;
        let Some(open) = self.account_for(user, invitation_id) else {
            return Err(Error::Actor {
                actor: "server",
                reason: format!("{user} uploads without an invitation"),
            });
        };
        let layout = self.world.upload_layout(open.download.phase());
        let is_readable = match self.world.checks_frames_on_arrival() {
            true => {
                let origin = UploadOrigin {
                    user,
                    invitation_id,
                    download: &open.download,
                };
                let received = open
                    .download
                    .base_of(open.asked.as_deref(), (user, invitation_id))?;
                self.world
                    .uplink
                    .decode(&frame.bytes(&origin, &self.world)?, layout, &received.model)
                    .is_ok()
            }
            false => true,
        };
        let scalars = if is_readable {
            frame.scalars(layout).ok()
        } else {
            None
        };
        let sound = scalars.is_some();
        if let Some(utility) = scalars.and_then(|scalars| scalars.utility) {
            self.cohorts
                .observe(user, utility, now.since(open.began), open.step);
        }
        if sound {
            self.acknowledge(user, &open);
        }
        let ending = if sound {
            self.ending(open.step)
        } else {
            Ending::Lost
        };
        if ending == Ending::Done {
            let staleness = self.step.step.0 - open.step.0;
            self.cohorts.used(user, self.step.step);
            let Open {
                download, asked, ..
            } = open;
            self.arrived.push(Arrived {
                user,
                invitation_id,
                frame,
                download,
                asked,
                staleness,
            });
        }
        self.count_ended_participation(ending == Ending::Done);
        Ok(Receipt {
            ending,
            orders: self.advance(now),
        })
    }
}

impl Handler<ParticipationLost> for ServerActor {
    type Result = Result<Orders>;

    fn handle(&mut self, lost: ParticipationLost, _context: &mut Self::Context) -> Result<Orders> {
        self.account_for(lost.user, lost.invitation_id);
        self.count_ended_participation(false);
        self.advance(lost.now)
    }
}

impl Handler<AlarmRang> for ServerActor {
    type Result = Result<Orders>;

    fn handle(
        &mut self,
        AlarmRang { now }: AlarmRang,
        _context: &mut Self::Context,
    ) -> Result<Orders> {
        self.advance(now)
    }
}

impl Handler<CloseStep> for ServerActor {
    type Result = Result<StepOutcome>;

    fn handle(
        &mut self,
        CloseStep { ends_round }: CloseStep,
        _context: &mut Self::Context,
    ) -> Result<StepOutcome> {
        let room = Vec::with_capacity(self.arrived.len());
        let arrived = std::mem::replace(&mut self.arrived, room);
        let aggregated = arrived.len() as u32;
        let waiting = enter(Stage::Wait);
        let step = self.step_name();
        let (world, server, audit) = (&*self.world, &mut *self.server, &mut self.audit);
        let alone = self.alone.take();
        let makes_step = aggregated > 0 || alone.is_none() && self.world.steps_on_noise();
        let is_step = makes_step || alone.is_some();
        let report = match (aggregated, alone) {
            (_, Some(StepAlone { report, .. })) => report,
            // A step without updates leaves the server's own model as it is.
            (0, None) if !makes_step => StepReport::default(),
            _ if averages::is_small(&arrived) => {
                averages::step(world, server, step, arrived, audit)?
            }
            _ => self
                .workers
                .run_and_wait(|| averages::step(world, server, step, arrived, audit))?,
        };
        drop(waiting);
        if is_step {
            self.empty_steps = 0;
        }
        if makes_step {
            self.steps += 1;
            self.forget_download();
            self.empty_steps = 0;
        } else if self.world.trains && !is_step && !self.step.drew_nobody {
            self.empty_steps += 1;
        }
        let audit = if ends_round {
            self.audit.end_round(step.1, &self.world)
        } else {
            None
        };
        let given_up = self.give_up();
        // The model is passed on only at the end of a round, since while there is a copy the next
        // step cannot change its tables in place.
        let model = if ends_round {
            Some((self.server.model().clone(), self.download_to_score()?))
        } else {
            None
        };
        Ok(StepOutcome {
            model,
            aggregated,
            uploads: report.uploads,
            union: report.union,
            given_up,
            versions: self.versions_cost(),
            audit,
            privacy: self.spending.record(self.step.step, &self.world),
        })
    }
}

impl Handler<GetModel> for ServerActor {
    type Result = Result<Model>;

    fn handle(&mut self, _: GetModel, _context: &mut Self::Context) -> Result<Model> {
        Ok(self.server.model().clone())
    }
}

impl Handler<SetModel> for ServerActor {
    type Result = Result<()>;

    fn handle(&mut self, SetModel(model): SetModel, _context: &mut Self::Context) -> Result<()> {
        self.server.set_model(model)?;
        self.forget_download();
        Ok(())
    }
}

impl Handler<Save> for ServerActor {
    type Result = Result<Archive>;

    fn handle(&mut self, Save(mut archive): Save, _context: &mut Self::Context) -> Result<Archive> {
        self.save(&mut archive)?;
        Ok(archive)
    }
}

#[cfg(test)]
mod tests;
