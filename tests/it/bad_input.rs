use std::fmt::Write as _;
use std::path::PathBuf;

use crate::support::{Words, Workshop, assert_refusal};

/// Returns ratings in the form of `u.data` (user, item, rating, timestamp), with each user's items
/// in the order of time.
fn ratings(users: &[(u32, &[u32])]) -> String {
    let mut text = String::new();
    for (user, items) in users {
        for (time, item) in items.iter().enumerate() {
            writeln!(text, "{user}\t{item}\t4\t{}", 1000 + time).unwrap();
        }
    }
    text
}

/// Returns the ratings of twelve users who each rated five of thirty items.
fn sound_ratings() -> String {
    let items: Vec<[u32; 5]> = (0..12)
        .map(|user| [0, 1, 2, 3, 4].map(|step| (user * 7 + step * 5) % 30 + 1))
        .collect();
    let users: Vec<(u32, &[u32])> = items
        .iter()
        .enumerate()
        .map(|(user, items)| (user as u32 + 1, &items[..]))
        .collect();
    ratings(&users)
}

/// Writes a scenario over the file `ratings.tsv`, which ranks against ten candidates.
fn scenario_over_file(workshop: &Workshop, ratings: &str) -> PathBuf {
    workshop.write("ratings.tsv", ratings);
    let text = r#"
method = "fedmf"
[dataset]
name = "ml-100k"
path = "ratings.tsv"
[training]
rounds = 1
[evaluation]
ranking.sampled.candidates = 10
"#;
    workshop.write("file.toml", text)
}

/// If this fails, the tests of files below prove nothing, as the file would be refused without its
/// fault too.
#[test]
fn the_sound_file_runs() {
    let workshop = Workshop::new();
    let finished = workshop
        .run(scenario_over_file(&workshop, &sound_ratings()), &[])
        .unwrap();
    assert!(finished.errors.is_empty());
    assert_eq!(workshop.run_json()["size"]["users"], 12);
}

/// If one of these runs, a mistake in a scenario becomes a wrong result.
#[test]
fn a_wrong_scenario_is_refused_with_the_place_of_its_fault() {
    for (wrong, parts) in [
        (
            "training.round=5",
            &[
                "--set:1:10",
                "unknown key `round`",
                "did you mean `rounds`?",
            ][..],
        ),
        (
            "method=\"fedarp\"",
            &[
                "--set:1:8",
                "`fedarp` for `method`",
                "did you mean `fedrap`?",
            ],
        ),
        ("method={ tensor = {} }", &["tensor", "fedrap", "pfedrec"]),
        (
            "network.rates.lognormal.uplink_median_mbit_per_s=-3",
            &["uplink_median_mbit_per_s", "-3"],
        ),
        (
            "network.rates.lognormal.downlink_median_mbit_per_s=0",
            &["downlink_median_mbit_per_s"],
        ),
        (
            "method.fedrap.learning_rate_network=nan",
            &["learning_rate_network"],
        ),
        (
            "method.fedrap.learning_rate_tables=inf",
            &["learning_rate_tables"],
        ),
        (
            "method.fedrap.learning_rate_network=-0.5",
            &["learning_rate_network"],
        ),
        (
            "method.fedrap.latent_dimension=257",
            &["latent_dimension", "256"],
        ),
        ("method.fedrap.latent_dimension=0", &["latent_dimension"]),
        ("evaluation.cutoffs=[0]", &["cutoffs"]),
        ("evaluation.cutoffs=[5, 0]", &["cutoffs", "0"]),
        ("evaluation.ranking.sampled.candidates=0", &["candidates"]),
        ("training.rounds=0", &["rounds"]),
        (
            "training.participation={ cohort = 41 }",
            &["cohort of 41 is larger than the population", "is 40"],
        ),
        ("training.participation={ share = 0 }", &["share"]),
        ("network.dropout=1.5", &["dropout", "1.5"]),
        ("dataset.negatives.per_positive=0", &["per_positive"]),
        (
            "dataset.negatives.pool=\"rated\"",
            &["pool", "unrated", "not-in-train"],
        ),
        ("codec.uplink=\"zip\"", &["uplink", "rows-f32"]),
    ] {
        let workshop = Workshop::new();
        workshop.refused(
            workshop.small(),
            &[wrong],
            &[parts, &["small.toml"]].concat(),
        );
    }
}

#[test]
fn every_fault_of_a_file_is_listed_with_its_line() {
    let workshop = Workshop::new();
    let text = "seed = 1\nmethod = \"popularity\"\n\n[dataset]\nname = \"generated\"\n\n[training]\nrounds = 0\nround = 3\n\n[network]\nrtt_ms = -1\n";
    let parts = [
        "wrong.toml:8:10",
        "wrong.toml:9:1",
        "wrong.toml:12:10",
        "wrong.toml: 3 faults",
    ];
    workshop.refused(workshop.write("wrong.toml", text), &[], &parts);
}

#[test]
fn a_key_that_stands_twice_is_refused_with_its_line() {
    let workshop = Workshop::new();
    let text = "method = \"popularity\"\n[dataset]\nname = \"generated\"\n[training]\nrounds = 3\nrounds = 4\n";
    workshop.refused(
        workshop.write("twice.toml", text),
        &[],
        &["twice.toml:6:1", "rounds"],
    );
}

#[test]
fn a_missing_scenario_is_refused_by_name() {
    let workshop = Workshop::new();
    workshop.refused(
        workshop.path("absent.toml"),
        &[],
        &["cannot read", "absent.toml"],
    );
}

#[test]
fn a_missing_ratings_file_is_refused_by_name() {
    let workshop = Workshop::new();
    let scenario = scenario_over_file(&workshop, "");
    std::fs::remove_file(workshop.path("ratings.tsv")).unwrap();
    workshop.refused(scenario, &[], &["ratings.tsv", "there is no such file"]);
}

#[test]
fn an_empty_ratings_file_is_refused_by_name() {
    for nothing in ["", "\n\n"] {
        let workshop = Workshop::new();
        workshop.refused(
            scenario_over_file(&workshop, nothing),
            &[],
            &["ratings.tsv"],
        );
    }
}

/// If one of these runs, a damaged file is taken for another data set.
#[test]
fn a_malformed_line_is_refused_with_file_and_line() {
    for malformed in [
        "3\t4",
        "3\t4\tfive\t9",
        "3\t4\t5\tnoon",
        "3\t4\tnan\t9",
        "3 4 5 6",
        "\t\t\t",
    ] {
        let workshop = Workshop::new();
        let sound = sound_ratings();
        let lines: Vec<&str> = sound.lines().collect();
        let text = [&lines[..20], &[malformed], &lines[20..]]
            .concat()
            .join("\n");
        workshop.refused(
            scenario_over_file(&workshop, &text),
            &[],
            &["ratings.tsv:21: "],
        );
    }
}

#[test]
fn bytes_that_are_no_number_are_refused_with_file_and_line() {
    let workshop = Workshop::new();
    let scenario = scenario_over_file(&workshop, "");
    let bytes = [b"1\t2\t".as_slice(), &[0xff, 0xfe], b"\t9\n"].concat();
    std::fs::write(
        workshop.path("ratings.tsv"),
        [sound_ratings().as_bytes(), &bytes].concat(),
    )
    .unwrap();
    workshop.refused(scenario, &[], &["ratings.tsv:61: "]);
}

/// If one of these runs, a mistyped rating widens the scale that MovieLens is predicted on.
#[test]
fn a_rating_outside_the_stars_of_movielens_is_refused_with_file_and_line() {
    for (rating, minutes) in [("0", 1), ("6", 2), ("45", 3)] {
        let workshop = Workshop::new();
        let text = sound_ratings() + &format!("3\t4\t{rating}\t{minutes}\n");
        let expected = format!(
            "ratings.tsv:61: expected a rating from 1 to 5 in column 3, found \"{rating}\""
        );
        workshop.refused(scenario_over_file(&workshop, &text), &[], &[&expected]);
    }
}

/// If this runs, a range that holds no rating, or one of no column, is taken for a check.
#[test]
fn a_range_of_ratings_that_cannot_be_is_refused_with_its_place() {
    let workshop = Workshop::new();
    workshop.write("own.csv", "1,1,3\n1,2,4\n1,3,5\n");
    let text = "method = \"user-mean\"\ntraining.rounds = 1\n[dataset]\nname = \"delimited\"\npath = \"own.csv\"\n\
                [dataset.columns]\nseparator = \",\"\nuser = 1\nitem = 2\n";
    let scenario = workshop.write("own.toml", text);
    let range = |range: &str| format!("dataset.columns.rating_range={range}");
    for wrong in ["[5, 1]", "[3, 3]"] {
        let overrides = ["dataset.columns.rating=3", &range(wrong)];
        workshop.refused(
            scenario.clone(),
            &overrides,
            &["rating_range", "write the lower rating first"],
        );
    }
    workshop.refused(
        scenario,
        &[&range("[1, 5]")],
        &["`rating_range` needs a column of ratings"],
    );
}

/// If this runs, somebody has no item to train on, or none to be tested with.
#[test]
fn a_user_with_fewer_than_three_ratings_is_refused_by_name() {
    let workshop = Workshop::new();
    let text = sound_ratings() + &ratings(&[(77, &[1, 2])]);
    let scenario = scenario_over_file(&workshop, &text);
    workshop.refused(
        scenario.clone(),
        &[],
        &[
            "user 12 (\"77\" in the ratings file) has rated 2",
            "dataset.on_unusable_user = \"leave-out\" leaves out such users: 12 of 13 users are left",
        ],
    );
    // The run succeeds if the user follows the advice of the message.
    assert!(
        workshop
            .run(scenario, &["dataset.on_unusable_user=leave-out"])
            .unwrap()
            .errors
            .is_empty()
    );
}

#[test]
fn a_filter_that_leaves_nobody_is_refused() {
    let workshop = Workshop::new();
    let scenario = scenario_over_file(&workshop, &sound_ratings());
    workshop.refused(
        scenario,
        &["dataset.minimum_interactions=50"],
        &["minimum_interactions", "50"],
    );
    let workshop = Workshop::new();
    workshop.refused(
        workshop.small(),
        &["dataset.minimum_interactions=1000"],
        &["minimum_interactions", "1000"],
    );
}

/// If this runs, held-out items are ranked against fewer items than the protocol says, and look
/// better.
#[test]
fn fewer_candidates_than_asked_for_are_refused_with_the_user() {
    let workshop = Workshop::new();
    let scenario = scenario_over_file(&workshop, &sound_ratings());
    workshop.refused(
        scenario,
        &["evaluation.ranking.sampled.candidates=99"],
        &["user 0 (\"1\" in the ratings file)", "99", "25"],
    );
    // If the size of the catalogue is in the scenario, too few candidates are found from the
    // scenario alone.
    let workshop = Workshop::new();
    let overrides = [
        "dataset.generator.items=90",
        "evaluation.ranking.sampled.candidates=99",
    ];
    workshop.refused(
        workshop.small(),
        &overrides,
        &[
            "99 candidates",
            "`evaluation.ranking.sampled.candidates`",
            "90 items",
        ],
    );
    // Otherwise they are found when the candidates are drawn.
    let workshop = Workshop::new();
    let overrides = [
        "dataset.generator.items=101",
        "evaluation.ranking.sampled.candidates=99",
    ];
    workshop.refused(workshop.small(), &overrides, &["user ", "99"]);
}

/// If this runs, a cohort is silently another one than the scenario says.
#[test]
fn a_cohort_larger_than_the_file_has_users_is_refused() {
    let workshop = Workshop::new();
    let scenario = scenario_over_file(&workshop, &sound_ratings());
    let wrong = "training.participation={ cohort = 13 }";
    workshop.refused(
        scenario,
        &[wrong],
        &[
            "training.participation.cohort: a cohort of 13",
            "there are 12 users",
        ],
    );
}

#[test]
fn more_evaluated_users_than_there_are_are_refused() {
    let workshop = Workshop::new();
    let scenario = scenario_over_file(&workshop, &sound_ratings());
    workshop.refused(
        scenario,
        &["evaluation.users=13"],
        &["evaluation.users is 13", "12 users"],
    );
}

/// If this fails, a run stops in the middle because of something that could have been known before
/// it.
#[test]
fn more_negatives_than_the_pool_holds_are_refused_before_the_run() {
    // There are thirty items. Three of a user's five are for training, and `unrated` excludes the
    // two held-out ones too.
    for (pool, most) in [("unrated", 25), ("not-in-train", 27)] {
        let pool = format!("dataset.negatives.pool=\"{pool}\"");
        let negatives = |count: u32| format!("dataset.negatives.per_positive={count}");
        let workshop = Workshop::new();
        let scenario = scenario_over_file(&workshop, &sound_ratings());
        let parts = [
            "user 0 (\"1\" in the ratings file)",
            &format!("only {most} items are left"),
        ];
        workshop.refused(scenario.clone(), &[&pool, &negatives(most + 1)], &parts);
        assert!(
            workshop
                .run(scenario, &[&pool, &negatives(most)])
                .unwrap()
                .errors
                .is_empty()
        );
    }
}

#[test]
fn a_delimited_file_without_a_named_column_is_refused() {
    let workshop = Workshop::new();
    workshop.write("plays.csv", "who,what\n1,2\n");
    let text = r#"
method = "popularity"
training.rounds = 1
[dataset]
name = "delimited"
path = "plays.csv"
[dataset.columns]
separator = ","
header = true
user = "who"
item = "artist"
"#;
    workshop.refused(
        workshop.write("delimited.toml", text),
        &[],
        &["plays.csv", "artist"],
    );
}

#[test]
fn a_mode_that_has_no_meaning_for_a_method_or_its_users_is_refused() {
    // If this fails, a run without participants, or with fewer than the report says, is reported as
    // asynchronous.
    let workshop = Workshop::new();
    let ratings: String = (0..3)
        .flat_map(|user| (0..4).map(move |item| format!("{user},{}\n", user + item)))
        .collect();
    workshop.write("plays.csv", &ratings);
    let text = r#"
method = "popularity"
training.rounds = 1
evaluation.ranking = "full-catalogue"
[dataset]
name = "delimited"
path = "plays.csv"
[dataset.columns]
separator = ","
user = 1
item = 2
"#;
    let scenario = workshop.write("delimited.toml", text);
    let fedasync =
        |concurrency| format!("training.mode={{ fedasync = {{ concurrency = {concurrency} }} }}");
    let fedbuff = "training.mode={ fedbuff = { concurrency = 2, buffer = 2 } }";
    let never_twice = "training.client_selection=never-twice-in-a-row";
    let over_selection = "training.mode={ over-selection = {} }";
    let oort = "training.client_selection={ oort = {} }";
    for (overrides, parts) in [
        // These are known from the scenario alone, so the message shows their place.
        (
            &[&fedasync(2)[..]][..],
            &["--set:1:10: `mode`", "`popularity` trains nothing"][..],
        ),
        (
            &[oort],
            &[
                "--set:1:10: `client_selection`",
                "`popularity` trains nothing",
            ],
        ),
        (
            &["method=fedmf", over_selection],
            &["--set:1:10: `over-selection` has nobody else to invite"],
        ),
        (
            &["method=fedmf", never_twice, "training.rounds=2"],
            &["--set:1:27: `never-twice-in-a-row` cannot be kept: everybody is invited"],
        ),
        // These depend on the number of users.
        (
            &[
                "method=fedmf",
                over_selection,
                "training.participation.share=0.9",
            ],
            &["training.participation: `over-selection` has nobody else to invite"],
        ),
        (
            &["method=fedmf", &fedasync(4)],
            &[
                "training.mode.fedasync.concurrency: 4 clients",
                "there are 3 users",
            ],
        ),
        (
            &["method=fedmf", fedbuff, never_twice, "training.rounds=2"],
            &[
                "training.client_selection: `never-twice-in-a-row` cannot be kept",
                "at least 4 users, found 3",
            ],
        ),
        (
            &[
                "method=fedmf",
                never_twice,
                "training.rounds=2",
                "training.participation.cohort=2",
            ],
            &[
                "training.client_selection: `never-twice-in-a-row` cannot be kept",
                "2 users are invited to each round, which is more than half of the 3 users",
            ],
        ),
    ] {
        workshop.refused(scenario.clone(), overrides, parts);
    }
}

/// If one of these fails, a system of equations without a solution becomes a wrong model, or its
/// error does not say what to change.
#[test]
fn a_singular_system_ends_the_run_with_its_cause_and_a_way_out() {
    // There are 256 dimensions and 150 items, so that only the regulariser makes the system of a
    // user vector definite; and 150 items and 40 users, so that only the regulariser makes that of
    // EASE definite. Here it weighs next to nothing.
    for (method, system) in [
        (
            "fcf={ latent_dimension = 256, regularization = 1e-37 }",
            "the user vector has no solution in round 1 (user ",
        ),
        (
            "fedgram={ latent_dimension = 256, regularization = 1e-37 }",
            "the user vector has no solution in round 1 (user ",
        ),
        (
            "ials={ latent_dimension = 256, regularization = 1e-37 }",
            "a row of X or Y has no solution in round 1 (at the server)",
        ),
        (
            "ease={ regularization = 1e-37 }",
            "B has no solution in round 1 (at the server)",
        ),
    ] {
        let workshop = Workshop::new();
        let finished = workshop
            .run(workshop.small(), &[&format!("method={{ {method} }}")])
            .unwrap();
        let error = finished
            .errors
            .into_iter()
            .next()
            .unwrap_or_else(|| panic!("{method} ran to its end"));
        assert_eq!(error.exit_code(), 1);
        let message = error.to_string();
        for part in [
            system,
            "the matrix is not positive definite: pivot ",
            "give the regulariser more weight",
        ] {
            assert!(
                message.contains(part),
                "{method}: no {part:?} in: {message}"
            );
        }
        let json = workshop.run_json();
        assert_eq!(
            (json["complete"].as_bool(), json["stopped_by"].as_str()),
            (Some(false), Some(&*message))
        );
    }
}

/// If this fails, LightGCN trains on a graph without ratings.
#[test]
fn a_graph_without_edges_ends_the_run_and_says_whose_it_is() {
    let workshop = Workshop::new();
    // Every rating is within the dead zone, so that users send none.
    let overrides = [
        "method=lightgcn",
        "codec.uplink={ values = { dead-zone = { step = 100.0, zone = 1.5 } } }",
    ];
    let error = workshop
        .run(workshop.small(), &overrides)
        .unwrap()
        .errors
        .into_iter()
        .next()
        .expect("it ran to its end");
    assert_refusal(
        &error,
        &["lightgcn", "the graph of users and items has no edges"],
    );
}

/// If this fails, users whose device has no room for the table train nevertheless, or are left out
/// in silence.
#[test]
fn a_device_without_memory_for_the_table_is_left_out_and_counted() {
    // The table has 150 rows of 8 values in single precision, which is 4,800 bytes.
    let device = |name: &str, memory: &str| {
        format!("{{ name = \"{name}\", share = 0.5, ns_per_row_visit = 1, memory_mb = {memory} }}")
    };
    let classes = format!(
        "devices.speed.classes=[{}, {}]",
        device("small", "0.004799"),
        device("large", "0.0048")
    );
    let workshop = Workshop::new();
    assert!(
        workshop
            .run(workshop.small(), &[&classes])
            .unwrap()
            .errors
            .is_empty()
    );
    let json = workshop.run_json();
    let excluded = json["size"]["excluded_users"].as_u64().unwrap();
    assert!((2..40).contains(&excluded), "{excluded}");
    assert_eq!(
        json["participations"]["invited"],
        3 * (40 - excluded),
        "everybody else takes part in all three rounds"
    );
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    let remark = format!("{excluded} of 40 users (");
    assert!(
        summary.contains(&remark) && summary.contains("no room for the table"),
        "{summary}"
    );
    let workshop = Workshop::new();
    let nobody = ["devices.memory.median_mb=0.004799"];
    workshop.refused(
        workshop.small(),
        &nobody,
        &["no device has the memory for the table", "see [devices]"],
    );
}

/// Returns the ratings of twelve users who each rated five of thirty items, with a clock, and the
/// place of each among those of its user. Those of the last user have no time.
fn timed_ratings() -> String {
    let rows = (0..12).flat_map(|user| (0..5).map(move |n| (user, n)));
    let line = |(user, n): (u32, u32)| {
        let time = match user {
            11 => String::new(),
            _ => format!("2001-01-{:02} 12:00:{user:02}", 1 + user + 3 * n),
        };
        format!("u{user},{},{time},{n}\n", (user * 7 + n * 5) % 30)
    };
    rows.map(line).collect()
}

/// Writes a scenario over the file `timed.csv`, whose rows have a time and an order.
fn scenario_over_times(workshop: &Workshop, ratings: &str) -> PathBuf {
    workshop.write("timed.csv", ratings);
    let text = r#"
method = "popularity"
[dataset]
name = "delimited"
path = "timed.csv"
columns = { separator = ",", user = 1, item = 2, timestamp = 3, order = 4 }
[training]
rounds = 1
[evaluation]
ranking = "full-catalogue"
"#;
    workshop.write("timed.toml", text)
}

/// If one of these runs, ratings without a clock are split as if they had one; and if a remedy does
/// not help, the message sends the reader astray.
#[test]
fn a_split_by_a_clock_is_refused_where_ratings_have_none() {
    for (split, key) in [
        ("global-time={ cut = 0.7 }", "`dataset.split.global-time`"),
        (
            "leave-one-out={ session_gap_days = 1 }",
            "`dataset.split.leave-one-out.session_gap_days`",
        ),
    ] {
        let workshop = Workshop::new();
        let scenario = scenario_over_times(&workshop, &timed_ratings());
        let split = format!("dataset.split.{split}");
        let part = [
            key,
            "goes by a clock",
            "5 of 60 ratings have no timestamp",
            "dataset.subset.with_timestamps = true",
        ];
        workshop.refused(scenario.clone(), &[&split], &part);
        let remedy = "dataset.subset.with_timestamps=true";
        let finished = workshop.run(scenario, &[&split, remedy]).unwrap();
        assert!(finished.errors.is_empty());
        assert!(workshop.run_json()["size"]["users"].as_u64().unwrap() <= 11);

        let workshop = Workshop::new();
        let scenario = scenario_over_times(&workshop, &timed_ratings());
        let without = "dataset.columns={ separator = \",\", user = 1, item = 2, order = 4 }";
        let none = [
            key,
            "60 of 60 ratings have no timestamp",
            "dataset.columns.timestamp",
        ];
        workshop.refused(scenario.clone(), &[&split, without], &none);
        // A column that only orders is no clock.
        let order = "dataset.columns={ separator = \",\", user = 1, item = 2, timestamp = 4 }";
        workshop.refused(scenario.clone(), &[&split, order], &none);
        let subset = [&*split, order, "dataset.subset.with_timestamps=true"];
        workshop.refused(
            scenario,
            &subset,
            &["`dataset.subset` leaves no rating", "timestamp"],
        );
    }
}

/// If one of these runs, nothing is trained on, or nobody is tested.
#[test]
fn a_split_or_a_filter_that_leaves_nothing_is_refused_with_what_there_is() {
    let cut = |cut: &str| format!("dataset.split.global-time={{ cut = {cut} }}");
    let span = "the ratings reach from 2001-01-01 12:00:00 to 2001-01-23 12:00:10";
    for (set, parts) in [
        (
            cut("1999-12-31"),
            &["no rating is left to train on", "1999-12-31", span][..],
        ),
        (
            cut("2030-01-01"),
            &["no rating is left to be tested", "2030-01-01", span],
        ),
        (
            cut("\"2001-01-02\", validation_share = 0.5"),
            &["no rating is left to train on", span],
        ),
        (
            "dataset.split.leave-one-out.session_gap_days=99".to_owned(),
            &["no user is left", "session_gap_days", "all 11 users"],
        ),
        (
            "dataset.k_core=6".to_owned(),
            &["nothing is left", "dataset.k_core is 6"],
        ),
    ] {
        let workshop = Workshop::new();
        let scenario = scenario_over_times(&workshop, &timed_ratings());
        let overrides = ["dataset.subset.with_timestamps=true", &set];
        workshop.refused(scenario, &overrides, parts);
    }
}

/// If this runs, rounds are chosen by a part of the ratings in which nobody has anything to find.
#[test]
fn a_choice_by_validation_targets_that_nobody_has_is_refused() {
    // All that is rated between the end of training and the cut is rated again.
    let rows = (0..6).flat_map(|user| [1, 2, 3, 4, 5].map(|day| (user, day)));
    let line = |(user, day): (u32, u32)| {
        let item = 9 * user + if day == 4 { 1 } else { day };
        format!("u{user},{item},2001-01-0{day} 12:00:0{user},{day}\n")
    };
    let ratings: String = rows.map(line).collect();
    let split = "dataset.split.global-time={ cut = \"2001-01-05\", validation_share = 0.2 }";
    for (choice, parts) in [
        (
            "evaluation.selection=best-validation",
            [
                "evaluation.selection is `best-validation`",
                "or take `last`",
            ],
        ),
        (
            "evaluation.patience=1",
            ["evaluation.patience", "or leave `patience` out"],
        ),
    ] {
        let workshop = Workshop::new();
        let scenario = scenario_over_times(&workshop, &ratings);
        let none = [
            "none of the 6 evaluated users has a validation target",
            "raise `validation_share`",
        ];
        let parts = [parts, none].concat();
        let run = ["method=fedmf", split, choice];
        workshop.refused(scenario.clone(), &run, &parts);
        // With the ratings of one day more, there is an item to find.
        let remedy = "dataset.split.global-time.validation_share=0.4";
        let finished = workshop.run(scenario, &[&run[..], &[remedy]].concat());
        assert!(finished.unwrap().errors.is_empty());
    }
}

/// If this runs, it ends in an error as soon as a user who has taken part in nothing is tested.
#[test]
fn users_without_history_are_refused_where_everybody_has_to_take_part() {
    let workshop = Workshop::new();
    let scenario = scenario_over_times(&workshop, &timed_ratings());
    let split = "dataset.split.global-time={ cut = 0.3, new_users = true }";
    let timed = "dataset.subset.with_timestamps=true";
    let colr = |download: &str| format!("method={{ colr = {{ download = \"{download}\" }} }}");
    let parts = [
        "`new_users` tests users who take part in nothing",
        "take `download = \"table\"`, or leave `new_users` out",
    ];
    workshop.refused(scenario, &[timed, split, &colr("aggregate")], &parts);
    let without = "dataset.split.global-time.new_users=false";
    for remedy in [
        vec![timed, split, &colr("table")],
        vec![timed, split, without, &colr("aggregate")],
    ] {
        let workshop = Workshop::new();
        let scenario = scenario_over_times(&workshop, &timed_ratings());
        let finished = workshop.run(scenario, &remedy).unwrap();
        assert!(finished.errors.is_empty(), "{remedy:?}");
    }
}

/// If one of these runs, a time is read as another one.
#[test]
fn a_time_that_does_not_fit_its_format_is_refused_with_file_and_line() {
    let row = |time: &str| format!("u0,1,{time},1\nu0,2,{time},2\nu0,3,{time},3\n");
    for (format, time, parts) in [
        (
            "date-time",
            "31.12.2000",
            &["timed.csv:1: ", "expected a date", "31.12.2000"][..],
        ),
        (
            "date-time",
            "978307200",
            &["timed.csv:1: ", "expected a date"],
        ),
        (
            "seconds",
            "2000-12-31",
            &["timed.csv:1: ", "a finite number"],
        ),
        (
            "seconds",
            "978307200000",
            &["timed.csv:3: ", "give a smaller unit"],
        ),
    ] {
        let workshop = Workshop::new();
        let scenario = scenario_over_times(&workshop, &row(time));
        let format = format!("dataset.columns.timestamp_format={format}");
        workshop.refused(scenario, &[&format], parts);
    }
}

/// If this fails, somebody who keeps the ratings beside the scenario is told that they are nowhere.
#[test]
fn a_file_beside_the_scenario_is_named_with_the_option_that_finds_it() {
    let workshop = Workshop::new();
    let scenario = scenario_over_file(&workshop, &sound_ratings());
    let folder = scenario.parent().unwrap();
    let parts = [
        "ratings.tsv",
        "stands beside the scenario",
        "add `--data-dir ",
    ];
    for command in [&["data", "describe"][..], &["run", "--no-report"]] {
        let told = Words::new(command).path(&scenario).carry_out();
        assert_refusal(&told.expect_err("it was found"), &parts);
        let mut with_option = command.to_vec();
        with_option.push("--data-dir");
        let finished = Words::new(&with_option)
            .path(folder)
            .path(&scenario)
            .carry_out();
        assert!(finished.unwrap().errors.is_empty(), "{command:?}");
    }
    let estimate = Words::new(&["validate", "--estimate"])
        .path(&scenario)
        .carry_out();
    assert_refusal(&estimate.unwrap().errors[0], &parts);
    std::fs::remove_file(workshop.path("ratings.tsv")).unwrap();
    let told = Words::new(&["data", "describe"])
        .path(&scenario)
        .carry_out();
    let told = told.expect_err("it was found").to_string();
    assert!(!told.contains("beside the scenario"), "{told}");
}
