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
    /// Trains U and the rows of O in the `profile`. Returns the mean squared error over the rated
    /// items, each before its own step, and the gradient of every row of V.
    pub(crate) fn train(&self, profile: &mut Profile) -> (f64, Vec<f32>) {
        let (p, ratings) = (self.parameters, self.ratings);
        if p.reading() == Some(HybridFilling::Slides) {
            for _ in 0..p.local_steps {
                self.visit(Style::Batch, (0, ratings), profile, &mut []);
            }
        }
        let mut gradients = vec![0.0; self.rows.len()];
        let squares = match p.style {
            Style::Batch => {
                let targets = [ratings, &self.virtual_ratings(profile)].concat();
                let (squares, errors) = self.visit(p.style, (0, &targets), profile, &mut gradients);
                profile.step_together(self.rows, &errors, self.pass());
                squares
            }
            Style::Stochastic => {
                let (squares, _) = self.visit(p.style, (0, ratings), profile, &mut gradients);
                let filled = (ratings.len(), &self.virtual_ratings(profile)[..]);
                self.visit(p.style, filled, profile, &mut gradients);
                squares
            }
        };
        (squares / ratings.len().max(1) as f64, gradients)
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
    fn virtual_ratings(&self, profile: &Profile) -> Vec<f32> {
        let (p, rated) = (self.parameters, self.ratings.len());
        let rows = self.rows.chunks_exact(profile.user.len());
        let rows = rows.enumerate().skip(rated);
        if rows.len() == 0 || !p.predicts(self.iteration) {
            return vec![mean(self.ratings); rows.len()];
        }
        let mut profile = profile.for_local_steps();
        // The slides' steps have been taken already, by U itself.
        let steps = match p.hybrid_filling {
            HybridFilling::Code => p.local_steps,
            HybridFilling::Slides => 0,
        };
        for _ in 0..steps {
            let (_, errors) = self.visit(p.style, (0, self.ratings), &mut profile, &mut []);
            if p.style == Style::Batch {
                profile.step_together(self.rows, &errors, self.pass());
            }
        }
        let predict = |(place, row): (usize, &[f32])| dot(profile.at(place), row);
        rows.map(predict).collect()
    }

    /// Goes through the rows from place `first` on that have a target, and writes the gradient of
    /// each, before its step, to its place in `gradients` if there is room. In the batch style U is
    /// moved at the end, by the mean gradient, and in the stochastic style U and the rows of O are
    /// after every row. Returns the sum of squared errors over the rated items and, in the batch
    /// style, the errors.
    #[inline]
    fn visit(
        &self,
        style: Style,
        (first, targets): (usize, &[f32]),
        profile: &mut Profile,
        gradients: &mut [f32],
    ) -> (f64, Vec<f32>) {
        let ((rate, regularization), d) = (self.pass(), profile.user.len());
        let (mut squares, mut sum, mut errors) = (0.0, vec![0.0; d], Vec::new());
        let rows = self.rows.chunks_exact(d).enumerate().skip(first);
        for ((place, row), target) in rows.zip(targets) {
            let vector = profile.at(place);
            let error = dot(vector, row) - target;
            if place < self.ratings.len() {
                squares += f64::from(error) * f64::from(error);
            }
            if let Some(gradient) = gradients.get_mut(place * d..(place + 1) * d) {
                for ((g, p), v) in gradient.iter_mut().zip(vector).zip(row) {
                    *g = error * p + regularization * v;
                }
            }
            match style {
                Style::Batch => {
                    add_scaled(error, row, &mut sum);
                    errors.push(error);
                }
                Style::Stochastic => profile.step(place, row, error, self.pass()),
            }
        }
        if !errors.is_empty() {
            let count = errors.len() as f32;
            for (u, sum) in profile.user.iter_mut().zip(&sum) {
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
