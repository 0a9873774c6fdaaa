//! The seeded sample.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::mutant::Mutant;

/// Mutants that were drawn from all, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// A checksum of all mutants that it was drawn from.
    pub of: u32,
    /// Those that compile, in the order in which they were drawn.
    pub viable: Vec<usize>,
    /// Those that were drawn as well, before the last of the others, and do not compile.
    pub unviable: Vec<usize>,
}

/// Returns a checksum of a list of mutants.
pub fn checksum(mutants: &[Mutant]) -> u32 {
    let keys: Vec<String> = mutants.iter().map(Mutant::key).collect();
    crc32fast::hash(keys.join("\n").as_bytes())
}

/// Returns the numbers below `count` in a random order, all orders being as likely.
pub fn order(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    order
}

/// Takes the first `size` mutants of an order that compile. `compile` puts mutants into the copy,
/// and returns those that the compiler refuses. It is asked again until it refuses none, since an
/// error may hide another one.
///
/// # Errors
///
/// Returns the error of `compile`.
pub fn draw(
    order: &[usize],
    size: usize,
    of: u32,
    mut compile: impl FnMut(&BTreeSet<usize>) -> Result<BTreeSet<usize>>,
) -> Result<Sample> {
    let mut unviable = BTreeSet::new();
    // As many more as usually do not compile, so that few rounds are needed.
    let mut drawn = (size + size / 3 + 1).min(order.len());
    loop {
        let candidates: BTreeSet<usize> = order[..drawn]
            .iter()
            .copied()
            .filter(|n| !unviable.contains(n))
            .collect();
        let refused = compile(&candidates)?;
        eprintln!(
            "{} mutants are tried, and {} of them do not compile",
            candidates.len(),
            refused.len()
        );
        if refused.is_empty() {
            if candidates.len() >= size || drawn == order.len() {
                break;
            }
            drawn = (drawn + 2 * (size - candidates.len())).min(order.len());
        }
        unviable.extend(refused);
    }
    let viable: Vec<usize> = order[..drawn]
        .iter()
        .copied()
        .filter(|n| !unviable.contains(n))
        .take(size)
        .collect();
    let before_last = order[..drawn]
        .iter()
        .take_while(|n| viable.last().is_some_and(|last| *n != last));
    let unviable = before_last
        .copied()
        .filter(|n| unviable.contains(n))
        .collect();
    Ok(Sample {
        of,
        viable,
        unviable,
    })
}

/// Reads a sample that was drawn before, if it is of the mutants with this checksum.
///
/// # Errors
///
/// Returns an error if the file is there and cannot be read.
pub fn load(file: &Path, of: u32) -> Result<Option<Sample>> {
    if !file.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(file)?;
    let sample: Sample =
        serde_json::from_str(&text).with_context(|| format!("{} is no sample", file.display()))?;
    Ok(Some(sample).filter(|sample| sample.of == of))
}

/// Writes a sample for the next part.
///
/// # Errors
///
/// Returns an error if the file cannot be written.
pub fn save(file: &Path, sample: &Sample) -> Result<()> {
    std::fs::write(file, serde_json::to_string(sample)?)
        .with_context(|| format!("{} cannot be written", file.display()))
}

/// Returns the part `part` of `parts` of a sample (from 1), as cards are dealt.
pub fn part(sample: &[usize], part: usize, parts: usize) -> Vec<usize> {
    sample
        .iter()
        .copied()
        .skip(part - 1)
        .step_by(parts)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_seed_and_has_everything_once() {
        assert_eq!(order(100, 1), order(100, 1));
        assert_ne!(order(100, 1), order(100, 2));
        let mut sorted = order(100, 1);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100));
    }

    #[test]
    fn what_does_not_compile_is_drawn_again_in_the_same_order() {
        let order = order(100, 7);
        // An error of a multiple of 6 hides that of every other multiple of 3.
        let compile = |mutants: &BTreeSet<usize>| {
            let by = if mutants.iter().any(|n| n % 6 == 0) {
                6
            } else {
                3
            };
            Ok(mutants.iter().copied().filter(|n| n % by == 0).collect())
        };
        let sample = draw(&order, 20, 0, compile).unwrap();
        let expected: Vec<usize> = order
            .iter()
            .copied()
            .filter(|n| n % 3 != 0)
            .take(20)
            .collect();
        assert_eq!(sample.viable, expected);
        let end = order
            .iter()
            .position(|n| n == expected.last().unwrap())
            .unwrap();
        assert_eq!(
            sample.viable.len() + sample.unviable.len(),
            end + 1,
            "the others were drawn and do not compile"
        );
        assert!(sample.unviable.iter().all(|n| n % 3 == 0));
    }

    #[test]
    fn fewer_are_drawn_if_there_are_fewer() {
        let sample = draw(&order(10, 1), 20, 0, |_| Ok(BTreeSet::new())).unwrap();
        assert_eq!(sample.viable.len(), 10);
    }

    #[test]
    fn the_parts_are_the_whole() {
        let sample = order(10, 1);
        let mut all: Vec<usize> = (1..=3).flat_map(|k| part(&sample, k, 3)).collect();
        assert_eq!(part(&sample, 1, 3).len(), 4);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..10));
    }

    #[test]
    fn a_sample_of_other_mutants_is_drawn_anew() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sample.json");
        assert_eq!(load(&file, 5).unwrap(), None);
        let sample = Sample {
            of: 5,
            viable: vec![2, 1],
            unviable: vec![3],
        };
        save(&file, &sample).unwrap();
        assert_eq!(load(&file, 5).unwrap(), Some(sample));
        assert_eq!(load(&file, 6).unwrap(), None);
    }
}
