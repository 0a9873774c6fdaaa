//! Noise on sums of uploads: how much of it there is, what one user moves, and what servers learn
//! that use sums alone.

use fedrecsim_core::{InvitationId, Round, Streams, UserId};
use fedrecsim_methods::server::Download;
use fedrecsim_methods::{Class, LocalTask, Phase, Scratch};
use fedrecsim_model::table::floats;
use fedrecsim_model::{Layout, Model, ModelUpdate};
use fedrecsim_scenario::UploadUse;
use fedrecsim_sim::Outcome;
use fedrecsim_sim::outcome::NoEpsilon;
use fedrecsim_sim::privacy::{Curve, SumNoise};

use super::{CENTRAL, DENSE, LOCAL, POISSON, ROWS, epsilons};
use crate::support::{run, small_with, world};

/// Returns the root of the mean square of what the first table of a run differs by from that at its
/// beginning.
fn moved(method: &str, overrides: &[&str], outcome: &Outcome) -> f64 {
    let start = world(small_with(method, overrides)).method.initial();
    let (start, end) = (start.table(0).as_slice(), outcome.model.table(0).as_slice());
    let squares = start
        .iter()
        .zip(end)
        .map(|(start, end)| (f64::from(*end) - f64::from(*start)).powi(2));
    (squares.sum::<f64>() / start.len() as f64).sqrt()
}

/// Clipped to next to nothing, contributions are noise alone: of this deviation on a sum.
const NOISE_ALONE: &str =
    "privacy.gaussian={ clip = 1e-6, noise_multiplier = 1e5, trust = \"central\" }";

/// If this fails, the noise on a sum is there more than once, or not in all rows.
#[test]
fn a_sum_has_the_noise_once() {
    let everybody = [NOISE_ALONE, "training.rounds=1", ROWS];
    let found = moved(
        "fedmf",
        &everybody,
        &run(small_with("fedmf", &everybody), 2),
    );
    // The sum of 40 contributions is divided by 40; of 1200 values and more, these bounds are five
    // deviations away.
    assert!((found / (0.1 / 40.0) - 1.0).abs() < 0.1, "{found}");
    let local = [
        "privacy.gaussian={ clip = 1e-6, noise_multiplier = 1e5, trust = \"local\" }",
        "training.rounds=1",
        DENSE,
    ];
    let found = moved("fedmf", &local, &run(small_with("fedmf", &local), 2));
    assert!((found / (0.1 / 40f64.sqrt()) - 1.0).abs() < 0.1, "{found}");
}

/// If this fails, a step without participants shows that there were none, or the divisor of a step
/// shows how many there were.
#[test]
fn a_step_of_nobody_has_noise_as_any_other() {
    let nobody = [
        NOISE_ALONE,
        "training.rounds=1",
        "training.participation={ poisson = 1e-3 }",
    ];
    let outcome = run(small_with("fedmf", &nobody), 2);
    assert_eq!(
        (outcome.rounds[0].invited, outcome.rounds[0].aggregated),
        (0, 0)
    );
    let found = moved("fedmf", &nobody, &outcome);
    assert!((found / (0.1 / 0.04) - 1.0).abs() < 0.1, "{found}");
    let half = [
        NOISE_ALONE,
        "training.rounds=1",
        "training.participation={ poisson = 0.5 }",
    ];
    let outcome = run(small_with("fedmf", &half), 2);
    let found = moved("fedmf", &half, &outcome);
    assert!(
        outcome.rounds[0].aggregated > 5 && (found / (0.1 / 20.0) - 1.0).abs() < 0.1,
        "{found}"
    );
}

/// Returns what an update contributes to the sums of the server, value by value.
fn contributed(update: &ModelUpdate, layout: &Layout, base: &Model) -> Vec<f64> {
    let mut values = Vec::new();
    for (block, described) in update.blocks.iter().zip(layout.blocks()) {
        let reference = base.base_of(described);
        let whole = block.to_whole_bytes(reference).unwrap();
        let downloaded = match reference {
            Some(table) => table.as_slice().to_vec(),
            None => vec![0.0; whole.len() / 4],
        };
        values.extend(
            floats(&whole)
                .zip(downloaded)
                .map(|(value, base)| f64::from(value) - f64::from(base)),
        );
    }
    values
}

/// If this fails, an upload adds more to a noisy sum than the sensitivity that the noise is made
/// for: all of it, the counts of FedGram, FedSpec and FedRec included, must be no longer than the
/// clip. In FedPerGNN a user is in others' uploads as well, and has no epsilon.
#[test]
fn no_upload_moves_a_sum_by_more_than_the_clip() {
    const CLIP: f64 = 0.5;
    for (method, option) in [
        ("fedgram", Some("sends_counts")),
        ("fedspec", Some("sends_counts")),
        ("privirec", Some("sends_counts")),
        ("fedrec-pmf", Some("sends_counts")),
        ("fedrec-svdpp", Some("sends_counts")),
        ("fedrecon", Some("equal_weights")),
        ("fedpergnn", Some("equal_weights")),
        ("fedpeft", Some("equal_weights")),
        ("fedmf", None),
        ("pfedrec", None),
        ("fedrap", None),
        ("colr", None),
        ("fcf", None),
        ("fcf-bts", None),
        ("fedcia", None),
        ("fedcia-gsp", None),
        ("lightfr", None),
        ("feddae", None),
        ("fedncf", None),
    ] {
        let option = option.map(|option| format!("method.{method}.{option}=true"));
        let world = world(small_with(
            method,
            &option.iter().map(String::as_str).collect::<Vec<_>>(),
        ));
        assert_eq!(
            world.method.server().upload_use(),
            UploadUse::Sum,
            "{method}"
        );
        let model = match world.method.server().download() {
            Download::Shared(model) => model,
            other => panic!("{method}: {other:?}"),
        };
        let (layout, negatives) = (
            world.method.upload_layout(Phase(0), Class(0)),
            &world.scenario.dataset.negatives,
        );
        let noise = SumNoise::new(
            small_with("fedmf", &[CENTRAL]).privacy.gaussian.unwrap(),
            None,
        );
        let mut longest = 0.0f64;
        for user in (0..world.dataset.users()).map(UserId::from) {
            let names = (user, Round(0), InvitationId(user.0));
            let own = world.dataset.own_data(names.0);
            let mut task = LocalTask::new(names, &model, own, Streams::new(3), 1e6);
            task.negatives = Some((&world.dataset, negatives));
            let mut update = world
                .method
                .client(user)
                .train(&task, &mut Scratch::default())
                .unwrap()
                .update;
            let before = contributed(&update, &layout, &model);
            noise.clip(&mut update, &layout, &model).unwrap();
            let after = contributed(&update, &layout, &model);
            let length = after.iter().map(|value| value * value).sum::<f64>().sqrt();
            assert!(
                length <= CLIP * (1.0 + 1e-5),
                "{method}: {user:?} moves the sum by {length}"
            );
            longest = longest.max(length);
            if option
                .as_ref()
                .is_some_and(|option| option.contains("sends_counts"))
            {
                // Counts come last, in FedGram and FedSpec before the device's own 1.
                let mut told = before.iter().rev();
                if !method.starts_with("fedrec") {
                    assert_eq!(told.next(), Some(&1.0), "{method}");
                }
                let counted = told.take(world.dataset.items()).sum::<f64>();
                assert_eq!(
                    counted,
                    world.dataset.own_data(user).positives().count() as f64,
                    "{method}: the counts"
                );
            }
        }
        assert!(
            longest > 0.99 * CLIP,
            "{method}: nothing is clipped, so that nothing is tested"
        );
    }
}

/// If this fails, a method that counts rows learns something else from sums and counts than from
/// single uploads, a secure sum is refused or changes the model, or the claim for noise on such
/// sums differs from the accountant's.
#[test]
fn methods_that_count_learn_the_same_from_sums_alone_which_can_have_noise() {
    for method in [
        "fedgram",
        "fedspec",
        "privirec",
        "fedrec-pmf",
        "fedrec-svdpp",
    ] {
        let counts = format!("method.{method}.sends_counts=true");
        let with = |more: &[&str]| run(small_with(method, &[&[DENSE], more].concat()), 2);
        let (one_by_one, sums) = (with(&[]), with(&[&counts]));
        assert_eq!(one_by_one.model, sums.model, "{method}");
        assert!(
            sums.bytes.up.sent > one_by_one.bytes.up.sent,
            "{method}: counts take bytes"
        );
        let secure = with(&[&counts, "overheads.secure_aggregation={}"]);
        assert_eq!(secure.model, sums.model, "{method}");
        let noisy = with(&[&counts, CENTRAL, POISSON, "training.rounds=7"]);
        let curve = Curve::of_poisson_sample(0.2, 0.7);
        assert_eq!(
            epsilons(&noisy),
            [1, 2, 3, 4, 5, 6, 7].map(|times| curve.epsilon(times, 1e-5)),
            "{method}"
        );
        // FedSpec waits for 36 uploads of 40; eight are expected in each round.
        let start = world(small_with(method, &[])).method.initial();
        assert_ne!(
            start.table(0),
            noisy.model.table(0),
            "{method} has made no step"
        );
    }
}

/// If this fails, FedRec divides by counts that are smaller than the noise on them, which moves
/// rows without bound.
#[test]
fn fedrec_divides_by_no_count_below_the_noise() {
    let counts = "method.fedrec-pmf.sends_counts=true";
    let nobody = [
        counts,
        NOISE_ALONE,
        "training.rounds=1",
        "training.participation={ poisson = 1e-3 }",
        DENSE,
    ];
    let outcome = run(small_with("fedrec-pmf", &nobody), 2);
    assert_eq!(outcome.rounds[0].aggregated, 0);
    let found = moved("fedrec-pmf", &nobody, &outcome);
    // Values and counts have noise of .1, and the most negative of the counts of all items is some
    // -.2 to -.35. Divided by no less than that, values move by .3 to .5 times the rate of .1.
    assert!(found > 0.025 && found < 0.055, "{found}");
}

/// If this fails, the server of MetaMF adds no noise, adds it without a clip, or not where nobody
/// takes part.
#[test]
fn the_sum_of_gradients_of_metamf_is_clipped_and_has_noise() {
    let equal = "method.metamf.equal_weights=true";
    let with =
        |more: &[&str]| run(small_with("metamf", &[&[DENSE, equal], more].concat()), 2).model;
    let gaussian = |clip: &str, multiplier: &str| {
        let spec = format!("clip = {clip}, noise_multiplier = {multiplier}, trust = \"central\"");
        with(&[&format!("privacy.gaussian={{ {spec} }}")])
    };
    let (plain, clipped) = (with(&[]), gaussian("1e-3", "0"));
    let (noisy, noisier) = (gaussian("1e-3", "1"), gaussian("1e-3", "10"));
    let models = [&plain, &clipped, &noisy, &noisier];
    for (at, one) in models.iter().enumerate() {
        assert!(
            models[at + 1..].iter().all(|other| one != other),
            "model {at} is as another one"
        );
    }
    let nobody = [
        "training.participation={ poisson = 1e-3 }",
        "training.rounds=1",
    ];
    let stays = small_with("metamf", &[&[equal], &nobody[..]].concat());
    let moves = small_with("metamf", &[&[equal, CENTRAL], &nobody[..]].concat());
    let (stays, moves) = (run(stays, 2), run(moves, 2));
    assert_eq!(
        (stays.rounds[0].aggregated, moves.rounds[0].aggregated),
        (0, 0)
    );
    assert_ne!(
        stays.model, moves.model,
        "a step of nobody tells that nobody took part"
    );
}

/// If this fails, uploads that are to weigh the same carry a weight by the user's data, are
/// averaged by one, or an epsilon is claimed where one travels.
#[test]
fn uploads_that_weigh_the_same_can_have_noise_with_an_epsilon() {
    for method in ["fedrecon", "metamf", "fedpergnn", "fedpeft"] {
        let equal = format!("method.{method}.equal_weights=true");
        let with = |more: &[&str]| run(small_with(method, &[&[DENSE], more].concat()), 2);
        let (weighted, same) = (with(&[]), with(&[&equal]));
        assert_ne!(weighted.model, same.model, "{method}");
        assert!(
            weighted.bytes.up.sent > same.bytes.up.sent,
            "{method}: a weight takes bytes"
        );
        let last = |outcome: &Outcome| outcome.rounds.last().unwrap().privacy.unwrap();
        assert_eq!(
            last(&with(&[LOCAL])).no_epsilon,
            Some(NoEpsilon::Weights),
            "{method}"
        );
        let local = last(&with(&[&equal, LOCAL]));
        match method {
            "fedpergnn" => assert_eq!(local.no_epsilon, Some(NoEpsilon::ThirdParty)),
            _ => assert_eq!(
                local.epsilon,
                Some(Curve::gaussian(0.7).epsilon(3, 1e-5)),
                "{method}"
            ),
        }
    }
    for method in ["fedrecon", "metamf", "fedpeft"] {
        let equal = format!("method.{method}.equal_weights=true");
        let noisy = run(small_with(method, &[DENSE, &equal, CENTRAL, POISSON]), 2);
        let curve = Curve::of_poisson_sample(0.2, 0.7);
        assert_eq!(
            epsilons(&noisy),
            [1, 2, 3].map(|times| curve.epsilon(times, 1e-5)),
            "{method}"
        );
    }
    let of_neighbours = run(
        small_with(
            "fedpergnn",
            &[DENSE, "method.fedpergnn.equal_weights=true", CENTRAL],
        ),
        2,
    );
    assert_eq!(
        of_neighbours.rounds[2].privacy.unwrap().no_epsilon,
        Some(NoEpsilon::ThirdParty)
    );
    let equal = "method.fedrecon.equal_weights=true";
    let with = |more: &[&str]| run(small_with("fedrecon", &[&[DENSE, equal], more].concat()), 2);
    assert_eq!(
        with(&[]).model,
        with(&["overheads.secure_aggregation={}"]).model
    );
}
