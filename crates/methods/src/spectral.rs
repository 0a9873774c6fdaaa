//! Adds sums of rows up until enough users have sent theirs, and then makes a step towards the
//! leading eigenvectors of a matrix that no device has seen whole.
//!
//! With D = diag(n^(-d)) and a device's own matrix K_u between its positives, that matrix is M = sum
//! over u of D x_u K_u x_u^T D. Devices get the rows of A = D U and send, for each of their positives
//! p, the sum of K_pq A_q. The server damps the sums, which are those of M U then, and makes a
//! Nystroem step of them.

use ndarray::{Array1, Array2, Axis, s};

use super::declare::orthonormal;
use super::network;
use super::prelude::*;
use super::row_counts::noise_on;
use super::sums::{StepBySums, SumServer, UploadSums};
use fedrecsim_model::algebra::{Spectrum, nystroem};

/// A method whose server finds eigenvectors.
pub(crate) trait BySpectrum: Clone + Send + Sync + 'static {
    /// Returns the share of the users who must have sent an upload before the server steps.
    fn coverage(&self) -> f64;

    /// Returns D of an item with this many users.
    fn damping(&self, count: f64) -> f64;

    /// Returns the values of the blocks of the model that follow A, one behind the other. More than
    /// the model has are left out.
    fn told(&self, found: &Found<'_>) -> Vec<f64>;
}

/// Why the controls of aggregation have no meaning for such a method.
pub(crate) const WITHOUT_CONTROLS: Option<&str> =
    Some("devices send sums, of which only a server with those of many users makes a table");

/// Returns the blocks of a method with this many eigenvectors, at most one for each item. Beside A
/// devices download a value for each eigenvector and one for each item, which are 1 before the first
/// step. They upload `sums`.
pub(crate) fn blocks(
    items: usize,
    latent_dimension: u32,
    [of_vectors, of_items]: [&'static str; 2],
    sums: &'static str,
) -> Vec<Block> {
    let rank = items.min(latent_dimension as usize);
    let table = |name| item_table(name, items, rank as u32);
    let ones = |name, rows, columns| weights(name, rows, columns).start(constant(1.0));
    let told = [
        table("A").start(orthonormal()),
        ones(of_vectors, 1, rank),
        ones(of_items, items, 1),
    ];
    let told = told.into_iter().map(Block::download_only);
    told.chain([table(sums).upload_only()]).collect()
}

/// Returns the weighted sum of rows of a table.
pub(crate) fn sum_of_rows(table: &Table, weighted: impl Iterator<Item = (u32, f64)>) -> Vec<f64> {
    let mut sums = vec![0.0; table.shape().dimension];
    for (item, weight) in weighted {
        for (sum, value) in sums.iter_mut().zip(table.row(item as usize)) {
            *sum += weight * f64::from(*value);
        }
    }
    sums
}

/// What a step has found.
pub(crate) struct Found<'a> {
    /// Eigenvectors and eigenvalues. Under noise there may be fewer than the model has columns.
    pub spectrum: &'a Spectrum,
    /// The number of columns of the model.
    pub columns: usize,
    /// The number n_i of users with item i among their positives, at least 1.
    pub counts: &'a [f64],
    /// The share of the users with item i among their positives.
    pub shares: &'a [f64],
}

/// Makes the server of a method.
pub(crate) fn server<M: BySpectrum>(method: &M, averager: &Averager) -> Box<dyn Server> {
    let upload = averager.upload_layout();
    let spectral = Spectral {
        method: method.clone(),
        counts: Vec::new(),
        pending: UploadSums::of(upload),
    };
    SumServer::boxed(averager, spectral)
}

/// The server's state besides the model.
struct Spectral<M> {
    method: M,
    /// The number n_i of users with item i among their positives, at least 1 and at least as large
    /// as noise, as the uploads of the first step give it; nothing before that. What later uploads
    /// count is not used.
    counts: Vec<f64>,
    /// What has been sent since the last step of A.
    pending: UploadSums,
}

impl<M: BySpectrum> Spectral<M> {
    /// Returns D as a column.
    fn damping(&self) -> Array2<f64> {
        let counts = self.counts.iter();
        let damping: Array1<f64> = counts.map(|count| self.method.damping(*count)).collect();
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
        let damping = self.damping();
        let images = &pending.matrix() * &damping;
        // Somebody has received A, and sent what is not all zeros.
        let received = Table::new(model.table(0).shape(), pending.received.clone());
        let start = received.view().mapv(f64::from) / &damping;
        let spectrum = nystroem(&images.view(), &start.view());
        let failed = |cause| step.unsolvable("the sum of the uploads", cause);
        let Some(spectrum) = spectrum.map_err(failed)? else {
            return Ok(());
        };
        // Columns that noise has left nothing of are zero.
        let mut vectors = Array2::zeros(start.raw_dim());
        let found = s![.., ..spectrum.values.len()];
        vectors.slice_mut(found).assign(&spectrum.vectors);
        vectors *= &damping;
        // Noise on the counts can make one negative.
        let uploads = pending.uploads.max(1.0);
        let shares = senders.iter().map(|count| count.max(0.0) / uploads);
        let told = self.method.told(&Found {
            spectrum: &spectrum,
            columns: start.ncols(),
            counts: &self.counts,
            shares: &Vec::from_iter(shares),
        });
        let values = vectors.into_iter().chain(told);
        let values: Vec<f32> = values.map(|value| value as f32).collect();
        network::set(model, 0, &values);
        Ok(())
    }
}

impl<M: BySpectrum> StepBySums for Spectral<M> {
    fn sums(&self, upload: &Layout) -> UploadSums {
        UploadSums::of(upload).one_for_each_user(&self.pending.users)
    }

    fn step(&mut self, model: &mut Model, sums: UploadSums, step: &StepContext<'_>) -> Result<u64> {
        let uploads = self.pending.uploads + step.expected_contributions.unwrap_or(sums.uploads);
        self.pending.add(sums);
        self.pending.uploads = uploads;
        let needed = self.method.coverage() * f64::from(step.users);
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
