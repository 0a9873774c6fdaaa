//! Implements FedRec with probabilistic matrix factorisation and with SVD++, which predicts ratings
//! from explicit ratings and hides which items a user has rated among virtual ratings.
//!
//! The user vector U_u is private and the item table V is shared. Uploads are gradients of rows of
//! V. SVD++ has a second item table O, from which a device takes the rows of the rated items
//! ([`profile`]). It moves them itself, and uploads by how much, so that without virtual items this
//! reveals I_u once more. In the **batch** style all users take part in a step, and the server
//! moves a row by the mean over those who sent it (equation 9). In the **stochastic** style a step
//! has one participant, drawn with replacement, and an iteration has as many steps as there are
//! users (`training.participation = { cohort = 1 }` and `training.steps_per_round`). Learning rates
//! fall by a factor after every iteration. In the stochastic style, as in the authors' code, a
//! device's own rate falls with its participations. The authors have SVD++ in the stochastic style
//! only. In the batch style, a device moves O, like U, by the mean gradient over its items, and the
//! server takes the mean of this over those who sent a row.
//!
//! With rho > 0 a device also trains on unrated items, rho for every rated one, which are drawn
//! anew in every participation so that the server cannot tell which of the rows are rated. With
//! `sends_counts` devices say which rows they have sent, by a 1 for each, and the server uses
//! nothing but sums. [`central`] is the same without federation.
//!
//! Source: Lin, Liang, Pan and Ming, FedRec: Federated Recommendation with Explicit Feedback (IEEE
//! Intelligent Systems 2020), and the authors' code Guanyu-Lin/FedRec at 521b7cf. [`numerics`]
//! states the equations.

use std::sync::Arc;

use self::numerics::{Filling, HybridFilling, Style, decayed};
use super::prelude::*;
use super::without_effect;
use client::FedRecScratch;

pub mod central;
mod client;
pub mod numerics;
pub mod profile;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry::of::<FedRec<false>>();

/// Describes the method with SVD++ to the registry.
pub const SVD_PLUS_PLUS: Entry = Entry::of::<FedRec<true>>();

/// Says which model is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factors {
    /// Probabilistic matrix factorisation, with the item table V.
    Pmf,
    /// SVD++, with the item tables V and O.
    SvdPlusPlus,
}

impl Factors {
    /// Returns the names of the item tables.
    fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Pmf => &["V"],
            Self::SvdPlusPlus => &["V", "O"],
        }
    }
}

choices! {
    /// Where the ratings of unrated items come from.
    pub enum Strategy {
        /// The user's mean rating (equation 5).
        UserAveraging,
        /// The user's mean rating at first, predicted ratings later (equation 6).
        HybridFilling,
    }
}

parameters! {
    /// Parameters of FedRec.
    pub struct FedRecParameters {
        /// Latent dimension d.
        latent_dimension: u32 = 20, >= 1, <= MAX_DIMENSION;
        /// When the user vector moves, and how many users a step has.
        style: Style = Style::Batch;
        /// Learning rate gamma of devices and server. Left out: 0.01 for `stochastic`; for `batch`
        /// 0.8 with PMF, and 0.4 with SVD++, where 0.8 diverges, as U and O both take the step.
        learning_rate: Option<f64> = None, > 0.0;
        /// Factor of the learning rate after every iteration.
        learning_rate_decay: f64 = 0.9, > 0.0, <= 1;
        /// Steps of the server that make an iteration. Left out: 1 for `batch`, the number of users
        /// for `stochastic`.
        steps_per_iteration: Option<u32> = None, >= 1;
        /// Weight lambda of the regulariser.
        regularization: f64 = 0.001, >= 0;
        /// Number rho of unrated items for every rated one.
        virtual_items_per_rated: u32 = 0, >= 0, <= 1_000;
        /// Where the ratings of unrated items come from.
        strategy: Strategy = Strategy::UserAveraging;
        /// Which reading of hybrid filling is followed.
        hybrid_filling: HybridFilling = HybridFilling::Code;
        /// T_predict: the iteration from which hybrid filling predicts.
        predict_from: u32 = 10, >= 0, <= 1_000_000;
        /// T_local: steps over the rated items that hybrid filling takes before it predicts.
        local_steps: u32 = 10, >= 0, <= 10_000;
        /// U and the item tables start uniformly distributed over an interval of this length around
        /// 0.
        initial_range: f64 = 0.01, > 0.0;
        /// Whether devices send a count of 1 for each row beside the rows, so that the server uses
        /// nothing but sums, which secure aggregation and noise on the sum need. Otherwise it
        /// counts who has sent which row.
        sends_counts: bool = false;
    }
}

/// Holds what all clients share, with the defaults of the style filled in.
#[derive(Debug)]
pub(crate) struct Settings {
    factors: Factors,
    parameters: FedRecParameters,
    learning_rate: f64,
    steps_per_iteration: u32,
    filling: Filling,
}

impl Settings {
    fn new(factors: Factors, parameters: FedRecParameters, problem: &Problem) -> Self {
        let (learning_rate, steps) = match (parameters.style, factors) {
            (Style::Batch, Factors::Pmf) => (0.8, 1),
            (Style::Batch, Factors::SvdPlusPlus) => (0.4, 1),
            // Data sets with 2^32 users or more are refused on reading.
            (Style::Stochastic, _) => (0.01, problem.users as u32),
        };
        Self {
            factors,
            learning_rate: parameters.learning_rate.unwrap_or(learning_rate),
            steps_per_iteration: parameters.steps_per_iteration.unwrap_or(steps).max(1),
            filling: match parameters.strategy {
                Strategy::UserAveraging => Filling::UserAveraging,
                Strategy::HybridFilling => Filling::Hybrid {
                    reading: parameters.hybrid_filling,
                    predict_from: parameters.predict_from,
                    local_steps: parameters.local_steps,
                },
            },
            parameters,
        }
    }

    /// Returns the iteration (from 0) that the step of this number (from 0) belongs to.
    fn iteration(&self, step: u32) -> u32 {
        step / self.steps_per_iteration
    }

    /// Returns the learning rate after this many decays.
    fn rate(&self, decays: u32) -> f32 {
        let decay = self.parameters.learning_rate_decay;
        decayed(self.learning_rate, decay, decays)
    }

    fn start(&self) -> Start {
        let range = self.parameters.initial_range;
        each(move |stream| ((stream.open_unit() - 0.5) * range) as f32)
    }

    /// Describes the item tables and the user vector. Both tables move by the mean over those who
    /// sent a row; V is sent as a gradient, and O as what the device has subtracted.
    fn blocks(&self, items: usize) -> Vec<Block> {
        let rule = ServerRule {
            combine: Combine::MeanPerSender,
            ..ServerRule::MEAN
        };
        let d = self.parameters.latent_dimension;
        let tables = self.factors.tables().iter();
        let tables = tables.map(|name| item_table(*name, items, d).as_gradient().rule(rule));
        let blocks = tables.chain([vector("U", d).private()]);
        blocks.map(|block| block.start(self.start())).collect()
    }

    /// Returns the server with the learning rate of the iteration for V.
    fn scheduled(self: &Arc<Self>, averager: Averager) -> Averager {
        let settings = Arc::clone(self);
        averager.with_rate(client::V, move |step| {
            f64::from(settings.rate(settings.iteration(step)))
        })
    }
}

/// Is FedRec, with SVD++ if `WITH_O`.
#[derive(Debug)]
pub struct FedRec<const WITH_O: bool>(Arc<Settings>);

impl<const WITH_O: bool> Declare for FedRec<WITH_O> {
    type Parameters = FedRecParameters;
    /// The number of the user's participations, by which its own learning rate falls in the
    /// stochastic style.
    type Memory = Remembered<u32>;

    const NAME: &str = if WITH_O { "fedrec-svdpp" } else { "fedrec-pmf" };
    const SUMMARY: &str = if WITH_O {
        "FedRec with SVD++: a second item table says what follows from which items a user has rated"
    } else {
        "rating prediction: private user vector, gradients of rated and of virtually rated item rows"
    };
    const SOURCE: &str = if WITH_O {
        "Lin et al., FedRec: Federated Recommendation with Explicit Feedback, IEEE Intelligent \
         Systems 2020, with the model of Koren, KDD 2008; Guanyu-Lin/FedRec 521b7cf"
    } else {
        "Lin et al., FedRec: Federated Recommendation with Explicit Feedback, IEEE Intelligent \
         Systems 2020; Guanyu-Lin/FedRec 521b7cf"
    };
    const DRAWS_NEGATIVES: bool = false;
    const PREDICTS_RATINGS: bool = true;
    const WITHOUT_CONTROLS: Option<&str> =
        Some("devices send gradients, with which the server makes the steps");

    fn resolve(p: &mut FedRecParameters) -> Vec<ParameterFault> {
        let is_hybrid = p.strategy == Strategy::HybridFilling;
        // The slides' reading takes its local steps over the rated items too.
        let fills_nothing =
            p.virtual_items_per_rated == 0 && p.hybrid_filling == HybridFilling::Code;
        let not_hybrid = "`strategy` is not `hybrid-filling`";
        let nothing_to_fill =
            "`virtual_items_per_rated` is 0, so that there are no unrated items to give ratings to";
        let rules = [
            ("hybrid_filling", !is_hybrid, not_hybrid),
            ("predict_from", !is_hybrid, not_hybrid),
            ("local_steps", !is_hybrid, not_hybrid),
            ("strategy", is_hybrid && fills_nothing, nothing_to_fill),
        ];
        without_effect(p, &rules)
    }

    fn new(parameters: FedRecParameters, problem: &Problem) -> Self {
        let factors = match WITH_O {
            true => Factors::SvdPlusPlus,
            false => Factors::Pmf,
        };
        Self(Arc::new(Settings::new(factors, parameters, problem)))
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        self.0.blocks(size.items)
    }

    fn counts(&self) -> Counts {
        match self.0.parameters.sends_counts {
            true => Counts::Rows,
            false => Counts::Nothing,
        }
    }

    fn train(
        &self,
        own: &mut Own<Remembered<u32>>,
        task: &LocalTask<'_>,
        scratch: &mut Scratch,
    ) -> Result<Trained> {
        let (settings, scratch) = (&*self.0, scratch.memory::<FedRecScratch>());
        let shape = task.model.table(client::V).shape();
        let per_rated = settings.parameters.virtual_items_per_rated as usize;
        scratch.collect(task, shape.rows, per_rated);
        let iteration = settings.iteration(task.step.0);
        let decays = match settings.parameters.style {
            Style::Batch => iteration,
            Style::Stochastic => own.memory.0,
        };
        let (vector, decays) = (own.get_mut("U"), (iteration, decays));
        let (loss, row_visits) = settings.participate(task.model, vector, decays, scratch);
        own.memory.0 += 1;
        task.check_magnitude("U", largest_magnitude(own.get("U")))?;
        task.check_magnitude("gradient of V", largest_magnitude(&scratch.gradients))?;
        task.check_magnitude("step of O", largest_magnitude(&scratch.moves))?;
        Ok(Trained {
            blocks: scratch.updates(settings.factors, shape)?,
            loss,
            samples: scratch.ratings.len(),
            work: Work::of_row_visits(row_visits),
        })
    }

    fn scorer<'a>(
        &'a self,
        own: &'a Own<Remembered<u32>>,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let (factors, context) = (self.0.factors, *context);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            factors.score(own.get("U"), &context, items, scores);
        }))
    }

    fn server(&self, averager: Averager) -> Box<dyn Server> {
        Box::new(self.0.scheduled(averager))
    }
}
