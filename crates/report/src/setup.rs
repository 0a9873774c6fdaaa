//! Describes a checked scenario in words: what was run, and what makes its accuracy optimistic.

use super::document::Block;
use super::record::{NoEpsilon, ParticipationTotals, PrivacyRecord, RunRecord, Sampling};
use super::words::{self, counted, name_of, percent, share, thousands};
use fedrecsim_data::dataset::given::is_given;
use fedrecsim_data::dataset::public::known;
use fedrecsim_scenario::{
    Adjacency, Cut, EvaluationSpec, HoldsOut, ItemTable, NegativePool, Policy, Ranking, Scenario,
    Selection, SplitSpec, TrainingSpec, Trust,
};

/// Returns what was run as (name, words). Everything else that a scenario says is in its own text.
pub(crate) fn describe(record: &RunRecord) -> Vec<(String, String)> {
    let training = &record.scenario.training;
    let planned = thousands(training.rounds.into());
    let how = mode_in_words(&record.policy, training);
    let mut rows = vec![
        ("Method", format!("`{}`", record.scenario.method.name)),
        ("Data", data(record)),
        ("Rounds", format!("{planned} planned, {how}")),
        ("Protocol", protocol_of(record).to_owned()),
    ];
    let tested = words::tested(&record.size.split);
    rows.extend(tested.map(|text| ("Tested", text)));
    let privacy = record.privacy.as_ref();
    rows.extend(privacy.map(|privacy| ("Privacy", claim(privacy))));
    let named = |(name, text): (&str, String)| (name.to_owned(), text);
    rows.into_iter().map(named).collect()
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
    let known = (
        privacy.epsilon,
        privacy.delta,
        privacy.adjacency,
        privacy.trust,
    );
    let (Some(epsilon), Some(delta), Some(adjacency), Some(trust)) = known else {
        let because = privacy
            .no_epsilon
            .map_or("none was computed", NoEpsilon::words);
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
pub(crate) fn mode_in_words(policy: &Policy, training: &TrainingSpec) -> String {
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
        SplitSpec::LeaveOneOut {
            session_gap_days, ..
        } => {
            let gap = session_gap_days.map(|days| format!(" by sessions (gap of {days} d)"));
            let gap = gap.unwrap_or_default();
            format!("leave-one-out{gap}, {ranking}, {negatives}, {tables}{judged}")
        }
        SplitSpec::Holdout(spec) => format!(
            "holdout of {} of every user, {ranking}, {negatives}, {tables}{judged}",
            share(spec.share)
        ),
        SplitSpec::GlobalTime(spec) => {
            let cut = match spec.cut {
                Cut::Share(before) => format!("{} of the ratings", share(before)),
                Cut::Instant(instant) => instant.to_string(),
            };
            let targets = name_of(&spec.targets);
            format!(
                "global time, cut at {cut}, targets `{targets}`, {ranking}, {negatives}, {tables}{judged}"
            )
        }
        SplitSpec::ByColumn(spec) if spec.holds_out == HoldsOut::Ratings => {
            format!("parts of a column, {judged}")
        }
        SplitSpec::ByColumn(_) => {
            format!("parts of a column, {ranking}, {negatives}, {tables}{judged}")
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

/// Returns a caveat that the run is incomplete, and why, if it is.
pub(crate) fn incomplete(record: &RunRecord) -> Option<Block> {
    let (finished, planned) = (record.rounds, record.scenario.training.rounds);
    let why = record
        .stopped_by
        .as_deref()
        .unwrap_or("the reason was not recorded");
    (!record.complete).then(|| {
        Block::note(
            format!("Incomplete: {finished} of {planned} rounds."),
            format!(
                "The run was stopped: {why}. Accuracy is that of the finished rounds; bytes and participations have what was \
                 under way too."
            ),
        )
    })
}

/// Returns the caveats that come from how the run went: that it is incomplete, that it learned
/// nothing, and that several builds made it.
pub(crate) fn caveats_of_the_run(record: &RunRecord) -> Vec<Block> {
    let others = record.other_builds.join("; ");
    let mixed = (!others.is_empty()).then(|| {
        Block::note(
            "More than one build of the program made this run.",
            format!(
                "It was resumed with --other-build, and earlier rounds were made by: {others}. The same scenario and seed \
                 may come to another digest in any one build."
            ),
        )
    });
    let all = [incomplete(record), learned_nothing(record), mixed];
    all.into_iter().flatten().collect()
}

/// Returns a caveat that the run has learned nothing, if that is so.
fn learned_nothing(record: &RunRecord) -> Option<Block> {
    if !record.learned_nothing {
        return None;
    }
    if record.uploads_were_empty {
        return Some(Block::note(
            "The run has learned nothing: no upload carried a value.",
            "`codec.uplink` selected nothing of any upload (a threshold may be too high), so the \
             accuracy says nothing about training.",
        ));
    }
    let ParticipationTotals {
        invited,
        lost,
        cancelled,
        late,
        under_way,
        ..
    } = record.participations;
    let [lost, cancelled, late, under_way] = [lost, cancelled, late, under_way].map(thousands);
    Some(Block::note(
        "The run has learned nothing: no update was ever used.",
        format!(
            "Of {} in {}, {lost} were lost to a dropout, a departure or a fault, {cancelled} were cancelled, {late} came \
             too late and {under_way} were under way at the end. The shared model is the one that the run began with, so the \
             accuracy says nothing about training.",
            counted(invited, "participation"),
            counted(record.rounds.into(), "round"),
        ),
    ))
}

/// Returns a caveat for each warning about the scenario.
pub(crate) fn warnings(record: &RunRecord) -> impl Iterator<Item = Block> {
    let caveat = |text| Block::note("A warning about the scenario.", text);
    record.warnings.iter().map(caveat)
}

/// Returns a remark that users are left out because their devices have too little memory, if any
/// are.
pub(crate) fn excluded(record: &RunRecord) -> Option<String> {
    let (excluded, users) = (record.size.excluded_users, record.size.users);
    let them = match excluded {
        0 => return None,
        1 => "takes no part: its device has",
        _ => "take no part: their devices have",
    };
    Some(format!(
        "{} of {} ({}) {them} no room for the table.",
        thousands(excluded),
        counted(users, "user"),
        percent(excluded, users)
    ))
}

/// Returns why the accuracy is better than a deployment's could be, in a few words; `None` if it is
/// not.
pub(crate) fn leak(scenario: &Scenario, draws_negatives: bool) -> Option<&'static str> {
    leak_of(&protocol(scenario, draws_negatives))
}

/// Returns the same by the words of a protocol.
pub(crate) fn leak_of(protocol: &str) -> Option<&'static str> {
    let has = |part: &str| without_stop(protocol).split(", ").any(|of| of == part);
    if has("negatives `unrated`") {
        return Some("its negatives tell it the held-out item");
    }
    has("best test round").then_some("its round was chosen by the test")
}

/// Returns what in the protocol makes the accuracy look better than a deployment's would be.
pub(crate) fn protocol_caveats(scenario: &Scenario, draws_negatives: bool) -> Vec<Block> {
    let mut caveats = Vec::new();
    if draws_negatives && scenario.dataset.negatives.pool == NegativePool::Unrated {
        caveats.push(Block::note(
            "Negatives come from the `unrated` pool.",
            "The held-out items are never drawn as training negatives while every other unrated item \
             eventually is, so a client that remembers its negatives can find the held-out item by \
             elimination. The papers' code does this too; a device cannot. Compare with \
             `dataset.negatives.pool = \"not-in-train\"`.",
        ));
    }
    if draws_negatives && scenario.dataset.negatives.pool == NegativePool::Symmetric {
        caveats.push(Block::note(
            "Negatives come from the `symmetric` pool.",
            "Neither the held-out items nor the candidates that they are ranked against are drawn as training \
             negatives. A device knows none of them, but elimination does not tell one from the others.",
        ));
    }
    if let (Some(core), SplitSpec::GlobalTime(_)) =
        (scenario.dataset.k_core, scenario.dataset.split)
    {
        caveats.push(Block::note(
            format!("The {core}-core has seen the future."),
            "Users and items were kept by all their ratings, those after the cut included. A deployment could not do so.",
        ));
    }
    if scenario.evaluation.selection == Selection::BestTest {
        let honest = match scenario.dataset.split.has_validation_items() {
            true => "best-validation",
            false => "last",
        };
        caveats.push(Block::note(
            "The round was selected by its test accuracy.",
            format!(
                "The test accuracy is the best of many and so optimistic. Compare with `evaluation.selection = \"{honest}\"`."
            ),
        ));
    }
    caveats
}

/// Returns a caveat that the devices' times are assumptions, if they are.
pub(crate) fn assumptions(scenario: &Scenario) -> Option<Block> {
    scenario.devices.assumes_times().then(|| {
        Block::note(
            "Times of devices are assumptions.",
            "The times per multiply-add and per participation come from a preset and were not \
             measured. Replace them by your own before you rely on virtual times.",
        )
    })
}

fn data(record: &RunRecord) -> String {
    let (dataset, size) = (&record.scenario.dataset, &record.size);
    let held_out = match dataset.split {
        SplitSpec::LeaveOneOut {
            validation_item, ..
        } => {
            let items = if validation_item {
                "a test and a validation"
            } else {
                "a test"
            };
            format!("{items} item held out per user")
        }
        SplitSpec::Holdout(_) => "a share of every user's ratings held out".to_owned(),
        SplitSpec::GlobalTime(_) => match size.training_ends {
            Some(end) => format!("training ends at {end}"),
            None => "training ends at one instant".to_owned(),
        },
        SplitSpec::ByColumn(_) => "held out as a column of the file says".to_owned(),
        SplitSpec::KFold { folds, .. } => {
            let part = dataset.split.part(record.scenario.seed).unwrap_or_default();
            format!("part {part} of {folds} (from 0) held out")
        }
    };
    let file = match &dataset.path {
        Some(path) => format!(" from `{}`", path.display()),
        None => String::new(),
    };
    let is_given = dataset.path.as_deref().is_some_and(is_given);
    let title = match known(dataset.name) {
        Some(set) => &set.title,
        None if dataset.generator.is_some() => "generated population",
        None if is_given => "ratings in memory, which no file has,",
        None => "delimited file",
    };
    format!(
        "{title}{file}: {} users, {} items, {} training ratings; {held_out}",
        thousands(size.users),
        thousands(size.items),
        thousands(size.training_ratings),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::records as sample;

    /// Returns what the first of some caveats says.
    fn said(caveats: &[Block]) -> String {
        match caveats {
            [Block::Note { title, text }, ..] => format!("{title} {text}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_an_honest_protocol_goes_without_a_caveat() {
        let mut scenario = sample::run(1).scenario;
        assert!(
            said(&protocol_caveats(&scenario, true)).contains("elimination"),
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
        assert!(said(&protocol_caveats(&scenario, true)).contains("test accuracy"));
        scenario.evaluation.selection = Selection::BestValidation;
        assert_eq!(protocol_caveats(&scenario, true), []);
    }

    /// If this fails, the digest of a run that two builds have made is taken for that of one.
    #[test]
    fn a_run_of_two_builds_is_marked() {
        let mut record = sample::run(3);
        assert_eq!(caveats_of_the_run(&record), []);
        record.other_builds.push("fedrecsim 0.0.9".to_owned());
        let told = said(&caveats_of_the_run(&record));
        assert!(
            told.contains("More than one build") && told.contains("fedrecsim 0.0.9"),
            "{told}"
        );
    }

    #[test]
    fn a_finished_run_is_not_called_incomplete() {
        assert_eq!(incomplete(&sample::run(3)), None);
        let told = said(incomplete(&sample::interrupted(12, 60)).as_slice());
        assert!(
            told.contains("12 of 60") && told.contains("interrupted"),
            "{told}"
        );
    }
}
