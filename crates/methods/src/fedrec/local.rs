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
use super::{FedRecParameters, HybridFilling, Strategy, Style};
use fedrecsim_model::neural::dense::add_scaled;

/// Holds what a device trains with in one participation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalTraining<'a> {
    /// The parameters of the method.
    pub parameters: &'a FedRecParameters,
    /// The rows of V as downloaded (d values each), first those of the rated items, then those of
    /// the virtual ones.
    pub rows: &'a [f32],
    /// The ratings of the rated items. Further rows are those of virtual items.
    pub ratings: &'a [f32],
    /// The iteration of the server, from 0.
    pub iteration: u32,
    /// The learning rate gamma of U.
    pub rate: f32,
}

impl FedRecParameters {
    /// Returns the reading of hybrid filling that is followed, unless ratings are averages.
    pub(super) fn reading(&self) -> Option<HybridFilling> {
        (self.strategy == Strategy::HybridFilling).then_some(self.hybrid_filling)
    }

    /// Returns whether virtual ratings are predicted in this iteration (from 0).
    pub(super) fn predicts(&self, iteration: u32) -> bool {
        match self.reading() {
            None => false,
            Some(HybridFilling::Code) => iteration > self.predict_from,
            Some(HybridFilling::Slides) => iteration + 1 >= self.predict_from,
        }
    }
}

impl LocalTraining<'_> {
    /// Trains U, which is `user_vector` (d values), and the rows of O in the `profile`. Writes the
    /// gradient of every row of V to `gradients`, which has the length of `rows`. Returns the mean
    /// squared error over the rated items, each before its own step.
    pub(crate) fn train(
        &self,
        user_vector: &mut [f32],
        profile: &mut Profile,
        gradients: &mut [f32],
    ) -> f64 {
        let (p, ratings) = (self.parameters, self.ratings);
        if p.reading() == Some(HybridFilling::Slides) {
            for _ in 0..p.local_steps {
                self.visit(Style::Batch, (0, ratings), (user_vector, profile), &mut []);
            }
        }
        let squares = match p.style {
            Style::Batch => {
                let virtual_ratings = self.virtual_ratings(user_vector, profile);
                let targets = [ratings, &virtual_ratings].concat();
                let trained = (&mut *user_vector, &mut *profile);
                let (squares, errors) = self.visit(p.style, (0, &targets), trained, gradients);
                profile.step_together(self.rows, &errors, self.pass());
                squares
            }
            Style::Stochastic => {
                let of_rated = ratings.len() * user_vector.len();
                let (of_rated, of_virtual) = gradients.split_at_mut(of_rated);
                let trained = (&mut *user_vector, &mut *profile);
                let (squares, _) = self.visit(p.style, (0, ratings), trained, of_rated);
                let targets = self.virtual_ratings(user_vector, profile);
                let filled = (ratings.len(), &targets[..]);
                self.visit(p.style, filled, (user_vector, profile), of_virtual);
                squares
            }
        };
        squares / ratings.len().max(1) as f64
    }

    /// Returns the rate and the weight of the regulariser.
    fn pass(&self) -> (f32, f32) {
        (self.rate, self.parameters.regularization as f32)
    }

    /// Returns the number of rows of V that are visited, including those of the local steps of
    /// hybrid filling.
    pub(crate) fn row_visits(&self, dimension: usize) -> u64 {
        let (p, rated) = (self.parameters, self.ratings.len());
        let rows = self.rows.len() / dimension.max(1);
        let passes = match p.reading() {
            Some(HybridFilling::Slides) => p.local_steps,
            Some(_) if rows > rated && p.predicts(self.iteration) => p.local_steps,
            _ => 0,
        };
        rows as u64 + u64::from(passes) * rated as u64
    }

    /// Returns the virtual items' ratings.
    fn virtual_ratings(&self, user_vector: &[f32], profile: &Profile) -> Vec<f32> {
        let (p, rated) = (self.parameters, self.ratings.len());
        let rows = self.rows.chunks_exact(user_vector.len());
        let rows = rows.enumerate().skip(rated);
        if rows.len() == 0 || !p.predicts(self.iteration) {
            return vec![mean(self.ratings); rows.len()];
        }
        let (mut vector, mut profile) = (user_vector.to_vec(), profile.for_local_steps());
        // The slides' steps have been taken already, by U itself.
        let steps = match p.hybrid_filling {
            HybridFilling::Code => p.local_steps,
            HybridFilling::Slides => 0,
        };
        for _ in 0..steps {
            let local = (&mut vector[..], &mut profile);
            let (_, errors) = self.visit(p.style, (0, self.ratings), local, &mut []);
            if p.style == Style::Batch {
                profile.step_together(self.rows, &errors, self.pass());
            }
        }
        rows.map(|(place, row)| dot(profile.at(&vector, place), row))
            .collect()
    }

    /// Goes through the rows from place `first` on that have a target, and writes the gradient of
    /// each, before its step, to `gradients` if there is room. In the batch style U is moved at the
    /// end, by the mean gradient, and in the stochastic style U and the profile are after every row.
    /// Returns the sum of squared errors over the rated items and, in the batch style, the errors.
    #[inline]
    fn visit(
        &self,
        style: Style,
        (first, targets): (usize, &[f32]),
        (user_vector, profile): (&mut [f32], &mut Profile),
        gradients: &mut [f32],
    ) -> (f64, Vec<f32>) {
        let ((rate, regularization), d) = (self.pass(), user_vector.len());
        let (mut squares, mut sum, mut errors) = (0.0, vec![0.0; d], Vec::new());
        let rows = self.rows.chunks_exact(d).skip(first);
        for (index, (row, target)) in rows.zip(targets).enumerate() {
            let place = first + index;
            let vector = profile.at(user_vector, place);
            let error = dot(vector, row) - target;
            if place < self.ratings.len() {
                squares += f64::from(error) * f64::from(error);
            }
            if let Some(gradient) = gradients.get_mut(index * d..(index + 1) * d) {
                for ((g, p), v) in gradient.iter_mut().zip(vector).zip(row) {
                    *g = error * p + regularization * v;
                }
            }
            match style {
                Style::Batch => {
                    add_scaled(error, row, &mut sum);
                    errors.push(error);
                }
                Style::Stochastic => {
                    for (u, v) in user_vector.iter_mut().zip(row) {
                        *u -= rate * (error * v + regularization * *u);
                    }
                    profile.step(place, row, error, (rate, regularization));
                }
            }
        }
        if !errors.is_empty() {
            let count = errors.len() as f32;
            for (u, sum) in user_vector.iter_mut().zip(&sum) {
                *u -= rate * (sum / count + regularization * *u);
            }
        }
        (squares, errors)
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
