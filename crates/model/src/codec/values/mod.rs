//! Turns single-precision values into fewer bits, and back.
//!
//! Values come in groups, such as the rows of a table, and each group may have a scale of its own.
//! A quantised value is a whole number of steps, which is written as a *symbol*: 0 for 0, 1 for -1,
//! 2 for 1, 3 for -2 and so on. Of [centroids], a group has one symbol. The caller codes the symbols.

mod centroids;
mod steps;

use half::{bf16, f16};

use crate::codec::buffer::Buffer;
use crate::magnitude::largest_magnitude;
use crate::table::{VALUE_BYTES, extend_bytes, floats};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::rng::Stream;
use fedrecsim_scenario::{CompositionSpec, RoundingSpec, ValuesSpec};
use rand::Rng;
use steps::Shifts;

/// Stands for a number of steps whose symbol does not fit into a byte. The number follows in the
/// list of escaped numbers.
const ESCAPE: u8 = u8::MAX;

/// Says how values are represented.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Quantizer {
    /// The values themselves, in single precision.
    Exact,
    /// The values themselves, in half precision.
    F16,
    /// The upper half of the bits of single precision.
    Bf16,
    /// Whole steps from -`most` to `most`, where the largest value of a group is `most` steps.
    Levels {
        /// The number of steps, which is 127, 7 or 1.
        most: u8,
        /// Whether a value between two steps becomes either at random, so that it is kept on
        /// average. Otherwise it becomes the nearer one.
        stochastic: bool,
    },
    /// The sign, with the mean magnitude of the group.
    Sign,
    /// Whole steps without a limit. Values that are nearer to 0 than `zone` steps become 0.
    DeadZone {
        /// The step, as a multiple of the root of the mean square of the group.
        step: f32,
        /// The reach of the zone around 0 on each side, in steps.
        zone: f32,
    },
    /// The centre of a cluster of groups, of so many clusters at most. All groups are of one length.
    Centroids(u32),
}

/// Holds quantised values.
#[derive(Debug, Default)]
pub(super) struct Quantized {
    /// The scale of every group, little-endian in two bytes each, for a quantizer that has scales; or
    /// the centres.
    pub scales: Vec<u8>,
    /// For each value its symbol, or two bytes if the quantizer makes no steps. For centroids, a
    /// symbol for each group.
    pub symbols: Vec<u8>,
    /// The numbers of steps that do not fit into a symbol, in their order.
    pub escaped: Vec<i64>,
}

impl Quantizer {
    /// Returns how `spec` represents values.
    pub(super) fn of(spec: &CompositionSpec) -> Self {
        let levels = |most| Self::Levels {
            most,
            stochastic: spec.rounding == RoundingSpec::Stochastic,
        };
        match spec.values {
            ValuesSpec::F32 => Self::Exact,
            ValuesSpec::F16 => Self::F16,
            ValuesSpec::Bf16 => Self::Bf16,
            ValuesSpec::Int8 => levels(127),
            ValuesSpec::Int4 => levels(7),
            ValuesSpec::Int2 => levels(1),
            ValuesSpec::Sign => Self::Sign,
            ValuesSpec::DeadZone(zone) => Self::DeadZone {
                step: zone.step as f32,
                zone: zone.zone as f32,
            },
            ValuesSpec::Centroids(most) => Self::Centroids(most),
        }
    }

    /// Returns the number of the representation in a frame.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Exact => 0,
            Self::F16 => 1,
            Self::Bf16 => 2,
            Self::Levels { .. } => 3,
            Self::Sign => 4,
            Self::DeadZone { .. } => 5,
            Self::Centroids(_) => 6,
        }
    }

    /// Returns the number of bits of an uncoded symbol.
    pub(super) fn symbol_bits(self) -> u32 {
        match self {
            Self::Exact => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::Levels { most: 127.., .. } | Self::DeadZone { .. } => 8,
            Self::Levels { most: 2.., .. } => 4,
            Self::Levels { .. } => 2,
            Self::Sign => 1,
            Self::Centroids(most) => (most - 1).checked_ilog2().unwrap_or(0) + 1,
        }
    }

    /// Returns the number of bytes of the scales of groups of these lengths, or of their centres.
    pub(super) fn scale_bytes(self, groups: &[usize]) -> usize {
        match self {
            Self::Exact | Self::F16 | Self::Bf16 => 0,
            Self::Centroids(most) => {
                let columns = groups.first().copied().unwrap_or(0);
                VALUE_BYTES * columns * groups.len().min(most as usize)
            }
            _ => 2 * groups.len(),
        }
    }

    /// Returns the number of symbols, or of values where there are none, of groups of these lengths.
    pub(super) fn symbols(self, groups: &[usize]) -> usize {
        match self {
            Self::Centroids(_) if groups.first() == Some(&0) => 0,
            Self::Centroids(_) => groups.len(),
            _ => groups.iter().sum(),
        }
    }

    /// Quantises `values`, which consist of groups of these lengths. The losses take the place of
    /// the values. `stream` makes the stream of a name, for stochastic rounding and centroids.
    ///
    /// # Errors
    /// [`Error::Unrepresentable`] if a value is not finite, or too large for half precision. Exact
    /// values can be anything.
    pub(super) fn quantise(
        self,
        values: &mut [f32],
        groups: &[usize],
        stream: impl FnOnce(&str) -> Stream,
    ) -> Result<Quantized> {
        let mut out = Quantized::default();
        if self == Self::Exact {
            extend_bytes(&mut out.symbols, values);
            values.fill(0.0);
            return Ok(out);
        }
        if !largest_magnitude(values).is_finite() {
            let value = values
                .iter()
                .copied()
                .find(|value| !value.is_finite())
                .unwrap_or(f32::NAN);
            return Err(unrepresentable(value, "is not finite"));
        }
        match self {
            Self::F16 => shorten(values, &mut out.symbols, |value| {
                let short = f16::from_f32(value);
                (short.to_le_bytes(), short.to_f32())
            })?,
            Self::Bf16 => shorten(values, &mut out.symbols, |value| {
                let short = nearest_bf16(value);
                (short.to_le_bytes(), short.to_f32())
            })?,
            Self::Centroids(most) if !values.is_empty() => {
                let stream = stream("codec/centroids");
                centroids::quantise(most as usize, values, groups[0], stream, &mut out);
            }
            _ => {
                let shifts = match self {
                    Self::Levels {
                        stochastic: true, ..
                    } => {
                        let mut stream = stream("codec/rounding");
                        Shifts::of_seed(std::array::from_fn(|_| stream.next_u32()))
                    }
                    _ => Shifts::Half,
                };
                steps::quantise(self, values, groups, shifts, &mut out);
            }
        }
        Ok(out)
    }

    /// Returns the values of `symbols`, which are whole values and consist of groups of these lengths.
    ///
    /// # Errors
    /// [`Error::Frame`] if there are not as many scales or escaped numbers as are needed, or a
    /// symbol is none.
    pub(super) fn restore(
        self,
        symbols: &[u8],
        groups: &[usize],
        scales: &[u8],
        escaped: &[i64],
    ) -> Result<Buffer> {
        let missing =
            |what: &str| Error::Frame(format!("it has more or fewer {what} than it needs"));
        let halves = symbols.as_chunks::<2>().0.iter();
        match self {
            Self::Exact => return Ok(floats(symbols).collect()),
            Self::F16 => {
                return Ok(halves
                    .map(|half| f16::from_le_bytes(*half).to_f32())
                    .collect());
            }
            Self::Bf16 => {
                return Ok(halves
                    .map(|half| bf16::from_le_bytes(*half).to_f32())
                    .collect());
            }
            Self::Centroids(_) => {
                let columns = groups.first().copied().unwrap_or(0);
                return centroids::restore(symbols, columns, scales).map_err(missing);
            }
            _ => {}
        }
        let mut values = Buffer::of_any(symbols.len());
        steps::restore(self, symbols, groups, (scales, escaped), &mut values).map_err(missing)?;
        Ok(values)
    }

    /// Returns the value of `steps` steps of size `scale`.
    fn of_steps(self, steps: i64, scale: f32) -> f32 {
        match self {
            Self::DeadZone { zone, .. } => steps::of_steps_around(steps, scale, zone),
            _ => steps as f32 * scale,
        }
    }
}

/// Appends values in two bytes each, and leaves in their places what is lost.
fn shorten(
    values: &mut [f32],
    out: &mut Vec<u8>,
    short: impl Fn(f32) -> ([u8; 2], f32),
) -> Result<()> {
    out.reserve(2 * values.len());
    for value in values {
        let (bytes, kept) = short(*value);
        if !kept.is_finite() {
            return Err(unrepresentable(
                *value,
                "is too large for half precision, which ends at 65504",
            ));
        }
        out.extend(bytes);
        *value -= kept;
    }
    Ok(())
}

/// Returns the nearest number with eight bits of precision. The largest ones are rounded towards 0,
/// so that no finite number becomes infinite.
fn nearest_bf16(value: f32) -> bf16 {
    let near = bf16::from_f32(value);
    if near.is_finite() {
        near
    } else {
        bf16::from_bits((value.to_bits() >> 16) as u16)
    }
}

/// Returns the least number with eight bits of precision that is not below `value`, which is finite
/// and not negative; the largest one if there is none.
fn bf16_not_below(value: f32) -> bf16 {
    let up = bf16::from_bits((value.to_bits().saturating_add(0xffff) >> 16) as u16);
    if up.is_finite() { up } else { bf16::MAX }
}

fn unrepresentable(value: f32, reason: &'static str) -> Error {
    Error::Unrepresentable {
        place: String::new(),
        value,
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use fedrecsim_core::rng::Streams;

    const ALL: [Quantizer; 11] = [
        Quantizer::Exact,
        Quantizer::F16,
        Quantizer::Bf16,
        Quantizer::Levels {
            most: 127,
            stochastic: false,
        },
        Quantizer::Levels {
            most: 127,
            stochastic: true,
        },
        Quantizer::Levels {
            most: 7,
            stochastic: false,
        },
        Quantizer::Levels {
            most: 7,
            stochastic: true,
        },
        Quantizer::Levels {
            most: 1,
            stochastic: true,
        },
        Quantizer::Sign,
        Quantizer::DeadZone {
            step: 1.0,
            zone: 0.5,
        },
        Quantizer::DeadZone {
            step: 0.01,
            zone: 1.0,
        },
    ];

    /// Returns a stream of this seed.
    fn stream(seed: u64) -> impl FnOnce(&str) -> Stream {
        move |name| Streams::new(seed).named(name, 0, 0)
    }

    /// Returns the largest error that the quantiser may make in a value.
    fn largest_error(quantizer: Quantizer, value: f32, scale: f32) -> f32 {
        match quantizer {
            Quantizer::Exact => 0.0,
            // A number too small for half precision is off by half its least step.
            Quantizer::F16 => value.abs() / 2048.0 + 6e-8,
            Quantizer::Bf16 => value.abs() / 256.0,
            Quantizer::Levels {
                stochastic: false, ..
            } => scale * 0.5001,
            Quantizer::Levels { .. } => scale * 1.0001,
            Quantizer::Sign => value.abs() + scale,
            Quantizer::DeadZone { zone, .. } => scale * zone.max(0.5) * 1.0001 + value.abs() * 1e-5,
            Quantizer::Centroids(_) => unreachable!("its groups are of one length"),
        }
    }

    proptest! {
        /// If this fails, a receiver gets other values than the sender counts on, or worse ones
        /// than the steps allow.
        #[test]
        fn receivers_get_what_senders_count_on(
            groups in prop::collection::vec(prop::collection::vec(-6e4f32..6e4, 0..20), 0..9),
            magnitude in -30i32..0,
            seed: u64,
        ) {
            let values: Vec<f32> = groups.concat().iter().map(|value| value * 2f32.powi(magnitude)).collect();
            let lengths: Vec<usize> = groups.iter().map(Vec::len).collect();
            for quantizer in ALL {
                let mut left_out = values.clone();
                let Quantized { scales, symbols, escaped } =
                    quantizer.quantise(&mut left_out, &lengths, stream(seed)).unwrap();
                let received = quantizer.restore(&symbols, &lengths, &scales, &escaped).unwrap();
                prop_assert_eq!(received.len(), values.len());
                for ((value, received), left_out) in values.iter().zip(received.iter()).zip(&left_out) {
                    prop_assert_eq!((value - received).to_bits(), left_out.to_bits(), "{:?}", quantizer);
                }
                let mut scales = scales.as_chunks::<2>().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32());
                let (mut values, mut received) = (values.iter(), received.iter());
                for group in &groups {
                    let scale = if quantizer.scale_bytes(&[1]) > 0 { scales.next().unwrap() } else { 0.0 };
                    for (value, found) in values.by_ref().zip(received.by_ref()).take(group.len()) {
                        let most = largest_error(quantizer, *value, scale);
                        prop_assert!((value - found).abs() <= most, "{:?}: {} became {}", quantizer, value, found);
                    }
                }
            }
        }
    }

    /// If this fails, rounding at random moves values in one direction on average.
    #[test]
    fn rounding_at_random_keeps_the_mean() {
        let quantizer = Quantizer::Levels {
            most: 1,
            stochastic: true,
        };
        let mut values: Vec<f32> = [1.0]
            .into_iter()
            .chain(std::iter::repeat_n(0.3, 65_536))
            .collect();
        let groups = [values.len()];
        quantizer.quantise(&mut values, &groups, stream(1)).unwrap();
        let left_out: f64 = values[1..].iter().map(|value| f64::from(*value)).sum();
        // The standard deviation of the mean is 0.0018.
        assert!((left_out / 65_536.0).abs() < 0.006, "{left_out}");
    }

    #[test]
    fn numbers_too_large_for_a_format_do_not_become_infinite() {
        let refused = Quantizer::F16
            .quantise(&mut [70_000.0], &[1], stream(1))
            .unwrap_err();
        assert!(
            refused.to_string().contains("too large for half precision"),
            "{refused}"
        );
        for quantizer in [
            Quantizer::Bf16,
            Quantizer::Levels {
                most: 127,
                stochastic: false,
            },
            Quantizer::Sign,
        ] {
            let mut left_out = [f32::MAX];
            quantizer.quantise(&mut left_out, &[1], stream(1)).unwrap();
            assert!(
                left_out[0].abs() < 0.01 * f32::MAX,
                "{quantizer:?}: {left_out:?}"
            );
        }
    }
    proptest! {
        /// If this fails, a receiver gets other centres than the sender counts on, a row gets the
        /// centre of others that are farther, or more bytes are sent than rows or centres need.
        #[test]
        fn rows_become_their_nearest_centres(
            values in prop::collection::vec(-6e4f32..6e4, 0..120),
            (columns, most) in (1usize..5, 2u32..=256),
            seed: u64,
        ) {
            let rows = values.len() / columns;
            let (values, groups) = (&values[..rows * columns], vec![columns; rows]);
            let quantizer = Quantizer::Centroids(most);
            let mut left_out = values.to_vec();
            let sent = quantizer.quantise(&mut left_out, &groups, stream(seed)).unwrap();
            prop_assert_eq!(sent.symbols.len(), quantizer.symbols(&groups));
            prop_assert_eq!(sent.scales.len(), 4 * columns * rows.min(most as usize));
            prop_assert_eq!(sent.scales.len(), quantizer.scale_bytes(&groups));
            let received = quantizer.restore(&sent.symbols, &groups, &sent.scales, &[]).unwrap();
            for ((value, received), left_out) in values.iter().zip(received.iter()).zip(&left_out) {
                prop_assert_eq!((value - received).to_bits(), left_out.to_bits());
            }
            if rows <= most as usize {
                prop_assert_eq!(values, &received[..], "each row is a centre");
            }
            let centres: Vec<f32> = floats(&sent.scales).collect();
            for (row, received) in values.chunks(columns).zip(received.chunks(columns)) {
                let distance = |centre: &[f32]| -> f64 {
                    let pairs = row.iter().zip(centre);
                    pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum()
                };
                for centre in centres.chunks(columns) {
                    prop_assert!(distance(received) <= distance(centre) * 1.0001 + 1e-3);
                }
            }
        }
    }

    /// The specification's example. If this fails, rows are not drawn to the means of their clusters,
    /// or a centre that no sender has named is read.
    #[test]
    fn centres_are_those_of_the_example() {
        for seed in 0..20 {
            let (mut values, groups) = ([1.0, 0.0, 0.8, 0.0, -1.0, 0.0], [2; 3]);
            let quantizer = Quantizer::Centroids(2);
            let sent = quantizer
                .quantise(&mut values, &groups, stream(seed))
                .unwrap();
            let restore = |symbols: &[u8]| quantizer.restore(symbols, &groups, &sent.scales, &[]);
            assert_eq!(
                restore(&sent.symbols).unwrap()[..],
                [0.9, 0.0, 0.9, 0.0, -1.0, 0.0]
            );
            assert_eq!((sent.symbols.len(), sent.scales.len()), (3, 16));
            assert!(restore(&[0, 1, 2]).is_err());
        }
    }
}
