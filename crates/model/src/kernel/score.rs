//! Computes the scores of many rows for one user.

use crate::kernel::lane_math::{LANES, quad, quads_to_sums};
use crate::per_instruction_set;

/// Describes a value as it is stored.
pub trait Stored: Copy {
    /// The value.
    fn value(self) -> f32;
}

impl Stored for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }
}

/// The layout of the wire.
impl Stored for [u8; 4] {
    #[inline(always)]
    fn value(self) -> f32 {
        f32::from_le_bytes(self)
    }
}

/// Holds the row of an item as one user sees it, `scale * scaled + plain`. Either part may be
/// empty, which means zero.
#[derive(Clone, Copy, Debug)]
pub struct ScaledSum<'a, V = f32> {
    /// The part that is scaled: k values or none.
    pub scaled: &'a [f32],
    /// The factor of that part.
    pub scale: f32,
    /// The part that is not scaled: k values or none.
    pub plain: &'a [V],
}

/// Has no part that is scaled.
impl<'a, V> From<&'a [V]> for ScaledSum<'a, V> {
    fn from(plain: &'a [V]) -> Self {
        let (scaled, scale) = (&[][..], 0.0);
        Self {
            scaled,
            scale,
            plain,
        }
    }
}

per_instruction_set! {
    /// Computes `scores[i] = w . (scale_i scaled_i + plain_i) + b`, each product in the kernels' order:
    /// sixteen partial sums, then one tree.
    pub fn score_sums<V: Stored>(w: &[f32], b: f32, rows: &[ScaledSum<'_, V>], scores: &mut [f32]) {
        for (rows, scores) in rows.chunks(LANES).zip(scores.chunks_mut(LANES)) {
            // The last step of a sum adds four numbers of each of sixteen rows at once.
            let (mut scaled, mut plain) = ([0.0; 4 * LANES], [0.0; 4 * LANES]);
            for (row, (scaled, plain)) in rows.iter().zip(quads(&mut scaled).zip(quads(&mut plain)))
            {
                *scaled = quad_of_product(w, row.scaled);
                *plain = quad_of_product(w, row.plain);
            }
            let sums = quads_to_sums(&scaled)
                .into_iter()
                .zip(quads_to_sums(&plain));
            for ((row, score), (scaled, plain)) in rows.iter().zip(scores).zip(sums) {
                *score = row.scale * scaled + plain + b;
            }
        }
    }
}

/// Returns the places of the four numbers of each row.
#[inline(always)]
fn quads(all: &mut [f32; 4 * LANES]) -> impl Iterator<Item = &mut [f32; 4]> {
    all.as_chunks_mut().0.iter_mut()
}

/// Returns the four partial sums of a scalar product. The shorter length counts: those of an empty
/// row are zero.
#[inline(always)]
fn quad_of_product<V: Stored>(a: &[f32], b: &[V]) -> [f32; 4] {
    if b.is_empty() {
        return [0.0; 4];
    }
    let mut sums = [0.0; LANES];
    let ((a_groups, a_rest), (b_groups, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a_groups.iter().zip(b_groups) {
        for i in 0..LANES {
            sums[i] += a[i] * b[i].value();
        }
    }
    for (i, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[i] += a * b.value();
    }
    quad(&sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_any_length_are_sums_of_products() {
        for length in [0usize, 1, 15, 16, 17, 40] {
            let w: Vec<f32> = (0..length).map(|i| i as f32).collect();
            let ones = vec![1.0; length];
            let sum = (0..length).sum::<usize>() as f32;
            let squares = (0..length).map(|i| i * i).sum::<usize>() as f32;
            let rows = [
                ScaledSum {
                    scaled: &w,
                    scale: 2.0,
                    plain: &ones,
                },
                ScaledSum {
                    scaled: &[],
                    scale: 9.0,
                    plain: &w,
                },
                ScaledSum {
                    scaled: &ones,
                    scale: 3.0,
                    plain: &[],
                },
            ];
            let mut scores = [0.0; 3];
            score_sums(&w, 0.5, &rows, &mut scores);
            assert_eq!(
                scores,
                [2.0 * squares + sum + 0.5, squares + 0.5, 3.0 * sum + 0.5],
                "k = {length}"
            );
            // More rows than are summed at once, and not a multiple of them.
            let many: Vec<ScaledSum<'_>> =
                rows.iter().copied().cycle().take(3 * LANES + 5).collect();
            let mut all = vec![0.0; many.len()];
            score_sums(&w, 0.5, &many, &mut all);
            assert!(
                all.iter()
                    .zip(scores.iter().cycle())
                    .all(|(score, expected)| score == expected),
                "k = {length}"
            );
            let wire: Vec<[u8; 4]> = w.iter().map(|value| value.to_le_bytes()).collect();
            let mut scores = [0.0];
            score_sums(
                &w,
                0.5,
                &[ScaledSum {
                    scaled: &ones,
                    scale: 2.0,
                    plain: &wire,
                }],
                &mut scores,
            );
            assert_eq!(
                scores,
                [2.0 * sum + squares + 0.5],
                "k = {length}, in the layout of the wire"
            );
        }
    }
}
