//! Implements CentRAP, FedRAP at the server, with which the paper (section 4.2) shows what FedRAP
//! could reach with the ratings of all users.
//!
//! The paper says no more than that. Here the server has one C, and for each user a w, a b and a
//! table D of its own, as FedRAP has, and from the same start. It minimises the loss of FedRAP's
//! published code, over mini-batches of the samples of all users: the mean binary cross-entropy -
//! lambda times the mean of (D_j - C_j)^2 + mu times the mean of
//! |C_j| over the values of the batch's rows. A step of the server is one pass over every positive with freshly drawn
//! negatives, from the pool that the scenario names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Start;
use crate::method::central::{
    CentralClient, CentralServer, CentralTrainer, UserRatings, ratings_layout,
};
use crate::method::network::model_of;
use crate::method::protocol::Protocol;
use crate::method::samples;
use crate::method::server::{Server, StepContext, StepReport};
use crate::method::{
    Client, Entry, Method, Phase, Placement, Problem, ScoringContext, largest_magnitude,
    parameters, sizes_by,
};
use factors::{Batch, Rates, Tables};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::kernel::score::{ScaledSum, score_sums};
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::table::{Table, TableShape};

mod factors;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "centrap",
    summary: "FedRAP at the server: users send their ratings once, one shared table and a private one for each user",
    source: "Li, Long, Zhou, Federated Recommendation with Additive Personalization, ICLR 2024, section 4.2; no public \
             code, so that batches and rates are this simulator's",
    schema: &|| schemars::schema_for!(CentRapParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Central,
    draws_negatives: true,
    sizes: &|value, size| {
        sizes_by(value, |p: CentRapParameters| {
            layout([size.users, size.items], p.latent_dimension as usize)
        })
    },
    build: &|value, problem| {
        Ok(Box::new(CentRap::new(
            parameters("centrap", value)?,
            problem,
        )))
    },
};

/// Parameters of CentRAP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CentRapParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Samples per batch.
    #[schemars(range(min = 1))]
    pub batch_size: u32,
    /// Learning rate of every user's w and b.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_network: f64,
    /// Learning rate of C and of every user's D.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_tables: f64,
    /// Factor of the learning rate of D. In FedRAP a row of C moves by the mean over the users and
    /// their D by the whole of their own steps; a large factor stands for that.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub personal_rate_multiplier: f64,
    /// Factor of both rates after every pass.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub learning_rate_decay: f64,
    /// Weight decay of every parameter, which takes place once a pass: each loses its rate times
    /// this times itself.
    #[schemars(range(min = 0))]
    pub weight_decay: f64,
    /// Weight of the term that drives C and D apart.
    #[schemars(range(min = 0))]
    pub lambda: f64,
    /// Weight of the penalty on C.
    #[schemars(range(min = 0))]
    pub mu: f64,
}

impl Default for CentRapParameters {
    fn default() -> Self {
        Self {
            latent_dimension: 32,
            batch_size: 2048,
            learning_rate_network: 20.0,
            learning_rate_tables: 300.0,
            personal_rate_multiplier: 1.0,
            learning_rate_decay: 0.97,
            weight_decay: 1e-4,
            lambda: 1e-3,
            mu: 1e-3,
        }
    }
}

/// The positions of the model's blocks.
const C: usize = 0;
const D: usize = 1;
const W: usize = 2;
const B: usize = 3;

/// Returns the layout of C, the D of one user after the other, and every user's w and b.
fn layout([users, items]: [usize; 2], dimension: usize) -> Layout {
    let shape = |rows, dimension| TableShape { rows, dimension };
    Layout::new(vec![
        BlockLayout::item_table("C", shape(items, dimension)),
        BlockLayout::weights("D", shape(users * items, dimension)),
        BlockLayout::weights("w", shape(users, dimension)),
        BlockLayout::weights("b", shape(users, 1)),
    ])
}

/// Holds the parameters of the method and where it starts.
#[derive(Debug)]
pub(crate) struct CentRap {
    parameters: CentRapParameters,
    start: Start,
    problem: Problem,
}

impl CentRap {
    /// Makes the method for a problem of this size.
    pub(crate) fn new(parameters: CentRapParameters, problem: &Problem) -> Self {
        let start = Start::draw(problem, parameters.latent_dimension as usize);
        Self {
            parameters,
            start,
            problem: problem.clone(),
        }
    }
}

impl Method for CentRap {
    /// Gives every user the same D, w and b, as FedRAP does.
    fn initial(&self) -> Model {
        let Start { c, d, w, b } = &self.start;
        let layout = layout([self.problem.users, c.shape().rows], c.shape().dimension);
        let repeated = |values: &[f32], block: usize| {
            let repeated = std::iter::repeat_n(values, self.problem.users)
                .flatten()
                .copied();
            let mut table = Table::zeros(layout.blocks()[block].shape);
            table
                .as_mut_slice()
                .iter_mut()
                .zip(repeated)
                .for_each(|(value, initial)| *value = initial);
            table
        };
        let tables = vec![
            c.clone(),
            repeated(d.as_slice(), D),
            repeated(w, W),
            repeated(&[*b], B),
        ];
        model_of(layout.clone(), tables)
    }

    fn download_layout(&self, _phase: Phase) -> Layout {
        Layout::none()
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        ratings_layout(self.start.c.shape().rows)
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(CentralClient::new(score))
    }

    fn server(&self) -> Box<dyn Server> {
        let (parameters, protocol) = (self.parameters.clone(), self.problem.protocol.clone());
        Box::new(CentralServer::new(Box::new(Trainer {
            parameters,
            protocol,
            model: self.initial(),
        })))
    }
}

/// Writes the user's scores of `items` to `scores`.
fn score(context: &ScoringContext<'_>, items: &[u32], scores: &mut [f32]) {
    let ScoringContext { user, model, .. } = *context;
    let (user, c) = (user.index(), model.table(C));
    let row = |&item: &u32| {
        let scaled = model.table(D).row(user * c.shape().rows + item as usize);
        ScaledSum {
            scaled,
            scale: 1.0,
            plain: c.row(item as usize),
        }
    };
    let rows: Vec<ScaledSum<'_>> = items.iter().map(row).collect();
    score_sums(
        model.table(W).row(user),
        model.table(B).row(user)[0],
        &rows,
        scores,
    );
}

/// Trains the server's tables on the ratings.
struct Trainer {
    parameters: CentRapParameters,
    protocol: Protocol,
    model: Model,
}

impl CentralTrainer for Trainer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.replace(model)
    }

    fn pass(&mut self, ratings: &[UserRatings], step: &StepContext<'_>) -> Result<StepReport> {
        let p = &self.parameters;
        // Repeated multiplication gives the same bits on every platform, which a power function
        // need not.
        let decay = (0..step.step).fold(1.0, |decay, _| decay * p.learning_rate_decay);
        let (network, shared) = (
            p.learning_rate_network * decay,
            p.learning_rate_tables * decay,
        );
        let of_blocks = [
            shared,
            shared * p.personal_rate_multiplier,
            network,
            network,
        ];
        let rates = Rates {
            of_blocks: of_blocks.map(|rate| rate as f32),
            lambda: p.lambda as f32,
            mu: p.mu as f32,
        };
        let items = self.model.table(C).shape().rows;
        let samples = samples::draw(&self.protocol, (ratings, items), step, "centrap")?;
        let (mut batch, mut loss) = (Batch::default(), 0.0);
        let shrink = of_blocks.map(|rate| (1.0 - rate * p.weight_decay) as f32);
        for chunk in samples.chunks(p.batch_size as usize) {
            loss += f64::from(batch.step(&mut Tables::of(&mut self.model), chunk, &rates));
        }
        for ((block, name), shrink) in [(C, "C"), (D, "D"), (W, "w"), (B, "b")]
            .into_iter()
            .zip(shrink)
        {
            let values = self.model.table_mut(block).as_mut_slice();
            values.iter_mut().for_each(|value| *value *= shrink);
            step.check_magnitude(name, largest_magnitude(values))?;
        }
        if !loss.is_finite() {
            return Err(step.diverged("the loss", loss as f32));
        }
        let visits = 3 * samples.len() as u64;
        let loss = (!samples.is_empty()).then(|| loss / samples.len() as f64);
        Ok(StepReport {
            row_visits: visits,
            loss,
            ..StepReport::default()
        })
    }
}
