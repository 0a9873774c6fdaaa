//! Leaves out users whom a run cannot serve: those with too few positives for the split, too few items
//! to draw negatives from, or too few candidates.

use std::collections::BTreeSet;

use super::ratings::Ratings;
use super::{Dataset, candidates, negatives, split};
use fedrecsim_core::{Error, Result, Streams};
use fedrecsim_scenario::{DatasetSpec, EvaluationSpec, OnUnusableUser};

/// What a run asks of its users besides the split: the evaluation, and whether its method draws
/// negatives.
pub(super) type Needs<'s> = (&'s EvaluationSpec, bool);

/// Splits the ratings of a file. Users whom the run cannot serve are refused or left out, as `spec` says.
/// As long as its needs are not known, these are the users that cannot be split.
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
        let dataset = split::split(ratings, &spec.split, streams)?;
        if let Some((evaluation, draws)) = needs {
            candidates::check(&dataset, evaluation, streams)?;
            if draws {
                negatives::check(&dataset, &spec.negatives)?;
            }
        }
        return Ok(dataset);
    }
    let mut left_out = [0; 3];
    let all = ratings.user_names.len();
    while !ratings.user_names.is_empty() {
        let mut attempt = ratings.clone();
        // The split may order users anew. Numbers in place of the names tell them apart.
        attempt.user_names = (0..ratings.user_names.len())
            .map(|user| user.to_string().into())
            .collect();
        let unusable: BTreeSet<usize> =
            match split::split_or_too_few(attempt, &spec.split, streams)? {
                Err(users) => {
                    left_out[0] += users.len();
                    users.into_iter().map(|user| user as usize).collect()
                }
                Ok(mut dataset) => {
                    let numbers = dataset
                        .user_names
                        .iter()
                        .map(|name| name.parse().unwrap_or(0));
                    let numbers: Vec<usize> = numbers.collect();
                    let [without_negatives, without_candidates] = needs
                        .map_or_else(Default::default, |needs| unserved(&dataset, spec, needs));
                    left_out[1] += without_negatives.len();
                    left_out[2] += without_candidates.len();
                    let unserved: BTreeSet<u32> = [without_negatives, without_candidates]
                        .concat()
                        .into_iter()
                        .collect();
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
    let [split, negatives, candidates] = left_out;
    Err(Error::Dataset(format!(
        "no user is left of {all}: dataset.on_unusable_user is `leave-out`, and this leaves out {split} users with too \
         few positives for the split, {negatives} with too few other items for dataset.negatives.per_positive and \
         {candidates} with too few for the candidates of evaluation.ranking (somebody may lack both)"
    )))
}

/// Returns the users of a split data set who have too few items to draw negatives from, and those who
/// have too few candidates.
fn unserved(
    dataset: &Dataset,
    spec: &DatasetSpec,
    (evaluation, draws): Needs<'_>,
) -> [Vec<u32>; 2] {
    let without_negatives = negatives::unserved(dataset, &spec.negatives);
    let without_negatives = without_negatives.filter(|_| draws).map(|(user, _)| user.0);
    [
        without_negatives.collect(),
        candidates::unserved(dataset, evaluation),
    ]
}
