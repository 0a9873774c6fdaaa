//! Codes positions as the gaps between them, each with Rice's code: the gap's low bits as they are,
//! and the rest in unary (Rice 1979; it is Golomb's code with a divisor that is a power of two).
//!
//! The first byte says how many low bits there are.

use super::super::bits::{BitReader, BitWriter};
use super::{Places, gaps};
use fedrecsim_core::error::Result;

/// The largest number of low bits.
const MOST_LOW_BITS: u32 = 31;

/// Returns the number of low bits that gives the shortest code, and the number of bytes of that
/// code.
pub(super) fn plan(places: &Places<'_>) -> (u32, usize) {
    // The best number is close to the logarithm of the mean gap for any distribution of the gaps.
    let mean = (places.universe / places.held.len().max(1)) as u64;
    let about = mean.max(1).ilog2();
    let candidates: [u32; 4] =
        std::array::from_fn(|place| (about.saturating_sub(2) + place as u32).min(MOST_LOW_BITS));
    // One pass adds up the unary parts of all candidates.
    let mut highs = [0; 4];
    for gap in gaps(places.iter()) {
        highs
            .iter_mut()
            .zip(candidates)
            .for_each(|(high, low)| *high += gap >> low);
    }
    let bits = |(low, high)| (places.held.len() as u64 * u64::from(low + 1) + high, low);
    let (bits, low) = candidates
        .into_iter()
        .zip(highs)
        .map(bits)
        .min()
        .unwrap_or((0, 0));
    (low, 1 + bits.div_ceil(8) as usize)
}

/// Appends the code with `low` low bits.
pub(super) fn write(places: &Places<'_>, low: u32, out: &mut Vec<u8>) {
    out.push(low as u8);
    let mut bits = BitWriter::new(out);
    for gap in gaps(places.iter()) {
        bits.write_unary(gap >> low);
        bits.write(gap & ((1 << low) - 1), low);
    }
    bits.finish();
}

/// Reads `count` positions out of `universe`.
///
/// # Errors
/// [`Error::Frame`] for anything but a code that [`write`] makes.
pub(super) fn read(
    code: &[u8],
    count: usize,
    universe: usize,
    visit: impl FnMut(usize),
) -> Result<()> {
    let Some((&low, code)) = code
        .split_first()
        .filter(|(low, _)| u32::from(**low) <= MOST_LOW_BITS)
    else {
        refuse!("a Rice code has no sound number of low bits");
    };
    let mut bits = BitReader::new(code);
    super::read_each(count, universe, visit, |least| {
        let high = bits.read_unary()?;
        Ok(least + (high << low) + bits.read(u32::from(low))?)
    })?;
    bits.finish()
}
