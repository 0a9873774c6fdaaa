use fedrecsim_core::{Streams, UserId};
use fedrecsim_data::dataset::{self, Dataset};
use fedrecsim_scenario::Scenario;

use crate::support::{Workshop, assert_balanced, run, small_of_ratings};

const METHOD: &str = "user-mean";

fn fold(fold: u32, method: &str) -> Scenario {
    small_of_ratings(
        method,
        &[
            "dataset.split.k-fold.folds=4",
            &format!("dataset.split.k-fold.fold={fold}"),
        ],
    )
}

fn data(scenario: &Scenario) -> Dataset {
    dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed)).unwrap()
}

/// If this fails, the errors of the baselines are not what the ratings say. This test computes them
/// from the data set alone.
#[test]
fn the_baselines_errors_are_those_of_the_means() {
    let scenario = fold(2, METHOD);
    let data = data(&scenario);
    let scale = data.rating_scale().unwrap();
    let (mut squares, mut magnitudes, mut of_everybody, mut count) = (0.0, 0.0, 0.0, 0.0);
    for user in (0..data.users()).map(UserId::from) {
        let mean = data.own_data(user).mean_rating().unwrap();
        for rating in data.test_ratings(user).unwrap().ratings.iter() {
            squares += (mean - f64::from(rating)).powi(2);
            magnitudes += (mean - f64::from(rating)).abs();
            of_everybody += (scale.training_mean - f64::from(rating)).powi(2);
            count += 1.0;
        }
    }
    let outcome = run(scenario, 2);
    let of = |baseline: &str, figure: &str| outcome.baselines[baseline].test[figure];
    for (found, expected) in [
        (of("user-mean", "rmse"), (squares / count).sqrt()),
        (of("user-mean", "mae"), magnitudes / count),
        (of("global-mean", "rmse"), (of_everybody / count).sqrt()),
    ] {
        assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
    }
    let last = outcome.rounds.last().unwrap().accuracy.as_ref().unwrap();
    assert_eq!(
        last, &outcome.baselines[METHOD],
        "the method and the baseline are one"
    );
    assert_eq!(last.validation, None);
    assert_balanced(&outcome);
}

/// If this fails, the folds of a cross-validation are not parts of one division.
#[test]
fn the_folds_of_a_seed_test_every_rating_once() {
    let mut tested = 0;
    for number in 0..4 {
        let data = data(&fold(number, METHOD));
        let own: usize = (0..data.users())
            .map(|user| data.test_ratings(UserId::from(user)).unwrap().items.len())
            .sum();
        assert!(
            own.abs_diff(data.training_ratings() / 3) <= 1,
            "{own} of {}",
            data.training_ratings()
        );
        tested += own;
        let all = own + data.training_ratings();
        assert!(number < 3 || tested == all, "{tested} of {all}");
    }
}

/// If this fails, the result of a fold depends on the number of threads, or two folds are one.
#[test]
fn a_fold_has_one_digest_at_any_number_of_threads() {
    let figures = |number, threads| {
        let outcome = run(fold(number, METHOD), threads);
        (
            outcome.digest,
            outcome.rounds.last().unwrap().accuracy.clone(),
        )
    };
    assert_eq!(figures(0, 1), figures(0, 3));
    assert_ne!(figures(0, 1).1, figures(1, 1).1);
}

/// If this fails, the report of a fold shows ranks, or the baselines of ranks.
#[test]
fn the_report_of_a_fold_tells_its_error_beside_the_means() {
    let workshop = Workshop::new();
    workshop
        .run(
            workshop.small_of_ratings(),
            &["method=\"global-mean\"", "dataset.split.k-fold.fold=3"],
        )
        .unwrap();
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    for part in [
        "RMSE (test)",
        "MAE (test)",
        "global-mean",
        "user-mean",
        "5-fold, test part 3",
        "part 3 of 5 (from 0)",
    ] {
        assert!(summary.contains(part), "no {part:?} in\n{summary}");
    }
    // The generator has a key with that word.
    let told = summary.split("## Scenario").next().unwrap();
    assert!(
        !told.contains("HR@") && !told.contains("popularity"),
        "{summary}"
    );
    assert_eq!(
        workshop.run_json()["scenario"]["evaluation"]["headline"],
        "rmse"
    );
}

/// If this fails, ratings are predicted where there are none, or a part without ratings is tested.
#[test]
fn what_cannot_be_divided_or_predicted_is_refused_by_name() {
    let workshop = Workshop::new();
    workshop.write(
        "implicit.csv",
        &(0..40)
            .map(|row| format!("{},{}\n", row % 4, row / 4 + row % 4))
            .collect::<String>(),
    );
    workshop.write(
        "likes.csv",
        &(0..40)
            .map(|row| format!("{},{},1\n", row % 4, row / 4 + row % 4))
            .collect::<String>(),
    );
    let scenario = |file: &str, rating: &str| {
        let text = format!(
            "method = \"user-mean\"\ntraining.rounds = 1\n[dataset]\nname = \"delimited\"\npath = \"{file}\"\n\
             split = {{ k-fold = {{ folds = 5, fold = 0 }} }}\ncolumns = {{ separator = \",\", user = 1, item = 2{rating} }}\n"
        );
        workshop.write("own.toml", &text)
    };
    let with_ratings = ", rating = 3";
    let refused = |file, rating, overrides: &[&str], parts: &[&str]| {
        workshop.refused(scenario(file, rating), overrides, parts);
    };
    refused(
        "implicit.csv",
        "",
        &[],
        &["`dataset.columns` names no column of ratings"],
    );
    refused(
        "likes.csv",
        with_ratings,
        &[],
        &[
            "`rmse`",
            "the data set is implicit",
            "all of them are alike",
        ],
    );
    refused(
        "likes.csv",
        with_ratings,
        &["dataset.split.k-fold.folds=41"],
        &["40 ratings cannot be divided into 41 parts (dataset.split.k-fold.folds)"],
    );
    refused(
        "likes.csv",
        with_ratings,
        &["dataset.split.k-fold.fold=5"],
        &["`fold` is 5", "numbered from 0 to 4"],
    );
    refused(
        "likes.csv",
        with_ratings,
        &["dataset.split.leave-one-out.validation_item=true"],
        &["`split` takes one of these", "`k-fold`, `leave-one-out`"],
    );
    refused(
        "likes.csv",
        with_ratings,
        &["dataset.validation_item=true"],
        &[
            "`validation_item` belongs to `[dataset.split.leave-one-out]` now",
            "which the file does not choose: take it out",
        ],
    );
    refused(
        "likes.csv",
        with_ratings,
        &["dataset.split.k-fold.validation_item=true"],
        &[
            "unknown key `validation_item` here; it belongs to `[dataset.split.leave-one-out]`",
            "which the file does not choose",
        ],
    );
    refused(
        "likes.csv",
        with_ratings,
        &["evaluation.selection=\"best-validation\""],
        &["`best-validation` needs validation items", "`k-fold`"],
    );
    for key in [
        "ranking=\"full-catalogue\"",
        "ranking.sampled.candidates=50",
        "ranking.sampled.shared_candidates=false",
        "cutoffs=[3]",
    ] {
        let name = key.split(['=', '.']).next().unwrap();
        let reason = format!("`{name}` says how held-out items are ranked");
        refused(
            "likes.csv",
            with_ratings,
            &[&format!("evaluation.{key}")],
            &[&reason, "`k-fold`"],
        );
    }
    workshop.refused(
        workshop.small_of_ratings(),
        &["dataset.split.k-fold.fold=0"],
        &["`fedrap` ranks items and predicts no ratings, which `k-fold` holds out"],
    );
    // What learns ratings has none in a file of pairs, and cannot tell ratings that are alike
    // apart.
    for (file, rating) in [("implicit.csv", ""), ("likes.csv", with_ratings)] {
        for method in ["fedrec-pmf", "fedrec-svdpp", "pmf", "svdpp"] {
            let method = format!("method=\"{method}\"");
            let overrides = [
                &method,
                "dataset.split=\"leave-one-out\"",
                "evaluation.ranking=\"full-catalogue\"",
            ];
            refused(
                file,
                rating,
                &overrides,
                &["learns ratings, but the data set is implicit"],
            );
        }
    }
    let errors = [
        "dataset.split=\"leave-one-out\"",
        "evaluation.metrics=[\"rmse\"]",
    ];
    refused(
        "likes.csv",
        with_ratings,
        &errors,
        &["`rmse`", "`dataset.split = \"k-fold\"`"],
    );
    let lastfm = "method = \"global-mean\"\ndataset.name = \"lastfm-2k\"\ntraining.rounds = 1\n";
    let lastfm = workshop.write("lastfm.toml", lastfm);
    workshop.write(
        "user_artists.dat",
        "userID\tartistID\tweight\n1\t1\t5\n1\t2\t9\n1\t3\t2\n1\t4\t7\n1\t5\t1\n",
    );
    let overrides = [
        "dataset.split.k-fold.folds=2",
        "dataset.path=\"user_artists.dat\"",
        "dataset.minimum_interactions=0",
    ];
    workshop.refused(lastfm, &overrides, &["the data set is implicit"]);
}
