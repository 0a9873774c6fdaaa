//! Codes a list of symbols with an asymmetric numeral system, by a table of their frequencies that is sent with them.
//!
//! The code begins with the table: for every symbol up to the largest that occurs, its count as a number with three bits
//! behind the leading one. Sender and receiver turn these into the same probabilities, with integers alone. The words of
//! the coder's state follow.

use std::borrow::Borrow;
use std::num::NonZero;

use constriction::backends::Cursor;
use constriction::stream::model::{DecoderModel, EncoderModel, EntropyModel};
use constriction::stream::stack::AnsCoder;
use constriction::stream::{Decode, Encode};

use super::bits::{BitReader, BitWriter};
use crate::error::{Error, Result};

/// The bits of a probability.
const PRECISION: usize = 14;
const TOTAL: u32 = 1 << PRECISION;

/// The bits of a count behind its leading one that the table keeps.
const MANTISSA_BITS: u32 = 3;

/// The probability of each symbol, in units of 2^-14, and what comes before it.
struct Probabilities {
    /// The sum of the probabilities of all smaller symbols, and the symbol's own.
    parts: Vec<(u16, u16)>,
}

impl Probabilities {
    /// Returns probabilities that are about in proportion to `weights` and sum to 1. A symbol of weight 0 has none.
    /// Returns `None` if no symbol has a weight.
    fn of(weights: &[u64]) -> Option<Self> {
        let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        let most = weights.iter().enumerate().max_by_key(|(place, weight)| (**weight, usize::MAX - place))?.0;
        if sum == 0 {
            return None;
        }
        // At most 256 symbols take 1 or more each, and rounding down leaves something over, which goes to the first of
        // the most frequent symbols. Where the least probabilities take more than there is, that symbol gives. It can: t
        // least ones among n symbols take at most t too much, the greatest of the others has about 2^14 / (n - t) or
        // more, and t (n - t) is at most 128^2 = 2^14.
        let probability = |weight: &u64| match *weight {
            0 => 0,
            weight => ((u128::from(weight) * u128::from(TOTAL) / sum) as u32).max(1),
        };
        let mut own: Vec<u32> = weights.iter().map(probability).collect();
        let total: u32 = own.iter().sum();
        own[most] = (own[most] + TOTAL).checked_sub(total).filter(|left| *left > 0)?;
        let mut left = 0;
        let place = |own: u32| {
            left += own;
            ((left - own) as u16, own as u16)
        };
        let parts = own.into_iter().map(place).collect();
        Some(Self { parts })
    }
}

/// Encodes symbols by their probabilities.
struct Encoding<'a>(&'a Probabilities);

impl EntropyModel<PRECISION> for Encoding<'_> {
    type Symbol = u8;
    type Probability = u16;
}

impl EncoderModel<PRECISION> for Encoding<'_> {
    #[inline]
    fn left_cumulative_and_probability(&self, symbol: impl Borrow<u8>) -> Option<(u16, NonZero<u16>)> {
        let (left, own) = *self.0.parts.get(usize::from(*symbol.borrow()))?;
        Some((left, NonZero::new(own)?))
    }
}

/// Decodes symbols by their probabilities.
struct Decoding<'a> {
    probabilities: &'a Probabilities,
    /// The symbol of every quantile.
    symbols: Vec<u8>,
}

impl<'a> Decoding<'a> {
    fn of(probabilities: &'a Probabilities) -> Self {
        let mut symbols = Vec::with_capacity(TOTAL as usize);
        for (symbol, (_, own)) in probabilities.parts.iter().enumerate() {
            symbols.resize(symbols.len() + usize::from(*own), symbol as u8);
        }
        Self { probabilities, symbols }
    }
}

impl EntropyModel<PRECISION> for Decoding<'_> {
    type Symbol = u8;
    type Probability = u16;
}

impl DecoderModel<PRECISION> for Decoding<'_> {
    #[inline]
    fn quantile_function(&self, quantile: u16) -> (u8, u16, NonZero<u16>) {
        let symbol = self.symbols[usize::from(quantile)];
        let (left, own) = self.probabilities.parts[usize::from(symbol)];
        (symbol, left, NonZero::new(own).unwrap_or(NonZero::<u16>::MIN))
    }
}

/// Returns the bits of a count behind the leading one that the table keeps, and how many there are.
fn mantissa(count: u64) -> (u64, u32) {
    let exponent = count.max(1).ilog2();
    let bits = exponent.min(MANTISSA_BITS);
    ((count >> (exponent - bits)) & ((1 << bits) - 1), bits)
}

/// Appends the counts of the symbols, rounded, and returns them as they are read.
fn write_table(counts: &[u64], out: &mut Vec<u8>) -> Vec<u64> {
    out.push((counts.len() - 1) as u8);
    let mut bits = BitWriter::new(out);
    let mut before = 0i64;
    let mut rounded = Vec::with_capacity(counts.len());
    for &count in counts {
        // The number of binary digits, which is 0 for a symbol that does not occur.
        let digits = i64::from(u64::BITS - count.leading_zeros());
        let difference = digits - before;
        bits.write_unary((difference << 1 ^ difference >> 63) as u64);
        before = digits;
        if count == 0 {
            rounded.push(0);
            continue;
        }
        let (mantissa, kept) = mantissa(count);
        bits.write(mantissa, kept);
        rounded.push(of_parts(digits as u32, mantissa, kept));
    }
    bits.finish();
    rounded
}

/// Returns the number of so many binary digits that begins with a one and `mantissa`.
fn of_parts(digits: u32, mantissa: u64, kept: u32) -> u64 {
    let exponent = digits - 1;
    (1 << exponent) | mantissa << (exponent - kept)
}

/// Appends the code of `symbols`, of which there is at least one.
pub(super) fn write(symbols: &[u8], out: &mut Vec<u8>) {
    let mut counts = [0u64; 256];
    symbols.iter().for_each(|symbol| counts[usize::from(*symbol)] += 1);
    let largest = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
    let length_place = out.len();
    out.extend([0; 2]);
    let table = write_table(&counts[..=largest], out);
    let table_bytes = (out.len() - length_place - 2) as u16;
    out[length_place..length_place + 2].copy_from_slice(&table_bytes.to_le_bytes());
    // There is a symbol, so the table has a weight, and `Probabilities::of` says why there is room for all of them.
    #[allow(clippy::expect_used)]
    let probabilities = Probabilities::of(&table).expect("symbols that occur have probabilities");
    let mut coder: AnsCoder<u32, u64> = AnsCoder::new();
    let model = Encoding(&probabilities);
    for symbol in symbols.iter().rev() {
        let encoded = coder.encode_symbol(*symbol, &model);
        debug_assert!(encoded.is_ok());
    }
    let words = match coder.into_compressed() {
        Ok(words) => words,
        Err(never) => match never {},
    };
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// Reads `count` symbols.
///
/// # Errors
/// [`Error::Frame`] for anything but a code that [`write`] makes.
pub(super) fn read(code: &[u8], count: usize, out: &mut Vec<u8>) -> Result<()> {
    let refuse = |reason: &str| Err(Error::Frame(format!("a list of symbols {reason}")));
    let Some((table_bytes, code)) = code.split_first_chunk::<2>() else { return refuse("is cut off") };
    let Some((table, words)) = code.split_at_checked(usize::from(u16::from_le_bytes(*table_bytes))) else {
        return refuse("is cut off within its table");
    };
    let weights = read_table(table)?;
    let Some(probabilities) = Probabilities::of(&weights) else { return refuse("has a table without probabilities") };
    let (words, rest) = words.as_chunks::<4>();
    if !rest.is_empty() {
        return refuse("has bytes left over");
    }
    let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let Ok(mut coder) = AnsCoder::<u32, u64, Cursor<u32, Vec<u32>>>::from_compressed(Cursor::new_at_write_end(words))
    else {
        return refuse("has no sound state");
    };
    let model = Decoding::of(&probabilities);
    for _ in 0..count {
        match coder.decode_symbol(&model) {
            Ok(symbol) => out.push(symbol),
            Err(_) => return refuse("has too few words"),
        }
    }
    if !coder.is_empty() {
        return refuse("is followed by others");
    }
    Ok(())
}

fn read_table(table: &[u8]) -> Result<Vec<u64>> {
    let Some((largest, table)) = table.split_first() else {
        return Err(Error::Frame("a list of symbols has an empty table".into()));
    };
    let mut bits = BitReader::new(table);
    let mut digits = 0i64;
    let mut weights = Vec::with_capacity(usize::from(*largest) + 1);
    for _ in 0..=*largest {
        let zigzag = bits.read_unary()?;
        digits += (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        if !(0..=63).contains(&digits) {
            return Err(Error::Frame("a table of symbols has a count that cannot be".into()));
        }
        if digits == 0 {
            weights.push(0);
            continue;
        }
        let kept = (digits as u32 - 1).min(MANTISSA_BITS);
        weights.push(of_parts(digits as u32, bits.read(kept)?, kept));
    }
    bits.finish()?;
    Ok(weights)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::rng::{PortableDraws, Purpose, Streams};

    /// Returns the entropy of order 0 of all symbols together, in bytes.
    fn entropy_bytes(symbols: &[u8]) -> f64 {
        let mut counts = [0.0f64; 256];
        symbols.iter().for_each(|symbol| counts[usize::from(*symbol)] += 1.0);
        let all = symbols.len() as f64;
        counts.iter().filter(|count| **count > 0.0).map(|count| -count * (count / all).log2()).sum::<f64>() / 8.0
    }

    proptest! {
        /// If this fails, a receiver reads other symbols than were written.
        #[test]
        fn symbols_come_back(symbols in prop::collection::vec(any::<u8>(), 1..600), most in 1u8..=255) {
            let symbols: Vec<u8> = symbols.into_iter().map(|symbol| symbol % most).collect();
            let (mut code, mut back) = (Vec::new(), Vec::new());
            write(&symbols, &mut code);
            read(&code, symbols.len(), &mut back).unwrap();
            prop_assert_eq!(&back, &symbols);
            back.clear();
            prop_assert!(read(&[&code[..], &[0]].concat(), symbols.len(), &mut back).is_err());
            prop_assert!(read(&code[..code.len() - 1], symbols.len(), &mut back).is_err());
        }

        /// If this fails, a hostile frame crashes its receiver or gives it more than it has room for.
        #[test]
        fn any_bytes_are_read_or_refused(code in prop::collection::vec(any::<u8>(), 0..200), count in 0usize..300) {
            let mut symbols = Vec::new();
            let _ = read(&code, count, &mut symbols);
            prop_assert!(symbols.len() <= count);
        }
    }

    /// If this fails, symbols take more bytes than their frequencies allow: 3 % from 20,000 symbols on, and 64 bytes
    /// below that for alphabets of up to sixteen.
    #[test]
    fn symbols_take_hardly_more_than_their_entropy() {
        let mut stream = Streams::new(1).stream(Purpose::Line, 0, 0);
        for count in [100, 1_000, 12_800, 20_000, 200_000] {
            for deviation in [0.3, 0.8, 3.0, 35.0] {
                let steps = |stream: &mut crate::rng::Stream| (deviation * stream.standard_normal()).round() as i64;
                let symbols: Vec<u8> = (0..count)
                    .map(|_| super::super::values::symbol_of(steps(&mut stream).clamp(-127, 127)) as u8)
                    .collect();
                let mut code = Vec::new();
                write(&symbols, &mut code);
                let (length, entropy) = (code.len() as f64, entropy_bytes(&symbols));
                let alphabet = symbols.iter().max().map_or(0, |largest| u32::from(*largest) + 1);
                let is_near = if count >= 20_000 { length <= 1.03 * entropy } else { length <= entropy + 64.0 };
                assert!(
                    is_near || (count < 20_000 && alphabet > 16),
                    "{count} symbols of {alphabet}: {length} for {entropy}"
                );
            }
        }
    }
}
