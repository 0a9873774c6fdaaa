use std::io::Write;
use std::path::PathBuf;

use fedrecsim_core::Streams;
use fedrecsim_data::dataset;
use fedrecsim_sim::{self as sim, Outcome, RunControl, World};

use crate::support::{assert_balanced, assert_finite, final_hr, load, parse, repository};

/// Returns the first data folder that has one of `files`: `$FEDRECSIM_DATA`, `data/`,
/// `../shared/data`. If there is none, says so on standard error and returns `None`, and the test
/// is skipped.
fn data_folder(files: &[&str]) -> Option<PathBuf> {
    let named = std::env::var_os("FEDRECSIM_DATA").map(PathBuf::from);
    let folders: Vec<PathBuf> = named
        .into_iter()
        .chain(["data", "../shared/data"].map(repository))
        .collect();
    let found = folders
        .iter()
        .find(|folder| files.iter().any(|file| folder.join(file).is_file()));
    if found.is_none() {
        // This writes straight to standard error, as the test harness swallows what passing tests
        // print.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: there is no {} in {folders:?}",
            files.join(" or ")
        );
    }
    found.cloned()
}

fn run_file(scenario: &str, overrides: &[&str], folder: PathBuf) -> Outcome {
    let scenario = load(scenario, overrides);
    let dataset = dataset::load(&scenario.dataset, &[folder], Streams::new(scenario.seed)).unwrap();
    let world = World::new(scenario, dataset.into()).unwrap();
    let outcome = sim::run(world, &RunControl::with_threads(2), &mut ()).unwrap();
    assert!(outcome.stopped_by.is_none(), "{:?}", outcome.stopped_by);
    assert_balanced(&outcome);
    assert_finite(&outcome);
    outcome
}

/// If this fails, the split, the candidates or the ranking are not those of the papers. (Three
/// draws of candidates give .411 / .230 with an independent implementation.)
#[test]
fn popularity_on_ml_100k_is_what_an_independent_implementation_gets() {
    let Some(folder) = data_folder(&["ml-100k/u.data"]) else {
        return;
    };
    let outcome = run_file("scenarios/ml100k-popularity.toml", &[], folder);
    assert_eq!((outcome.size.users, outcome.size.items), (943, 1682));
    assert_eq!(outcome.size.training_ratings, 100_000 - 2 * 943);
    let test = &outcome.rounds[0].accuracy.as_ref().unwrap().test;
    let (hr, ndcg) = (test["hr@10"], test["ndcg@10"]);
    println!("HR@10 {hr:.4}, NDCG@10 {ndcg:.4}");
    assert!(
        (hr - 0.411).abs() < 0.02 && (ndcg - 0.230).abs() < 0.02,
        "{hr} / {ndcg}"
    );
    assert_eq!(outcome.bytes, Default::default());
}

#[test]
fn pfedrec_on_ml_100k_learns_and_pays_for_every_byte() {
    let Some(folder) = data_folder(&["ml-100k/u.data"]) else {
        return;
    };
    let outcome = run_file(
        "scenarios/ml100k-pfedrec.toml",
        &["training.rounds=3"],
        folder,
    );
    assert_eq!(outcome.rounds.len(), 3);
    let (rows, users) = (1682, 943);
    assert_eq!(outcome.bytes.down.sent, 3 * users * (28 + 4 * 32 * rows));
    assert!(
        outcome.bytes.up.sent < outcome.bytes.down.sent,
        "rows are fewer than the table has"
    );
    let losses: Vec<f64> = outcome
        .rounds
        .iter()
        .map(|round| round.loss.unwrap())
        .collect();
    assert!(
        losses.windows(2).all(|pair| pair[1] < pair[0]),
        "{losses:?}"
    );
    assert!(
        final_hr(&outcome) > outcome.baselines["random"].test["hr@10"],
        "{}",
        final_hr(&outcome)
    );
}

/// Runs popularity on one of the other public data sets.
fn popularity_over(name: &str, folder: PathBuf) -> Outcome {
    let text =
        format!("method = \"popularity\"\n[dataset]\nname = \"{name}\"\n[training]\nrounds = 1\n");
    let scenario = parse(&text, &[]);
    let dataset = dataset::load(&scenario.dataset, &[folder], Streams::new(scenario.seed)).unwrap();
    let world = World::new(scenario, dataset.into()).unwrap();
    sim::run(world, &RunControl::with_threads(2), &mut ()).unwrap()
}

#[test]
fn ml_1m_loads_and_popularity_is_what_an_independent_implementation_gets() {
    let Some(folder) = data_folder(&["ml-1m/ratings.dat", "ml-1m/ratings.csv"]) else {
        return;
    };
    let outcome = popularity_over("ml-1m", folder);
    assert_eq!((outcome.size.users, outcome.size.items), (6040, 3706));
    assert_eq!(outcome.size.training_ratings, 1_000_209 - 2 * 6040);
    let test = &outcome.rounds[0].accuracy.as_ref().unwrap().test;
    assert!(
        (test["hr@10"] - 0.462).abs() < 0.02 && (test["ndcg@10"] - 0.255).abs() < 0.02,
        "{test:?}"
    );
}

#[test]
fn lastfm_loads_with_the_filter_of_the_paper() {
    let Some(folder) = data_folder(&[
        "lastfm-2k/user_artists.dat",
        "hetrec2011-lastfm-2k/user_artists.dat",
    ]) else {
        return;
    };
    let outcome = popularity_over("lastfm-2k", folder);
    assert_eq!((outcome.size.users, outcome.size.items), (1874, 17_612));
    assert_eq!(outcome.size.training_ratings, 92_780 - 2 * 1874);
    // Most held-out artists have no other listener, and a tie ranks the held-out item last, so even
    // chance does better.
    let (popularity, random) = (
        final_hr(&outcome),
        outcome.baselines["random"].test["hr@10"],
    );
    println!("HR@10: popularity {popularity:.4}, random {random:.4}");
    assert!(
        popularity < random,
        "popularity {popularity}, random {random}"
    );
}
