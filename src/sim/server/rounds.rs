//! When to invite, and when a round is complete: the rules of each mode.

use std::sync::Arc;

use super::roster::SelectionContext;
use super::{Open, ServerActor};
use crate::error::{Error, Result};
use crate::ids::{InvitationId, Round, UserId};
use crate::scenario::Mode;
use crate::sim::broadcast::Broadcast;
use crate::sim::messages::{Invitation, Orders};
use crate::sim::world::World;
use crate::units::{SimDuration, SimTime};

/// The round that the server is at.
#[derive(Debug, Default)]
pub(super) struct OpenRound {
    pub round: Round,
    /// Users to invite at once; the asynchronous modes invite whenever there is a place.
    to_invite: usize,
    /// Updates that complete it; in synchronous modes it is complete, too, when nobody is left to wait for.
    needed: usize,
    /// Whether its cohort has been invited.
    invited: bool,
    /// Participations of this round that have not come to an end.
    pub open: usize,
    deadline: Option<SimTime>,
    /// Since when nobody takes part for want of users.
    idle_since: Option<SimTime>,
}

impl OpenRound {
    pub fn begin(round: Round, world: &World) -> Self {
        let users = world.dataset.users() as u32;
        let training = &world.scenario.training;
        let (to_invite, needed) = match training.mode {
            _ if !world.trains => (0, 0),
            Mode::FedBuff(spec) => (0, spec.buffer as usize),
            Mode::FedAsync(_) => (0, 1),
            Mode::Synchronous | Mode::OverSelection(_) | Mode::SemiSynchronous(_) => {
                (training.invited(users) as usize, training.needed(users) as usize)
            }
        };
        Self { round, to_invite, needed, ..Self::default() }
    }
}

impl ServerActor {
    /// What is to be done at `now`, after whatever has happened.
    pub(super) fn advance(&mut self, now: SimTime) -> Result<Orders> {
        let mut orders = Orders::default();
        if self.is_complete(now) {
            orders.round_complete = true;
            return Ok(orders);
        }
        self.check_participations_without_update()?;
        let places = self.free_places();
        if places == 0 {
            return Ok(orders);
        }
        let invitation_id = InvitationId(self.invitations_sent);
        let at = SelectionContext { now, round: self.round.round, invitation_id, open: &self.open };
        let cohort = self.cohorts.choose(places, at);
        let missing = places - cohort.len();
        if !cohort.is_empty() {
            orders.invitation = Some(self.invite(cohort, invitation_id, now));
            self.round.idle_since = None;
            if let Mode::OverSelection(_) | Mode::SemiSynchronous(_) = self.world.scenario.training.mode
                && let Some(deadline) = self.deadline()
            {
                self.round.deadline = Some(now + deadline);
                orders.alarm = self.round.deadline;
            }
        }
        // The cohort of a round is invited at once; who is not available then is not waited for.
        if missing > 0 && (self.is_asynchronous() || !self.round.invited) {
            orders.alarm = self.wait_for_users(now)?;
        }
        Ok(orders)
    }

    /// An asynchronous round has no end but its updates: it is given up when as many participations in a row come to
    /// nothing as the empty rounds in a row that end another run would have.
    fn check_participations_without_update(&self) -> Result<()> {
        let training = &self.world.scenario.training;
        let participations = match training.mode {
            Mode::FedBuff(spec) => spec.concurrency.max(spec.buffer),
            Mode::FedAsync(spec) => spec.concurrency,
            Mode::Synchronous | Mode::OverSelection(_) | Mode::SemiSynchronous(_) => return Ok(()),
        };
        let limit = u64::from(training.empty_rounds_limit) * u64::from(participations);
        if self.ended_without_update < limit {
            return Ok(());
        }
        Err(Error::NothingArrives { round: self.round.round, participations: self.ended_without_update })
    }

    fn is_asynchronous(&self) -> bool {
        matches!(self.world.scenario.training.mode, Mode::FedBuff(_) | Mode::FedAsync(_))
    }

    fn deadline(&self) -> Option<SimDuration> {
        let seconds = match self.world.scenario.training.mode {
            Mode::OverSelection(spec) => spec.deadline_s,
            Mode::SemiSynchronous(spec) => Some(spec.deadline_s),
            _ => None,
        };
        seconds.map(SimDuration::from_secs_f64)
    }

    fn is_complete(&self, now: SimTime) -> bool {
        let round = &self.round;
        if !self.world.trains {
            return true;
        }
        if self.is_asynchronous() {
            return self.arrived.len() >= round.needed;
        }
        let in_time = || self.arrived.iter().filter(|arrived| arrived.staleness == 0).count();
        round.invited
            && (round.open == 0
                || round.deadline.is_some_and(|deadline| deadline <= now)
                || (round.needed < round.to_invite && in_time() >= round.needed))
    }

    /// How many more could take part now.
    fn free_places(&self) -> usize {
        match self.world.scenario.training.mode {
            Mode::FedBuff(spec) => (spec.concurrency as usize).saturating_sub(self.open.len()),
            Mode::FedAsync(spec) => (spec.concurrency as usize).saturating_sub(self.open.len()),
            _ if self.round.invited => 0,
            _ => self.round.to_invite,
        }
    }

    fn invite(&mut self, cohort: Vec<UserId>, invitation_id: InvitationId, now: SimTime) -> Invitation {
        self.invitations_sent += 1;
        let (global, downlink) = (&self.global, self.world.downlink);
        let broadcast =
            self.broadcast.get_or_insert_with(|| Arc::new(Broadcast::encode(invitation_id, global, downlink)));
        let round = self.round.round;
        for user in &cohort {
            self.open.insert(*user, Open { round, invitation_id, began: now, broadcast: Arc::clone(broadcast) });
        }
        self.round.invited = true;
        self.round.open += cohort.len();
        Invitation { round, invitation_id, cohort, broadcast: Arc::clone(broadcast) }
    }

    /// When to look again for users, if nothing happens before.
    ///
    /// # Errors
    /// [`Error::NobodyAvailable`] if that is too long, with nobody at work meanwhile.
    fn wait_for_users(&mut self, now: SimTime) -> Result<Option<SimTime>> {
        let at = SelectionContext {
            now,
            round: self.round.round,
            invitation_id: InvitationId(self.invitations_sent),
            open: &self.open,
        };
        let next = self.cohorts.next_arrival(at);
        if self.open.is_empty() {
            let since = *self.round.idle_since.get_or_insert(now);
            let limit = SimDuration::from_secs_f64(self.world.scenario.training.waiting_limit_s);
            if next.is_none_or(|next| next > since + limit) {
                let round = self.round.round;
                return Err(Error::NobodyAvailable { round, at: since, limit, resting: self.cohorts.resting(round) });
            }
        }
        if self.wakes_at.is_some_and(|wakes| now < wakes && next.is_none_or(|next| wakes <= next)) {
            return Ok(None);
        }
        self.wakes_at = next;
        Ok(next)
    }
}
