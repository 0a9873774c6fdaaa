//! Implements FedSpec's server, which adds sums of rows up until enough users have sent theirs, and
//! then makes a step.

use std::collections::BTreeSet;
use std::sync::Arc;

use ndarray::{Array2, s};

use super::{FedSpec, numerics};
use crate::method::listed_sums::{ListedSums, Told};
use crate::method::prelude::*;
use crate::method::row_counts::noise_on;
use crate::method::server::downcast;
use fedrecsim_model::model::algebra::AlgebraError;
use fedrecsim_model::model::algebra::nystroem::nystroem;
use fedrecsim_model::model::magnitude::MagnitudeCounts;

/// The least 1 - |Z_i|^2 by which a score is divided.
const LEAST_REST: f64 = 1e-3;

/// Implements the server.
pub(super) struct SpectralServer {
    parameters: FedSpec,
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
    pub(super) fn new(parameters: &FedSpec, model: Model) -> Self {
        Self {
            parameters: parameters.clone(),
            model,
            counts: Vec::new(),
            pending: Sums::default(),
        }
    }

    /// Returns n^(-d) of every item.
    fn damping(&self) -> Vec<f64> {
        let damping = |count: &f64| match self.parameters.damping_exponent {
            // Roots are faster than a power, and differ from it in the last bits, on which results
            // depend.
            0.25 => 1.0 / math::sqrt(math::sqrt(*count)),
            exponent => math::pow(*count, -exponent),
        };
        self.counts.iter().map(damping).collect()
    }

    /// Replaces the model by that of the eigenvectors which the pending sums give.
    fn advance(&mut self, step: &StepContext<'_>) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let (uploads, weight) = (pending.uploads, pending.weight);
        // A codec may have left everything out. Nothing was learned then.
        if pending.listed.rows.iter().all(|value| *value == 0.0) {
            return Ok(());
        }
        // Where uploads are clipped, a user counts for less than 1. Noise can hide for how much.
        let of_one_user = match weight > 0.0 && uploads > 0.0 {
            true => weight / uploads,
            false => 1.0,
        };
        let senders = pending.listed.senders.iter();
        let senders: Vec<f64> = senders.map(|count| count / of_one_user).collect();
        if self.counts.is_empty() {
            // Counts below the noise say little, and a small one would make the noise in its row
            // large.
            let floor = noise_on(&senders).max(1.0);
            self.counts = senders.iter().map(|count| count.max(floor)).collect();
        }
        let (parameters, damping) = (&self.parameters, self.damping());
        let TableShape { rows, dimension } = self.model.table(0).shape();
        let misfit = |_| Error::Update("the sums of FedSpec have another shape than A".to_owned());
        let matrix = |values| Array2::from_shape_vec((rows, dimension), values).map_err(misfit);
        let mut images = matrix(pending.listed.rows)?;
        let mut start = matrix(
            pending
                .received
                .iter()
                .map(|value| f64::from(*value))
                .collect(),
        )?;
        for (row, damping) in damping.iter().enumerate() {
            images.row_mut(row).mapv_inplace(|value| value * damping);
            start.row_mut(row).mapv_inplace(|value| value / damping);
        }
        let spectrum = nystroem(&images.view(), &start.view()).map_err(|cause| match cause {
            AlgebraError::NotFinite { .. } => step.diverged("the sum of the uploads", f32::NAN),
            other => Error::Update(other.to_string()),
        })?;
        let Some(spectrum) = spectrum else {
            return Ok(());
        };
        let (mut filter, lengths) = numerics::filtered(&spectrum, parameters.ridge);
        // Columns that noise has left nothing of are zero.
        filter.resize(dimension, 0.0);
        let mut vectors = Array2::zeros((rows, dimension));
        let found = s![.., ..spectrum.values.len()];
        vectors.slice_mut(found).assign(&spectrum.vectors);
        for (mut row, damping) in vectors.rows_mut().into_iter().zip(&damping) {
            row *= *damping;
        }
        let exponent = parameters.damping_exponent + parameters.popularity_exponent;
        let weight = |(count, length): (&f64, &f64)| {
            (math::pow(*count, exponent) / (1.0 - length).max(LEAST_REST)) as f32
        };
        let weights = self.counts.iter().zip(&lengths).map(weight).collect();
        // Noise on the counts can make one negative.
        let share = |count: &f64| (count.max(0.0) / uploads.max(1.0)) as f32;
        let values = [
            vectors.iter().map(|value| *value as f32).collect(),
            filter.iter().map(|value| *value as f32).collect(),
            weights,
            senders.iter().map(share).collect(),
        ];
        for (block, values) in (0..self.model.blocks().len()).zip(values) {
            let table = Table::new(self.model.table(block).shape(), values);
            self.model.set_table(block, Arc::new(table))?;
        }
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
        self.parameters.upload_use(UploadUse::Each)
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Gathered {
            known: Arc::new(self.pending.users.clone()),
            sums: Sums::default(),
            magnitudes: MagnitudeCounts::default(),
        })
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let mut gathered = *downcast::<Gathered>(sums)?;
        gathered.sums.uploads = step.contributions(gathered.sums.uploads);
        self.pending.add(gathered.sums);
        let needed = self.parameters.coverage * f64::from(step.users);
        let mut report = StepReport {
            uploads: gathered.magnitudes,
            ..StepReport::default()
        };
        if self.pending.uploads >= needed.max(1.0) {
            self.advance(step)?;
            let TableShape { rows, dimension } = self.model.table(0).shape();
            let (m, r) = (rows as u64, dimension as u64);
            report.multiply_adds = 8 * m * r * r + 80 * r * r * r;
        }
        Ok(report)
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
            let ([rows], told) = Told::beside(contribution.update)?;
            let user = contribution.user;
            if told.is_none() && (self.known.contains(&user) || !self.sums.users.insert(user)) {
                continue;
            }
            if self.sums.received.is_empty() {
                self.sums.received = contribution.received.table(0).as_slice().to_vec();
            }
            let magnitudes = self.sums.listed.absorb(rows, told, 1.0)?;
            self.sums.uploads += 1.0;
            self.sums.weight += told.map_or(1.0, |told| told.participants);
            self.magnitudes.add_times(&magnitudes, 1);
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        self.sums.add(other.sums);
        self.magnitudes.add_times(&other.magnitudes, 1);
        Ok(())
    }
}
