//! Invitations, which start downloads and fix the inputs of trainings, so that these can be worked
//! out together.

use std::sync::Arc;

use rayon::prelude::*;

use super::participation::Participation;
use super::{AHEAD, Network};
use crate::invitation::{Invitation, Invited};
use crate::outcome::LossCause;
use crate::resident::unanswered;
use fedrecsim_core::legs::{Leg, Peer, Route};
use fedrecsim_core::{InvitationId, Result, UserId};
use fedrecsim_data::population::Conditions;

impl Network {
    /// Starts the participations of a cohort.
    pub(super) async fn invite(
        &mut self,
        invitation: Invitation,
        cohort: Vec<UserId>,
    ) -> Result<()> {
        self.rounds.invited(cohort.len());
        let conditions = self.conditions_of(&cohort, invitation.id).await?;
        let may_end_early = self.world.may_end_early();
        let reply_source = self.rounds.reply_source()?;
        let legs = self.world.legs(invitation.download.phase());
        // If work comes first, its duration must be known at once, and so must what a user asks
        // for.
        let mut is_effort_needed = matches!(
            legs.first(),
            Some(Leg::Work(_) | Leg::Transfer(Route::ROW_REQUEST))
        );
        for (&user, conditions) in cohort.iter().zip(conditions) {
            self.rounds.peers.workers.submit(Invited {
                user,
                invitation: invitation.clone(),
                reply_source: reply_source.clone(),
                keep: may_end_early || conditions.dropout_at.is_some(),
            })?;
            // The place of a dropout can be told only if the durations of all legs are known.
            is_effort_needed |= conditions.dropout_at.is_some();
            let participation = Participation::new(user, invitation.clone(), conditions);
            self.taking_part.insert(user, Box::new(participation));
        }
        if is_effort_needed {
            self.work_out_trainings().await?;
        }
        let order = invitation.line_of(&cohort, self.world.streams);
        for (position, user) in order.iter().enumerate() {
            if let Some(later) = order.get(position + AHEAD) {
                self.prefetch(*later);
            }
            self.start(*user)?;
        }
        Ok(())
    }

    /// Returns the conditions under which each of `cohort` takes part.
    async fn conditions_of(
        &self,
        cohort: &[UserId],
        invitation_id: InvitationId,
    ) -> Result<Vec<Conditions>> {
        if let [user] = cohort {
            return Ok(vec![self.world.population.conditions(*user, invitation_id)]);
        }
        let (world, cohort) = (Arc::clone(&self.world), cohort.to_vec());
        let draw = move |user: &UserId| world.population.conditions(*user, invitation_id);
        self.pool
            .run(move || cohort.par_iter().with_min_len(64).map(draw).collect())
            .await
    }

    /// Starts the participation of `user` with its first leg.
    fn start(&mut self, user: UserId) -> Result<()> {
        let now = self.now();
        let leaves = self.availability.leaves_at(user, now);
        let (traffic, participation) = self.participant(user)?;
        participation.plan_dropout(&traffic.world, now)?;
        let first = participation.leg_in(&traffic.world);
        if first == Some(Leg::Transfer(Route::ROW_REQUEST))
            && participation.consultation_with(Peer::Server).is_none()
        {
            // The training has failed, and says why.
            self.rounds.peers.workers.end_training(user)?;
            return Err(unanswered("client", "it trained without what it asked for"));
        }
        traffic.begin_leg(participation)?;
        if let Some(leaves) = leaves {
            traffic.schedule_loss(participation, leaves, LossCause::Departure);
        }
        Ok(())
    }

    /// Has the workers work out all submitted trainings in one batch. Each result stays with its
    /// user until the virtual end of the training.
    ///
    /// # Errors
    /// `Error::Interrupted`, and those of the workers themselves. An error in a training is kept
    /// with it, and returned at its virtual end.
    pub(super) async fn work_out_trainings(&mut self) -> Result<()> {
        for (user, effort) in self.rounds.peers.workers.train().await? {
            if let Some(participation) = self.taking_part.get_mut(&user) {
                participation.effort = Some(effort);
            }
        }
        self.rounds.check_interrupted()
    }
}
