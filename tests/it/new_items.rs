use std::fmt::Write as _;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use fedrecsim_core::{Streams, UserId};
use fedrecsim_data::dataset;
use fedrecsim_methods::Placement;
use fedrecsim_methods::registry::{METHODS, vocabulary};
use fedrecsim_scenario::{self as scenario, Scenario};
use fedrecsim_sim::outcome::{Newcomers, NewcomersRecord, RoundRecord};
use fedrecsim_sim::{self as sim, Outcome, RunControl, Simulation, Until, World};

use crate::support::{Workshop, assert_balanced, assert_finite, parse, run, small_with, world};

/// An instant after the end of every run here.
const NEVER: f64 = 1e6;

/// A scenario that names no method.
const SMALL_WITHOUT_METHOD: &str = "[dataset]\nname = \"generated\"\n[training]\nrounds = 3\n";

/// Returns the override that has a fifth of the items come at an instant.
fn a_fifth(at_s: f64, stage_s: f64) -> String {
    format!(
        "joins={{ items = {{ share = 0.2 }}, at_s = {at_s}, stage_s = {stage_s}, ratings = [3, 0, 1] }}"
    )
}

/// Returns the scenario of eight rounds of 40 users, with a fifth of 150 items that come.
fn with_items(method: &str, at_s: f64, stage_s: f64) -> Scenario {
    small_with(method, &["training.rounds=8", &a_fifth(at_s, stage_s)])
}

fn found(outcome: &Outcome) -> &Newcomers {
    outcome.newcomers.as_ref().unwrap()
}

fn of_round(round: &RoundRecord) -> &NewcomersRecord {
    round.newcomers.as_ref().unwrap()
}

/// If this fails, items have ratings before they come, or other ones than those of their stage, or never
/// all of them, or they change who is invited.
#[test]
fn items_have_their_ratings_in_stages() {
    let without = run(with_items("fedmf", NEVER, 1.0), 2);
    let ends: Vec<f64> = without
        .rounds
        .iter()
        .map(|round| round.virtual_time_s)
        .collect();
    // They come in the third round, and a stage is a round.
    let (at_s, stage_s) = ((ends[1] + ends[2]) / 2.0, ends[4] - ends[3]);
    let outcome = run(with_items("fedmf", at_s, stage_s), 2);
    assert_finite(&outcome);
    assert_balanced(&outcome);
    assert_eq!(outcome.rounds[..2], without.rounds[..2]);
    let losses = |of: &Outcome| -> Vec<_> {
        let rounds = of.rounds.iter();
        rounds.map(|round| round.loss.map(f64::to_bits)).collect()
    };
    let (with, without_them) = (losses(&outcome), losses(&without));
    assert_eq!(with[2], without_them[2], "the third round was begun before");
    assert_ne!(
        outcome.rounds[2].accuracy, without.rounds[2].accuracy,
        "they are candidates at its end"
    );
    assert_ne!(with[3], without_them[3], "from then on they are negatives");
    assert!(outcome.rounds.iter().all(|round| round.invited == 40));
    let ratings: Vec<_> = outcome
        .rounds
        .iter()
        .map(|round| {
            let of = of_round(round);
            let ratings = of.after_ratings.first().map(|after| after.ratings);
            (ratings, of.joined.is_some())
        })
        .collect();
    let expected = [
        (None, false),
        (None, false),
        (Some(0), true),
        (Some(0), true),
        (Some(1), true),
        (Some(3), true),
        (None, true),
        (None, true),
    ];
    assert_eq!(ratings, expected);
    let found = found(&outcome);
    assert_eq!((found.users, found.items, found.devices), (0, 27, Some(40)));
    let counts: Vec<_> = found
        .after_ratings
        .iter()
        .map(|after| (after.ratings, after.users))
        .collect();
    assert!(counts.windows(2).all(|pair| pair[0].1 >= pair[1].1));
    assert_eq!(counts.iter().map(|of| of.0).collect::<Vec<_>>(), [0, 1, 3]);
    let joined = found.joined.as_ref().unwrap();
    assert_eq!(joined.users, counts[0].1);
    let since = |round: &&RoundRecord| round.virtual_time_s >= at_s;
    let bytes = outcome.rounds.iter().filter(since).map(|round| {
        let bytes = &round.bytes;
        bytes.up.sent + bytes.down.sent
    });
    assert_eq!(joined.bytes, bytes.sum::<u64>());
    // Those who look for a new item are in no mean, and have no list.
    let users = outcome.users.as_ref().unwrap();
    let apart = users.iter().filter(|user| user.test.is_none()).count() as u64;
    assert_eq!(outcome.size.evaluated_users, 40 - apart);
    assert!(apart >= joined.users, "validation items count as well");
    let lists = outcome.beyond_accuracy.as_ref().map(|of| of.users);
    assert_eq!(lists, Some(outcome.size.evaluated_users));
}

/// If this fails, who has rated an item is known before it comes. The ratings of `x` are another five
/// users' in each file.
#[test]
fn what_is_rated_is_unknown_until_it_comes() {
    let of = |shift: u32, at_s: f64| {
        let workshop = Workshop::new();
        workshop.write("ratings.csv", &ratings(shift));
        let text = format!(
            "method = \"fedmf\"\n[dataset]\nname = \"delimited\"\npath = \"ratings.csv\"\n\
             columns = {{ separator = \",\", user = 1, item = 2 }}\n[training]\nrounds = 3\n\
             [evaluation]\nranking = \"full-catalogue\"\n\
             [joins]\nat_s = {at_s}\nstage_s = 1e-6\nitems = {{ names = [\"x\"] }}\n"
        );
        let scenario = parse(&text, &[]);
        let folder: PathBuf = workshop.path("");
        let data = dataset::load(&scenario.dataset, &[folder], Streams::new(1)).unwrap();
        let world = World::new(scenario, Arc::new(data)).unwrap();
        sim::run(world, &RunControl::with_threads(2), &mut ()).unwrap()
    };
    let (one, other) = (of(0, NEVER), of(3, NEVER));
    let item = one.items.iter().find(|item| item.name == "x").unwrap();
    assert_eq!((item.ratings, item.popularity), (0, 0.0));
    assert_eq!(one.digest, other.digest);
    assert_eq!(one.rounds, other.rounds);
    assert_eq!(one.baselines, other.baselines);
    assert_eq!((&one.items, &one.size), (&other.items, &other.size));
    let came = of(0, 1e-9);
    assert_ne!(came.digest, of(3, 1e-9).digest, "they are known in the end");
    assert_eq!(came.size, one.size);
}

/// Returns the ratings of 21 users. Five of them rate `x` for training, from `shift` on, and five others
/// have it held out.
fn ratings(shift: u32) -> String {
    let mut text = String::new();
    // The first user fixes the number of `x`.
    for item in ["x", "i0", "i1", "i2", "i3"] {
        writeln!(text, "first,{item}").unwrap();
    }
    for user in 0..20u32 {
        for n in 0..8 {
            writeln!(text, "u{user},i{}", (5 * user + 3 * n) % 39).unwrap();
        }
        if (shift..shift + 5).contains(&user) {
            writeln!(text, "u{user},x").unwrap();
        }
        writeln!(
            text,
            "u{user},i{}\nu{user},i{}",
            (5 * user + 25) % 39,
            (5 * user + 28) % 39
        )
        .unwrap();
        if user >= 15 {
            writeln!(text, "u{user},x").unwrap();
        }
    }
    text
}

/// If this fails, a run with new items depends on the number of threads, or ends otherwise after a
/// checkpoint from before they come, or while they have few ratings.
#[test]
fn new_items_are_the_same_on_more_threads_and_from_a_checkpoint() {
    let far = run(with_items("fedrecon", NEVER, 1.0), 2);
    let (first, third) = (far.rounds[1].virtual_time_s, far.rounds[3].virtual_time_s);
    let scenario = with_items("fedrecon", (first + third) / 2.0, third - first);
    let whole = run(scenario.clone(), 1);
    assert_eq!(run(scenario.clone(), 3).digest, whole.digest);
    let control = RunControl::with_threads(2);
    for rounds in [1, 5] {
        let mut simulation = Simulation::new(world(scenario.clone()), &control).unwrap();
        simulation
            .step_until(Until::Round(rounds), &mut ())
            .unwrap();
        let mut saved = Vec::new();
        simulation.save(&mut saved).unwrap();
        let saved = Cursor::new(saved);
        let mut restored = Simulation::restore(world(scenario.clone()), &control, saved).unwrap();
        restored.step_until(Until::Round(8), &mut ()).unwrap();
        let outcome = restored.finish().unwrap();
        assert_eq!(outcome.digest, whole.digest);
        assert_eq!(outcome.newcomers, whole.newcomers);
        assert_eq!(outcome.rounds, whole.rounds);
    }
}

/// If this fails, what a user would be shown comes from other ratings than its accuracy, such as from those
/// before items came.
#[test]
fn what_is_recommended_is_what_was_evaluated() {
    let more = [
        "training.rounds=3",
        "evaluation.ranking=\"full-catalogue\"",
        "evaluation.metrics=[\"mrr\"]",
        &a_fifth(1e-9, 1e-9),
    ];
    let scenario = small_with("fedrecon", &more);
    let mut simulation = Simulation::new(world(scenario), &RunControl::with_threads(2)).unwrap();
    simulation.step_until(Until::Round(3), &mut ()).unwrap();
    let shown: Vec<_> = (0..40)
        .map(|user| simulation.recommend(UserId(user), 150).unwrap())
        .collect();
    let outcome = simulation.finish().unwrap();
    let mut evaluated = 0;
    for (shown, record) in shown.iter().zip(outcome.users.unwrap()) {
        let Some(test) = record.test else {
            continue;
        };
        let place = shown.iter().position(|one| one.is_test_item).unwrap();
        assert_eq!(
            test.values,
            [Some(1.0 / (place + 1) as f64)],
            "{}",
            record.name
        );
        evaluated += 1;
    }
    assert!(evaluated > 10, "{evaluated}");
}

/// If this fails, a method that draws negatives on devices fails when its data grow, or a mode of rounds
/// does.
#[test]
fn every_method_with_negatives_and_every_mode_have_new_items() {
    let modes = [
        "training.mode={ fedbuff = { concurrency = 10, buffer = 5 } }",
        "training.mode={ semi-synchronous = { deadline_s = 0.1 } }",
        "training.participation={ poisson = 0.5 }",
        "training.client_selection={ oort = {} }",
        "dataset.negatives.pool=\"not-in-train\"",
        "evaluation.ranking=\"full-catalogue\"",
    ];
    let of_modes = modes.map(|mode| ("fedmf", mode));
    let can = METHODS
        .iter()
        .filter(|entry| entry.placement == Placement::Federated && entry.draws_negatives);
    let of_methods = can.map(|entry| (entry.name, "training.rounds=3"));
    for (method, more) in of_methods.chain(of_modes) {
        // They come at once, and have a rating more in every microsecond.
        let outcome = run(small_with(method, &[&a_fifth(1e-6, 1e-6), more]), 2);
        assert_finite(&outcome);
        assert_balanced(&outcome);
        let found = found(&outcome);
        assert!(
            found.joined.is_some() && found.others.is_some(),
            "{method}, {more}"
        );
    }
}

/// If this fails, nothing is learned of an item after it has come. It is what users who like one another's
/// items take.
#[test]
fn an_item_that_has_come_is_learned() {
    let workshop = Workshop::new();
    let mut text = String::new();
    for user in 0..60u32 {
        let group = user % 2;
        let item = |n: u32| format!("i{}", 20 * group + (user + 3 * n) % 20);
        (0..9).for_each(|n| writeln!(text, "u{user},{}", item(n)).unwrap());
        let new = format!("x{group}");
        let last = match user % 3 {
            0 => [item(9), item(10), new],
            _ => [new, item(9), item(10)],
        };
        last.iter()
            .for_each(|item| writeln!(text, "u{user},{item}").unwrap());
    }
    workshop.write("ratings.csv", &text);
    let text = "method = { fedmf = { latent_dimension = 4, learning_rate_items = 300 } }\n[dataset]\nname = \"delimited\"\n\
                path = \"ratings.csv\"\ncolumns = { separator = \",\", user = 1, item = 2 }\n\
                [training]\nrounds = 200\n[evaluation]\nranking = \"full-catalogue\"\nevery_rounds = 2\n\
                [joins]\nat_s = 0.06\nstage_s = 0.01\nitems = { names = [\"x0\", \"x1\"] }\n";
    let scenario = parse(text, &[]);
    let data = dataset::load(&scenario.dataset, &[workshop.path("")], Streams::new(1)).unwrap();
    let world = World::new(scenario, Arc::new(data)).unwrap();
    let outcome = sim::run(world, &RunControl::with_threads(2), &mut ()).unwrap();
    let found = found(&outcome);
    let first = found.after_ratings[0].test["ndcg@10"];
    let joined = found.joined.as_ref().unwrap().test["ndcg@10"];
    assert!(joined > first + 0.4, "{found:?}");
    let warm = found.warm.as_ref().unwrap();
    assert!(warm.since_s > 0.01, "it has a rating: {warm:?}");
}

/// If this fails, a method that takes every unrated item for unwanted learns of items before they come.
#[test]
fn new_items_take_a_method_that_draws_negatives() {
    for entry in METHODS.iter().filter(|entry| !entry.draws_negatives) {
        let text = format!("method = \"{}\"\n{SMALL_WITHOUT_METHOD}", entry.name);
        let checked = scenario::parse(&text, "small.toml", &[a_fifth(1.0, 1.0)], &vocabulary());
        let refused = checked.unwrap_err().to_string();
        let expected = match entry.placement {
            Placement::Federated | Placement::Assisted => "draws no negatives",
            Placement::Central | Placement::Untrained => "train nothing",
        };
        assert!(refused.contains(expected), "{}: {refused}", entry.name);
    }
}

/// If this fails, items that cannot come are accepted, or the message does not say why.
#[test]
fn items_that_cannot_come_are_refused() {
    let refused = |method: &str, overrides: &[&str]| {
        let scenario = small_with(method, overrides);
        let streams = Streams::new(scenario.seed);
        let data = dataset::load(&scenario.dataset, &[], streams).unwrap();
        let world = World::new(scenario, Arc::new(data));
        world.map(|_| ()).unwrap_err().to_string()
    };
    let named = |names: &[u32]| {
        let names: Vec<String> = names.iter().map(|item| format!("\"{item}\"")).collect();
        let names = names.join(", ");
        format!("joins={{ items = {{ names = [{names}] }}, at_s = 1, stage_s = 1 }}")
    };
    let world = world(small_with("fedmf", &[]));
    let popularity = world.dataset.popularity();
    let rated = |item: &u32| popularity[*item as usize] > 0;
    let all: Vec<u32> = (0..150).filter(rated).collect();
    let unrated = (0..150).find(|item| !rated(item)).unwrap();
    let mut own = world.dataset.train_items(UserId(0)).to_vec();
    own.dedup();
    let is_tested = |item: &u32| {
        let mut users = (0..40u32).map(|user| world.dataset.test(UserId(user)));
        users.any(|test| test.items.contains(item))
    };
    let untested = all.iter().copied().find(|item| !is_tested(item)).unwrap();
    for (method, joins, expected) in [
        (
            "fedmf",
            named(&[150]),
            "joins.items.names: \"150\": no item has this name",
        ),
        ("fedmf", named(&[unrated]), "nobody has rated"),
        ("fedmf", named(&all), "every item comes later"),
        ("fedmf", named(&own), "has rated nothing else in training"),
        (
            "fedmf",
            named(&[untested]),
            "joins.items: none of the 40 evaluated users is judged by an item that comes later",
        ),
    ] {
        let found = refused(method, &[&joins]);
        assert!(found.contains(expected), "{found}");
    }
}
