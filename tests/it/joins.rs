use std::fmt::Write as _;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use fedrecsim_core::Streams;
use fedrecsim_data::dataset;
use fedrecsim_methods::Placement;
use fedrecsim_methods::registry::METHODS;
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::outcome::{AfterRatings, Newcomers, RoundRecord};
use fedrecsim_sim::{self as sim, Outcome, RunControl, Simulation, Until, World};

use crate::support::{Workshop, assert_balanced, assert_finite, parse, run, small_with, world};

/// An instant after the end of every run here.
const NEVER: f64 = 1e6;

/// Returns the override that has a fifth of the users come at an instant.
fn a_fifth(at_s: f64, others: &str) -> String {
    format!("joins={{ users = {{ share = 0.2 }}, at_s = {at_s}, {others} }}")
}

/// Returns the scenario of six rounds of 40 users, of whom a fifth comes at an instant.
fn with_joins(method: &str, at_s: f64, overrides: &[&str]) -> Scenario {
    let joins = a_fifth(at_s, "ratings = [0, 1, 3, 1000], local_trainings = 20");
    let own = ["training.rounds=6", &joins];
    small_with(method, &[&own, overrides].concat())
}

fn newcomers(outcome: &Outcome) -> &Newcomers {
    outcome.newcomers.as_ref().unwrap()
}

/// Returns a round without what newcomers have to do with it.
fn of_others(rounds: &[RoundRecord]) -> Vec<RoundRecord> {
    let without = |round: &RoundRecord| RoundRecord {
        newcomers: None,
        ..round.clone()
    };
    rounds.iter().map(without).collect()
}

/// If this fails, somebody is invited, sends something or is in the mean of all before it has come, or
/// is still left out afterwards.
#[test]
fn newcomers_take_part_from_the_instant_at_which_they_come() {
    let without = run(with_joins("fedmf", NEVER, &[]), 2);
    let ends: Vec<f64> = without
        .rounds
        .iter()
        .map(|round| round.virtual_time_s)
        .collect();
    // They come in the third round.
    let at_s = (ends[1] + ends[2]) / 2.0;
    let outcome = run(with_joins("fedmf", at_s, &[]), 2);
    assert_finite(&outcome);
    assert_balanced(&outcome);
    let invited: Vec<u32> = outcome.rounds.iter().map(|round| round.invited).collect();
    assert_eq!(invited, [32, 32, 32, 40, 40, 40]);
    assert_eq!(outcome.rounds[..2], without.rounds[..2]);
    assert_eq!(of_others(&outcome.rounds[..3]), {
        let mut known = of_others(&without.rounds[..3]);
        // From their coming on, they download what they are scored with.
        known[2].inference_bytes = outcome.rounds[2].inference_bytes;
        known
    });
    let bytes: Vec<Option<u64>> = outcome
        .rounds
        .iter()
        .map(|round| round.inference_bytes)
        .collect();
    assert!(bytes[1] < bytes[2], "{bytes:?}");
    let users = outcome.users.as_ref().unwrap();
    let who: Vec<_> = users
        .iter()
        .filter(|user| user.account.invited == 3)
        .collect();
    assert_eq!((users.len(), who.len()), (40, 8));
    assert!(who.iter().all(|user| user.test.is_none()));
    assert_eq!(outcome.size.evaluated_users, 32);
    for of in [&outcome, &without] {
        let lists = of.beyond_accuracy.as_ref().map(|of| of.users);
        assert_eq!(
            lists,
            Some(32),
            "newcomers are shown nothing, before and after"
        );
    }
    let joined: Vec<_> = outcome
        .rounds
        .iter()
        .map(|round| round.newcomers.as_ref().unwrap().joined.as_ref())
        .collect();
    assert!(joined[..2].iter().all(Option::is_none));
    let costs: Vec<_> = joined[2..]
        .iter()
        .flatten()
        .map(|of| (of.users, of.bytes > 0))
        .collect();
    assert_eq!(costs, [(8, false), (8, true), (8, true), (8, true)]);
    assert!((joined[2].unwrap().since_s - (ends[2] - at_s)).abs() < 1e-8);
    let found = newcomers(&outcome);
    let before = found.before.as_ref().unwrap();
    assert_eq!((found.users, before.round), (8, 2));
    assert_eq!(
        before.others,
        without.rounds[1].accuracy.as_ref().unwrap().test
    );
    assert_eq!(found.joined.as_ref(), joined[5]);
}

/// If this fails, a newcomer is scored with ratings that it does not have yet, or one that has too few
/// is scored all the same, or nothing of it depends on its ratings.
#[test]
fn newcomers_are_scored_after_so_many_ratings() {
    let outcome = run(with_joins("fedmf", NEVER, &[]), 2);
    let found = newcomers(&outcome);
    let before = found.before.as_ref().unwrap();
    assert_eq!(
        (before.round, &found.joined, &found.warm),
        (6, &None, &None)
    );
    let after = &found.after_ratings;
    let counts: Vec<_> = after
        .iter()
        .map(|after| (after.ratings, after.users))
        .collect();
    assert_eq!(counts, [(0, 8), (1, 8), (3, 7), (1000, 0)]);
    assert_ne!(after[0].test, after[2].test);
    assert!(after[3].test.is_empty());
    assert_eq!(found.baselines["popularity"].len(), after[0].test.len());
}

/// If this fails, scoring a newcomer before it comes sends something, or changes the model or a device.
#[test]
fn scoring_newcomers_changes_nothing() {
    for method in ["fedmf", "fedrap", "pfedrec", "fedgram"] {
        let [one, many] =
            ["ratings = [0]", "ratings = [0, 2, 3], local_trainings = 3"].map(|how| {
                let joins = a_fifth(NEVER, how);
                run(small_with(method, &[&joins]), 2)
            });
        assert_eq!(of_others(&one.rounds), of_others(&many.rounds), "{method}");
        assert_eq!(one.state_digest, many.state_digest, "{method}");
        assert_eq!((one.bytes, one.model), (many.bytes, many.model), "{method}");
    }
}

/// If this fails, what users rate is known before they come. The planted item `x` is theirs alone.
#[test]
fn what_newcomers_have_rated_is_unknown_until_they_come() {
    let of = |shift: u32| {
        let workshop = Workshop::new();
        workshop.write("ratings.csv", &ratings(shift));
        let names = r#"["n0", "n1", "n2", "n3", "n4"]"#;
        let text = format!(
            "method = \"fedmf\"\n[dataset]\nname = \"delimited\"\npath = \"ratings.csv\"\n\
             columns = {{ separator = \",\", user = 1, item = 2 }}\n[training]\nrounds = 3\n\
             [evaluation]\nranking = \"full-catalogue\"\n[joins]\nat_s = 1e6\nlocal_trainings = 50\nusers = {{ names = {names} }}\n"
        );
        let scenario = parse(&text, &[]);
        let folder: PathBuf = workshop.path("");
        let data = dataset::load(&scenario.dataset, &[folder], Streams::new(1)).unwrap();
        let world = World::new(scenario, Arc::new(data)).unwrap();
        sim::run(world, &RunControl::with_threads(2), &mut ()).unwrap()
    };
    let (one, other) = (of(0), of(3));
    let planted = one.items.iter().find(|item| item.name == "x").unwrap();
    assert_eq!((planted.ratings, planted.popularity), (0, 0.0));
    assert_eq!(of_others(&one.rounds), of_others(&other.rounds));
    assert_eq!(
        (&one.baselines, &one.items),
        (&other.baselines, &other.items)
    );
    assert_eq!(one.model, other.model);
    assert_eq!(one.size, other.size);
    assert_ne!(one.digest, other.digest, "the newcomers have other figures");
}

/// Returns the ratings of 15 users, who have all items from 0 to 39, and of five newcomers, whose
/// training items depend on `shift`, but for `x`.
fn ratings(shift: u32) -> String {
    let mut text = String::new();
    for (user, n) in (0..15).flat_map(|user| (0..10).map(move |n| (user, n))) {
        writeln!(text, "u{user},i{}", (5 * user + 3 * n) % 40).unwrap();
    }
    for user in 0..5 {
        writeln!(text, "n{user},x").unwrap();
        for n in 0..5 {
            writeln!(text, "n{user},i{}", 20 + (4 * user + shift + n) % 20).unwrap();
        }
        writeln!(text, "n{user},i{user}\nn{user},i{}", user + 5).unwrap();
    }
    text
}

/// If this fails, a run with newcomers depends on the number of threads, or ends otherwise after a
/// checkpoint from before they come.
#[test]
fn newcomers_are_the_same_on_more_threads_and_from_a_checkpoint() {
    let far = run(with_joins("pfedrec", NEVER, &[]), 2);
    let at_s = (far.rounds[2].virtual_time_s + far.rounds[3].virtual_time_s) / 2.0;
    let scenario = with_joins("pfedrec", at_s, &[]);
    let whole = run(scenario.clone(), 1);
    assert_eq!(run(scenario.clone(), 3).digest, whole.digest);
    let control = RunControl::with_threads(2);
    let mut simulation = Simulation::new(world(scenario.clone()), &control).unwrap();
    simulation.step_until(Until::Round(2), &mut ()).unwrap();
    let mut saved = Vec::new();
    simulation.save(&mut saved).unwrap();
    let mut restored = Simulation::restore(world(scenario), &control, Cursor::new(saved)).unwrap();
    restored.step_until(Until::Round(6), &mut ()).unwrap();
    let outcome = restored.finish().unwrap();
    assert_eq!(outcome.digest, whole.digest);
    assert_eq!(outcome.newcomers, whole.newcomers);
    assert_eq!(outcome.rounds, whole.rounds);
}

/// If this fails, a method that trains on devices cannot score newcomers, or a mode of rounds invites
/// them before they come.
#[test]
fn every_method_on_devices_and_every_mode_have_newcomers() {
    let modes = [
        "training.mode={ fedbuff = { concurrency = 10, buffer = 5 } }",
        "training.mode={ semi-synchronous = { deadline_s = 0.1 } }",
        "training.participation={ poisson = 0.5 }",
        "training.client_selection=\"by-data-size\"",
        "training.client_selection={ oort = {} }",
    ];
    let of_modes = modes.map(|mode| ("fedmf", mode));
    let federated = METHODS
        .iter()
        .filter(|entry| entry.placement == Placement::Federated);
    let of_methods = federated.map(|entry| (entry.name, "training.rounds=2"));
    for (method, more) in of_methods.chain(of_modes) {
        let joins = a_fifth(NEVER, "ratings = [0, 2]");
        let outcome = run(small_with(method, &[&joins, more]), 2);
        assert_finite(&outcome);
        assert_balanced(&outcome);
        let users = outcome.users.as_ref().unwrap();
        let absent = users.iter().filter(|user| user.account.invited == 0);
        assert!(absent.count() >= 8, "{method}, {more}");
        let counts = newcomers(&outcome)
            .after_ratings
            .iter()
            .map(|after: &AfterRatings| after.users);
        assert_eq!(counts.collect::<Vec<_>>(), [8, 8], "{method}, {more}");
    }
}

/// If this fails, ranks that each know their own users run with newcomers, and count what these have
/// rated.
#[test]
fn newcomers_are_refused_on_several_ranks() {
    for comes in ["users", "items"] {
        let joins = match comes {
            "users" => a_fifth(1.0, "ratings = [0]"),
            _ => "joins={ items = { share = 0.2 }, at_s = 1, stage_s = 1 }".to_owned(),
        };
        let refused = fedrecsim_ranks::check(&small_with("fedmf", &[&joins]));
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("run it without mpirun"),
            "{comes}: {refused}"
        );
    }
}

/// If this fails, newcomers who cannot be are accepted, or the message does not say why.
#[test]
fn newcomers_who_cannot_be_are_refused() {
    let refused = |method: &str, overrides: &[&str]| {
        let scenario = small_with(method, overrides);
        let data = dataset::load(&scenario.dataset, &[], Streams::new(1)).unwrap();
        let world = World::new(scenario, Arc::new(data));
        world.map(|_| ()).unwrap_err().to_string()
    };
    let named = |names: &str| format!("joins={{ users = {{ names = [{names}] }}, at_s = 1 }}");
    let everybody: Vec<String> = (0..40).map(|user| format!("\"{user}\"")).collect();
    let share = a_fifth(1.0, "ratings = [0]");
    for (method, joins, more, expected) in [
        ("fedmf", named("\"40\""), "seed=3", "joins.users.names: "),
        (
            "fedmf",
            named(&everybody.join(", ")),
            "seed=3",
            "everybody comes later",
        ),
        (
            "fedmf",
            named("\"1\""),
            "evaluation.users=1",
            "of the 1 evaluated users comes later",
        ),
        ("fedpergnn", share, "seed=3", "asks a third party"),
    ] {
        let found = refused(method, &[&joins, more]);
        assert!(found.contains(expected), "{found}");
    }
}
