use fedrecsim_core::UserId;
use fedrecsim_sim::outcome::{Booking, ByDirection, Flow, RoundRecord, RoundSpan};
use fedrecsim_sim::{self as sim, Outcome, RoundObserver, RunControl};

use crate::support::{assert_balanced, run, small_with, world};

const WORLDLY: [&str; 3] = [
    "network.preset=\"wifi-2020\"",
    "network.dropout=0.1",
    "codec.uplink=\"rows-f32\"",
];

/// Runs this many rounds of this many steps.
fn steps(rounds: u32, steps_per_round: u32, mode: &[&str]) -> Outcome {
    let rounds = format!("training.rounds={rounds}");
    let steps = format!("training.steps_per_round={steps_per_round}");
    run(
        small_with(
            "fedmf",
            &[&WORLDLY[..], &[rounds.as_str(), steps.as_str()], mode].concat(),
        ),
        2,
    )
}

/// If this fails, a step depends on where rounds end, or a record leaves out some of its steps.
#[test]
fn steps_are_the_same_however_many_make_a_round() {
    for mode in [
        &["training.participation={ cohort = 1 }"][..],
        &[
            "training.participation={ cohort = 15 }",
            "training.mode={ semi-synchronous = { deadline_s = 0.03 } }",
        ],
        &["training.mode={ fedbuff = { concurrency = 12, buffer = 4 } }"],
        &[
            "training.mode={ fedasync = { concurrency = 9 } }",
            "training.client_selection=\"never-twice-in-a-row\"",
        ],
    ] {
        let (alone, together) = (steps(12, 1, mode), steps(3, 4, mode));
        assert_eq!((alone.rounds.len(), together.rounds.len()), (12, 3));
        assert_eq!(
            alone.model.table(0).as_slice(),
            together.model.table(0).as_slice(),
            "{mode:?}"
        );
        for (record, of_its_steps) in together.rounds.iter().zip(alone.rounds.chunks(4)) {
            let sum = |of: &dyn Fn(usize) -> u64| (0..4).map(of).sum::<u64>();
            let last = &of_its_steps[3];
            assert_eq!(record.virtual_time_s, last.virtual_time_s, "{mode:?}");
            assert_eq!(record.accuracy, last.accuracy, "{mode:?}");
            assert_eq!(
                u64::from(record.invited),
                sum(&|step| of_its_steps[step].invited.into()),
                "{mode:?}"
            );
            assert_eq!(
                u64::from(record.aggregated),
                sum(&|step| of_its_steps[step].aggregated.into()),
                "{mode:?}"
            );
            assert_eq!(
                u64::from(record.lost),
                sum(&|step| of_its_steps[step].lost.into()),
                "{mode:?}"
            );
            assert_eq!(
                record.bytes.up.sent,
                sum(&|step| of_its_steps[step].bytes.up.sent),
                "{mode:?}"
            );
            assert_eq!(
                record.work.finished,
                sum(&|step| of_its_steps[step].work.finished),
                "{mode:?}"
            );
        }
        assert_eq!(
            (alone.bytes, alone.work),
            (together.bytes, together.work),
            "{mode:?}"
        );
        assert_balanced(&together);
    }
}

/// If this fails, stepping with one user at a time loses a loss or counts a step without an update.
#[test]
fn the_loss_of_a_round_is_the_mean_over_the_updates_of_its_steps() {
    let (alone, together) = (
        steps(6, 1, &["training.participation={ cohort = 1 }"]),
        steps(1, 6, &["training.participation={ cohort = 1 }"]),
    );
    let losses: Vec<f64> = alone.rounds.iter().filter_map(|round| round.loss).collect();
    let mean = losses.iter().sum::<f64>() / losses.len() as f64;
    assert!((together.rounds[0].loss.unwrap() - mean).abs() < 1e-12);
    assert_eq!(together.rounds[0].aggregated as usize, losses.len());
}

/// Keeps the spans of rounds.
#[derive(Default)]
struct Spans(Vec<RoundSpan>);

impl RoundObserver for Spans {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}

    fn happened(&mut self, round: Option<RoundSpan>, _bookings: &[Booking]) {
        self.0.extend(round);
    }
}

/// If this fails, events say that the server has stepped where nothing had arrived.
#[test]
fn a_step_without_an_update_is_none() {
    let steps = |dropout: &str| {
        let dropout = format!("network.dropout={dropout}");
        let scenario = small_with(
            "fedmf",
            &["training.rounds=2", "training.steps_per_round=3", &dropout],
        );
        let mut spans = Spans::default();
        sim::run(world(scenario), &RunControl::with_threads(1), &mut spans).unwrap();
        spans.0.iter().map(|span| span.steps).collect::<Vec<_>>()
    };
    assert_eq!((steps("0"), steps("1")), (vec![3, 3], vec![0, 0]));
}

/// If this fails, weights by density are not those that the number of positives of the mean user
/// gives.
#[test]
fn by_density_least_squares_are_those_with_the_weights_that_follow() {
    let by_density =
        "method.ials.by_density={ unobserved_per_positive = 10.0, regularization = 2.0 }";
    let found = run(small_with("ials", &[by_density, "training.rounds=3"]), 2);
    let world = world(small_with("ials", &[]));
    let (users, items) = (world.dataset.users(), world.dataset.items() as f64);
    let positives: usize = (0..users)
        .map(|user| world.dataset.own_data(UserId(user as u32)).items.len())
        .sum();
    let mean = f64::from(positives as f32 / users as f32);
    let a0 = 10.0 * mean / items;
    let a0_of_run = format!("method.ials.unobserved_weight={a0:?}");
    let lambda_of_run = format!("method.ials.regularization={:?}", 2.0 / (mean + a0 * items));
    let expected = run(
        small_with("ials", &[&a0_of_run, &lambda_of_run, "training.rounds=3"]),
        2,
    );
    assert_eq!(
        found.model.table(0).as_slice(),
        expected.model.table(0).as_slice()
    );
    assert_eq!(found.rounds[2].accuracy, expected.rounds[2].accuracy);
}

/// If this fails, FedGram recommends by the popularity of the start, which is none.
#[test]
fn the_popularity_of_fedgram_is_the_share_of_participants_who_sent_an_item() {
    let outcome = run(
        small_with(
            "fedgram",
            &["method.fedgram.popularity_weight=0.5", "training.rounds=2"],
        ),
        2,
    );
    let popularity = outcome.model.named("popularity").unwrap().as_slice();
    let senders: Vec<f32> = popularity.iter().map(|share| share * 40.0).collect();
    assert!(
        senders
            .iter()
            .all(|count| (count - count.round()).abs() < 1e-4),
        "{senders:?}"
    );
    assert!(senders.iter().sum::<f32>() > 40.0, "nobody sends an item");
}
