//! Describes a checked scenario in words: what was run, and what makes its accuracy optimistic.

use super::record::{NoEpsilon, ParticipationTotals, PrivacyRecord, RunRecord, Sampling};
use super::words::{self, counted, name_of, percent, thousands};
use fedrecsim_data::dataset::public::known;
use fedrecsim_scenario::scenario::{
    Adjacency, EvaluationSpec, ItemTable, NegativePool, Policy, Ranking, Scenario, Selection,
    SourceSpec, SplitSpec, TrainingSpec, Trust, presets,
};

/// Returns what was run as (name, words). Everything else that a scenario says is in its own text.
pub(crate) fn describe(record: &RunRecord) -> Vec<(String, String)> {
    let training = &record.scenario.training;
    let mut rows = vec![
        ("Method", format!("`{}`", record.scenario.method.name)),
        ("Data", data(record)),
        (
            "Rounds",
            format!(
                "{} planned, {}",
                thousands(training.rounds.into()),
                rounds(&record.policy, training)
            ),
        ),
        ("Protocol", protocol_of(record).to_owned()),
    ];
    let privacy = record.privacy.as_ref();
    rows.extend(privacy.map(|privacy| ("Privacy", claim(privacy))));
    rows.into_iter()
        .map(|(name, text)| (name.to_owned(), text))
        .collect()
}

/// Returns the protocol of a run, so that a sentence can end with it.
pub(crate) fn protocol_of(record: &RunRecord) -> &str {
    without_stop(&record.protocol)
}

/// Returns a text without the full stop at its end.
pub(crate) fn without_stop(text: &str) -> &str {
    text.trim_end_matches('.')
}

/// Returns in words what is claimed of users' privacy, with everything that it depends on.
pub(crate) fn claim(privacy: &PrivacyRecord) -> String {
    let PrivacyRecord {
        epsilon,
        delta,
        adjacency,
        trust,
        ..
    } = *privacy;
    let (Some(epsilon), Some(delta), Some(adjacency), Some(trust)) =
        (epsilon, delta, adjacency, trust)
    else {
        let because = privacy
            .no_epsilon
            .map_or("none was worked out", NoEpsilon::words);
        return format!("no epsilon: {because}");
    };
    let whom = match trust {
        Trust::Local => "no trust in the server: every device adds noise",
        Trust::Central => {
            "trust in the server, or in a secure sum if it uses no more than that: noise is added once"
        }
    };
    let adjacency = match adjacency {
        Adjacency::AddOrRemove => "a user with all ratings is added or removed",
        Adjacency::Replace => "all ratings of a user are replaced",
    };
    let times = thousands(privacy.times.into());
    let sampling = match privacy.sampling {
        Some(Sampling::Poisson(share)) => {
            format!("Poisson sampling with probability {share}, {times} steps")
        }
        Some(Sampling::FixedCohort(share)) => {
            format!(
                "cohorts of a fixed size without replacement, a share of {share:.4}, {times} steps"
            )
        }
        Some(Sampling::Known) | None => {
            format!(
                "no amplification by sampling, {times} participations of the user with the most"
            )
        }
    };
    let epsilon = words::epsilon(epsilon, 4);
    format!("epsilon {epsilon} at delta {delta:e} ({adjacency}; {whom}; {sampling})")
}

/// Returns in a few words how rounds are run.
pub fn rounds(policy: &Policy, training: &TrainingSpec) -> String {
    match training.steps_per_round {
        1 => policy.name.to_string(),
        steps => format!(
            "{}, {} steps of the server in each",
            policy.name,
            thousands(steps.into())
        ),
    }
}

/// Returns the protocol in a few words, to stand beside every accuracy. The pool of negatives is
/// part of it if the method draws any.
pub(crate) fn protocol(scenario: &Scenario, draws_negatives: bool) -> String {
    let evaluation = &scenario.evaluation;
    let ranking = match evaluation.ranking {
        Ranking::Sampled(sampled) => format!(
            "{} sampled candidates",
            thousands(u64::from(sampled.candidates))
        ),
        Ranking::FullCatalogue => "full catalogue".to_owned(),
    };
    let negatives = match draws_negatives {
        true => format!("negatives `{}`", name_of(&scenario.dataset.negatives.pool)),
        false => "no negatives".to_owned(),
    };
    let tables = match evaluation.item_table {
        ItemTable::Own => "",
        ItemTable::Shared => "scored with the shared item table alone, ",
        ItemTable::AnotherUsers => "scored with another user's item table, ",
    };
    let judged = match evaluation.selection {
        Selection::Last => "last round",
        Selection::BestValidation => "best validation round",
        Selection::BestTest => "best test round",
    };
    match scenario.dataset.split {
        SplitSpec::LeaveOneOut { .. } => {
            format!("leave-one-out, {ranking}, {negatives}, {tables}{judged}")
        }
        SplitSpec::KFold {
            folds,
            fold,
            division: None,
        } => format!("{folds}-fold, test part {fold}, {judged}"),
        SplitSpec::KFold {
            folds,
            division: Some(division),
            ..
        } => {
            format!("{folds}-fold, division {division}, the seed says the test part, {judged}")
        }
    }
}

/// Returns how a run's round was chosen, in words that follow "the round is".
pub(crate) fn selection(evaluation: &EvaluationSpec) -> String {
    let chosen = selected_by(evaluation);
    match evaluation.selection {
        Selection::Last => chosen,
        _ => format!("the one with the {chosen}"),
    }
}

/// Returns by what a run's round was chosen, in a few words.
pub(crate) fn selected_by(evaluation: &EvaluationSpec) -> String {
    let headline = evaluation.headline();
    let headline = headline.map_or_else(String::new, |headline| headline.label());
    match evaluation.selection {
        Selection::Last => "the last one".to_owned(),
        Selection::BestValidation => format!("best validation {headline}"),
        Selection::BestTest => format!("best test {headline}"),
    }
}

/// Something that a reader has to know before believing a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caveat {
    /// The caveat in a few words, as a sentence of its own.
    pub headline: String,
    /// Why it matters and what to do about it.
    pub text: String,
}

/// Returns a caveat that the run is incomplete, and why, if it is.
pub(crate) fn incomplete(record: &RunRecord) -> Option<Caveat> {
    let why = record
        .stopped_by
        .as_deref()
        .unwrap_or("the reason was not recorded");
    (!record.complete).then(|| Caveat {
        headline: format!(
            "Incomplete: {} of {} rounds.",
            record.rounds, record.scenario.training.rounds
        ),
        text: format!("The run was stopped: {why}. The figures are those of the finished rounds."),
    })
}

/// Returns the caveats that come from how the run went: that it is incomplete, that it learned
/// nothing, and that several builds made it.
pub(crate) fn caveats_of_the_run(record: &RunRecord) -> Vec<Caveat> {
    let others = &record.other_builds;
    let mixed = (!others.is_empty()).then(|| Caveat {
        headline: "More than one build of the program made this run.".to_owned(),
        text: format!(
            "It was resumed with --other-build, and earlier rounds were made by: {}. The same scenario and seed may come to \
             another digest in any one build.",
            others.join("; ")
        ),
    });
    incomplete(record)
        .into_iter()
        .chain(learned_nothing(record))
        .chain(mixed)
        .collect()
}

/// Returns a caveat that the run has learned nothing, if that is so.
pub(crate) fn learned_nothing(record: &RunRecord) -> Option<Caveat> {
    let ParticipationTotals {
        invited,
        dropped,
        cancelled,
        late,
        under_way,
        ..
    } = record.participations;
    if record.learned_nothing && record.uploads_were_empty {
        return Some(Caveat {
            headline: "The run has learned nothing: no upload carried a value.".to_owned(),
            text: "What `codec.uplink` selects, a threshold perhaps, left nothing of any upload, so that the accuracy says \
                   nothing about training."
                .to_owned(),
        });
    }
    record.learned_nothing.then(|| Caveat {
        headline: "The run has learned nothing: no update was ever used.".to_owned(),
        text: format!(
            "Of {} in {}, {} were cut off by a dropout, a departure or a fault, {} were given up, {} came too late and \
             {} were under way at the end. The shared model is the one that the run began with, so the accuracy says \
             nothing about training.",
            counted(invited, "participation"),
            counted(u64::from(record.rounds), "round"),
            thousands(dropped),
            thousands(cancelled),
            thousands(late),
            thousands(under_way),
        ),
    })
}

/// Returns a caveat for each warning about the scenario.
pub(crate) fn warnings(record: &RunRecord) -> impl Iterator<Item = Caveat> {
    let caveat = |text: &String| Caveat {
        headline: "A warning about the scenario.".to_owned(),
        text: text.clone(),
    };
    record.warnings.iter().map(caveat)
}

/// Returns a remark that users are left out because their devices have too little memory, if any
/// are.
pub(crate) fn excluded(record: &RunRecord) -> Option<String> {
    let (excluded, users) = (record.size.excluded_users, record.size.users);
    (excluded > 0).then(|| {
        let them = if excluded == 1 {
            "takes no part: its device has"
        } else {
            "take no part: their devices have"
        };
        let of = format!("{} of {}", thousands(excluded), counted(users, "user"));
        format!(
            "{of} ({}) {them} no room for the table.",
            percent(excluded, users)
        )
    })
}

/// Returns what in the protocol makes the accuracy look better than a deployment's would be.
pub(crate) fn protocol_caveats(scenario: &Scenario, draws_negatives: bool) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    if draws_negatives && scenario.dataset.negatives.pool == NegativePool::Unrated {
        caveats.push(Caveat {
            headline: "Negatives come from the `unrated` pool.".to_owned(),
            text: "The held-out items are never drawn as training negatives while every other unrated item \
                   eventually is, so a client that remembers its negatives can find the held-out item by \
                   elimination. The papers' code does this too; a device cannot. Compare with \
                   `dataset.negatives.pool = \"not-in-train\"`."
                .to_owned(),
        });
    }
    if scenario.evaluation.selection == Selection::BestTest {
        caveats.push(Caveat {
            headline: "The round was selected by its test accuracy.".to_owned(),
            text: format!(
                "The test accuracy is the best of many and so optimistic. Compare with `evaluation.selection = \"{}\"`.",
                if scenario.dataset.split.has_validation_item() { "best-validation" } else { "last" }
            ),
        });
    }
    caveats
}

/// Returns a caveat that the devices' times are assumptions, if they are.
pub(crate) fn assumptions(scenario: &Scenario) -> Option<Caveat> {
    presets::assumes_times(&scenario.devices).then(|| Caveat {
        headline: "Times of devices are assumptions.".to_owned(),
        text: "The times per multiply-add and per participation are those of a preset, which nobody has measured. \
               Replace them by your own before you rely on virtual times."
            .to_owned(),
    })
}

fn data(record: &RunRecord) -> String {
    let (dataset, size) = (&record.scenario.dataset, &record.size);
    let held_out = match dataset.split {
        SplitSpec::LeaveOneOut {
            validation_item: true,
        } => "a test and a validation item held out per user".to_owned(),
        SplitSpec::LeaveOneOut {
            validation_item: false,
        } => "a test item held out per user".to_owned(),
        SplitSpec::KFold { folds, .. } => {
            let part = dataset.split.part(record.scenario.seed).unwrap_or_default();
            format!("part {part} of {folds} (from 0) held out")
        }
    };
    let file = match (&dataset.source, &dataset.path) {
        (SourceSpec::Generated { .. }, _) | (_, None) => String::new(),
        (_, Some(path)) => format!(" from `{}`", path.display()),
    };
    format!(
        "{}{file}: {} users, {} items, {} training ratings; {held_out}",
        title(&dataset.source),
        thousands(size.users),
        thousands(size.items),
        thousands(size.training_ratings),
    )
}

fn title(source: &SourceSpec) -> &'static str {
    match source {
        SourceSpec::Generated { .. } => "generated population",
        SourceSpec::Public { .. } | SourceSpec::Delimited { .. } => {
            known(source).map_or("delimited file", |set| &set.title)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::records as sample;

    #[test]
    fn only_an_honest_protocol_goes_without_a_caveat() {
        let mut scenario = sample::run(1).scenario;
        assert!(
            protocol_caveats(&scenario, true)[0]
                .text
                .contains("elimination"),
            "the pool leaks the held-out item"
        );
        assert_eq!(
            protocol_caveats(&scenario, false),
            [],
            "nobody draws from the pool"
        );
        scenario.dataset.negatives.pool = NegativePool::NotInTrain;
        assert_eq!(protocol_caveats(&scenario, true), []);
        scenario.evaluation.selection = Selection::BestTest;
        assert!(
            protocol_caveats(&scenario, true)[0]
                .headline
                .contains("test accuracy")
        );
        scenario.evaluation.selection = Selection::BestValidation;
        assert_eq!(protocol_caveats(&scenario, true), []);
    }

    /// If this fails, the digest of a run that two builds have made is taken for that of one.
    #[test]
    fn a_run_of_two_builds_is_marked() {
        let mut record = sample::run(3);
        assert_eq!(caveats_of_the_run(&record), []);
        record.other_builds.push("fedrecsim 0.0.9".to_owned());
        let [caveat] = &caveats_of_the_run(&record)[..] else {
            panic!("the run is not marked")
        };
        assert!(
            caveat.headline.contains("More than one build")
                && caveat.text.contains("fedrecsim 0.0.9")
        );
    }

    #[test]
    fn a_finished_run_is_not_called_incomplete() {
        assert_eq!(incomplete(&sample::run(3)), None);
        let caveat = incomplete(&sample::interrupted(12, 60));
        assert!(
            caveat
                .is_some_and(|c| c.headline.contains("12 of 60") && c.text.contains("interrupted"))
        );
    }
}
