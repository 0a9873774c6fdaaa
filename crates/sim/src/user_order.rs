//! Sorting lists by user.

use fedrecsim_core::{InvitationId, UserId};

/// Lists shorter than this are sorted by comparisons, which takes no memory.
const SHORT: usize = 64;
const DIGIT_BITS: u32 = 8;

/// Sorts `items` by user, and the items of one user by invitation. If two items agree in both,
/// their order is not defined.
///
/// Long lists are sorted digit by digit (a radix sort), since every round of a simulation with many
/// users sorts one.
pub(crate) fn sort_by_user<T>(items: &mut Vec<T>, key: impl Fn(&T) -> (UserId, InvitationId)) {
    let number = |item: &T| {
        let (user, invitation_id) = key(item);
        u64::from(user.0) << 32 | u64::from(invitation_id.0)
    };
    // Positions have 32 bits, so longer lists are sorted by comparisons, too.
    if items.len() < SHORT || items.len() > u32::MAX as usize {
        items.sort_unstable_by_key(number);
        return;
    }
    let mut keys: Vec<(u64, u32)> = items
        .iter()
        .zip(0u32..)
        .map(|(item, position)| (number(item), position))
        .collect();
    let differing = keys
        .iter()
        .fold(0, |differing, (number, _)| differing | (number ^ keys[0].0));
    let mut sorted = vec![(0, 0); keys.len()];
    for shift in (0..u64::BITS).step_by(DIGIT_BITS as usize) {
        let digit = |number: u64| (number >> shift) as usize % (1 << DIGIT_BITS);
        if digit(differing) == 0 {
            continue;
        }
        let mut places = [0; 1 << DIGIT_BITS];
        keys.iter()
            .for_each(|(number, _)| places[digit(*number)] += 1);
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        for &(number, position) in &keys {
            let place = &mut places[digit(number)];
            sorted[*place] = (number, position);
            *place += 1;
        }
        std::mem::swap(&mut keys, &mut sorted);
    }
    let mut unsorted: Vec<Option<T>> = items.drain(..).map(Some).collect();
    items.extend(
        keys.into_iter()
            .filter_map(|(_, position)| unsorted[position as usize].take()),
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// If this fails, the result of a sum depends on which user has the faster link.
        #[test]
        fn items_are_sorted_by_user_and_invitation(
            mut items in prop::collection::vec((any::<u32>(), 0u32..1000, any::<bool>()), 0..300)
        ) {
            let key = |(user, invitation, few): &(u32, u32, bool)| {
                (UserId(if *few { user % 7 } else { *user }), InvitationId(*invitation))
            };
            let mut expected: Vec<_> = items.iter().map(key).collect();
            expected.sort();
            sort_by_user(&mut items, key);
            prop_assert!(items.iter().map(key).eq(expected));
        }
    }
}
