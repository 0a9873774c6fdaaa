//! Says how well scores of items tell a user's rated items from all others.

use crate::outcome::AuditFigures;

/// Some items with one score: how many of them are rated, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub rated: u64,
    pub all: u64,
}

/// Returns the figures of groups in descending order of their scores; `None` if all items are
/// rated, or none is. Of equal scores, each is as likely to be among the highest as any other.
pub(super) fn figures(groups: &[Group]) -> Option<AuditFigures> {
    let (rated, all) = groups.iter().fold((0, 0), |(rated, all), group| {
        (rated + group.rated, all + group.all)
    });
    let others = all - rated;
    if rated == 0 || others == 0 {
        return None;
    }
    // Twice the number of pairs whose rated item is higher, so that ties are whole numbers.
    let (mut wins_twice, mut others_left) = (0u128, others);
    let (mut places_left, mut hits) = (rated, 0.0);
    for &Group { rated, all } in groups {
        let others = all - rated;
        others_left -= others;
        wins_twice += u128::from(rated) * u128::from(2 * others_left + others);
        let taken = places_left.min(all);
        if taken > 0 {
            hits += taken as f64 * rated as f64 / all as f64;
            places_left -= taken;
        }
    }
    let auc = wins_twice as f64 / (2.0 * rated as f64 * others as f64);
    Some(AuditFigures {
        auc,
        precision: hits / rated as f64,
    })
}

/// Returns the groups of scored items, in descending order. `scored` has each item's score and
/// whether it is rated; `rest` are the items that have none and stand below all others.
pub(super) fn groups(scored: &mut [(f32, bool)], rest: Group) -> Vec<Group> {
    scored.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
    let mut groups: Vec<Group> = scored
        .chunk_by(|one, other| one.0 == other.0)
        .map(|equal| Group {
            rated: equal.iter().filter(|(_, rated)| *rated).count() as u64,
            all: equal.len() as u64,
        })
        .collect();
    groups.push(rest);
    groups
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(scored: &[(f32, bool)], rest: (u64, u64)) -> Option<AuditFigures> {
        let rest = Group {
            rated: rest.0,
            all: rest.1,
        };
        figures(&groups(&mut scored.to_vec(), rest))
    }

    /// If this fails, an audit says that uploads tell more or less than they do.
    #[test]
    fn known_scores_have_known_figures() {
        let perfect = of(&[(2.0, true), (1.0, false), (3.0, true)], (0, 5)).unwrap();
        assert_eq!((perfect.auc, perfect.precision), (1.0, 1.0));
        let reversed = of(&[(1.0, true), (2.0, false), (3.0, false)], (0, 0)).unwrap();
        assert_eq!((reversed.auc, reversed.precision), (0.0, 0.0));
        let equal = of(
            &[(1.0, true), (1.0, false), (1.0, false), (1.0, false)],
            (0, 0),
        )
        .unwrap();
        assert_eq!((equal.auc, equal.precision), (0.5, 0.25));
        // Rated: 4 and one without a score. Of six pairs, the first wins three, the other ties with
        // one of three.
        let mixed = of(&[(4.0, true), (3.0, false), (2.0, false)], (1, 2)).unwrap();
        assert_eq!(mixed.auc, 3.5 / 6.0);
        assert_eq!(mixed.precision, 0.5);
        assert_eq!(of(&[(1.0, true)], (0, 0)), None);
        assert_eq!(of(&[(1.0, false)], (0, 3)), None);
    }
}
