//! Leaves out users whom a run cannot serve: those with too few positives for the split, too few items
//! to draw negatives from, or too few candidates.

use std::collections::BTreeSet;

use super::ratings::Ratings;
use super::{Dataset, candidates, negatives, split};
use fedrecsim_core::{Error, Result, Streams};
use fedrecsim_scenario::{DatasetSpec, EvaluationSpec, OnUnusableUser};

/// What a run asks of its users besides the split: the evaluation, and whether its method trains.
pub(super) type Needs<'s> = (&'s EvaluationSpec, bool);

/// Splits the ratings of a file, without the users whom the run cannot serve if `spec` says so. As long
/// as its needs are not known, these are the users that cannot be split.
///
/// A user who is left out may take items along, so that others have too few of them: users are left
/// out until everybody who is left can be served.
///
/// # Errors
/// Those of [`split::split`], and [`Error::Dataset`] if nobody is left.
pub(super) fn split_served(
    mut ratings: Ratings,
    spec: &DatasetSpec,
    needs: Option<Needs<'_>>,
    streams: Streams,
) -> Result<Dataset> {
    if spec.on_unusable_user == OnUnusableUser::Refuse {
        return split::split(ratings, &spec.split, streams);
    }
    let all = ratings.user_names.len();
    while !ratings.user_names.is_empty() {
        let mut attempt = ratings.clone();
        // The split may order users anew. Numbers in place of the names tell them apart.
        attempt.user_names = (0..ratings.user_names.len())
            .map(|user| user.to_string().into())
            .collect();
        let unusable: BTreeSet<usize> =
            match split::split_or_too_few(attempt, &spec.split, streams)? {
                Err(users) => users.into_iter().map(|user| user as usize).collect(),
                Ok(mut dataset) => {
                    let numbers = dataset
                        .user_names
                        .iter()
                        .map(|name| name.parse().unwrap_or(0));
                    let numbers: Vec<usize> = numbers.collect();
                    let unserved = needs.map(|needs| unserved(&dataset, spec, needs));
                    let unserved = unserved.unwrap_or_default();
                    if unserved.is_empty() {
                        let name = |user: &usize| std::mem::take(&mut ratings.user_names[*user]);
                        dataset.user_names = numbers.iter().map(name).collect();
                        dataset.totals.split.unusable_users = (all - numbers.len()) as u64;
                        return Ok(dataset);
                    }
                    unserved
                        .into_iter()
                        .map(|user| numbers[user as usize])
                        .collect()
                }
            };
        ratings = ratings.only(|user, _| !unusable.contains(&(user as usize)));
    }
    Err(Error::Dataset(format!(
        "no user is left: dataset.on_unusable_user is `leave-out`, and none of {all} users has enough positives \
         for the split and enough other items for negatives and candidates"
    )))
}

/// Returns the users of a split data set whom the run cannot serve.
fn unserved(
    dataset: &Dataset,
    spec: &DatasetSpec,
    (evaluation, trains): Needs<'_>,
) -> BTreeSet<u32> {
    let without_negatives = negatives::unserved(dataset, &spec.negatives);
    let without_negatives = without_negatives.filter(|_| trains).map(|(user, _)| user.0);
    let without_candidates = candidates::unserved(dataset, evaluation);
    without_negatives.chain(without_candidates).collect()
}
