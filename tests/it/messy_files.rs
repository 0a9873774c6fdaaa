//! Runs over ratings files as people have them.

use std::path::PathBuf;

use crate::support::Workshop;

/// Returns ratings of twelve users who each rated eight of sixty items, as user, item, rating and time.
fn rows() -> impl Iterator<Item = (u32, u32, u32, u32)> {
    let row = |(user, n)| {
        let time = 1_300_000_000 + 1000 * user + 86_400 * n;
        (user, (user * 7 + n * 5) % 60, 1 + (user + n) % 5, time)
    };
    (0..12)
        .flat_map(|user| (0..8).map(move |n| (user, n)))
        .map(row)
}

fn csv() -> String {
    rows()
        .map(|(user, item, rating, time)| format!("u{user},i{item},{rating},{time}\n"))
        .collect()
}

/// Writes a scenario over a file with these contents, whose columns are given by position.
fn over(workshop: &Workshop, ratings: &str) -> PathBuf {
    workshop.write("own.csv", ratings);
    let text = r#"
method = "fedmf"
[dataset]
name = "delimited"
path = "own.csv"
columns = { user = 1, item = 2, rating = 3, timestamp = 4 }
[training]
rounds = 1
[evaluation]
ranking.sampled.candidates = 10
"#;
    workshop.write("own.toml", text)
}

/// Returns the warnings of a run of a scenario.
fn warnings(workshop: &Workshop, scenario: PathBuf, overrides: &[&str]) -> Vec<String> {
    let finished = workshop.run(scenario, overrides).unwrap();
    assert!(finished.errors.is_empty());
    let json = workshop.run_json();
    let warnings = json["warnings"].as_array().into_iter().flatten();
    warnings
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

/// If one of these is silent, an accuracy stands on ratings that nobody would have chosen.
#[test]
fn what_is_probably_not_meant_is_warned_of_with_its_key() {
    let repeats: String = csv()
        .lines()
        .step_by(3)
        .map(|line| format!("{line}\n").repeat(3))
        .collect();
    let with = |rating: &str| -> String {
        rows()
            .map(|(user, item, _, time)| format!("u{user},i{item},{rating},{time}\n"))
            .collect()
    };
    for (ratings, parts) in [
        (csv(), &[][..]),
        (
            csv() + &repeats,
            &["another row: 96;", "dataset.repeated_pairs = \"last\""],
        ),
        (
            with("-1"),
            &["count as positives: 96;", "dataset.positive_from"],
        ),
        (with("3"), &["all ratings are 3", "dataset.columns.rating"]),
    ] {
        let workshop = Workshop::new();
        let told = warnings(&workshop, over(&workshop, &ratings), &[]);
        assert_eq!(told.len(), usize::from(!parts.is_empty()), "{told:?}");
        for part in parts {
            assert!(told[0].contains(part), "{told:?}");
        }
        let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
        assert!(told.iter().all(|text| summary.contains(text)), "{summary}");
    }
    for choice in ["keep", "last", "first", "sum"] {
        let workshop = Workshop::new();
        let scenario = over(&workshop, &(csv() + &repeats));
        let choice = format!("dataset.repeated_pairs={choice}");
        assert_eq!(warnings(&workshop, scenario, &[&choice]), [""; 0]);
    }
}

/// If this fails, one user whom the run cannot serve keeps all others from being run, or somebody is
/// left out without a word.
#[test]
fn users_whom_a_run_cannot_serve_are_refused_by_name_or_left_out_and_counted() {
    let lone = "lone,i1,5,1300000000\nlone,i2,5,1300000001\n".to_owned();
    let fan: String = (0..40)
        .map(|time| format!("fan,i1,5,{}\n", 1_300_000_000 + time))
        .collect();
    let greedy: String = (0..58)
        .map(|item| format!("greedy,i{item},5,{}\n", 1_300_000_000 + item))
        .collect();
    for (rows, name, parts) in [
        (&lone, "lone", "has rated 2 different items"),
        (&fan, "fan", "has rated 1 different item,"),
        (&greedy, "greedy", "10 candidates"),
    ] {
        let workshop = Workshop::new();
        let scenario = over(&workshop, &(csv() + rows));
        let refused = [name, parts, "dataset.on_unusable_user = \"leave-out\""];
        workshop.refused(scenario.clone(), &["dataset.repeated_pairs=keep"], &refused);
        let leave_out = [
            "dataset.on_unusable_user=leave-out",
            "dataset.repeated_pairs=keep",
        ];
        let told = warnings(&workshop, scenario, &leave_out);
        assert!(
            told[0].starts_with("users left out since the run cannot serve them: 1"),
            "{told:?}"
        );
        let json = workshop.run_json();
        assert_eq!(json["size"]["users"], 12);
        assert_eq!(json["size"]["split"]["unusable_users"], 1);
    }
    // Nothing is left for anybody.
    let workshop = Workshop::new();
    let overrides = [
        "dataset.on_unusable_user=leave-out",
        "dataset.negatives.per_positive=60",
    ];
    workshop.refused(
        over(&workshop, &csv()),
        &overrides,
        &[
            "no user is left of 12",
            "on_unusable_user",
            "0 users with too few positives",
            "12 with too few other items for dataset.negatives.per_positive",
        ],
    );
    // A method that draws none loses nobody by them.
    let overrides = [
        "method=fcf",
        "training.rounds=1",
        "dataset.negatives.per_positive=60",
    ];
    let finished = workshop.run(over(&workshop, &csv()), &overrides).unwrap();
    assert!(finished.errors.is_empty(), "{:?}", finished.errors);
}

/// If this fails, an option of another build is a slip of the pen.
#[cfg(not(feature = "parquet"))]
#[test]
fn what_takes_a_feature_names_it_and_how_it_is_built() {
    use crate::support::{Words, assert_refusal};
    let workshop = Workshop::new();
    let scenario = over(&workshop, &csv());
    for command in ["run", "events"] {
        let words = Words::new(&[command, "--format", "parquet"]).path(&scenario);
        let fault = words.carry_out().unwrap_err();
        assert_refusal(
            &fault,
            &[
                "without the feature `parquet`",
                "--features parquet",
                "features = [\"parquet\"]",
            ],
        );
    }
}
