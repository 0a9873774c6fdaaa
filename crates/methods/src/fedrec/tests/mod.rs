#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::central::{Pmf, PmfParameters};
use super::local::{LocalTraining, dot, mean};
use super::profile::Profile;
use super::{FedRec, FedRecParameters, HybridFilling, Strategy, Style};
use crate::central::AtServer;
use crate::declare::{Declare, Declared};
use crate::server::{Contribution, StepContext, StepWeights, WeightTotals};
use crate::{Client, LocalTask, Method, Placement, Problem, Scratch};
use fedrecsim_core::{InvitationId, PortableDraws, Purpose, Round, Streams, UserId};
use fedrecsim_data::dataset::split::Splitter;
use fedrecsim_data::dataset::{Dataset, Interaction};
use fedrecsim_model::StateVisitor;
use fedrecsim_model::table::{extend_bytes, floats};
use fedrecsim_scenario::NegativesSpec;
use fedrecsim_scenario::sizes::ProblemSize;

mod profile;

const DIMENSION: usize = 5;
const RATED: usize = 7;
const VIRTUAL: usize = 4;
const RATE: f32 = 0.125;
const LAMBDA: f32 = 0.0625;
const ITERATION: u32 = 9;

struct Example {
    user: Vec<f32>,
    rows: Vec<f32>,
    ratings: Vec<f32>,
}

fn example() -> Example {
    let mut stream = Streams::new(11).stream(Purpose::PrivateInit, 0, 0);
    let mut draw = |count: usize| {
        (0..count)
            .map(|_| stream.standard_normal() as f32 * 0.5)
            .collect::<Vec<f32>>()
    };
    let (user, rows) = (draw(DIMENSION), draw((RATED + VIRTUAL) * DIMENSION));
    Example {
        user,
        rows,
        ratings: vec![4.0, 1.0, 3.0, 5.0, 2.0, 3.0, 4.0],
    }
}

impl Example {
    fn local<'a>(&'a self, parameters: &'a FedRecParameters) -> LocalTraining<'a> {
        LocalTraining {
            parameters,
            rows: &self.rows,
            ratings: &self.ratings,
            iteration: ITERATION,
            rate: RATE,
        }
    }

    /// Returns U after the participation, the gradients, and the loss.
    fn train(&self, parameters: &FedRecParameters) -> (Vec<f32>, Vec<f32>, f64) {
        let mut profile = Profile::new(&self.user, 0, Vec::new());
        let (loss, gradients) = self.local(parameters).train(&mut profile);
        (profile.user, gradients, loss)
    }
}

fn averaging(style: Style) -> FedRecParameters {
    FedRecParameters {
        style,
        regularization: f64::from(LAMBDA),
        ..FedRecParameters::default()
    }
}

fn hybrid(
    style: Style,
    hybrid_filling: HybridFilling,
    predict_from: u32,
    local_steps: u32,
) -> FedRecParameters {
    FedRecParameters {
        strategy: Strategy::HybridFilling,
        hybrid_filling,
        predict_from,
        local_steps,
        ..averaging(style)
    }
}

fn loss(user: &[f32], row: &[f32], target: f64) -> f64 {
    let product: f64 = user
        .iter()
        .zip(row)
        .map(|(u, v)| f64::from(*u) * f64::from(*v))
        .sum();
    let squares = |values: &[f32]| {
        values
            .iter()
            .map(|value| f64::from(*value).powi(2))
            .sum::<f64>()
    };
    0.5 * (product - target).powi(2) + 0.5 * f64::from(LAMBDA) * (squares(user) + squares(row))
}

/// Returns the slope of `loss` with respect to element `axis` of `values`.
fn slope(values: &[f32], axis: usize, loss: impl Fn(&[f32]) -> f64) -> f64 {
    let moved = |by: f32| {
        let mut other = values.to_vec();
        other[axis] += by;
        loss(&other)
    };
    (moved(0.015_625) - moved(-0.015_625)) / 0.031_25
}

/// If this fails, a device minimises another loss than the one that FedRec states.
#[test]
fn batch_gradients_are_the_slopes_of_the_loss_at_the_old_user_vector() {
    let example = example();
    let (user, gradients, _) = example.train(&averaging(Style::Batch));
    let mean_rating = 22.0 / 7.0;
    let target = |index: usize| {
        example
            .ratings
            .get(index)
            .map_or(mean_rating, |rating| f64::from(*rating))
    };
    let rows: Vec<&[f32]> = example.rows.chunks_exact(DIMENSION).collect();
    for (index, row) in rows.iter().enumerate() {
        for axis in 0..DIMENSION {
            let expected = slope(row, axis, |row| loss(&example.user, row, target(index)));
            assert!((expected - f64::from(gradients[index * DIMENSION + axis])).abs() < 1e-5);
        }
    }
    for axis in 0..DIMENSION {
        let slopes = rows.iter().enumerate();
        let sum: f64 = slopes
            .map(|(i, row)| slope(&example.user, axis, |user| loss(user, row, target(i))))
            .sum();
        let expected = f64::from(example.user[axis]) - f64::from(RATE) * sum / rows.len() as f64;
        assert!((expected - f64::from(user[axis])).abs() < 1e-5);
    }
}

#[test]
fn the_stochastic_style_moves_the_user_vector_after_every_item() {
    let example = example();
    let (user, gradients, _) = example.train(&averaging(Style::Stochastic));
    let mut expected = example.user.clone();
    for (index, row) in example.rows.chunks_exact(DIMENSION).enumerate() {
        let target = example
            .ratings
            .get(index)
            .map_or(22.0 / 7.0, |rating| f64::from(*rating));
        let slopes: Vec<f64> = (0..DIMENSION)
            .map(|axis| slope(&expected, axis, |u| loss(u, row, target)))
            .collect();
        for axis in 0..DIMENSION {
            let of_row = slope(row, axis, |row| loss(&expected, row, target));
            assert!((of_row - f64::from(gradients[index * DIMENSION + axis])).abs() < 1e-5);
        }
        expected
            .iter_mut()
            .zip(&slopes)
            .for_each(|(u, slope)| *u -= RATE * *slope as f32);
    }
    assert!(
        user.iter()
            .zip(&expected)
            .all(|(a, b)| (a - b).abs() < 1e-5),
        "{user:?} is not {expected:?}"
    );
}

/// If this fails, predictions begin in another iteration than in the code, or in the slides.
#[test]
fn the_two_readings_begin_to_predict_when_their_sources_do() {
    let first = |reading| {
        (0..20)
            .find(|iteration| hybrid(Style::Batch, reading, 10, 1).predicts(*iteration))
            .unwrap()
    };
    assert_eq!(
        (first(HybridFilling::Code), first(HybridFilling::Slides)),
        (11, 9)
    );
    assert!((0..200).all(|iteration| !averaging(Style::Batch).predicts(iteration)));
}

#[test]
fn before_it_predicts_the_codes_hybrid_filling_is_user_averaging() {
    let example = example();
    for style in [Style::Batch, Style::Stochastic] {
        let early = example.train(&hybrid(style, HybridFilling::Code, ITERATION, 3));
        assert_eq!(example.train(&averaging(style)), early);
    }
}

#[test]
fn a_prediction_without_local_steps_pulls_virtual_rows_only_by_the_regulariser() {
    let example = example();
    let (_, gradients, _) = example.train(&hybrid(Style::Batch, HybridFilling::Code, 1, 0));
    let virtual_values = RATED * DIMENSION..;
    for (gradient, row) in gradients[virtual_values.clone()]
        .iter()
        .zip(&example.rows[virtual_values])
    {
        assert!((gradient - LAMBDA * row).abs() < 1e-6);
    }
}

/// If this fails, the code's temporary vector changes the private one, or the slides' local steps
/// do not.
#[test]
fn local_steps_stay_in_the_slides_reading_alone() {
    let mut example = example();
    example.rows.truncate(RATED * DIMENSION);
    for style in [Style::Batch, Style::Stochastic] {
        let [code, slides] = [HybridFilling::Code, HybridFilling::Slides]
            .map(|reading| hybrid(style, reading, 1, 3));
        let averaging = averaging(style);
        let visits = |parameters| example.local(parameters).row_visits(DIMENSION);
        assert_eq!(visits(&averaging), RATED as u64);
        assert_eq!(visits(&code), RATED as u64);
        assert_eq!(visits(&slides), 4 * RATED as u64);
        let [plain, code, slides] =
            [averaging, code, slides].map(|parameters| example.train(&parameters));
        assert_eq!(
            plain, code,
            "without virtual items nothing needs a prediction"
        );
        assert_ne!(plain.0, slides.0);
    }
}

#[test]
fn the_learning_rate_decays_by_iteration() {
    let size = ProblemSize { users: 1, items: 1 };
    let problem = Problem::of_size(size, Streams::new(0));
    let method = <FedRec<false> as Declare>::new(FedRecParameters::default(), &problem);
    assert_eq!(method.rate(0), 0.8);
    assert_eq!(method.rate(2), (0.8f64 * 0.81) as f32);
    assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
    assert_eq!(dot(&[1.0, 2.0, 3.0, 4.0, 5.0], &[1.0; 5]), 15.0);
}

/// If this fails, the rows of an update do not belong to the items that it lists.
#[test]
fn an_update_lists_its_items_in_order_with_their_own_rows() {
    let size = ProblemSize { users: 1, items: 9 };
    let problem = Problem::of_size(size, Streams::new(4));
    let method = Declared::<FedRec<false>>::new(FedRecParameters::default(), &problem);
    let model = method.initial();
    let gradients = |items: &[u32]| -> Vec<(usize, Vec<f32>)> {
        let mut user = vec![0.5; 20];
        let rated = (items, &[3.0, 3.0, 3.0][..]);
        let nothing = |_: &'static str, _: &[f32]| Ok(());
        let declared = method.declared();
        let trained = declared.participate(&model, &mut user, (0, 0), rated, nothing);
        let update = trained.unwrap().update.blocks.remove(0);
        let rows = update.iter();
        rows.map(|(row, bytes)| (row, floats(bytes).collect()))
            .collect()
    };
    let ordered = gradients(&[2, 5, 8]);
    assert_eq!(gradients(&[5, 2, 8]), ordered);
    let rows: Vec<usize> = ordered.iter().map(|(row, _)| *row).collect();
    assert_eq!(rows, [2, 5, 8]);
    // With equal ratings, the gradients of two rows differ only if the rows do.
    assert_ne!(ordered[0].1, ordered[1].1);
}

/// If this fails, reports show another training loss than the mean square of the errors on the
/// rated items.
#[test]
fn the_loss_of_a_batch_is_the_mean_square_of_its_errors() {
    let example = example();
    let (_, _, found) = example.train(&averaging(Style::Batch));
    let rows = example.rows.chunks_exact(DIMENSION);
    let errors = rows
        .zip(&example.ratings)
        .map(|(row, rating)| f64::from(dot(&example.user, row) - rating));
    let expected = errors.map(|error| error * error).sum::<f64>() / example.ratings.len() as f64;
    assert!(
        (found - expected).abs() < 1e-6 * expected && expected > 0.1,
        "{found} instead of {expected}"
    );
}

/// If this fails, federated training gives another result than central training although every
/// participant answers.
#[test]
fn the_batch_style_without_virtual_items_is_the_unfederated_method_to_the_bit() {
    let rows = |user: u32| {
        let own = (0..12).filter(move |item| !(item + user).is_multiple_of(3));
        own.map(move |item| Interaction::new(item, ((item * user) % 5 + 1) as f32, i64::from(item)))
    };
    let mut splitter = Splitter::leave_one_out(12, false);
    (0..6).for_each(|user| {
        splitter.push_user(|| user.to_string(), &rows(user).collect::<Vec<_>>());
    });
    let dataset = Arc::new(splitter.finish().unwrap());
    compare_with_central::<false>(&dataset);
    compare_with_central::<true>(&dataset);
}

fn compare_with_central<const WITH_O: bool>(dataset: &Arc<Dataset>) {
    let name = <FedRec<WITH_O> as Declare>::NAME;
    let problem = Problem::new(dataset, Streams::new(3), Placement::Federated);
    let federated = Declared::<FedRec<WITH_O>>::new(FedRecParameters::default(), &problem);
    let central = Declared::<AtServer<Pmf<WITH_O>>>::new(PmfParameters::default(), &problem);
    let (mut server, mut central_server) = (federated.server(), central.server());
    let users = || (0..dataset.users()).map(UserId::from);
    let mut clients: Vec<_> = users().map(|user| federated.client(user)).collect();
    let (negatives, mut scratch) = (NegativesSpec::default(), Scratch::default());
    let normalise = |totals: &WeightTotals| StepWeights {
        kept: 0.0,
        divisor: totals.weights,
    };
    for step in 0..4 {
        let context = StepContext::new(step, 6, &normalise, Streams::new(3));
        let download = server.model().clone();
        let mut take = |client: &mut Box<dyn Client>, user: UserId| {
            let names = (user, Round(step), InvitationId(step));
            let own = dataset.own_data(names.0);
            let mut task = LocalTask::new(names, &download, own, Streams::new(3), 1e3);
            task.negatives = Some((dataset, &negatives));
            client.train(&task, &mut scratch).unwrap().update
        };
        let updates: Vec<_> = clients
            .iter_mut()
            .zip(users())
            .map(|(client, user)| take(client, user))
            .collect();
        let ratings: Vec<_> = users()
            .map(|user| take(&mut central.client(user), user))
            .collect();
        let contribution =
            |(user, update)| Contribution::fresh(user, InvitationId(step), update, &download);
        let mut sums = server.accumulator();
        sums.absorb(&users().zip(&updates).map(contribution).collect::<Vec<_>>())
            .unwrap();
        server.step(sums, &context).unwrap();
        let mut gathered = central_server.accumulator();
        if step == 0 {
            gathered
                .absorb(&users().zip(&ratings).map(contribution).collect::<Vec<_>>())
                .unwrap();
        }
        central_server.step(gathered, &context).unwrap();
        for ((block, table), (_, central)) in
            server.model().tables().zip(central_server.model().tables())
        {
            assert_eq!(table, central, "{block} of {name} after step {step}");
        }
    }
    let tables = FedRec::<WITH_O>::TABLES.len();
    let initial = federated.initial();
    assert!(
        (0..tables).all(|table| server.model().table(table) != initial.table(table)),
        "{name} stands still"
    );
    for (client, user) in clients.iter_mut().zip(users()) {
        let (mut private, mut bytes) = (Vec::new(), Vec::new());
        client
            .visit_state(&mut StateVisitor::Digest(&mut |values| {
                private.extend_from_slice(values)
            }))
            .unwrap();
        extend_bytes(
            &mut bytes,
            central_server.model().table(tables).row(user.index()),
        );
        assert_eq!(private[..bytes.len()], bytes, "U of {user}");
    }
}
