//! Holds the samples that methods at the server train on by mini-batches.

use super::central::UserRatings;
use super::protocol::Protocol;
use super::server::StepContext;
use fedrecsim_core::error::Result;
use fedrecsim_core::rng::PortableDraws;

/// Holds one training sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The user.
    pub user: u32,
    /// The item.
    pub item: u32,
    /// Says whether the item is a positive of the user.
    pub is_positive: bool,
}

/// Draws the samples of a pass in random order: every positive, and the negatives that the protocol
/// gives it. `name` is that of the method, which names the streams.
///
/// # Errors
/// Those of [`Protocol::draw_negatives`].
pub(super) fn draw(
    protocol: &Protocol,
    data: (&[UserRatings], usize),
    step: &StepContext<'_>,
    name: &str,
) -> Result<Vec<Sample>> {
    draw_shuffled(
        protocol,
        data,
        (step, name),
        |samples, user, item, negatives| {
            samples.push(Sample {
                user,
                item,
                is_positive: true,
            });
            samples.extend(negatives.iter().map(|&item| Sample {
                user,
                item,
                is_positive: false,
            }));
        },
    )
}

/// Draws what a pass trains on, in random order: `add` appends what is made of a positive of a user
/// and its negatives. `data` are the ratings and the number of items; the method's name names the
/// streams.
///
/// # Errors
/// Those of [`Protocol::draw_negatives`].
pub(super) fn draw_shuffled<T>(
    protocol: &Protocol,
    data: (&[UserRatings], usize),
    (step, name): (&StepContext<'_>, &str),
    mut add: impl FnMut(&mut Vec<T>, u32, u32, &[u32]),
) -> Result<Vec<T>> {
    let mut drawn = Vec::new();
    let mut stream = step.named_stream(&format!("{name}/negatives"));
    protocol.draw_negatives(data, &mut stream, |user, item, negatives| {
        add(&mut drawn, user, item, negatives)
    })?;
    step.named_stream(&format!("{name}/order"))
        .shuffle_portably(&mut drawn);
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::method::tests::{problem_of, sent, with_step};
    use fedrecsim_scenario::scenario::NegativesSpec;

    /// If this fails, the server trains on other items than those that users have sent, or on
    /// negatives that they have sent.
    #[test]
    fn each_positive_stands_there_once_with_its_negatives() {
        let spec = NegativesSpec {
            per_positive: 3,
            ..NegativesSpec::default()
        };
        let protocol = problem_of(2, 6).with_negatives(&spec).protocol;
        let ratings = sent(&[&[1, 4, 5], &[0]]);
        let mut samples = with_step(0, |step| draw(&protocol, (&ratings, 6), step, "any")).unwrap();
        samples.sort_unstable_by_key(|sample| (sample.user, !sample.is_positive, sample.item));
        let of = |user: u32, is_positive: bool| -> Vec<u32> {
            let own = samples
                .iter()
                .filter(|sample| sample.user == user && sample.is_positive == is_positive);
            own.map(|sample| sample.item).collect()
        };
        assert_eq!((of(0, true), of(1, true)), (vec![1, 4, 5], vec![0]));
        assert_eq!(
            of(0, false),
            [0, 0, 0, 2, 2, 2, 3, 3, 3],
            "three other items, each for each of three positives"
        );
        assert_eq!(of(1, false).len(), 3);
        assert!(!of(1, false).contains(&0));
    }
}
