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
    /// The multiply-adds of all starts.
    pub multiply_adds: u64,
}

/// How clusters are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The number of clusters.
    pub clusters: usize,
    /// The number of starts, at least one. The clusters with the least spread are kept.
    pub starts: u32,
    /// How often centres move, at most. They stop where no row changes its cluster.
    pub moves: usize,
}

impl Search {
    /// Puts `rows` of `k` values each into clusters.
    pub fn run(&self, rows: &[f64], k: usize, stream: &mut Stream) -> Clusters {
        let mut best = self.once(rows, k, stream);
        for _ in 1..self.starts {
            let mut next = self.once(rows, k, stream);
            let multiply_adds = best.multiply_adds + next.multiply_adds;
            if next.spread < best.spread {
                std::mem::swap(&mut best, &mut next);
            }
            best.multiply_adds = multiply_adds;
        }
        best
    }

    fn once(&self, rows: &[f64], k: usize, stream: &mut Stream) -> Clusters {
        let count = rows.len() / k.max(1);
        let mut found = Clusters {
            centres: Vec::new(),
            labels: vec![0; count],
            spread: 0.0,
            multiply_adds: 0,
        };
        let clusters = self.clusters.min(count);
        if clusters > 0 {
            found.draw_centres(rows, k, clusters, stream);
            found.assign(rows, k);
            for _ in 0..self.moves {
                found.move_centres(rows, k);
                if !found.assign(rows, k) {
                    break;
                }
            }
        }
        found
    }
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
        let search = |clusters, starts| Search {
            clusters,
            starts,
            moves: 300,
        };
        let labels = search(4, 10).run(&far, 2, &mut stream).labels;
        let fives = labels
            .chunks(5)
            .map(|five| five.iter().all(|label| *label == five[0]));
        assert_eq!(fives.collect::<Vec<_>>(), [true; 4], "{labels:?}");
        let found = search(60, 1).run(&[1.0; 6], 2, &mut stream);
        assert_eq!(found.labels, [0; 3]);
        assert_eq!((found.centres.len(), found.spread), (6, 0.0));
        assert_eq!(search(4, 2).run(&[], 2, &mut stream).labels, [0; 0]);
    }

    /// If this fails, a later start does not count, or its work is not counted.
    #[test]
    fn the_best_start_counts_and_the_work_of_all() {
        let rows: Vec<f64> = (0..60).map(|at| f64::from(at * 37 % 101)).collect();
        let search = |starts| Search {
            clusters: 7,
            starts,
            moves: 20,
        };
        let stream = || Streams::new(3).named("test", 0, 0);
        let mut one_by_one = stream();
        let all = [(); 6].map(|()| search(1).run(&rows, 2, &mut one_by_one));
        let best = search(6).run(&rows, 2, &mut stream());
        let least = all
            .iter()
            .map(|found| found.spread)
            .fold(f64::INFINITY, f64::min);
        assert!(all[0].spread > least, "{least}");
        assert_eq!(best.spread, least);
        let multiply_adds: u64 = all.iter().map(|found| found.multiply_adds).sum();
        assert_eq!(best.multiply_adds, multiply_adds);
    }
}
