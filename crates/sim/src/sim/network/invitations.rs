//! Invitations, which start downloads and fix the inputs of trainings, so that these can be worked
//! out together.

use std::sync::Arc;

use rayon::prelude::*;

use super::participation::Participation;
use super::transfers::absent;
use super::{Network, answered, prefetching, unanswered};
use crate::sim::consultation::ReplySource;
use crate::sim::messages::{ConsultThirdParty, FromClient, Invitation, LossCause, ToClient};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::{InvitationId, UserId};
use fedrecsim_core::legs::{Leg, Route};
use fedrecsim_core::rng::{PortableDraws, Purpose};
use fedrecsim_data::population::Conditions;

impl Network {
    /// Starts the participations of a cohort.
    pub(super) async fn invite(&mut self, invitation: Invitation) -> Result<()> {
        let Invitation {
            invitation_id,
            cohort,
            ..
        } = &invitation;
        self.counts.invited += cohort.len() as u32;
        let conditions = self.conditions_of(cohort, *invitation_id).await?;
        self.submit_trainings(&invitation, &conditions)?;
        let legs = self.world.legs(invitation.download.phase());
        // If work comes first, its duration must be known at once, and so must what a user asks
        // for.
        let mut is_effort_needed = matches!(
            legs.first(),
            Some(Leg::Work(_) | Leg::Transfer(Route::ROW_REQUEST))
        );
        let now = self.traffic.calendar.now();
        for (&user, conditions) in cohort.iter().zip(conditions) {
            // The place of a dropout can be told only if the durations of all legs are known.
            is_effort_needed |= conditions.dropout_at.is_some();
            self.taking_part.insert(
                user,
                Box::new(Participation::new(&invitation, conditions, now)),
            );
        }
        if is_effort_needed {
            self.work_out_trainings().await?;
        }
        // The order is shuffled, since it decides who waits in line and whose upload is among the
        // first, and a user's number must not decide that.
        let mut order = cohort.clone();
        self.world
            .streams
            .stream(Purpose::Line, 0, u64::from(invitation_id.0))
            .shuffle_portably(&mut order);
        for (position, user) in order.iter().enumerate() {
            order
                .get(position + prefetching::AHEAD)
                .into_iter()
                .for_each(|later| self.prefetch(*later));
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

    /// Tells every user of the cohort of the invitation, on which each submits its training.
    fn submit_trainings(&self, invitation: &Invitation, conditions: &[Conditions]) -> Result<()> {
        let Invitation {
            step,
            invitation_id,
            cohort,
            download,
        } = invitation;
        let cut_short = self.world.may_be_cut_short();
        let reply_source = self.reply_source()?;
        for (&user, conditions) in cohort.iter().zip(conditions) {
            let (step, invitation_id, download) = (*step, *invitation_id, Arc::clone(download));
            let (reply_source, keep) = (
                reply_source.clone(),
                cut_short || conditions.dropout_at.is_some(),
            );
            match self.tell(
                user,
                ToClient::Participate {
                    step,
                    invitation_id,
                    download,
                    reply_source,
                    keep,
                },
            ) {
                FromClient::Done => {}
                _ => return Err(unanswered("client", "it was invited while it was busy")),
            }
        }
        Ok(())
    }

    /// Returns the source of the third party's replies for participants who are invited now, if
    /// there is a third party.
    pub(super) fn reply_source(&self) -> Result<Option<ReplySource>> {
        let third_party = self.peers.third_party.as_ref();
        third_party
            .map(|peer| answered(&peer.consult, ConsultThirdParty).map(ReplySource::ThirdParty))
            .transpose()
    }

    /// Starts the participation of `user` with its first leg.
    fn start(&mut self, user: UserId) -> Result<()> {
        let participation = self
            .taking_part
            .get_mut(&user)
            .ok_or_else(|| absent(user))?;
        participation.plan_dropout(user, &self.world, self.traffic.calendar.now())?;
        let asks = self.world.legs(participation.download.phase()).first()
            == Some(&Leg::Transfer(Route::ROW_REQUEST));
        if asks && participation.asked_rows().is_none() {
            return self
                .trained(user)
                .and_then(|_| Err(unanswered("client", "it trained without what it asked for")));
        }
        let traffic = &mut self.traffic;
        traffic.begin_leg(user, participation)?;
        if let Some(leaves) = self.availability.leaves_at(user, traffic.calendar.now()) {
            traffic.schedule_cut(user, participation, leaves, LossCause::Departure);
        }
        Ok(())
    }

    /// Has the workers work out all submitted trainings in one batch. Each result stays with its
    /// user until the virtual end of the training.
    ///
    /// # Errors
    /// [`Error::Interrupted`](fedrecsim_core::error::Error::Interrupted), and those of the workers
    /// themselves. An error in a training is kept with it, and returned at its virtual end.
    pub(super) async fn work_out_trainings(&mut self) -> Result<()> {
        for (user, effort) in self.peers.workers.train().await? {
            if let Some(participation) = self.taking_part.get_mut(&user) {
                participation.effort = Some(effort);
            }
        }
        self.check_interrupted()
    }
}
