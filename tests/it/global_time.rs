use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use fedrecsim_core::{Streams, UserId};
use fedrecsim_data::dataset;
use fedrecsim_methods::registry::METHODS;
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::outcome::RoundRecord;
use fedrecsim_sim::testing::parameters_for_few_users;
use fedrecsim_sim::{self as sim, Outcome, RunControl, World};

use crate::support::{Workshop, assert_balanced, assert_finite, methods, parse};

const CUT: &str = "2001-03-01";
/// The number of users with history before the cut.
const OLD: u32 = 12;

/// The methods whose model has a row of every user, those who are only tested included.
const HAVE_ROW_OF_EACH_USER: [&str; 8] = [
    "mf", "centrap", "pmf", "svdpp", "bpr-mf", "ncf", "lightgcn", "feddad",
];

const SCENARIO: &str = r#"
seed = 5
[dataset]
name = "delimited"
path = "ratings.csv"
columns = { separator = ",", user = 1, item = 2, rating = 3, timestamp = 4 }
[training]
rounds = 3
[evaluation]
ranking = "full-catalogue"
"#;

/// Appends a rating.
fn rate(text: &mut String, user: &str, item: u32, rating: u32, time: &str) {
    writeln!(text, "{user},i{item},{rating},{time}").unwrap();
}

/// Returns what everybody rated before the cut: 18 items, in February.
fn past() -> String {
    let mut text = String::new();
    for user in 0..OLD {
        for n in 0..7 {
            let time = format!("2001-02-{:02} 10:{user:02}:00", 3 * n + 1);
            let (item, rating) = ((user * 5 + n * (3 + user % 2)) % 20, 1 + (user + n * n) % 5);
            rate(&mut text, &format!("old{user}"), item, rating, &time);
        }
    }
    text
}

/// Returns what is rated after it: every user of before takes two more of the old items and one that
/// nobody had rated, and so do three users who have no history.
fn future() -> String {
    let mut text = String::new();
    let old = (0..OLD).map(|user| format!("old{user}"));
    let users = old.chain((0..3).map(|user| format!("new{user}")));
    for (number, user) in (0..).zip(users) {
        for (day, item) in [(1, number), (2, (number * 5 + 13) % 20), (3, 77)] {
            let time = format!("2001-03-{day:02} 12:{number:02}:00");
            rate(&mut text, &user, item % 20 + 60 * (item / 77), 4, &time);
        }
    }
    text
}

/// Returns another one, with other users, items and ratings.
fn another_future() -> String {
    let mut text = String::new();
    for number in 0..OLD {
        for day in 1..=9 {
            let time = format!("2001-04-{day:02} 12:{number:02}:00");
            let item = if day % 2 == 0 {
                number + day
            } else {
                100 + day
            };
            rate(&mut text, &format!("old{number}"), item, day % 5 + 1, &time);
            rate(&mut text, &format!("later{number}{day}"), item, 1, &time);
        }
    }
    text
}

/// Returns the scenario with a method, a split by time that has these keys more, and these keys
/// replaced.
fn scenario(method: &str, split: &str, overrides: &[&str]) -> Scenario {
    let parameters = parameters_for_few_users(method);
    let method = format!("method={{ {method} = {parameters} }}");
    let split = format!("dataset.split={{ global-time = {{ cut = \"{CUT}\"{split} }} }}");
    parse(SCENARIO, &[&[&*method, &*split], overrides].concat())
}

/// Runs a scenario on these ratings.
fn run(scenario: &Scenario, ratings: &str, threads: usize) -> Outcome {
    let workshop = Workshop::new();
    workshop.write("ratings.csv", ratings);
    let folders: [PathBuf; 1] = [workshop.path("")];
    let dataset = dataset::load(&scenario.dataset, &folders, Streams::new(scenario.seed)).unwrap();
    let world = World::with_methods(scenario.clone(), Arc::new(dataset), &methods()).unwrap();
    let outcome = sim::run(world, &RunControl::with_threads(threads), &mut ()).unwrap();
    assert!(
        outcome.stopped_by.is_none(),
        "{}: {:?}",
        scenario.method.name,
        outcome.stopped_by
    );
    assert_balanced(&outcome);
    assert_finite(&outcome);
    outcome
}

/// If this fails, users without history train, or they are tested though nobody asked for it, or not
/// though somebody did.
#[test]
fn users_without_history_are_tested_where_asked_and_never_invited() {
    let ratings = future() + &past();
    for (split, tested) in [("", 12), (", new_users = true", 15)] {
        let outcome = run(&scenario("fedmf", split, &[]), &ratings, 2);
        let size = &outcome.size;
        assert_eq!((size.users, size.evaluated_users), (tested, tested));
        assert_eq!((size.items, size.excluded_users), (18, 0));
        assert_eq!(size.training_ratings, 84);
        assert_eq!(size.split.users_without_history, 3);
        let all = outcome.users.as_ref().unwrap();
        for user in all {
            let invited = if user.user < UserId(OLD) { 3 } else { 0 };
            assert_eq!(user.account.invited, invited, "{:?}", user.user);
        }
        assert_eq!(all.len() as u64, tested);
        let rounds = &outcome.rounds;
        assert!(
            rounds
                .iter()
                .all(|round| (round.invited, round.aggregated) == (12, 12))
        );
    }
}

/// If this fails, something that comes after the cut is known to what is trained.
#[test]
fn no_future_changes_what_any_method_learns() {
    let one = future() + &past();
    let other = another_future() + &past();
    for entry in METHODS {
        let scenario = scenario(entry.name, "", &[]);
        let [one, other] = [&one, &other].map(|ratings| run(&scenario, ratings, 2));
        let name = entry.name;
        assert!(one.model == other.model, "{name}: another model");
        for (one, other) in one.rounds.iter().zip(&other.rounds) {
            assert_eq!(one.loss, other.loss, "{name}, round {}", one.round);
            assert_eq!(one.bytes, other.bytes, "{name}, round {}", one.round);
        }
        assert_ne!(
            one.size.split, other.size.split,
            "{name}: nothing else is tested"
        );
    }
}

/// If this fails, what is chosen by validation knows what its users take after the cut: it was ranked among
/// all items but these. Which users are evaluated still goes by the future where `evaluation.users` draws them,
/// and who is one with `new_users`.
#[test]
fn no_future_changes_a_validation_figure() {
    // As many ratings, of which the share is taken, with the items of others.
    let later = future();
    let items = later.lines().map(|row| row.split(',').nth(1).unwrap());
    let rows = later.lines().zip(items.cycle().skip(3));
    let other = rows.map(|(row, item)| {
        let cells: Vec<&str> = row.split(',').collect();
        format!("{},{item},{},{}\n", cells[0], cells[2], cells[3])
    });
    let other = other.collect::<String>() + &past();
    let one = later.clone() + &past();
    let all = ", validation_share = 0.2, targets = \"all\"";
    let drawn = "evaluation.ranking={ sampled = { candidates = 5 } }";
    let expected = "evaluation.metrics=[\"expected-ndcg@3\", \"ndcg@3\"]";
    let headline = "evaluation.headline=\"ndcg@3\"";
    for overrides in [&[][..], &[drawn, headline], &[drawn, headline, expected]] {
        for method in ["fedmf", "popularity", "fedncf"] {
            let scenario = scenario(method, all, overrides);
            let [one, other] = [&one, &other].map(|ratings| run(&scenario, ratings, 2));
            let accuracies = |outcome: &Outcome| -> Vec<_> {
                let rounds = outcome.rounds.iter();
                rounds
                    .map(|round| round.accuracy.clone().unwrap())
                    .collect()
            };
            for (one, other) in accuracies(&one).iter().zip(&accuracies(&other)) {
                assert!(one.validation.is_some());
                assert_eq!(one.validation, other.validation, "{method}, {overrides:?}");
                assert_ne!(one.test, other.test, "{method}, {overrides:?}");
            }
        }
    }
}

/// If this fails, FedTide has learned something of what comes after the cut, nothing of a period
/// before it, or something else on another number of threads.
#[test]
fn fedtide_fits_a_period_before_the_cut() {
    let keys = "method={ fedtide = { period_days = 9.0, periods = 2, targets = \"all\", step_columns = 7 } }";
    let scenario = scenario("fedtide", "", &[keys, "training.rounds=16"]);
    let one = run(&scenario, &(future() + &past()), 1);
    for (ratings, threads) in [(future() + &past(), 4), (another_future() + &past(), 2)] {
        assert!(
            one.model == run(&scenario, &ratings, threads).model,
            "{threads} threads"
        );
    }
    let learned = one.model.named("learned").unwrap().row(0).to_vec();
    let moved = [0.5, 0.5, 0.8, 0.3, 0.15, 0.05, -0.3].iter().zip(&learned);
    assert!(moved.clone().all(|(prior, of)| prior != of), "{learned:?}");
    assert!((learned[0] + learned[1] - 1.0).abs() < 1e-6, "{learned:?}");
}

/// If this fails, the audit looks at what users took last, or at the last rounds alone, which have
/// no item table, and takes FedTide's uploads for silent: they name every item of a user.
#[test]
fn an_audit_reads_the_items_of_users_out_of_fedtides_counts() {
    let keys = "method={ fedtide = { period_days = 3.0, periods = 2, step_columns = 7 } }";
    let keys = [keys, "training.rounds=16", "audit={ every_rounds = 1 }"];
    let outcome = run(&scenario("fedtide", "", &keys), &(future() + &past()), 2);
    // The uploads of the last round have no item table.
    let last = outcome.rounds.last().unwrap().audit.unwrap();
    assert_eq!(last.users, 0);
    let linked = last.linked.unwrap();
    assert!(linked.iter().all(|guess| guess.auc > 0.9), "{linked:?}");
}

/// Checks that nothing which is learned or claimed changes where users without history are tested.
fn assert_new_users_change_nothing(method: &str, overrides: &[&str]) {
    let ratings = future() + &past();
    let [without, with] = ["", ", new_users = true"]
        .map(|split| run(&scenario(method, split, overrides), &ratings, 2));
    let place = format!("{method}, {overrides:?}");
    for (without, with) in without.rounds.iter().zip(&with.rounds) {
        let learned = |round: &RoundRecord| (round.invited, round.aggregated, round.loss);
        let at = format!("{place}, round {}", with.round);
        assert_eq!(learned(without), learned(with), "{at}");
        assert_eq!(without.privacy, with.privacy, "{at}");
    }
    if !HAVE_ROW_OF_EACH_USER.contains(&method) {
        assert!(without.model == with.model, "{place}: another model");
    }
    assert_eq!(with.size.users, without.size.users + 3, "{place}");
}

/// If this fails, users who come after the cut change what the others learn: a rate, a table or a
/// threshold of a method goes by the number of all users.
#[test]
fn users_who_are_only_tested_change_nothing_that_is_learned() {
    for entry in METHODS {
        assert_new_users_change_nothing(entry.name, &[]);
    }
    for (method, parameters) in [
        ("fedrap", "{ noise = {} }"),
        ("fedrec-pmf", "{ style = \"stochastic\" }"),
    ] {
        let parameters = format!("method={{ {method} = {parameters} }}");
        assert_new_users_change_nothing(method, &[&parameters]);
    }
}

/// If this fails, the number of users who come after the cut decides who is invited, how strong the
/// noise is, or what may be claimed of it.
#[test]
fn users_who_are_only_tested_change_no_cohort() {
    let share = "training.participation.share=0.5";
    let noise =
        "privacy={ gaussian = { clip = 1.0, noise_multiplier = 1.0, trust = \"central\" } }";
    for overrides in [
        &[share][..],
        &[share, "training.client_selection=\"round-robin\""],
        &[share, "training.client_selection=\"by-data-size\""],
        &[share, "training.client_selection={ oort = {} }"],
        &[share, "training.mode={ over-selection = {} }"],
        &["training.mode={ fedbuff = { concurrency = 4, buffer = 2 } }"],
        &[share, noise],
        &["training.participation.poisson=0.5", noise],
    ] {
        assert_new_users_change_nothing("fedmf", overrides);
    }
}

/// If this fails, the result of a split by time depends on the number of threads.
#[test]
fn a_split_by_time_has_one_digest_at_any_number_of_threads() {
    let ratings = future() + &past();
    let split = ", validation_share = 0.2, targets = \"all\", new_users = true, new_items = true";
    for method in ["fedmf", "fedrap", "lightgcn", "popularity"] {
        let scenario = scenario(method, split, &[]);
        let [one, two] = [1, 2].map(|threads| run(&scenario, &ratings, threads));
        assert_eq!(one.digest, two.digest, "{method}");
        assert_eq!(one.rounds, two.rounds, "{method}");
        assert!(
            one.rounds[0]
                .accuracy
                .as_ref()
                .unwrap()
                .validation
                .is_some()
        );
    }
}

/// If this fails, the report does not say what accuracy stands on.
#[test]
fn the_report_says_when_training_ends_and_what_is_tested() {
    let workshop = Workshop::new();
    workshop.write("ratings.csv", &(past() + &future()));
    let file = workshop.write("time.toml", SCENARIO);
    let split = format!("dataset.split={{ global-time = {{ cut = {CUT}, targets = \"all\" }} }}");
    let finished = workshop.run(file, &["method=popularity", &split]).unwrap();
    assert!(finished.errors.is_empty());
    let size = &workshop.run_json()["size"];
    assert_eq!(size["training_ends"], "2001-03-01 00:00:00");
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    for part in [
        "global time, cut at 2001-03-01 00:00:00, targets `all`",
        "training ends at 2001-03-01 00:00:00",
        "of them nobody had rated before, and every method misses them",
        "3 users without history before",
    ] {
        assert!(summary.contains(part), "no {part:?} in\n{summary}");
    }
}
