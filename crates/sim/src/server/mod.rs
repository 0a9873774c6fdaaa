//! The server, which picks cohorts, sends the model and makes steps of the updates that come back.
//!
//! It sees frames and nothing else. At every event (a step begins, an upload arrives, a
//! participation is lost, an alarm rings) it answers with its orders: whom to invite, when to wake
//! it, and whether the step is complete. `steps` has the rules of a mode for that, `cohort` picks
//! users, and `averages` makes a step of the updates.

use std::sync::Arc;

use actix::prelude::*;

use super::audit::Audit;
use super::by_user::ByUser;
use super::checkpoints::{Save, SaveLearned};
use super::download::{Download, Versions};
use super::invitation::{Invitation, Participant};
use super::messages::{
    AskServer, CloseStep, Forget, GetModel, GetScoring, Happened, News, Orders, Receipt, SetModel,
    StepOutcome, UploadArrived,
};
use super::outcome::Ending;
use super::resident::{Resident, unanswered};
use super::upload::Upload;
use super::workers::Pool;
use super::world::World;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Result, SimTime, Step, UserId};
use fedrecsim_methods::Server;
use fedrecsim_methods::server::StepReport;
use fedrecsim_model::codec::Integrity;
use fedrecsim_model::{Archive, Model};
use fedrecsim_scenario::{LateUpdates, Stragglers};

mod alone;
mod averages;
mod cohort;
mod downloads;
mod oort;
mod roster;
mod saved;
mod spending;
mod steps;

use alone::StepAlone;
use averages::StepName;
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
    download: Option<Arc<Download>>,
    /// The versions of each phase's download, where changes are sent.
    versions: Vec<Versions>,
    /// The number of invitations so far.
    invitations_sent: u32,
    cohorts: Cohorts,
    /// The audit of uploads, if the scenario asks for it. It changes nothing.
    audit: Audit,
    spending: Spending,
    /// The participations under way, of this step or an earlier one.
    open: ByUser<Open>,
    step: OpenStep,
    /// The uploads that the open step uses, with the participations that they end.
    arrived: Vec<(Open, Upload)>,
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
    user: UserId,
    invitation: Invitation,
    began: SimTime,
    /// The rows that the user has asked for, once it has.
    asked: Option<Arc<[u32]>>,
}

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

    /// Names the step that is open.
    fn step_name(&self) -> StepName {
        StepName {
            number: self.steps,
            step: self.step.step,
            round: self.world.scenario.training.round_of(self.step.step),
        }
    }

    /// Removes and returns a participation that has come to an end; `None` if the server had
    /// cancelled it before.
    fn account_for(&mut self, (user, invitation_id): Participant) -> Option<Open> {
        self.open
            .get(&user)
            .filter(|open| open.invitation.id == invitation_id)?;
        let open = self.open.remove(&user)?;
        self.cohorts.released(user);
        if open.invitation.step == self.step.step {
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

    /// Cancels the participations that the step did not wait for, if the policy says so, and
    /// returns their users.
    fn cancel_stragglers(&mut self) -> Vec<UserId> {
        if self.world.policy.stragglers == Stragglers::Late {
            return Vec::new();
        }
        let cancelled: Vec<UserId> = self.open.drain().map(|(user, _)| user).collect();
        cancelled
            .iter()
            .for_each(|user| self.cohorts.released(*user));
        cancelled
    }
}

impl Actor for ServerActor {
    type Context = Context<Self>;
}

impl AskServer for Resident<ServerActor> {}

impl Handler<Happened> for ServerActor {
    type Result = Result<Orders>;

    fn handle(&mut self, happened: Happened, _context: &mut Self::Context) -> Result<Orders> {
        let Happened { now, news } = happened;
        match news {
            News::StepBegins(step) => return self.begin_step(step, now),
            News::ParticipationLost(participant) => {
                self.account_for(participant);
                self.count_ended_participation(false);
            }
            News::AlarmRings => {}
        }
        self.advance(now)
    }
}

impl Handler<UploadArrived> for ServerActor {
    type Result = Result<Receipt>;

    fn handle(&mut self, arrival: UploadArrived, _context: &mut Self::Context) -> Result<Receipt> {
        let UploadArrived {
            participant,
            mut upload,
            now,
        } = arrival;
        let user = participant.0;
        let Some(open) = self.account_for(participant) else {
            let reason = format!("{user} uploads without an invitation");
            return Err(unanswered("server", reason));
        };
        let Invitation { step, download, .. } = &open.invitation;
        let layout = self.world.upload_layout(download.phase(), user);
        let mut scalars = upload.scalars(layout).ok();
        // One that came over a network, from a process that may be anybody's, is no frame until it was read.
        if self.world.checks_frames_on_arrival() || upload.integrity() == Integrity::Unknown {
            let received = download.base_of(layout, open.asked.as_deref(), participant)?;
            let frame = upload.bytes(user, &open.invitation, &self.world)?;
            let decoded = self.world.uplink.decode(&frame, layout, &received.model);
            match decoded {
                Ok(_) => upload.is_intact(),
                Err(_) => scalars = None,
            }
        }
        let ending = match &scalars {
            Some(_) => self.ending(*step),
            None => Ending::Lost,
        };
        if let Some(scalars) = scalars {
            if let Some(utility) = scalars.utility {
                let took = now.since(open.began);
                self.cohorts.observe(user, utility, took, *step);
            }
            // The user has what it has downloaded.
            let sequence = self.world.download_sequence(download.phase());
            let versions = self.versions.iter_mut();
            versions
                .filter(|versions| versions.phase() == sequence)
                .for_each(|versions| versions.acknowledge(user, download.number()));
        }
        if ending == Ending::Done {
            self.cohorts.used(user, self.step.step);
            self.arrived.push((open, upload));
        }
        self.count_ended_participation(ending == Ending::Done);
        Ok(Receipt {
            ending,
            orders: self.advance(now),
        })
    }
}

impl Handler<Forget> for ServerActor {
    type Result = ();

    fn handle(&mut self, Forget(users): Forget, _context: &mut Self::Context) {
        for versions in &mut self.versions {
            versions.forget(&users);
        }
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
        let report = match alone {
            Some(StepAlone { report, .. }) => report,
            // A step without updates leaves the server's own model as it is.
            None if !makes_step => StepReport::default(),
            None if averages::is_small(&arrived) => {
                averages::step(world, server, step, arrived, audit)?
            }
            None => self
                .workers
                .run_and_wait(|| averages::step(world, server, step, arrived, audit))?,
        };
        drop(waiting);
        if makes_step {
            self.steps += 1;
            self.forget_download();
        }
        if is_step {
            self.empty_steps = 0;
        } else if self.world.trains && !self.step.drew_nobody {
            self.empty_steps += 1;
        }
        let audit = match ends_round {
            true => self.audit.end_round(step.round, &self.world),
            false => None,
        };
        let cancelled = self.cancel_stragglers();
        // The model is passed on only at the end of a round, since while there is a copy the next
        // step cannot change its tables in place.
        let model = match ends_round {
            true => Some((self.server.model().clone(), self.download_to_score()?)),
            false => None,
        };
        Ok(StepOutcome {
            steps: u32::from(aggregated > 0),
            aggregated,
            uploads: report.uploads,
            union: report.union,
            loss_sum: 0.0,
            cancelled,
            model,
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

impl Handler<GetScoring> for ServerActor {
    type Result = Result<(Model, Arc<Download>)>;

    fn handle(&mut self, _: GetScoring, _context: &mut Self::Context) -> Self::Result {
        self.scoring()
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

impl Handler<SaveLearned> for ServerActor {
    type Result = Result<Archive>;

    fn handle(
        &mut self,
        SaveLearned: SaveLearned,
        _context: &mut Self::Context,
    ) -> Result<Archive> {
        let mut archive = Archive::default();
        self.save_learned(&mut archive)?;
        Ok(archive)
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
