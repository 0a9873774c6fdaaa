//! Defines what is multiplied with V_i to predict a rating of item i: U in probabilistic matrix
//! factorisation, and U with the rated items' rows of O in SVD++.
//!
//! In SVD++ the profile of a user for item i is p = U + (sum over I_u without i of O_i') /
//! sqrt(|I_u without i|), where I_u are the rated items. With the error e = p . V_i - r, the
//! gradient with respect to each of these rows of O is e V_i / sqrt(|I_u without i|) + lambda O_i'.
//! A virtual item is not in I_u. Its own row takes the same step besides, so that rows of O do not
//! give the rated items away.
//!
//! Source: Koren, Factorization Meets the Neighborhood, KDD 2008, as in the slides of FedRec
//! (equation 2, W is O here) and the authors' code Guanyu-Lin/FedRec at 521b7cf, `Client.java` of
//! the stochastic style.

use fedrecsim_core::math;
use fedrecsim_model::neural::dense::add_scaled;

/// What predicts a user's ratings: U, and in SVD++ the rows of O. Items are meant by their place
/// among the rows of a participation.
///
/// A step of the stochastic style moves all rated rows but one by the same amount, apart from the
/// regulariser, which shrinks them by the same factor. So the rows are kept as `scale` times a
/// remainder plus `offset`, and a step takes time that does not grow with the number of rated
/// items.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    /// The user vector U.
    pub user: Vec<f32>,
    /// The number of rated items that have a row of O.
    rated: usize,
    /// The remainders of the rated items' rows of O, then the rows of O of the virtual items.
    rows: Vec<f32>,
    scale: f32,
    offset: Vec<f32>,
    /// The sum of the rated items' rows of O.
    sum: Vec<f32>,
    /// Whether a rated item's own row stays as it is in the item's step.
    spares_own: bool,
    /// The memory for the profile of one item.
    vector: Vec<f32>,
}

impl Profile {
    /// Makes the profile from U and the rows of O; the first `rated` rows belong to the rated
    /// items.
    pub(crate) fn new(user: &[f32], rated: usize, rows: Vec<f32>) -> Self {
        let zeros = || vec![0.0; user.len()];
        let mut profile = Self {
            user: user.to_vec(),
            rated,
            rows,
            scale: 1.0,
            offset: zeros(),
            sum: zeros(),
            spares_own: true,
            vector: zeros(),
        };
        profile.add_up();
        profile
    }

    /// Returns a copy for the local steps of hybrid filling. As in the authors' code, a rated
    /// item's own row moves with the others.
    pub(crate) fn for_local_steps(&self) -> Self {
        Self {
            spares_own: false,
            ..self.clone()
        }
    }

    /// Returns the rows of O, in the order of the participation.
    pub(crate) fn into_rows(mut self) -> Vec<f32> {
        self.settle();
        self.rows
    }

    /// Returns the root of the number of rows of O that are in the profile of the item at `place`.
    fn root(&self, place: usize) -> f32 {
        match self.rated - usize::from(place < self.rated) {
            0 => 0.0,
            others => math::sqrt(others as f64) as f32,
        }
    }

    /// Replaces `row` by the row of O at `place` if `is_in` the sum, and by zeros otherwise.
    fn read(&self, place: usize, is_in: bool, row: &mut [f32]) {
        if !is_in {
            return row.fill(0.0);
        }
        let remainder = &self.rows[place * row.len()..];
        for ((value, remainder), offset) in row.iter_mut().zip(remainder).zip(&self.offset) {
            *value = self.scale * remainder + offset;
        }
    }

    /// Makes the remainders the rows themselves.
    fn settle(&mut self) {
        for row in self.rows.chunks_exact_mut(self.sum.len()).take(self.rated) {
            move_row(row, self.scale, 1.0, &self.offset);
        }
        self.scale = 1.0;
        self.offset.fill(0.0);
    }

    /// Computes the sum of the rated items' rows anew. The rows are settled.
    fn add_up(&mut self) {
        self.sum.fill(0.0);
        for row in self.rows.chunks_exact(self.sum.len()).take(self.rated) {
            add_scaled(1.0, row, &mut self.sum);
        }
    }

    /// Returns the vector that is multiplied with the row of V at `place`.
    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> &[f32] {
        let root = self.root(place);
        if root == 0.0 {
            return &self.user;
        }
        let mut vector = std::mem::take(&mut self.vector);
        self.read(place, place < self.rated, &mut vector);
        for ((value, sum), u) in vector.iter_mut().zip(&self.sum).zip(&self.user) {
            *value = u + (sum - *value) / root;
        }
        self.vector = vector;
        &self.vector
    }

    /// Moves by the gradient of one item, whose row of V and error are given, with this rate and
    /// weight of the regulariser.
    #[inline]
    pub(crate) fn step(
        &mut self,
        place: usize,
        row: &[f32],
        error: f32,
        (rate, regularization): (f32, f32),
    ) {
        for (u, v) in self.user.iter_mut().zip(row) {
            *u -= rate * (error * v + regularization * *u);
        }
        let (root, dimension) = (self.root(place), self.sum.len());
        if root == 0.0 {
            return;
        }
        let (keep, factor) = (1.0 - rate * regularization, -rate * error / root);
        let is_spared = place < self.rated && self.spares_own;
        let moved = (self.rated - usize::from(is_spared)) as f32;
        let mut own = std::mem::take(&mut self.vector);
        self.read(place, is_spared, &mut own);
        for ((sum, own), v) in self.sum.iter_mut().zip(&own).zip(row) {
            *sum = keep * (*sum - own) + moved * (factor * v) + own;
        }
        move_row(&mut self.offset, keep, factor, row);
        self.scale *= keep;
        if !(0.5..=2.0).contains(&self.scale) {
            self.settle();
        }
        let at_place = &mut self.rows[place * dimension..(place + 1) * dimension];
        if is_spared {
            for ((value, own), offset) in at_place.iter_mut().zip(&own).zip(&self.offset) {
                *value = (own - offset) / self.scale;
            }
        } else if place >= self.rated {
            move_row(at_place, keep, factor, row);
        }
        self.vector = own;
    }

    /// Moves the rows of O by the mean gradient over the first items, one for each of `errors`, with
    /// `rows` of V.
    pub(crate) fn step_together(
        &mut self,
        rows: &[f32],
        errors: &[f32],
        (rate, regularization): (f32, f32),
    ) {
        self.settle();
        let (dimension, count) = (self.sum.len(), errors.len() as f32);
        let pull = |(place, error)| match self.root(place) {
            0.0 => 0.0,
            root => error / root,
        };
        let pulls: Vec<f32> = errors.iter().enumerate().map(pull).collect();
        let pulled = || rows.chunks_exact(dimension).zip(&pulls);
        let mut all = vec![0.0; dimension];
        pulled().for_each(|(row, pull)| add_scaled(*pull, row, &mut all));
        let of_o = self.rows.chunks_exact_mut(dimension).enumerate();
        for ((place, row), (of_v, pull)) in of_o.zip(pulled()) {
            for ((o, v), all) in row.iter_mut().zip(of_v).zip(&all) {
                let gradient = match place < self.rated {
                    true => all - pull * v + regularization * (count - 1.0) * *o,
                    false => pull * v + regularization * *o,
                };
                *o -= rate * (gradient / count);
            }
        }
        self.add_up();
    }
}

/// Multiplies the values of a row by `keep`, and adds `factor` times those of another one.
#[inline]
fn move_row(row: &mut [f32], keep: f32, factor: f32, other: &[f32]) {
    for (value, other) in row.iter_mut().zip(other) {
        *value = keep * *value + factor * other;
    }
}
