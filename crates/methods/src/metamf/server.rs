//! Implements MetaMF's server, which makes a download for each user and steps by back-propagation.

use std::sync::{Arc, OnceLock};

use super::hypernetwork::{GROUP, Gradients, HyperNetwork};
use super::{MetaMf, MetaMfParameters};
use crate::network;
use crate::prelude::*;
use crate::server::{Download, WeightTotals, downcast};
use fedrecsim_model::magnitude::MagnitudeCounts;
use fedrecsim_model::neural::dense::add_scaled;
use fedrecsim_model::neural::optimizer::{AdamMoments, AdamSettings, clip, scale};
use fedrecsim_model::noisy_sum::NoisySum;

/// Holds the networks, and the state of Adam for them.
pub(super) struct MetaMfServer {
    parameters: MetaMfParameters,
    networks: Arc<HyperNetwork>,
    moments: AdamMoments,
    steps: u64,
    layout: Layout,
    /// The networks as a model. It is a copy of all parameters, which is made when it is needed.
    model: OnceLock<Model>,
}

impl MetaMfServer {
    /// Makes the server with this model.
    pub(super) fn new(method: &MetaMf, model: &Model) -> Self {
        let networks = HyperNetwork {
            shape: method.shape.clone(),
            values: network::parameters(model, 0),
            starts: method.starts,
        };
        Self {
            parameters: method.parameters.clone(),
            moments: AdamMoments::zeros(networks.values.len()),
            networks: Arc::new(networks),
            steps: 0,
            layout: model.layout().clone(),
            model: OnceLock::new(),
        }
    }
}

impl Server for MetaMfServer {
    fn model(&self) -> &Model {
        let made = || network::model(self.layout.clone(), &self.networks.values);
        self.model.get_or_init(made)
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model().check_same_layout(&model)?;
        Arc::make_mut(&mut self.networks).values = network::parameters(&model, 0);
        self.model = OnceLock::from(model);
        Ok(())
    }

    fn download(&self) -> Download {
        Download::PerUser(self.networks.clone())
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Sums::new(&self.networks, None))
    }

    fn noisy_accumulator(&self, noise: NoisySum) -> Option<Box<dyn Accumulator>> {
        // A weight that an upload says of itself would tell what the noise is to hide.
        let sums = || -> Box<dyn Accumulator> { Box::new(Sums::new(&self.networks, Some(noise))) };
        self.parameters.equal_weights.then(sums)
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let mut sums = downcast::<Sums>(sums)?;
        sums.flush()?;
        let mut gradient = sums.gradient;
        if let Some(noise) = sums.noise {
            gradient.resize(self.networks.values.len(), 0.0);
            noise.add_noise(&mut gradient);
        }
        // Parameters can only change in place while nothing else holds the networks.
        drop(sums.networks);
        let divisor = (step.normalise)(&sums.totals).divisor;
        if !gradient.is_empty() && divisor != 0.0 {
            scale(&mut gradient, (1.0 / divisor) as f32);
            let p = &self.parameters;
            clip([&mut gradient], p.clip_norm);
            self.steps += 1;
            self.model = OnceLock::new();
            let settings = AdamSettings {
                weight_decay: p.weight_decay,
                ..AdamSettings::with_rate(p.learning_rate)
            };
            let values = &mut Arc::make_mut(&mut self.networks).values;
            self.moments.step(&settings, self.steps, values, &gradient);
        }
        Ok(sums.report)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.values(&mut self.moments.first)?;
        state.values(&mut self.moments.second)?;
        state.plain(&mut self.steps)
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
    report: StepReport,
}

impl Sums {
    fn new(networks: &Arc<HyperNetwork>, noise: Option<NoisySum>) -> Self {
        Self {
            networks: Arc::clone(networks),
            pending: Vec::new(),
            gradient: Vec::new(),
            noise,
            totals: WeightTotals::default(),
            report: StepReport::default(),
        }
    }

    /// Back-propagates the pending contributions through the networks.
    ///
    /// # Errors
    /// As [`NoisySum::add`].
    fn flush(&mut self) -> Result<()> {
        let (networks, pending) = (&self.networks, std::mem::take(&mut self.pending));
        if pending.is_empty() {
            return Ok(());
        }
        self.gradient.resize(networks.values.len(), 0.0);
        let work = |one: &Gradients| networks.shape.multiply_adds(one.rows.len());
        self.report.multiply_adds += pending.iter().map(work).sum::<u64>();
        let Some(noise) = &self.noise else {
            networks.add_gradient(&pending, &mut self.gradient);
            return Ok(());
        };
        for one in pending.chunks(1) {
            let mut part = vec![0.0; self.gradient.len()];
            networks.add_gradient(one, &mut part);
            noise.add(&part, &mut self.gradient)?;
        }
        Ok(())
    }
}

impl Accumulator for Sums {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let by_method = contribution.weight_by_method();
            let (weight, is_fresh) = (contribution.weight, contribution.is_fresh);
            self.totals.add(by_method, weight, is_fresh);
            let (items, network) = (
                &contribution.update.blocks[0],
                &contribution.update.blocks[1..],
            );
            let (mut of_rows, mut of_network) = (floats(&items.values).collect(), Vec::new());
            for block in network {
                // Rows that a lossy codec has left out are zero.
                of_network.extend(floats(&block.to_whole_bytes(None)?));
            }
            for values in [&mut of_rows, &mut of_network] {
                self.report
                    .uploads
                    .add_times(&MagnitudeCounts::of(values, 1.0), 1);
                scale(values, (by_method * weight) as f32);
            }
            self.pending.push(Gradients {
                user: contribution.user,
                rows: items.iter().map(|(row, _)| row as u32).collect(),
                of_rows,
                of_network,
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
        self.report.uploads.add_times(&other.report.uploads, 1);
        self.report.multiply_adds += other.report.multiply_adds;
        match self.gradient.is_empty() {
            true => self.gradient = other.gradient,
            false => add_scaled(1.0, &other.gradient, &mut self.gradient),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::declare::Declared;
    use crate::tests::{problem_of, with_step};
    use fedrecsim_core::InvitationId;

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
        let layout = method.upload_layout(Phase::default(), Class::default());
        let table = |block: &BlockLayout| TableUpdate::whole(Table::from_fn(block.shape, || value));
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
        let server = MetaMfServer::new(method.declared(), &method.initial());
        absorb(
            method,
            &[0, 1, 2, 3],
            value,
            Sums::new(&server.networks, noise),
        )
        .gradient
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
            let mut server = MetaMfServer::new(method.declared(), &method.initial());
            server.parameters.clip_norm = f64::MAX;
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
