//! Gives users other items to be found, or tells training of other items than the held-out ones. It is
//! for protocols that tell training too much, and for tests of what it knows.

use fedrecsim_core::{PortableDraws, Purpose, Streams, UserId};

use super::Dataset;
use super::candidates::{Against, CandidateScratch, Candidates};
use super::held_out::{HeldOut, HeldOutLists, ItemLists};

/// One user in so many is given a planted item. The others draw it as a negative.
const PLANTED_SHARE: u32 = 5;

impl Dataset {
    /// Returns this data set, of which training is told the candidates beside the held-out items. One that
    /// tells other items than those of its users stays as it is.
    #[must_use]
    pub fn with_known_candidates(&self, candidates: &Candidates) -> Self {
        if self.known.is_some() {
            return self.clone();
        }
        let evaluated = candidates.evaluated_users();
        let mut scratch = CandidateScratch::default();
        let of_user = |user: UserId| {
            let mut items: Vec<u32> = self.held_out_items(user).collect();
            if let Ok(place) = evaluated.binary_search(&user) {
                for against in [Against::TestCandidates, Against::ValidationCandidates] {
                    items.extend_from_slice(candidates.list(against, self, place, &mut scratch));
                }
            }
            items
        };
        Self {
            known: Some(self.all_of(of_user)),
            ..self.clone()
        }
    }

    /// Returns this data set, of which training takes the held-out items of other users for those of
    /// a user. Accuracy is measured on the same items as before.
    #[must_use]
    pub fn with_exchanged_knowledge(&self, streams: Streams) -> Self {
        let mut users = self.tested_users();
        let mut stream = streams.stream(Purpose::OtherTargets, 0, 0);
        for place in (1..users.len()).rev() {
            users.swap(place, stream.below(place as u32 + 1) as usize);
        }
        let mut of_other = vec![None; self.users()];
        for (place, user) in users.iter().enumerate() {
            of_other[*user as usize] = Some(users[(place + 1) % users.len()]);
        }
        let of_user = |user: UserId| {
            let other = of_other[user.index()].map(UserId);
            let items = other
                .into_iter()
                .flat_map(|other| self.held_out_items(other));
            let own = self.train_items(user);
            items
                .filter(|item| own.binary_search(item).is_err())
                .collect()
        };
        Self {
            known: Some(self.all_of(of_user)),
            ..self.clone()
        }
    }

    /// Returns this data set with one more item, which nobody has rated in training. It is the test item of
    /// one user in five, who alone are tested, and is held out of their ratings as their own held-out items
    /// are.
    #[must_use]
    pub fn with_planted_item(&self, streams: Streams) -> Self {
        let has_it = |user: UserId| {
            let mut stream = streams.stream(Purpose::OtherTargets, u64::from(user.0), 1);
            stream.below(PLANTED_SHARE) == 0
        };
        let tested = self.tested_users();
        let is_tested = |user: UserId| tested.binary_search(&user.0).is_ok() && has_it(user);
        let item = self.items;
        let mut planted = self.with_targets(|user| is_tested(user).then_some(item));
        planted.items += 1;
        planted.totals.popularity.push(0);
        planted.totals.raters.push(0);
        if let Some(name) = self.item_names.first() {
            // A name that is none in the file, where names have been trimmed.
            planted.item_names.push(format!("{name} (planted)").into());
        }
        planted
    }

    /// Returns this data set, where the test item of every tested user is one at random that the user has not
    /// touched. Training takes that one, and nothing else, for the held-out item.
    #[must_use]
    pub fn with_spared_items(&self, streams: Streams) -> Self {
        let tested = self.tested_users();
        let spared = |user: UserId| {
            tested.binary_search(&user.0).ok()?;
            let mut touched: Vec<u32> = self.touched_items(user).collect();
            touched.sort_unstable();
            touched.dedup();
            let free = self.items - touched.len() as u32;
            if free == 0 {
                return None;
            }
            let mut stream = streams.stream(Purpose::OtherTargets, u64::from(user.0), 2);
            let mut item = stream.below(free);
            for other in touched {
                item += u32::from(other <= item);
            }
            Some(item)
        };
        let with_targets = self.with_targets(spared);
        Self {
            known: Some(self.all_of(|user| spared(user).into_iter().collect())),
            ..with_targets
        }
    }

    /// Returns this data set with one test item of some users, whose own held-out items are left out.
    fn with_targets(&self, target: impl Fn(UserId) -> Option<u32>) -> Self {
        let (mut test, mut left_out) = (ItemLists::new(), ItemLists::new());
        for user in self.own_users().map(UserId) {
            test.push_user(target(user), 0);
            left_out.push_user(self.held_out_items(user), 0);
        }
        let held_out = HeldOut::Items(Box::new(HeldOutLists {
            test,
            validation: None,
            left_out: Some(left_out),
        }));
        let [tested, validated] = held_out.users_with_some(self.totals.users);
        Self {
            held_out,
            tested,
            validated,
            ..self.clone()
        }
    }

    /// Returns these items as the test items of every user.
    fn all_of(&self, mut items: impl FnMut(UserId) -> Vec<u32>) -> HeldOut {
        let mut test = ItemLists::new();
        for user in self.own_users().map(UserId) {
            test.push_user(items(user), 0);
        }
        HeldOut::Items(Box::new(HeldOutLists {
            test,
            validation: None,
            left_out: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::split;
    use super::*;
    use crate::dataset::{Interaction, Ratings};
    use fedrecsim_scenario::{EvaluationSpec, Ranking, SampledSpec, SplitSpec};

    const ITEMS: u32 = 30;
    const USERS: u32 = 40;

    fn dataset() -> Dataset {
        let mut ratings = Ratings {
            user_names: (0..USERS).map(|user| user.to_string().into()).collect(),
            item_names: (0..ITEMS).map(|item| item.to_string().into()).collect(),
            ..Ratings::default()
        };
        for user in 0..USERS {
            for place in 0..6 {
                ratings.users.push(user);
                let item = (user * 7 + place * 4) % ITEMS;
                ratings
                    .interactions
                    .push(Interaction::new(item, 1.0, i64::from(place)));
            }
        }
        split::split(ratings, &SplitSpec::leave_one_out(true), Streams::new(1)).unwrap()
    }

    fn users() -> impl Iterator<Item = UserId> {
        (0..USERS).map(UserId)
    }

    /// If this fails, a test of a leak measures something else, or training is told an item that it trains
    /// on.
    #[test]
    fn an_exchange_changes_what_training_is_told_and_nothing_else() {
        let (dataset, exchanged) = (
            dataset(),
            dataset().with_exchanged_knowledge(Streams::new(1)),
        );
        let mut same = 0;
        for user in users() {
            assert_eq!(exchanged.test(user), dataset.test(user));
            assert_eq!(exchanged.validation(user), dataset.validation(user));
            assert_eq!(exchanged.train_items(user), dataset.train_items(user));
            let known: Vec<u32> = exchanged.known_held_out_items(user).collect();
            assert!(
                known
                    .iter()
                    .all(|item| !dataset.train_items(user).contains(item))
            );
            same += u32::from(
                known
                    .iter()
                    .any(|item| dataset.held_out_items(user).any(|own| own == *item)),
            );
        }
        assert!(
            same < USERS / 4,
            "{same} of {USERS} are told an item of their own"
        );
    }

    /// If this fails, `symmetric` draws a candidate as a negative, so that elimination tells it from the
    /// held-out item.
    #[test]
    fn candidates_are_told_beside_the_held_out_items() {
        let dataset = dataset();
        let spec = EvaluationSpec {
            ranking: Ranking::Sampled(SampledSpec {
                candidates: 5,
                shared_candidates: false,
            }),
            ..EvaluationSpec::default()
        };
        let candidates = Candidates::draw(&dataset, &spec, Streams::new(1)).unwrap();
        let told = dataset.with_known_candidates(&candidates);
        let mut scratch = CandidateScratch::default();
        for (place, user) in users().enumerate() {
            let mut wanted: Vec<u32> = dataset.held_out_items(user).collect();
            for against in [Against::TestCandidates, Against::ValidationCandidates] {
                wanted.extend_from_slice(candidates.list(against, &dataset, place, &mut scratch));
            }
            wanted.sort_unstable();
            assert_eq!(wanted.len(), 12);
            let known: Vec<u32> = told.known_held_out_items(user).collect();
            assert_eq!(known, wanted);
            assert!(told.held_out_items(user).eq(dataset.held_out_items(user)));
        }
    }

    /// If this fails, somebody has trained on the planted item, or its own users draw it as a negative and
    /// the others do not.
    #[test]
    fn a_planted_item_is_held_out_and_nothing_else() {
        let planted = dataset().with_planted_item(Streams::new(1));
        assert_eq!(planted.items() as u32, ITEMS + 1);
        let owners: Vec<UserId> = users()
            .filter(|user| planted.test(*user).items == [ITEMS])
            .collect();
        assert!((2..20).contains(&owners.len()), "{owners:?}");
        assert_eq!(
            planted.tested_users(),
            owners.iter().map(|user| user.0).collect::<Vec<_>>()
        );
        for user in users() {
            assert!(!planted.train_items(user).contains(&ITEMS));
            let is_known = planted.known_held_out_items(user).any(|item| item == ITEMS);
            assert_eq!(is_known, owners.contains(&user));
        }
    }

    /// If this fails, an item that its user has touched is looked for.
    #[test]
    fn a_spared_item_is_none_that_its_user_has_touched() {
        let (dataset, spared) = (dataset(), dataset().with_spared_items(Streams::new(1)));
        let mut all: Vec<u32> = Vec::new();
        for user in users() {
            let [item] = spared.test(user).items else {
                panic!("{user} has no spared item");
            };
            assert!(dataset.touched_items(user).all(|touched| touched != *item));
            assert_eq!(
                spared.known_held_out_items(user).collect::<Vec<_>>(),
                [*item]
            );
            all.push(*item);
        }
        all.sort_unstable();
        all.dedup();
        assert!(
            all.len() > 15,
            "items are drawn from the whole catalogue: {all:?}"
        );
    }
}
