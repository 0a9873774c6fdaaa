//! Implements CentRAP, FedRAP at the server: the paper (section 4.2) shows with it what FedRAP
//! could reach with the ratings of all users.
//!
//! The paper says no more than that. Here the server has one C, and for each user a w, a b and a
//! table D of its own, as FedRAP has, and from the same start. It minimises the loss of FedRAP's
//! published code, over mini-batches of the samples of all users: the mean binary cross-entropy,
//! minus lambda times the mean of (D_j - C_j)^2, plus mu times the mean of |C_j|. Both means are
//! over the values of the batch's rows. A step of the server is one pass over every positive with
//! freshly drawn negatives, from the pool that the scenario names.

use super::{FedRap, FedRapParameters};
use crate::declare::Declared;
use crate::network;
use crate::prelude::*;
use factors::Batch;
use fedrecsim_model::kernel::score::{ScaledSum, score_sums};

mod factors;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::at_server::<CentRap>();

parameters! {
    /// Parameters of CentRAP.
    pub(crate) struct CentRapParameters {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Samples per batch.
        batch_size: u32 = 2048, >= 1;
        /// Learning rate of every user's w and b.
        learning_rate_network: f64 = 20.0, > 0.0;
        /// Learning rate of C and of every user's D.
        learning_rate_tables: f64 = 300.0, > 0.0;
        /// Factor of the learning rate of D. In FedRAP a row of C moves by the mean over the users
        /// and their D by the whole of their own steps; a large factor stands for that.
        personal_rate_multiplier: f64 = 1.0, > 0.0;
        /// Factor of both rates after every pass.
        learning_rate_decay: f64 = 0.97, > 0.0, <= 1;
        /// Weight decay of every parameter, which takes place once a pass: each loses its rate
        /// times this times itself.
        weight_decay: f64 = 1e-4, >= 0;
        /// Weight of the term that drives C and D apart.
        lambda: f64 = 1e-3, >= 0;
        /// Weight of the penalty on C.
        mu: f64 = 1e-3, >= 0;
    }
}

/// The positions of the model's blocks.
const C: usize = 0;
const D: usize = 1;
const W: usize = 2;
const B: usize = 3;

/// Holds the parameters of the method, and the problem that it starts from.
#[derive(Debug)]
pub(crate) struct CentRap {
    parameters: CentRapParameters,
    problem: Problem,
}

impl Central for CentRap {
    type Parameters = CentRapParameters;
    type Memory = ();

    const NAME: &str = "centrap";
    const SUMMARY: &str = "FedRAP at the server: users send their ratings once, one shared table \
                           and a private one for each user";
    const SOURCE: &str = "Li, Long, Zhou, Federated Recommendation with Additive Personalization, \
                          ICLR 2024, section 4.2; no public code, so that batches and rates are \
                          this simulator's";
    const FORMULA: &[&str] = &[
        "s_ui = w_u · (D_ui + C_i) + b_u",
        "L = mean BCE(s_ui, y_ui) − λ mean (D_ui − C_i)² + μ mean |C_i|",
    ];
    const DIFFERS: &str = "The paper gives CentRAP no equations. The loss is that of FedRAP's \
                           published code, over batches of the samples of all users.";

    fn new(parameters: CentRapParameters, problem: &Problem) -> Self {
        Self {
            parameters,
            problem: problem.clone(),
        }
    }

    /// Describes C, the D of one user after the other, and every user's w and b.
    fn blocks(&self, ProblemSize { users, items }: ProblemSize) -> Vec<Block> {
        let k = self.parameters.latent_dimension as usize;
        vec![
            item_table("C", items, self.parameters.latent_dimension),
            weights("D", users * items, k),
            weights("w", users, k),
            weights("b", users, 1),
        ]
    }

    /// Gives the server the C that FedRAP starts with, and every user its D, w and b.
    fn initial(&self, mut drawn: Model) -> Model {
        let parameters = FedRapParameters {
            latent_dimension: self.parameters.latent_dimension,
            ..FedRapParameters::default()
        };
        let fedrap = Declared::<FedRap>::new(parameters, &self.problem);
        let own = fedrap.own(UserId(0));
        let of_users = [own.rows("D").1.as_slice(), own.get("w"), own.get("b")];
        let of_users = of_users.map(|values| values.repeat(self.problem.users));
        let c = fedrap.initial().table(0).as_slice().to_vec();
        network::set(&mut drawn, 0, &[c, of_users.concat()].concat());
        drawn
    }

    fn pass(&self, pass: Pass<'_, ()>) -> Result<StepReport> {
        let (p, step) = (&self.parameters, pass.step);
        // Repeated multiplication gives the same bits on every platform, which a power function
        // need not.
        let decay = (0..step.step).fold(1.0, |decay, _| decay * p.learning_rate_decay);
        let network = p.learning_rate_network * decay;
        let shared = p.learning_rate_tables * decay;
        let own = shared * p.personal_rate_multiplier;
        let of_blocks = [shared, own, network, network];
        let rates = of_blocks.map(|rate| rate as f32);
        let penalties = (p.lambda as f32, p.mu as f32);
        let (samples, mut batch) = (pass.samples("centrap")?, Batch::default());
        let losses = samples.chunks(p.batch_size as usize).map(|samples| {
            let tables = pass.model.tables_mut([C, D, W, B]);
            batch.step(tables, samples, rates, penalties)
        });
        let loss = losses.map(f64::from).sum();
        for (block, (name, rate)) in ["C", "D", "w", "b"].into_iter().zip(of_blocks).enumerate() {
            let shrink = (1.0 - rate * p.weight_decay) as f32;
            let values = pass.model.table_mut(block).as_mut_slice();
            values.iter_mut().for_each(|value| *value *= shrink);
            step.check_magnitude(name, largest_magnitude(values))?;
        }
        pass.report(("C", &[]), (loss, samples.len()), 3)
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        let (user, model) = (context.user.index(), context.model);
        let [c, d, w, b] = [C, D, W, B].map(|block| model.table(block));
        let row = move |item: &u32| ScaledSum {
            scaled: d.row(user * c.shape().rows + *item as usize),
            scale: 1.0,
            plain: c.row(*item as usize),
        };
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            let rows: Vec<ScaledSum<'_>> = items.iter().map(row).collect();
            score_sums(w.row(user), b.row(user)[0], &rows, scores);
        }))
    }
}
