//! Implements FedRec's arithmetic: what a device computes in one participation.
//!
//! A rating is predicted by p . V_i, in which the profile p is U_u in probabilistic matrix
//! factorisation, and [`profile`](super::profile) says what it is in SVD++. For an item with rating
//! r, the gradients are (p . V_i - r) V_i + lambda U with respect to U (equation 7) and (p . V_i -
//! r) p + lambda V_i with respect to V_i (equation 8). Unrated items are trained as well, to hide
//! which items are rated. Their ratings are *virtual*: the user's mean (user averaging, equation 5)
//! or a prediction (hybrid filling, equation 6).
//!
//! Source: Lin, Liang, Pan and Ming, FedRec: Federated Recommendation with Explicit Feedback (IEEE
//! Intelligent Systems 2020), its slides, and the authors' code Guanyu-Lin/FedRec at 521b7cf,
//! `Client.java` of both styles. All computation is in single precision like that of the code, and
//! every sum has a fixed order (contract 1).

use super::profile::Profile;
use crate::choices;

choices! {
    /// When the user vector moves within a participation.
    pub enum Style {
        /// Once, by the mean gradient over all of its items (Algorithm 2).
        Batch,
        /// After every item (Algorithm 5).
        Stochastic,
    }

    /// Which of two readings of hybrid filling is followed.
    pub enum HybridFilling {
        /// The authors' code: a temporary copy of U, and in SVD++ of O, takes the local steps, gives
        /// the virtual ratings and is discarded; it is made only in iterations that predict, which are
        /// those numbered above T_predict when the first has number 0.
        Code,
        /// The slides' Algorithm 3: U itself takes the local steps, over the rated items, in every
        /// iteration, and O stays as it is; iterations from number T_predict on predict when the first
        /// has number 1.
        Slides,
    }
}

/// Says where virtual ratings come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Filling {
    /// They are the user's mean rating.
    UserAveraging,
    /// They are the user's mean rating at first, and predictions later.
    Hybrid {
        /// The reading that is followed.
        reading: HybridFilling,
        /// The number T_predict of the iteration from which ratings are predicted.
        predict_from: u32,
        /// The number T_local of steps over the rated items that the predicting vector takes first.
        local_steps: u32,
    },
}

impl Filling {
    /// Returns whether virtual ratings are predicted in this iteration (from 0).
    pub(crate) fn predicts(&self, iteration: u32) -> bool {
        match *self {
            Self::UserAveraging => false,
            Self::Hybrid {
                reading: HybridFilling::Code,
                predict_from,
                ..
            } => iteration > predict_from,
            Self::Hybrid {
                reading: HybridFilling::Slides,
                predict_from,
                ..
            } => iteration + 1 >= predict_from,
        }
    }
}

/// Describes one participation of one user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Participation<'a> {
    /// The style, which says when U moves.
    pub style: Style,
    /// The rows of V as downloaded (d values each), first those of the rated items, then those of
    /// the virtual ones.
    pub rows: &'a [f32],
    /// The ratings of the rated items. Further rows are those of virtual items.
    pub ratings: &'a [f32],
    /// The source of the virtual items' ratings.
    pub filling: Filling,
    /// The iteration of the server, from 0.
    pub iteration: u32,
    /// The learning rate gamma of U.
    pub rate: f32,
    /// The weight lambda of the regulariser.
    pub regularization: f32,
}

/// Holds working memory, which is reused from client to client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    targets: Vec<f32>,
    errors: Vec<f32>,
    local_vector: Vec<f32>,
    gradient: Vec<f32>,
}

impl Participation<'_> {
    /// Trains U, which is `user_vector` (d values), and what else belongs to the `profile`. Writes
    /// the gradient of every row of V to `gradients`, which has the length of `rows`. Returns the
    /// mean squared error over the rated items, each before its own step.
    pub(crate) fn train<P: Profile>(
        &self,
        user_vector: &mut [f32],
        profile: &mut P,
        gradients: &mut [f32],
        memory: &mut Memory,
    ) -> f64 {
        let (rated_rows, virtual_rows) = self.rows.split_at(self.ratings.len() * user_vector.len());
        let (rated_gradients, virtual_gradients) = gradients.split_at_mut(rated_rows.len());
        if let Filling::Hybrid {
            reading: HybridFilling::Slides,
            local_steps,
            ..
        } = self.filling
        {
            for _ in 0..local_steps {
                self.batch_step(
                    user_vector,
                    profile,
                    (rated_rows, self.ratings),
                    None,
                    memory,
                );
            }
        }
        let mut targets = std::mem::take(&mut memory.targets);
        targets.clear();
        let squares = match self.style {
            Style::Batch => {
                targets.extend_from_slice(self.ratings);
                self.append_virtual_ratings(user_vector, profile, &mut targets, memory);
                let squares = self.batch_step(
                    user_vector,
                    profile,
                    (self.rows, &targets),
                    Some(gradients),
                    memory,
                );
                profile.step_together(self.rows, &memory.errors, self.pass());
                squares
            }
            Style::Stochastic => {
                let rated = (0, rated_rows, self.ratings);
                let squares = stochastic_pass(
                    user_vector,
                    profile,
                    rated,
                    Some(rated_gradients),
                    self.pass(),
                );
                self.append_virtual_ratings(user_vector, profile, &mut targets, memory);
                let filled = (self.ratings.len(), virtual_rows, &targets[..]);
                stochastic_pass(
                    user_vector,
                    profile,
                    filled,
                    Some(virtual_gradients),
                    self.pass(),
                );
                squares
            }
        };
        memory.targets = targets;
        squares / self.ratings.len().max(1) as f64
    }

    /// Returns the rate and the weight of the regulariser.
    fn pass(&self) -> (f32, f32) {
        (self.rate, self.regularization)
    }

    /// Returns the number of rows of V that are visited, including those of the local steps of
    /// hybrid filling.
    pub(crate) fn row_visits(&self, dimension: usize) -> u64 {
        let (rows, rated) = (
            (self.rows.len() / dimension.max(1)) as u64,
            self.ratings.len() as u64,
        );
        let local_passes = match self.filling {
            Filling::Hybrid {
                reading: HybridFilling::Slides,
                local_steps,
                ..
            } => local_steps,
            Filling::Hybrid { local_steps, .. }
                if rows > rated && self.filling.predicts(self.iteration) =>
            {
                local_steps
            }
            _ => 0,
        };
        rows + u64::from(local_passes) * rated
    }

    /// Appends the virtual items' ratings to `targets`.
    fn append_virtual_ratings<P: Profile>(
        &self,
        user_vector: &[f32],
        profile: &mut P,
        targets: &mut Vec<f32>,
        memory: &mut Memory,
    ) {
        let dimension = user_vector.len();
        let (rated_rows, virtual_rows) = self.rows.split_at(self.ratings.len() * dimension);
        if !self.filling.predicts(self.iteration) {
            let mean = mean(self.ratings);
            targets.extend(virtual_rows.chunks_exact(dimension).map(|_| mean));
            return;
        }
        let places = self.ratings.len()..;
        let Filling::Hybrid {
            reading: HybridFilling::Code,
            local_steps,
            ..
        } = self.filling
        else {
            let rows = places.zip(virtual_rows.chunks_exact(dimension));
            targets.extend(rows.map(|(place, row)| dot(profile.at(user_vector, place), row)));
            return;
        };
        if virtual_rows.is_empty() {
            return;
        }
        let (mut vector, mut local) = (
            std::mem::take(&mut memory.local_vector),
            profile.for_local_steps(),
        );
        vector.clear();
        vector.extend_from_slice(user_vector);
        for _ in 0..local_steps {
            match self.style {
                Style::Batch => {
                    self.batch_step(
                        &mut vector,
                        &mut local,
                        (rated_rows, self.ratings),
                        None,
                        memory,
                    );
                    local.step_together(rated_rows, &memory.errors, self.pass());
                }
                Style::Stochastic => {
                    stochastic_pass(
                        &mut vector,
                        &mut local,
                        (0, rated_rows, self.ratings),
                        None,
                        self.pass(),
                    );
                }
            }
        }
        let rows = places.zip(virtual_rows.chunks_exact(dimension));
        targets.extend(rows.map(|(place, row)| dot(local.at(&vector, place), row)));
        memory.local_vector = vector;
    }

    /// Moves U once by the mean gradient over `rows`, and writes the gradients of the rows at the
    /// old U to `gradients`. The errors remain in `memory`. Returns the sum of squared errors over
    /// the rated items.
    fn batch_step<P: Profile>(
        &self,
        user_vector: &mut [f32],
        profile: &mut P,
        (rows, targets): (&[f32], &[f32]),
        mut gradients: Option<&mut [f32]>,
        memory: &mut Memory,
    ) -> f64 {
        let dimension = user_vector.len();
        memory.gradient.clear();
        memory.gradient.resize(dimension, 0.0);
        memory.errors.clear();
        let mut squares = 0.0;
        for (index, (row, &target)) in rows.chunks_exact(dimension).zip(targets).enumerate() {
            let vector = profile.at(user_vector, index);
            let error = dot(vector, row) - target;
            if index < self.ratings.len() {
                squares += f64::from(error) * f64::from(error);
            }
            memory
                .gradient
                .iter_mut()
                .zip(row)
                .for_each(|(sum, v)| *sum += error * v);
            memory.errors.push(error);
            if let Some(gradients) = &mut gradients {
                write_gradient(
                    &mut gradients[index * dimension..],
                    vector,
                    row,
                    error,
                    self.regularization,
                );
            }
        }
        if !targets.is_empty() {
            let count = targets.len() as f32;
            for (u, sum) in user_vector.iter_mut().zip(&memory.gradient) {
                *u -= self.rate * (sum / count + self.regularization * *u);
            }
        }
        squares
    }
}

/// Moves U after every row of `rows`, the first of which is at `first` in the participation, and
/// writes the gradient of each row, at the U before its step, to `gradients`. Returns the sum of
/// squared errors.
#[inline]
fn stochastic_pass<P: Profile>(
    user_vector: &mut [f32],
    profile: &mut P,
    (first, rows, targets): (usize, &[f32], &[f32]),
    mut gradients: Option<&mut [f32]>,
    (rate, regularization): (f32, f32),
) -> f64 {
    let dimension = user_vector.len();
    let mut squares = 0.0;
    for (index, (row, &target)) in rows.chunks_exact(dimension).zip(targets).enumerate() {
        let vector = profile.at(user_vector, first + index);
        let error = dot(vector, row) - target;
        squares += f64::from(error) * f64::from(error);
        if let Some(gradients) = &mut gradients {
            write_gradient(
                &mut gradients[index * dimension..],
                vector,
                row,
                error,
                regularization,
            );
        }
        for (u, v) in user_vector.iter_mut().zip(row) {
            *u -= rate * (error * v + regularization * *u);
        }
        profile.step(first + index, row, error, (rate, regularization));
    }
    squares
}

/// Writes the gradient with respect to a row of V to the first values of `gradient`.
#[inline]
fn write_gradient(
    gradient: &mut [f32],
    vector: &[f32],
    row: &[f32],
    error: f32,
    regularization: f32,
) {
    for ((g, p), v) in gradient.iter_mut().zip(vector).zip(row) {
        *g = error * p + regularization * v;
    }
}

/// Returns the mean rating, or 0 if there are no ratings.
pub(crate) fn mean(ratings: &[f32]) -> f32 {
    ratings.iter().sum::<f32>() / ratings.len().max(1) as f32
}

/// Returns the scalar product, in four partial sums that are added as (0 + 2) + (1 + 3).
#[inline]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 4];
    let ((a_groups, a_rest), (b_groups, b_rest)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    for (a, b) in a_groups.iter().zip(b_groups) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum += a * b;
    }
    (sums[0] + sums[2]) + (sums[1] + sums[3])
}

/// Returns the learning rate of an iteration (from 0), which is `rate` times `decay` to the power
/// of its number.
pub(crate) fn decayed(rate: f64, decay: f64, iterations: u32) -> f32 {
    (rate * fedrecsim_core::math::pow(decay, f64::from(iterations))) as f32
}
