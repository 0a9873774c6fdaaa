//! Checks how rounds are run: finds keys of `[training]` that contradict one another, the method or
//! the population.

use super::super::modes::{ClientSelection, Mode, OortSpec};
use super::super::participants::{TooFewUsers, Users, too_few_users};
use super::super::policy::Policy;
use super::super::spec::{DatasetSpec, Participation, TrainingSpec};
use super::super::vocabulary::MethodVocabulary;
use super::Checker;

/// The most updates that a buffer may hold for each client that trains at a time. With a larger
/// one, everybody would train that many times on a model that has not changed.
const BUFFER_PER_CLIENT: u32 = 1000;

impl Checker<'_> {
    /// Checks `[training]`. `method` is the method that is to be run, if it is known.
    pub(super) fn training(
        &mut self,
        training: &TrainingSpec,
        dataset: Option<&DatasetSpec>,
        method: Option<&MethodVocabulary>,
    ) {
        if let Some(method) = method.filter(|method| !method.trains) {
            self.untrained(training, method.name);
        }
        self.steps(training);
        self.users(training, dataset);
        self.cohorts(training);
        if let Mode::FedBuff(spec) = training.mode
            && spec.buffer / BUFFER_PER_CLIENT > spec.concurrency
        {
            let (buffer, concurrency) = (spec.buffer, spec.concurrency);
            let message = format!(
                "a buffer of {buffer} updates is more than {BUFFER_PER_CLIENT} for each of the {concurrency} clients \
                 that train at a time (`concurrency`)"
            );
            self.fault(&["training", "mode", "fedbuff", "buffer"], message);
        }
        if let ClientSelection::Oort(spec) = training.client_selection {
            self.oort(&spec);
        }
    }

    /// Refuses keys about rounds for a method that is ready at once, as it takes part in no round,
    /// whatever the mode.
    fn untrained(&mut self, training: &TrainingSpec, method: &str) {
        let keys = [
            ("mode", training.mode != Mode::Synchronous),
            (
                "client_selection",
                training.client_selection != ClientSelection::Uniform,
            ),
        ];
        for (key, _) in keys.iter().filter(|(_, written)| *written) {
            let message = format!(
                "`{key}` has no meaning here: the method `{method}` trains nothing, so no round is run"
            );
            self.fault(&["training", key], message);
        }
    }

    /// Refuses a limit of empty steps that is beyond the steps of the run, as it could not end the
    /// run. The default is accepted in a shorter run, since the resolved scenario of a run prints
    /// it. In modes without cohorts the limit counts participations, of which a step may see any
    /// number.
    pub(super) fn empty_rounds(&mut self, training: &TrainingSpec) {
        let (limit, steps) = (training.empty_rounds_limit, training.steps());
        let is_default =
            limit == TrainingSpec::synchronous(1, Participation::All).empty_rounds_limit;
        if limit <= steps || is_default || !Policy::of(&training.mode).has_cohorts() {
            return;
        }
        let path = ["training", "empty_rounds_limit"];
        let steps = match training.steps_per_round {
            1 => format!("{steps} rounds (`training.rounds`)"),
            of_a_round => format!("{} rounds of {of_a_round} steps", training.rounds),
        };
        let message = format!(
            "`empty_rounds_limit` is {limit}, but the run has {steps}, so it could never be reached"
        );
        self.fault(&path, message);
    }

    /// Checks that the steps of the run can be numbered with 32 bits.
    fn steps(&mut self, training: &TrainingSpec) {
        if training
            .rounds
            .checked_mul(training.steps_per_round)
            .is_none()
        {
            let (rounds, steps) = (training.rounds, training.steps_per_round);
            let message = format!(
                "{rounds} rounds of {steps} steps are more than {} steps",
                u32::MAX
            );
            self.contradiction(
                &["training", "steps_per_round"],
                &["training", "rounds"],
                message,
            );
        }
    }

    fn users(&mut self, training: &TrainingSpec, dataset: Option<&DatasetSpec>) {
        // The users of a file are counted when it is read.
        let generated = dataset.and_then(DatasetSpec::generated_users);
        let words = generated
            .map(|users| format!("`dataset.generator.users` is {users}"))
            .unwrap_or_default();
        // Which users have too little memory is known only when the size of the method's table is.
        let users = generated.map(|users| Users {
            all: users,
            able: users,
            words: &words,
        });
        for TooFewUsers {
            path,
            other,
            message,
        } in too_few_users(training, &Policy::of(&training.mode), users)
        {
            self.contradiction(&path, other, message);
        }
    }

    /// Refuses a number of participants where no cohorts are invited.
    fn cohorts(&mut self, training: &TrainingSpec) {
        // The default participation is let pass, because a printed scenario has it written out.
        if !Policy::of(&training.mode).has_cohorts() && training.participation != Participation::All
        {
            let mode = training.mode.key();
            let message = format!(
                "`participation` has no meaning in the mode `{mode}`, which has no cohorts: `concurrency` says how many \
                 take part at a time"
            );
            self.fault(&["training", "participation"], message);
        }
    }

    fn oort(&mut self, spec: &OortSpec) {
        if spec.least_exploration > spec.exploration {
            let (least, first) = (spec.least_exploration, spec.exploration);
            let message = format!(
                "the share of exploration begins at {first} (`exploration`) and cannot go down to {least}"
            );
            let oort = |key| ["training", "client_selection", "oort", key];
            self.contradiction(&oort("least_exploration"), &oort("exploration"), message);
        }
    }
}
