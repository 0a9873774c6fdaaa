//! Draws from a fixed discrete distribution in constant time.

use rand::Rng;

/// Walker's alias table, built by Vose's method (1991, IEEE Transactions on Software Engineering
/// 17, 972-975).
#[derive(Clone, Debug)]
pub struct AliasTable {
    /// For each column, the column is drawn below this threshold (of 2^64), and its alias
    /// otherwise.
    columns: Vec<(u64, u32)>,
}

impl AliasTable {
    /// Builds the table for `weights`, at least one, all positive and finite.
    pub fn new(weights: &[f64]) -> Self {
        const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        let mut heights: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let mut columns: Vec<(u64, u32)> = (0..weights.len() as u32)
            .map(|column| (u64::MAX, column))
            .collect();
        let (mut low, mut high): (Vec<usize>, Vec<usize>) =
            (0..weights.len()).partition(|&column| heights[column] < 1.0);
        while let (Some(&lower), Some(&higher)) = (low.last(), high.last()) {
            low.pop();
            // `as` saturates, and a height below 1 keeps the product within 64 bits.
            columns[lower] = ((heights[lower] * TWO_TO_64) as u64, higher as u32);
            heights[higher] -= 1.0 - heights[lower];
            if heights[higher] < 1.0 {
                high.pop();
                low.push(higher);
            }
        }
        Self { columns }
    }

    /// Draws an index into the weights.
    pub fn draw(&self, stream: &mut impl Rng) -> u32 {
        // The high word of the product is a uniform column, the low word a uniform height in it.
        let product = u128::from(stream.next_u64()) * self.columns.len() as u128;
        let (column, height) = ((product >> 64) as u32, product as u64);
        let (threshold, alias) = self.columns[column as usize];
        if height < threshold { column } else { alias }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::{Purpose, Streams};

    #[test]
    fn draws_follow_the_weights() {
        let weights = [5.0, 0.01, 1.0, 3.0, 0.99];
        let table = AliasTable::new(&weights);
        let mut stream = Streams::new(3).stream(Purpose::GeneratedItems, 0, 0);
        let mut counts = [0.0; 5];
        for _ in 0..100_000 {
            counts[table.draw(&mut stream) as usize] += 1.0;
        }
        for (count, weight) in counts.iter().zip(weights) {
            let expected: f64 = weight * 10_000.0;
            // The tolerance is five standard deviations of a count.
            assert!(
                (count - expected).abs() < 5.0 * expected.sqrt(),
                "{counts:?}"
            );
        }
    }

    /// A generator that returns the same word again and again.
    struct Constant(u64);

    impl rand::TryRng for Constant {
        type Error = std::convert::Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Ok(self.0 as u32)
        }

        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(self.0)
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            bytes.fill(self.0 as u8);
            Ok(())
        }
    }

    #[test]
    fn a_column_is_kept_below_its_threshold_and_not_at_it() {
        // The heights are 0.5 and 1.5, so the first half of the first column is item 0 and
        // everything else item 1. A word w is column 2w / 2^64 at the height 2w mod 2^64.
        let table = AliasTable::new(&[1.0, 3.0]);
        let drawn = [0, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, u64::MAX]
            .map(|word| table.draw(&mut Constant(word)));
        assert_eq!(drawn, [0, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn one_column_is_always_drawn() {
        let mut stream = Streams::new(3).stream(Purpose::GeneratedItems, 0, 0);
        assert_eq!(AliasTable::new(&[2.0]).draw(&mut stream), 0);
    }
}
