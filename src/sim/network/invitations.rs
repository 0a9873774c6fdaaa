//! Invitations: downloads start, and trainings, whose inputs are fixed from then on, are worked out together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use super::event::Event;
use super::participation::{Participation, Phase, Training};
use super::{Timeline, unanswered};
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::population::Conditions;
use crate::rng::{PortableDraws, Purpose};
use crate::sim::messages::{ASKED_AT_ONCE, FromClient, Invitation, TAKEN_AT_ONCE, ToClient};
use crate::sim::training::{Assignment, Trained};
use crate::stages::{Stage, enter};
use crate::units::{Bytes, Direction, SimTime};

impl Timeline {
    /// Starts the downloads of a cohort.
    pub(super) async fn invite(&mut self, invitation: Invitation) -> Result<()> {
        let Invitation { invitation_id, cohort, .. } = &invitation;
        self.counts.invited += cohort.len() as u32;
        let population = &self.world.population;
        let conditions: Vec<Conditions> = if cohort.len() == 1 {
            vec![population.conditions(cohort[0], *invitation_id)]
        } else {
            let _waiting = enter(Stage::Wait);
            let draw = |user: &UserId| population.conditions(*user, *invitation_id);
            self.workers.install(|| cohort.par_iter().with_min_len(64).map(draw).collect())
        };
        let assignments = self.assignments(&invitation, &conditions).await?;
        for ((&user, conditions), assignment) in cohort.iter().zip(conditions).zip(assignments) {
            self.put(user, Box::new(Participation::new(&invitation, conditions, assignment, self.calendar.now())));
            self.untrained.push(user);
        }
        // Where on its way a participation drops out can be told only if it is known how long the way is.
        let drops_out =
            |user: &&UserId| self.taking_part.get(user).is_some_and(|place| place.conditions.dropout_at.is_some());
        if cohort.iter().any(|user| drops_out(&user)) {
            self.work_out_trainings()?;
        }
        // Where they have to wait in line, or the first to be done are enough, a user's number must not decide.
        let mut order = cohort.clone();
        self.world.streams.stream(Purpose::Line, 0, u64::from(invitation_id.0)).shuffle_portably(&mut order);
        for user in order {
            self.start(user, &invitation)?;
        }
        Ok(())
    }

    /// Asks everybody for the work that a worker can do for it.
    async fn assignments(&self, invitation: &Invitation, conditions: &[Conditions]) -> Result<Vec<Box<Assignment>>> {
        let Invitation { step, invitation_id, cohort, download } = invitation;
        let cut_short = self.world.may_be_cut_short();
        let mut assignments = Vec::with_capacity(cohort.len());
        for (users, conditions) in cohort.chunks(ASKED_AT_ONCE).zip(conditions.chunks(ASKED_AT_ONCE)) {
            let answers = users.iter().zip(conditions).map(|(&user, conditions)| {
                let (step, invitation_id, download) = (*step, *invitation_id, Arc::clone(download));
                let keep = cut_short || conditions.dropout_at.is_some();
                self.peers.clients.send(user, ToClient::Participate { step, invitation_id, download, keep })
            });
            // A question is in its mailbox as soon as it is sent; the answers come while the first is awaited.
            let answers = answers.collect::<Vec<_>>();
            let _stage = enter(Stage::Actors);
            for answer in answers {
                match answer.await.map_err(|reason| unanswered("client", reason))? {
                    FromClient::Assignment(assignment) => assignments.push(assignment),
                    _ => return Err(unanswered("client", "it was invited while it was busy")),
                }
            }
        }
        Ok(assignments)
    }

    /// Starts the download of `user`.
    fn start(&mut self, user: UserId, invitation: &Invitation) -> Result<()> {
        let frame = invitation.download.frame(user)?;
        let mut participation = self.take(user)?;
        participation.plan_dropout(Bytes::of(&frame.bytes));
        let transfer = self.start_transfer(user, &mut participation, Direction::Down, frame.parts)?;
        participation.phase = Phase::Downloading(transfer);
        if let Some(leaves) = self.availability.leaves_at(user, self.calendar.now()) {
            self.schedule_cut(user, &mut participation, leaves);
        }
        self.put(user, participation);
        Ok(())
    }

    /// A participation is cut off at `time`, if it is still there and not cut off before.
    pub(super) fn schedule_cut(&mut self, user: UserId, participation: &mut Participation, time: SimTime) {
        if participation.cut.as_ref().is_some_and(|(earlier, _)| *earlier <= time) {
            return;
        }
        let appointment = self.calendar.schedule(time, Event::CutOff(user));
        if let Some((_, later)) = participation.cut.replace((time, appointment)) {
            self.calendar.cancel(later);
        }
    }

    /// Works out every training whose inputs are fixed, in one batch on all threads. Each result waits for the
    /// virtual end of its training.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; what else goes wrong belongs to a training, and happens at its virtual time.
    pub(super) fn work_out_trainings(&mut self) -> Result<()> {
        let mut batch: Vec<(UserId, Box<Assignment>)> = Vec::with_capacity(self.untrained.len());
        for user in std::mem::take(&mut self.untrained) {
            let Some(participation) = self.taking_part.get_mut(&user) else { continue };
            if matches!(participation.training, Training::Untrained(_))
                && let Training::Untrained(assignment) = std::mem::replace(&mut participation.training, Training::Over)
            {
                batch.push((user, assignment));
            }
        }
        let interrupted = &*self.interrupted;
        let train = |(user, assignment): (UserId, Box<Assignment>)| match interrupted.load(Ordering::Relaxed) {
            true => (user, Err(Error::Interrupted)),
            false => (user, Assignment::run(*assignment)),
        };
        let waiting = enter(Stage::Wait);
        let trained: Vec<(UserId, Result<Box<Trained>>)> = if batch.len() == 1 {
            batch.into_iter().map(train).collect()
        } else {
            self.workers.install(|| batch.into_par_iter().with_max_len(TAKEN_AT_ONCE).map(train).collect())
        };
        drop(waiting);
        for (user, trained) in trained {
            if let Some(participation) = self.taking_part.get_mut(&user) {
                participation.training = Training::Trained(trained);
            }
        }
        self.check_interrupted()
    }
}
