//! Draws the candidates that a held-out item is ranked against: a fixed sample of items that its
//! user never rated, or all of them. Where test items come later than validation items, they are
//! candidates of these.
//!
//! They are drawn once for a run, from streams of their own, so that every method and every round
//! is measured on the same candidates.

use rand::Rng;

use crate::dataset::Dataset;
use crate::dataset::pool::Pool;
use fedrecsim_core::metric::Needs;
use fedrecsim_core::{Error, Purpose, Result, Streams, UserId};
use fedrecsim_scenario::{EvaluationSpec, Ranking, Selection, sizes};

/// The candidates of every evaluated user, drawn once per run: items that the user never rated,
/// neither in training nor held out, but for later test items. A sampled candidate takes four bytes of
/// memory; the full catalogue takes none.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates {
    users: Vec<UserId>,
    /// The place of the first evaluated user whose ratings are here. Only users who are here have
    /// candidates.
    first: usize,
    /// How many candidates a draw takes for one item; 0 for the full catalogue.
    drawn: u32,
    lists: Lists,
}

/// The items against which held-out items are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// The candidates of the test item.
    TestCandidates,
    /// The candidates of the validation item, which may be those of the test item.
    ValidationCandidates,
    /// Everything that the user has not rated.
    Catalogue,
}

#[derive(Clone, Debug, PartialEq)]
enum Lists {
    /// No item is ranked among candidates: ratings are held out, or every figure is an expectation
    /// over all draws.
    Nothing,
    FullCatalogue,
    /// The candidates of each evaluated user, ascending: as many of the test item as a draw takes,
    /// and then those of the validation item, if it has its own.
    Sampled {
        all: Vec<u32>,
        has_own_validation: bool,
    },
}

impl Candidates {
    /// Draws the candidates.
    ///
    /// With `shared_candidates` the validation item is ranked against the test item's candidates
    /// (FedRAP's code); otherwise both have their own, and no item is in both (PFedRec's code draws
    /// 198 and halves them). Where test items come later, the validation item's are drawn by
    /// themselves, with the test items among those that may be drawn.
    ///
    /// # Errors
    /// [`Error::Dataset`] if a user has too few unrated items, if more users are to be evaluated
    /// than there are, if rounds are chosen by validation targets that nobody has, or if all candidates together are more than `sizes::MAX_ENTRIES`.
    pub fn draw(dataset: &Dataset, spec: &EvaluationSpec, streams: Streams) -> Result<Self> {
        let users = evaluated_users(dataset, spec, streams)?;
        check_validation(dataset, spec, &users)?;
        if !dataset.holds_items_out() {
            return Ok(Self {
                users,
                first: 0,
                drawn: 0,
                lists: Lists::Nothing,
            });
        }
        // Expectations over all draws need no drawn candidates.
        let is_drawn = spec.needs(Needs::RankAmongCandidates);
        let (wanted, separate) = wanted(dataset, spec);
        let drawn = at_once(dataset, spec);
        let listed = wanted.saturating_mul(if separate { 2 } else { 1 });
        // A generated population of that size has been refused with its scenario; the size of a
        // file is known only now.
        if let Some(reason) = sizes::candidates_too_many(users.len() as u64, u64::from(listed)) {
            return Err(Error::Dataset(reason));
        }
        let mut pool = Pool::new(dataset.items());
        let here = dataset.own_users();
        let place = |number: u32| users.partition_point(|user| user.0 < number);
        let (first, end) = (place(here.start), place(here.end));
        // The memory is for no more candidates than can be drawn, so that a number that no user has
        // ends in an error.
        let kept = (listed as usize).min(2 * dataset.items());
        let mut all = Vec::with_capacity(if is_drawn { (end - first) * kept } else { 0 });
        for &user in &users[first..end] {
            pool.restrict(dataset.items_without_rank(user), drawn);
            // Without any candidates, every held-out item would come first.
            if pool.available() < drawn.max(1) {
                let available = pool.available();
                return Err(too_few(dataset, user, spec, available));
            }
            if !is_drawn {
                continue;
            }
            let mut stream = streams.stream(Purpose::Candidates, u64::from(user.0), 0);
            let begins = all.len();
            pool.append_sample(&mut stream, drawn, &mut all);
            if drawn < listed {
                // A stream of its own, since how far the other one is read depends on the test items.
                let mut stream = streams.stream(Purpose::Candidates, u64::from(user.0), 1);
                pool.restrict(dataset.items_without_validation_rank(user), wanted);
                pool.append_sample(&mut stream, wanted, &mut all);
            }
            let (of_test, of_validation) = all[begins..].split_at_mut(wanted as usize);
            of_test.sort_unstable();
            of_validation.sort_unstable();
        }
        let lists = match spec.ranking {
            Ranking::FullCatalogue => Lists::FullCatalogue,
            Ranking::Sampled(_) if !is_drawn => Lists::Nothing,
            Ranking::Sampled(_) => Lists::Sampled {
                all,
                has_own_validation: separate,
            },
        };
        Ok(Self {
            users,
            first,
            drawn: wanted,
            lists,
        })
    }

    /// Returns the evaluated users, ascending; the other methods take positions in this list.
    pub fn evaluated_users(&self) -> &[UserId] {
        &self.users
    }

    /// Returns how many of `unrated` items a draw of candidates takes for one held-out item.
    pub fn drawn_of(&self, unrated: u32) -> u32 {
        match self.drawn {
            0 => unrated,
            drawn => drawn.min(unrated),
        }
    }

    /// Returns whether the candidates are everything that a user has not rated.
    pub fn are_all(&self) -> bool {
        self.lists == Lists::FullCatalogue
    }

    /// Returns whether test and validation item are ranked against the same candidates.
    pub fn are_shared(&self) -> bool {
        !matches!(
            self.lists,
            Lists::Sampled {
                has_own_validation: true,
                ..
            }
        )
    }

    /// Returns what a held-out item of the evaluated user at `position` is ranked against, ascending.
    /// Sampled candidates are borrowed from `self`; the full catalogue, which is everything that the
    /// user has not rated, is listed in `scratch`.
    pub fn list<'a>(
        &'a self,
        against: Against,
        dataset: &Dataset,
        position: usize,
        scratch: &'a mut CandidateScratch,
    ) -> &'a [u32] {
        match &self.lists {
            Lists::Sampled {
                all,
                has_own_validation,
            } if against != Against::Catalogue => {
                let own_list = *has_own_validation && against == Against::ValidationCandidates;
                let (length, lists) = (self.drawn as usize, 1 + usize::from(*has_own_validation));
                let list = (position - self.first) * lists + usize::from(own_list);
                &all[list * length..(list + 1) * length]
            }
            Lists::Nothing if against != Against::Catalogue => &[],
            _ => scratch.unrated(dataset, self.users[position]),
        }
    }
}

/// Returns how many candidates are wanted for a held-out item, and whether the validation item has its
/// own.
fn wanted(dataset: &Dataset, spec: &EvaluationSpec) -> (u32, bool) {
    match spec.ranking {
        Ranking::Sampled(sampled) => (
            sampled.candidates,
            dataset.has_validation_items()
                && (!sampled.shared_candidates || dataset.tests_come_later()),
        ),
        Ranking::FullCatalogue => (0, false),
    }
}

/// Returns how many items are drawn at once: all candidates of a user, or those of the test item where
/// the validation item's are drawn from other items.
fn at_once(dataset: &Dataset, spec: &EvaluationSpec) -> u32 {
    match wanted(dataset, spec) {
        (wanted, true) if !dataset.tests_come_later() => wanted.saturating_mul(2),
        (wanted, _) => wanted,
    }
}

/// Returns those of the users here who can be tested and have too few items that they never rated.
pub(super) fn unserved(dataset: &Dataset, spec: &EvaluationSpec) -> Vec<u32> {
    let own = dataset.own_users();
    let tested = dataset.tested_users().into_iter().map(UserId);
    let here = tested.filter(|user| own.contains(&user.0));
    short_of(dataset, spec, here)
        .map(|(user, _)| user.0)
        .collect()
}

/// Checks that every evaluated user here has as many items that were never rated as candidates are wanted.
///
/// # Errors
/// Those of [`Candidates::draw`].
pub(super) fn check(dataset: &Dataset, spec: &EvaluationSpec, streams: Streams) -> Result<()> {
    let own = dataset.own_users();
    let users = evaluated_users(dataset, spec, streams)?.into_iter();
    let here = users.filter(|user| own.contains(&user.0));
    match short_of(dataset, spec, here).next() {
        Some((user, available)) => Err(too_few(dataset, user, spec, available)),
        None => Ok(()),
    }
}

/// Returns which of `users` have too few items that they never rated, and how many they have.
fn short_of<'d>(
    dataset: &'d Dataset,
    spec: &EvaluationSpec,
    users: impl Iterator<Item = UserId> + 'd,
) -> impl Iterator<Item = (UserId, u32)> + 'd {
    // Without any candidates, every held-out item would come first.
    let needed = at_once(dataset, spec).max(1);
    let mut pool = Pool::new(dataset.items());
    let ranks = dataset.holds_items_out();
    users.filter(move |_| ranks).filter_map(move |user| {
        pool.restrict(dataset.items_without_rank(user), 0);
        let available = pool.available();
        (available < needed).then_some((user, available))
    })
}

/// Memory for listing a full catalogue; reusable for all users.
#[derive(Clone, Debug, Default)]
pub struct CandidateScratch {
    pool: Option<Pool>,
    items: Vec<u32>,
}

impl CandidateScratch {
    fn unrated(&mut self, dataset: &Dataset, user: UserId) -> &[u32] {
        let pool = match &mut self.pool {
            Some(pool) if pool.items() == dataset.items() => pool,
            other => other.insert(Pool::new(dataset.items())),
        };
        pool.restrict(dataset.items_without_rank(user), 0);
        self.items.clear();
        pool.append_all(&mut self.items);
        &self.items
    }
}

/// Returns all users, or a uniformly random `spec.users` of them, ascending.
///
/// The sample is made of the users with the smallest keys, each drawn from its user's own stream,
/// so that one more user displaces at most one of the others.
fn evaluated_users(
    dataset: &Dataset,
    spec: &EvaluationSpec,
    streams: Streams,
) -> Result<Vec<UserId>> {
    let tested = dataset.tested_users();
    let all = tested.iter().copied().map(UserId);
    let wanted = spec.users as usize;
    if wanted > tested.len() {
        return Err(Error::Dataset(format!(
            "evaluation.users is {wanted}, but the data set has {} users who can be tested",
            tested.len()
        )));
    }
    if wanted == 0 || wanted == tested.len() {
        return Ok(all.collect());
    }
    let key = |user: UserId| {
        (
            streams
                .stream(Purpose::EvaluatedUsers, u64::from(user.0), 0)
                .next_u64(),
            user,
        )
    };
    let mut keys: Vec<(u64, UserId)> = all.map(key).collect();
    keys.select_nth_unstable(wanted);
    let mut users: Vec<UserId> = keys[..wanted].iter().map(|key| key.1).collect();
    users.sort_unstable();
    Ok(users)
}

/// Refuses a choice by validation targets where none of the evaluated `users` has any.
fn check_validation(dataset: &Dataset, spec: &EvaluationSpec, users: &[UserId]) -> Result<()> {
    let Some(validated) = &dataset.validated else {
        return Ok(());
    };
    let (choice, way_out) = match (spec.selection, spec.patience) {
        (Selection::BestValidation, _) => {
            ("evaluation.selection is `best-validation`", "take `last`")
        }
        (_, Some(_)) => (
            "evaluation.patience goes by validation targets",
            "leave `patience` out",
        ),
        _ => return Ok(()),
    };
    let has_some = |user: &UserId| validated.binary_search(&user.0).is_ok();
    if users.iter().any(has_some) {
        return Ok(());
    }
    Err(Error::Dataset(format!(
        "{choice}, but none of the {} evaluated users has a validation target: of the ratings before \
         the cut that `validation_share` holds out (dataset.split.global-time), none is of an item new to \
         one of these users; raise `validation_share` or `evaluation.users`, or {way_out}",
        users.len()
    )))
}

fn too_few(dataset: &Dataset, user: UserId, spec: &EvaluationSpec, available: u32) -> Error {
    let who = dataset.who(user);
    let (wanted, _) = wanted(dataset, spec);
    // Where training ends at an instant, items that nobody had rated by then are no candidates.
    let (by_then, later) = match dataset.training_ends() {
        Some(_) => (
            " of those that were rated before the cut",
            "; a later cut has more (dataset.split.global-time.cut)",
        ),
        None => ("", ""),
    };
    if wanted == 0 {
        return Error::Dataset(format!(
            "{who} has rated every item{by_then}, so that no other item is left to rank the held-out one against{later}"
        ));
    }
    let (each, for_whom) = match at_once(dataset, spec) > wanted {
        true => (2, " for each of the test and the validation item"),
        false => (1, ""),
    };
    // As many serve everybody.
    let users = dataset.tested_users().into_iter().map(UserId);
    let own = dataset.own_users();
    let here = users.filter(|user| own.contains(&user.0));
    let least = short_of(dataset, spec, here).map(|(_, available)| available / each);
    let most = spec.cutoffs.iter().max().copied().unwrap_or_default();
    let remedy = match least.min() {
        // Among so few, each list would be shown whole.
        Some(least @ 1..) if least <= most => {
            "; rank all items: evaluation.ranking = \"full-catalogue\"".to_owned()
        }
        Some(least @ 1..) => format!("; lower evaluation.ranking.sampled.candidates to {least}"),
        _ => later.to_owned(),
    };
    Error::Dataset(format!(
        "{who}: {wanted} candidates{for_whom} are wanted (evaluation.ranking.sampled.candidates), but the user has only \
         {available} unrated items{by_then}{remedy}"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::dataset::load;
    use fedrecsim_scenario::{DatasetName, DatasetSpec, GeneratorSpec, SampledSpec, SplitSpec};

    fn sampled(candidates: u32, shared_candidates: bool) -> EvaluationSpec {
        EvaluationSpec {
            ranking: Ranking::Sampled(SampledSpec {
                candidates,
                shared_candidates,
            }),
            ..EvaluationSpec::default()
        }
    }

    const STREAMS: Streams = Streams::new(9);

    fn dataset(users: u32, items: u32, validation_item: bool) -> Dataset {
        let population = GeneratorSpec {
            users,
            items,
            ratings_per_user: 10.0,
            ..GeneratorSpec::default()
        };
        let spec = DatasetSpec {
            generator: Some(population),
            split: SplitSpec::leave_one_out(validation_item),
            ..DatasetSpec::named(DatasetName::Generated)
        };
        load(&spec, &[], STREAMS).unwrap()
    }

    /// If this fails, the program ends for lack of memory before it says why.
    #[test]
    fn candidates_that_no_run_can_hold_are_refused_before_they_are_drawn() {
        let spec = sampled(u32::MAX, true);
        let message = Candidates::draw(&dataset(30, 60, false), &spec, STREAMS)
            .unwrap_err()
            .to_string();
        assert!(
            message
                .starts_with("30 evaluated users with 4294967295 candidates each take 480.0 GiB"),
            "{message}"
        );
    }

    fn unrated(dataset: &Dataset, user: UserId) -> Vec<u32> {
        let touched: Vec<u32> = dataset.touched_items(user).collect();
        (0..dataset.items() as u32)
            .filter(|item| !touched.contains(item))
            .collect()
    }

    #[test]
    fn the_full_catalogue_is_everything_unrated() {
        let dataset = dataset(5, 100, true);
        let spec = EvaluationSpec {
            ranking: Ranking::FullCatalogue,
            ..Default::default()
        };
        let candidates = Candidates::draw(&dataset, &spec, STREAMS).unwrap();
        let mut scratch = CandidateScratch::default();
        for (position, &user) in candidates.evaluated_users().iter().enumerate() {
            assert_eq!(
                candidates.list(Against::TestCandidates, &dataset, position, &mut scratch),
                unrated(&dataset, user)
            );
            assert_eq!(
                candidates.list(
                    Against::ValidationCandidates,
                    &dataset,
                    position,
                    &mut scratch
                ),
                unrated(&dataset, user)
            );
        }
    }

    #[test]
    fn too_few_unrated_items_are_an_error_that_names_the_user() {
        let dataset = dataset(5, 60, true);
        let message = Candidates::draw(&dataset, &EvaluationSpec::default(), STREAMS)
            .unwrap_err()
            .to_string();
        let available = unrated(&dataset, UserId(0)).len();
        let least = (0..5).map(|user| unrated(&dataset, UserId(user)).len());
        let least = least.min().unwrap();
        assert_eq!(
            message,
            format!(
                "user 0: 99 candidates are wanted (evaluation.ranking.sampled.candidates), but the user has only {available} unrated \
                 items; lower evaluation.ranking.sampled.candidates to {least}"
            )
        );
        // A process of several tells it of its own users, and knows nothing of the others.
        let part = dataset.clone().of_users(2..4);
        let of_part = Candidates::draw(&part, &EvaluationSpec::default(), STREAMS);
        let message = of_part.unwrap_err().to_string();
        assert!(
            message.starts_with("user 2: 99 candidates are wanted"),
            "{message}"
        );
        let separate = sampled(30, false);
        let message = Candidates::draw(&dataset, &separate, STREAMS)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("30 candidates for each of the test and the validation item"),
            "{message}"
        );
        // A number of candidates beyond all memory ends in the same error.
        let absurd = sampled(u32::MAX, false);
        assert!(Candidates::draw(&dataset, &absurd, STREAMS).is_err());
    }

    #[test]
    fn a_subset_of_users_is_fixed_and_one_more_user_displaces_at_most_one() {
        let spec = EvaluationSpec {
            users: 30,
            ..EvaluationSpec::default()
        };
        let few = Candidates::draw(&dataset(100, 300, true), &spec, STREAMS).unwrap();
        assert_eq!(
            few,
            Candidates::draw(&dataset(100, 300, true), &spec, STREAMS).unwrap()
        );
        assert_eq!(few.evaluated_users().len(), 30);
        assert!(few.evaluated_users().is_sorted());
        let more = Candidates::draw(&dataset(101, 300, true), &spec, STREAMS).unwrap();
        let kept = few
            .evaluated_users()
            .iter()
            .filter(|user| more.evaluated_users().contains(user))
            .count();
        assert!(kept >= 29, "{kept}");
    }

    #[test]
    fn the_evaluated_users_are_those_with_the_smallest_keys() {
        let dataset = dataset(20, 300, true);
        let mut by_key: Vec<UserId> = (0..20).map(UserId).collect();
        by_key.sort_by_key(|user| {
            STREAMS
                .stream(Purpose::EvaluatedUsers, u64::from(user.0), 0)
                .next_u64()
        });
        for users in [1, 2, 10, 19, 20] {
            let spec = EvaluationSpec {
                users,
                ..EvaluationSpec::default()
            };
            let candidates = Candidates::draw(&dataset, &spec, STREAMS).unwrap();
            let mut expected = by_key[..users as usize].to_vec();
            expected.sort();
            assert_eq!(candidates.evaluated_users(), expected);
        }
    }

    #[test]
    fn a_user_with_just_enough_unrated_items_is_ranked_against_all_of_them() {
        let dataset = dataset(1, 60, true);
        let unrated = unrated(&dataset, UserId(0));
        let spec = sampled(unrated.len() as u32, true);
        let candidates = Candidates::draw(&dataset, &spec, STREAMS).unwrap();
        assert_eq!(
            candidates.list(
                Against::TestCandidates,
                &dataset,
                0,
                &mut CandidateScratch::default()
            ),
            unrated
        );
    }

    #[test]
    fn the_held_out_items_share_their_candidates_unless_each_has_its_own() {
        let shared = |validation_item, spec| {
            Candidates::draw(&dataset(3, 300, validation_item), &spec, STREAMS)
                .unwrap()
                .are_shared()
        };
        assert!(!shared(true, sampled(99, false)));
        assert!(shared(true, sampled(99, true)));
        assert!(
            shared(false, sampled(99, false)),
            "there is no validation item"
        );
        assert!(
            shared(
                true,
                EvaluationSpec {
                    ranking: Ranking::FullCatalogue,
                    ..EvaluationSpec::default()
                }
            ),
            "the catalogue is the same for both"
        );
    }

    #[test]
    fn scratch_memory_serves_catalogues_of_any_size() {
        // Memory for a smaller catalogue would be written past its end; with memory for a larger
        // one, items that do not exist would be listed.
        let spec = EvaluationSpec {
            ranking: Ranking::FullCatalogue,
            ..EvaluationSpec::default()
        };
        let mut scratch = CandidateScratch::default();
        for items in [150, 100, 300] {
            let dataset = dataset(2, items, true);
            let candidates = Candidates::draw(&dataset, &spec, STREAMS).unwrap();
            let listed = candidates.list(Against::TestCandidates, &dataset, 1, &mut scratch);
            assert_eq!(listed, &unrated(&dataset, UserId(1))[..], "{items}");
        }
    }

    #[test]
    fn more_evaluated_users_than_there_are_is_an_error() {
        let spec = EvaluationSpec {
            users: 11,
            ..EvaluationSpec::default()
        };
        let message = Candidates::draw(&dataset(10, 300, true), &spec, STREAMS)
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            "evaluation.users is 11, but the data set has 10 users who can be tested"
        );
    }

    #[test]
    fn one_more_user_changes_nobodys_candidates() {
        let draw = |users| {
            Candidates::draw(
                &dataset(users, 300, true),
                &EvaluationSpec::default(),
                STREAMS,
            )
            .unwrap()
        };
        let (Lists::Sampled { all: few, .. }, Lists::Sampled { all: more, .. }) =
            (draw(8).lists, draw(9).lists)
        else {
            panic!("sampled candidates were asked for");
        };
        assert_eq!(few[..], more[..few.len()]);
        assert_eq!(more.len(), 9 * 99);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn candidates_are_distinct_unrated_and_halved_on_request(
            seed: u64,
            wanted in 1u32..50,
            shared_candidates: bool,
            validation_item: bool,
        ) {
            let dataset = dataset(10, 150, validation_item);
            let spec = sampled(wanted, shared_candidates);
            let candidates = Candidates::draw(&dataset, &spec, Streams::new(seed)).unwrap();
            let (mut first, mut second) = (CandidateScratch::default(), CandidateScratch::default());
            for (position, &user) in candidates.evaluated_users().iter().enumerate() {
                let test = candidates.list(Against::TestCandidates, &dataset, position, &mut first);
                let validation = candidates.list(Against::ValidationCandidates, &dataset, position, &mut second);
                let free = unrated(&dataset, user);
                for list in [test, validation] {
                    prop_assert_eq!(list.len(), wanted as usize);
                    // A strictly ascending list has no item twice.
                    prop_assert!(list.windows(2).all(|pair| pair[0] < pair[1]));
                    prop_assert!(list.iter().all(|item| free.contains(item)));
                }
                if validation_item && !shared_candidates {
                    prop_assert!(test.iter().all(|item| !validation.contains(item)));
                } else {
                    prop_assert_eq!(test, validation);
                }
            }
        }
    }
}
