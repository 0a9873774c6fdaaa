//! Scores many rows for sixteen users at once, for ranking in a whole catalogue.
//!
//! A lane belongs to a user, so that a row is read once for all of them. A score has the bits of
//! [`score_sums`](super::score::score_sums): each of its sixteen partial sums adds every sixteenth
//! product, and they are added in the tree of [`quad_sum`](super::lane_math::quad_sum).

use crate::instruction_sets::{end_of_block, register_bytes};
use crate::kernel::lane_math::{LANES, Lanes};
use crate::per_instruction_set;

/// The number of rows whose scores are summed together.
const ROWS: usize = 4;

/// Holds the vectors of up to sixteen users side by side, and what is added to all scores of each.
/// Lanes without a user are zero.
#[derive(Clone, Debug, PartialEq)]
pub struct UserLanes {
    /// Value j of all vectors.
    values: Vec<Lanes>,
    biases: Lanes,
}

impl UserLanes {
    /// Places the vectors of these users, which have the same length, and their biases in lanes.
    pub fn new<'a>(users: impl IntoIterator<Item = (&'a [f32], f32)>) -> Self {
        let (mut values, mut biases) = (Vec::new(), [0.0; LANES]);
        for (lane, (vector, bias)) in users.into_iter().enumerate() {
            values.resize(vector.len(), [0.0; LANES]);
            biases[lane] = bias;
            for (lanes, value) in values.iter_mut().zip(vector) {
                lanes[lane] = *value;
            }
        }
        Self { values, biases }
    }

    /// Writes to `scores` for each of `rows` (n k values) and each user the scalar product plus the
    /// user's bias.
    ///
    /// # Panics
    /// If there are not as many rows as `scores`, a defect of the caller.
    pub fn score(&self, rows: &[f32], scores: &mut [Lanes]) {
        let dimension = self.values.len();
        assert_eq!(
            rows.len(),
            scores.len() * dimension,
            "the values of the rows"
        );
        match register_bytes() {
            64 => score_rows::<16>(rows, &self.values, &self.biases, scores),
            32 => score_rows::<8>(rows, &self.values, &self.biases, scores),
            _ => score_rows::<4>(rows, &self.values, &self.biases, scores),
        }
    }
}

per_instruction_set! {
    /// Scores rows for `W` users at a time, so many that their sums fit into registers.
    fn score_rows<const W: usize>(rows: &[f32], users: &[Lanes], biases: &Lanes, scores: &mut [Lanes]) {
        let dimension = users.len();
        let (groups, rest) = scores.as_chunks_mut::<ROWS>();
        for (group, scores) in groups.iter_mut().enumerate() {
            let row = |r: usize| &rows[(group * ROWS + r) * dimension..][..dimension];
            score_group::<ROWS, W>(std::array::from_fn(row), users, biases, scores);
        }
        let first = groups.len() * ROWS;
        for (number, scores) in rest.iter_mut().enumerate() {
            let row = &rows[(first + number) * dimension..][..dimension];
            score_group::<1, W>([row], users, biases, std::array::from_mut(scores));
        }
    }
}

/// The sums of `R` rows for `W` users.
type Sums<const R: usize, const W: usize> = [[f32; W]; R];

#[inline(always)]
fn score_group<const R: usize, const W: usize>(
    rows: [&[f32]; R],
    users: &[Lanes],
    biases: &Lanes,
    scores: &mut [Lanes; R],
) {
    for first in (0..LANES).step_by(W) {
        let partial = |lane| partial_sum(&rows, users, (first, lane));
        let (mut half, mut sums) = ([[0.0; W]; R], [[0.0; W]; R]);
        for (number, i) in [0, 2, 1, 3].into_iter().enumerate() {
            let quad = added(
                added(partial(i), partial(i + 4)),
                added(partial(i + 8), partial(i + 12)),
            );
            half = if number % 2 == 0 {
                quad
            } else {
                added(half, quad)
            };
            match number {
                1 => sums = half,
                3 => sums = added(sums, half),
                _ => {}
            }
        }
        for r in 0..R {
            for u in 0..W {
                // A sum of nothing but zeros is positive.
                scores[r][first + u] = 0.0 + sums[r][u] + biases[first + u];
            }
        }
    }
}

/// Returns the sum of every sixteenth product from `lane` on, for the users from `first` on.
#[inline(always)]
fn partial_sum<const R: usize, const W: usize>(
    rows: &[&[f32]; R],
    users: &[Lanes],
    (first, lane): (usize, usize),
) -> Sums<R, W> {
    let mut sums = [[0.0; W]; R];
    let mut at = lane;
    while at < users.len() {
        let users = &users[at][first..first + W];
        for r in 0..R {
            for u in 0..W {
                sums[r][u] += rows[r][at] * users[u];
            }
        }
        at += LANES;
        end_of_block();
    }
    sums
}

#[inline(always)]
fn added<const R: usize, const W: usize>(mut a: Sums<R, W>, b: Sums<R, W>) -> Sums<R, W> {
    for r in 0..R {
        for u in 0..W {
            a[r][u] += b[r][u];
        }
    }
    a
}

per_instruction_set! {
    /// Adds to the `counts` of each of `bounds` how many scores of each lane are at least the bound. A
    /// score that is NaN reaches no bound.
    pub fn count_reaching(scores: &[Lanes], bounds: &[Lanes], counts: &mut [[u32; LANES]]) {
        for (bounds, counts) in bounds.iter().zip(counts) {
            let mut found = [0u32; LANES];
            for scores in scores {
                for i in 0..LANES {
                    found[i] += u32::from(scores[i] >= bounds[i]);
                }
                end_of_block();
            }
            for i in 0..LANES {
                counts[i] += found[i];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::score::{ScaledSum, score_sums};
    use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};

    /// Returns the bits of the scores that [`score_sums`] finds for one user after the other.
    fn reference(users: &[Vec<f32>], biases: &[f32], rows: &[f32]) -> Vec<Vec<u32>> {
        let of_user = |(user, bias): (&Vec<f32>, &f32)| {
            let rows: Vec<ScaledSum<'_>> = rows.chunks(user.len()).map(Into::into).collect();
            let mut scores = vec![0.0; rows.len()];
            score_sums(user, *bias, &rows, &mut scores);
            scores.into_iter().map(f32::to_bits).collect()
        };
        users.iter().zip(biases).map(of_user).collect()
    }

    /// If this fails, an item has another rank in the catalogue than its score says, or the ranks
    /// depend on the instruction set.
    #[test]
    fn scores_have_the_bits_of_the_scores_of_one_user() {
        let mut stream = Streams::new(3).stream(Purpose::GlobalInit, 0, 0);
        let mut draw = |count: usize| -> Vec<f32> {
            let draws = (0..count).map(|_| stream.standard_normal() as f32);
            // Zeros of either sign show a sum that starts in another way.
            draws
                .map(|value| {
                    if value.abs() < 0.2 {
                        0.0 * value
                    } else {
                        value
                    }
                })
                .collect()
        };
        for dimension in [1, 2, 15, 16, 17, 32, 33, 64, 128, 130] {
            for (count, items) in [(1, 1), (7, 3), (16, 4), (16, 21)] {
                let users: Vec<Vec<f32>> = (0..count).map(|_| draw(dimension)).collect();
                let (biases, rows) = (draw(count), draw(items * dimension));
                let expected = reference(&users, &biases, &rows);
                let placed = users.iter().map(Vec::as_slice).zip(biases.iter().copied());
                let placed = UserLanes::new(placed);
                type Kernel = fn(&[f32], &[Lanes], &Lanes, &mut [Lanes]);
                let kernels: [Kernel; 3] = [score_rows::<4>, score_rows::<8>, score_rows::<16>];
                for kernel in kernels {
                    let mut scores = vec![[0.0; LANES]; items];
                    kernel(&rows, &placed.values, &placed.biases, &mut scores);
                    for (lane, expected) in expected.iter().enumerate() {
                        let found: Vec<u32> =
                            scores.iter().map(|row| row[lane].to_bits()).collect();
                        assert_eq!(&found, expected, "user {lane} at k = {dimension}");
                    }
                }
            }
        }
    }

    /// If this fails, a tie counts for the held-out item, or a diverged model has a rank.
    #[test]
    fn ties_reach_a_bound_and_no_nan_does() {
        let mut scores = vec![[1.0; LANES]; 3];
        scores[1][2] = f32::NAN;
        scores[2][3] = 0.5;
        let mut counts = [[0; LANES]; 2];
        let bounds = [[1.0; LANES], [f32::NEG_INFINITY; LANES]];
        count_reaching(&scores, &bounds, &mut counts);
        assert_eq!(
            counts.map(|counts| counts[1..4].to_vec()),
            [[3, 2, 2], [3, 2, 3]]
        );
    }
}
