//! The users who come in the course of a run (`[joins]`).
//!
//! Until they come they are under an outage, so that nobody invites them, and no total has their
//! ratings. What is found for them meanwhile is in `newcomers`.

use std::sync::Arc;

use fedrecsim_core::{Error, PortableDraws, Result, SimDuration, SimTime, Streams, UserId};
use fedrecsim_data::dataset::{Candidates, Dataset};
use fedrecsim_methods::Placement;
use fedrecsim_scenario::{FaultEffect, FaultSpec, FaultUsers, JoinUsers, JoinsSpec};

/// The newcomers of a run.
#[derive(Debug)]
pub(crate) struct Joins {
    /// The newcomers, ascending.
    users: Vec<UserId>,
    /// The instant at which they come.
    at: SimTime,
    /// What their devices know when they are scored before that, by the number of ratings.
    pub known: Vec<(u32, Dataset)>,
    pub spec: JoinsSpec,
}

impl Joins {
    /// Finds the newcomers among the users of `dataset`, and leaves their ratings out of its totals.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that is none, for a method with a third party, and where nobody
    /// is left of those who are there, of those who come, or of either of them who is evaluated.
    pub(crate) fn new(
        spec: &JoinsSpec,
        placement: Placement,
        dataset: &mut Arc<Dataset>,
        candidates: &Candidates,
        streams: Streams,
    ) -> Result<Self> {
        if placement == Placement::Assisted {
            return Err(Error::Usage(
                "joins: a device of this method asks a third party before it trains, and a newcomer sends \
                 nothing before it comes"
                    .to_owned(),
            ));
        }
        let users = newcomers(&spec.users, dataset, streams)?;
        if users.len() >= dataset.users_with_history() {
            return Err(Error::Usage(
                "joins.users: everybody comes later, so that nobody is there to begin with"
                    .to_owned(),
            ));
        }
        let evaluated = candidates.evaluated_users();
        let own = evaluated
            .iter()
            .filter(|user| users.binary_search(user).is_ok());
        let own = own.count();
        if own == 0 || own == evaluated.len() {
            let which = match own {
                0 => "none",
                _ => "each",
            };
            return Err(Error::Usage(format!(
                "joins.users: {which} of the {} evaluated users comes later, so that there is nothing to compare; raise \
                 evaluation.users, or let other users come later",
                evaluated.len()
            )));
        }
        Arc::make_mut(dataset).leave_out_of_totals(&users);
        let known = spec.ratings.iter();
        let known = known.map(|count| (*count, dataset.with_earliest_ratings(&users, *count)));
        Ok(Self {
            at: SimTime::ZERO + SimDuration::from_secs_f64(spec.at_s),
            known: known.collect(),
            spec: spec.clone(),
            users,
        })
    }

    /// Returns whether `user` comes in the course of the run.
    pub(crate) fn includes(&self, user: UserId) -> bool {
        self.users.binary_search(&user).is_ok()
    }

    /// Returns the number of newcomers.
    pub(crate) fn count(&self) -> u64 {
        self.users.len() as u64
    }

    /// Returns the time since they came; `None` until they are there.
    pub(crate) fn since(&self, now: SimTime) -> Option<SimDuration> {
        (now >= self.at).then(|| now.since(self.at))
    }

    /// Returns the rule that keeps newcomers away until they come.
    pub(crate) fn outage(&self) -> FaultSpec {
        let numbers = self.users.iter().map(|user| user.0);
        FaultSpec {
            effect: FaultEffect::Outage,
            until_s: Some(self.spec.at_s),
            users: Some(FaultUsers::Numbers(numbers.collect())),
            ..FaultSpec::default()
        }
    }
}

/// Returns the newcomers, ascending.
fn newcomers(users: &JoinUsers, dataset: &Dataset, streams: Streams) -> Result<Vec<UserId>> {
    let mut newcomers = match users {
        JoinUsers::Names(names) => dataset
            .users_named(names)
            .map_err(|error| error.within("joins.users.names"))?,
        JoinUsers::Share(share) => {
            let all = dataset.users_with_history();
            // Each user draws a key of its own, so that one more user displaces at most one other.
            let key = |user: UserId| {
                let mut stream = streams.named("joins/users", u64::from(user.0), 0);
                (stream.open_unit().to_bits(), user)
            };
            let mut keys: Vec<_> = (0..all).map(UserId::from).map(key).collect();
            keys.sort_unstable();
            let wanted = (share * all as f64).round().max(1.0) as usize;
            let drawn = keys.into_iter().take(wanted);
            drawn.map(|(_, user)| user).collect()
        }
    };
    newcomers.sort_unstable();
    newcomers.dedup();
    Ok(newcomers)
}
