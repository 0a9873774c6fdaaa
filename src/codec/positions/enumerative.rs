//! Codes positions with a range coder, by the probability that the next entry is held where all choices of as many out
//! of as many are alike. So the code is about as long as the number of the choice among all choices (Cover 1973).
//!
//! Say that k of the L entries that are left are held. The coder goes over the entries in steps of 2^b, where b is such
//! that a step has an entry that is held with a probability of about 1/8 or, if more than 1/16 of the entries are held,
//! goes over them one by one. A step without one is a symbol of the probability ((L - k) / L)^(2^b), and the place within a step
//! is b bits. Where more than half of the entries are held, the code is that of the others.

use constriction::backends::Cursor;
use constriction::stream::model::{DecoderModel, EncoderModel, EntropyModel, UniformModel};
use constriction::stream::queue::{RangeDecoder, RangeEncoder};
use constriction::stream::{Decode, Encode};

use super::Places;
use crate::error::{Error, Result};

/// The state is much wider than a probability, so that rounding costs nothing; words are short, so that the end does not.
type Encoder = RangeEncoder<u16, u64>;
type Decoder = RangeDecoder<u16, u64, Cursor<u16, Vec<u16>>>;

/// The bits of a probability.
const PRECISION: usize = 15;

/// The model of a step: whether it holds no entry, which has `probability` in units of 2^-15.
#[derive(Clone, Copy)]
struct Empty {
    probability: u16,
}

impl Empty {
    /// Returns the model of a step of 2^`low` entries, if `held` of `left` entries are held.
    fn of(held: u64, left: u64, low: u32) -> Self {
        let mut probability = ((left - held) << 32) / left;
        for _ in 0..low {
            probability = (probability * probability) >> 32;
        }
        let probability = (probability >> (32 - PRECISION)).clamp(1, (1 << PRECISION) - 1);
        Self { probability: probability as u16 }
    }
}

impl EntropyModel<PRECISION> for Empty {
    type Symbol = bool;
    type Probability = u16;
}

/// Returns the probabilities of a step without an entry and of one with some. Neither is 0, since [`Empty::of`] sees to
/// that.
fn parts(empty: u16) -> (std::num::NonZero<u16>, std::num::NonZero<u16>) {
    let of = |value: u16| std::num::NonZero::new(value).unwrap_or(std::num::NonZero::<u16>::MIN);
    (of(empty), of((1 << PRECISION) - empty))
}

impl EncoderModel<PRECISION> for Empty {
    fn left_cumulative_and_probability(
        &self,
        symbol: impl std::borrow::Borrow<bool>,
    ) -> Option<(u16, std::num::NonZero<u16>)> {
        let (empty, other) = parts(self.probability);
        Some(if *symbol.borrow() { (0, empty) } else { (self.probability, other) })
    }
}

impl DecoderModel<PRECISION> for Empty {
    fn quantile_function(&self, quantile: u16) -> (bool, u16, std::num::NonZero<u16>) {
        let (empty, other) = parts(self.probability);
        if quantile < self.probability { (true, 0, empty) } else { (false, self.probability, other) }
    }
}

/// Returns the logarithm of the number of entries in a step.
fn low_bits(held: u64, left: u64) -> u32 {
    (left / held).max(1).ilog2().saturating_sub(3).min(PRECISION as u32 - 1)
}

/// Appends the code.
pub(super) fn write(places: &Places<'_>, out: &mut Vec<u8>) {
    let others: Vec<u32>;
    let coded = if 2 * places.count() > places.universe {
        let mut held = places.held.iter().copied().peekable();
        others = (0..places.universe as u32).filter(|place| held.next_if_eq(place).is_none()).collect();
        &others
    } else {
        places.held
    };
    let mut encoder = Encoder::new();
    let (mut held, mut next) = (coded.len() as u64, 0u64);
    for &position in coded {
        let mut gap = u64::from(position) - next;
        loop {
            let left = places.universe as u64 - next;
            if held == left {
                break;
            }
            let low = low_bits(held, left);
            let is_empty = gap >> low != 0;
            encode(&mut encoder, is_empty, Empty::of(held, left, low));
            if is_empty {
                gap -= 1 << low;
                next += 1 << low;
                continue;
            }
            if low > 0 {
                encode(&mut encoder, gap as usize, UniformModel::<u16, PRECISION>::new(1 << low));
            }
            break;
        }
        next = u64::from(position) + 1;
        held -= 1;
    }
    let words = match encoder.into_compressed() {
        Ok(words) => words,
        Err(never) => match never {},
    };
    out.extend(words.into_iter().flat_map(u16::to_le_bytes));
}

fn encode<M: EncoderModel<PRECISION, Probability = u16>>(encoder: &mut Encoder, symbol: M::Symbol, model: M) {
    let encoded = encoder.encode_symbol(symbol, model);
    // Memory has room, and every symbol has a probability.
    debug_assert!(encoded.is_ok());
}

/// Reads `count` positions out of `universe`.
///
/// # Errors
/// [`Error::Frame`] for anything but a code that [`write`] makes.
pub(super) fn read(code: &[u8], count: usize, universe: usize, mut visit: impl FnMut(usize)) -> Result<()> {
    let are_others = 2 * count > universe;
    let coded = if are_others { universe - count } else { count };
    let (pairs, rest) = code.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Error::Frame("a range code has an odd number of bytes".into()));
    }
    let words: Vec<u16> = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    let mut decoder = match Decoder::from_compressed(words) {
        Ok(decoder) => decoder,
        Err(never) => match never {},
    };
    let (mut held, mut next, mut written) = (coded as u64, 0u64, 0);
    for _ in 0..coded {
        loop {
            let left = universe as u64 - next;
            if held > left {
                return Err(super::outside(universe));
            }
            if held == left {
                break;
            }
            let low = low_bits(held, left);
            if decode(&mut decoder, Empty::of(held, left, low))? {
                next += 1 << low;
                if next >= universe as u64 {
                    return Err(super::outside(universe));
                }
                continue;
            }
            if low > 0 {
                next += decode(&mut decoder, UniformModel::<u16, PRECISION>::new(1 << low))? as u64;
            }
            break;
        }
        if next >= universe as u64 {
            return Err(super::outside(universe));
        }
        if are_others {
            (written..next as usize).for_each(&mut visit);
        } else {
            visit(next as usize);
        }
        next += 1;
        written = next as usize;
        held -= 1;
    }
    if are_others {
        (written..universe).for_each(visit);
    }
    if !decoder.maybe_exhausted() {
        return Err(Error::Frame("a range code is followed by others".into()));
    }
    Ok(())
}

fn decode<M: DecoderModel<PRECISION, Probability = u16>>(decoder: &mut Decoder, model: M) -> Result<M::Symbol> {
    decoder.decode_symbol(model).map_err(|_| Error::Frame("a range code is not one".into()))
}
