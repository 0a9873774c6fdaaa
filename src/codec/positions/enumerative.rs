//! Codes positions with a range coder, by the probability that the next entry is held where all choices of as many out
//! of as many are alike. So the code is about as long as the number of the choice among all choices (Cover 1973).
//!
//! Say that k of the L entries that are left are held. The coder goes over the entries in steps of 2^b, where b is such
//! that a step has an entry that is held with a probability of about 1/8 or, if more than 1/16 of the entries are held,
//! goes over them one by one, sixteen with the same probability. A step without one is a symbol of the probability
//! ((L - k) / L)^(2^b), and the place within a step is b bits. Where more than half of the entries are held, the code is
//! that of the others.

use super::Places;
use super::binary_range::{CERTAIN, Decoder, Encoder, PRECISION};
use crate::error::{Error, Result};

/// The entries that are coded one by one with the probability of the first of them, since a division takes longer than
/// anything else. So far from the end the probability hardly changes.
const RUN: u32 = 16;

/// Nearer to the end than this, every entry has a probability of its own.
const EXACT_FROM: u64 = 256;

/// Returns the probability, in units of 2^-15, that a step of 2^`low` entries is empty, if `held` of `left` entries are
/// held. It is neither 0 nor 1.
#[inline]
fn empty(held: u64, left: u64, low: u32) -> u32 {
    let mut probability = ((left - held) << 32) / left;
    for _ in 0..low {
        probability = (probability * probability) >> 32;
    }
    (probability >> (32 - PRECISION)).clamp(1, u64::from(CERTAIN) - 1) as u32
}

/// Returns how many of the entries that are left have the probability of the next one.
#[inline]
fn run(left: u64) -> u32 {
    if left < EXACT_FROM { 1 } else { RUN }
}

/// Returns the logarithm of the number of entries in a step.
#[inline]
fn low_bits(held: u64, left: u64) -> u32 {
    // Most steps are of one entry, and a comparison is faster than a division.
    if left < held << 4 {
        return 0;
    }
    (left / held).ilog2().saturating_sub(3).min(PRECISION - 1)
}

/// Appends the code.
pub(super) fn write(places: &Places<'_>, out: &mut Vec<u8>) {
    let others: Vec<u32>;
    let coded = if 2 * places.count() > places.universe {
        others = complement(places.held, places.universe);
        &others
    } else {
        places.held
    };
    let mut encoder = Encoder::new(out);
    let (mut held, mut next, mut rest) = (coded.len() as u64, 0u64, coded.iter());
    let mut position = rest.next();
    while let Some(&first) = position {
        let left = places.universe as u64 - next;
        if held == left {
            break;
        }
        let low = low_bits(held, left);
        let probability = empty(held, left, low);
        if low == 0 {
            for _ in 0..run(left) {
                let is_held = position.is_some_and(|position| u64::from(*position) == next);
                encoder.encode(!is_held, probability);
                next += 1;
                if is_held {
                    held -= 1;
                    position = rest.next();
                }
            }
            continue;
        }
        let gap = u64::from(first) - next;
        let is_empty = gap >> low != 0;
        encoder.encode(is_empty, probability);
        if is_empty {
            next += 1 << low;
            continue;
        }
        encoder.encode_bits(gap as u32, low);
        next = u64::from(first) + 1;
        held -= 1;
        position = rest.next();
    }
    encoder.finish();
}

/// Returns the entries that are not held.
fn complement(held: &[u32], universe: usize) -> Vec<u32> {
    let mut others = Vec::with_capacity(universe - held.len());
    let mut next = 0;
    for &place in held {
        others.extend(next..place);
        next = place + 1;
    }
    others.extend(next..universe as u32);
    others
}

/// Reads `count` positions out of `universe`.
///
/// # Errors
/// [`Error::Frame`] for a code that does not give so many positions, or has bytes behind its end.
pub(super) fn read(code: &[u8], count: usize, universe: usize) -> Result<Vec<u32>> {
    let are_others = 2 * count > universe;
    let wanted = if are_others { universe - count } else { count };
    let mut decoder = Decoder::new(code);
    let mut coded: Vec<u32> = Vec::with_capacity(wanted);
    let (mut held, mut next, universe_entries) = (wanted as u64, 0u64, universe as u64);
    while held > 0 {
        let left = universe_entries.saturating_sub(next);
        if held > left {
            return Err(super::outside(universe));
        }
        if held == left {
            coded.extend((next..universe_entries).map(|place| place as u32));
            break;
        }
        let low = low_bits(held, left);
        let probability = empty(held, left, low);
        if low == 0 {
            for _ in 0..run(left) {
                if !decoder.decode(probability) {
                    held = held.checked_sub(1).ok_or_else(|| super::outside(universe))?;
                    coded.push(next as u32);
                }
                next += 1;
            }
            continue;
        }
        if decoder.decode(probability) {
            next += 1 << low;
            continue;
        }
        next += u64::from(decoder.decode_bits(low));
        if next >= universe_entries {
            return Err(super::outside(universe));
        }
        coded.push(next as u32);
        next += 1;
        held -= 1;
    }
    if !decoder.has_read_all() {
        return Err(Error::Frame("a range code is followed by others".into()));
    }
    Ok(if are_others { complement(&coded, universe) } else { coded })
}
