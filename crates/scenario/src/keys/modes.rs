//! How rounds are run and whom the server picks: the keys `training.mode` and
//! `training.client_selection`.

use crate::policy::{
    Invitations, LateUpdates, Policy, StalenessWeight, Stragglers, UpdateRule, UpdatesNeeded,
};
use crate::{keys, variants};
use fedrecsim_core::SimDuration;

variants! {
    /// When the server averages, and what becomes of those who are late.
    #[derive(Copy)]
    pub enum Mode {
        /// A round waits for everybody that it invited.
        Synchronous,
        /// More are invited than are needed; the first ones count (Bonawitz et al., MLSys 2019).
        OverSelection(OverSelectionSpec),
        /// A round ends at its deadline; late updates join a later round with a smaller weight.
        SemiSynchronous {
            /// The round ends this long after it began, or when everybody is done. Where nobody
            /// takes part and nobody is there, the time counts from the first invitation.
            #[schemars(range(min = 1e-9, max = 1e9))]
            deadline_s: f64,
            /// Weight of an update by the number of rounds that it is late.
            #[schemars(extend("default" = StalenessWeight::FEDBUFF))]
            staleness_weight: StalenessWeight,
            /// An update that is later than this many rounds is stale and not used.
            #[schemars(range(max = 1_000_000), extend("default" = 5))]
            maximum_staleness: u32,
        },
        /// A fixed number of clients train at any time; the server steps whenever its buffer is
        /// full (Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS
        /// 2022). A round is one step of the server.
        #[serde(rename = "fedbuff")]
        FedBuff {
            /// Clients that take part at any time.
            #[schemars(range(min = 1))]
            concurrency: u32,
            /// Updates that make a step.
            #[schemars(range(min = 1))]
            buffer: u32,
            /// The server's learning rate: the step is this times the mean of the weighted updates.
            #[schemars(range(max = 10), extend("exclusiveMinimum" = 0.0, "default" = 1.0))]
            server_rate: f64,
            /// Weight of an update by its staleness: the server's steps since the model that it
            /// started from.
            #[schemars(extend("default" = StalenessWeight::FEDBUFF))]
            staleness_weight: StalenessWeight,
            /// An update staler than this is not used.
            #[schemars(range(max = 1_000_000), extend("default" = 5))]
            maximum_staleness: u32,
        },
        /// A fixed number of clients train at any time; every update is mixed in as it arrives (Xie
        /// et al., Asynchronous Federated Optimization, 2019). A round is one update.
        #[serde(rename = "fedasync")]
        FedAsync {
            /// Clients that take part at any time.
            #[schemars(range(min = 1))]
            concurrency: u32,
            /// Share of a fresh update in the new model (alpha).
            #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0, "default" = 0.6))]
            mixing: f64,
            /// Factor of that share by the update's staleness.
            #[schemars(extend("default" = StalenessWeight::FEDBUFF))]
            staleness_weight: StalenessWeight,
            /// An update staler than this is not used.
            #[schemars(range(max = 1_000_000), extend("default" = 5))]
            maximum_staleness: u32,
        },
    }

    /// Whom the server picks among those who can take part.
    #[derive(Copy)]
    pub enum ClientSelection {
        /// Uniformly at random.
        Uniform,
        /// One after another by number, and from the start again.
        RoundRobin,
        /// Those first who stay available longest from now on: an oracle, the most that a forecast
        /// of availability could be worth.
        LongestAvailable,
        /// Uniformly, but nobody twice in a row: no update of a user is used in two steps in a row,
        /// as a server could tell more about a user from them (FedRAP, section 3.3). In modes with
        /// cohorts nobody is invited to two in a row either, so there must be twice as many users
        /// as a round invites. Asynchronous modes need twice as many as make a step. If everybody
        /// who is there has to rest, the step ends with what has arrived.
        NeverTwiceInARow,
        /// At random, in proportion to the number of training ratings.
        ByDataSize,
        /// By utility: high loss, much data, a fast device, not seen for long (Lai et al., Oort,
        /// OSDI 2021).
        Oort(OortSpec),
    }
}

keys! {
    /// Over-selection with a deadline.
    #[derive(Copy)]
    pub struct OverSelectionSpec {
        /// Users invited per user needed; rounded up, at most everybody.
        factor: f64 = 1.3, >= 1.0, <= 100.0;
        /// The round ends this long after it began, with what has arrived; without it, when enough
        /// have arrived. Required where everybody is needed, and nobody is left to be invited
        /// beyond them.
        deadline_s: Option<f64> = None, >= 1e-9, <= 1e9;
        /// What becomes of those who are not done then.
        stragglers: Stragglers = Stragglers::Cancelled;
    }
}

keys! {
    /// Parameters of Oort; the defaults are those of its paper and code.
    #[derive(Copy)]
    pub struct OortSpec {
        /// Share of a cohort that is drawn from users never seen, in the first round.
        exploration: f64 = 0.9, >= 0.0, <= 1.0;
        /// Factor of that share from round to round.
        exploration_decay: f64 = 0.98, > 0.0, <= 1.0;
        /// The least that this share falls to.
        least_exploration: f64 = 0.2, >= 0.0, <= 1.0;
        /// Exponent of the penalty of a participation that takes longer than preferred.
        straggler_penalty: f64 = 2.0, >= 0.0, <= 10.0;
        /// The preferred duration, as a share of the users seen so far who are faster.
        preferred_quantile: f64 = 0.8, > 0.0, <= 1.0;
    }
}

impl Policy {
    /// Returns the policy that `mode` stands for.
    pub fn of(mode: &Mode) -> Self {
        let synchronous = Self {
            name: "synchronous".into(),
            invitations: Invitations::AtOnce {
                over_selection: 1.0,
            },
            updates_needed: UpdatesNeeded::NoNumber,
            deadline: None,
            late_updates: LateUpdates::NotUsed,
            stragglers: Stragglers::Late,
            update_rule: UpdateRule::Mean,
        };
        let asynchronous = |concurrency| Self {
            invitations: Invitations::WheneverFree { concurrency },
            ..synchronous.clone()
        };
        match *mode {
            Mode::Synchronous => synchronous,
            Mode::OverSelection(spec) => Self {
                name: "over-selection".into(),
                invitations: Invitations::AtOnce {
                    over_selection: spec.factor,
                },
                updates_needed: UpdatesNeeded::Participants,
                deadline: spec.deadline_s.map(SimDuration::from_secs_f64),
                stragglers: spec.stragglers,
                ..synchronous
            },
            Mode::SemiSynchronous {
                deadline_s,
                staleness_weight: weight,
                maximum_staleness,
            } => Self {
                name: "semi-synchronous".into(),
                deadline: Some(SimDuration::from_secs_f64(deadline_s)),
                late_updates: LateUpdates::Used {
                    maximum_staleness,
                    weight,
                },
                update_rule: UpdateRule::DifferencesPerWeight,
                ..synchronous
            },
            Mode::FedBuff {
                concurrency,
                buffer,
                server_rate,
                staleness_weight: weight,
                maximum_staleness,
            } => Self {
                name: "FedBuff".into(),
                updates_needed: UpdatesNeeded::Number(buffer),
                late_updates: LateUpdates::Used {
                    maximum_staleness,
                    weight,
                },
                update_rule: UpdateRule::DifferencesPerUpdate { server_rate },
                ..asynchronous(concurrency)
            },
            Mode::FedAsync {
                concurrency,
                mixing: share,
                staleness_weight: weight,
                maximum_staleness,
            } => Self {
                name: "FedAsync".into(),
                updates_needed: UpdatesNeeded::Number(1),
                late_updates: LateUpdates::Used {
                    maximum_staleness,
                    weight,
                },
                update_rule: UpdateRule::Mixed { share },
                ..asynchronous(concurrency)
            },
        }
    }
}
