use std::collections::BTreeMap;

use fedrecsim_sim::outcome::{ByDirection, Flow, NetworkRecord, UserAccount, handled_bytes};

use crate::support::{Workshop, run, small, world};

/// A world whose participations have every fate, and where some users never take part.
const VARIED: [&str; 7] = [
    "training.rounds=6",
    "training.participation.cohort=9",
    "training.mode={ over-selection = { factor = 1.5, deadline_s = 4, stragglers = \"cancelled\" } }",
    "network={ preset=\"mobile-pessimistic\", dropout=0.1, server={ connections=6 } }",
    "availability.pattern.on-off={ mean_on_s=60, mean_off_s=5 }",
    "devices={ memory={ median_mb=0.02, log_sigma=0.5 }, energy_nj_per_byte=10, energy_nj_per_row_visit=3 }",
    "faults=[{ effect=\"drop\", probability=0.1 }]",
];

/// If this fails, bytes, work or participations of a run belong to no user, or to two.
#[test]
fn what_users_have_adds_up_to_the_run() {
    let late = "training.mode={ semi-synchronous = { deadline_s = 1, maximum_staleness = 1 } }";
    for mode in [
        VARIED[2],
        late,
        "training.mode.fedbuff={ concurrency = 12, buffer = 4, maximum_staleness = 1 }",
    ] {
        let mut overrides = VARIED.to_vec();
        overrides[2] = mode;
        overrides
            .retain(|key| !mode.contains("fedbuff") || !key.starts_with("training.participation"));
        let outcome = run(small(&overrides), 2);
        let users = outcome.users.as_ref().unwrap();
        assert!(
            users.iter().map(|user| user.user.0).eq(0..40),
            "every user once, in their order"
        );
        let (mut bytes, mut all) = (ByDirection::<Flow>::default(), UserAccount::default());
        for user in users {
            let UserAccount {
                invited,
                completed,
                late,
                stale,
                lost,
                cancelled,
                under_way,
                metered: _,
                inference_bytes,
                work,
            } = user.account;
            assert_eq!(
                invited,
                completed + late + stale + lost + cancelled + under_way,
                "{mode}: {user:?}"
            );
            assert_eq!(
                invited == 0,
                user.bytes == ByDirection::default(),
                "{mode}: {user:?}"
            );
            bytes += user.bytes;
            all.invited += invited;
            all.completed += completed;
            all.lost += lost;
            all.cancelled += cancelled;
            all.late += late;
            all.stale += stale;
            all.inference_bytes += inference_bytes;
            all.work += work;
        }
        assert_eq!((bytes, all.work), (outcome.bytes, outcome.work), "{mode}");
        let total = |of: fn(&fedrecsim_sim::outcome::RoundRecord) -> u32| {
            outcome.rounds.iter().map(of).sum::<u32>()
        };
        // No participation ends after the last round, except by being under way.
        assert_eq!(all.lost, total(|round| round.lost), "{mode}");
        assert_eq!(all.cancelled, total(|round| round.cancelled), "{mode}");
        assert_eq!(all.late + all.stale, total(|round| round.late), "{mode}");
        assert_eq!(all.stale, total(|round| round.stale), "{mode}");
        assert_eq!(
            (all.invited, all.completed),
            (
                total(|round| round.invited),
                total(|round| round.aggregated)
            )
        );
        let last = outcome
            .rounds
            .iter()
            .rev()
            .find_map(|round| round.inference_bytes);
        assert_eq!(Some(all.inference_bytes), last, "{mode}");
        let idle = users
            .iter()
            .filter(|user| user.account.invited == 0)
            .count() as u64;
        let mut of_devices: Vec<u64> = users
            .iter()
            .map(|user| handled_bytes(&user.bytes))
            .collect();
        of_devices.sort_unstable();
        let figures = outcome.device_bytes;
        assert!(
            idle > 0 && (figures.users, figures.never_took_part) == (40, idle),
            "{figures:?}"
        );
        let expected = (of_devices[19], of_devices[39], of_devices[39]);
        assert_eq!(
            (figures.median_bytes, figures.p99_bytes, figures.max_bytes),
            expected,
            "{mode}"
        );
    }
}

/// If this fails, `run.json` of a run that was stopped has fewer participations than its users, whose bytes it has.
#[test]
fn a_run_that_is_stopped_has_the_participations_of_its_users() {
    let workshop = Workshop::new();
    let diverges = [
        "method.fedrap.objective=\"paper\"",
        "method.fedrap.lambda=1",
        "method.fedrap.curriculum=\"fixed\"",
        "method.fedrap.learning_rate_network=0.02",
        "method.fedrap.learning_rate_tables=0.02",
        "training.rounds=50",
        "network={ preset=\"mobile-pessimistic\", dropout=0.2 }",
    ];
    let late = "training.mode={ semi-synchronous = { deadline_s = 1, maximum_staleness = 1 } }";
    for (number, mode) in [
        "training.mode=\"synchronous\"",
        late,
        "training.steps_per_round=2",
    ]
    .into_iter()
    .enumerate()
    {
        let overrides = [&diverges[..], &[mode]].concat();
        let arguments = workshop.arguments(workshop.small(), &overrides);
        let arguments = arguments.and(&["--overwrite"]);
        let finished = arguments.carry_out().unwrap();
        assert_eq!(finished.errors.len(), 1, "{number}: {:?}", finished.errors);
        let (rows, run) = (rows(&workshop), workshop.run_json());
        let sum = |name: &str| rows.iter().map(|row| row[name]).sum::<f64>();
        let total = |name: &str| run["participations"][name].as_f64().unwrap();
        let mut rounds = csv::Reader::from_path(workshop.report().join("rounds.csv")).unwrap();
        let rounds = rounds.deserialize::<BTreeMap<String, String>>();
        let in_rounds: f64 = rounds
            .map(|row| row.unwrap()["invited"].parse::<f64>().unwrap())
            .sum();
        assert!(
            in_rounds < total("invited"),
            "{number}: nothing was under way"
        );
        for name in ["invited", "lost", "cancelled", "stale"] {
            assert_eq!(sum(name), total(name), "{number}: {name}");
        }
        assert_eq!(sum("late") + sum("stale"), total("late"), "{number}");
        // An update that arrived for a step that was not made was not used.
        assert_eq!(
            sum("completed") + sum("under_way"),
            total("aggregated") + total("under_way"),
            "{number}"
        );
        let losses = &run["losses"];
        let by_cause =
            losses["dropouts"].as_f64().unwrap() + losses["departures"].as_f64().unwrap();
        assert_eq!(by_cause, total("lost"), "{number}");
    }
}

/// If this fails, the time that a user spends taking part has gaps, or counts a wait twice.
#[test]
fn the_time_taking_part_is_the_time_that_the_server_waits_for_a_user() {
    let outcome = run(
        small(&[
            "network={ preset=\"wifi-2020\", server={ connections=7 } }",
            "network.dropout=0.2",
        ]),
        2,
    );
    let spent: u128 = outcome
        .users
        .unwrap()
        .iter()
        .map(|user| user.account.metered.taking_part_ns)
        .sum();
    let NetworkRecord { levels, .. } = outcome.network;
    assert_eq!(levels.waiting_users.integral, spent);
}

fn rows(workshop: &Workshop) -> Vec<BTreeMap<String, f64>> {
    let mut reader = csv::Reader::from_path(workshop.report().join("users.csv")).unwrap();
    reader.deserialize().collect::<csv::Result<_>>().unwrap()
}

/// If this fails, a device's bytes or energy in the file are not those of the run, or the summary
/// names other ones.
#[test]
fn the_file_has_every_user_and_its_columns_add_up_to_run_json() {
    let workshop = Workshop::new();
    workshop.run(workshop.small(), &VARIED).unwrap();
    let (rows, run) = (rows(&workshop), workshop.run_json());
    assert_eq!(rows.len(), 40);
    let sum = |name: &str| rows.iter().map(|row| row[name]).sum::<f64>();
    for direction in ["up", "down"] {
        for fate in [
            "sent",
            "delivered",
            "lost",
            "cancelled",
            "in_flight",
            "unreceived",
            "useful",
            "late",
            "stale",
        ] {
            let expected = run["bytes"][direction][fate].as_f64().unwrap();
            assert_eq!(
                sum(&format!("{direction}_{fate}_bytes")),
                expected,
                "{direction}, {fate}"
            );
        }
    }
    let participations = &run["participations"];
    for (column, key) in [
        ("invited", "invited"),
        ("completed", "aggregated"),
        ("lost", "lost"),
    ] {
        assert_eq!(
            sum(column),
            participations[key].as_f64().unwrap(),
            "{column}"
        );
    }
    for (column, key) in [
        ("row_visits", "finished"),
        ("lost_row_visits", "lost"),
        ("unused_row_visits", "unused"),
    ] {
        assert_eq!(sum(column), run["work"][key].as_f64().unwrap(), "{column}");
    }
    let energy = &run["energy"];
    let (whole, wasted) = (
        energy["transfer_j"].as_f64().unwrap() + energy["training_j"].as_f64().unwrap(),
        energy["unused_j"].as_f64().unwrap(),
    );
    assert!(
        (sum("energy_j") / whole - 1.0).abs() < 1e-9
            && (sum("unused_energy_j") / wasted - 1.0).abs() < 1e-9
    );
    let idle: Vec<_> = rows.iter().filter(|row| row["invited"] == 0.0).collect();
    assert_eq!(
        idle.len() as u64,
        run["device_bytes"]["never_took_part"].as_u64().unwrap()
    );
    for row in &idle {
        let others = row
            .iter()
            .filter(|(name, _)| {
                !["user", "name", "inference_bytes", "held_out"].contains(&name.as_str())
            })
            .filter(|(name, _)| !name.starts_with("test_"));
        assert!(others.clone().all(|(_, value)| *value == 0.0), "{row:?}");
    }
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    for part in [
        "(99th percentile)",
        "never took part",
        "`users.csv` has a line for every user.",
    ] {
        assert!(summary.contains(part), "no {part:?} in\n{summary}");
    }
}

/// If this fails, the values of single users are those of another round than the run is judged by,
/// or are others after a checkpoint or with more threads.
#[test]
fn the_metrics_of_users_are_those_of_the_selected_round() {
    use fedrecsim_sim::{RunControl, Simulation};
    let mut earlier = 0;
    for selection in ["last", "best-validation", "best-test"] {
        let selection = format!("evaluation.selection=\"{selection}\"");
        let overrides = [
            "training.rounds=8",
            "evaluation.users=30",
            "evaluation.every_rounds=2",
            &selection,
        ];
        let scenario = || small(&overrides);
        let outcome = run(scenario(), 2);
        let selected = &outcome.rounds[outcome.selected.unwrap()];
        earlier += u32::from(selected.round < 8);
        let users = outcome.users.as_ref().unwrap();
        let tests = || users.iter().filter_map(|user| user.test.as_ref());
        assert_eq!(tests().count(), 30);
        for (place, metric) in scenario().evaluation.metrics().iter().enumerate() {
            let values = tests().map(|test| test.values[place].unwrap());
            let mean = values.sum::<f64>() / 30.0;
            let reported = selected.accuracy.as_ref().unwrap().test[&metric.name()];
            assert_eq!(mean, reported, "{selection}, {}", metric.name());
        }
        let control = RunControl::with_threads(1);
        let mut simulation = Simulation::new(world(scenario()), &control).unwrap();
        for _ in 0..7 {
            simulation.step().unwrap();
        }
        let mut saved = Vec::new();
        simulation.save(&mut saved).unwrap();
        let saved = std::io::Cursor::new(saved);
        let mut resumed = Simulation::restore(world(scenario()), &control, saved).unwrap();
        while resumed.step().unwrap().is_some() {}
        assert_eq!(
            resumed.finish().unwrap().users,
            outcome.users,
            "{selection}"
        );
    }
    assert!(earlier > 0, "no selection took an earlier round");
}

/// If this fails, a large run keeps or writes what nobody has asked for, does not say so, or comes
/// to another result.
#[test]
fn above_the_limit_there_is_no_file_and_the_summary_says_how_to_have_it() {
    let above = [&VARIED[..], &["report.users_csv_limit=39"]].concat();
    let (listed, unlisted) = (run(small(&VARIED), 2), run(small(&above), 2));
    assert!(listed.users.is_some() && unlisted.users.is_none());
    assert_eq!(
        (listed.digest, listed.device_bytes),
        (unlisted.digest, unlisted.device_bytes)
    );
    let workshop = Workshop::new();
    workshop.run(workshop.small(), &VARIED).unwrap();
    assert!(workshop.report().join("users.csv").exists());
    let again = workshop.arguments(workshop.small(), &above);
    again.and(&["--overwrite"]).carry_out().unwrap();
    assert!(
        !workshop.report().join("users.csv").exists(),
        "the file of an earlier report stays"
    );
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    assert!(summary.contains("report.users_csv_limit=40"), "{summary}");
    assert!(
        workshop.run_json()["device_bytes"]["max_bytes"]
            .as_u64()
            .unwrap()
            > 0
    );
}

/// If this fails, a checkpoint without accounts of users is taken for one with accounts that are
/// all zero.
#[test]
fn a_checkpoint_without_accounts_is_no_checkpoint_of_a_run_with_them() {
    use fedrecsim_sim::{RunControl, Simulation};
    let control = RunControl::with_threads(1);
    let mut simulation =
        Simulation::new(world(small(&["report.users_csv_limit=0"])), &control).unwrap();
    simulation.step().unwrap();
    let mut saved = Vec::new();
    simulation.save(&mut saved).unwrap();
    let restored = Simulation::restore(
        world(small(&[])),
        &control,
        std::io::Cursor::new(saved.clone()),
    );
    let error = restored.err().unwrap().to_string();
    assert!(error.contains("report.users_csv_limit"), "{error}");
    let same = world(small(&["report.users_csv_limit=0"]));
    assert_eq!(
        Simulation::restore(same, &control, std::io::Cursor::new(saved))
            .unwrap()
            .rounds(),
        1
    );
}
