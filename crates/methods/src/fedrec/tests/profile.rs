use std::sync::Arc;

use super::super::local::LocalTraining;
use super::super::profile::Profile;
use super::super::{FedRec, FedRecParameters, HybridFilling, Strategy, Style};
use crate::declare::Declared;
use crate::server::{Contribution, StepContext, StepWeights, WeightTotals};
use crate::{Method, Placement, Problem, ScoringContext, Scratch, tests};
use fedrecsim_core::{InvitationId, PortableDraws, Purpose, Streams, UserId};
use fedrecsim_data::dataset::split::Splitter;
use fedrecsim_data::dataset::{Interaction, OwnData};
use fedrecsim_model::table::{TableUpdate, floats};
use fedrecsim_model::{ModelUpdate, StateVisitor};

const DIMENSION: usize = 3;
const VIRTUAL: usize = 4;
const ITERATION: u32 = 9;

/// A participation with everything in double precision and one row after the other, as the authors'
/// code has it.
struct Plain {
    user: Vec<f64>,
    rows: Vec<Vec<f64>>,
    o: Vec<Vec<f64>>,
    ratings: Vec<f64>,
    rate: f64,
    lambda: f64,
}

impl Plain {
    /// Draws an example with this many rated items.
    fn example(rated: usize, rate: f32, lambda: f32) -> Self {
        let mut stream = Streams::new(12).stream(Purpose::PrivateInit, 0, 0);
        let mut row = || {
            (0..DIMENSION)
                .map(|_| f64::from(stream.standard_normal() as f32 * 0.5))
                .collect::<Vec<f64>>()
        };
        let (user, count) = (row(), rated + VIRTUAL);
        let (rows, o) = (
            (0..count).map(|_| row()).collect(),
            (0..count).map(|_| row()).collect(),
        );
        let ratings = (0..rated).map(|place| (place * 7 % 5 + 1) as f64).collect();
        Self {
            user,
            rows,
            o,
            ratings,
            rate: f64::from(rate),
            lambda: f64::from(lambda),
        }
    }

    fn root(&self, place: usize) -> f64 {
        ((self.ratings.len() - usize::from(place < self.ratings.len())) as f64).sqrt()
    }

    /// Returns the profile for an item, of these values.
    fn profile(&self, user: &[f64], o: &[Vec<f64>], place: usize) -> Vec<f64> {
        let mut sum = [0.0; DIMENSION];
        for other in (0..self.ratings.len()).filter(|other| *other != place) {
            sum.iter_mut()
                .zip(&o[other])
                .for_each(|(sum, value)| *sum += value);
        }
        let root = self.root(place);
        let of_rated = sum
            .iter()
            .map(|sum| if root > 0.0 { sum / root } else { 0.0 });
        user.iter()
            .zip(of_rated)
            .map(|(u, of_rated)| u + of_rated)
            .collect()
    }

    fn prediction(&self, user: &[f64], o: &[Vec<f64>], place: usize) -> f64 {
        self.profile(user, o, place)
            .iter()
            .zip(&self.rows[place])
            .map(|(p, v)| p * v)
            .sum()
    }

    /// Makes the stochastic step of one item on U and O, and returns the gradient of its row of V.
    fn step(
        &self,
        user: &mut [f64],
        o: &mut [Vec<f64>],
        (place, target): (usize, f64),
        moves_own: bool,
    ) -> Vec<f64> {
        let error = self.prediction(user, o, place) - target;
        let (row, root) = (&self.rows[place], self.root(place));
        let profile = self.profile(user, o, place);
        let gradient = profile
            .iter()
            .zip(row)
            .map(|(p, v)| error * p + self.lambda * v)
            .collect();
        user.iter_mut()
            .zip(row)
            .for_each(|(u, v)| *u -= self.rate * (error * v + self.lambda * *u));
        for (other, of_other) in o.iter_mut().enumerate() {
            let is_rated = other < self.ratings.len() && (other != place || moves_own);
            let is_filled = other == place && place >= self.ratings.len();
            if root > 0.0 && (is_rated || is_filled) {
                let pull = |v: &f64| error * v / root;
                of_other
                    .iter_mut()
                    .zip(row)
                    .for_each(|(o, v)| *o -= self.rate * (pull(v) + self.lambda * *o));
            }
        }
        gradient
    }

    /// Makes the whole participation in the stochastic style, and returns the gradients of V.
    fn train(&mut self, local_steps: Option<u32>) -> Vec<Vec<f64>> {
        let (mut user, mut o) = (self.user.clone(), self.o.clone());
        let rated = self.ratings.len();
        let mut gradients: Vec<Vec<f64>> = (0..rated)
            .map(|place| self.step(&mut user, &mut o, (place, self.ratings[place]), false))
            .collect();
        let (mut local_user, mut local_o) = (user.clone(), o.clone());
        for _ in 0..local_steps.unwrap_or(0) {
            for place in 0..rated {
                self.step(
                    &mut local_user,
                    &mut local_o,
                    (place, self.ratings[place]),
                    true,
                );
            }
        }
        for place in rated..self.rows.len() {
            let target = match local_steps {
                Some(_) => self.prediction(&local_user, &local_o, place),
                None => self.ratings.iter().sum::<f64>() / rated as f64,
            };
            gradients.push(self.step(&mut user, &mut o, (place, target), false));
        }
        (self.user, self.o) = (user, o);
        gradients
    }

    /// Trains the same in single precision, and returns U, the gradients of V, and O.
    fn quickly(&self, style: Style, filling: &FedRecParameters) -> [Vec<f32>; 3] {
        let flat = |rows: &[Vec<f64>]| {
            rows.iter()
                .flatten()
                .map(|value| *value as f32)
                .collect::<Vec<f32>>()
        };
        let (rows, ratings) = (flat(&self.rows), flat(std::slice::from_ref(&self.ratings)));
        let parameters = FedRecParameters {
            style,
            regularization: self.lambda,
            ..filling.clone()
        };
        let local = LocalTraining {
            parameters: &parameters,
            rows: &rows,
            ratings: &ratings,
            iteration: ITERATION,
            rate: self.rate as f32,
        };
        let user = flat(std::slice::from_ref(&self.user));
        let mut profile = Profile::new(&user, ratings.len(), flat(&self.o));
        let (_, gradients) = local.train(&mut profile);
        [profile.user.clone(), gradients, profile.into_rows()]
    }

    /// Returns the loss of the batch style, which is a mean over all items, at other U, V and O.
    fn loss(&self, user: &[f64], rows: &[Vec<f64>], o: &[Vec<f64>]) -> f64 {
        let squares = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
        let rated = self.ratings.len();
        let mean = self.ratings.iter().sum::<f64>() / rated as f64;
        let moved = Self {
            rows: rows.to_vec(),
            user: Vec::new(),
            o: Vec::new(),
            ratings: self.ratings.clone(),
            ..*self
        };
        let of_item = |place: usize| {
            let error = moved.prediction(user, o, place) - self.ratings.get(place).unwrap_or(&mean);
            let others: f64 = (0..rated)
                .filter(|other| *other != place)
                .map(|other| squares(&o[other]))
                .sum();
            0.5 * error * error
                + 0.5 * self.lambda * (squares(user) + squares(&rows[place]) + others)
        };
        (0..rows.len()).map(of_item).sum::<f64>() / rows.len() as f64
    }
}

fn averaging() -> FedRecParameters {
    FedRecParameters::default()
}

fn hybrid(hybrid_filling: HybridFilling, predict_from: u32, local_steps: u32) -> FedRecParameters {
    FedRecParameters {
        strategy: Strategy::HybridFilling,
        hybrid_filling,
        predict_from,
        local_steps,
        ..averaging()
    }
}

fn code(local_steps: u32) -> FedRecParameters {
    hybrid(HybridFilling::Code, 1, local_steps)
}

fn assert_near(found: &[f32], expected: &[Vec<f64>], what: &str) {
    let expected: Vec<f64> = expected.iter().flatten().copied().collect();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (f64::from(*found) - expected).abs() < 2e-4 * expected.abs().max(1.0),
            "{what}: {found}, not {expected}"
        );
    }
}

/// If this fails, the short way to move all rated rows at once is another step than moving them one
/// by one, or the sum that predicts no longer belongs to the rows.
#[test]
fn a_stochastic_participation_moves_every_row_as_the_plain_way_does() {
    // A rate of 4 with a weight of 0.25 takes away the whole row in a step, and one of 0.5 and 3
    // turns its sign.
    for (rate, lambda) in [
        (0.0625, 0.015_625),
        (0.25, 2.0),
        (4.0, 0.25),
        (0.5, 3.0),
        (0.125, 0.0),
    ] {
        for rated in [1, 2, 3, 12] {
            for (filling, local_steps) in [(averaging(), None), (code(3), Some(3))] {
                let mut plain = Plain::example(rated, rate, lambda);
                // Steps as long as these would leave the range where both ways can be compared.
                if rate > 1.0 {
                    plain
                        .rows
                        .iter_mut()
                        .flatten()
                        .for_each(|value| *value *= 0.25);
                }
                let [user, gradients, o] = plain.quickly(Style::Stochastic, &filling);
                let expected = plain.train(local_steps);
                let name = format!(
                    "rate {rate}, lambda {lambda}, {rated} rated, {:?}",
                    filling.strategy
                );
                assert_near(
                    &user,
                    std::slice::from_ref(&plain.user),
                    &format!("U: {name}"),
                );
                assert_near(&gradients, &expected, &format!("V: {name}"));
                assert_near(&o, &plain.o, &format!("O: {name}"));
            }
        }
    }
}

/// If this fails, the batch style descends from another loss than the mean over the participation's
/// items.
#[test]
fn the_batch_style_moves_u_v_and_o_by_the_slopes_of_the_mean_loss() {
    const STEP: f64 = 1e-5;
    for rated in [1, 2, 6] {
        let plain = Plain::example(rated, 0.125, 0.0625);
        let [user, gradients, o] = plain.quickly(Style::Batch, &averaging());
        let (count, rate) = (plain.rows.len() as f64, plain.rate);
        let check = |found: f64, what: &str, moved: &dyn Fn(f64) -> f64| {
            let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            assert!(
                (found - slope).abs() < 1e-4,
                "{what}, {rated} rated: {found}, not {slope}"
            );
        };
        for axis in 0..DIMENSION {
            check(
                (plain.user[axis] - f64::from(user[axis])) / rate,
                "U",
                &|by| {
                    let mut user = plain.user.clone();
                    user[axis] += by;
                    plain.loss(&user, &plain.rows, &plain.o)
                },
            );
            for place in 0..plain.rows.len() {
                let at = place * DIMENSION + axis;
                check(f64::from(gradients[at]) / count, "V", &|by| {
                    let mut rows = plain.rows.clone();
                    rows[place][axis] += by;
                    plain.loss(&plain.user, &rows, &plain.o)
                });
                let of_o = (plain.o[place][axis] - f64::from(o[at])) / rate;
                if place < rated {
                    check(of_o, "O", &|by| {
                        let mut o = plain.o.clone();
                        o[place][axis] += by;
                        plain.loss(&plain.user, &plain.rows, &o)
                    });
                } else {
                    let mean = plain.ratings.iter().sum::<f64>() / rated as f64;
                    let error = plain.prediction(&plain.user, &plain.o, place) - mean;
                    let pull = error * plain.rows[place][axis] / (rated as f64).sqrt();
                    let expected = (pull + plain.lambda * plain.o[place][axis]) / count;
                    assert!(
                        (of_o - expected).abs() < 1e-4,
                        "O of a virtual item: {of_o}, not {expected}"
                    );
                }
            }
        }
    }
}

/// If this fails, a reading of hybrid filling moves O where it should not, or predicts without it.
#[test]
fn local_steps_leave_o_as_it_is_and_predictions_use_it() {
    for style in [Style::Batch, Style::Stochastic] {
        let mut plain = Plain::example(6, 0.125, 0.0625);
        let averaged = plain.quickly(style, &averaging());
        let [none, predicted] = [0, 3].map(|steps| plain.quickly(style, &code(steps)));
        assert!(
            averaged != predicted && predicted != none && none != averaged,
            "{style:?}"
        );
        plain.rows.truncate(6);
        plain.o.truncate(6);
        assert_eq!(
            plain.quickly(style, &code(3)),
            plain.quickly(style, &averaging()),
            "without virtual items nothing needs a prediction"
        );
    }
    let plain = Plain::example(6, 0.125, 0.0625);
    let slides = |local_steps| hybrid(HybridFilling::Slides, ITERATION + 1, local_steps);
    let [_, gradients, _] = plain.quickly(Style::Batch, &slides(0));
    for place in 6..6 + VIRTUAL {
        for axis in 0..DIMENSION {
            let (gradient, v) = (
                f64::from(gradients[place * DIMENSION + axis]),
                plain.rows[place][axis],
            );
            assert!(
                (gradient - plain.lambda * v).abs() < 1e-5,
                "the predicted rating is the prediction itself"
            );
        }
    }
    assert_ne!(
        plain.quickly(Style::Batch, &slides(2)),
        plain.quickly(Style::Batch, &slides(0))
    );
}

/// If this fails, the server makes another step of O than the devices have made.
#[test]
fn the_server_moves_a_row_of_o_by_the_mean_over_its_senders() {
    let (method, _) = method();
    let mut server = method.server();
    let received = server.model().clone();
    let shape = received.table(1).shape();
    let update = |row: u32, value: f32| {
        let listed = |value| {
            TableUpdate::listed(shape, vec![row], &vec![value; shape.dimension], 1.0).unwrap()
        };
        ModelUpdate::of_blocks(vec![listed(0.0), listed(value)])
    };
    let updates = [update(1, 0.5), update(2, 0.25), update(1, 0.25)];
    let contributions: Vec<_> = (0u32..)
        .zip(&updates)
        .map(|(number, update)| {
            Contribution::fresh(UserId(number), InvitationId(number), update, &received)
        })
        .collect();
    let normalise = |totals: &WeightTotals| StepWeights {
        kept: 0.0,
        divisor: totals.weights,
    };
    let mut sums = server.accumulator();
    sums.absorb(&contributions).unwrap();
    server
        .step(sums, &StepContext::new(50, 3, &normalise, Streams::new(3)))
        .unwrap();
    for (row, by) in [(0, 0.0), (1, 0.375), (2, 0.25)] {
        for (before, after) in received
            .table(1)
            .row(row)
            .iter()
            .zip(server.model().table(1).row(row))
        {
            assert!(
                (before - after - by).abs() < 1e-6,
                "row {row} moved by {}",
                before - after
            );
        }
    }
}

/// Returns SVD++ on a few ratings of three users, with tables of large values, and the problem.
fn method() -> (Declared<FedRec<true>>, Problem) {
    let mut splitter = Splitter::leave_one_out(6, false);
    for user in 0..3 {
        let rows: Vec<_> = (0..4)
            .map(|item| Interaction::new(item + user % 2, 1.0 + item as f32, item.into()))
            .collect();
        splitter.push_user(|| user.to_string(), &rows);
    }
    let problem = Problem::new(
        &Arc::new(splitter.finish().unwrap()),
        Streams::new(3),
        Placement::Federated,
    );
    let parameters = FedRecParameters {
        initial_range: 2.0,
        ..FedRecParameters::default()
    };
    (Declared::new(parameters, &problem), problem)
}

/// If this fails, an item that the user has rated explains its own rating, or others are predicted
/// without O.
#[test]
fn a_score_leaves_out_the_scored_item_alone() {
    let (method, problem) = method();
    let model = method.initial();
    let mut client = method.client(UserId(1));
    let mut bytes = Vec::new();
    client
        .visit_state(&mut StateVisitor::Digest(&mut |values| {
            bytes.extend_from_slice(values)
        }))
        .unwrap();
    let user: Vec<f32> = floats(&bytes)
        .take(model.table(0).shape().dimension)
        .collect();
    let own = OwnData {
        ratings: (&[3.0f32, 2.0, 5.0][..]).into(),
        ..OwnData::new(&[1, 2, 4])
    };
    let mut scratch = Scratch::default();
    let context = ScoringContext::new(UserId(1), &model, own, problem.streams, &mut scratch);
    let scores = tests::score(&*client, context, &[0, 2, 4]);
    for (item, score) in [0, 2, 4].into_iter().zip(scores) {
        let others: Vec<usize> = [1, 2, 4]
            .into_iter()
            .filter(|other| *other != item)
            .collect();
        let of_axis = |axis: usize| {
            let sum: f32 = others
                .iter()
                .map(|other| model.table(1).row(*other)[axis])
                .sum();
            (user[axis] + sum / (others.len() as f32).sqrt()) * model.table(0).row(item)[axis]
        };
        let expected: f32 = (0..user.len()).map(of_axis).sum();
        assert!(
            (score - expected).abs() < 1e-4,
            "item {item}: {score}, not {expected}"
        );
    }
}
