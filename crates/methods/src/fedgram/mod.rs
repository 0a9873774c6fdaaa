//! Implements FedGram, federated implicit least squares with the exact gradient of all negatives.
//!
//! The item table Y and its Gram matrix Y^T Y are shared, and a device keeps no state. A device
//! solves for its vector x, and uploads the gradients of its positives' rows and the matrix x x^T.
//! The sum of these matrices represents all pairs of a user and an item that is not a positive, so
//! that the server can make a Newton-like step of the whole table without sampled negatives. The
//! objective is that of FCF. The step is of second order instead of first order, and uploads are
//! not dense. For scoring, a device solves for x again. Recent positives may count more there, and
//! in training. Times never leave the device, but gradients that were weighted by them do.
//!
//! An upload discloses the user's positives, which are its rows, and x up to its sign, which x x^T
//! determines. With `sends_counts` the server only adds uploads up, so that secure aggregation can
//! hide both, at the price of a dense table of gradients and of counts.
//!
//! Source: This method is the project's own. The closest prior work is FCF (arXiv 1901.09888).

use self::numerics::{Constants, newton_step, outer_triangle, row_gradients};
use super::prelude::*;
use super::recency::{self, training_weights, weighted_positives};
use super::sums::{StepBySums, SumServer, UploadSums};
use super::user_vector::{solved, solved_to_score};
use super::{Parameters, without_effect};
use fedrecsim_model::algebra::{self, packed_triangle, triangle_values};
use fedrecsim_model::least_squares::{LeastSquares, Positives, WeightedGram, gram_of_table};

pub(super) mod numerics;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedGram>();

parameters! {
    /// Parameters of FedGram.
    pub(crate) struct FedGramParameters {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Weight a0 of every item as a negative; that of a positive is 1.
        unobserved_weight: f64 = 0.3, > 0.0;
        /// Weight lambda of the regulariser.
        regularization: f64 = 0.01, > 0.0;
        /// Share eta of a Newton step that the server makes.
        server_rate: f64 = 1.0, > 0.0, <= 1;
        /// Factor of the server's rate after every step; below 1 where cohorts are a small part of
        /// the users.
        server_rate_decay: f64 = 1.0, > 0.0, <= 1;
        /// The rows of Y start as normal draws of this length, about.
        initial_length: f64 = 0.1, > 0.0;
        /// Weight beta of an item's popularity, the share of the last step's participants who have
        /// it, in its score.
        popularity_weight: f64 = 0.0, >= 0;
        /// Whether devices send a count of 1 for each of their positives and for themselves beside
        /// the rows, so that the server uses nothing but sums, which secure aggregation and noise
        /// on the sum need. Otherwise it counts who has sent which row.
        sends_counts: bool = false;
        /// Lets recent positives count more when a device scores. Left out: all count alike.
        recency: Option<Recency> = None;
        /// Lets `unobserved_weight` and `regularization` follow from the density of the data. Left
        /// out: they are as they are.
        by_density: Option<ByDensity> = None;
    }

    /// Weights of the loss that follow from the number of positives of the mean participant of the
    /// last step, so that the same settings serve data of any density. The server counts the rows
    /// of each upload, or adds up the counts that devices send, and sends the mean with the model.
    /// Before its first step, a device takes its own number of positives instead. With small
    /// cohorts the weights vary from step to step.
    pub(crate) struct ByDensity {
        /// Weight of all items together as negatives, for each positive of the mean participant:
        /// with a mean of p positives in a catalogue of m items, a0 is this times p / m.
        unobserved_per_positive: f64 = 40.0, > 0.0;
        /// Weight of the regulariser of the mean participant: lambda is this, divided by (p + a0
        /// m)^nu, where nu is the regulariser's exponent, which is 1 in FedGram.
        regularization: f64 = 7.0, > 0.0;
    }

    /// How recent positives count more: [`recency::Recency`], and what becomes of the old ones.
    pub(crate) struct Recency {
        /// Number tau of positives after which a weight has fallen to 1/e.
        tau: f64 = recency::Recency::default().tau, > 0.0;
        /// Weight that remains of the oldest positives.
        floor: f64 = recency::Recency::default().floor, >= 0;
        /// A positive weighs half when it is so many days old, in place of `tau`. Its age counts from
        /// the end of training, which `global-time` has. Other splits have no common present, and
        /// there the age counts from the user's own last training rating. Every rating needs a
        /// timestamp.
        half_life_days: Option<f64> = None, > 0.0;
        /// Whether the weights w_i count in training too, where they are not scaled. By age under
        /// `global-time`, a user who has been away then counts less than one of yesterday. The
        /// gradients that are sent so tell of times.
        in_training: bool = false;
        /// What the weight among all items pulls an old positive to.
        background: Background = Background::PositivesAtOne;
    }
}

choices! {
    /// What the term over all items pulls a user's positives to.
    pub(crate) enum Background {
        /// To 1: a positive never counts less than a0, however old it is.
        PositivesAtOne,
        /// To 0, like every other item: an old positive comes to count like an item that was never
        /// seen.
        AllAtZero,
    }
}

impl Recency {
    /// Returns how recent positives count more.
    pub(super) fn weighting(&self) -> recency::Recency {
        recency::Recency {
            tau: self.tau,
            floor: self.floor,
            half_life_days: self.half_life_days,
            in_training: self.in_training,
        }
    }
}

/// Returns the parameters that others leave without an effect, of FedGram and of the central method
/// with its loss.
pub(super) fn idle<P: Parameters>(
    p: &P,
    (by_density, recency): (Option<&ByDensity>, Option<&recency::Recency>),
) -> Vec<ParameterFault> {
    let because = "it follows from the data with `by_density`";
    let replaced = ["unobserved_weight", "regularization"];
    let rules = replaced.map(|key| (key, by_density.is_some(), because));
    let mut faults = without_effect(p, &rules);
    faults.extend(recency::idle(recency));
    faults
}

/// The names of the blocks.
pub(super) const TABLE: &str = "Y";
const GRAM: &str = "Y^T Y";
const POPULARITY: &str = "popularity";
pub(super) const MEAN_POSITIVES: &str = "positives of the mean user";

/// Computes Y^T Y of a model from Y again.
///
/// # Errors
/// [`Error::Update`] if the model has other blocks.
pub(super) fn renew(model: &mut Model) -> Result<()> {
    let gram = gram_of_table(table_of(model, TABLE));
    tell(model, GRAM, packed_triangle(&gram))
}

/// Replaces what the model says of this name, if it says that.
///
/// # Errors
/// [`Error::Update`] if there are other values than the block has.
pub(super) fn tell(model: &mut Model, name: &str, values: Vec<f32>) -> Result<()> {
    match model.layout().position(name) {
        Some(block) => {
            let told = Table::new(model.table(block).shape(), values);
            model.set_table(block, told.into())
        }
        None => Ok(()),
    }
}

/// FedGram, and the devices of the central method with its loss.
#[derive(Clone, Debug)]
pub(crate) struct FedGram {
    pub(super) parameters: FedGramParameters,
    /// The exponent of the sum of weights that the regulariser is multiplied by.
    pub(super) exponent: f64,
}

impl FedGram {
    /// Describes the model. The rows of Y are drawn from N(0, length^2 / k), and Y^T Y follows from
    /// them.
    pub(super) fn model_blocks(&self, items: usize) -> Vec<Block> {
        let p = &self.parameters;
        let k = p.latent_dimension;
        let start = normal(p.initial_length / math::sqrt(f64::from(k)));
        let mut blocks = vec![
            item_table(TABLE, items, k).start(start),
            weights(GRAM, 1, triangle_values(k as usize)),
        ];
        blocks.extend((p.popularity_weight > 0.0).then(|| weights(POPULARITY, items, 1)));
        blocks.extend(p.by_density.as_ref().map(|_| weights(MEAN_POSITIVES, 1, 1)));
        blocks.into_iter().map(Block::download_only).collect()
    }

    /// Returns the constants of the loss for this number of positives of the mean user, which
    /// counts as 1 at least.
    pub(super) fn constants(&self, mean_positives: f64, items: usize) -> Constants {
        let p = &self.parameters;
        let mut constants = Constants {
            unobserved_weight: p.unobserved_weight,
            regularization: p.regularization,
            regularization_exponent: self.exponent,
        };
        if let Some(weights) = &p.by_density {
            let (mean, items) = (mean_positives.max(1.0), items as f64);
            constants.unobserved_weight = weights.unobserved_per_positive * mean / items;
            constants.regularization = 1.0;
            constants.regularization = weights.regularization / constants.ridge(mean, items);
        }
        constants
    }

    /// Returns the constants of the loss that `model` tells. By density, before anything has been
    /// counted, those are for `own` positives.
    fn constants_of_model(&self, model: &Model, own: usize) -> Constants {
        let told = model.named(MEAN_POSITIVES).map(|told| told.as_slice()[0]);
        let counted = told.filter(|mean| *mean > 0.0).map(f64::from);
        let mean = counted.unwrap_or(own.max(1) as f64);
        self.constants(mean, table_of(model, TABLE).shape().rows)
    }

    /// Returns x for these positives with these weights, pulled to this background.
    fn solve(
        &self,
        model: &Model,
        items: &[u32],
        (weights, background): (Option<&[f64]>, Background),
        solver: &mut LeastSquares,
    ) -> algebra::Result<Vec<f64>> {
        let table = table_of(model, TABLE);
        let rows = table.shape().rows;
        let constants = self.constants_of_model(model, items.len());
        let positives = Positives {
            items,
            weights,
            target_offset: match background {
                Background::PositivesAtOne => constants.unobserved_weight,
                Background::AllAtZero => 0.0,
            },
        };
        let gram = table_of(model, GRAM).as_slice();
        let weighted_gram = WeightedGram::Triangle(constants.unobserved_weight, gram);
        let ridge = constants.ridge(items.len() as f64, rows as f64);
        solver.user_vector(weighted_gram, table, positives, ridge)
    }

    /// Makes the scorer of a device.
    pub(super) fn device_scorer<'a>(&self, context: ScoringContext<'a>) -> Scoring<'a> {
        let recency = self.parameters.recency.as_ref();
        let weighting = recency.map(Recency::weighting);
        let own = (&context.own, context.user);
        let (positives, weights) = weighted_positives(own, weighting.as_ref())?;
        let background = recency.map_or(Background::AllAtZero, |recency| recency.background);
        let weighted = (Some(&weights[..]), background);
        let solver = &mut context.scratch.least_squares;
        let vector = self.solve(context.model, &positives, weighted, solver);
        let vector = solved_to_score(context.user, vector)?;
        let table = table_of(context.model, TABLE);
        let popularity = context.model.named(POPULARITY);
        let beta = self.parameters.popularity_weight as f32;
        Ok(Box::new(Products {
            item_bias: popularity.map(|popularity| (beta, popularity.clone())),
            ..Products::new(vector, table)
        }))
    }
}

impl Declare for FedGram {
    type Parameters = FedGramParameters;
    type Memory = ();

    const NAME: &str = "fedgram";
    const SUMMARY: &str = "implicit least squares: devices send their positives' gradients and \
                           x x^T, the server makes Newton steps";
    const SOURCE: &str = "an own method of this project (FCF's objective, arXiv 1901.09888, with a \
                          second-order server)";
    const FORMULA: &[&str] = &[
        "s_i = x · Y_i,  x = (a₀ YᵀY + Σ_{j∈I_u} Y_j Y_jᵀ + λ (n_u + a₀ m) I)⁻¹ Σ_{j∈I_u} Y_j",
        "L = Σ_u (Σ_{i∈I_u} (1 − x_u · Y_i)² + a₀ Σ_i (x_u · Y_i)² + λ (n_u + a₀ m) ‖x_u‖²) + λ Σ_i (n_i + a₀ n) ‖Y_i‖²",
        "Y_i ← Y_i − η ((a₀ + n_i / n) G + ρ_i I)⁻¹ (g_i + a₀ G Y_i + ρ_i Y_i),  ρ_i = λ (n_i + a₀ n)",
        "g_i = Σ_u (x_u · Y_i − 1) x_u over the users of i,  G = Σ_u x_u x_uᵀ",
        "trained by time, a term of L's first sum and of g_i counts w_ui times",
    ];
    const DRAWS_NEGATIVES: bool = false;
    const WITHOUT_CONTROLS: Option<&str> =
        Some("devices send sums, with which the server makes the steps");

    fn resolve(p: &mut FedGramParameters) -> Vec<ParameterFault> {
        let recency = p.recency.as_ref().map(Recency::weighting);
        idle(p, (p.by_density.as_ref(), recency.as_ref()))
    }

    fn new(parameters: FedGramParameters, _problem: &Problem) -> Self {
        Self {
            parameters,
            exponent: 1.0,
        }
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let k = self.parameters.latent_dimension;
        let told = self.model_blocks(size.items).into_iter();
        let sent = [
            item_table("gradient", size.items, k),
            weights("x x^T", 1, triangle_values(k as usize)),
        ];
        told.chain(sent.map(Block::upload_only)).collect()
    }

    fn initial(&self, mut drawn: Model) -> Model {
        // The blocks are those of this method, so that this cannot fail.
        renew(&mut drawn).unwrap_or_else(|error| unreachable!("{error}"));
        drawn
    }

    fn counts(&self) -> Counts {
        Counts::RowsAndSender.only_if(self.parameters.sends_counts)
    }

    fn train(&self, _: &mut Own, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        let recency = self.parameters.recency.as_ref().map(Recency::weighting);
        let (positives, of_positives) = training_weights((&task.own, task.user), recency.as_ref())?;
        let weighted = (Some(&of_positives[..]), Background::AllAtZero);
        let vector = self.solve(task.model, &positives, weighted, &mut scratch.least_squares);
        let vector = solved(task, vector)?;
        let table = table_of(task.model, TABLE);
        let gradients = row_gradients(&vector, table, (&positives, &of_positives));
        task.check_magnitude("gradient", largest_magnitude(&gradients))?;
        // A gradient is a weight times an error times x, so that its squared length divided by that of
        // x is the square of the weighted error.
        let squares = gradients.iter().map(|value| f64::from(*value).powi(2));
        let length: f64 = vector.iter().map(|value| value * value).sum();
        let (count, shape) = (positives.len(), table.shape());
        let k = shape.dimension;
        let triangle = TableShape::new(1, triangle_values(k));
        let of_uploads = (2 * count * k + triangle.dimension) as u64;
        let work = Work {
            row_visits: 2 * count as u64,
            multiply_adds: LeastSquares::multiply_adds(count, k) + of_uploads,
        };
        let update = ModelUpdate::of_blocks(vec![
            TableUpdate::listed(shape, positives, &gradients, 1.0)?,
            TableUpdate::whole(Table::new(triangle, outer_triangle(&vector))),
        ]);
        let loss = squares.sum::<f64>() / (length * count.max(1) as f64).max(f64::MIN_POSITIVE);
        Ok(Trained::new(update, loss, work))
    }

    fn scorer<'a>(&'a self, _: &'a Own, context: ScoringContext<'a>) -> Scoring<'a> {
        self.device_scorer(context)
    }

    fn server(&self, averager: Averager) -> Box<dyn Server> {
        SumServer::boxed(&averager, self.clone())
    }
}

impl StepBySums for FedGram {
    fn step(&mut self, model: &mut Model, sums: UploadSums, step: &StepContext<'_>) -> Result<u64> {
        let TableShape { rows, dimension } = table_of(model, TABLE).shape();
        if sums.participants > 0.0 {
            // 0 would say that nothing was counted.
            let mean = sums.mean_rows().max(1.0);
            let constants = self.constants(f64::from(mean), rows);
            let decay = math::pow(self.parameters.server_rate_decay, f64::from(step.step));
            let rate = self.parameters.server_rate * decay;
            let table = &mut model.table_mut(0).view_mut();
            let stepped = newton_step(&sums, table, &constants, rate);
            stepped.map_err(|cause| step.unsolvable("the sum of x x^T", cause))?;
            renew(model)?;
            tell(model, POPULARITY, sums.shares())?;
            tell(model, MEAN_POSITIVES, vec![mean])?;
        }
        let (m, k) = (rows as u64, dimension as u64);
        // The terms are three products with the table, Y^T Y, and ten sweeps of 4 k^3 for the
        // eigenvectors.
        Ok(3 * m * k * k + m * k * (k + 1) / 2 + 40 * k * k * k)
    }

    /// Computes Y^T Y from Y again, so that it fits even if the caller has only changed Y.
    fn adopted(&self, mut model: Model) -> Result<Model> {
        renew(&mut model)?;
        Ok(model)
    }
}
