//! The rules of the scenario's policy that decide when the server invites users, and when a step is
//! due.

use super::roster::SelectionContext;
use super::{Open, ServerActor};
use crate::invitation::Invitation;
use crate::messages::Orders;
use crate::stop::Stop;
use crate::world::World;
use fedrecsim_core::{InvitationId, Result, SimDuration, SimTime, Step, UserId};
use fedrecsim_methods::Placement;
use fedrecsim_scenario::Invitations;

/// The state of the step that is open.
#[derive(Debug, Default)]
pub(super) struct OpenStep {
    pub step: Step,
    /// The number of users to invite at once, where the policy invites cohorts.
    to_invite: usize,
    /// The number of usable updates that makes the step due; `None` if no number does.
    needed: Option<usize>,
    /// Whether the step's cohort has been invited.
    invited: bool,
    /// Whether each user was drawn by itself, and nobody who could be invited was.
    pub drew_nobody: bool,
    /// The number of participations of this step that have not come to an end.
    pub open: usize,
    deadline: Option<SimTime>,
    /// The time since when nobody takes part because no user is available.
    idle_since: Option<SimTime>,
}

impl OpenStep {
    pub(crate) fn begin(step: Step, world: &World) -> Self {
        let users = world.dataset.users_with_history() as u32;
        // Every user of a method that runs at the server sends its ratings.
        let participants = match world.placement {
            Placement::Central => users,
            Placement::Federated | Placement::Assisted | Placement::Untrained => {
                world.scenario.training.needed(users)
            }
        };
        let to_invite = match world.scenario.training.drawn_apart() {
            Some(_) => users as usize,
            None => world.policy.invited(participants, users) as usize,
        };
        let needed = world
            .policy
            .updates(participants)
            .map(|updates| updates as usize);
        Self {
            step,
            to_invite,
            needed,
            ..Self::default()
        }
    }
}

impl ServerActor {
    /// Begins a step, unless too many before it had no update.
    ///
    /// # Errors
    /// [`Stop::NobodyFinished`], and those of [`Self::advance`].
    pub(super) fn begin_step(&mut self, step: Step, now: SimTime) -> Result<Orders> {
        let training = &self.world.scenario.training;
        let limit = training.empty_rounds_limit;
        if self.empty_steps >= limit {
            return Err(Stop::NobodyFinished {
                round: training.round_of(step),
                steps: limit,
            }
            .into());
        }
        self.step = OpenStep::begin(step, &self.world);
        match self.world.trains && !self.server.needs_participants() {
            true => self.step_alone(now),
            false => self.advance(now),
        }
    }

    /// Returns the orders for `now`, after an event.
    pub(super) fn advance(&mut self, now: SimTime) -> Result<Orders> {
        let mut orders = Orders::default();
        if self.is_complete(now) {
            orders.step_due = true;
            return Ok(orders);
        }
        if self.alone.is_some() {
            return Ok(orders);
        }
        self.check_participations_without_update()?;
        let has_cohorts = self.world.policy.has_cohorts();
        if !has_cohorts {
            orders.deadline = self.set_deadline(now);
        }
        let places = self.free_places();
        if places == 0 {
            return Ok(orders);
        }
        let invitation_id = InvitationId(self.invitations_sent);
        let at = SelectionContext {
            now,
            step: self.step.step,
            invitation_id,
            open: &self.open,
        };
        let cohort = self.cohorts.choose(places, at);
        let is_waited_for = cohort.is_empty() && self.open.is_empty();
        if has_cohorts
            && cohort.is_empty()
            && self.cohorts.draws_each_apart()
            && (!is_waited_for || self.cohorts.somebody_is_idle(at))
        {
            // Nobody who is here and idle was drawn, so only late updates are waited for, until the
            // deadline. The number of the invitation names the stream of the draw, so that the next
            // step has another one.
            self.invitations_sent += 1;
            (self.step.invited, self.step.drew_nobody) = (true, true);
            orders.deadline = self.set_deadline(now);
            orders.step_due = self.step.deadline.is_none();
            return Ok(orders);
        }
        let missing = places - cohort.len();
        if !cohort.is_empty() {
            orders.invitation = Some((self.invite(&cohort, invitation_id, now)?, cohort));
            self.step.idle_since = None;
        }
        // While nobody is here and nobody takes part, a cohort's step waits for the first of them.
        if has_cohorts && !is_waited_for {
            orders.deadline = self.set_deadline(now);
        }
        // The cohort of a step is invited at once. Users who are not available then are not waited
        // for.
        if missing > 0 && (!has_cohorts || !self.step.invited) {
            match self.wait_for_users(now)? {
                Wait::Until(alarm) => orders.alarm = alarm,
                Wait::ForTheNextStep => orders.step_due = true,
            }
        }
        Ok(orders)
    }

    /// Sets the step's deadline, unless it is set already. Returns it if it is new.
    fn set_deadline(&mut self, now: SimTime) -> Option<SimTime> {
        if self.step.deadline.is_some() {
            return None;
        }
        self.step.deadline = self.world.policy.deadline.map(|deadline| now + deadline);
        self.step.deadline
    }

    /// Checks that a step that only updates can make due has not seen too many participations in a
    /// row without one. The limit is the number of participations in as many empty steps as would
    /// end a run with cohorts.
    ///
    /// # Errors
    /// `Stop::NothingArrives` if there are too many.
    fn check_participations_without_update(&self) -> Result<()> {
        let policy = &self.world.policy;
        let (Invitations::WheneverFree { concurrency }, None) =
            (policy.invitations, policy.deadline)
        else {
            return Ok(());
        };
        let participations = self.step.needed.unwrap_or(0).max(concurrency as usize) as u64;
        let limit = u64::from(self.world.scenario.training.empty_rounds_limit) * participations;
        if self.ended_without_update < limit {
            return Ok(());
        }
        let round = self.world.scenario.training.round_of(self.step.step);
        Err(Stop::NothingArrives {
            round,
            participations: self.ended_without_update,
        }
        .into())
    }

    fn is_complete(&self, now: SimTime) -> bool {
        if let Some(alone) = &self.alone {
            return alone.ends <= now;
        }
        let step = &self.step;
        if !self.world.trains {
            return true;
        }
        let has_cohort = self.world.policy.has_cohorts() && step.invited && !step.drew_nobody;
        let cohort_is_done = has_cohort && step.open == 0;
        cohort_is_done
            || step
                .needed
                .is_some_and(|needed| self.arrived.len() >= needed)
            || step.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Returns how many more users could take part now.
    fn free_places(&self) -> usize {
        match self.world.policy.invitations {
            Invitations::WheneverFree { concurrency } => {
                (concurrency as usize).saturating_sub(self.open.len())
            }
            Invitations::AtOnce { .. } if self.step.invited => 0,
            Invitations::AtOnce { .. } => self.step.to_invite,
        }
    }

    fn invite(&mut self, cohort: &[UserId], id: InvitationId, now: SimTime) -> Result<Invitation> {
        self.invitations_sent += 1;
        self.spending.invited(cohort, &self.world);
        let invitation = Invitation {
            step: self.step.step,
            id,
            download: self.next_download(cohort)?,
            sent: now,
        };
        for user in cohort {
            let open = Open {
                user: *user,
                invitation: invitation.clone(),
                began: now,
                asked: None,
            };
            self.open.insert(*user, open);
        }
        self.step.invited = true;
        self.step.open += cohort.len();
        Ok(invitation)
    }

    /// Returns what the server waits for where it could invite more users than there are.
    ///
    /// # Errors
    /// `Stop::NobodyAvailable` if nobody comes in time, nobody takes part meanwhile, and the
    /// next step would not change that.
    fn wait_for_users(&mut self, now: SimTime) -> Result<Wait> {
        let at = SelectionContext {
            now,
            step: self.step.step,
            invitation_id: InvitationId(self.invitations_sent),
            open: &self.open,
        };
        let next = self.cohorts.next_arrival(at);
        if self.open.is_empty() {
            let since = *self.step.idle_since.get_or_insert(now);
            let limit = SimDuration::from_secs_f64(self.world.scenario.training.waiting_limit_s);
            if next.is_none_or(|next| next > since + limit) {
                // Who is here and was not picked has to rest, and in the next step or the one after
                // it no more.
                match self.step.deadline {
                    _ if !self.cohorts.somebody_is_idle(at) => {}
                    Some(_) => return Ok(Wait::Until(None)),
                    None if self.world.policy.has_cohorts() => return Ok(Wait::ForTheNextStep),
                    None => {}
                }
                let round = self.world.scenario.training.round_of(self.step.step);
                let resting = self.cohorts.resting(self.step.step);
                return Err(Stop::NobodyAvailable {
                    round,
                    at: since,
                    limit,
                    comes: next.is_some() || resting > 0,
                    resting,
                }
                .into());
            }
        }
        if self
            .wakes_at
            .is_some_and(|wakes| now < wakes && next.is_none_or(|next| wakes <= next))
        {
            return Ok(Wait::Until(None));
        }
        self.wakes_at = next;
        Ok(Wait::Until(next))
    }
}

/// The next event for a server that has too few users to invite.
enum Wait {
    /// An event, or the alarm at this instant, if one has to be set.
    Until(Option<SimTime>),
    /// The next step, as everybody who is here rests in this one, which ends with what has arrived.
    ForTheNextStep,
}
