//! Checks that every method that ranks tells two groups of users apart under the pool of negatives
//! that a device can know, or is on the list of those that cannot.

use std::collections::BTreeSet;

use fedrecsim_core::{PortableDraws, Purpose, Streams};
use fedrecsim_data::dataset;
use fedrecsim_sim::{self as sim, RunControl, World};

use crate::support::{Workshop, final_hr, methods, parse};

/// How HR@10 is expected to compare with the better one of `popularity` and `random`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Expected {
    /// It is better by [`WELL_ABOVE`] or more.
    WellAbove,
    /// It is better by less than [`HARDLY`], for this reason.
    Hardly(&'static str),
}
use Expected::{Hardly, WellAbove};

/// Which ratings a method learns from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Data {
    /// What users have rated.
    Positives,
    /// How they have rated it.
    Ratings,
}
use Data::{Positives, Ratings};

/// HR@10 of a method that tells the groups apart is at least so far above that of the baselines.
const WELL_ABOVE: f64 = 0.4;

/// HR@10 of a method that does not is less than this above that of the baselines.
const HARDLY: f64 = 0.2;

/// Lists every method with its parameters, what it learns from, and what is expected of it. The
/// default rates of some are meant for thousands of users or steps. A method stands several times
/// where its parameters decide.
const ARMS: &[(&str, &str, Data, Expected)] = &[
    (
        "fedrap",
        "{}",
        Positives,
        Hardly(
            "at the published rates each device's own D fits the positives before C tells of those of others",
        ),
    ),
    (
        "fedrap",
        "{ tables = \"d-only\" }",
        Positives,
        Hardly("nothing travels, and no device knows of the group"),
    ),
    (
        "fedrap",
        "{ learning_rate_tables = 10 }",
        Positives,
        WellAbove,
    ),
    (
        "fedrap",
        "{ learning_rate_tables = 100, tables = \"c-only\" }",
        Positives,
        WellAbove,
    ),
    (
        "feddad",
        "{}",
        Positives,
        Hardly(
            "each device has a vector and a table of its own, which start as large as what is shared",
        ),
    ),
    ("pfedrec", "{}", Positives, WellAbove),
    (
        "gpfedrec",
        "{}",
        Positives,
        Hardly(
            "at the published rates it has only begun after so few rounds, as on MovieLens 100K",
        ),
    ),
    ("cofedrec", "{}", Positives, WellAbove),
    (
        "cgfedrec",
        "{}",
        Positives,
        Hardly(
            "of others a device learns clusters of the mean table alone, in which both groups are one",
        ),
    ),
    ("fedpeft", "{ learning_rate = 0.1 }", Positives, WellAbove),
    (
        "fedca",
        "{}",
        Positives,
        Hardly("a tenth of the devices take a tenth of the tables of a tenth"),
    ),
    (
        "fedca",
        "{ learning_rate = 0.05, mixed_share = 1, own_share = 0 }",
        Positives,
        WellAbove,
    ),
    (
        "fedem",
        "{}",
        Positives,
        Hardly("a tenth of the devices move towards mixtures that are mostly their own tables"),
    ),
    (
        "fedem",
        "{ mixed_share = 1, similarity = 0 }",
        Positives,
        Hardly("the networks soon keep each device's own rows, whatever it receives"),
    ),
    (
        "fedem",
        "{ learning_rate = 0.03, learning_rate_adapter = 1e-4, mixed_share = 1, similarity = 0 }",
        Positives,
        WellAbove,
    ),
    (
        "fedea",
        "{}",
        Positives,
        Hardly("as FedEM, and a tenth as fast"),
    ),
    (
        "fedea",
        "{ learning_rate = 0.03, learning_rate_adapter = 1e-4, mixed_share = 1, similarity = 0 }",
        Positives,
        WellAbove,
    ),
    ("fedmf", "{}", Positives, WellAbove),
    (
        "fedmf",
        "{ dual_personalization = true, learning_rate_items = 300 }",
        Positives,
        WellAbove,
    ),
    ("fedncf", "{}", Positives, WellAbove),
    (
        "fedncf",
        "{ dual_personalization = true }",
        Positives,
        WellAbove,
    ),
    (
        "fedrecon",
        "{ learning_rate_items = 200 }",
        Positives,
        WellAbove,
    ),
    (
        "fedrecon",
        "{ dual_personalization = true, learning_rate_items = 200 }",
        Positives,
        WellAbove,
    ),
    ("colr", "{}", Positives, WellAbove),
    (
        "metamf",
        "{ learning_rate = 0.01, hidden_units = 128 }",
        Positives,
        WellAbove,
    ),
    ("fcf", "{}", Positives, WellAbove),
    ("fcf-bts", "{ row_share = 0.5 }", Positives, WellAbove),
    ("fedgram", "{}", Positives, WellAbove),
    ("fedspec", "{}", Positives, WellAbove),
    ("privirec", "{}", Positives, WellAbove),
    (
        "fedcia",
        "{ learning_rate = 0.05, local_epochs = 5, alignment_steps = 20 }",
        Positives,
        WellAbove,
    ),
    ("fedcia-gsp", "{}", Positives, WellAbove),
    ("lightfr", "{}", Positives, WellAbove),
    (
        "feddae",
        "{ latent_dimension = 8, outer_units = 32, inner_units = 16, gate_units = 8, learning_rate = 0.01, \
         server_rate = 0.02 }",
        Positives,
        WellAbove,
    ),
    (
        "feddae",
        "{ variant = \"paper\", latent_dimension = 8, outer_units = 32, inner_units = 16, gate_units = 8, \
         learning_rate = 0.01, server_rate = 0.02 }",
        Positives,
        WellAbove,
    ),
    ("adafedrec", "{}", Positives, WellAbove),
    (
        "fedtide",
        "{ period_days = 2, periods = 1 }",
        Positives,
        WellAbove,
    ),
    ("fedrec-pmf", "{}", Ratings, WellAbove),
    (
        "fedrec-svdpp",
        "{ learning_rate = 0.2, learning_rate_decay = 0.99 }",
        Ratings,
        WellAbove,
    ),
    (
        "fedpergnn",
        "{ latent_dimension = 8, own_items = 8, neighbours_per_item = 4 }",
        Ratings,
        Hardly("the published predictor orders items alike for everybody"),
    ),
    (
        "fedpergnn",
        "{ predictor = \"product\", latent_dimension = 8, own_items = 8, neighbours_per_item = 4, learning_rate = 10, \
         clip_norm = 1000, dropout = 0, pseudo_items = 0, epsilon = 0 }",
        Ratings,
        Hardly(
            "before user and item interact the slope is hardly steep: 360 steps are too few here, and enough on the \
             rated checkerboard with half as many items",
        ),
    ),
    ("mf", "{}", Positives, WellAbove),
    ("centrap", "{}", Positives, WellAbove),
    (
        "pmf",
        "{ learning_rate = 0.2, learning_rate_decay = 0.99 }",
        Ratings,
        WellAbove,
    ),
    (
        "svdpp",
        "{ learning_rate = 0.2, learning_rate_decay = 0.99 }",
        Ratings,
        WellAbove,
    ),
    ("ease", "{}", Positives, WellAbove),
    ("itemknn", "{}", Positives, WellAbove),
    ("ials", "{}", Positives, WellAbove),
    ("bpr-mf", "{}", Positives, WellAbove),
    (
        "ncf",
        "{ learning_rate = 0.01, deviation = 0.1 }",
        Positives,
        WellAbove,
    ),
    ("lightgcn", "{}", Positives, WellAbove),
    (
        "popularity",
        "{}",
        Positives,
        Hardly("it orders items alike for everybody"),
    ),
    ("random", "{}", Positives, Hardly("it learns nothing")),
    (
        "global-mean",
        "{}",
        Ratings,
        Hardly("it scores all items alike"),
    ),
    (
        "user-mean",
        "{}",
        Ratings,
        Hardly("it scores all items of a user alike"),
    ),
    (
        "item-mean",
        "{}",
        Positives,
        Hardly("it orders items alike for everybody"),
    ),
    ("fedmf-trimmed", "{}", Positives, WellAbove),
    ("fedbpr", "{}", Positives, WellAbove),
];

/// A scenario of thirty rounds.
const SCENARIO: &str = r#"
method = "random"
training.rounds = 30
[dataset]
name = "delimited"
path = "groups.txt"
columns = { separator = " ", user = 1, item = 2 }
negatives = { pool = "not-in-train" }
[evaluation]
ranking = "full-catalogue"
every_rounds = 30
"#;

/// Returns ratings by sixty users in two groups of a catalogue of eighty items. Even users like the
/// even items, odd users the odd ones, and each has rated 32 of the 40 that it likes with 5, at
/// random. The last two are held out. With [`Data::Ratings`] each has rated 16 of the others with 1
/// before.
fn two_groups(data: Data) -> String {
    let mut stream = Streams::new(5).stream(Purpose::GeneratedRatings, 0, 0);
    let mut text = String::new();
    for user in 0..60 {
        let mut items: [Vec<u32>; 2] =
            [1, 0].map(|other| (0..40).map(|item| 2 * item + (user + other) % 2).collect());
        items
            .iter_mut()
            .for_each(|items| stream.shuffle_portably(items));
        let [others, own] = &items;
        if data == Ratings {
            others[..16]
                .iter()
                .for_each(|item| text += &format!("{user} {item} 1\n"));
        }
        own[..32]
            .iter()
            .for_each(|item| text += &format!("{user} {item} 5\n"));
    }
    text
}

/// Returns test HR@10 after the last round.
fn hr(method: &str, parameters: &str, data: Data) -> f64 {
    let workshop = Workshop::new();
    workshop.write("groups.txt", &two_groups(data));
    let method = format!("method.{method}={parameters}");
    let mut overrides = vec![method.as_str()];
    overrides.extend((data == Ratings).then_some("dataset.columns.rating=3"));
    let scenario = parse(SCENARIO, &overrides);
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
    final_hr(&outcome)
}

/// If this fails, a method no longer learns what other users' ratings tell, or is on the list of
/// those that do not although it does, or a new method is not on the list.
#[test]
fn every_method_tells_two_groups_apart_under_the_honest_pool_or_the_list_says_why_not() {
    let listed: BTreeSet<&str> = ARMS.iter().map(|(method, ..)| *method).collect();
    assert_eq!(listed, methods().iter().map(|entry| entry.name).collect());
    let best_baseline = |data| hr("popularity", "{}", data).max(hr("random", "{}", data));
    let baselines = [Positives, Ratings].map(best_baseline);
    for (method, parameters, data, expected) in ARMS {
        let baseline = baselines[usize::from(*data == Ratings)];
        let hr = hr(method, parameters, *data);
        match expected {
            WellAbove => assert!(
                hr >= baseline + WELL_ABOVE,
                "{method} {parameters}: HR@10 {hr} beside {baseline}"
            ),
            Hardly(reason) => {
                assert!(
                    hr < baseline + HARDLY,
                    "{method} {parameters}: HR@10 {hr} beside {baseline}, although {reason}"
                );
            }
        }
    }
}
