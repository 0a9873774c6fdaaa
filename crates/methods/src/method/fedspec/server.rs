//! Implements FedSpec's server, which adds sums of rows up until enough users have sent theirs, and
//! then makes a step.

use std::collections::BTreeSet;
use std::sync::Arc;

use ndarray::{Array2, s};

use super::{ITEM_WEIGHTS, Shared, TABLE, numerics};
use crate::method::listed_sums::{ListedSums, Told};
use crate::method::row_counts::noise_on;
use crate::method::server::{
    Accumulator, Contribution, Server, StepContext, StepReport, UploadUse, downcast,
};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::math;
use fedrecsim_model::model::algebra::AlgebraError;
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::magnitude::MagnitudeCounts;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::Table;

/// The least 1 - |Z_i|^2 by which a score is divided.
const LEAST_REST: f64 = 1e-3;

/// Implements the server.
pub(super) struct SpectralServer {
    shared: Arc<Shared>,
    model: Model,
    /// The number n_i of users with item i among their positives, at least 1 and at least as large
    /// as noise, as the uploads of the first step give it; nothing before that. What later uploads
    /// count is not used.
    counts: Vec<f64>,
    /// What has been sent since the last step of A.
    pending: Sums,
}

/// What users have sent since the last step of A.
#[derive(Clone, Debug, Default)]
struct Sums {
    /// The sums of the rows (m x r), and the number of users who sent each.
    listed: ListedSums,
    /// The number of uploads that the sums are over.
    uploads: f64,
    /// The sum of the weights with which these are in the sums, which are 1 where nothing is
    /// clipped.
    weight: f64,
    /// Those who have sent something; nobody where the server knows nothing but sums.
    users: BTreeSet<UserId>,
    /// A as the first of them received it.
    received: Vec<f32>,
}

impl SpectralServer {
    /// Makes the server that starts with `model`.
    pub(crate) fn new(shared: Arc<Shared>, model: Model) -> Self {
        Self {
            shared,
            model,
            counts: Vec::new(),
            pending: Sums::default(),
        }
    }

    /// Returns n^(-d) of every item; 1 before the first step.
    fn damping(&self) -> Vec<f64> {
        if self.counts.is_empty() {
            return vec![1.0; self.shared.items];
        }
        let damping = |count: &f64| match self.shared.parameters.damping_exponent {
            // Roots are faster than a power, and differ from it in the last bits, on which results
            // depend.
            0.25 => 1.0 / math::sqrt(math::sqrt(*count)),
            exponent => math::pow(*count, -exponent),
        };
        self.counts.iter().map(damping).collect()
    }

    /// Replaces the model by that of the eigenvectors which the pending sums give.
    fn advance(&mut self, step: &StepContext<'_>) -> Result<()> {
        let Sums {
            listed: ListedSums { rows, senders },
            uploads,
            weight,
            received,
            ..
        } = std::mem::take(&mut self.pending);
        // A codec may have left everything out. Nothing was learned then.
        if rows.iter().all(|value| *value == 0.0) {
            return Ok(());
        }
        // Where uploads are clipped, a user counts for less than 1. Noise can hide for how much.
        let of_one_user = if weight > 0.0 && uploads > 0.0 {
            weight / uploads
        } else {
            1.0
        };
        let senders: Vec<f64> = senders.iter().map(|count| count / of_one_user).collect();
        if self.counts.is_empty() {
            // Counts below the noise say little, and a small one would make the noise in its row
            // large.
            let floor = noise_on(&senders).max(1.0);
            self.counts = senders.iter().map(|count| count.max(floor)).collect();
        }
        let (parameters, damping) = (&self.shared.parameters, self.damping());
        let shape = (
            self.shared.items,
            parameters.table(self.shared.items).dimension,
        );
        let misfit = |_| Error::Update("the sums of FedSpec have another shape than A".to_owned());
        let mut images = Array2::from_shape_vec(shape, rows).map_err(misfit)?;
        let start: Vec<f64> = received.iter().map(|value| f64::from(*value)).collect();
        let mut start = Array2::from_shape_vec(shape, start).map_err(misfit)?;
        for ((mut image, mut start), damping) in images
            .rows_mut()
            .into_iter()
            .zip(start.rows_mut())
            .zip(&damping)
        {
            image *= *damping;
            start /= *damping;
        }
        let spectrum =
            numerics::nystroem(&images.view(), &start.view()).map_err(|cause| match cause {
                AlgebraError::NotFinite { .. } => step.diverged("the sum of the uploads", f32::NAN),
                other => Error::Update(other.to_string()),
            })?;
        let Some(spectrum) = spectrum else {
            return Ok(());
        };
        let (mut filter, lengths) = numerics::filtered(&spectrum, parameters.ridge);
        // Columns that noise has left nothing of are zero.
        filter.resize(shape.1, 0.0);
        let mut vectors = Array2::zeros(shape);
        vectors
            .slice_mut(s![.., ..spectrum.values.len()])
            .assign(&spectrum.vectors);
        vectors
            .rows_mut()
            .into_iter()
            .zip(&damping)
            .for_each(|(mut row, damping)| row *= *damping);
        let exponent = parameters.damping_exponent + parameters.popularity_exponent;
        let weight = |(count, length): (&f64, &f64)| {
            math::pow(*count, exponent) / (1.0 - length).max(LEAST_REST)
        };
        let weights: Vec<f32> = self
            .counts
            .iter()
            .zip(&lengths)
            .map(|counted| weight(counted) as f32)
            .collect();
        let layout = parameters.layout(self.shared.items);
        let column = layout.blocks()[ITEM_WEIGHTS].shape;
        let filter: Vec<f32> = filter.iter().map(|value| *value as f32).collect();
        let mut tables = vec![
            Table::from_array(vectors.mapv(|value| value as f32)),
            Table::new(layout.blocks()[super::FILTER].shape, filter),
            Table::new(column, weights),
        ];
        if parameters.popularity_weight > 0.0 {
            // Noise on the counts can make one negative.
            let share = |count: &f64| (count.max(0.0) / uploads.max(1.0)) as f32;
            tables.push(Table::new(column, senders.iter().map(share).collect()));
        }
        self.model = Model::of_tables(layout, tables)?;
        Ok(())
    }
}

impl Server for SpectralServer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.replace(model)
    }

    fn upload_use(&self) -> UploadUse {
        match self.shared.parameters.sends_counts {
            true => UploadUse::Sum,
            false => UploadUse::Each,
        }
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        let known = Arc::new(self.pending.users.clone());
        Box::new(Gathered {
            known,
            sums: Sums::default(),
            magnitudes: MagnitudeCounts::default(),
        })
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let Gathered {
            mut sums,
            magnitudes: uploads,
            ..
        } = *downcast::<Gathered>(sums)?;
        sums.uploads = step.contributions(sums.uploads);
        self.pending.add(sums);
        let needed = self.shared.parameters.coverage * f64::from(step.users);
        let mut multiply_adds = 0;
        if self.pending.uploads >= needed.max(1.0) {
            self.advance(step)?;
            let (m, r) = (
                self.shared.items as u64,
                self.shared.parameters.table(self.shared.items).dimension as u64,
            );
            multiply_adds = 8 * m * r * r + 80 * r * r * r;
        }
        Ok(StepReport {
            uploads,
            multiply_adds,
            ..StepReport::default()
        })
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(&mut self.counts)?;
        state.plain(&mut self.pending.listed.rows)?;
        state.plain(&mut self.pending.listed.senders)?;
        state.plain(&mut self.pending.uploads)?;
        state.plain(&mut self.pending.weight)?;
        state.plain(&mut self.pending.users)?;
        state.plain(&mut self.pending.received)
    }
}

impl Sums {
    /// Adds what other users have sent.
    fn add(&mut self, other: Self) {
        if self.uploads == 0.0 {
            *self = other;
            return;
        }
        self.listed.merge(other.listed);
        self.uploads += other.uploads;
        self.weight += other.weight;
        self.users.extend(other.users);
    }
}

/// Holds the uploads of a step: all where devices send counts, and otherwise those of users who
/// have sent nothing since the last step of A.
struct Gathered {
    known: Arc<BTreeSet<UserId>>,
    sums: Sums,
    magnitudes: MagnitudeCounts,
}

impl Accumulator for Gathered {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let [sums, rest @ ..] = &contribution.update.blocks[..] else {
                return Err(Error::Update(
                    "a contribution to FedSpec has a block or more".to_owned(),
                ));
            };
            let told = Told::of(rest)?;
            let user = contribution.user;
            if told.is_none() && (self.known.contains(&user) || !self.sums.users.insert(user)) {
                continue;
            }
            if self.sums.received.is_empty() {
                self.sums.received = contribution.received.table(TABLE).as_slice().to_vec();
            }
            let magnitudes = self.sums.listed.absorb(sums, told, 1.0)?;
            self.sums.uploads += 1.0;
            self.sums.weight += told.map_or(1.0, |told| told.participants);
            self.magnitudes.add_times(&magnitudes, 1);
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let Self {
            sums, magnitudes, ..
        } = *downcast::<Self>(other)?;
        self.sums.add(sums);
        self.magnitudes.add_times(&magnitudes, 1);
        Ok(())
    }
}
