//! Reads and writes strings of bits. A byte is filled from its least significant bit, and unused
//! bits of the last byte are 0.

use fedrecsim_core::error::Result;

/// Writes bits behind the bytes of a buffer.
#[derive(Debug)]
pub(super) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// The bits that do not fill a byte yet.
    pending: u64,
    /// The number of pending bits, which is less than eight between calls.
    count: u32,
}

impl<'a> BitWriter<'a> {
    /// Starts behind what `out` holds.
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            pending: 0,
            count: 0,
        }
    }

    /// Writes the lowest `bits` bits of `value`, at most 32. All other bits must be 0.
    #[inline]
    pub(crate) fn write(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= 32 && value >> bits == 0);
        self.pending |= value << self.count;
        self.count += bits;
        while self.count >= 8 {
            self.out.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    /// Writes `ones` bits 1 and a bit 0.
    #[inline]
    pub(crate) fn write_unary(&mut self, ones: u64) {
        let mut left = ones;
        while left >= 32 {
            self.write(u64::from(u32::MAX), 32);
            left -= 32;
        }
        self.write((1 << left) - 1, left as u32 + 1);
    }

    /// Fills the last byte.
    pub(crate) fn finish(self) {
        if self.count > 0 {
            self.out.push(self.pending as u8);
        }
    }
}

/// Reads bits from the front of some bytes.
#[derive(Debug)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// The number of bits read.
    at: usize,
}

impl<'a> BitReader<'a> {
    /// Starts at the first bit of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the next 64 bits. Bits after the last byte are 0.
    #[inline]
    fn peek(&self) -> u64 {
        let (start, shift) = (self.at / 8, self.at % 8);
        let word = |start: usize| {
            let mut word = [0; 8];
            let rest = self.bytes.get(start..).unwrap_or_default();
            let rest = &rest[..rest.len().min(8)];
            word[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(word)
        };
        let low = word(start) >> shift;
        if shift == 0 {
            low
        } else {
            low | u64::from(self.bytes.get(start + 8).copied().unwrap_or(0)) << (64 - shift)
        }
    }

    fn advance(&mut self, bits: usize) -> Result<()> {
        self.at += bits;
        if self.at > 8 * self.bytes.len() {
            refuse!("a string of bits ends too early");
        }
        Ok(())
    }

    /// Takes `bits` bits, at most 32.
    ///
    /// # Errors
    /// [`Error::Frame`] if there are fewer.
    #[inline]
    pub(crate) fn read(&mut self, bits: u32) -> Result<u64> {
        let value = self.peek() & ((1 << bits) - 1);
        self.advance(bits as usize)?;
        Ok(value)
    }

    /// Takes bits 1 and the bit 0 that ends them, and returns the number of bits 1.
    ///
    /// # Errors
    /// [`Error::Frame`] if no bit 0 follows.
    #[inline]
    pub(crate) fn read_unary(&mut self) -> Result<u64> {
        let mut ones = 0;
        loop {
            // At least 57 of these bits are bits of the string, unless it ends before.
            let run = self.peek().trailing_ones().min(56);
            ones += u64::from(run);
            if run < 56 {
                self.advance(run as usize + 1)?;
                return Ok(ones);
            }
            self.advance(56)?;
        }
    }

    /// Checks that less than a byte is left, and that its bits are 0.
    ///
    /// # Errors
    /// [`Error::Frame`] if more is left.
    pub(crate) fn finish(self) -> Result<()> {
        if 8 * self.bytes.len() - self.at >= 8 || self.peek() != 0 {
            refuse!("a string of bits is followed by others");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// If this fails, what is written with bits is not what is read.
        #[test]
        fn strings_of_bits_come_back(parts in prop::collection::vec((any::<u32>(), 0u32..=32, 0u64..200), 0..50)) {
            let mut bytes = vec![7];
            let mut writer = BitWriter::new(&mut bytes);
            for (value, bits, ones) in &parts {
                writer.write(u64::from(*value) & ((1 << bits) - 1), *bits);
                writer.write_unary(*ones);
            }
            writer.finish();
            let bits: u64 = parts.iter().map(|(_, bits, ones)| u64::from(*bits) + ones + 1).sum();
            prop_assert_eq!(bytes.len() as u64, 1 + bits.div_ceil(8));
            let mut reader = BitReader::new(&bytes[1..]);
            for (value, bits, ones) in &parts {
                prop_assert_eq!(reader.read(*bits).unwrap(), u64::from(*value) & ((1 << bits) - 1));
                prop_assert_eq!(reader.read_unary().unwrap(), *ones);
            }
            reader.finish().unwrap();
        }
    }

    #[test]
    fn what_is_missing_or_left_over_is_refused() {
        assert!(
            BitReader::new(&[0xff])
                .read_unary()
                .unwrap_err()
                .to_string()
                .contains("too early")
        );
        assert!(
            BitReader::new(&[])
                .read(1)
                .unwrap_err()
                .to_string()
                .contains("too early")
        );
        let left = |bytes: &[u8], bits| {
            let mut reader = BitReader::new(bytes);
            reader.read(bits).unwrap();
            reader.finish().is_err()
        };
        assert!(left(&[0b100], 2) && left(&[0, 0], 8) && !left(&[0b11], 2) && !left(&[1, 0], 16));
    }
}
