//! Implements FedDAE, a mixture of two variational encoders (Li et al., AAAI 2025; code mtics/FedDAE
//! 04d0f77).
//!
//! A device encodes the items of its user twice, by an encoder L and by an encoder E. A gate G weighs
//! the two, and a decoder D scores all items. L and G are meant to be private; in the published code
//! nothing is. Devices send gradients, and the server steps by Adam. Of the first layers, a device
//! needs the rows of its own items alone.

use self::network::{Drawn, Encoders, Network, Widths};
use self::passes::Passes;
use super::prelude::*;
use super::user_vector::DistinctPositives;
use super::{choices, rule, without_effect};
use fedrecsim_model::neural::optimizer::AdamSettings;

mod network;
mod objective;
mod passes;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedDae>();

choices! {
    /// What devices keep and send.
    pub(crate) enum Variant {
        /// They keep nothing, train with the gate as it starts, and send the sums of gradients that are
        /// never set to zero.
        PublishedCode,
        /// They keep L and G, and send how far they have moved E and D, divided by the rate.
        Paper,
    }
}

parameters! {
    /// Parameters of FedDAE; the defaults are the published ones.
    pub(crate) struct FedDae {
        /// What devices keep and send.
        variant: Variant = Variant::PublishedCode;
        /// Which encoders count.
        encoders: Encoders = Encoders::Both;
        /// Latent dimension k.
        latent_dimension: u32 = 256, >= 1, <= MAX_DIMENSION;
        /// Units of the hidden layers next to the items.
        outer_units: u32 = 768, >= 1, <= 4096;
        /// Units of the hidden layers next to the latent vector.
        inner_units: u32 = 512, >= 1, <= 4096;
        /// Units of the hidden layer of the gate.
        gate_units: u32 = 256, >= 1, <= 4096;
        /// Passes per round, each a step over all items of the user.
        local_epochs: u32 = 5, >= 1, <= 10_000;
        /// Adam's learning rate on devices.
        learning_rate: f64 = 1e-3, > 0.0;
        /// Adam's learning rate at the server.
        server_rate: f64 = 1e-3, > 0.0;
        /// Weight decay of both.
        weight_decay: f64 = 1e-8, >= 0;
        /// Share of the inputs of an encoder, and of the units of the gate, that a pass leaves out.
        dropout: f64 = 0.5, >= 0, < 1.0;
        /// Weight beta of the divergence. Left out: 1 in the first step and 0 in all others
        /// (`published-code`), or 0.2 (`paper`).
        beta: Option<f64> = None, >= 0;
    }
}

impl FedDae {
    /// Returns the network of a device for so many items, of which its user has `own`.
    fn network(&self, items: usize, own: usize) -> Network {
        let widths = Widths {
            latent: self.latent_dimension as usize,
            outer: self.outer_units as usize,
            inner: self.inner_units as usize,
            gate: self.gate_units as usize,
        };
        Network::new(&widths, items, own, self.encoders)
    }

    /// Returns the weight of the divergence in the step of this number.
    fn beta(&self, step: u32) -> f64 {
        let usual = match (self.variant, step) {
            (Variant::Paper, _) => 0.2,
            // The code multiplies by tanh(t/10) after each round t, which is 0 after the first.
            (Variant::PublishedCode, 0) => 1.0,
            (Variant::PublishedCode, _) => 0.0,
        };
        self.beta.unwrap_or(usual)
    }
}

impl Declare for FedDae {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "feddae";
    const SUMMARY: &str = "two variational encoders of a user's items, a gate that weighs them, and \
                           a decoder that scores all items";
    const SOURCE: &str = "Li et al., Personalized Federated Collaborative Filtering: A Variational \
                          AutoEncoder Approach, AAAI 2025, arXiv 2408.08931; code mtics/FedDAE \
                          04d0f77";
    const FORMULA: &[&str] = &[
        "s = D3 tanh(D2 tanh(D1 z + d1) + d2) + d3,  z = w_L z_L + w_E z_E;  z_c is μ_c to score, drawn from N(μ_c, var_c) to train",
        "(μ_E, ln var_E) = E3 tanh(E2 tanh(E1 x/‖x‖ + e1) + e2) + e3,  L alike;  w = softmax(G2 φ(G1 x + g1) + g2)",
        "loss = −Σ_{i∈I_u} ln softmax(s)_i + β KL(N(μ, var) ‖ N(0, 1)),  μ = Σ_c w_c μ_c,  var = Σ_c w_c² var_c",
        "the server steps by Adam along the mean of Σ_e (g_1 + … + g_e), or of (start − end) / rate",
    ];
    const DIFFERS: &str = "`variant` chooses. In the code (`published-code`, the default) the layers \
                           that are meant to be private are written into a copy that is thrown \
                           away, so that all users have the same model, with a gate that never \
                           learns. Its gradients add up over the passes, and β is 1 in the first \
                           round and 0 after it. `paper` is what the text describes; β is ours \
                           there. A figure of the supplement has HR@20 .1245 and NDCG@20 .0517 on \
                           MovieLens 100K after 100 rounds, and .1362 and .0546 where everything is \
                           global, as it nearly is in the code; popularity, by our own count \
                           on the same users, has .1265 and .0526. Which variant drew it is not known, and no run here has been held \
                           against it yet. Devices list the rows of their own items in the first \
                           layers. The code sends all rows, most of them zeros, as `dense-f32` \
                           does, and gradients of the gate, which nobody uses. Rows of other items \
                           have no weight decay on the device. The code's softmax leaves out items \
                           that nobody has rated.";
    const DRAWS_NEGATIVES: bool = false;
    const WITHOUT_CONTROLS: Option<&str> =
        Some("devices send gradients, which the server turns into networks");

    fn resolve(p: &mut Self) -> Vec<ParameterFault> {
        let has_no_gate = p.encoders != Encoders::Both;
        without_effect(
            p,
            &[("gate_units", has_no_gate, "one encoder needs no gate")],
        )
    }

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let rule = ServerRule {
            optimizer: rule::Optimizer::ADAM,
            rate: self.server_rate,
            weight_decay: self.weight_decay,
            ..ServerRule::MEAN
        };
        let is_private = |name: &str| match self.variant {
            Variant::PublishedCode => name.starts_with(['G', 'g']),
            Variant::Paper => name.starts_with(['G', 'g', 'L', 'l']),
        };
        let blocks = self.network(size.items, size.items).blocks().into_iter();
        let place = |block: Block| match is_private(block.name()) {
            true => block.private().alike(),
            false => block.as_gradient().rule(rule),
        };
        blocks.map(place).collect()
    }

    fn train(&self, own: &mut Own, task: &LocalTask<'_>, _: &mut Scratch) -> Result<Trained> {
        let items = DistinctPositives::of(&task.own).items;
        let network = self.network(table_of(task.model, "D3").shape().rows, items.len());
        let beta = self.beta(task.step.0) as f32;
        let mut stream = task.named_stream("feddae/noise");
        let passes = Passes {
            number: self.local_epochs,
            adam: AdamSettings {
                weight_decay: self.weight_decay,
                ..AdamSettings::with_rate(self.learning_rate)
            },
            variant: self.variant,
        };
        let done = passes.make(own.flat(task.model, &items), |values, gradient| {
            let drawn = Drawn::of(&network, self.dropout, &mut stream);
            network.add_gradient((values, &items), &drawn, beta, gradient)
        });
        task.check_values("the networks", &done.values)?;
        task.check_values("the gradient", &done.sent)?;
        if self.variant == Variant::Paper {
            own.keep_flat(&items, &done.values);
        }
        let update = ModelUpdate::of_blocks(own.flat_updates(&items, &done.sent)?);
        let work = Work {
            row_visits: 0,
            // Going back takes twice as many as going forwards.
            multiply_adds: 3 * u64::from(self.local_epochs) * network.multiply_adds(),
        };
        Ok(Trained::new(update, done.loss, work))
    }

    fn scorer<'a>(&'a self, own: &'a Own, context: ScoringContext<'a>) -> Scoring<'a> {
        let model = context.model;
        let items = DistinctPositives::of(&context.own).items;
        let table = table_of(model, "D3");
        let network = self.network(table.shape().rows, items.len());
        let user = network.user_vector(&own.flat(model, &items));
        Ok(Box::new(Products {
            item_bias: Some((1.0, table_of(model, "d3").clone())),
            ..Products::new(user, table)
        }))
    }
}
