//! Data sets split by rank, where each rank holds the ratings of its own users, and what is
//! refused.

use std::fmt::Write as _;

use fedrecsim_ranks as ranks;

use super::assert_same;
use super::harness::Way;
use crate::support::{Workshop, parse, run, small_of_ratings, small_with};

/// Returns the text of a ratings file with times, where some users have few ratings.
fn ratings() -> String {
    let mut text = String::new();
    for row in 0..900u32 {
        let user = if row % 90 == 0 {
            100 + row
        } else {
            row * 7919 % 31
        };
        writeln!(
            text,
            "u{user} i{} {} {}",
            row * row % 89,
            f64::from(row % 9) / 2.0 + 0.5,
            row * 31 % 200
        )
        .unwrap();
    }
    text
}

/// If this fails, what a rank holds of a file, or of held-out ratings, is not what one process has
/// of its users.
#[test]
fn files_and_held_out_ratings_come_to_the_same_digest() {
    let workshop = Workshop::new();
    workshop.write("ratings.txt", &ratings());
    let columns = "columns = { separator = \" \", user = 1, item = 2, rating = 3, timestamp = 4, timestamp_format = \"seconds\" }";
    let dataset = format!(
        "[dataset]\nname = \"delimited\"\npath = \"ratings.txt\"\n{columns}\nminimum_interactions = 5\n"
    );
    let file = |method: &str, more: &str| {
        parse(
            &format!("seed = 3\nmethod = \"{method}\"\ntraining.rounds = 2\n{dataset}{more}"),
            &[],
        )
    };
    let ranked = "[evaluation]\nranking.sampled.candidates = 12\n";
    let scenarios = [
        file("fedmf", ranked),
        file("popularity", ranked),
        file(
            "fedmf",
            &format!("{ranked}[dataset.split.holdout]\nvalidation_share = 0.1\n"),
        ),
        file(
            "fedmf",
            &format!("{ranked}[dataset.split.leave-one-out]\nsession_gap_days = 1e-4\n"),
        ),
        file(
            "fedmf",
            &format!(
                "{ranked}[dataset.split.global-time]\ncut = 0.6\nvalidation_share = 0.1\nnew_users = true\n"
            ),
        ),
        file("fedrec-pmf", "[dataset.split.k-fold]\n"),
        file("pmf", "[dataset.split.k-fold]\n"),
        small_of_ratings("fedrec-pmf", &[]),
        small_of_ratings("pmf", &[]),
    ];
    let directories = vec![workshop.path("")];
    for scenario in scenarios {
        let what = format!("{} of {:?}", scenario.method.name, scenario.dataset.name);
        let way = |ranks| Way {
            directories: directories.clone(),
            ..Way::new(ranks, 1)
        };
        let one = way(1).run(&scenario);
        assert_same(&one, &way(3).run(&scenario), &what);
    }
}

/// If this fails, the server picks other users on ranks, or an audit compares uploads with what
/// rank 0 does not have.
#[test]
fn what_the_server_does_with_ratings_comes_to_the_same_digest() {
    for overrides in [
        &[
            "training.client_selection=\"by-data-size\"",
            "training.participation.cohort=9",
        ][..],
        &[
            "audit.every_rounds=1",
            "audit.users=20",
            "codec.uplink=\"rows-f32\"",
        ],
    ] {
        let scenario = small_with("fedmf", overrides);
        assert!(ranks::server_needs_ratings(&scenario, &crate::support::methods()).unwrap());
        assert_same(
            &run(scenario.clone(), 1),
            &Way::new(3, 1).run(&scenario),
            overrides[0],
        );
    }
}

/// If this fails, ranks with other data than rank 0 begin a run together.
#[test]
fn a_rank_with_other_data_is_refused() {
    let identity = |digest: &str| {
        vec![(
            "digest of the data set and the traces".to_owned(),
            digest.to_owned(),
        )]
    };
    let (of_zero, mut of_one) = ranks::in_memory(1);
    let other = std::thread::spawn(move || ranks::announce(of_one.as_mut(), Ok(identity("b"))));
    let mut crew = ranks::Crew::assembling(vec![of_zero]);
    let told = crew.agree(&identity("a"), true).unwrap_err().to_string();
    assert!(
        told.contains("rank 1 has `b` where rank 0 has `a` as its digest of the data set"),
        "{told}"
    );
    drop(crew);
    assert!(!other.join().unwrap().unwrap());
}
