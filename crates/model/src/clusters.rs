//! Finds clusters of rows by k-means (Lloyd), from centres that are drawn by their distances (Arthur
//! and Vassilvitskii, k-means++, SODA 2007).

use fedrecsim_core::Stream;
use fedrecsim_core::rng::PortableDraws;

/// What a search has found, and how it got there.
#[derive(Clone, Debug)]
pub struct Clusters {
    /// The centres, one after the other: as many as were asked for, and no more than rows.
    pub centres: Vec<f64>,
    /// The number of each row's nearest centre, the first of equal ones.
    pub labels: Vec<u32>,
    /// The sum of the squared distances of rows from their centres.
    pub spread: f64,
    /// The multiply-adds of the search.
    pub multiply_adds: u64,
}

/// Puts `rows` of `k` values each into so many `clusters`. Centres move at most `moves` times, and
/// otherwise until no row changes its cluster.
pub fn clusters(
    rows: &[f64],
    k: usize,
    clusters: usize,
    moves: usize,
    stream: &mut Stream,
) -> Clusters {
    let count = rows.len() / k.max(1);
    let mut found = Clusters {
        centres: Vec::new(),
        labels: vec![0; count],
        spread: 0.0,
        multiply_adds: 0,
    };
    let clusters = clusters.min(count);
    if clusters > 0 {
        found.draw_centres(rows, k, clusters, stream);
        found.assign(rows, k);
        for _ in 0..moves {
            found.move_centres(rows, k);
            if !found.assign(rows, k) {
                break;
            }
        }
    }
    found
}

/// The number of partial sums, so that no addition waits for the one before it.
const SUMS: usize = 8;

fn squared_distance(one: &[f64], other: &[f64]) -> f64 {
    let mut sums = [0.0; SUMS];
    let ((ones, one), (others, other)) = (one.as_chunks::<SUMS>(), other.as_chunks::<SUMS>());
    for (one, other) in ones.iter().zip(others) {
        for (sum, (a, b)) in sums.iter_mut().zip(one.iter().zip(other)) {
            *sum += (a - b) * (a - b);
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(one.iter().zip(other)) {
        *sum += (a - b) * (a - b);
    }
    sums.iter().sum()
}

impl Clusters {
    /// Draws the centres: each is a row, by its squared distance from the centres before.
    fn draw_centres(&mut self, rows: &[f64], k: usize, clusters: usize, stream: &mut Stream) {
        let first = stream.below(self.labels.len() as u32) as usize;
        self.centres.extend_from_slice(&rows[first * k..][..k]);
        let mut least = vec![f64::INFINITY; self.labels.len()];
        while self.centres.len() < clusters * k {
            let newest = &self.centres[self.centres.len() - k..];
            for (row, least) in rows.chunks_exact(k).zip(&mut least) {
                *least = least.min(squared_distance(row, newest));
            }
            let drawn = stream.open_unit() * least.iter().sum::<f64>();
            let mut before = 0.0;
            let passes = least.iter().position(|distance| {
                before += distance;
                before > drawn
            });
            // If all rows are centres, any will do.
            let next = passes.unwrap_or(0);
            self.centres.extend_from_slice(&rows[next * k..][..k]);
        }
        self.multiply_adds += (rows.len() * clusters) as u64;
    }

    /// Gives each row the label of its nearest centre, and returns whether a label has changed.
    fn assign(&mut self, rows: &[f64], k: usize) -> bool {
        let (mut has_changed, mut spread) = (false, 0.0);
        for (row, label) in rows.chunks_exact(k).zip(&mut self.labels) {
            let (mut next, mut least) = (0, f64::INFINITY);
            for (number, centre) in (0..).zip(self.centres.chunks_exact(k)) {
                let distance = squared_distance(row, centre);
                if distance < least {
                    (next, least) = (number, distance);
                }
            }
            has_changed |= *label != next;
            (*label, spread) = (next, spread + least);
        }
        self.spread = spread;
        self.multiply_adds += (rows.len() * (self.centres.len() / k)) as u64;
        has_changed
    }

    /// Moves centres to the means of their rows. One without rows stays.
    fn move_centres(&mut self, rows: &[f64], k: usize) {
        let mut sums = vec![0.0; self.centres.len()];
        let mut counts = vec![0.0; self.centres.len() / k];
        for (row, label) in rows.chunks_exact(k).zip(&self.labels) {
            counts[*label as usize] += 1.0;
            let sum = sums[*label as usize * k..].iter_mut();
            sum.zip(row).for_each(|(sum, value)| *sum += value);
        }
        let centres = self.centres.chunks_exact_mut(k).zip(sums.chunks_exact(k));
        for ((centre, sum), count) in centres.zip(&counts).filter(|(_, count)| **count > 0.0) {
            let values = centre.iter_mut().zip(sum);
            values.for_each(|(value, sum)| *value = sum / count);
        }
    }
}

#[cfg(test)]
mod tests {
    use fedrecsim_core::Streams;

    use super::*;

    /// If this fails, items that stand apart come into one cluster, or equal rows into several.
    #[test]
    fn rows_that_stand_apart_are_in_clusters_of_their_own() {
        let mut stream = Streams::new(1).named("test", 0, 0);
        let far: Vec<f64> = (0..40)
            .map(|at| f64::from(at / 10 * 100 + at % 10))
            .collect();
        let best = (0..10).map(|_| clusters(&far, 2, 4, 300, &mut stream));
        let best = best.min_by(|one, other| one.spread.total_cmp(&other.spread));
        let labels = best.map(|found| found.labels).unwrap_or_default();
        let fives = labels
            .chunks(5)
            .map(|five| five.iter().all(|label| *label == five[0]));
        assert_eq!(fives.collect::<Vec<_>>(), [true; 4], "{labels:?}");
        let found = clusters(&[1.0; 6], 2, 60, 300, &mut stream);
        assert_eq!(found.labels, [0; 3]);
        assert_eq!((found.centres.len(), found.spread), (6, 0.0));
        assert_eq!(clusters(&[], 2, 4, 10, &mut stream).labels, [0; 0]);
    }
}
