//! Codes the positions of the entries that a frame holds.
//!
//! There are five codes, and one of no bytes for all entries. If every choice of positions is
//! equally likely, [`enumerative`] is the shortest to within a few bytes. The others are shorter if
//! positions have a pattern.

mod elias_fano;
mod enumerative;
pub(super) mod gaps;
mod rice;
#[cfg(test)]
mod tests;

use super::bitmap;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::rng::{PortableDraws, Streams};

/// Some entries of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    /// Their positions, which ascend strictly.
    pub held: &'a [u32],
    /// The number of entries of the whole block.
    pub universe: usize,
}

impl Places<'_> {
    /// Returns the positions.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.held.iter().map(|position| *position as usize)
    }
}

/// A code of positions. The discriminant is its number in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionCode {
    /// Every entry is held, so that positions take no bytes.
    All = 0,
    /// The positions are a bitmap, with one bit for each entry.
    Bitmap = 1,
    /// The gaps as integers of whole bytes.
    Gaps = 2,
    /// The gaps in Rice's code.
    Rice = 3,
    /// The code of Elias and Fano.
    EliasFano = 4,
    /// A code about as long as the number of the choice among all choices of as many entries.
    Enumerative = 5,
    /// The seed that drew the positions.
    Seed = 6,
}

impl PositionCode {
    /// The codes that a frame may use unless all entries are held.
    pub(super) const CHOICES: [Self; 5] = [
        Self::Bitmap,
        Self::Gaps,
        Self::Rice,
        Self::EliasFano,
        Self::Enumerative,
    ];

    /// Returns the code with this number, if there is one.
    pub(super) fn of_number(number: u8) -> Option<Self> {
        [Self::All, Self::Seed]
            .into_iter()
            .chain(Self::CHOICES)
            .find(|code| *code as u8 == number)
    }

    /// Returns the code with this number, if it is one that codecs with a name use.
    pub(super) fn plain(number: u8) -> Option<Self> {
        Self::of_number(number).filter(|_| number <= Self::Gaps as u8)
    }

    /// Appends the positions in this code.
    pub(super) fn write(self, places: &Places<'_>, out: &mut Vec<u8>) {
        match self {
            // The positions do not tell their seed, see `write_seed`.
            Self::All | Self::Seed => {}
            Self::Bitmap => out.extend(bitmap::of(places.held, places.universe)),
            Self::Gaps => gaps::write(places.iter(), out),
            Self::Rice => rice::write(places, rice::plan(places).0, out),
            Self::EliasFano => elias_fano::write(places, out),
            Self::Enumerative => enumerative::write(places, out),
        }
    }

    /// Returns the number of bytes of the positions in this code.
    fn length(self, places: &Places<'_>) -> usize {
        match self {
            Self::All | Self::Seed => 0,
            Self::Bitmap => bitmap::byte_length(places.universe),
            Self::Gaps => gaps::length(places.iter()),
            Self::Rice => rice::plan(places).1,
            Self::EliasFano => elias_fano::length(places),
            Self::Enumerative => {
                let mut code = Vec::new();
                enumerative::write(places, &mut code);
                code.len()
            }
        }
    }
}

/// Appends the positions in the wanted code, or in the shortest one if `wanted` is `None`, and
/// returns which it is.
pub(super) fn write(
    places: &Places<'_>,
    wanted: Option<PositionCode>,
    out: &mut Vec<u8>,
) -> PositionCode {
    if places.held.len() == places.universe {
        return PositionCode::All;
    }
    if let Some(code) = wanted {
        code.write(places, out);
        return code;
    }
    // The length of this code is known only when it is written.
    let start = out.len();
    enumerative::write(places, out);
    let length = out.len() - start;
    let others = PositionCode::CHOICES
        .into_iter()
        .filter(|code| *code != PositionCode::Enumerative);
    let shortest = others
        .map(|code| (code.length(places), code))
        .min_by_key(|(length, _)| *length);
    match shortest.filter(|(other, _)| *other <= length) {
        Some((_, code)) => {
            out.truncate(start);
            code.write(places, out);
            code
        }
        None => PositionCode::Enumerative,
    }
}

/// Checks the code of positions where all entries are held.
///
/// # Errors
/// [`Error::Frame`] if it says something else.
pub(super) fn check_all(code: PositionCode, bytes: &[u8]) -> Result<()> {
    if code == PositionCode::All && bytes.is_empty() {
        return Ok(());
    }
    refuse!("it holds all entries in the wrong code")
}

/// Appends the seed of positions that [`drawn`] returned, and returns the code.
pub(super) fn write_seed(seed: u64, places: &Places<'_>, out: &mut Vec<u8>) -> PositionCode {
    if places.held.len() == places.universe {
        return PositionCode::All;
    }
    out.extend(seed.to_le_bytes());
    PositionCode::Seed
}

/// Draws `count` positions out of `universe`, without replacement, and returns them in ascending
/// order.
pub(super) fn drawn(seed: u64, count: usize, universe: usize) -> Vec<u32> {
    let mut stream = Streams::new(seed).named("codec/positions", count as u64, universe as u64);
    let mut places: Vec<u32> = (0..universe as u32).collect();
    stream.keep_drawn(&mut places, count);
    places.sort_unstable();
    places
}

/// Reads `count` positions out of `universe`.
///
/// # Errors
/// [`Error::Frame`] for anything but what [`write`] appends in this code.
pub(super) fn read(
    code: PositionCode,
    bytes: &[u8],
    count: usize,
    universe: usize,
) -> Result<Vec<u32>> {
    if count > universe || (code == PositionCode::All && (count < universe || !bytes.is_empty())) {
        refuse!("it holds {count} of {universe} entries in the wrong code");
    }
    let mut held = Vec::with_capacity(count);
    let visit = |place: usize| held.push(place as u32);
    match code {
        PositionCode::All => (0..universe).for_each(visit),
        PositionCode::Bitmap => {
            if bytes.len() != bitmap::byte_length(universe) {
                refuse!("a bitmap of {universe} entries has {} bytes", bytes.len());
            }
            bitmap::check(bytes, universe, count)?;
            bitmap::ones(bytes).for_each(visit);
        }
        PositionCode::Seed => {
            let seed = bytes.try_into().map(u64::from_le_bytes);
            let seed = seed.map_err(|_| {
                Error::Frame(format!("a seed of positions has {} bytes", bytes.len()))
            })?;
            return Ok(drawn(seed, count, universe));
        }
        PositionCode::Gaps => gaps::read(bytes, count, universe, visit)?,
        PositionCode::Rice => rice::read(bytes, count, universe, visit)?,
        PositionCode::EliasFano => elias_fano::read(bytes, count, universe, visit)?,
        PositionCode::Enumerative => return enumerative::read(bytes, count, universe),
    }
    Ok(held)
}

/// Returns the code with the fewest bytes of those that codecs with a name use (all, bitmap and
/// gaps) for `count` of `universe` entries, and the number of its bytes. The bitmap wins a tie.
pub(super) fn plain_code(
    count: usize,
    universe: usize,
    positions: impl Iterator<Item = usize>,
) -> (PositionCode, usize) {
    if count == universe {
        return (PositionCode::All, 0);
    }
    let bitmap = bitmap::byte_length(universe);
    // A gap takes at least a byte, so that a long list is larger without being measured.
    if count < bitmap {
        let gaps = gaps::length(positions);
        if gaps < bitmap {
            return (PositionCode::Gaps, gaps);
        }
    }
    (PositionCode::Bitmap, bitmap)
}

/// Returns the number of entries skipped before each of the strictly ascending `positions`.
fn gaps(positions: impl Iterator<Item = usize>) -> impl Iterator<Item = u64> {
    positions.scan(0, |next, position| {
        let gap = position - *next;
        *next = position + 1;
        Some(gap as u64)
    })
}

/// Calls `visit` with `count` positions that ascend within `universe`. `position` reads the next one;
/// its argument is the least that it may be.
///
/// # Errors
/// [`Error::Frame`] if positions do not ascend or leave the block, and what `position` returns. The
/// positions before the fault have been visited then.
fn read_each(
    count: usize,
    universe: usize,
    mut visit: impl FnMut(usize),
    mut position: impl FnMut(u64) -> Result<u64>,
) -> Result<()> {
    let mut least = 0;
    for _ in 0..count {
        let found = position(least)?;
        if found >= universe as u64 || found < least {
            return Err(outside(universe));
        }
        visit(found as usize);
        least = found + 1;
    }
    Ok(())
}

fn outside(universe: usize) -> Error {
    Error::Frame(format!(
        "the positions do not ascend within the {universe} entries of the block"
    ))
}
