#![allow(clippy::unwrap_used)]

use super::*;
use crate::study::file::{self, Changes, Study};
use crate::study::search::tests::{SEARCH, search_of};
use crate::tests::results as sample;

/// Returns results of a search whose trials have these values of validation and test; `None` for
/// one that has not been run.
fn results(plan: &SearchPlan, values: &[Option<(f64, f64)>]) -> Results {
    let arms = plan.plan.arms.iter().zip(values).map(|(arm, values)| {
        let folder = plan.plan.folder(plan.plan.runs(None)[0]);
        let run = match values {
            Some((validation, test)) => {
                let mut report = sample::report_of(3, "ndcg@10", &[*test]);
                let of_validation = [("ndcg@10".to_owned(), *validation)];
                report.run.accuracy.validation = Some(of_validation.into_iter().collect());
                RunResult::of(folder, report)
            }
            None => RunResult {
                seed: 3,
                folder,
                state: RunState::NotRun,
                report: None,
            },
        };
        ArmResults {
            name: arm.arm.name.clone(),
            experiment: None,
            timing: Vec::new(),
            compare_to: None,
            chosen_from: None,
            runs: vec![run],
        }
    });
    Results {
        title: "What was searched".to_owned(),
        arms: arms.collect(),
        metrics: plan.plan.metrics.clone(),
        references: Vec::new(),
        courses: Vec::new(),
        shard: None,
    }
}

/// Validation and test of the trials of two arms. The best test value of each is that of a trial
/// with a worse validation value.
const VALUES: [Option<(f64, f64)>; 10] = [
    Some((0.1, 0.87654)),
    Some((0.3, 0.2)),
    Some((0.2, 0.4)),
    Some((0.25, 0.5)),
    Some((0.3, 0.6)),
    Some((0.5, 0.1)),
    Some((0.4, 0.2)),
    Some((0.3, 0.3)),
    Some((0.2, 0.98765)),
    Some((0.1, 0.5)),
];

fn chosen(files: &Files) -> Chosen {
    let (_, bytes) = files.iter().find(|(name, _)| name == CHOSEN).unwrap();
    toml::from_str(std::str::from_utf8(bytes).unwrap()).unwrap()
}

/// If this fails, settings are chosen by the part that they are then judged by.
#[test]
fn the_best_on_the_validation_part_is_chosen_and_no_test_figure_is_shown() {
    let plan = search_of(SEARCH).unwrap();
    let results = results(&plan, &VALUES);
    let files = Found::of(&plan, &results).files().unwrap();
    let chosen = chosen(&files);
    let best = &chosen.arms["method=fedmf"];
    assert_eq!((best.trial, best.trials, best.validation), (1, 5, 0.3));
    let drawn = plan.trials[1].drawn.clone();
    let set: Vec<_> = best.set.values().cloned().collect();
    assert_eq!(set, drawn);
    let fedncf = &chosen.arms["method=fedncf"];
    assert_eq!((fedncf.trial, fedncf.set.len()), (0, 0), "as written");
    for (name, bytes) in &files {
        let text = std::str::from_utf8(bytes).unwrap();
        assert!(
            !text.contains("0.8765") && !text.contains("0.9876"),
            "{name} has a test figure"
        );
    }
    let (_, csv) = &files[1];
    let csv = std::str::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count(), 11);
    let rate = plan.setting(1, "method.fedmf.learning_rate_user");
    let epochs = plan.setting(1, "method.fedmf.local_epochs");
    assert!(
        csv.contains("method=fedmf,1,3,done,ndcg@10,0.3,1,")
            && csv.contains(&format!(",{rate},{epochs},,")),
        "{csv}"
    );
    insta::assert_snapshot!(Found::of(&plan, &results).markdown());
}

/// If this fails, settings are chosen for a model that has learned nothing, and nobody is told.
#[test]
fn an_arm_that_is_no_better_than_popularity_is_named() {
    let plan = search_of(SEARCH).unwrap();
    let mut results = results(&plan, &VALUES);
    let reports = results.arms.iter_mut().flat_map(|arm| &mut arm.runs);
    for report in reports.filter_map(|run| run.report.as_mut()) {
        let popularity = report.run.baselines.get_mut("popularity").unwrap();
        popularity.validation = Some([("ndcg@10".to_owned(), 0.3)].into_iter().collect());
    }
    let text = Found::of(&plan, &results).markdown();
    for part in [
        "> Not even the best trial is ahead of a baseline that learns nothing: `method=fedmf` (0.3000; popularity has 0.3000). ",
        "| method=fedmf | 5 | 0 | 0 | 0.1000 | 0.3000 | 0.3000 |",
        "| method=fedncf | 5 | 0 | 0 | 0.5000 | 0.5000 | 0.3000 |",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

/// If this fails, an error is ranked as if more of it were better.
#[test]
fn the_lowest_error_is_the_best() {
    let plan = search_of(SEARCH).unwrap();
    let mut rmse = plan.clone();
    rmse.plan.metrics = vec!["rmse".to_owned()];
    let mut results = results(&plan, &VALUES);
    for report in results
        .arms
        .iter_mut()
        .flat_map(|arm| &mut arm.runs)
        .filter_map(|run| run.report.as_mut())
    {
        let validation = report.run.accuracy.validation.take().unwrap();
        report.run.accuracy.validation = Some(
            [("rmse".to_owned(), validation["ndcg@10"])]
                .into_iter()
                .collect(),
        );
    }
    let found = Found::of(&rmse, &results);
    assert_eq!(found.arms[0].ranked[0], (0, 0.1));
    assert_eq!(found.arms[1].ranked[0], (9, 0.1));
}

/// If this fails, an arm is chosen for from fewer trials than another one, or a trial that failed is
/// made up for.
#[test]
fn an_arm_is_chosen_for_once_all_its_trials_have_ended_and_failed_ones_count() {
    let plan = search_of(SEARCH).unwrap();
    let mut results = results(&plan, &VALUES);
    results.arms[1].runs[0].state = RunState::Failed("training diverged".to_owned());
    results.arms[7].runs[0] = RunResult {
        state: RunState::NotRun,
        report: None,
        ..results.arms[7].runs[0].clone()
    };
    let found = Found::of(&plan, &results);
    let files = found.files().unwrap();
    let of = chosen(&files);
    assert_eq!(
        of.arms.len(),
        1,
        "an arm with a missing trial is chosen for"
    );
    let best = &of.arms["method=fedmf"];
    assert_eq!((best.trial, best.trials), (4, 5));
    let text = found.markdown();
    for part in [
        "> Partial: 1 of 10 trials have not come to their end.",
        "| method=fedmf | 5 | 1 | 0 |",
        "| method=fedncf | 5 | 0 | 1 |",
        "| method=fedmf, trial=01 | 3 | training diverged |",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert_eq!(found.hopeless(), [""; 0]);
    for arm in &mut results.arms[..5] {
        arm.runs[0].state = RunState::Failed("training diverged".to_owned());
    }
    assert_eq!(Found::of(&plan, &results).hopeless(), ["method=fedmf"]);
    results
        .arms
        .iter_mut()
        .for_each(|arm| arm.runs[0].state = RunState::NotRun);
    assert_eq!(
        Found::of(&plan, &results).files().unwrap().len(),
        2,
        "nothing can be chosen"
    );
}

/// Returns the study with these settings beside it.
fn study_with(settings: &str, changes: &Changes) -> fedrecsim_core::Result<Study> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base.toml"), sample::BASE).unwrap();
    std::fs::write(folder.path().join("chosen.toml"), settings).unwrap();
    let text = format!("chosen = \"chosen.toml\"\n{SEARCH}");
    file::parse(&text, &folder.path().join("study.toml"), changes)
}

/// If this fails, a study runs other settings than the search has chosen, or does not say from what
/// they were chosen.
#[test]
fn a_study_takes_over_what_a_search_has_chosen() {
    let plan = search_of(SEARCH).unwrap();
    let results = results(&plan, &VALUES);
    let files = Found::of(&plan, &results).files().unwrap();
    let (_, settings) = &files[2];
    let settings = std::str::from_utf8(settings).unwrap();
    let last = "training.rounds=1".to_owned();
    let changes = Changes {
        set: vec![last.clone().into()],
        ..Changes::default()
    };
    let study = study_with(settings, &changes).unwrap();
    let rate = format!(
        "method.fedmf.learning_rate_user={}",
        plan.setting(1, "method.fedmf.learning_rate_user")
    );
    let epochs = format!(
        "method.fedmf.local_epochs={}",
        plan.setting(1, "method.fedmf.local_epochs")
    );
    let method = "method=\"fedmf\"".to_owned();
    assert_eq!(
        study.arms[0].overrides(),
        [method, rate, epochs, last.clone()]
    );
    assert_eq!(
        study.arms[1].overrides(),
        ["method=\"fedncf\"".to_owned(), last]
    );
    let from: Vec<_> = study.arms.iter().map(|arm| arm.chosen_from).collect();
    assert_eq!(from, [Some(5), Some(5), None]);
    assert_eq!(study.warnings, [""; 0]);
    let searches = Changes {
        searches: true,
        ..Changes::default()
    };
    let search = study_with(settings, &searches).unwrap();
    assert_eq!(
        search.arms[0].set.len(),
        1,
        "a search begins with what another one has chosen"
    );

    let uneven = settings.replacen("trials = 5", "trials = 9", 1);
    let warnings = study_with(&uneven, &changes).unwrap().warnings;
    assert!(
        warnings[0].contains("not chosen from the same number of trials: 5 to 9")
            && warnings[0].contains("fewer than 9 for `method=fedncf`"),
        "{warnings:?}"
    );
    let start = settings.find("[arms.\"method=fedncf\"]").unwrap();
    let warnings = study_with(&settings[..start], &changes).unwrap().warnings;
    assert!(
        warnings[0].contains("`chosen` has nothing for them: `method=fedncf`;"),
        "{warnings:?}"
    );
    for (text, told) in [
        (
            settings.replace("method=fedncf", "method=fedrap"),
            "there is no arm `method=fedrap`; known: `method=fedmf`;",
        ),
        (
            settings.replace("validation =", "valid ="),
            "chosen.toml: line ",
        ),
        ("arms = 3".to_owned(), "chosen.toml: line 1: "),
        (
            settings.replace("\"method.fedmf.learning_rate_user\"", "training.rounds"),
            "would be replaced as a whole",
        ),
    ] {
        let error = study_with(&text, &changes).unwrap_err().to_string();
        assert!(
            error.contains(told) && error.contains("study.toml:1:10"),
            "no {told:?} in {error}"
        );
    }
    let alone = file::parse(SEARCH, std::path::Path::new("study.toml"), &changes).unwrap();
    assert!(alone.warnings[0].contains(
        "run as written, since the study has no `chosen`: `method=fedmf`, `method=fedncf`"
    ));
}

#[test]
fn tables_say_from_how_many_trials_settings_were_chosen() {
    let mut results = sample::results();
    assert_eq!(origin(&results), None);
    results.arms[1].chosen_from = Some(20);
    let text = super::super::markdown(&results);
    assert!(
        text.contains("Settings by a search on the validation part, of `int8`: the best of 20 trials. The other arms are as written."),
        "{text}"
    );
    results.arms[0].chosen_from = Some(20);
    assert!(super::super::markdown(&results).contains("of all arms: the best of 20 trials."));
}
