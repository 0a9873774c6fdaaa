//! Implements the Elias-Fano code of positions (Elias 1974, Fano 1971): the low bits of every
//! position as they are, and the high bits as the unary differences from one to the next.

use super::super::bits::{BitReader, BitWriter};
use super::Places;
use fedrecsim_core::error::Result;

/// Returns the number of low bits, which follows from how many positions there are out of how many.
fn low_bits(count: usize, universe: usize) -> u32 {
    (universe / count.max(1)).max(1).ilog2()
}

/// Returns the number of bytes of the code.
pub(super) fn length(places: &Places<'_>) -> usize {
    let (count, low) = (
        places.held.len(),
        low_bits(places.held.len(), places.universe),
    );
    let high = places.held.last().map_or(0, |last| last >> low);
    (count * (low as usize + 1) + high as usize).div_ceil(8)
}

/// Appends the code: for every position the difference of the high bits and the low bits.
pub(super) fn write(places: &Places<'_>, out: &mut Vec<u8>) {
    let low = low_bits(places.held.len(), places.universe);
    let mut bits = BitWriter::new(out);
    let mut before = 0;
    for &position in places.held {
        bits.write_unary(u64::from(position >> low) - before);
        bits.write(u64::from(position) & ((1 << low) - 1), low);
        before = u64::from(position >> low);
    }
    bits.finish();
}

/// Reads `count` positions out of `universe`.
///
/// # Errors
/// [`Error::Frame`](fedrecsim_core::error::Error::Frame) for anything but a code that [`write`] makes.
pub(super) fn read(
    code: &[u8],
    count: usize,
    universe: usize,
    visit: impl FnMut(usize),
) -> Result<()> {
    let low = low_bits(count, universe);
    let mut bits = BitReader::new(code);
    let mut high = 0;
    super::read_each(count, universe, visit, |_| {
        high += bits.read_unary()?;
        Ok((high << low) + bits.read(low)?)
    })?;
    bits.finish()
}
