//! Checks the public data sets, if they are at hand; they may not be part of this project.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::PathBuf;

use crate::dataset::candidates::{Against, CandidateScratch, Candidates};
use crate::dataset::negatives::{NegativeSampler, Samples};
use crate::dataset::registry::RatingsFile;
use crate::dataset::{Dataset, delimited, load, public, registry};
use fedrecsim_core::{InvitationId, Streams, UserId};
use fedrecsim_scenario::{DatasetName, DatasetSpec, EvaluationSpec, NegativePool, NegativesSpec};

/// Returns the file of the data set if it is in `$FEDRECSIM_DATA`, `data/` or `../shared/data`.
/// Otherwise prints that and why the test is skipped, and returns `None`.
fn find_or_skip(spec: &DatasetSpec) -> Option<RatingsFile> {
    let found = registry::locate(spec, &folders());
    if let Err(error) = &found {
        // This writes straight to standard error, as the test harness swallows what passing tests
        // print.
        let _ = writeln!(std::io::stderr(), "skipped: {error}");
    }
    found.ok()
}

fn folders() -> Vec<PathBuf> {
    let project = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = std::env::var_os("FEDRECSIM_DATA").map(PathBuf::from);
    let usual = [project.join("data"), project.join("../shared/data")];
    named.into_iter().chain(usual).collect()
}

/// Returns the data set, if its file is found.
fn load_or_skip(name: DatasetName, minimum_interactions: u32) -> Option<Dataset> {
    let spec = DatasetSpec {
        minimum_interactions,
        ..DatasetSpec::named(name)
    };
    find_or_skip(&spec)?;
    Some(load(&spec, &folders(), Streams::new(1)).unwrap())
}

/// Returns the numbers of ratings (the two held-out ones of every user included), users and items.
fn size(dataset: &Dataset) -> (usize, usize, usize) {
    (
        dataset.training_ratings() + 2 * dataset.users(),
        dataset.users(),
        dataset.items(),
    )
}

/// If this fails, a data set that is called tried has other numbers than the published ones, or is read
/// in another way than it is laid out.
#[test]
fn what_is_tried_has_its_published_size() {
    for set in public::datasets().iter().filter(|set| set.tried) {
        let Some(file) = find_or_skip(&DatasetSpec::named(set.id)) else {
            continue;
        };
        let read = delimited::read(&file.path, &file.layout).unwrap();
        let found = [
            read.user_names.len(),
            read.items() as usize,
            read.interactions.len(),
        ];
        let size = &set.size;
        let published = [size.users, size.items, size.ratings].map(|count| count as usize);
        assert_eq!(found, published, "{}", set.name);
    }
}

#[test]
fn lastfm_has_the_size_and_the_lonely_test_items_of_fedraps_split() {
    let Some(dataset) = load_or_skip(DatasetName::LastFm2k, 10) else {
        return;
    };
    assert_eq!(size(&dataset), (92_780, 1_874, 17_612));
    let mut listeners = dataset.popularity();
    let users = (0..dataset.users()).map(UserId::from);
    for user in users.clone() {
        listeners[dataset.test(user).items[0] as usize] += 1;
        listeners[dataset.validation(user).items[0] as usize] += 1;
    }
    let lonely = users
        .filter(|&user| listeners[dataset.test(user).items[0] as usize] == 1)
        .count();
    assert_eq!(lonely, 1_168);
}

/// Returns HR@10 and NDCG@10 of popularity, with ties lost.
fn popularity_accuracy(dataset: &Dataset, seed: u64) -> (f64, f64) {
    let candidates =
        Candidates::draw(dataset, &EvaluationSpec::default(), Streams::new(seed)).unwrap();
    let popularity = dataset.popularity();
    let mut scratch = CandidateScratch::default();
    let (mut hits, mut gain) = (0.0, 0.0);
    for (position, &user) in candidates.evaluated_users().iter().enumerate() {
        let held_out = popularity[dataset.test(user).items[0] as usize];
        let against = candidates.list(Against::TestCandidates, dataset, position, &mut scratch);
        let rank = against
            .iter()
            .filter(|&&item| popularity[item as usize] >= held_out)
            .count();
        if rank < 10 {
            hits += 1.0;
            gain += 1.0 / libm::log2(rank as f64 + 2.0);
        }
    }
    let users = candidates.evaluated_users().len() as f64;
    (hits / users, gain / users)
}

#[test]
fn popularity_on_ml_100k_is_as_measured_elsewhere() {
    // Three draws of candidates give .411 / .230 on average; another split, or candidates that were
    // rated, would show.
    let Some(dataset) = load_or_skip(DatasetName::Ml100k, 0) else {
        return;
    };
    for seed in 1..=3 {
        let (hit_ratio, ndcg) = popularity_accuracy(&dataset, seed);
        println!("popularity, seed {seed}: HR@10 {hit_ratio:.3}, NDCG@10 {ndcg:.3}");
        assert!(
            (hit_ratio - 0.411).abs() < 0.02 && (ndcg - 0.230).abs() < 0.02,
            "{hit_ratio} / {ndcg}"
        );
    }
}

#[test]
fn every_ml_100k_user_has_negatives_in_both_pools() {
    let Some(dataset) = load_or_skip(DatasetName::Ml100k, 0) else {
        return;
    };
    for pool in [NegativePool::Unrated, NegativePool::NotInTrain] {
        let mut sampler = NegativeSampler::new(
            dataset.items(),
            &NegativesSpec {
                pool,
                per_positive: 4,
            },
        );
        let (mut samples, mut total) = (Samples::default(), 0);
        for user in (0..dataset.users()).map(UserId::from) {
            sampler
                .draw(
                    &dataset,
                    Streams::new(1),
                    user,
                    InvitationId(0),
                    &mut samples,
                )
                .unwrap();
            total += samples.items.len();
        }
        assert_eq!(total, dataset.training_ratings() * 5);
    }
}
