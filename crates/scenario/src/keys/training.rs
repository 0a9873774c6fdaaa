//! `[training]`: rounds, steps and participants.

use std::ops::Range;
use std::path::PathBuf;

use super::dataset::USERS;
use super::evaluation::ItemTable;
use super::modes::{ClientSelection, Mode};
use super::participants::{Users, too_few_users};
use super::{Scenario, name_of};
use crate::check::Checker;
use crate::policy::Policy;
use crate::{choices, keys, variants};
use fedrecsim_core::{Round, Step};

keys! {
    /// Rounds and participation.
    pub struct TrainingSpec with required keys {
        /// Rounds: after each of them there is a record, which may have an evaluation.
        rounds: u32, >= 1, <= 1_000_000;
        /// The run whose parameters this one starts from: its report folder, if it was kept with
        /// `--keep-checkpoint`, or one of its checkpoints. A relative path is found as those of ratings
        /// are. The shared model and the private parameters of users of the same names are those of
        /// that run; rounds, virtual time, bytes and random draws begin anew.
        #[schemars(length(min = 1))]
        start: Option<PathBuf>;
        /// Steps of the server in a round. With more than one, what is said of rounds elsewhere in
        /// this table (participation, selection, mode) holds for steps.
        steps_per_round: u32 = 1, >= 1, <= 1_000_000;
        /// Who takes part in a round.
        participation: Participants = Participants::All;
        /// Whom the server picks.
        client_selection: ClientSelection = ClientSelection::Uniform;
        /// When the server averages, and what becomes of those who are late.
        mode: Mode = Mode::Synchronous;
        /// What the server makes of updates. The values besides `method` are controls, which show
        /// what the method's own server is worth.
        aggregation: Aggregation = Aggregation::Method;
        /// This many steps in a row without a single update end the run. Steps for which `poisson`
        /// has drawn nobody do not count. In an asynchronous mode it is
        /// this many times the larger of concurrency and buffer participations in a row that come
        /// to nothing. Where steps count, another limit than the default must not be above the
        /// number of steps of the run.
        empty_rounds_limit: u32 = EMPTY_ROUNDS_LIMIT, >= 1, <= 1_000_000;
        /// Where nobody is available, the server waits for the first to be, but no longer than
        /// this; then the run ends.
        waiting_limit_s: f64 = 604_800.0, >= 1.0, <= 1e9;
        /// A parameter whose magnitude passes this ends the run as diverged.
        divergence_limit: f64 = 1e6, > 0.0, <= 3e38;
    }
}

/// The default of `empty_rounds_limit`.
const EMPTY_ROUNDS_LIMIT: u32 = 10;

impl TrainingSpec {
    /// Returns the number of steps of the whole run. A checked scenario has fewer than 2^32.
    pub(super) fn steps(&self) -> u32 {
        self.rounds.saturating_mul(self.steps_per_round)
    }

    /// Returns the steps of `round`.
    pub fn steps_of(&self, round: Round) -> Range<u32> {
        let first = round.0.saturating_mul(self.steps_per_round);
        first..first.saturating_add(self.steps_per_round)
    }

    /// Returns the round that `step` belongs to.
    pub fn round_of(&self, step: Step) -> Round {
        Round(step.0 / self.steps_per_round)
    }
}

variants! {
    /// Who takes part in a round.
    #[derive(Copy)]
    pub enum Participants {
        /// Every user.
        All,
        /// A share of the users, uniformly without replacement; rounded to the nearest count, at least
        /// one.
        Share(#[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))] f64),
        /// This many users, uniformly without replacement.
        Cohort(#[schemars(range(min = 1))] u32),
        /// Each user by itself with this probability, so that a round may have any number of
        /// participants, or none. If none of those who are there is drawn, the round takes no time,
        /// or ends at its deadline if it has one. While nobody is there, the server waits as in any
        /// other round. It needs uniform selection and a mode whose rounds take any number of
        /// participants.
        Poisson(#[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))] f64),
    }
}

choices! {
    /// What the server makes of updates.
    pub enum Aggregation {
        /// What the method does.
        Method,
        /// Nothing: every device trains alone. It starts from the initial model, which it has from
        /// the beginning, goes on from what it has made of that, and scores with it. Nothing is
        /// downloaded, and an upload is an empty frame, which says that the device is done. Rates
        /// that are made for a mean over many devices are too large for one alone.
        None,
        /// The mean of what devices send, by the weights that they say, if the method has them say
        /// any.
        Mean,
    }
}

/// The most updates that a buffer may hold for each client that trains at a time. With a larger
/// one, everybody would train that many times on a model that has not changed.
const BUFFER_PER_CLIENT: u32 = 1000;

pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let training = &scenario.training;
    let policy = Policy::of(&training.mode);
    if !checker.method.trains {
        check_untrained(training, checker);
    }
    check_steps(training, &policy, checker);
    // The users of a file are counted when it is read, and which users have too little memory is
    // known only when the size of the method's table is.
    let generated = scenario.dataset.generated_users();
    let words = generated.map_or(String::new(), |users| format!("`{USERS}` is {users}"));
    let users = generated.map(|users| Users {
        all: users,
        able: users,
        words: &words,
    });
    for (key, other, message) in too_few_users(training, &policy, users) {
        checker.contradiction(&key, other, message);
    }
    // The default participation is let pass, because a printed scenario has it written out.
    if !policy.has_cohorts() && training.participation != Participants::All {
        let mode = name_of(&training.mode);
        checker.fault(
            "training.participation",
            format!(
                "`participation` has no meaning in the mode `{mode}`, which has no cohorts: \
                 `concurrency` says how many take part at a time"
            ),
        );
    }
    checker.idle_if(
        checker.method.runs_at_server,
        "training.participation",
        "the method trains at the server, and every user sends its ratings there",
    );
    check_aggregation(
        training.aggregation,
        scenario.evaluation.item_table,
        checker,
    );
    check_mode(&training.mode, checker);
    check_selection(&training.client_selection, checker);
}

/// Refuses controls that have no meaning for the method, and warns of keys about updates where none
/// has values.
fn check_aggregation(aggregation: Aggregation, item_table: ItemTable, checker: &mut Checker<'_>) {
    const KEY: &str = "training.aggregation";
    let because = "the method trains at the server, which averages nothing";
    checker.idle_if(checker.method.runs_at_server, KEY, because);
    let is_federated = checker.method.trains && !checker.method.runs_at_server;
    if aggregation == Aggregation::Method || !is_federated {
        return;
    }
    if let Some(reason) = checker.method.without_controls {
        let name = checker.method.name;
        checker.fault(
            KEY,
            format!("the method `{name}` has no other `aggregation` than its own: {reason}"),
        );
    }
    if aggregation == Aggregation::None && item_table == ItemTable::Shared {
        checker.contradiction(
            KEY,
            "evaluation.item_table",
            "every device trains alone, so there is no shared item table to score with: write \
                       `aggregation = \"mean\"`, or leave `evaluation.item_table` out",
        );
    }
    for key in ["codec", "privacy", "overheads"] {
        let because = "every device trains alone (`training.aggregation`) and sends no values";
        checker.idle_if(aggregation == Aggregation::None, key, because);
    }
}

/// Refuses keys about rounds for a method that is ready at once, since it takes part in no round of
/// any mode.
fn check_untrained(training: &TrainingSpec, checker: &mut Checker<'_>) {
    let is_uniform = training.client_selection == ClientSelection::Uniform;
    for (key, is_plain) in [
        ("start", training.start.is_none()),
        ("mode", training.mode == Mode::Synchronous),
        ("client_selection", is_uniform),
    ] {
        if !is_plain {
            let name = checker.method.name;
            checker.fault(
                &format!("training.{key}"),
                format!(
                    "`{key}` has no meaning here: the method `{name}` trains nothing, so no \
                     round is run"
                ),
            );
        }
    }
}

/// Checks that the steps of the run can be numbered with 32 bits, and that a limit of empty ones
/// can be reached.
fn check_steps(training: &TrainingSpec, policy: &Policy, checker: &mut Checker<'_>) {
    let (rounds, steps) = (training.rounds, training.steps_per_round);
    if rounds.checked_mul(steps).is_none() {
        checker.contradiction(
            "training.steps_per_round",
            "training.rounds",
            format!(
                "{rounds} rounds of {steps} steps are more than {} steps",
                u32::MAX
            ),
        );
    }
    let least = checker.traffic.as_ref().map_or(0, |of| of.least_steps);
    if training.steps() < least {
        checker.warn(
            "training.rounds",
            format!(
                "the run has {} steps, and the model of `{}` is whole after {least} in which \
                 everybody takes part",
                training.steps(),
                checker.method.name
            ),
        );
    }
    // The default is accepted in a shorter run, since the resolved scenario of a run prints it. In
    // modes without cohorts the limit counts participations, since a step may see any number of
    // them.
    let limit = training.empty_rounds_limit;
    if limit > training.steps() && limit != EMPTY_ROUNDS_LIMIT && policy.has_cohorts() {
        let run = match steps {
            1 => format!("{rounds} rounds (`training.rounds`)"),
            steps => format!("{rounds} rounds of {steps} steps"),
        };
        checker.fault(
            "training.empty_rounds_limit",
            format!(
                "`empty_rounds_limit` is {limit}, but the run has {run}, so it could never be \
                 reached"
            ),
        );
    }
}

fn check_mode(mode: &Mode, checker: &mut Checker<'_>) {
    match *mode {
        Mode::OverSelection(spec) => checker.idle_if(
            spec.factor == 1.0 && spec.deadline_s.is_none(),
            "training.mode.over-selection.stragglers",
            "a round with the `factor` 1 and without a `deadline_s` waits for everybody",
        ),
        Mode::FedBuff {
            concurrency,
            buffer,
            ..
        } if buffer / BUFFER_PER_CLIENT > concurrency => {
            checker.fault(
                "training.mode.fedbuff.buffer",
                format!(
                    "a buffer of {buffer} updates is more than {BUFFER_PER_CLIENT} for each of \
                     the {concurrency} clients that train at a time (`concurrency`)"
                ),
            );
        }
        _ => {}
    }
    checker.idle_if(
        Policy::of(mode).maximum_staleness() == 0,
        &format!("training.mode.{}.staleness_weight", name_of(mode)),
        "`maximum_staleness` is 0, so only fresh updates are used, with the weight 1",
    );
}

fn check_selection(selection: &ClientSelection, checker: &mut Checker<'_>) {
    let ClientSelection::Oort(spec) = selection else {
        return;
    };
    let oort = |key: &str| format!("training.client_selection.oort.{key}");
    let (least, first) = (spec.least_exploration, spec.exploration);
    if least > first {
        checker.contradiction(
            &oort("least_exploration"),
            &oort("exploration"),
            format!(
                "the share of exploration begins at {first} (`exploration`) and cannot go down \
                 to {least}"
            ),
        );
    }
    checker.idle_if(
        least == first,
        &oort("exploration_decay"),
        "the share of exploration begins at `least_exploration` and stays there",
    );
    checker.idle_if(
        spec.straggler_penalty == 0.0,
        &oort("preferred_quantile"),
        "`straggler_penalty` is 0, so that no duration is preferred",
    );
}
