//! Applies the rules that say what goes wrong with transfers.

use super::availability::{Groups, Rule};
use fedrecsim_core::legs::{Peer, Route};
use fedrecsim_core::{
    Bytes, Direction, Error, InvitationId, PortableDraws, Purpose, Result, SimDuration, SimTime,
    Streams, UserId,
};
use fedrecsim_scenario::{FaultEffect, FaultSpec, FaultUsers};
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The fate of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The frame arrives whole, but so much later.
    Delay(SimDuration),
    /// The frame is sent and never arrives.
    Drop,
    /// The transfer ends after this many bytes; a shorter frame arrives whole.
    CutAt(Bytes),
    /// One bit of the frame arrives wrong.
    Corrupt {
        /// The number of the bit, as the remainder by the frame's length in bits.
        draw: u64,
    },
}

/// The effect of the first rule that hits a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The number of the rule in the scenario, counted from 0.
    pub rule: u32,
    /// The fate of the transfer.
    pub verdict: Verdict,
}

/// The rules of a scenario about transfers, in its order.
#[derive(Clone, Debug)]
pub struct FaultRules {
    rules: Vec<Rule>,
    streams: Streams,
}

impl FaultRules {
    /// Makes the rules for `users` users. Outages are left out, as they are no rules about transfers.
    ///
    /// # Errors
    /// [`Error::Usage`] for a rule that names a user who does not exist.
    pub(super) fn new(
        specs: &[FaultSpec],
        users: u32,
        groups: &Arc<Groups>,
        streams: Streams,
    ) -> Result<Self> {
        for (number, spec) in specs.iter().enumerate() {
            if let Some(FaultUsers::Numbers(numbers)) = &spec.users
                && let Some(user) = numbers.iter().find(|user| **user >= users)
            {
                return Err(Error::Usage(format!(
                    "faults[{number}].users.numbers has user {user}, but there are only {users} users, counted from 0"
                )));
            }
        }
        Ok(Self {
            rules: Rule::of(specs, false, groups).collect(),
            streams,
        })
    }

    /// Returns whether there is no rule about transfers.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns what becomes of the transfer to or from `user` that starts at `at`, by the first
    /// rule that hits it; `None` if none does. `invitation_id` counts the user's participations in
    /// the run. A participation has at most one transfer on each route.
    pub fn verdict(
        &self,
        user: UserId,
        invitation_id: InvitationId,
        route: Route,
        at: SimTime,
    ) -> Option<Hit> {
        self.rules.iter().find_map(|rule| {
            let concerned = (rule.spec.direction).is_none_or(|only| only == route.direction)
                && at >= rule.from
                && rule.until.is_none_or(|until| at < until)
                && rule.hits(user);
            let verdict = concerned
                .then(|| self.draw(rule, user, invitation_id, route))
                .flatten()?;
            Some(Hit {
                rule: rule.number,
                verdict,
            })
        })
    }

    fn draw(
        &self,
        rule: &Rule,
        user: UserId,
        invitation_id: InvitationId,
        route: Route,
    ) -> Option<Verdict> {
        // The number joins peer, whether rows are asked for, rule, direction and invitation: 1 bit,
        // 1 bit, at most 100 rules, 1 bit, 32 bits.
        let transfer = u64::from(route.peer == Peer::ThirdParty) << 63
            | u64::from(route.is_of_asked_rows) << 62
            | u64::from(rule.number) << 33
            | u64::from(route.direction == Direction::Down) << 32
            | u64::from(invitation_id.0);
        let mut stream = self
            .streams
            .stream(Purpose::Fault, u64::from(user.0), transfer);
        if stream.open_unit() >= rule.spec.probability {
            return None;
        }
        Some(match rule.spec.effect {
            FaultEffect::Delay(seconds) => Verdict::Delay(SimDuration::from_secs_f64(seconds)),
            FaultEffect::Drop => Verdict::Drop,
            FaultEffect::CutAtByte(bytes) => Verdict::CutAt(Bytes::new(bytes)),
            FaultEffect::Corrupt => Verdict::Corrupt {
                draw: stream.next_u64(),
            },
            FaultEffect::Outage | FaultEffect::RecurringOutage { .. } => return None,
        })
    }
}
