//! Codes a choice of entries in nearly the fewest bytes that can tell it from all other choices of
//! as many entries: those of its number among them (Cover 1973), plus a few bytes.
//!
//! Let p be the share of the entries that are held. A choice is coded as if each entry were held
//! with probability p, independently of the others. For a block with N entries, the code is longer
//! than the logarithm of the number of choices by half the logarithm of 2 pi p (1 - p) N, which is
//! less than two bytes.
//!
//! - Where p is at least 1/16, the symbols are the bytes of a bitmap. One with k ones has the
//!   probability p^k (1 - p)^(8 - k).
//! - Where p is less, the symbols are the gaps between the held entries in steps of 2^b, where b is
//!   such that a step has an entry that is held with a probability between 1/8 and 1/4. The rest of
//!   each gap is b bits, in front of the symbols. A gap of n steps has the probability
//!   r^n (1 - r), where r = (1 - p)^(2^b); the last symbol says that there are so many steps, and
//!   that the next symbol adds to them.
//!
//! Where more than half of the entries are held, the code is that of the others. An [asymmetric
//! numeral system](ans) codes the symbols; the bytes 0 at its end are left out.

use super::super::ans::{self, Decoder, PRECISION, Probabilities, WORD_BYTES};
use super::super::bits::{BitReader, BitWriter};
use super::{Places, bitmap};
use fedrecsim_core::error::Result;

/// The denominator of the least share of held entries that is coded as a bitmap.
const DENSE_FROM: u64 = 16;

/// The bits behind the point of a probability that is being computed.
const POINT: u32 = 32;
const ONE: u64 = 1 << POINT;

/// Holds the symbols, with the probabilities that both sides know.
struct Symbols {
    probabilities: Probabilities,
    /// The meaning of the symbols of gaps; `None` if they are the bytes of a bitmap.
    gaps: Option<Gaps>,
}

/// Says what the symbols of gaps mean.
struct Gaps {
    /// The number of the bits at the end of each gap that are no symbol.
    low: u32,
    /// The symbol of this many steps and more.
    most: u64,
}

/// Multiplies two numbers, at most one of them above 1.
fn times(one: u64, other: u64) -> u64 {
    ((u128::from(one) * u128::from(other)) >> POINT) as u64
}

impl Symbols {
    /// Returns the symbols of a block with `held` of `universe` entries: at least one, at most
    /// half.
    fn of(held: usize, universe: usize) -> Self {
        let (held, universe) = (held as u64, universe as u64);
        let share = ((u128::from(held) << POINT) / u128::from(universe)).max(1) as u64;
        if held * DENSE_FROM >= universe {
            Self::bytes(share)
        } else {
            Self::gaps(share, universe / held)
        }
    }

    fn bytes(share: u64) -> Self {
        let powers = |share: u64| -> [u64; 9] {
            let mut power = ONE;
            std::array::from_fn(|_| {
                let next = times(power, share);
                std::mem::replace(&mut power, next)
            })
        };
        let (of_held, of_others) = (powers(share), powers(ONE - share));
        let with: [u64; 9] =
            std::array::from_fn(|ones| times(of_held[ones], of_others[8 - ones]).max(1));
        let weights: [u64; 256] = std::array::from_fn(|byte| with[byte.count_ones() as usize]);
        Self {
            probabilities: probabilities(&weights),
            gaps: None,
        }
    }

    /// Returns the symbols of gaps with a mean of about `mean` entries.
    fn gaps(share: u64, mean: u64) -> Self {
        let low = (mean / 4).ilog2();
        let mut ratio = ONE - share;
        (0..low).for_each(|_| ratio = times(ratio, ratio));
        // A symbol of less than 2^-12 of the first one would have less than the least probability.
        let first = ONE - ratio;
        let steps = std::iter::successors(Some(first), |weight| Some(times(*weight, ratio)));
        let mut weights: Vec<u64> = steps
            .take_while(|weight| *weight > first >> 12)
            .take(255)
            .collect();
        let most = weights.len() as u64;
        weights.push(1);
        Self {
            probabilities: probabilities(&weights),
            gaps: Some(Gaps { low, most }),
        }
    }
}

/// Returns the probabilities of symbols that all have a weight. The weights sum to about [`ONE`],
/// or less.
fn probabilities(weights: &[u64]) -> Probabilities {
    // `Probabilities::of_shares` returns `None` only if there is no weight; it explains why all
    // symbols get a probability.
    #[allow(clippy::expect_used)]
    Probabilities::of_shares(weights, |weight| {
        (weight >> (POINT - PRECISION as u32)) as u32
    })
    .expect("symbols with weights have probabilities")
}

/// Appends the code.
pub(super) fn write(places: &Places<'_>, out: &mut Vec<u8>) {
    let Places { held, universe } = *places;
    let others;
    let coded = if 2 * held.len() > universe {
        others = complement(held, universe);
        &others
    } else {
        held
    };
    if coded.is_empty() {
        return;
    }
    let Symbols {
        probabilities,
        gaps,
    } = Symbols::of(coded.len(), universe);
    let Some(Gaps { low, most }) = gaps else {
        return write_symbols(&bitmap::of(coded, universe), &probabilities, out);
    };
    let mut bits = BitWriter::new(out);
    let mut symbols = Vec::with_capacity(coded.len());
    for gap in super::gaps(coded.iter().map(|place| *place as usize)) {
        let mut steps = gap >> low;
        while steps >= most {
            symbols.push(most as u8);
            steps -= most;
        }
        symbols.push(steps as u8);
        bits.write(gap & ((1 << low) - 1), low);
    }
    bits.finish();
    write_symbols(&symbols, &probabilities, out);
}

/// Appends the code of `symbols` without the bytes 0 at its end.
fn write_symbols(symbols: &[u8], probabilities: &Probabilities, out: &mut Vec<u8>) {
    let start = out.len();
    ans::encode(symbols, probabilities, out);
    let zeros = out[start..]
        .iter()
        .rev()
        .take_while(|byte| **byte == 0)
        .count();
    out.truncate(out.len() - zeros);
}

/// Starts in front of the first symbol of a code of [`write_symbols`].
fn decoder<'a>(code: &[u8], probabilities: &'a Probabilities) -> Result<Decoder<'a>> {
    if code.last() == Some(&0) {
        refuse!("a code of positions is followed by others");
    }
    let word = |bytes: &[u8]| {
        let mut word = [0; WORD_BYTES];
        word[..bytes.len()].copy_from_slice(bytes);
        u32::from_le_bytes(word)
    };
    Decoder::new(code.chunks(WORD_BYTES).map(word).collect(), probabilities)
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
/// [`Error::Frame`](fedrecsim_core::error::Error::Frame) for a code that does not give `count` positions, or has trailing bytes.
pub(super) fn read(code: &[u8], count: usize, universe: usize) -> Result<Vec<u32>> {
    let are_others = 2 * count > universe;
    let coded = if are_others { universe - count } else { count };
    let mut places: Vec<u32> = Vec::with_capacity(coded);
    if coded > 0 {
        read_coded(code, coded, universe, &mut places)?;
    } else if !code.is_empty() {
        refuse!("a code of no positions has bytes");
    }
    Ok(if are_others {
        complement(&places, universe)
    } else {
        places
    })
}

/// Reads the `count` places, at least one, that were coded.
fn read_coded(code: &[u8], count: usize, universe: usize, places: &mut Vec<u32>) -> Result<()> {
    let Symbols {
        probabilities,
        gaps,
    } = Symbols::of(count, universe);
    let Some(Gaps { low, most }) = gaps else {
        let mut decoder = decoder(code, &probabilities)?;
        let bytes = 0..bitmap::byte_length(universe);
        let bytes: Vec<u8> = bytes.map(|_| decoder.symbol()).collect();
        decoder.finish()?;
        bitmap::check(&bytes, universe, count)?;
        bitmap::ones(&bytes).for_each(|place| places.push(place as u32));
        return Ok(());
    };
    let bytes = (count * low as usize).div_ceil(8);
    let Some((rests, code)) = code.split_at_checked(bytes) else {
        return Err(super::outside(universe));
    };
    let (mut rests, mut decoder) = (BitReader::new(rests), decoder(code, &probabilities)?);
    let mut next = 0;
    while places.len() < count {
        let steps = u64::from(decoder.symbol());
        next += steps << low;
        if steps < most {
            next += rests.read(low)?;
            places.push(next as u32);
            next += 1;
        }
        if next > universe as u64 {
            return Err(super::outside(universe));
        }
    }
    rests.finish()?;
    decoder.finish()
}
