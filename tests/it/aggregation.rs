use std::sync::Arc;

use fedrecsim_core::{InvitationId, Round, Streams, UserId};
use fedrecsim_data::dataset::Interaction;
use fedrecsim_data::dataset::split::Splitter;
use fedrecsim_methods::declare::controlled;
use fedrecsim_methods::registry::{METHODS, build};
use fedrecsim_methods::{LocalTask, Placement, Problem, ScoringContext, Scratch};
use fedrecsim_scenario::{Aggregation, MethodSpec, NegativesSpec};
use fedrecsim_sim::testing::check_resumed_runs;

use crate::support::{SMALL, Workshop, assert_refusal, repository, run, small_with, world};

const NONE: &str = "training.aggregation=\"none\"";
const MEAN: &str = "training.aggregation=\"mean\"";

/// The methods that can be run under both controls.
const WITH_CONTROLS: [&str; 14] = [
    "fedrap", "feddad", "pfedrec", "gpfedrec", "fedca", "fedem", "fedea", "cofedrec", "cgfedrec",
    "fedmf", "fedncf", "fedrecon", "fedcia", "fedbpr",
];

/// Returns user 0's scores of all items after this many participations of three users who train
/// alone; the other two have the items `others`. Rates are made for one device.
fn scores_alone(method: &str, others: [u32; 3], rounds: u32) -> Vec<f32> {
    let mut splitter = Splitter::leave_one_out(60, false);
    for items in [[1, 5, 9], others, others.map(|item| item + 10)] {
        let rows: Vec<Interaction> = (0i64..)
            .zip(items)
            .map(|(time, item)| Interaction::new(item, 1.0, time))
            .collect();
        splitter.push_user(String::new, &rows);
    }
    let dataset = Arc::new(splitter.finish().unwrap());
    let (streams, negatives) = (Streams::new(2), NegativesSpec::default());
    let problem = Problem::new(&dataset, streams, Placement::Federated);
    let spec = MethodSpec {
        name: method.to_owned(),
        parameters: match method {
            "feddad" => serde_json::json!({ "learning_rate_items": 1.0 }),
            "fedrap" => serde_json::json!({ "learning_rate_tables": 1.0 }),
            "pfedrec" => serde_json::json!({ "item_learning_rate_multiplier": 0.1 }),
            "gpfedrec" => serde_json::json!({ "learning_rate_multiplier": 2.0 }),
            "fedca" | "fedem" | "fedea" | "fedcia" => serde_json::json!({}),
            "cofedrec" | "cgfedrec" => serde_json::json!({ "item_learning_rate_multiplier": 0.1 }),
            "fedmf" => {
                serde_json::json!({ "learning_rate_items": 50.0, "learning_rate_user": 5.0 })
            }
            _ => serde_json::json!({ "learning_rate_items": 1.0 }),
        },
    };
    let method = build(METHODS, &spec, &problem).unwrap();
    let method = controlled(method, Aggregation::None);
    let mut server = method.server();
    let mut clients = [0, 1, 2].map(|user| method.client(UserId(user)));
    let mut scratch = Scratch::default();
    for round in 0..rounds {
        let model = server.model().clone();
        for (user, client) in (0u32..).zip(&mut clients) {
            let names = (UserId(user), Round(round), InvitationId(3 * round + user));
            let own = dataset.own_data(names.0);
            let mut task = LocalTask::new(names, &model, own, streams, 1e6);
            task.negatives = Some((&dataset, &negatives));
            let trained = client.train(&task, &mut scratch).unwrap();
            assert!(trained.update.blocks.is_empty(), "{spec:?} sends something");
        }
        // Nobody downloads anything from the server.
        server.set_model(method.initial()).unwrap();
    }
    let own = dataset.own_data(UserId(0));
    let mut context = ScoringContext::new(UserId(0), server.model(), own, streams, &mut scratch);
    context.negatives = Some((&dataset, &negatives));
    let items: Vec<u32> = (0..60).collect();
    let mut scores = vec![0.0; items.len()];
    let scorer = clients[0].scorer(context).unwrap();
    scorer.score(&items, &mut scores).unwrap();
    scores
}

/// If this fails, something of what others have sent reaches a device that trains alone, or it does
/// not learn from what it has.
#[test]
fn the_ratings_of_others_change_nothing_for_a_device_that_trains_alone() {
    for method in WITH_CONTROLS.into_iter().filter(|name| *name != "fedbpr") {
        let scores = scores_alone(method, [2, 7, 30], 3);
        assert_eq!(scores, scores_alone(method, [3, 11, 40], 3), "{method}");
        assert_ne!(
            scores,
            scores_alone(method, [2, 7, 30], 0),
            "{method} learns nothing"
        );
    }
    let scores = scores_alone("fedmf", [2, 7, 30], 20);
    let mean = |is_meant: fn(usize) -> bool| {
        let items = (0..60).filter(|item| is_meant(*item));
        let (sum, count) = items.fold((0.0, 0.0), |(sum, n), item| (sum + scores[item], n + 1.0));
        sum / count
    };
    // The last rating is held out.
    assert!(mean(|item| [1, 5].contains(&item)) > mean(|item| ![1, 5, 9].contains(&item)) + 1.0);
}

/// If this fails, devices that train alone download something, send values, or come to nothing.
#[test]
fn devices_that_train_alone_exchange_nothing_and_keep_what_they_learn() {
    for method in WITH_CONTROLS {
        let (alone, together) = (
            run(small_with(method, &[NONE]), 2),
            run(small_with(method, &[]), 2),
        );
        assert_eq!(alone.bytes.down.sent, 0, "{method}");
        assert_eq!(alone.bytes.up.values, 0, "{method}");
        assert!(
            alone.bytes.up.sent < together.bytes.up.sent / 20,
            "{method}"
        );
        assert!(!alone.learned_nothing, "{method}");
        assert_eq!(
            alone.model,
            world(small_with(method, &[])).method.initial(),
            "{method}"
        );
        assert_ne!(alone.digest, together.digest, "{method}");
        let one_thread = run(small_with(method, &[NONE]), 1);
        assert_eq!(alone.digest, one_thread.digest, "{method}");
    }
}

/// If this fails, a device that goes on from a checkpoint has lost what it made of the model.
#[test]
fn devices_that_train_alone_go_on_from_checkpoints() {
    for method in ["pfedrec", "fedncf"] {
        let world = || Ok(world(small_with(method, &[NONE])));
        check_resumed_runs(&world).unwrap_or_else(|seen| panic!("{method}: {seen}"));
    }
}

/// If this fails, the plain mean is not that of a method which takes it anyway, or a method's own
/// rule is still in it.
#[test]
fn the_mean_is_what_fedmf_takes_and_other_rules_are_not() {
    let digests = |method: &str, more: &[&str]| {
        let with = |key: &[&str]| run(small_with(method, &[more, key].concat()), 2).digest;
        (with(&[]), with(&[MEAN]))
    };
    for method in ["fedmf", "pfedrec", "fedncf"] {
        let (own, mean) = digests(method, &[]);
        assert_eq!(own, mean, "{method}");
    }
    let (own, mean) = digests("fedrecon", &["method.fedrecon.learning_rate_server=0.5"]);
    assert_ne!(own, mean, "the server's rate");
    let (trimmed, mean) = digests("fedmf-trimmed", &[]);
    assert_ne!(trimmed, mean, "the trimmed mean");
    assert_eq!(mean, run(small_with("fedmf", &[]), 2).digest);
}

/// If this fails, a control runs that has no meaning for its method, or a user is not told why.
#[test]
fn methods_without_controls_say_why() {
    for entry in METHODS {
        let reason = entry.without_controls;
        for control in [NONE, MEAN] {
            let method = format!("method=\"{}\"", entry.name);
            let overrides = [method, control.to_owned()];
            let vocabulary = fedrecsim_methods::registry::vocabulary();
            let read = fedrecsim_scenario::parse(SMALL, "small.toml", &overrides, &vocabulary);
            match reason.filter(|_| entry.placement.is_on_devices()) {
                Some(reason) => {
                    let refused = read.unwrap_err().to_string();
                    assert!(refused.contains(reason), "{}: {refused}", entry.name);
                }
                None => drop(read.unwrap()),
            }
        }
    }
}

/// If this fails, scoring looks for a table that no device has downloaded.
#[test]
fn devices_that_train_alone_have_no_shared_table_to_score_with() {
    let workshop = Workshop::new();
    let overrides = [
        "method=\"pfedrec\"",
        NONE,
        "evaluation.item_table=\"shared\"",
    ];
    let parts = ["there is no shared item table", "evaluation.item_table"];
    workshop.refused(workshop.small(), &overrides, &parts);
}

/// If this fails, nobody sees that devices which share nothing do as well, or an honest run is warned of it.
#[test]
fn a_control_stands_beside_the_result() {
    let scenario = repository("scenarios/quickstart.toml");
    let few = [
        "training.rounds=10",
        "dataset.generator.users=250",
        "dataset.generator.items=500",
    ];
    let of = |more: &[&str]| {
        let workshop = Workshop::new();
        let words = workshop.arguments(scenario.clone(), &few);
        let finished = words
            .and(&["--control", "none"])
            .and(more)
            .carry_out()
            .unwrap();
        assert!(finished.errors.is_empty(), "{:?}", finished.errors);
        let run = workshop.run_json();
        let [own, alone] = ["/accuracy", "/baselines/devices alone"].map(|part| {
            run.pointer(&format!("{part}/test/hr@10"))
                .unwrap()
                .as_f64()
                .unwrap()
        });
        let warned = run["warnings"].to_string().contains("has shown nothing");
        (own, alone, warned, run["digest"].clone())
    };
    let (own, alone, warned, digest) = of(&[]);
    assert!(own < alone && warned, "{own} {alone} {warned}");
    let (own, alone, warned, _) = of(&["--set", "dataset.negatives.pool=not-in-train"]);
    assert!(alone < own && !warned, "{own} {alone} {warned}");
    // The run itself is what it is without a control.
    let workshop = Workshop::new();
    workshop.run(scenario.clone(), &few).unwrap();
    assert_eq!(workshop.run_json()["digest"], digest);
}

/// If this fails, a run is held against itself, or against something that says nothing of it.
#[test]
fn what_is_no_control_is_told() {
    let scenario = repository("scenarios/quickstart.toml");
    let of = |more: &[&str], controls: &[&str]| {
        let workshop = Workshop::new();
        let words = workshop.arguments(scenario.clone(), more);
        let finished = words.and(controls).carry_out();
        finished.map(|_| workshop.run_json())
    };
    for (method, because) in [
        ("fcf", "devices send gradients"),
        ("ials", "it runs at the server"),
        ("popularity", "it trains nothing"),
    ] {
        let method = format!("method=\"{method}\"");
        let error = of(&[&method], &["--control", "none"]).unwrap_err();
        assert_refusal(&error, &["--control: the method", because]);
    }
    let few = [
        "method=\"fedmf\"",
        "training.rounds=2",
        "dataset.generator.users=100",
        "dataset.generator.items=200",
    ];
    let both = ["--control", "none", "--control", "mean"];
    let run = of(&few, &both).unwrap();
    assert!(run.pointer("/baselines/devices alone").is_some());
    assert!(run.pointer("/baselines/plain mean").is_none());
    let warnings = run["warnings"].to_string();
    let same = "`fedmf` with a server that takes the plain mean is the same run";
    assert!(warnings.contains(same), "{warnings}");
}
