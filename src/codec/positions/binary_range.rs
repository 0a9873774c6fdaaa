//! A range coder for decisions between two outcomes, without a division (Martin 1979, with the carry of Schindler 1998).
//!
//! The code is a number between 0 and 1 that lies in an interval, which each decision makes smaller in proportion to the
//! probability of its outcome. Of all numbers in the last interval the code is the one with the fewest bytes; bytes
//! behind its end are 0.

/// The bits of a probability.
pub(super) const PRECISION: u32 = 15;

/// The probability 1.
pub(super) const CERTAIN: u32 = 1 << PRECISION;

/// The least width of an interval between two decisions. Below it, a byte of the interval is certain.
const LEAST_RANGE: u32 = 1 << 24;

/// Appends a code to a buffer.
#[derive(Debug)]
pub(super) struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    /// The length of what the buffer held before.
    start: usize,
    /// The lower end of the interval, behind the bytes that are written.
    low: u32,
    range: u32,
}

impl<'a> Encoder<'a> {
    /// Begins a code behind what `out` holds.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start, low: 0, range: u32::MAX }
    }

    /// Encodes an outcome. `probability` is that of `true`, in units of 2^-15, and neither 0 nor 1.
    #[inline]
    pub fn encode(&mut self, outcome: bool, probability: u32) {
        let bound = (self.range >> PRECISION) * probability;
        let (skipped, range) = if outcome { (0, bound) } else { (bound, self.range - bound) };
        self.narrow(skipped, range);
    }

    /// Encodes the lowest `count` bits of `bits`, of which there are at most 14 and which are as likely as any others.
    #[inline]
    pub fn encode_bits(&mut self, bits: u32, count: u32) {
        let range = self.range >> count;
        self.narrow(range * (bits & ((1 << count) - 1)), range);
    }

    /// Goes over to the interval of this width that begins behind what is skipped.
    #[inline]
    fn narrow(&mut self, skipped: u32, range: u32) {
        let carries;
        (self.low, carries) = self.low.overflowing_add(skipped);
        if carries {
            self.carry();
        }
        self.range = range;
        while self.range < LEAST_RANGE {
            self.out.push((self.low >> 24) as u8);
            self.low <<= 8;
            self.range <<= 8;
        }
    }

    /// Adds 1 to the bytes that are written. The number is less than 1, so that one of them is not 255.
    #[cold]
    fn carry(&mut self) {
        for byte in self.out[self.start..].iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
    }

    /// Ends the code.
    pub fn finish(mut self) {
        for bytes in 0..=4u32 {
            let below = u64::from(u32::MAX) >> (8 * bytes);
            let number = (u64::from(self.low) + below) & !below;
            if number < u64::from(self.low) + u64::from(self.range) {
                if number > u64::from(u32::MAX) {
                    self.carry();
                }
                self.out.extend_from_slice(&(number as u32).to_be_bytes()[..bytes as usize]);
                break;
            }
        }
        while self.out.len() > self.start && self.out.last() == Some(&0) {
            self.out.pop();
        }
    }
}

/// Reads a code.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    rest: std::slice::Iter<'a, u8>,
    /// What the code is above the lower end of the interval.
    above: u32,
    range: u32,
}

impl<'a> Decoder<'a> {
    /// Begins with the first byte of `code`.
    pub fn new(code: &'a [u8]) -> Self {
        let mut decoder = Self { rest: code.iter(), above: 0, range: u32::MAX };
        (0..4).for_each(|_| decoder.above = decoder.above << 8 | decoder.next_byte());
        decoder
    }

    #[inline]
    fn next_byte(&mut self) -> u32 {
        u32::from(self.rest.next().copied().unwrap_or(0))
    }

    /// Decodes an outcome. `probability` is that of `true`, in units of 2^-15, and neither 0 nor 1.
    #[inline]
    pub fn decode(&mut self, probability: u32) -> bool {
        let bound = (self.range >> PRECISION) * probability;
        let outcome = self.above < bound;
        let (skipped, range) = if outcome { (0, bound) } else { (bound, self.range - bound) };
        self.narrow(skipped, range);
        outcome
    }

    /// Decodes `count` bits, at most 14.
    #[inline]
    pub fn decode_bits(&mut self, count: u32) -> u32 {
        let range = self.range >> count;
        // A damaged code may lie above the last of the intervals.
        let bits = (self.above / range).min((1 << count) - 1);
        self.narrow(range * bits, range);
        bits
    }

    #[inline]
    fn narrow(&mut self, skipped: u32, range: u32) {
        self.above = self.above.wrapping_sub(skipped);
        self.range = range;
        while self.range < LEAST_RANGE {
            self.above = self.above << 8 | self.next_byte();
            self.range <<= 8;
        }
    }

    /// Returns whether no byte of the code is left.
    pub fn has_read_all(&self) -> bool {
        self.rest.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// If this fails, a receiver reads other decisions than were sent, or a code is longer than their probabilities
        /// are worth.
        #[test]
        fn decisions_come_back_in_as_many_bits_as_they_are_worth(
            decisions in prop::collection::vec((any::<bool>(), 1..CERTAIN, 0u32..15, any::<u32>()), 0..400),
        ) {
            let mut out = vec![255; 3];
            let mut encoder = Encoder::new(&mut out);
            let mut worth_bits = 0.0;
            for &(outcome, probability, count, bits) in &decisions {
                encoder.encode(outcome, probability);
                encoder.encode_bits(bits, count);
                let probability = f64::from(probability) / f64::from(CERTAIN);
                worth_bits += f64::from(count) - crate::math::ln(if outcome { probability } else { 1.0 - probability })
                    / std::f64::consts::LN_2;
            }
            encoder.finish();
            prop_assert_eq!(&out[..3], [255; 3], "what was there before has changed");
            let most = worth_bits / 8.0 * 1.001 + 0.002 * decisions.len() as f64 + 2.0;
            prop_assert!((out.len() - 3) as f64 <= most, "{} bytes for {worth_bits} bits", out.len() - 3);
            let mut decoder = Decoder::new(&out[3..]);
            for &(outcome, probability, count, bits) in &decisions {
                prop_assert_eq!(decoder.decode(probability), outcome);
                prop_assert_eq!(decoder.decode_bits(count), bits & ((1 << count) - 1));
            }
            prop_assert!(decoder.has_read_all());
        }
    }

    /// If this fails, a carry stops too early, or reaches what stands before the code.
    #[test]
    fn a_carry_runs_through_all_bytes_of_255() {
        for (start, before, after) in [(0, [7, 255, 255], [8, 0, 0, 0]), (1, [255, 9, 255], [255, 10, 0, 0])] {
            let mut out = before.to_vec();
            let mut encoder = Encoder { out: &mut out, start, low: u32::MAX, range: u32::MAX };
            encoder.narrow(1, LEAST_RANGE - 1);
            assert_eq!(encoder.low, 0);
            assert_eq!(out, after);
        }
    }
}
