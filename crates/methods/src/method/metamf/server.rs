//! Implements MetaMF's server, which makes a download for each user and steps by back-propagation.

use std::sync::{Arc, OnceLock};

use super::hypernetwork::{Contribution as Gradients, GROUP, Generated, HyperNetwork, HyperStep};
use crate::method::network;
use crate::method::server::{
    Accumulator, Contribution, Download, PersonalDownloads, Server, StepContext, StepReport,
    WeightTotals, downcast,
};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::layout::Layout;
use fedrecsim_model::model::magnitude::MagnitudeCounts;
use fedrecsim_model::model::neural::optimizer::{
    AdamMoments, AdamStep, clipping_factor, scale, squared_norm,
};
use fedrecsim_model::model::noisy_sum::NoisySum;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{RowSet, TableUpdate, floats};

/// Holds the networks, and the state of Adam for them.
pub(super) struct MetaMfServer {
    networks: Arc<HyperNetwork>,
    download: Layout,
    settings: HyperStep,
    moments: AdamMoments,
    steps: u64,
    equal_weights: bool,
    /// The networks as a model. It is a copy of all parameters, which is made when it is needed.
    model: OnceLock<Model>,
}

impl MetaMfServer {
    pub(super) fn new(
        networks: HyperNetwork,
        download: Layout,
        settings: HyperStep,
        equal_weights: bool,
    ) -> Self {
        let mut moments = AdamMoments::default();
        moments.reset(networks.parameters().len());
        let networks = Arc::new(networks);
        Self {
            networks,
            download,
            settings,
            moments,
            steps: 0,
            equal_weights,
            model: OnceLock::new(),
        }
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
        Box::new(Sums::new(&self.networks, None))
    }

    fn noisy_accumulator(&self, noise: NoisySum) -> Option<Box<dyn Accumulator>> {
        // A weight that an upload says of itself would tell what the noise is to hide.
        self.equal_weights
            .then(|| -> Box<dyn Accumulator> { Box::new(Sums::new(&self.networks, Some(noise))) })
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let mut sums = downcast::<Sums>(sums)?;
        sums.flush()?;
        let Sums {
            mut gradient,
            noise,
            totals,
            uploads,
            multiply_adds,
            networks,
            ..
        } = *sums;
        if let Some(noise) = noise {
            gradient.resize(networks.parameters().len(), 0.0);
            noise.add_noise(&mut gradient);
        }
        // Parameters can only change in place while nothing else holds the networks.
        drop(networks);
        let report = StepReport {
            uploads,
            multiply_adds,
            ..StepReport::default()
        };
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
        AdamStep::new(&self.settings.adam, self.steps).apply(
            parameters,
            &gradient,
            &mut self.moments,
        );
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
        self.downloads(&[user])?
            .pop()
            .ok_or_else(|| Error::Update(format!("nothing was generated for {user}")))
    }

    fn downloads(&self, users: &[UserId]) -> Result<Vec<Model>> {
        let users: Vec<u32> = users.iter().map(|user| user.0).collect();
        let model = |generated: Generated| {
            let values = [generated.items, generated.network].concat();
            network::model(self.layout.clone(), &values)
        };
        Ok(self
            .networks
            .generate(&users)
            .into_iter()
            .map(model)
            .collect())
    }
}

/// Holds the gradient with respect to the networks' parameters, summed over contributions times
/// their weights.
struct Sums {
    /// The networks that gradients are back-propagated through. They are those of the step, even if
    /// a late contribution answers an earlier download.
    networks: Arc<HyperNetwork>,
    /// The contributions that wait until there are sixteen of them. They are back-propagated
    /// together, or each by itself where its part of the sum is bounded.
    pending: Vec<Gradients>,
    /// The sum of the gradients. It is empty until something has been back-propagated.
    gradient: Vec<f32>,
    /// The bound of each contribution's gradient and the noise on their sum, where the scenario
    /// asks for them.
    noise: Option<NoisySum>,
    totals: WeightTotals,
    uploads: MagnitudeCounts,
    multiply_adds: u64,
}

impl Sums {
    fn new(networks: &Arc<HyperNetwork>, noise: Option<NoisySum>) -> Self {
        Self {
            networks: Arc::clone(networks),
            pending: Vec::new(),
            gradient: Vec::new(),
            noise,
            totals: WeightTotals::default(),
            uploads: MagnitudeCounts::default(),
            multiply_adds: 0,
        }
    }

    /// Back-propagates the pending contributions through the networks: together, or each by itself
    /// where its part of the sum is bounded.
    ///
    /// # Errors
    /// As [`NoisySum::add`].
    fn flush(&mut self) -> Result<()> {
        let Self {
            networks,
            pending,
            gradient,
            noise,
            multiply_adds,
            ..
        } = self;
        if pending.is_empty() {
            return Ok(());
        }
        gradient.resize(networks.parameters().len(), 0.0);
        let mut part = Vec::new();
        for group in pending.chunks(if noise.is_some() { 1 } else { GROUP }) {
            *multiply_adds += group
                .iter()
                .map(|one| networks.multiply_adds(one.rows.len()))
                .sum::<u64>();
            match noise {
                None => networks.add_gradient(group, gradient),
                Some(noise) => {
                    part.clear();
                    part.resize(gradient.len(), 0.0);
                    networks.add_gradient(group, &mut part);
                    noise.add(&part, gradient)?;
                }
            }
        }
        pending.clear();
        Ok(())
    }
}

impl Accumulator for Sums {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let by_method = contribution.weight_by_method();
            let weight = by_method * contribution.weight;
            self.totals
                .add(by_method, contribution.weight, contribution.is_fresh);
            let Some((items, network)) = contribution.update.blocks.split_first() else {
                continue;
            };
            let rows = match &items.rows {
                RowSet::Listed(rows) => rows.clone(),
                RowSet::All => (0..items.shape.rows as u32).collect(),
            };
            let network_gradient =
                whole_network(network, self.networks.prediction_network().parameters());
            let row_gradient: Vec<f32> = floats(&items.values).collect();
            for values in [&row_gradient, &network_gradient] {
                self.uploads.add_times(&MagnitudeCounts::of(values, 1.0), 1);
            }
            let (user, weight) = (contribution.user.0, weight as f32);
            self.pending.push(Gradients {
                user,
                weight,
                rows,
                row_gradient,
                network_gradient,
            });
            // Groups end at the same places however many contributions come at a time, so that sums
            // keep their order.
            if self.pending.len() == GROUP {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let mut other = *downcast::<Self>(other)?;
        if self.noise.is_some() != other.noise.is_some() {
            return Err(Error::Update(
                "only one of two sums of gradients is to have noise".to_owned(),
            ));
        }
        self.flush()?;
        other.flush()?;
        self.totals.merge(&other.totals);
        self.uploads.add_times(&other.uploads, 1);
        self.multiply_adds += other.multiply_adds;
        if self.gradient.is_empty() {
            self.gradient = other.gradient;
        } else {
            self.gradient
                .iter_mut()
                .zip(&other.gradient)
                .for_each(|(sum, more)| *sum += more);
        }
        Ok(())
    }
}

/// Returns the gradient with respect to all parameters of the prediction network. Rows that a lossy
/// codec has left out are zero.
fn whole_network(blocks: &[TableUpdate], parameters: usize) -> Vec<f32> {
    let mut all = Vec::with_capacity(parameters);
    for block in blocks {
        let start = all.len();
        all.resize(start + block.shape.values(), 0.0);
        for (row, bytes) in block.iter() {
            let place = start + row * block.shape.dimension;
            all[place..place + block.shape.dimension]
                .iter_mut()
                .zip(floats(bytes))
                .for_each(|(to, value)| *to = value);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::method::declare::Declared;
    use crate::method::metamf::{MetaMf, MetaMfParameters};
    use crate::method::tests::{problem_of, with_step};
    use crate::method::{Method, Phase};
    use fedrecsim_core::ids::InvitationId;
    use fedrecsim_core::rng::Streams;
    use fedrecsim_model::model::blocks::ModelUpdate;
    use fedrecsim_model::model::layout::BlockLayout;
    use fedrecsim_model::model::table::Table;

    const USERS: u32 = 4;

    fn method() -> Declared<MetaMf> {
        let parameters = MetaMfParameters {
            latent_dimension: 4,
            memory_units: 5,
            hidden_units: 6,
            item_rank: 2,
            equal_weights: true,
            ..MetaMfParameters::default()
        };
        Declared::new(parameters, &problem_of(USERS as usize, 7))
    }

    /// Has `sums` back-propagate what these users send, who all send `value` for everything.
    fn absorb(method: &Declared<MetaMf>, users: &[u32], value: f32, mut sums: Sums) -> Sums {
        let layout = method.upload_layout(Phase::default());
        let table =
            |block: &BlockLayout| TableUpdate::whole(&Table::from_fn(block.shape, || value));
        let update = ModelUpdate::of_blocks(layout.blocks().iter().map(table).collect());
        let model = method.initial();
        let contribution =
            |user: &u32| Contribution::fresh(UserId(*user), InvitationId(*user), &update, &model);
        sums.absorb(&users.iter().map(contribution).collect::<Vec<_>>())
            .unwrap();
        sums.flush().unwrap();
        sums
    }

    /// Returns the sums of the gradients of these users with this bound and noise.
    fn sums(
        method: &Declared<MetaMf>,
        users: &[u32],
        value: f32,
        (limit, deviation): (f64, f64),
    ) -> Sums {
        let noise = NoisySum::new(limit, deviation, Streams::new(1).named("test", 0, 0));
        let empty = downcast::<Sums>(method.server().noisy_accumulator(noise).unwrap()).unwrap();
        absorb(method, users, value, *empty)
    }

    /// Returns the sum of the gradients of all users.
    fn of_all(method: &Declared<MetaMf>, value: f32, noise: Option<NoisySum>) -> Vec<f32> {
        let networks = Arc::new(method.declared().hypernetwork());
        absorb(method, &[0, 1, 2, 3], value, Sums::new(&networks, noise)).gradient
    }

    fn length(values: impl Iterator<Item = f32>) -> f64 {
        values
            .map(|value| f64::from(value).powi(2))
            .sum::<f64>()
            .sqrt()
    }

    /// If this fails, a user moves the sum of gradients that the server makes by more than the
    /// noise is made for.
    #[test]
    fn no_user_moves_the_sum_of_gradients_by_more_than_the_limit() {
        let method = method();
        for (value, limit) in [(5.0, 0.25), (1e3, 2.0)] {
            let of = |users: &[u32]| sums(&method, users, value, (limit, 0.0)).gradient;
            let (all, without) = (of(&[0, 1, 2, 3]), of(&[0, 1, 3]));
            let moved = length(all.iter().zip(&without).map(|(all, without)| all - without));
            assert!(
                (moved / limit - 1.0).abs() < 1e-4,
                "{moved} instead of {limit}, or nothing is clipped"
            );
        }
        let short = of_all(
            &method,
            1e-3,
            Some(NoisySum::new(1e3, 0.0, Streams::new(1).named("test", 0, 0))),
        );
        let plain = of_all(&method, 1e-3, None);
        let difference = length(short.iter().zip(&plain).map(|(short, plain)| short - plain));
        assert!(
            length(plain.iter().copied()) > 1e-3,
            "nothing is back-propagated"
        );
        assert!(
            difference < 1e-5 * length(plain.into_iter()),
            "what is short enough is changed by {difference}"
        );
    }

    /// If this fails, noise is lost where sums are merged.
    #[test]
    fn sums_with_and_without_noise_do_not_mix() {
        let method = method();
        let mut noisy = sums(&method, &[0], 1.0, (1.0, 1.0));
        assert!(noisy.merge(method.server().accumulator()).is_err());
        let mut plain = downcast::<Sums>(method.server().accumulator()).unwrap();
        assert!(plain.merge(Box::new(noisy)).is_err());
    }

    /// If this fails, a step has the noise of another strength, or once for each of the
    /// accumulators that were merged.
    #[test]
    fn the_noise_is_in_a_step_once() {
        let method = method();
        let gradient_after = |sums: Sums| {
            let step = HyperStep {
                clip_norm: f64::MAX,
                ..method.declared().step()
            };
            let mut server = MetaMfServer::new(
                method.declared().hypernetwork(),
                method.download_layout(Phase::default()),
                step,
                true,
            );
            with_step(0, |context| server.step(Box::new(sums), context)).unwrap();
            // After one step, Adam's first moment is a tenth of the gradient with its weight decay.
            server
                .moments
                .first
                .iter()
                .map(|value| value * 10.0)
                .collect::<Vec<f32>>()
        };
        let noisy = |users: &[u32]| sums(&method, users, 5.0, (1e-6, 3.0));
        let mut merged = noisy(&[0]);
        merged.merge(Box::new(noisy(&[1]))).unwrap();
        let after = gradient_after(merged);
        // Two contributions are divided by two.
        let found = length(after.iter().copied()) / (after.len() as f64).sqrt();
        assert!(
            (found / 1.5 - 1.0).abs() < 0.1,
            "{found} of {} values",
            after.len()
        );
    }
}
