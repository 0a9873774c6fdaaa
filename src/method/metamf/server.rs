//! Implements MetaMF's server, which makes a download for each user and steps by back-propagation.

use std::sync::{Arc, OnceLock};

use super::hypernetwork::{Contribution as Gradients, GROUP, Generated, HyperNetwork, HyperStep};
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::method::network;
use crate::method::server::{
    Accumulator, Contribution, Download, PersonalDownloads, Server, StepContext, StepReport, WeightTotals, downcast,
};
use crate::model::blocks::Model;
use crate::model::layout::Layout;
use crate::model::magnitude::MagnitudeCounts;
use crate::model::neural::optimizer::{AdamMoments, AdamStep, clipping_factor, scale, squared_norm};
use crate::model::state::StateVisitor;
use crate::model::table::{RowSet, Table, TableUpdate, floats};

/// Holds the networks, and the state of Adam for them.
pub(super) struct MetaMfServer {
    networks: Arc<HyperNetwork>,
    download: Layout,
    settings: HyperStep,
    moments: AdamMoments,
    steps: u64,
    /// The networks as a model. It is a copy of all parameters, which is made when it is needed.
    model: OnceLock<Model>,
}

impl MetaMfServer {
    pub(super) fn new(networks: HyperNetwork, download: Layout, settings: HyperStep) -> Self {
        let mut moments = AdamMoments::default();
        moments.reset(networks.parameters().len());
        Self { networks: Arc::new(networks), download, settings, moments, steps: 0, model: OnceLock::new() }
    }
}

impl Server for MetaMfServer {
    fn model(&self) -> &Model {
        self.model.get_or_init(|| self.networks.to_model())
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model().check_same_layout(&model)?;
        Arc::make_mut(&mut self.networks).set_parameters(&model);
        self.model = OnceLock::from(model);
        Ok(())
    }

    fn download(&self) -> Download {
        let (networks, layout) = (Arc::clone(&self.networks), self.download.clone());
        Download::PerUser(Arc::new(Downloads { networks, layout }))
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Sums {
            networks: Arc::clone(&self.networks),
            pending: Vec::new(),
            gradient: Vec::new(),
            totals: WeightTotals::default(),
            uploads: MagnitudeCounts::default(),
            multiply_adds: 0,
        })
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let mut sums = downcast::<Sums>(sums)?;
        sums.flush();
        let Sums { mut gradient, totals, uploads, multiply_adds, networks, .. } = *sums;
        // Parameters can only change in place while nothing else holds the networks.
        drop(networks);
        let report = StepReport { uploads, multiply_adds, ..StepReport::default() };
        let divisor = (step.normalise)(&totals).divisor;
        if gradient.is_empty() || divisor == 0.0 {
            return Ok(report);
        }
        scale(&mut gradient, (1.0 / divisor) as f32);
        let factor = clipping_factor(f64::from(squared_norm(&gradient)), self.settings.clip_norm);
        if factor != 1.0 {
            scale(&mut gradient, factor);
        }
        self.steps += 1;
        self.model = OnceLock::new();
        let parameters = Arc::make_mut(&mut self.networks).parameters_mut();
        AdamStep::new(&self.settings.adam, self.steps).apply(parameters, &gradient, &mut self.moments);
        Ok(report)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.values(&mut self.moments.first)?;
        state.values(&mut self.moments.second)?;
        state.plain(&mut self.steps)
    }
}

/// Makes downloads from the networks of one step.
#[derive(Debug)]
struct Downloads {
    networks: Arc<HyperNetwork>,
    layout: Layout,
}

impl PersonalDownloads for Downloads {
    fn download(&self, user: UserId) -> Result<Model> {
        self.downloads(&[user])?.pop().ok_or_else(|| Error::Update(format!("nothing was generated for {user}")))
    }

    fn downloads(&self, users: &[UserId]) -> Result<Vec<Model>> {
        let items = self.networks.shape().item_table();
        let users: Vec<u32> = users.iter().map(|user| user.0).collect();
        let model = |generated: Generated| {
            let mut tables = vec![Table::new(items, generated.items)];
            tables.extend(network::tables(self.networks.prediction_network(), &generated.network));
            Model::of_tables(self.layout.clone(), tables)
        };
        self.networks.generate(&users).into_iter().map(model).collect()
    }
}

/// Holds the gradient with respect to the networks' parameters, summed over contributions times their weights.
struct Sums {
    /// The networks that gradients are back-propagated through. They are those of the step, even if a late contribution
    /// answers an earlier download.
    networks: Arc<HyperNetwork>,
    /// The contributions that wait until sixteen of them are back-propagated together.
    pending: Vec<Pending>,
    /// The sum of the gradients. It is empty until something has been back-propagated.
    gradient: Vec<f32>,
    totals: WeightTotals,
    uploads: MagnitudeCounts,
    multiply_adds: u64,
}

/// Holds what one device has sent.
struct Pending {
    user: u32,
    weight: f32,
    rows: Vec<u32>,
    row_gradient: Vec<f32>,
    network_gradient: Vec<f32>,
}

impl Pending {
    fn as_gradients(&self) -> Gradients<'_> {
        let Self { user, weight, rows, row_gradient, network_gradient } = self;
        Gradients { user: *user, weight: *weight, rows, row_gradient, network_gradient }
    }
}

impl Sums {
    /// Back-propagates the pending contributions through the networks.
    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        self.gradient.resize(self.networks.parameters().len(), 0.0);
        for group in self.pending.chunks(GROUP) {
            let group: Vec<Gradients<'_>> = group.iter().map(Pending::as_gradients).collect();
            self.multiply_adds += group.iter().map(|one| self.networks.multiply_adds(one.rows.len())).sum::<u64>();
            self.networks.add_gradient(&group, &mut self.gradient);
        }
        self.pending.clear();
    }
}

impl Accumulator for Sums {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let by_method = contribution.weight_by_method();
            let weight = by_method * contribution.weight;
            self.totals.add(by_method, contribution.weight, contribution.is_fresh);
            let Some((items, network)) = contribution.update.blocks.split_first() else { continue };
            let rows = match &items.rows {
                RowSet::Listed(rows) => rows.clone(),
                RowSet::All => (0..items.shape.rows as u32).collect(),
            };
            let network_gradient = whole_network(network, self.networks.prediction_network().parameters());
            let row_gradient: Vec<f32> = floats(&items.values).collect();
            for values in [&row_gradient, &network_gradient] {
                self.uploads.add_times(&MagnitudeCounts::of(values, 1.0), 1);
            }
            let (user, weight) = (contribution.user.0, weight as f32);
            self.pending.push(Pending { user, weight, rows, row_gradient, network_gradient });
            // Groups end at the same places however many contributions come at a time, so that sums keep their order.
            if self.pending.len() == GROUP {
                self.flush();
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let mut other = *downcast::<Self>(other)?;
        self.flush();
        other.flush();
        self.totals.merge(&other.totals);
        self.uploads.add_times(&other.uploads, 1);
        self.multiply_adds += other.multiply_adds;
        if self.gradient.is_empty() {
            self.gradient = other.gradient;
        } else {
            self.gradient.iter_mut().zip(&other.gradient).for_each(|(sum, more)| *sum += more);
        }
        Ok(())
    }
}

/// Returns the gradient with respect to all parameters of the prediction network. Rows that a lossy codec has left out
/// are zero.
fn whole_network(blocks: &[TableUpdate], parameters: usize) -> Vec<f32> {
    let mut all = Vec::with_capacity(parameters);
    for block in blocks {
        let start = all.len();
        all.resize(start + block.shape.values(), 0.0);
        for (row, bytes) in block.iter() {
            let place = start + row * block.shape.dimension;
            all[place..place + block.shape.dimension].iter_mut().zip(floats(bytes)).for_each(|(to, value)| *to = value);
        }
    }
    all
}
