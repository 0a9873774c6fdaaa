//! Implements FedRec with probabilistic matrix factorisation and with SVD++, which predicts ratings
//! from explicit ratings and hides which items a user has rated among virtual ratings.
//!
//! The user vector U_u is private and the item table V is shared. Devices upload gradients of rows
//! of V. SVD++ has a second item table O; a device takes the rows of its rated items from it
//! ([`profile`]). The device moves these rows and uploads how far it has moved them. Without
//! virtual items they reveal I_u a second time.
//!
//! In the **batch** style all users take part in a step, and the server moves a row by the mean
//! over those who sent it (equation 9). In the **stochastic** style a step has one participant,
//! drawn with replacement, and an iteration has as many steps as there are users
//! (`training.participation = { cohort = 1 }` and `training.steps_per_round`). Learning rates fall
//! by a factor after every iteration. A device's own rate falls with its participations in the
//! stochastic style, as in the authors' code. The authors have SVD++ in the stochastic style only.
//! In the batch style a device moves O, like U, by the mean gradient over its items, and the server
//! takes the mean of these moves over those who sent a row.
//!
//! With rho > 0 a device also trains on unrated items, rho for every rated one. It draws them anew
//! in every participation, so that the server cannot tell which of the rows are rated. With
//! `sends_counts` devices send a 1 for each of their rows, and the server needs nothing but sums.
//! [`central`] is the same without federation.
//!
//! Source: Lin, Liang, Pan and Ming, FedRec: Federated Recommendation with Explicit Feedback (IEEE
//! Intelligent Systems 2020), and the authors' code Guanyu-Lin/FedRec at 521b7cf. [`local`]
//! states the equations.

use super::prelude::*;
use super::task::score_items;
use super::user_vector::{draw_unrated, last_ratings};
use super::without_effect;
use local::LocalTraining;
use profile::Profile;

pub(crate) mod central;
mod local;
mod profile;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedRec<false>>();

/// Describes the method with SVD++ to the registry.
pub(crate) const SVD_PLUS_PLUS: Entry = Entry::of::<FedRec<true>>();

choices! {
    /// When the user vector moves within a participation.
    pub(crate) enum Style {
        /// Once, by the mean gradient over all of its items (Algorithm 2).
        Batch,
        /// After every item (Algorithm 5).
        Stochastic,
    }

    /// Where the ratings of unrated items come from.
    pub(crate) enum Strategy {
        /// The user's mean rating (equation 5).
        UserAveraging,
        /// The user's mean rating at first, predicted ratings later (equation 6).
        HybridFilling,
    }

    /// Which of two readings of hybrid filling is followed.
    pub(crate) enum HybridFilling {
        /// The authors' code: a temporary copy of U, and in SVD++ of O, takes the local steps,
        /// gives the virtual ratings and is discarded. It is made only in iterations that predict:
        /// those numbered above T_predict, from 0.
        Code,
        /// The slides' Algorithm 3: U itself takes the local steps, over the rated items, in every
        /// iteration, and O stays as it is; iterations from number T_predict on predict when the first
        /// has number 1.
        Slides,
    }
}

parameters! {
    /// Parameters of FedRec.
    pub(crate) struct FedRecParameters {
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
        /// T_predict: hybrid filling predicts from this iteration on.
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

/// FedRec, with SVD++ if `WITH_O`.
#[derive(Clone, Debug)]
pub(crate) struct FedRec<const WITH_O: bool> {
    parameters: FedRecParameters,
    learning_rate: f64,
    steps_per_iteration: u32,
}

impl<const WITH_O: bool> FedRec<WITH_O> {
    /// The names of the item tables.
    const TABLES: &[&str] = if WITH_O { &["V", "O"] } else { &["V"] };

    /// Returns the iteration (from 0) that the step of this number (from 0) belongs to.
    fn iteration(&self, step: u32) -> u32 {
        step / self.steps_per_iteration
    }

    /// Returns the learning rate after this many decays.
    fn rate(&self, decays: u32) -> f32 {
        let decay = math::pow(self.parameters.learning_rate_decay, f64::from(decays));
        (self.learning_rate * decay) as f32
    }

    /// Trains `user_vector` on these rated items and on the virtual ones behind them, with a
    /// learning rate that has fallen `decays` times. `check` sees what was trained and what is
    /// uploaded. The loss is the mean squared error over the rated items. In SVD++, every visit of a
    /// row of V comes with one of the same item's row of O.
    fn participate(
        &self,
        model: &Model,
        user_vector: &mut [f32],
        (iteration, decays): (u32, u32),
        (items, ratings): (&[u32], &[f32]),
        check: impl Fn(&'static str, &[f32]) -> Result<()>,
    ) -> Result<Trained> {
        let (v, d) = (table_of(model, "V"), user_vector.len());
        let (rated, mut moves) = match WITH_O {
            true => (ratings.len(), table_of(model, "O").gathered(items)),
            false => (0, Vec::new()),
        };
        let mut profile = Profile::new(user_vector, rated, moves.clone());
        let local = LocalTraining {
            parameters: &self.parameters,
            rows: &v.gathered(items),
            ratings,
            iteration,
            rate: self.rate(decays),
        };
        let (loss, gradients) = local.train(&mut profile);
        user_vector.copy_from_slice(&profile.user);
        let rows_of_o = profile.into_rows();
        (moves.iter_mut().zip(rows_of_o)).for_each(|(before, after)| *before -= after);
        check("U", user_vector)?;
        check("gradient of V", &gradients)?;
        check("step of O", &moves)?;

        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_unstable_by_key(|place| items[*place]);
        let listed: Vec<u32> = order.iter().map(|place| items[*place]).collect();
        let update = |values: Vec<f32>| {
            let row = |place: &usize| &values[place * d..(place + 1) * d];
            let rows: Vec<&[f32]> = order.iter().map(row).collect();
            TableUpdate::listed(v.shape(), listed.clone(), &rows.concat(), 1.0)
        };
        let tables = [gradients, moves].into_iter().take(Self::TABLES.len());
        let row_visits = local.row_visits(d) * Self::TABLES.len() as u64;
        let update = ModelUpdate::of_blocks(tables.map(update).collect::<Result<_>>()?);
        Ok(Trained::new(update, loss, Work::of_row_visits(row_visits)))
    }

    /// Makes the scorer of a user with this vector, which predicts ratings.
    fn scorer_with<'a>(user: &[f32], context: &ScoringContext<'a>) -> Box<dyn Scorer + 'a> {
        let (model, table) = (context.model, table_of(context.model, "V"));
        if !WITH_O {
            return Box::new(Products::new(user.to_vec(), table));
        }
        let own = last_ratings(&context.own).0;
        let rows = table_of(model, "O").gathered(&own);
        let profile = Profile::new(user, own.len(), rows);
        Box::new(move |items: &[u32], scores: &mut [f32]| {
            let mut profile = profile.clone();
            score_items(profile.at(own.len()), 0.0, table, items, scores);
            // The profile for an item that the user has rated leaves the item itself out.
            for (item, score) in items.iter().zip(scores) {
                if let Ok(place) = own.binary_search(item) {
                    let score = std::slice::from_mut(score);
                    score_items(profile.at(place), 0.0, table, &[*item], score);
                }
            }
        })
    }
}

impl<const WITH_O: bool> Declare for FedRec<WITH_O> {
    type Parameters = FedRecParameters;
    /// The number of the user's participations; its own learning rate falls with it in the
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
    const FORMULA: &[&str] = if WITH_O {
        &[
            "r̂_i = P_i · V_i,  P_i = U + Σ_{j∈J} O_j / √|J|,  J = I_u without i   (slides, Eq. 2),  e_i = r̂_i − r_i",
            "L = ½ Σ_u Σ_{i∈I_u} (e_ui² + λ ‖U_u‖² + λ ‖V_i‖² + λ Σ_{j∈J} ‖O_j‖²)",
            "U and O_j move by γ times the mean slope over i (Eq. 7), V_i and O_j at the server by the mean over senders (Eq. 9)",
        ]
    } else {
        &[
            "r̂_i = U · V_i,  e_i = r̂_i − r_i",
            "L = ½ Σ_u Σ_{i∈I_u} (e_ui² + λ ‖U_u‖² + λ ‖V_i‖²)",
            "U ← U − γ mean_i (e_i V_i + λ U)   (Eq. 7)",
            "V_i ← V_i − γ mean_u (e_ui U_u + λ V_i) over those who sent i   (Eqs. 8 and 9)",
        ]
    };
    const DIFFERS: &str = if WITH_O {
        "The code has SVD++ in the stochastic style alone; the batch style, which is the default \
         of `style`, is this simulator's. The code and the slides fill ratings in two ways \
         (`hybrid_filling`, which `strategy` turns on). In the code, the default, copies of U and \
         O take the local steps, give the virtual ratings and are discarded. In Algorithm 3 of the \
         slides U itself takes these steps."
    } else {
        "The code and the slides fill ratings in two ways (`hybrid_filling`, which `strategy` \
         turns on). In the code, the default, a copy of U takes the local steps, gives the virtual \
         ratings and is discarded. In Algorithm 3 of the slides U itself takes these steps."
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
        let (learning_rate, steps) = match (parameters.style, WITH_O) {
            (Style::Batch, false) => (0.8, 1),
            (Style::Batch, true) => (0.4, 1),
            // Data sets with 2^32 users or more are refused on reading.
            (Style::Stochastic, _) => (0.01, problem.users_with_history as u32),
        };
        Self {
            learning_rate: parameters.learning_rate.unwrap_or(learning_rate),
            steps_per_iteration: parameters.steps_per_iteration.unwrap_or(steps).max(1),
            parameters,
        }
    }

    /// Both item tables move by the mean over those who sent a row. V is sent as a gradient, and O
    /// as what the device has subtracted.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let rule = ServerRule {
            combine: Combine::MeanPerSender,
            ..ServerRule::MEAN
        };
        let p = &self.parameters;
        let (d, range) = (p.latent_dimension, p.initial_range);
        let start = each(move |stream| ((stream.open_unit() - 0.5) * range) as f32);
        let table = |name: &&'static str| item_table(*name, size.items, d).as_gradient().rule(rule);
        let tables = Self::TABLES.iter().map(table);
        let blocks = tables.chain([vector("U", d).private()]);
        blocks.map(|block| block.start(start.clone())).collect()
    }

    fn remembers(&self) -> &'static str {
        "the number of the user's participations"
    }

    fn counts(&self) -> Counts {
        Counts::Rows.only_if(self.parameters.sends_counts)
    }

    /// Trains on the rated items, each with its last rating, and on `virtual_items_per_rated` times
    /// as many unrated ones (or as many as there are), drawn without replacement.
    fn train(
        &self,
        own: &mut Own<Remembered<u32>>,
        task: &LocalTask<'_>,
        _scratch: &mut Scratch,
    ) -> Result<Trained> {
        let p = &self.parameters;
        let (mut items, ratings) = last_ratings(&task.own);
        if p.virtual_items_per_rated > 0 {
            let count = p.virtual_items_per_rated as usize * items.len();
            let catalogue = table_of(task.model, "V").shape().rows;
            let mut stream = task.named_stream("fedrec/virtual-items");
            items.extend(draw_unrated(&items, (catalogue, count), &mut stream));
        }
        let iteration = self.iteration(task.step.0);
        let decays = match p.style {
            Style::Batch => iteration,
            Style::Stochastic => own.memory.0,
        };
        own.memory.0 += 1;
        let (rated, decays) = ((&items[..], &ratings[..]), (iteration, decays));
        let check = |name, values: &[f32]| task.check_values(name, values);
        self.participate(task.model, own.get_mut("U"), decays, rated, check)
    }

    fn scorer<'a>(
        &'a self,
        own: &'a Own<Remembered<u32>>,
        context: ScoringContext<'a>,
    ) -> Scoring<'a> {
        Ok(Self::scorer_with(own.get("U"), &context))
    }

    /// V moves with the learning rate of the iteration.
    fn server(&self, averager: Averager) -> Box<dyn Server> {
        let fedrec = self.clone();
        let rate = move |step| f64::from(fedrec.rate(fedrec.iteration(step)));
        Box::new(averager.with_rate(0, rate))
    }
}
