//! Implements FedRAP, additive personalisation (Li, Long, Zhou, ICLR 2024; code mtics/FedRAP
//! d6ee2ac).
//!
//! The table D (m x k) and the score function w (k) and b are private. The table C (m x k) is
//! shared: it is averaged, and a penalty makes it sparse. The logit of item j is w . (D_j + C_j) +
//! b. Items are scored with the client's own w, b and D and the newest averaged C.

use std::sync::Arc;

use super::averager::Averager;
use super::rule::ServerRule;
use super::server::Server;
use super::{
    Client, Entry, LocalTask, LocalUpdate, Method, OwnNoise, PersonalTable, Phase, Placement,
    Problem, Scorer, ScoringContext, Scratch, sizes_by,
};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::score::{ScaledSum, score_sums};
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::private::Private;
use fedrecsim_model::model::row_table::RowTable;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{Table, TableShape};

pub mod central;
mod local;
mod moving_rows;
mod noise;
mod parameters;
#[cfg(test)]
mod tests;

use local::PrivateParameters;
use parameters::Plan;
pub use parameters::{
    Curriculum, FedRapParameters, Noise, NoiseAt, Objective, Regularizer, Tables,
};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedrap",
    summary: "additive personalisation: averaged sparse table C plus private table D and score function",
    source: "Li, Long, Zhou, Federated Recommendation with Additive Personalization, ICLR 2024; code \
             mtics/FedRAP d6ee2ac",
    schema: &|| schemars::schema_for!(FedRapParameters),
    resolve: &parameters::resolve,
    placement: Placement::Federated,
    draws_negatives: true,
    sizes: &|value, size| {
        sizes_by(value, |p: FedRapParameters| {
            let shape = TableShape::of_items(size.items, p.latent_dimension);
            Layout::new(
                ["C", "D"]
                    .map(|name| BlockLayout::item_table(name, shape))
                    .into(),
            )
        })
    },
    build: &|value, problem| {
        Ok(Box::new(FedRap::new(
            &super::parameters("fedrap", value)?,
            problem,
        )))
    },
};

/// Holds the initial parameters, which are the same for all clients.
#[derive(Clone, Debug)]
pub struct Start {
    /// The private table D (m x k).
    pub d: Table,
    /// The shared table C as it is downloaded in round 0 (m x k).
    pub c: Table,
    /// The weights w of the score function (k values).
    pub w: Vec<f32>,
    /// The bias b of the score function.
    pub b: f32,
}

impl Start {
    /// Draws C and D from N(0, 1), and w and b from U(-1/sqrt k, 1/sqrt k).
    fn draw(problem: &Problem, dimension: usize) -> Self {
        let shape = TableShape {
            rows: problem.items,
            dimension,
        };
        let mut global = problem.streams.stream(Purpose::GlobalInit, 0, 0);
        let mut private = problem.streams.stream(Purpose::PrivateInit, 0, 0);
        let reach = 1.0 / (dimension as f64).sqrt();
        let mut uniform = || private.uniform_within(reach) as f32;
        let w = (0..dimension).map(|_| uniform()).collect();
        let b = uniform();
        Self {
            w,
            b,
            d: Table::from_fn(shape, || private.standard_normal() as f32),
            c: Table::from_fn(shape, || global.standard_normal() as f32),
        }
    }
}

/// Holds what all clients share.
#[derive(Debug)]
pub struct FedRap {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    plan: Plan,
    start: Start,
    items: usize,
}

impl FedRap {
    /// Makes the method with initial parameters that are drawn from the run's streams.
    pub(crate) fn new(parameters: &FedRapParameters, problem: &Problem) -> Self {
        let mut parameters = parameters.clone();
        if let Some(noise) = &mut parameters.noise {
            noise.participants.get_or_insert(problem.users as u32);
        }
        Self::from_start(
            &parameters,
            Start::draw(problem, parameters.latent_dimension as usize),
        )
    }

    /// Makes the method with these initial parameters.
    pub fn from_start(parameters: &FedRapParameters, start: Start) -> Self {
        let items = start.c.shape().rows;
        Self {
            shared: Arc::new(Shared {
                plan: Plan::new(parameters),
                start,
                items,
            }),
        }
    }
}

impl Method for FedRap {
    fn initial(&self) -> Model {
        let Shared { plan, start, .. } = &*self.shared;
        if plan.shares() {
            return Model::of_table("C", start.c.clone());
        }
        Model::of_table(
            "C",
            Table::zeros(TableShape {
                rows: 0,
                dimension: plan.dimension,
            }),
        )
    }

    fn server(&self) -> Box<dyn Server> {
        let rule = ServerRule {
            threshold: self.shared.plan.server_threshold,
            ..ServerRule::MEAN
        };
        Box::new(Averager::with_rules(
            self.initial(),
            self.upload_layout(Phase::default()),
            &[rule],
        ))
    }

    fn own_noise(&self) -> Option<OwnNoise> {
        noise::worth(&self.shared.plan)
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        let start = &self.shared.start;
        let own = PrivateParameters {
            w: start.w.clone(),
            b: start.b,
            d: RowTable::new(self.shared.plan.dimension),
        };
        Box::new(FedRapClient {
            shared: Arc::clone(&self.shared),
            own: Private::new(own),
        })
    }
}

#[derive(Clone)]
struct FedRapClient {
    shared: Arc<Shared>,
    own: Private<PrivateParameters>,
}

impl Client for FedRapClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        local::train(&self.shared, self.own.get_mut(), task, scratch)
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let (own, plan, table) = (self.own.get(), &self.shared.plan, context.model.table(0));
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            let plain = |item: &u32| {
                if plan.shares() {
                    table.row(*item as usize)
                } else {
                    &[]
                }
            };
            let mut rows: Vec<ScaledSum<'_>> = items
                .iter()
                .map(|item| ScaledSum {
                    scaled: &[],
                    scale: 0.0,
                    plain: plain(item),
                })
                .collect();
            if plan.keeps_d() {
                own.d.read_rows(
                    items,
                    &self.shared.start.d,
                    &mut Vec::new(),
                    |position, d, scale| {
                        (rows[position].scaled, rows[position].scale) = (d, scale);
                    },
                );
            }
            score_sums(&own.w, own.b, &rows, scores);
        }))
    }

    fn personal_table(&self) -> Result<Option<PersonalTable>> {
        let Shared { plan, start, items } = &*self.shared;
        if !plan.keeps_d() {
            return Ok(None);
        }
        let mut values = Table::zeros(start.d.shape());
        let rows: Vec<u32> = (0..*items as u32).collect();
        self.own
            .get()
            .d
            .read_rows(&rows, &start.d, &mut Vec::new(), |row, stored, scale| {
                values
                    .row_mut(row)
                    .iter_mut()
                    .zip(stored)
                    .for_each(|(value, stored)| *value = stored * scale);
            });
        Ok(Some(PersonalTable {
            name: "D",
            values,
            is_added: true,
        }))
    }

    fn replace_personal_table(&mut self, values: Table) -> Result<()> {
        let mut own = RowTable::new(values.shape().dimension);
        let rows: Vec<u32> = (0..values.shape().rows as u32).collect();
        own.write_rows(&rows, 1.0, &mut Vec::new(), |row, own| {
            own.copy_from_slice(values.row(row))
        });
        self.own.get_mut().d = own;
        Ok(())
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        let PrivateParameters { w, b, d } = self.own.get_mut();
        state.values(w)?;
        state.value(b)?;
        state.row_table(d)
    }
}
