//! Implements FedSpec's server, which adds sums of rows up until enough users have sent theirs, and
//! then makes a step.

use ndarray::{Array1, Array2, Axis, s};

use super::{FedSpec, numerics};
use crate::network;
use crate::prelude::*;
use crate::row_counts::noise_on;
use crate::sums::{StepBySums, UploadSums};
use fedrecsim_model::algebra::nystroem;

/// The least 1 - |Z_i|^2 that divides a score.
const LEAST_REST: f64 = 1e-3;

/// The server's state besides the model.
pub(super) struct Spectral {
    parameters: FedSpec,
    /// The number n_i of users with item i among their positives, at least 1 and at least as large
    /// as noise, as the uploads of the first step give it; nothing before that. What later uploads
    /// count is not used.
    counts: Vec<f64>,
    /// What has been sent since the last step of A.
    pending: UploadSums,
}

impl Spectral {
    pub(super) fn new(parameters: &FedSpec, averager: &Averager) -> Self {
        Self {
            parameters: parameters.clone(),
            counts: Vec::new(),
            pending: UploadSums::of(averager.upload_layout()),
        }
    }

    /// Returns n^(-d) of every item, as a column.
    fn damping(&self) -> Array2<f64> {
        let damping = |count: &f64| match self.parameters.damping_exponent {
            // Roots are faster than a power, but differ from it in the last bits, and results
            // depend on these.
            0.25 => 1.0 / math::sqrt(math::sqrt(*count)),
            exponent => math::pow(*count, -exponent),
        };
        let damping: Array1<f64> = self.counts.iter().map(damping).collect();
        damping.insert_axis(Axis(1))
    }

    /// Replaces the model by that of the eigenvectors which the pending sums give.
    fn advance(&mut self, model: &mut Model, step: &StepContext<'_>) -> Result<()> {
        let pending = &self.pending;
        // A codec may have left everything out. Nothing was learned then.
        if pending.blocks[0].iter().all(|value| *value == 0.0) {
            return Ok(());
        }
        // Where uploads are clipped, a user counts for less than 1. Noise can hide for how much.
        let of_one_user = match pending.participants > 0.0 && pending.uploads > 0.0 {
            true => pending.participants / pending.uploads,
            false => 1.0,
        };
        let senders = pending.senders.iter().map(|count| count / of_one_user);
        let senders: Vec<f64> = senders.collect();
        if self.counts.is_empty() {
            // Counts below the noise say little, and a small one would make the noise in its row
            // large.
            let floor = noise_on(&senders).max(1.0);
            self.counts = senders.iter().map(|count| count.max(floor)).collect();
        }
        let (parameters, damping) = (&self.parameters, self.damping());
        let images = &pending.matrix() * &damping;
        // Somebody has received A, and sent what is not all zeros.
        let received = Table::new(model.table(0).shape(), pending.received.clone());
        let start = received.view().mapv(f64::from) / &damping;
        let spectrum = nystroem(&images.view(), &start.view());
        let failed = |cause| step.unsolvable("the sum of the uploads", cause);
        let Some(spectrum) = spectrum.map_err(failed)? else {
            return Ok(());
        };
        let (mut filter, lengths) = numerics::filtered(&spectrum, parameters.ridge);
        // Columns that noise has left nothing of are zero.
        filter.resize(start.ncols(), 0.0);
        let mut vectors = Array2::zeros(start.raw_dim());
        let found = s![.., ..spectrum.values.len()];
        vectors.slice_mut(found).assign(&spectrum.vectors);
        vectors *= &damping;
        let exponent = parameters.damping_exponent + parameters.popularity_exponent;
        let weights =
            self.counts.iter().zip(&lengths).map(|(count, length)| {
                math::pow(*count, exponent) / (1.0 - length).max(LEAST_REST)
            });
        // Noise on the counts can make one negative.
        let uploads = pending.uploads.max(1.0);
        let shares = senders.iter().map(|count| count.max(0.0) / uploads);
        let values = vectors
            .into_iter()
            .chain(filter)
            .chain(weights)
            .chain(shares);
        let values: Vec<f32> = values.map(|value| value as f32).collect();
        // The shares come last, and are not in every model.
        network::set(model, 0, &values);
        Ok(())
    }
}

impl StepBySums for Spectral {
    fn sums(&self, upload: &Layout) -> UploadSums {
        UploadSums::of(upload).one_for_each_user(&self.pending.users)
    }

    fn step(&mut self, model: &mut Model, sums: UploadSums, step: &StepContext<'_>) -> Result<u64> {
        let uploads = self.pending.uploads + step.expected_contributions.unwrap_or(sums.uploads);
        self.pending.add(sums);
        self.pending.uploads = uploads;
        let needed = self.parameters.coverage * f64::from(step.users);
        if self.pending.uploads < needed.max(1.0) {
            return Ok(0);
        }
        self.advance(model, step)?;
        self.pending = UploadSums::of(&self.pending.layout);
        let TableShape { rows, dimension } = model.table(0).shape();
        let (m, r) = (rows as u64, dimension as u64);
        Ok(8 * m * r * r + 80 * r * r * r)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(&mut self.counts)?;
        self.pending.visit_state(state)
    }

    fn begin_anew(&mut self) {
        self.pending = UploadSums::of(&self.pending.layout);
    }
}
