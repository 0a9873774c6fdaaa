//! Checks that every method learns ratings with an obvious pattern, and that a method that cannot
//! learn it does not.

use fedrecsim_core::{PortableDraws, Purpose, Stream, Streams};
use fedrecsim_data::dataset;
use fedrecsim_methods::{Entry, Placement};
use fedrecsim_sim::{self as sim, RunControl, World};

use crate::support::{Workshop, methods, parse};

/// The methods that predict ratings. They can rank as well, but learn nothing from positives alone.
const PREDICT_RATINGS: [&str; 7] = [
    "global-mean",
    "user-mean",
    "fedrec-pmf",
    "fedrec-svdpp",
    "fedpergnn",
    "pmf",
    "svdpp",
];

fn stream() -> Stream {
    Streams::new(5).stream(Purpose::GeneratedRatings, 0, 0)
}

/// Returns ratings as on a checkerboard: even users rate even items, odd users odd ones. Every user
/// has rated 16 of the 20 items of the user's colour, at random; there are 40 items and 60 users.
fn checkerboard() -> String {
    let mut stream = stream();
    let mut text = String::new();
    for user in 0..60 {
        let mut items: Vec<u32> = (0..20).map(|item| 2 * item + user % 2).collect();
        stream.shuffle_portably(&mut items);
        items[..16]
            .iter()
            .for_each(|item| text += &format!("{user} {item}\n"));
    }
    text
}

/// Returns ratings of 24 of 40 items by each of 60 users: 5 for an item of the user's colour, and 1
/// for another.
fn rated_checkerboard() -> String {
    let mut stream = stream();
    let mut text = String::new();
    for user in 0..60 {
        let mut items: Vec<u32> = (0..40).collect();
        stream.shuffle_portably(&mut items);
        for item in &items[..24] {
            text += &format!(
                "{user} {item} {}\n",
                if item % 2 == user % 2 { 5 } else { 1 }
            );
        }
    }
    text
}

/// Returns the scenario's value of `method` for a method that is to learn in thirty steps. The
/// methods that are named here have default rates that are meant for thousands of users or steps.
pub(crate) fn quickly(name: &str) -> Vec<String> {
    let method = match name {
        "fedncf" => "method.fedncf={ optimizer = \"adam\", local_epochs = 10, learning_rate_user = 0.01, \
                     learning_rate_items = 0.01, learning_rate_network = 0.01 }"
            .to_owned(),
        "fedrecon" => "method.fedrecon={ learning_rate_items = 200 }".to_owned(),
        "gpfedrec" => {
            "method.gpfedrec={ learning_rate = 0.5, learning_rate_multiplier = 20 }".to_owned()
        }
        "cofedrec" | "cgfedrec" => {
            format!("method.{name}={{ clusters = 2, regularization = 0.5 }}")
        }
        "fedca" => {
            "method.fedca={ learning_rate = 0.05, mixed_share = 1, own_share = 0 }".to_owned()
        }
        "feddad" => "method.feddad={ learning_rate_items = 20 }".to_owned(),
        "fedem" | "fedea" => format!(
            "method.{name}={{ learning_rate = 0.05, mixed_share = 1, similarity = 0 }}"
        ),
        "fedpeft" => "method.fedpeft={ learning_rate = 0.1, local_epochs = 5 }".to_owned(),
        "fedcia" => "method.fedcia={ learning_rate = 0.05, local_epochs = 5, alignment_steps = 20 }".to_owned(),
        "feddae" => "method.feddae={ latent_dimension = 8, outer_units = 32, inner_units = 16, gate_units = 8, \
                     learning_rate = 0.01, server_rate = 0.02 }"
            .to_owned(),
        "adafedrec" => "method.adafedrec={ local_epochs = 5, autoencoder_steps = 300 }".to_owned(),
        "fcf-bts" => "method.fcf-bts={ row_share = 0.5 }".to_owned(),
        "metamf" => "method.metamf={ learning_rate = 0.01, hidden_units = 128 }".to_owned(),
        "centrap" => {
            "method.centrap={ batch_size = 400, learning_rate_network = 1, learning_rate_tables = 60 }".to_owned()
        }
        "mf" => "method.mf={ learning_rate = 0.02 }".to_owned(),
        "fedrec-pmf" | "fedrec-svdpp" | "pmf" | "svdpp" => {
            format!("method.{name}={{ learning_rate = 0.2, learning_rate_decay = 0.99 }}")
        }
        "fedpergnn" => "method.fedpergnn={ predictor = \"product\", latent_dimension = 8, own_items = 8, \
                        neighbours_per_item = 4, learning_rate = 10, clip_norm = 1000, dropout = 0, \
                        pseudo_items = 0, epsilon = 0 }"
            .to_owned(),
        "ncf" => "method.ncf={ learning_rate = 0.01, deviation = 0.1 }".to_owned(),
        "lightgcn" => "method.lightgcn={ learning_rate = 0.02, batch_size = 256 }".to_owned(),
        name => format!("method=\"{name}\""),
    };
    // Before user and item interact, the slope of a graph network is hardly steep, so that it takes
    // hundreds of steps.
    let steps = (name == "fedpergnn").then(|| "training.steps_per_round=12".to_owned());
    [method].into_iter().chain(steps).collect()
}

/// Returns a figure of the last round on these ratings.
fn figure(entry: &Entry, ratings: &str, scenario: &str, metric: &str) -> f64 {
    figure_of(&quickly(entry.name), ratings, scenario, metric)
}

/// Returns a figure of the last round on these ratings, with these overrides of the scenario.
fn figure_of(overrides: &[String], ratings: &str, scenario: &str, metric: &str) -> f64 {
    let workshop = Workshop::new();
    workshop.write("checkerboard.txt", ratings);
    let scenario = parse(
        scenario,
        &overrides.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let dataset = dataset::load(
        &scenario.dataset,
        &[workshop.path("")],
        Streams::new(scenario.seed),
    )
    .unwrap();
    let world = World::with_methods(scenario, dataset.into(), &methods()).unwrap();
    let outcome = sim::run(world, &RunControl::with_threads(2), &mut ()).unwrap();
    assert!(
        outcome.stopped_by.is_none(),
        "{overrides:?}: {:?}",
        outcome.stopped_by
    );
    outcome
        .rounds
        .last()
        .unwrap()
        .accuracy
        .as_ref()
        .unwrap()
        .test[metric]
}

/// A scenario of thirty rounds on the checkerboard, with negatives that are never held out.
const SCENARIO: &str = r#"
method = "random"
training.rounds = 30
[dataset]
name = "delimited"
path = "checkerboard.txt"
columns = { separator = " ", user = 1, item = 2 }
negatives = { pool = "unrated" }
[evaluation]
ranking = "full-catalogue"
every_rounds = 30
"#;

/// If this fails, a method that runs cannot learn to tell the colours of a checkerboard apart. (The
/// pool is `unrated`: each method learns at its usual rates with it. The other pool has its own
/// list, `planted_groups`.)
#[test]
fn every_method_with_user_parameters_learns_a_checkerboard_and_no_other_does() {
    for entry in methods()
        .iter()
        .filter(|entry| !PREDICT_RATINGS.contains(&entry.name))
    {
        // Popularity, random and the item mean give users of both colours the same scores.
        let learns = entry.placement != Placement::Untrained && entry.name != "item-mean";
        // A user has 24 unrated items, and a method that knows the user's colour ranks the five of
        // that colour first. At random, one in five of the held-out ones would be among the first
        // five.
        let hr = figure(entry, &checkerboard(), SCENARIO, "hr@5");
        assert!(
            if learns { hr > 0.6 } else { hr < 0.35 },
            "{}: HR@5 {hr}",
            entry.name
        );
    }
}

/// If this fails, a client scores with another table than the one that it has tuned, or has tuned
/// it for another score function than its own.
#[test]
fn every_method_with_dual_personalization_learns_a_checkerboard() {
    for method in [
        "method.fedmf={ dual_personalization = true }",
        "method.fedncf={ dual_personalization = true, optimizer = \"adam\", local_epochs = 10, \
         learning_rate_user = 0.01, learning_rate_items = 0.01, learning_rate_network = 0.01 }",
        "method.fedrecon={ dual_personalization = true, learning_rate_items = 200 }",
    ] {
        let hr = figure_of(&[method.to_owned()], &checkerboard(), SCENARIO, "hr@5");
        assert!(hr > 0.6, "{method}: HR@5 {hr}");
    }
}

/// If this fails, a method that predicts ratings does not learn them, or the list of such methods
/// is out of date.
#[test]
fn every_method_that_predicts_ratings_learns_a_rated_checkerboard_unless_it_takes_a_mean() {
    let scenario = r#"
method = "user-mean"
training.rounds = 30
[dataset]
name = "delimited"
path = "checkerboard.txt"
columns = { separator = " ", user = 1, item = 2, rating = 3 }
split = { k-fold = { folds = 5 } }
[evaluation]
every_rounds = 30
"#;
    for entry in methods()
        .iter()
        .filter(|entry| PREDICT_RATINGS.contains(&entry.name))
    {
        let rmse = figure(entry, &rated_checkerboard(), scenario, "rmse");
        // Ratings are two away from their mean.
        let learns = entry.placement != Placement::Untrained;
        assert!(
            if learns { rmse < 0.5 } else { rmse > 1.9 },
            "{}: RMSE {rmse}",
            entry.name
        );
    }
}

/// Returns ratings of 80 users in two groups. Each has rated five of the eight items that only the
/// group rates, all alike, and one of eight others, which one group likes and the other does not.
fn telling_items() -> String {
    let mut stream = stream();
    let mut text = String::new();
    for user in 0..80 {
        let group = user % 2;
        let mut items: Vec<u32> = (0..8).map(|item| 8 * group + item).collect();
        stream.shuffle_portably(&mut items);
        items[..5]
            .iter()
            .for_each(|item| text += &format!("{user} {item} 3\n"));
        let mut others: Vec<u32> = (16..24).collect();
        stream.shuffle_portably(&mut others);
        text += &format!("{user} {} {}\n", others[0], if group == 0 { 5 } else { 1 });
    }
    text
}

/// If this fails, SVD++ does not use which items a user has rated, which is what it has over matrix
/// factorisation.
#[test]
fn svd_plus_plus_learns_sooner_from_which_items_are_rated() {
    let scenario = r#"
method = "user-mean"
training.rounds = 20
[dataset]
name = "delimited"
path = "checkerboard.txt"
columns = { separator = " ", user = 1, item = 2, rating = 3 }
split = { k-fold = { folds = 5 } }
[evaluation]
every_rounds = 20
"#;
    let rmse = |name: &str| {
        let entry = *methods().iter().find(|entry| entry.name == name).unwrap();
        figure(&entry, &telling_items(), scenario, "rmse")
    };
    for (without, with) in [("fedrec-pmf", "fedrec-svdpp"), ("pmf", "svdpp")] {
        let (without, with) = (rmse(without), rmse(with));
        assert!(
            with < 0.8 * without && with < 0.3,
            "RMSE {with} with O and {without} without it"
        );
    }
}
