//! Mixes the tables of users for each of them, as FedCA, FedEM and FedEA do: by weights on the simplex, from
//! shares of samples, how alike tables are, and how aligned directions.

use std::sync::Arc;

use ndarray::Array2;

use crate::choices;
use crate::prelude::*;
use crate::server::PersonalDownloads;
use crate::user_tables::{Made, Making, Uploads, mean_of};
use fedrecsim_model::algebra::{AlgebraError, Principal, mirror_upper, squared_distances};
use rayon::prelude::*;

choices! {
    /// How alike two users are.
    pub(crate) enum Mixture {
        /// By scores on each table's first principal component. Directions are of all samples.
        PublishedCode,
        /// By the squared distance of whole tables. Directions are of positives alone.
        Paper,
    }
}

/// The mixture of each user that was drawn in the last step. All others receive nothing. The model is the
/// mean of what was sent, which no device receives.
#[derive(Clone, Debug)]
pub(crate) struct Mixtures(Made);

/// Says who is mixed, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mixing {
    /// How alike two users are.
    pub mixture: Mixture,
    /// The share of the senders that are mixed, and who receive their mixture.
    pub share: f64,
    /// The weight of similar tables.
    pub similarity: f64,
    /// The weight of aligned directions, which are the second block that a device sends.
    pub alignment: f64,
}

impl PersonalDownloads for Mixtures {
    fn download(&self, user: UserId) -> Result<Model> {
        Ok(match self.0.of(user) {
            Some(table) => {
                let block = &self.0.model.layout().blocks()[0];
                Model::none().with_table(block, Arc::clone(table))?
            }
            None => Model::none(),
        })
    }
}

impl Mixing {
    /// Returns how the users that were drawn are mixed for each of them: a row each.
    fn weights(&self, drawn: &[Vec<Table>], step: &StepContext<'_>) -> Result<Array2<f64>> {
        let tables = drawn.iter().map(|sent| &sent[0]);
        let likeness = likeness(self.mixture, &tables.collect::<Vec<_>>(), step)?;
        let samples = drawn.iter().filter_map(|sent| sent.last());
        let samples: Vec<f64> = samples.map(|n| f64::from(n.as_slice()[0])).collect();
        let total = samples.iter().sum::<f64>().max(1.0);
        let alignments = self.alignments(drawn);
        let mut weights = Array2::zeros((drawn.len(), drawn.len()));
        for (u, mut row) in weights.rows_mut().into_iter().enumerate() {
            let of_user = |v: usize| {
                let (share, aligned) = (samples[v] / total, alignments[(u, v)]);
                composite(self, share, (likeness[(u, v)], aligned))
            };
            let found = on_simplex(&(0..drawn.len()).map(of_user).collect::<Vec<_>>());
            row.iter_mut()
                .zip(found)
                .for_each(|(weight, found)| *weight = found);
        }
        Ok(weights)
    }

    /// Returns how aligned the directions of each two users are, which is the same both ways; zeros where
    /// nothing is weighed by it.
    fn alignments(&self, drawn: &[Vec<Table>]) -> Array2<f64> {
        let mut alignments = Array2::zeros((drawn.len(), drawn.len()));
        if self.alignment > 0.0 {
            let rows: Vec<_> = alignments.rows_mut().into_iter().enumerate().collect();
            rows.into_par_iter().for_each(|(u, mut row)| {
                let of_others = row.iter_mut().zip(drawn).skip(u);
                of_others.for_each(|(found, sent)| *found = alignment(&drawn[u][1], &sent[1]));
            });
            mirror_upper(&mut alignments);
        }
        alignments
    }
}

/// Returns what the weight of a user in a mixture is projected from.
pub(crate) fn composite(p: &Mixing, share: f64, (likeness, alignment): (f64, f64)) -> f64 {
    match p.mixture {
        Mixture::PublishedCode => share + p.alignment * alignment + p.similarity * likeness,
        Mixture::Paper => {
            let sum = share + p.similarity * likeness + p.alignment / 2.0 * alignment;
            sum / (1.0 + p.similarity)
        }
    }
}

/// Returns how alike each two tables are.
pub(crate) fn likeness(
    mixture: Mixture,
    tables: &[&Table],
    step: &StepContext<'_>,
) -> Result<Array2<f64>> {
    let compared = |table: &&Table| -> Result<Vec<f64>, AlgebraError> {
        if mixture == Mixture::Paper {
            return Ok(table.as_slice().iter().copied().map(f64::from).collect());
        }
        let dimension = table.shape().dimension;
        let found = Principal::of(table.as_slice(), dimension, None, 1)?;
        Ok(found.scores(0, table.as_slice()))
    };
    let compared: Vec<Result<Vec<f64>, AlgebraError>> = tables.par_iter().map(compared).collect();
    let compared: Vec<Vec<f64>> = (compared.into_iter().collect::<Result<_, _>>())
        .map_err(|cause| step.unsolvable("the principal component of E", cause))?;
    let squares = squared_distances(&compared);
    Ok(squares.mapv(|squares| match mixture {
        Mixture::Paper => 1.0 / (1.0 + squares),
        Mixture::PublishedCode => {
            let likeness = 1.0 / (1.0 + math::sqrt(squares));
            if likeness > 0.9 { 1.0 } else { likeness }
        }
    }))
}

/// Returns the cosine of the mean angle between the directions of two users, which are paired from
/// the largest cosine down.
pub(crate) fn alignment(one: &Table, other: &Table) -> f64 {
    let directions = one.shape().rows;
    let cosine = |i: usize, j: usize| {
        let values = one.row(i).iter().zip(other.row(j));
        let products = values.map(|(a, b)| f64::from(*a) * f64::from(*b));
        products.sum::<f64>().clamp(-1.0, 1.0)
    };
    let pairs = (0..directions).flat_map(|i| (0..directions).map(move |j| (i, j)));
    let mut pairs: Vec<(f64, usize, usize)> = pairs.map(|(i, j)| (cosine(i, j), i, j)).collect();
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut is_free = [vec![true; directions], vec![true; directions]];
    let mut angles = 0.0;
    for (cosine, i, j) in pairs {
        if is_free[0][i] && is_free[1][j] {
            (is_free[0][i], is_free[1][j]) = (false, false);
            angles += math::acos(cosine);
        }
    }
    math::cos(angles / directions as f64)
}

/// Returns the point of the probability simplex that is next to `point`.
pub(crate) fn on_simplex(point: &[f64]) -> Vec<f64> {
    let mut sorted = point.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut threshold) = (0.0, 0.0);
    for (count, value) in (1..).zip(&sorted) {
        sum += value;
        let lowered = (sum - 1.0) / f64::from(count);
        if *value > lowered {
            threshold = lowered;
        }
    }
    point
        .iter()
        .map(|value| (value - threshold).max(0.0))
        .collect()
}

impl Making for Mixtures {
    type Parameters = Mixing;

    fn of_nobody(model: Model) -> Self {
        Self(Made::of_nobody(model))
    }

    fn model(&self) -> &Model {
        &self.0.model
    }

    fn made(
        &self,
        mixing: &Mixing,
        (users, mut sent): (Vec<UserId>, Vec<Vec<Table>>),
        step: &StepContext<'_>,
    ) -> Result<(Self, u64)> {
        let shape = self.model().table(0).shape();
        let mean = mean_of(shape, sent.iter().map(|sent| &sent[0]));
        step.check_magnitude("the mean table", largest_magnitude(mean.as_slice()))?;
        let mut model = self.model().clone();
        model.set_table(0, mean.into())?;
        let count = (mixing.share * users.len() as f64) as usize;
        let mut drawn: Vec<usize> = (0..users.len()).collect();
        let mut stream = step.named_stream("fedca/mixed");
        stream.keep_drawn(&mut drawn, count.max(1));
        drawn.sort_unstable();
        let users = drawn.iter().map(|at| users[*at]).collect();
        let drawn: Vec<Vec<Table>> = drawn
            .iter()
            .map(|at| std::mem::take(&mut sent[*at]))
            .collect();
        let directions = drawn.first().map_or(0, |sent| sent[1].shape().rows as u64);
        let weights = mixing.weights(&drawn, step)?;
        let tables = drawn.into_iter().filter_map(|sent| sent.into_iter().next());
        let uploads = Uploads {
            shape,
            tables: tables.collect(),
        };
        let tables = uploads.sums(&weights);
        let (n, all, values) = (
            tables.len() as u64,
            sent.len() as u64,
            shape.values() as u64,
        );
        let k = shape.dimension as u64;
        let compared = match mixing.mixture {
            // A component and its scores of each user, and the distances of scores.
            Mixture::PublishedCode => n * values * (k + 1) + n * n * shape.rows as u64,
            Mixture::Paper => n * n * values,
        };
        let aligned = match mixing.alignment > 0.0 {
            true => n * n * directions * directions * k,
            false => 0,
        };
        // The mean, and the mixtures.
        let multiply_adds = values * (all + n * n) + compared + aligned;
        let tables = tables.into_iter().map(Arc::new).collect();
        let made = Made {
            model,
            users,
            tables,
        };
        Ok((Self(made), multiply_adds))
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.0.visit_state(state)
    }
}
