//! The items that a user would be shown.

use crate::shown::Best;
use fedrecsim_data::dataset::KeptItems;

/// An item that a user would be shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recommended {
    /// The item, numbered from zero.
    pub item: u32,
    /// The score, which is comparable within one user.
    pub score: f32,
    /// Whether the item is held out for the test: the user did take it.
    pub is_test_item: bool,
}

/// Returns the `top` items by their scores that the user has not rated in training or validation;
/// `None` if a score is NaN.
pub(super) fn best(scores: Vec<f32>, kept: &KeptItems, top: usize) -> Option<Vec<Recommended>> {
    if scores.iter().any(|score| score.is_nan()) {
        return None;
    }
    let is_rated = |item: &u32| kept.training.contains(item) || kept.validation.contains(item);
    let mut best = Best::new(top.min(scores.len()));
    for (item, score) in (0..).zip(scores).filter(|(item, _)| !is_rated(item)) {
        best.offer(item, score);
    }
    let shown = |(score, item)| Recommended {
        item,
        score,
        is_test_item: kept.test.contains(&item),
    };
    Some(best.into_scored().into_iter().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a user is shown what it has rated, or not the best of what is left.
    #[test]
    fn the_best_items_that_are_not_rated_are_shown() {
        let kept = KeptItems {
            training: vec![1],
            validation: vec![4],
            test: vec![3],
        };
        let shown = |scores: &[f32], top| {
            let shown = best(scores.to_vec(), &kept, top)?;
            let shown = shown.iter().map(|one| (one.item, one.is_test_item));
            Some(shown.collect::<Vec<_>>())
        };
        let scores = [0.5, 9.0, 0.7, 0.5, 8.0];
        assert_eq!(shown(&scores, 2), Some(vec![(2, false), (0, false)]));
        let all = vec![(2, false), (0, false), (3, true)];
        assert_eq!(shown(&scores, 10), Some(all));
        assert_eq!(shown(&[f32::NAN; 5], 1), None);
    }
}
