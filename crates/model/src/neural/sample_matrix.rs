//! Stores the activations of a batch of samples in a layout for vector instructions.

use crate::kernel::Block;
use crate::kernel::lane_math::LANES;

/// Holds a matrix with a row for each sample and a column for each feature.
///
/// Samples are stored in groups of sixteen. Within a group the features follow one another, and
/// each of them is one [`Block`] that holds the sixteen samples side by side, so that a layer is
/// computed for sixteen samples at a time. The last group is padded with zero samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleMatrix {
    /// The number of samples, without padding.
    pub(crate) samples: usize,
    /// The number of features.
    pub(crate) features: usize,
    /// All blocks, group by group, padding samples included. A padding sample that is not zero
    /// takes part in sums over the samples.
    pub(crate) blocks: Vec<Block>,
}

impl SampleMatrix {
    /// Gives the matrix this shape and fills it with zeros. Its memory is reused.
    pub fn reset(&mut self, samples: usize, features: usize) {
        self.reset_for_overwriting(samples, features);
        self.blocks.fill(Block::ZERO);
    }

    /// Gives the matrix this shape for a caller that will set every block. The contents of the
    /// blocks are unspecified.
    pub(super) fn reset_for_overwriting(&mut self, samples: usize, features: usize) {
        (self.samples, self.features) = (samples, features);
        self.blocks
            .resize(samples.div_ceil(LANES) * features, Block::ZERO);
    }

    /// Replaces the samples by these rows of `table`, which is row-major with `dimension` columns.
    pub fn gather(&mut self, rows: &[u32], table: &[f32], dimension: usize) {
        self.reset(rows.len(), dimension);
        for (sample, &row) in rows.iter().enumerate() {
            self.set_sample(sample, &table[row as usize * dimension..][..dimension]);
        }
    }

    /// Writes the samples to these rows of `table`, which is row-major. Other rows stay as they are.
    pub fn scatter(&self, rows: &[u32], table: &mut [f32]) {
        for (sample, &row) in rows.iter().enumerate() {
            let start = row as usize * self.features;
            self.read_sample(sample, &mut table[start..start + self.features]);
        }
    }

    /// Sets all features of `sample`.
    #[inline]
    pub fn set_sample(&mut self, sample: usize, values: &[f32]) {
        let start = sample / LANES * self.features;
        for (block, value) in self.blocks[start..start + self.features]
            .iter_mut()
            .zip(values)
        {
            block.0[sample % LANES] = *value;
        }
    }

    /// Reads all features of `sample` into `values`.
    #[inline]
    pub fn read_sample(&self, sample: usize, values: &mut [f32]) {
        let count = values.len().min(self.features);
        self.read_features(sample, 0, &mut values[..count]);
    }

    /// Reads as many features of `sample` as `values` has, from the feature `first` on.
    #[inline]
    pub fn read_features(&self, sample: usize, first: usize, values: &mut [f32]) {
        let start = sample / LANES * self.features + first;
        let blocks = &self.blocks[start..start + values.len()];
        for (value, block) in values.iter_mut().zip(blocks) {
            *value = block.0[sample % LANES];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a layer confuses the features of different samples, or reads values of an
    /// earlier batch.
    #[test]
    fn samples_come_back_as_they_were_set_and_the_padding_is_zero() {
        let mut matrix = SampleMatrix::default();
        for (samples, features) in [(40, 3), (17, 5), (16, 2)] {
            matrix.reset(samples, features);
            let values = |sample: usize| {
                Vec::from_iter((0..features).map(|f| (sample * 10 + f) as f32 + 1.0))
            };
            (0..samples).for_each(|sample| matrix.set_sample(sample, &values(sample)));
            for sample in 0..samples {
                let mut read = vec![0.0; features];
                matrix.read_sample(sample, &mut read);
                assert_eq!(read, values(sample));
                matrix.read_features(sample, 1, &mut read[1..]);
                assert_eq!(read, values(sample));
            }
            let sum: f32 = matrix.blocks.iter().flat_map(|block| block.0).sum();
            assert_eq!(
                sum,
                (0..samples).flat_map(values).sum::<f32>(),
                "{samples} x {features}"
            );
        }
    }
}
