//! Defines FedRAP's parameters: what a scenario may say, and the settings of training that follow
//! from it.

use crate::{Problem, choices, parameters, without_effect};
use fedrecsim_model::kernel::MAX_DIMENSION;
use fedrecsim_model::kernel::additive::{AdditiveStep, Penalty};
use fedrecsim_scenario::ParameterFault;

choices! {
    /// Which of the two FedRAPs is trained: the code that produced the paper's numbers is not the
    /// paper's equations.
    pub enum Objective {
        /// Means over the batch and its rows; subgradient of |C|; decaying rates; early stop.
        /// mtics/FedRAP d6ee2ac.
        PublishedCode,
        /// Eq. 3 with its signs: sums, regularisers over the whole matrix; soft-thresholding (Eq. 13);
        /// one rate.
        Paper,
    }

    /// The penalty on C.
    pub enum Regularizer {
        /// mu |C|, by its subgradient for `published-code` and by a proximal step for `paper`.
        L1,
        /// mu |C|, by its subgradient, which leaves no value at 0.
        L1Subgradient,
        /// mu |C|, by a proximal step after each step of the gradient: values nearer to 0 than the rate
        /// times the weight become 0, and the others move towards 0 by as much.
        L1Proximal,
        /// mu C^2 (FedRAP-L2).
        L2,
        /// None: mu = 0 (FedRAP-No).
        None,
    }

    /// How lambda and mu grow from round to round.
    pub enum Curriculum {
        /// tanh(a / 10) v.
        Tanh,
        /// v from the start (FedRAP-fixed).
        Fixed,
        /// sin(a / 10) v, kept within 0..=v as the paper's section 3.1 asks (FedRAP-sin).
        Sin,
        /// v and 0 in turn, ten rounds each (FedRAP-square).
        Square,
        /// v / (a + 1) (FedRAP-frac).
        Frac,
    }

    /// Which item tables there are.
    pub enum Tables {
        /// C, shared, and D, private.
        Both,
        /// C only (FedRAP-C).
        COnly,
        /// D only (FedRAP-D); see `aggregate_d`.
        DOnly,
    }

    /// Where the noise enters.
    pub enum NoiseAt {
        /// In the gradient of every step, after it has been clipped.
        Gradient,
        /// In the table that is uploaded, once.
        Upload,
    }
}

parameters! {
    /// The noise that clients add to C.
    pub struct Noise {
        /// Noise multiplier z: the standard deviation divided by the sensitivity. With 0, gradients
        /// are clipped and nothing is added.
        multiplier: f64 = 1.0, >= 0;
        /// The gradient with respect to C is clipped to this length tau (Frobenius norm) in every
        /// step.
        clip_norm: f64 = 0.1, > 0.0;
        /// Where the noise enters. The paper does not say.
        at: NoiseAt = NoiseAt::Gradient;
        /// The number n_s of participants in a round. Left out: the number of users.
        participants: Option<u32> = None, >= 1;
    }

    /// Parameters of FedRAP. Where a key is left out, the objective decides.
    pub struct FedRapParameters {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Which FedRAP.
        objective: Objective = Objective::PublishedCode;
        /// Passes over the local samples per round.
        local_epochs: u32 = 10, >= 1, <= 10_000;
        /// Samples per batch. Left out: 2048 for `published-code`, all of a user's samples for `paper`.
        batch_size: Option<u32> = None, >= 1;
        /// Learning rate of w and b.
        learning_rate_network: f64 = 0.5, > 0.0;
        /// Learning rate of C and D. Left out: 200 for `published-code`, `learning_rate_network` for
        /// `paper`, which has one rate.
        learning_rate_tables: Option<f64> = None, > 0.0;
        /// Factor of both rates after every batch of a round. Left out: 0.95 for `published-code`, 1
        /// for `paper`.
        learning_rate_batch_decay: Option<f64> = None, > 0.0, <= 1;
        /// Factor of both rates after every round. Left out: 0.97 for `published-code`, 1 for `paper`.
        learning_rate_round_decay: Option<f64> = None, > 0.0, <= 1;
        /// Weight decay of every parameter, touched or not. Left out: 1e-4 for `published-code`, 0 for
        /// `paper`.
        weight_decay: Option<f64> = None, >= 0;
        /// Weight v1 of the term that drives C and D apart.
        lambda: f64 = 0.1, >= 0;
        /// Weight v2 of the penalty on C.
        mu: f64 = 0.1, >= 0;
        /// The penalty on C.
        regularizer: Regularizer = Regularizer::L1;
        /// The threshold of a proximal step that the server makes on each average of C: values nearer
        /// to 0 than this become 0, and the others move towards 0 by as much.
        server_threshold: f64 = 0.0, >= 0;
        /// How lambda and mu change with the round. The published code computes it and never uses it,
        /// so it has no effect under `published-code`.
        curriculum: Curriculum = Curriculum::Tanh;
        /// Which item tables there are.
        tables: Tables = Tables::Both;
        /// With `tables = "d-only"`: whether D is uploaded and averaged, or stays private and nothing
        /// travels. The paper does not say.
        aggregate_d: bool = false;
        /// Stop the local epochs when the running mean loss changes by less than this, relatively. Left
        /// out: 1e-4 for `published-code`, 0 (never) for `paper`.
        early_stop_tolerance: Option<f64> = None, >= 0;
        /// Clips what a client does to C and adds Gaussian noise to it (FedRAP-noise). All rows of C
        /// are sent then. Left out: neither.
        noise: Option<Noise> = None;
    }
}

/// Holds the settings of training: the parameters, with the objective's defaults filled in, and what
/// follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct FedRap {
    pub(super) parameters: FedRapParameters,
    pub(super) items: usize,
    pub(super) batch_size: usize,
    /// The first step of the first round, without a curriculum.
    pub(super) step: AdditiveStep,
    pub(super) batch_decay: f32,
    pub(super) round_decay: f32,
    pub(super) tolerance: f64,
}

impl FedRapParameters {
    /// Fills in the keys whose defaults depend on the objective.
    fn fill(&mut self) {
        let is_paper = self.objective == Objective::Paper;
        let rate_of_paper = self.learning_rate_network;
        for (key, published_code, paper) in [
            (&mut self.learning_rate_tables, 200.0, rate_of_paper),
            (&mut self.learning_rate_batch_decay, 0.95, 1.0),
            (&mut self.learning_rate_round_decay, 0.97, 1.0),
            (&mut self.weight_decay, 1e-4, 0.0),
            (&mut self.early_stop_tolerance, 1e-4, 0.0),
        ] {
            key.get_or_insert(if is_paper { paper } else { published_code });
        }
        if !is_paper {
            self.batch_size.get_or_insert(2048);
        }
    }
}

impl FedRap {
    /// Returns the settings that follow from these parameters.
    pub(crate) fn of(mut p: FedRapParameters, problem: &Problem) -> Self {
        p.fill();
        if let Some(noise) = &mut p.noise {
            noise
                .participants
                .get_or_insert(problem.users_with_history as u32);
        }
        // `fill` has set every key that may be left out.
        let filled = |key: Option<f64>| key.unwrap_or_default();
        let has_penalty = p.regularizer != Regularizer::None && p.tables != Tables::DOnly;
        let weight = |weight: f64, counts: bool| if counts { weight as f32 } else { 0.0 };
        Self {
            items: problem.items,
            batch_size: p.batch_size.map_or(usize::MAX, |size| size as usize),
            step: AdditiveStep {
                data_weight: 1.0,
                network_rate: p.learning_rate_network as f32,
                table_rate: filled(p.learning_rate_tables) as f32,
                weight_decay: filled(p.weight_decay) as f32,
                // The term of lambda needs both tables, and the penalty needs C.
                lambda: weight(p.lambda, p.tables == Tables::Both),
                mu: weight(p.mu, has_penalty),
                penalty: match (p.regularizer, p.objective) {
                    (Regularizer::L2, _) => Penalty::L2,
                    (Regularizer::L1Subgradient, _) => Penalty::L1,
                    (Regularizer::L1Proximal, _) | (_, Objective::Paper) => Penalty::L1Proximal,
                    (_, Objective::PublishedCode) => Penalty::L1,
                },
            },
            batch_decay: filled(p.learning_rate_batch_decay) as f32,
            round_decay: filled(p.learning_rate_round_decay) as f32,
            tolerance: filled(p.early_stop_tolerance),
            parameters: p,
        }
    }

    /// Returns the number of columns of both tables.
    pub(crate) fn dimension(&self) -> usize {
        self.parameters.latent_dimension as usize
    }

    /// Returns the noise on C, if there is one and C travels.
    pub(super) fn noise(&self) -> Option<&Noise> {
        self.parameters.noise.as_ref().filter(|_| self.shares())
    }

    /// Returns whether a table travels.
    pub(super) fn shares(&self) -> bool {
        self.parameters.tables != Tables::DOnly || self.parameters.aggregate_d
    }

    /// Returns whether a private table D is kept.
    pub(super) fn keeps_d(&self) -> bool {
        self.parameters.tables == Tables::Both || !self.shares()
    }

    /// Returns whether steps have to go through every row of C, and not only through those of the
    /// samples: the regularisers of the paper run over the whole matrix, and so does noise in
    /// gradients. Elsewhere all other rows decay alike.
    pub(super) fn packs_every_row(&self) -> bool {
        let noise = self.parameters.noise.as_ref();
        self.parameters.objective == Objective::Paper
            || noise.is_some_and(|noise| noise.at == NoiseAt::Gradient)
    }

    /// Returns the factor of lambda and mu in round `round` (from 0).
    pub(super) fn curriculum_factor(&self, round: u32) -> f32 {
        match self.parameters.objective {
            Objective::PublishedCode => 1.0,
            Objective::Paper => self.parameters.curriculum.factor(round),
        }
    }
}

impl Curriculum {
    /// Returns the share of v that lambda and mu have in round `round` (from 0; the a of the paper
    /// is round + 1).
    pub fn factor(self, round: u32) -> f32 {
        let a = f64::from(round) + 1.0;
        let factor = match self {
            Self::Tanh => fedrecsim_core::math::tanh(a / 10.0),
            Self::Fixed => 1.0,
            Self::Sin => fedrecsim_core::math::sin(a / 10.0).max(0.0),
            Self::Square if (round / 10).is_multiple_of(2) => 1.0,
            Self::Square => 0.0,
            Self::Frac => 1.0 / (a + 1.0),
        };
        factor as f32
    }
}

/// Fills in the defaults of the objective, and returns the faults that the schema cannot express.
pub(super) fn resolve(p: &mut FedRapParameters) -> Vec<ParameterFault> {
    p.fill();
    let without_c = p.tables == Tables::DOnly;
    let nothing_travels = without_c && !p.aggregate_d;
    let no_c = "`tables` is `d-only`, so that there is no C to be penalised";
    let one_table = "`tables` leaves one of C and D out, and `lambda` weighs a term of both";
    let undisturbed = "`tables` is `d-only` without `aggregate_d`, so that nothing travels that \
                       could be disturbed";
    let unused = "`objective` is `published-code`, which computes it and never uses it";
    let no_penalty = !without_c && p.regularizer == Regularizer::None;
    let is_published = p.objective == Objective::PublishedCode;
    let rules = [
        ("mu", without_c, no_c),
        ("mu", no_penalty, "`regularizer` is `none`"),
        ("regularizer", without_c, no_c),
        ("server_threshold", nothing_travels, no_c),
        ("lambda", p.tables != Tables::Both, one_table),
        ("noise", nothing_travels, undisturbed),
        ("curriculum", is_published, unused),
    ];
    let mut faults = without_effect(p, &rules);
    if p.aggregate_d && !without_c {
        let message = "`aggregate_d` has a meaning only with `tables = \"d-only\"`";
        faults.push(ParameterFault::wrong("aggregate_d", message));
    }
    faults
}

#[cfg(test)]
mod tests;
