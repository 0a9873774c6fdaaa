//! Adds noise, by every device to its own update or by the server to the sum of all.

use super::{Mechanism, Protection, change};
use fedrecsim_core::{Result, Stream, Streams};
use fedrecsim_model::noise::{Law, Noise};
use fedrecsim_model::noisy_sum::NoisySum;
use fedrecsim_model::table::{extend_bytes, floats};
use fedrecsim_model::{BlockKind, BlockLayout, Layout, Model, ModelUpdate, TableUpdate, ValueType};
use fedrecsim_scenario::{CodecSpec, GaussianSpec, LaplaceSpec};

/// Adds noise to every value of an upload. Where the codec sends a table whole or chooses what it
/// sends by its values, the rows that training did not touch have noise too; where it lists the
/// rows that training touched, these alone have.
#[derive(Clone, Debug)]
pub(crate) struct DeviceNoise {
    law: Law,
    /// The length that a contribution is clipped to before, if it is.
    clip: Option<f64>,
    codec: CodecSpec,
}

impl DeviceNoise {
    /// Makes noise of the Laplace distribution, on uploads of this codec.
    pub(crate) fn laplace(spec: LaplaceSpec, codec: &CodecSpec) -> Self {
        Self {
            law: Law::Laplace { scale: spec.scale },
            clip: None,
            codec: codec.clone(),
        }
    }

    /// Makes Gaussian noise on contributions that are clipped before, on uploads of this codec.
    pub(crate) fn gaussian(spec: GaussianSpec, codec: &CodecSpec) -> Self {
        let law = Law::Gaussian {
            deviation: spec.noise_multiplier * spec.clip,
        };
        Self {
            law,
            clip: Some(spec.clip),
            codec: codec.clone(),
        }
    }

    fn has_noise_on_every_row(&self, block: &BlockLayout) -> bool {
        block.kind == BlockKind::Weights || !self.codec.lists_touched_rows_of(&block.name)
    }
}

impl Mechanism for DeviceNoise {
    fn protect(&self, update: &mut ModelUpdate, protection: &Protection<'_>) -> Result<()> {
        let Protection {
            layout,
            base,
            randomness,
            ..
        } = *protection;
        // Listing a row rounds its values, so what is clipped has all rows that will leave.
        list_rows(update, layout, base, |block| {
            self.has_noise_on_every_row(block)
        })?;
        if let Some(clip) = self.clip {
            change::clip(update, layout, base, clip)?;
        }
        let name = match self.law {
            Law::Laplace { .. } => "privacy/laplace",
            Law::Gaussian { .. } => "privacy/gaussian",
        };
        add(update, &mut Noise::new(self.law, randomness.stream(name)));
        Ok(())
    }
}

/// Clips what users contribute to a sum, and adds Gaussian noise to the sum, for a server that is
/// trusted or a secure sum in its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumNoise {
    clip: f64,
    deviation: f64,
    /// The number of contributions that a step divides by where users are drawn one by one: the
    /// expected number, since the real one tells whether a user took part.
    divisor: Option<f64>,
}

impl SumNoise {
    /// Makes the noise of `spec`. `divisor` is the number of contributions that steps divide by, if
    /// it is not the real one.
    pub fn new(spec: GaussianSpec, divisor: Option<f64>) -> Self {
        Self {
            clip: spec.clip,
            deviation: spec.noise_multiplier * spec.clip,
            divisor,
        }
    }

    /// Returns the number of contributions that steps divide by; `None` if it is the real one.
    pub(crate) fn divisor(&self) -> Option<f64> {
        self.divisor
    }

    /// Clips what an update contributes, as it was decoded.
    ///
    /// # Errors
    /// As [`change::clip`].
    pub fn clip(&self, update: &mut ModelUpdate, layout: &Layout, base: &Model) -> Result<()> {
        change::clip(update, layout, base, self.clip)
    }

    /// Returns the update with the noise of step number `step`, which is then in the sum of all
    /// updates once.
    ///
    /// # Errors
    /// As [`change::list_every_row`].
    pub(crate) fn added_to(
        &self,
        update: &ModelUpdate,
        (layout, base): (&Layout, &Model),
        (streams, step): (Streams, u32),
    ) -> Result<ModelUpdate> {
        let mut noisy = update.clone();
        let mut noise = Noise::new(
            Law::Gaussian {
                deviation: self.deviation,
            },
            stream_of_sums(streams, step),
        );
        list_rows(&mut noisy, layout, base, |_| true)?;
        add(&mut noisy, &mut noise);
        Ok(noisy)
    }

    /// Returns the bound and the noise of step number `step` for a server that adds up what it
    /// works out from each update, and not the updates themselves.
    pub(crate) fn of_own_sum(&self, streams: Streams, step: u32) -> NoisySum {
        NoisySum::new(self.clip, self.deviation, stream_of_sums(streams, step))
    }

    /// Returns an update that contributes nothing, so that noise can be added where nobody has sent
    /// one.
    pub(crate) fn nothing(layout: &Layout) -> ModelUpdate {
        let block = |block: &BlockLayout| TableUpdate::nothing(block.shape, block.value_type);
        ModelUpdate::of_blocks(layout.blocks().iter().map(block).collect())
    }
}

/// Returns the randomness of the noise on the sum of step number `step`.
fn stream_of_sums(streams: Streams, step: u32) -> Stream {
    streams.named("privacy/gaussian-of-sums", u64::MAX, u64::from(step))
}

/// Has the blocks of single precision that `on_every_row` names list every row.
fn list_rows(
    update: &mut ModelUpdate,
    layout: &Layout,
    base: &Model,
    on_every_row: impl Fn(&BlockLayout) -> bool,
) -> Result<()> {
    for (block, described) in update.blocks.iter_mut().zip(layout.blocks()) {
        if block.value_type == ValueType::F32 && on_every_row(described) {
            change::list_every_row(block, base.base_of(described))?;
        }
    }
    Ok(())
}

/// Adds a draw to every value of single precision that is listed, block by block and row by row.
fn add(update: &mut ModelUpdate, noise: &mut Noise) {
    let blocks = update.blocks.iter_mut();
    for block in blocks.filter(|block| block.value_type == ValueType::F32) {
        let mut values: Vec<f32> = floats(&block.values).collect();
        noise.add_to(&mut values);
        let mut bytes = Vec::with_capacity(block.values.len());
        extend_bytes(&mut bytes, &values);
        block.values = bytes.into();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_model::codec::{FrameKind, Randomness};
    use fedrecsim_model::{RowSet, Table, TableShape};
    use fedrecsim_scenario::{Adjacency, CodecChoice, CodecName, Trust};

    const SHAPE: TableShape = TableShape {
        rows: 500,
        dimension: 40,
    };

    fn setting() -> (Model, Layout, ModelUpdate) {
        let model = Model::of_table("V", Table::from_fn(SHAPE, || 0.5));
        let update = TableUpdate::listed(SHAPE, vec![3, 7], &[0.5; 80], 1.0).unwrap();
        let layout = model.layout().clone();
        (model, layout, ModelUpdate::of_table(update))
    }

    fn codec(name: CodecName) -> CodecSpec {
        CodecSpec {
            uplink: CodecChoice::Named(name),
            ..CodecSpec::default()
        }
    }

    fn protected(noise: &DeviceNoise, invitation_id: u32) -> TableUpdate {
        let (model, layout, mut update) = setting();
        let randomness =
            Randomness::new(Streams::new(1), FrameKind::Upload, Some(5), invitation_id);
        let protection = Protection {
            layout: &layout,
            base: &model,
            rated: &[],
            randomness,
        };
        noise.protect(&mut update, &protection).unwrap();
        update.check(&layout).unwrap();
        update.blocks.remove(0)
    }

    /// Returns the mean, the mean magnitude and the root of the mean square of what was added to
    /// 0.5.
    fn moments(update: &TableUpdate) -> [f64; 3] {
        let added: Vec<f64> = floats(&update.values)
            .map(|value| f64::from(value) - 0.5)
            .collect();
        let mean = |of: &dyn Fn(f64) -> f64| {
            added.iter().map(|value| of(*value)).sum::<f64>() / added.len() as f64
        };
        [
            mean(&|value| value),
            mean(&f64::abs),
            mean(&|value| value * value).sqrt(),
        ]
    }

    const GAUSSIAN: GaussianSpec = GaussianSpec {
        clip: 0.1,
        noise_multiplier: 2.0,
        trust: Trust::Local,
        adjacency: Adjacency::AddOrRemove,
        delta: 1e-5,
    };

    /// If this fails, noise has another scale than the scenario states, or is missing where a whole
    /// table is sent.
    #[test]
    fn every_value_of_a_whole_table_has_noise_of_the_stated_scale() {
        let laplace = protected(
            &DeviceNoise::laplace(LaplaceSpec { scale: 0.2 }, &codec(CodecName::DenseF32)),
            0,
        );
        assert_eq!(laplace.rows, RowSet::All);
        // There are 20,000 draws, so that these bounds are five deviations away.
        let [mean, magnitude, root] = moments(&laplace);
        assert!(
            mean.abs() < 0.01 && (magnitude - 0.2).abs() < 0.0075 && (root - 0.2828).abs() < 0.012,
            "{root}"
        );
        let gaussian = protected(
            &DeviceNoise::gaussian(GAUSSIAN, &codec(CodecName::SparseF32)),
            0,
        );
        let [mean, magnitude, root] = moments(&gaussian);
        assert!(
            mean.abs() < 0.0075 && (root - 0.2).abs() < 0.0055,
            "{mean} {root}"
        );
        assert!(
            (magnitude / root - (2.0 / std::f64::consts::PI).sqrt()).abs() < 0.02,
            "{magnitude} is not Gaussian"
        );
    }

    /// If this fails, what leaves a device is longer than the noise is made for: rows that training
    /// has only scaled are rounded when the frame lists them.
    #[test]
    fn a_frame_of_all_rows_is_no_longer_than_the_clip() {
        let mut value = 0.3;
        let next = || {
            value += 1e-4;
            value
        };
        let model = Model::of_table("V", Table::from_fn(SHAPE, next));
        let layout = model.layout().clone();
        for (exponent, codec_name) in [(-3, CodecName::DenseF32), (-7, CodecName::SparseF32)] {
            for clip in [1.0, 2.2, 3.7, 6.1].map(|digits| digits * 10f64.powi(exponent)) {
                let spec = GaussianSpec {
                    clip,
                    noise_multiplier: 0.0,
                    ..GAUSSIAN
                };
                let touched = model.table(0).row(3).iter().map(|value| value + 0.1);
                let touched: Vec<f32> = touched.collect();
                let update = TableUpdate::listed(SHAPE, vec![3], &touched, 0.999);
                let mut update = ModelUpdate::of_table(update.unwrap());
                let protection = Protection {
                    layout: &layout,
                    base: &model,
                    rated: &[],
                    randomness: Randomness::new(Streams::new(1), FrameKind::Upload, Some(5), 0),
                };
                let noise = DeviceNoise::gaussian(spec, &codec(codec_name));
                noise.protect(&mut update, &protection).unwrap();
                assert_eq!(update.blocks[0].rows, RowSet::All);
                let length = change::length(&update, &layout, &model);
                assert!(length <= clip * (1.0 + 1e-12), "{length} is above {clip}");
            }
        }
    }

    /// If this fails, a frame of touched rows becomes one of all rows, which no codec was asked
    /// for.
    #[test]
    fn where_touched_rows_are_listed_these_alone_have_noise() {
        let noise = DeviceNoise::laplace(LaplaceSpec { scale: 0.2 }, &codec(CodecName::RowsF32));
        let update = protected(&noise, 0);
        assert_eq!(update.rows, RowSet::Listed(vec![3, 7]));
        assert!(floats(&update.values).all(|value| value != 0.5));
    }

    /// If this fails, two uploads have the same noise, so that their difference has none, or one
    /// upload has another noise when it is worked out again.
    #[test]
    fn every_upload_has_noise_of_its_own() {
        let noise = DeviceNoise::gaussian(GAUSSIAN, &codec(CodecName::DenseF32));
        assert_eq!(protected(&noise, 4), protected(&noise, 4));
        let pairs = |one: &TableUpdate, other: &TableUpdate| {
            floats(&one.values)
                .zip(floats(&other.values))
                .filter(|(one, other)| one == other)
                .count()
        };
        assert!(pairs(&protected(&noise, 4), &protected(&noise, 5)) < 5);
    }

    /// If this fails, a step without anybody has no noise, or its noise is that of another step.
    #[test]
    fn the_noise_of_a_sum_is_that_of_its_step() {
        let (model, layout, _) = setting();
        let noise = SumNoise::new(
            GaussianSpec {
                trust: Trust::Central,
                ..GAUSSIAN
            },
            None,
        );
        let of_step = |step| {
            let nothing = SumNoise::nothing(&layout);
            noise
                .added_to(&nothing, (&layout, &model), (Streams::new(1), step))
                .unwrap()
                .blocks
                .remove(0)
        };
        let [mean, _, root] = moments(&of_step(3));
        assert!(
            mean.abs() < 0.0075 && (root - 0.2).abs() < 0.0055,
            "{mean} {root}"
        );
        assert_eq!(of_step(3), of_step(3));
        assert_ne!(of_step(3), of_step(4));
    }

    /// If this fails, a server that makes a sum by itself clips to another length than devices do,
    /// or adds other noise.
    #[test]
    fn a_sum_of_a_servers_own_has_the_same_bound_and_noise() {
        let noise = |clip, noise_multiplier| {
            let spec = GaussianSpec {
                clip,
                noise_multiplier,
                trust: Trust::Central,
                ..GAUSSIAN
            };
            SumNoise::new(spec, None)
        };
        let mut bounded = [0.0; 2];
        noise(0.5, 0.0)
            .of_own_sum(Streams::new(1), 3)
            .add(&[3.0, 4.0], &mut bounded)
            .unwrap();
        // The nearest numbers of single precision would be a little too long.
        let length = bounded.map(f64::from).map(|value| value * value);
        assert!(length.iter().sum::<f64>() <= 0.25);
        assert!((bounded[0] - 0.3).abs() < 1e-7 && (bounded[1] - 0.4).abs() < 1e-7);
        let (model, layout, _) = setting();
        let mut own = vec![0.0; SHAPE.values()];
        noise(0.5, 6.0)
            .of_own_sum(Streams::new(1), 3)
            .add_noise(&mut own);
        let at = ((&layout, &model), (Streams::new(1), 3));
        let of_uploads = noise(0.5, 6.0)
            .added_to(&SumNoise::nothing(&layout), at.0, at.1)
            .unwrap();
        // The table is .5 everywhere, and the draws are the same.
        for (own, value) in own.iter().zip(floats(&of_uploads.blocks[0].values)) {
            assert!((own + 0.5 - value).abs() < 1e-5, "{own} {value}");
        }
    }
}
