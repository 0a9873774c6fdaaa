//! Holds the loops that turn values into symbols and back. They visit every value that is sent, so
//! they are compiled for several instruction sets.
//!
//! Loops have no branch that depends on a value, so that the compiler vectorises them. Groups with
//! a value of many steps, which only a dead zone allows, take a slower loop.

use half::bf16;

use super::{ESCAPE, Quantized, Quantizer, bf16_not_below};
use crate::codec::varint::{signed, unsigned};
use crate::kernel::lane_math::{LANES, Lanes};
use crate::magnitude::largest_magnitude_inlined;
use crate::per_instruction_set;

/// The number of partial sums, so that no addition waits for the one before it.
const SUMS: usize = 8;

/// The largest magnitude, in steps, that surely fits into a symbol.
const FEW_STEPS: f32 = 120.0;

/// The offset of steps before they are rounded down.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shifts {
    /// A half, so that values are rounded to the nearest step.
    Half,
    /// Uniform numbers from 0 to 1. Each lane has a generator of its own (Marsaglia 2003, Xorshift
    /// RNGs, 13-17-5): every value takes a draw, and the project's ChaCha streams would double the
    /// time.
    Uniform([u32; LANES]),
}

impl Shifts {
    /// Returns uniform shifts that begin with these states.
    pub(crate) fn of_seed(seed: [u32; LANES]) -> Self {
        // Such a generator never leaves the state 0.
        Self::Uniform(seed.map(|state| state.max(1)))
    }

    #[inline(always)]
    fn advance(&mut self) -> Lanes {
        match self {
            Self::Half => [0.5; LANES],
            Self::Uniform(states) => {
                let mut shifts = [0.0; LANES];
                for (state, shift) in states.iter_mut().zip(&mut shifts) {
                    *state ^= *state << 13;
                    *state ^= *state >> 17;
                    *state ^= *state << 5;
                    // With 23 bits the sum is exact.
                    *shift = ((*state >> 9) as i32 as f32 + 0.5) / 8_388_608.0;
                }
                shifts
            }
        }
    }
}

per_instruction_set! {
    /// Quantises `values` in steps, and appends their scales and symbols to `out`. `shifts` are
    /// added to levels before these are rounded down. The losses take the place of the values.
    pub(super) fn quantise(
        quantizer: Quantizer,
        values: &mut [f32],
        groups: &[usize],
        mut shifts: Shifts,
        out: &mut Quantized,
    ) {
        out.symbols.resize(values.len(), 0);
        out.scales.reserve(2 * groups.len());
        let Quantized { scales, symbols, escaped } = out;
        let all = (values, &mut symbols[..], scales);
        match quantizer {
            Quantizer::Levels { most, .. } => each_group(all, groups, |group, symbols| {
                levels(group, symbols, most, &mut shifts)
            }),
            Quantizer::DeadZone { step, zone } => each_group(all, groups, |group, symbols| {
                dead_zone(group, symbols, step, zone, escaped)
            }),
            // The signs, with the mean magnitude.
            _ => each_group(all, groups, |group, symbols| {
                let sum = sum_of(group, |value| f64::from(value.abs()));
                let stored = bf16_not_below((sum / group.len().max(1) as f64) as f32);
                let scale = stored.to_f32();
                for (value, symbol) in group.iter_mut().zip(symbols) {
                    *symbol = u8::from(*value < 0.0);
                    *value -= if *value < 0.0 { -scale } else { scale };
                }
                stored
            }),
        }
    }
}

/// Quantises group after group, and appends their scales.
#[inline(always)]
fn each_group(
    (mut values, mut symbols, scales): (&mut [f32], &mut [u8], &mut Vec<u8>),
    groups: &[usize],
    mut quantise: impl FnMut(&mut [f32], &mut [u8]) -> bf16,
) {
    for &length in groups {
        let (group, of_group);
        (group, values) = values.split_at_mut(length);
        (of_group, symbols) = symbols.split_at_mut(length);
        scales.extend(quantise(group, of_group).to_le_bytes());
    }
}

/// Quantises a group in steps from -`most` to `most`, where the largest value is `most` steps.
#[inline(always)]
fn levels(group: &mut [f32], symbols: &mut [u8], most: u8, shifts: &mut Shifts) -> bf16 {
    let most = f32::from(most);
    let largest = largest_magnitude_inlined(group);
    // A scale that is not 0 has an inverse, and all values of a group without one are 0.
    let stored = bf16_not_below(if largest > 0.0 {
        (largest / most).max(f32::MIN_POSITIVE)
    } else {
        0.0
    });
    let scale = stored.to_f32();
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let (chunks, rest) = group.as_chunks_mut::<LANES>();
    let (symbols, symbols_of_rest) = symbols.as_chunks_mut::<LANES>();
    for (values, symbols) in chunks.iter_mut().zip(symbols) {
        let shifts = shifts.advance();
        for lane in 0..LANES {
            let (symbol, decoded) = level(values[lane] * inverse + shifts[lane], most, scale);
            symbols[lane] = symbol;
            values[lane] -= decoded;
        }
    }
    if !rest.is_empty() {
        for ((value, shift), symbol) in rest.iter_mut().zip(shifts.advance()).zip(symbols_of_rest) {
            let decoded;
            (*symbol, decoded) = level(*value * inverse + shift, most, scale);
            *value -= decoded;
        }
    }
    stored
}

/// Quantises a group in steps of a multiple `step` of the root of its mean square.
#[inline(always)]
fn dead_zone(
    group: &mut [f32],
    symbols: &mut [u8],
    step: f32,
    zone: f32,
    escaped: &mut Vec<i64>,
) -> bf16 {
    let squares = sum_of(group, |value| f64::from(value) * f64::from(value));
    let rms = fedrecsim_core::math::sqrt(squares / group.len().max(1) as f64) as f32;
    let stored = bf16_not_below(rms * step);
    let scale = stored.to_f32();
    let divisor = if scale > 0.0 { scale } else { f32::INFINITY };
    let has_few_steps = largest_magnitude_inlined(group) / divisor < FEW_STEPS;
    let pairs = group.iter_mut().zip(symbols);
    if has_few_steps {
        for (value, symbol) in pairs {
            let magnitude = value.abs() / divisor;
            let steps = if magnitude < zone || magnitude == 0.0 {
                0
            } else {
                whole((magnitude - zone).floor()) + 1
            };
            let steps = if *value < 0.0 { -steps } else { steps };
            *symbol = symbol_of_few(steps);
            *value -= of_few_steps(steps, scale, zone);
        }
    } else {
        for (value, symbol) in pairs {
            let magnitude = value.abs() / divisor;
            let steps = if magnitude < zone || magnitude == 0.0 {
                0
            } else {
                (magnitude - zone).floor().min(1e15) as i64 + 1
            };
            let steps = if *value < 0.0 { -steps } else { steps };
            *symbol = unsigned(steps).min(u64::from(ESCAPE)) as u8;
            if *symbol == ESCAPE {
                escaped.push(steps);
            }
            *value -= of_steps_around(steps, scale, zone);
        }
    }
    stored
}

per_instruction_set! {
    /// Sets each of `values` to what its symbol stands for. `escaped` are the steps of the symbols
    /// that are [`ESCAPE`]. The error names what is missing or left over.
    pub(super) fn restore(
        quantizer: Quantizer,
        mut symbols: &[u8],
        groups: &[usize],
        (mut scales, escaped): (&[u8], &[i64]),
        mut values: &mut [f32],
    ) -> Result<(), &'static str> {
        let mut escaped = escaped.iter();
        // The loop has no early exit, so that it vectorises.
        let has_escapes = symbols.iter().fold(false, |has, symbol| has | (*symbol == ESCAPE));
        for &length in groups {
            let (scale, group, of_group);
            (scale, scales) = scales.split_first_chunk::<2>().ok_or("scales")?;
            (group, symbols) = symbols.split_at_checked(length).ok_or("values")?;
            (of_group, values) = values.split_at_mut(length);
            let scale = bf16::from_le_bytes(*scale).to_f32();
            match quantizer {
                Quantizer::Sign => restore_group(of_group, group, |symbol| {
                    if symbol == 0 { scale } else { -scale }
                }),
                _ if has_escapes && group.contains(&ESCAPE) => {
                    for (value, symbol) in of_group.iter_mut().zip(group) {
                        let steps = match *symbol {
                            ESCAPE => *escaped.next().ok_or("escaped values")?,
                            symbol => signed(u64::from(symbol)),
                        };
                        *value = quantizer.of_steps(steps, scale);
                    }
                }
                Quantizer::DeadZone { zone, .. } => restore_group(of_group, group, |symbol| {
                    of_few_steps(few_steps_of(symbol), scale, zone)
                }),
                _ => restore_group(of_group, group, |symbol| few_steps_of(symbol) as f32 * scale),
            }
        }
        let is_all = symbols.is_empty() && scales.is_empty() && escaped.next().is_none();
        if is_all { Ok(()) } else { Err("values") }
    }
}

/// Rounds `steps` down to at most `most` whole steps, and returns their symbol and value.
#[inline(always)]
fn level(steps: f32, most: f32, scale: f32) -> (u8, f32) {
    let steps = steps.floor().clamp(-most, most);
    (symbol_of_few(whole(steps)), steps * scale)
}

/// Sets the values of a group to those of its symbols.
#[allow(clippy::needless_range_loop)] // The form that becomes one vector operation.
#[inline(always)]
fn restore_group(values: &mut [f32], symbols: &[u8], value_of: impl Fn(u8) -> f32) {
    let ((values, values_rest), (symbols, symbols_rest)) = (
        values.as_chunks_mut::<LANES>(),
        symbols.as_chunks::<LANES>(),
    );
    for (values, symbols) in values.iter_mut().zip(symbols) {
        for lane in 0..LANES {
            values[lane] = value_of(symbols[lane]);
        }
    }
    values_rest
        .iter_mut()
        .zip(symbols_rest)
        .for_each(|(value, symbol)| *value = value_of(*symbol));
}

/// Returns the value of `steps` steps around a dead zone.
pub(super) fn of_steps_around(steps: i64, scale: f32, zone: f32) -> f32 {
    around(steps.unsigned_abs() as f32, steps < 0, scale, zone)
}

/// Returns what [`of_steps_around`] returns, for few steps.
#[inline(always)]
fn of_few_steps(steps: i32, scale: f32, zone: f32) -> f32 {
    around(steps.abs() as f32, steps < 0, scale, zone)
}

/// Has no branch, so that it vectorises.
#[inline(always)]
fn around(steps: f32, is_negative: bool, scale: f32, zone: f32) -> f32 {
    let magnitude = (steps - 0.5 + zone) * scale;
    let magnitude = if steps == 0.0 { 0.0 } else { magnitude };
    if is_negative { -magnitude } else { magnitude }
}

/// Returns a whole number of a magnitude below 2^22 as an integer. A cast would handle all numbers,
/// and does not vectorise.
#[inline(always)]
fn whole(steps: f32) -> i32 {
    // The last bits of the sum are the integer.
    const SHIFT: f32 = 12_582_912.0;
    (steps + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits()) as i32
}

/// Returns the symbol of few steps, see [`unsigned`].
#[inline(always)]
fn symbol_of_few(steps: i32) -> u8 {
    (steps << 1 ^ steps >> 31) as u8
}

/// Returns the steps of a symbol that is not [`ESCAPE`], see [`signed`].
#[inline(always)]
fn few_steps_of(symbol: u8) -> i32 {
    let symbol = i32::from(symbol);
    symbol >> 1 ^ -(symbol & 1)
}

/// Sums `of` over the values. The order of the additions is fixed: sum i takes every eighth value
/// from the i-th on, and then the sums are added in their order.
#[inline(always)]
fn sum_of(values: &[f32], of: impl Fn(f32) -> f64) -> f64 {
    let (chunks, rest) = values.as_chunks::<SUMS>();
    let mut sums = [0.0; SUMS];
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += of(*value);
        }
    }
    sums.iter_mut()
        .zip(rest)
        .for_each(|(sum, value)| *sum += of(*value));
    sums.iter().sum()
}
