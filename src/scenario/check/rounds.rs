//! How rounds are run: keys of `[training]` that contradict one another or the population.

use super::super::modes::{ClientSelection, Mode, OortSpec};
use super::super::spec::{DatasetSpec, Participation, SourceSpec, TrainingSpec};
use super::Checker;

/// Most updates in a buffer for each client that trains at a time. A larger one would be full after so many trainings of
/// everybody on a model that has not moved.
const BUFFER_PER_CLIENT: u32 = 1000;

impl Checker<'_> {
    pub(super) fn training(&mut self, training: &TrainingSpec, dataset: Option<&DatasetSpec>) {
        // Those of a file are counted when it is read.
        let users = match dataset.map(|dataset| &dataset.source) {
            Some(SourceSpec::Generated(generator)) => Some(generator.users),
            _ => None,
        };
        let concurrency = match training.mode {
            Mode::FedBuff(spec) => Some(("fedbuff", spec.concurrency)),
            Mode::FedAsync(spec) => Some(("fedasync", spec.concurrency)),
            Mode::Synchronous | Mode::OverSelection(_) | Mode::SemiSynchronous(_) => None,
        };
        if let Some((mode, concurrency)) = concurrency {
            self.asynchronous(training, mode, concurrency, users);
        } else if let Some(users) = users {
            self.never_twice(training, users);
        }
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

    fn asynchronous(&mut self, training: &TrainingSpec, mode: &str, concurrency: u32, users: Option<u32>) {
        // A printed scenario has the default written out.
        if training.participation != Participation::All {
            let message = format!(
                "`participation` has no meaning in the mode `{mode}`, which has no cohorts: `concurrency` says how many \
                 take part at a time"
            );
            self.fault(&["training", "participation"], message);
        }
        if let Some(users) = users
            && concurrency > users
        {
            let message = format!(
                "{concurrency} clients cannot take part at a time: the population (`dataset.generator.users`) is {users}"
            );
            let path = ["training", "mode", mode, "concurrency"];
            self.contradiction(&path, &["dataset", "generator", "users"], message);
        }
    }

    /// Two cohorts in a row need twice as many users, if nobody is to be in both.
    fn never_twice(&mut self, training: &TrainingSpec, users: u32) {
        if training.client_selection != ClientSelection::NeverTwiceInARow || training.rounds < 2 {
            return;
        }
        let needed = match training.participation {
            Participation::All => users,
            // As a cohort is counted: to the nearest, at least one.
            Participation::Share(share) => ((share * f64::from(users) + 0.5) as u32).max(1),
            Participation::Cohort(cohort) => cohort,
        };
        let invited = match training.mode {
            Mode::OverSelection(spec) => ((f64::from(needed) * spec.factor).ceil() as u32).min(users),
            _ => needed,
        };
        if u64::from(invited) * 2 > u64::from(users) {
            let message = format!(
                "`never-twice-in-a-row` cannot be kept: {invited} of {users} users are invited to each round, which is \
                 more than half of them"
            );
            self.contradiction(&["training", "client_selection"], &["training", "participation"], message);
        }
    }

    fn oort(&mut self, spec: &OortSpec) {
        if spec.least_exploration > spec.exploration {
            let (least, first) = (spec.least_exploration, spec.exploration);
            let message =
                format!("the share of exploration begins at {first} (`exploration`) and cannot go down to {least}");
            let oort = |key| ["training", "client_selection", "oort", key];
            self.contradiction(&oort("least_exploration"), &oort("exploration"), message);
        }
    }
}
