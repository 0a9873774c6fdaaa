//! Codes a list of symbols with an [asymmetric numeral system](super::ans). The table of their
//! frequencies is sent with them.
//!
//! The code begins with the number of bytes of the table (u16, little-endian). The table lists the
//! count of each symbol, up to the largest one used, as a float with 3 bits of mantissa. Sender and
//! receiver turn these into the same probabilities, with integers alone. The words of the coder's
//! state follow.
//!
//! If the symbols are nearly uniform, or if their code would not be shorter, the table is empty and
//! the symbols follow uncoded.

use super::ans::{self, Decoder, MOST_WEIGHT, Probabilities};
use super::bits::{BitReader, BitWriter};
use super::varint::{signed, unsigned};
use fedrecsim_core::error::{Error, Result};

/// The bits of a count behind its leading one that the table keeps.
const MANTISSA_BITS: u32 = 3;

/// The bytes of the length of the table.
const LENGTH_BYTES: usize = 2;

/// Symbols count as uniform if the probability that two of them are equal is at most this many
/// thousandths of 1/256. Their entropy is then at least 7.9 bits, since it is no less than Renyi's
/// entropy of order 2.
const NEARLY_UNIFORM: u128 = 1072;

/// Returns the bits of a count behind the leading one that the table keeps, and how many there are.
fn mantissa(count: u64) -> (u64, u32) {
    let exponent = count.max(1).ilog2();
    let bits = exponent.min(MANTISSA_BITS);
    ((count >> (exponent - bits)) & ((1 << bits) - 1), bits)
}

/// Appends the rounded counts of the symbols, and returns them as a reader sees them.
fn write_table(counts: &[u64], out: &mut Vec<u8>) -> Vec<u64> {
    out.push((counts.len() - 1) as u8);
    let mut bits = BitWriter::new(out);
    let mut before = 0i64;
    let mut rounded = Vec::with_capacity(counts.len());
    for &count in counts {
        // The number of binary digits, which is 0 for a symbol that does not occur.
        let digits = i64::from(u64::BITS - count.leading_zeros());
        bits.write_unary(unsigned(digits - before));
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

/// Returns the number with `digits` binary digits that begin with a one and `mantissa`.
fn of_parts(digits: u32, mantissa: u64, kept: u32) -> u64 {
    let exponent = digits - 1;
    (1 << exponent) | mantissa << (exponent - kept)
}

/// Appends the code of `symbols`, at least one.
pub(super) fn write(symbols: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; LENGTH_BYTES]);
    let counts = counts_of(symbols);
    if !are_nearly_uniform(&counts, symbols.len()) {
        write_coded(symbols, &counts, out);
        if out.len() < start + LENGTH_BYTES + symbols.len() {
            return;
        }
        out.truncate(start);
        out.extend([0; LENGTH_BYTES]);
    }
    out.extend_from_slice(symbols);
}

/// Returns how often each symbol occurs.
fn counts_of(symbols: &[u8]) -> [u64; 256] {
    // Four counts of each symbol, so that an addition need not wait for the one before it.
    let mut counts = [[0u32; 256]; 4];
    let (fours, rest) = symbols.as_chunks::<4>();
    for four in fours {
        for (counts, symbol) in counts.iter_mut().zip(four) {
            counts[usize::from(*symbol)] += 1;
        }
    }
    rest.iter()
        .for_each(|symbol| counts[0][usize::from(*symbol)] += 1);
    std::array::from_fn(|symbol| counts.iter().map(|counts| u64::from(counts[symbol])).sum())
}

/// Returns whether symbols with these counts are nearly uniform.
fn are_nearly_uniform(counts: &[u64; 256], symbols: usize) -> bool {
    // The number of ordered pairs of equal symbols.
    let same: u128 = counts
        .iter()
        .map(|count| u128::from(*count) * u128::from(count.saturating_sub(1)))
        .sum();
    let pairs = symbols as u128 * (symbols as u128 - 1);
    256 * 1000 * same <= NEARLY_UNIFORM * pairs
}

/// Writes the length of the table into the last bytes of `out`, and appends table and words. Stops
/// early if the table alone is as long as the symbols.
fn write_coded(symbols: &[u8], counts: &[u64; 256], out: &mut Vec<u8>) {
    let start = out.len();
    let largest = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
    let table = write_table(&counts[..=largest], out);
    let table_bytes = out.len() - start;
    if table_bytes >= symbols.len() {
        return;
    }
    out[start - LENGTH_BYTES..start].copy_from_slice(&(table_bytes as u16).to_le_bytes());
    // There is a symbol, so the table has a weight; `Probabilities::of` explains why all symbols
    // get a probability.
    #[allow(clippy::expect_used)]
    let probabilities = Probabilities::of(&table).expect("symbols that occur have probabilities");
    ans::encode(symbols, &probabilities, out);
}

/// Reads `count` symbols.
///
/// # Errors
/// [`Error::Frame`] for anything but a code of `count` symbols.
pub(super) fn read(code: &[u8], count: usize, out: &mut Vec<u8>) -> Result<()> {
    let refuse = |reason: &str| Err(Error::Frame(format!("a list of symbols {reason}")));
    let Some((table_bytes, code)) = code.split_first_chunk::<LENGTH_BYTES>() else {
        return refuse("is cut off");
    };
    let table_bytes = usize::from(u16::from_le_bytes(*table_bytes));
    if table_bytes == 0 {
        if code.len() != count {
            return refuse("has more or fewer of them than it needs");
        }
        out.extend_from_slice(code);
        return Ok(());
    }
    let Some((table, words)) = code.split_at_checked(table_bytes) else {
        return refuse("is cut off within its table");
    };
    let weights = read_table(table)?;
    let Some(probabilities) = Probabilities::of(&weights) else {
        return refuse("has a table without probabilities");
    };
    let (words, rest) = words.as_chunks();
    if !rest.is_empty() {
        return refuse("has bytes left over");
    }
    let words = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let mut decoder = Decoder::new(words, &probabilities)?;
    out.extend((0..count).map(|_| decoder.symbol()));
    decoder.finish()
}

fn read_table(table: &[u8]) -> Result<Vec<u64>> {
    let Some((largest, table)) = table.split_first() else {
        refuse!("a list of symbols has an empty table");
    };
    let mut bits = BitReader::new(table);
    let mut digits = 0i64;
    let mut weights = Vec::with_capacity(usize::from(*largest) + 1);
    for _ in 0..=*largest {
        digits += signed(bits.read_unary()?);
        if !(0..=i64::from(MOST_WEIGHT.ilog2())).contains(&digits) {
            refuse!("a table of symbols has a count that cannot be");
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
    use rand::Rng;

    use super::*;
    use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};

    /// Returns the entropy of order 0 of all symbols together, in bytes.
    fn entropy_bytes(symbols: &[u8]) -> f64 {
        let mut counts = [0.0f64; 256];
        symbols
            .iter()
            .for_each(|symbol| counts[usize::from(*symbol)] += 1.0);
        let all = symbols.len() as f64;
        counts
            .iter()
            .filter(|count| **count > 0.0)
            .map(|count| -count * (count / all).log2())
            .sum::<f64>()
            / 8.0
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

        /// If this fails, a hostile frame crashes its receiver or gives it more than it has room
        /// for.
        #[test]
        fn any_bytes_are_read_or_refused(code in prop::collection::vec(any::<u8>(), 0..200), count in 0usize..300) {
            let mut symbols = Vec::new();
            let _ = read(&code, count, &mut symbols);
            prop_assert!(symbols.len() <= count);
        }
    }

    /// If this fails, time is spent on symbols that cannot become shorter, or symbols become longer
    /// than they are; or a receiver takes what is cut off.
    #[test]
    fn symbols_without_redundancy_are_sent_as_they_are() {
        let mut stream = Streams::new(1).stream(Purpose::Line, 0, 0);
        let noise: Vec<u8> = (0..50_000).map(|_| stream.next_u32() as u8).collect();
        let of_code = |symbols: &[u8]| {
            let mut code = vec![7];
            write(symbols, &mut code);
            code.split_off(1)
        };
        for count in [1, 2, 10, 300, 50_000] {
            let code = of_code(&noise[..count]);
            assert_eq!(code, [&[0, 0], &noise[..count]].concat());
            assert!(read(&code[..code.len() - 1], count, &mut Vec::new()).is_err());
        }
        // One value in ten is another one than would be uniform, which is worth a tenth of a bit in
        // eight.
        let most: Vec<u8> = noise
            .iter()
            .map(|symbol| if *symbol < 26 { 0 } else { *symbol })
            .collect();
        assert!(of_code(&most).len() < 48_500);
    }

    /// If this fails, symbols take more bytes than their frequencies allow: 3 % from 20,000 symbols
    /// on, and 64 bytes below that for alphabets of up to sixteen.
    #[test]
    fn symbols_take_hardly_more_than_their_entropy() {
        let mut stream = Streams::new(1).stream(Purpose::Line, 0, 0);
        for count in [100, 1_000, 12_800, 20_000, 200_000] {
            for deviation in [0.3, 0.8, 3.0, 35.0] {
                let steps = |stream: &mut fedrecsim_core::rng::Stream| {
                    (deviation * stream.standard_normal()).round() as i64
                };
                let symbols: Vec<u8> = (0..count)
                    .map(|_| unsigned(steps(&mut stream).clamp(-127, 127)) as u8)
                    .collect();
                let mut code = Vec::new();
                write(&symbols, &mut code);
                let (length, entropy) = (code.len() as f64, entropy_bytes(&symbols));
                let alphabet = symbols
                    .iter()
                    .max()
                    .map_or(0, |largest| u32::from(*largest) + 1);
                let is_near = if count >= 20_000 {
                    length <= 1.03 * entropy
                } else {
                    length <= entropy + 64.0
                };
                assert!(
                    is_near || (count < 20_000 && alphabet > 16),
                    "{count} symbols of {alphabet}: {length} for {entropy}"
                );
            }
        }
    }
}
