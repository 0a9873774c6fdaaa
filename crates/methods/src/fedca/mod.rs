//! Implements FedCA, composite aggregation (Zhang et al., arXiv 2406.03933, 2024; code
//! hongleizhang/FedCA b8e6802), with matrix factorisation as its backbone.
//!
//! The user vector u is private, and each device has an item table E of its own, which it goes on
//! from in every participation. It sends the table, with the principal directions of the rows that
//! it has trained. The server draws some of the senders and [mixes](super::mixtures) their tables for each of
//! them. Who is drawn moves its table a little towards the mixture; all others receive nothing.

use super::declare::learn;
use super::mixtures::{Mixing, Mixture, Mixtures};
use super::prelude::*;
use super::user_tables::{self, MakingServer, number_of_samples};
use super::without_effect;
use fedrecsim_model::algebra::Principal;

#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedCa>();

parameters! {
    /// Parameters of FedCA; the defaults are the published ones.
    pub(crate) struct FedCa {
        /// Latent dimension k.
        latent_dimension: u32 = 16, >= 1, <= MAX_DIMENSION;
        /// Passes over the local samples per round, at most.
        local_epochs: u32 = 10, >= 1, <= 10_000;
        /// Samples per batch.
        batch_size: u32 = 256, >= 1;
        /// Adam's learning rate of u and E.
        learning_rate: f64 = 0.01, > 0.0;
        /// A device ends its passes once one has changed the mean loss by less than this share.
        early_stop_tolerance: f64 = 1e-4, >= 0;
        /// Number of principal directions that a device sends.
        directions: u32 = 4, >= 1, <= 32;
        /// How alike two users are.
        mixture: Mixture = Mixture::PublishedCode;
        /// Share of the senders that are mixed, and who receive their mixture.
        mixed_share: f64 = 0.1, > 0.0, <= 1.0;
        /// Share of its own table that a device keeps when it receives a mixture (`rho`).
        own_share: f64 = 0.9, >= 0, <= 1.0;
        /// Weight of similar tables in a mixture.
        similarity: f64 = 0.3, >= 0;
        /// Weight of aligned directions in a mixture, which the paper calls complementarity.
        alignment: f64 = 0.3, >= 0;
    }
}

impl FedCa {
    fn mixing(&self) -> Mixing {
        Mixing {
            mixture: self.mixture,
            share: self.mixed_share,
            similarity: self.similarity,
            alignment: self.alignment,
        }
    }
}

impl Declare for FedCa {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "fedca";
    const SUMMARY: &str = "an item table of its own for each device; a tenth of them get a mixture \
                           of similar and aligned tables";
    const SOURCE: &str = "Zhang et al., Beyond Similarity: Personalized Federated Recommendation \
                          with Composite Aggregation, arXiv 2406.03933; code hongleizhang/FedCA \
                          b8e6802";
    const FORMULA: &[&str] = &[
        "s_j = u · E_j",
        "L = mean BCE(s_j, y_j),  by Adam, which starts anew in each participation",
        "E_u ← ρ E_u + (1 − ρ) Σ_v x_uv E_v,  for the users that are drawn",
        "x_u = the point of the simplex next to p + α c_u + β σ_u,  p = shares of samples",
    ];
    const DIFFERS: &str = "`mixture` chooses. The code (`published-code`, the default) weighs \
                           directions by its α and tables by β, against its README; the paper \
                           (`paper`) weighs them the other way round, halves the weight of \
                           directions, and compares whole tables by 1/(1 + ‖E_u − E_v‖²). α and β \
                           are both 0.3. In either, the clients called complementary are those \
                           whose directions are aligned. The paper's formula is known from a \
                           digest of it. The code's second backbone, a network, is left out. The \
                           loss of its library has no gradient once a sigmoid is exactly 1 in \
                           single precision, and the one here has. Where some take part, who is not \
                           invited to the next step never gets its mixture; the code hands it over \
                           at once. No figure of the paper has been held against a run yet.";

    fn resolve(p: &mut Self) -> Vec<ParameterFault> {
        let (is_off, because) = (
            p.own_share == 1.0,
            "`own_share` leaves nothing for mixtures",
        );
        let keys = ["similarity", "alignment"];
        without_effect(p, &keys.map(|key| (key, is_off, because)))
    }

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    /// All users start alike.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let k = self.latent_dimension;
        let directions = self.directions.min(k) as usize;
        let table = item_table("E", size.items, k).goes_on_from_own(self.own_share);
        let user = vector("u", k).private().alike();
        let start = |block: Block| block.start(normal(1.0)).rate(self.learning_rate);
        vec![
            start(table),
            start(user),
            weights("P", directions, k as usize).upload_only(),
            vector("n", 1).upload_only(),
        ]
    }

    fn score(&self) -> Score {
        Score::dot("u", "E")
    }

    fn training(&self) -> Training {
        Training {
            optimizer: Optimizer::Adam,
            least_change: self.early_stop_tolerance,
            ..Training::of(self.local_epochs, self.batch_size)
        }
    }

    /// Trains, and adds the principal directions of the rows of the samples and their number.
    fn train(&self, own: &mut Own, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        let goal = (&self.score(), self.loss());
        let mut trained = learn::train(goal, &self.training(), own, task, scratch)?;
        let round_rows = &scratch.round_rows;
        let mut counts = vec![0.0; round_rows.rows.len()];
        let only_positives = self.mixture == Mixture::Paper;
        let counted = (round_rows.samples.iter()).filter(|sample| sample.1 || !only_positives);
        counted.for_each(|(row, _)| counts[*row as usize] += 1.0);
        let blocks = &mut trained.update.blocks;
        let rows: Vec<f32> = floats(&blocks[0].values).collect();
        let k = self.latent_dimension as usize;
        let number = self.directions.min(self.latent_dimension) as usize;
        let found = Principal::of(&rows, k, Some(&counts), number);
        // Trained rows are finite, and within the limit of divergence.
        let found = found.map_err(|cause| Error::Update(cause.to_string()))?;
        let shape = TableShape::new(number, k);
        blocks.push(TableUpdate::whole(Table::new(shape, found.directions())));
        blocks.push(number_of_samples(scratch));
        trained.work.multiply_adds += (rows.len() * k) as u64;
        Ok(trained)
    }

    fn traffic(&self, declared: Traffic) -> Traffic {
        user_tables::traffic(declared)
    }

    fn server(&self, averager: Averager) -> Box<dyn Server> {
        Box::new(MakingServer::<Mixtures>::new(self.mixing(), &averager))
    }
}
