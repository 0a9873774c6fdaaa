//! Codes symbols of one byte with an asymmetric numeral system (Duda 2009), by probabilities that
//! sender and receiver both know.
//!
//! The code is the state of the coder, in words of 32 bits. It is about as long as the
//! probabilities say, and less than two words longer.

use std::borrow::Borrow;
use std::num::NonZero;

use constriction::backends::Cursor;
use constriction::stream::model::{DecoderModel, EncoderModel, EntropyModel};
use constriction::stream::stack::AnsCoder;
use constriction::stream::{Decode, Encode};

use fedrecsim_core::error::{Error, Result};

/// The bits of a probability.
pub(super) const PRECISION: usize = 14;
const TOTAL: u32 = 1 << PRECISION;

/// The largest weight of a symbol, so that no sum overflows.
pub(super) const MOST_WEIGHT: u64 = 1 << 40;

/// The number of symbols that a byte can be.
const SYMBOLS: usize = 256;

/// The bytes of a word of the code.
pub(super) const WORD_BYTES: usize = size_of::<u32>();

/// The probability of each symbol, in units of 2^-14, and what comes before it.
#[derive(Debug)]
pub(super) struct Probabilities {
    /// The sum of the probabilities of all smaller symbols, and the symbol's own.
    parts: [(u16, u16); SYMBOLS],
}

impl Probabilities {
    /// Returns probabilities that are nearly proportional to `weights`: at most 256, each at most
    /// [`MOST_WEIGHT`]. A symbol of weight 0 has none. Returns `None` if no symbol
    /// has a weight.
    pub(crate) fn of(weights: &[u64]) -> Option<Self> {
        debug_assert!(
            weights.len() <= SYMBOLS && weights.iter().all(|weight| *weight <= MOST_WEIGHT)
        );
        let sum: u64 = weights.iter().sum();
        if sum == 0 {
            return None;
        }
        Self::of_shares(weights, |weight| (weight * u64::from(TOTAL) / sum) as u32)
    }

    /// Returns the same for a function `share` that gives each weight's share of the sum, in units
    /// of 2^-14 and rounded down.
    pub(crate) fn of_shares(weights: &[u64], share: impl Fn(u64) -> u32) -> Option<Self> {
        let most = weights
            .iter()
            .enumerate()
            .max_by_key(|(place, weight)| (**weight, usize::MAX - place))?
            .0;
        // At most 256 symbols take 1 or more each, and rounding down leaves something over, which
        // goes to the first of the most frequent symbols. Where the least probabilities take more
        // than there is, that symbol gives. It can: t least ones among n symbols take at most t too
        // much, the greatest of the others has about 2^14 / (n - t) or more, and t (n - t) is at
        // most 128^2 = 2^14.
        let mut own = [0; SYMBOLS];
        for (own, weight) in own
            .iter_mut()
            .zip(weights)
            .filter(|(_, weight)| **weight > 0)
        {
            *own = share(*weight).max(1);
        }
        let total: u32 = own.iter().sum();
        own[most] = (own[most] + TOTAL)
            .checked_sub(total)
            .filter(|left| *left > 0)?;
        let mut left = 0;
        let parts = own.map(|own| {
            left += own;
            ((left - own) as u16, own as u16)
        });
        Some(Self { parts })
    }
}

impl EntropyModel<PRECISION> for Probabilities {
    type Symbol = u8;
    type Probability = u16;
}

impl EncoderModel<PRECISION> for Probabilities {
    #[inline]
    fn left_cumulative_and_probability(
        &self,
        symbol: impl Borrow<u8>,
    ) -> Option<(u16, NonZero<u16>)> {
        let (left, own) = self.parts[usize::from(*symbol.borrow())];
        Some((left, NonZero::new(own)?))
    }
}

/// Appends the code of `symbols`, which all have a probability.
pub(super) fn encode(symbols: &[u8], probabilities: &Probabilities, out: &mut Vec<u8>) {
    let mut coder: AnsCoder<u32, u64> =
        AnsCoder::with_write_backend(Vec::with_capacity(symbols.len() / 4 + 2));
    for symbol in symbols.iter().rev() {
        let encoded = coder.encode_symbol(*symbol, probabilities);
        debug_assert!(encoded.is_ok());
    }
    let Ok(words) = coder.into_compressed();
    out.reserve(WORD_BYTES * words.len());
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// Decodes symbols by their probabilities.
struct Quantiles<'a> {
    probabilities: &'a Probabilities,
    /// The symbol of every quantile.
    symbols: Box<[u8; TOTAL as usize]>,
}

impl<'a> Quantiles<'a> {
    fn of(probabilities: &'a Probabilities) -> Self {
        let mut symbols = Box::new([0; TOTAL as usize]);
        let mut rest = &mut symbols[..];
        for (symbol, (_, own)) in probabilities.parts.iter().enumerate() {
            let own_part;
            (own_part, rest) = rest.split_at_mut(usize::from(*own));
            own_part.fill(symbol as u8);
        }
        Self {
            probabilities,
            symbols,
        }
    }
}

impl EntropyModel<PRECISION> for Quantiles<'_> {
    type Symbol = u8;
    type Probability = u16;
}

impl DecoderModel<PRECISION> for Quantiles<'_> {
    #[inline]
    fn quantile_function(&self, quantile: u16) -> (u8, u16, NonZero<u16>) {
        let symbol = self.symbols[usize::from(quantile) % TOTAL as usize];
        let (left, own) = self.probabilities.parts[usize::from(symbol)];
        (
            symbol,
            left,
            NonZero::new(own).unwrap_or(NonZero::<u16>::MIN),
        )
    }
}

/// Decodes symbols one after the other.
pub(super) struct Decoder<'a> {
    coder: AnsCoder<u32, u64, Cursor<u32, Vec<u32>>>,
    quantiles: Quantiles<'a>,
}

impl<'a> Decoder<'a> {
    /// Starts in front of the first symbol of the code in `words`.
    ///
    /// # Errors
    /// [`Error::Frame`] if no code ends like that.
    pub(crate) fn new(words: Vec<u32>, probabilities: &'a Probabilities) -> Result<Self> {
        match AnsCoder::from_compressed(Cursor::new_at_write_end(words)) {
            Ok(coder) => Ok(Self {
                coder,
                quantiles: Quantiles::of(probabilities),
            }),
            Err(_) => Err(Error::Frame("a code of symbols has no sound state".into())),
        }
    }

    /// Returns the next symbol. After the end of the code, the result is arbitrary.
    #[inline]
    pub(crate) fn symbol(&mut self) -> u8 {
        let Ok(symbol) = self.coder.decode_symbol(&self.quantiles);
        symbol
    }

    /// Checks that the code has no other symbols than those that were read.
    ///
    /// # Errors
    /// [`Error::Frame`] if it has.
    pub(crate) fn finish(self) -> Result<()> {
        if self.coder.is_empty() {
            return Ok(());
        }
        Err(Error::Frame(
            "a code of symbols is followed by others".into(),
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// If this fails, a receiver reads other symbols than were sent, some weights leave a
        /// symbol without a probability, or a code is longer than the probabilities are worth.
        #[test]
        fn symbols_come_back_by_any_weights(
            weights in prop::collection::vec(prop_oneof![Just(0), 1..100u64, 1..=MOST_WEIGHT], 1..=256),
            chosen in prop::collection::vec(any::<prop::sample::Index>(), 0..300),
        ) {
            let held: Vec<u8> = (0..=255).zip(&weights).filter(|(_, weight)| **weight > 0).map(|(held, _)| held).collect();
            let probabilities = Probabilities::of(&weights);
            prop_assert_eq!(probabilities.is_none(), held.is_empty());
            let Some(probabilities) = probabilities else { return Ok(()) };
            let symbols: Vec<u8> = chosen.iter().map(|chosen| *chosen.get(&held)).collect();
            let mut code = Vec::new();
            encode(&symbols, &probabilities, &mut code);
            let own = |symbol: &u8| f64::from(probabilities.parts[usize::from(*symbol)].1) / f64::from(TOTAL);
            let worth_bits: f64 = symbols.iter().map(|symbol| -own(symbol).log2()).sum();
            let most = worth_bits / 8.0 * 1.001 + 6.0;
            prop_assert!(code.len() as f64 <= most, "{} bytes for {worth_bits} bits", code.len());
            let words: Vec<u32> = code.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
            let mut decoder = Decoder::new(words, &probabilities).unwrap();
            prop_assert!(symbols.iter().all(|symbol| decoder.symbol() == *symbol));
            decoder.finish().unwrap();
        }
    }
}
