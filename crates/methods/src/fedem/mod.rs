//! Implements FedEM (Chen et al., AAAI 2026; code jundongchen13/FedEM 747ed85) and its predecessor
//! FedEA (code jundongchen13/FedEA e92fcab), with products as the backbone.
//!
//! The user vector u and a small network A are private, and each device has an item table E of its
//! own, which it goes on from in every participation and sends. The server draws some of the
//! senders and [mixes](super::mixtures) their tables for each of them, as FedCA does without
//! directions. Who has received a mixture G moves each row of E towards that of G, by the share of
//! the way that A says. All others train alone. In FedEM slopes pass through A; in FedEA A alone
//! learns from moved rows.

use super::declare::learn::adapter::Adapter;
use super::declare::{learn, private_perceptron};
use super::mixtures::{Mixing, Mixture, Mixtures};
use super::prelude::*;
use super::user_tables::{self, MakingServer, number_of_samples};

#[cfg(test)]
mod tests;

/// Describes FedEM to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedEm<true>>();

/// Describes FedEA to the registry.
pub(crate) const FED_EA: Entry = Entry::of::<FedEm<false>>();

parameters! {
    /// Parameters of FedEM and FedEA; the defaults are the published ones.
    pub(crate) struct FedEmParameters {
        /// Latent dimension k.
        latent_dimension: u32 = 16, >= 1, <= MAX_DIMENSION;
        /// Passes over the local samples per round, at most.
        local_epochs: u32 = 10, >= 1, <= 10_000;
        /// Samples per batch.
        batch_size: u32 = 256, >= 1;
        /// Adam's learning rate of u and E. Left out: 0.1 for FedEM, and 0.01 for FedEA.
        learning_rate: Option<f64> = None, > 0.0;
        /// Adam's learning rate of A. Left out: that of u and E.
        learning_rate_adapter: Option<f64> = None, > 0.0;
        /// A device ends its passes once one has changed the mean loss by less than this share.
        early_stop_tolerance: f64 = 1e-4, >= 0;
        /// Share of the senders that are mixed, and who receive their mixture.
        mixed_share: f64 = 0.1, > 0.0, <= 1.0;
        /// Weight of similar tables in a mixture. Left out: 0.9 for FedEM, and 0.8 for FedEA.
        similarity: Option<f64> = None, >= 0;
    }
}

/// FedEM if slopes pass through A, and FedEA otherwise.
pub(crate) struct FedEm<const SLOPES_PASS: bool>(FedEmParameters);

impl<const SLOPES_PASS: bool> FedEm<SLOPES_PASS> {
    fn adapter(&self) -> Adapter {
        let inputs = 2 * self.0.latent_dimension as usize;
        let widths = match SLOPES_PASS {
            true => vec![inputs, 16, 8, 1],
            false => vec![inputs, 16, 16, 16, 1],
        };
        Adapter {
            network: Perceptron::new(0, &widths),
            moves_training: SLOPES_PASS,
        }
    }
}

impl<const SLOPES_PASS: bool> Declare for FedEm<SLOPES_PASS> {
    type Parameters = FedEmParameters;
    type Memory = ();

    const NAME: &str = if SLOPES_PASS { "fedem" } else { "fedea" };
    const SUMMARY: &str = match SLOPES_PASS {
        true => {
            "an item table of its own for each device; a tenth of them move its rows towards a \
             mixture, as far as a private network says"
        }
        false => "FedEM's predecessor, whose vectors and tables learn from rows as they are",
    };
    const SOURCE: &str = match SLOPES_PASS {
        true => {
            "Chen et al., Breaking the Aggregation Bottleneck in Federated Recommendation, AAAI \
             2026; code jundongchen13/FedEM 747ed85"
        }
        false => {
            "Personalized Federated Recommendation with Elastic Adaptation; code \
             jundongchen13/FedEA e92fcab; no publication found"
        }
    };
    const FORMULA: &[&str] = match SLOPES_PASS {
        true => &[
            "E_j ← E_j + a_j (G_j − E_j),  a_j = sigmoid(A([E_j; G_j − E_j])),  for who has received G, before training and scoring",
            "s_j = u · E_j;  in training with G, rows move once more: s_j = u · (E_j + a_j (G_j − E_j))",
            "L = mean BCE(s_j, y_j),  by Adam, in each batch first by A, then by u and E",
            "G_u = Σ_v x_uv E_v,  x_u = the point of the simplex next to p + α σ_u,  p = shares of samples,  for those drawn",
        ],
        false => &[
            "s_j = u · E_j trains u and E;  u · (E_j + a_j (G_j − E_j)) trains A",
            "E_j ← E_j + a_j (G_j − E_j),  a_j = sigmoid(A([E_j; G_j − E_j])),  for who has received G",
            "G_u = Σ_v x_uv E_v,  x_u = the point of the simplex next to p + α σ_u,  for those drawn",
        ],
    };
    const DIFFERS: &str = match SLOPES_PASS {
        true => {
            "What is here is the code. By a summary of the paper, all devices receive a mixture \
             there (`mixed_share = 1`), whose weights are divided by 1 + α before they are \
             projected, and rows move once a round, by a network that learns beforehand; that form \
             is not offered. The code also uploads A and never uses it, so A is not sent here. There \
             only the drawn devices upload. Here all do, and the server draws, so multiply bytes up \
             by `mixed_share` to have the code's. Its sigmoids have no slope once they are exactly 1 \
             in single precision, and those here have. Where some take part, who is not invited to \
             the next step never gets its mixture; the code hands it over at once. No figure of the \
             paper is at hand."
        }
        false => {
            "What is here is the code; no paper is known. Its second backbone, a network, is left \
             out, and so is a penalty on the sum of a mixture's weights, which is always 1. The \
             rest is as in FedEM."
        }
    };

    fn resolve(parameters: &mut FedEmParameters) -> Vec<ParameterFault> {
        let (rate, similarity) = if SLOPES_PASS { (0.1, 0.9) } else { (0.01, 0.8) };
        let rate = *parameters.learning_rate.get_or_insert(rate);
        parameters.learning_rate_adapter.get_or_insert(rate);
        parameters.similarity.get_or_insert(similarity);
        Vec::new()
    }

    fn new(mut parameters: FedEmParameters, _problem: &Problem) -> Self {
        Self::resolve(&mut parameters);
        Self(parameters)
    }

    /// All users start alike.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let (k, adapter) = (self.0.latent_dimension, self.adapter());
        let rates = (self.0.learning_rate, self.0.learning_rate_adapter);
        let start = |block: Block| {
            let block = block.start(normal(1.0)).turn(1);
            block.rate(rates.0.unwrap_or_default())
        };
        let network = private_perceptron(&adapter.network);
        let network = network.map(|block| block.rate(rates.1.unwrap_or_default()));
        let table = item_table("E", size.items, k).goes_on_adapted(adapter.clone());
        let user = vector("u", k).private().alike();
        [start(table), start(user)]
            .into_iter()
            .chain(network)
            .chain([vector("n", 1).upload_only()])
            .collect()
    }

    fn score(&self) -> Score {
        Score::dot("u", "E")
    }

    fn training(&self) -> Training {
        Training {
            optimizer: Optimizer::Adam,
            least_change: self.0.early_stop_tolerance,
            ..Training::of(self.0.local_epochs, self.0.batch_size)
        }
    }

    /// Trains, and adds the number of samples.
    fn train(&self, own: &mut Own, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        let goal = (&self.score(), self.loss());
        let mut trained = learn::train(goal, &self.training(), own, task, scratch)?;
        trained.update.blocks.push(number_of_samples(scratch));
        Ok(trained)
    }

    fn traffic(&self, declared: Traffic) -> Traffic {
        user_tables::traffic(declared)
    }

    fn server(&self, averager: Averager) -> Box<dyn Server> {
        let mixing = Mixing {
            mixture: Mixture::PublishedCode,
            share: self.0.mixed_share,
            similarity: self.0.similarity.unwrap_or_default(),
            alignment: 0.0,
        };
        Box::new(MakingServer::<Mixtures>::new(mixing, &averager))
    }
}
