//! Steps a user vector towards the rows of recent positives before a device scores.

use super::recency::{self, Recency, weighted_positives};
use fedrecsim_core::{Result, UserId, math};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_model::Table;
use fedrecsim_scenario::{ParameterFault, keys};

keys! {
    /// How a device steps its user vector u towards the mean row r of its positives, in which recent
    /// ones count more, before it scores: u + step |u| r / |r|. Training goes on from u, and nothing
    /// of the step leaves the device.
    pub struct RecentStep {
        /// Length of the step, in lengths of the user vector.
        step: f64 = 1.0, > 0.0;
        /// Number tau of positives after which a weight has fallen to 1/e.
        tau: f64 = Recency::default().tau, > 0.0;
        /// Weight that remains of the oldest positives.
        floor: f64 = 0.0, >= 0;
        /// A positive weighs half when it is so many days old, in place of `tau`. Its age counts from
        /// the end of training, which `global-time` has. Other splits have no common present, and
        /// there the age counts from the user's own last training rating. Every rating needs a
        /// timestamp.
        half_life_days: Option<f64> = None, > 0.0;
    }
}

impl RecentStep {
    /// Returns how recent positives count more.
    fn weighting(&self) -> Recency {
        Recency {
            tau: self.tau,
            floor: self.floor,
            half_life_days: self.half_life_days,
            in_training: false,
        }
    }
}

/// Warns of a `tau` that `half_life_days` leaves without an effect.
pub(super) fn idle(of: Option<&RecentStep>) -> Vec<ParameterFault> {
    recency::idle(of.map(RecentStep::weighting).as_ref())
}

/// Returns the vector that a user scores with: `vector`, and the step of `of` from it.
///
/// # Errors
/// [`Error::Dataset`] where ages are wanted of ratings without timestamps.
pub(super) fn stepped(
    of: Option<&RecentStep>,
    vector: Vec<f32>,
    table: &Table,
    (own, user): (&OwnData<'_>, UserId),
) -> Result<Vec<f32>> {
    let Some(of) = of else {
        return Ok(vector);
    };
    let (items, weights) = weighted_positives((own, user), Some(&of.weighting()))?;
    let mut sum = vec![0.0; vector.len()];
    for (item, weight) in items.iter().zip(&weights) {
        let row = table.row(*item as usize);
        for (sum, value) in sum.iter_mut().zip(row) {
            *sum += weight * f64::from(*value);
        }
    }
    // The length of the step does not depend on the sum of the weights.
    let before: Vec<f64> = vector.iter().map(|value| f64::from(*value)).collect();
    let [of_vector, of_sum] = [&before, &sum].map(|values| length(values));
    if of_sum == 0.0 {
        return Ok(vector);
    }
    let share = of.step * of_vector / of_sum;
    let moved = before
        .iter()
        .zip(&sum)
        .map(|(value, by)| value + share * by);
    Ok(moved.map(|value| value as f32).collect())
}

fn length(values: &[f64]) -> f64 {
    math::sqrt(values.iter().map(|value| value * value).sum())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_core::Timestamp;
    use fedrecsim_model::TableShape;

    /// Returns where (0, 2) steps to from a table whose rows 0, 2 and 3 are (0, 0), (3, 0) and (0, 3).
    fn moved(of: Option<&RecentStep>, own: &OwnData<'_>) -> Vec<f32> {
        let values = vec![0.0, 0.0, 9.0, 9.0, 3.0, 0.0, 0.0, 3.0];
        let table = Table::new(TableShape::new(4, 2), values);
        stepped(of, vec![0.0, 2.0], &table, (own, UserId(0))).unwrap()
    }

    /// If this fails, a device steps by other weights or another length than its scenario says, goes
    /// by items that are no positives of its own, or moves without a direction or without the key.
    #[test]
    fn a_vector_steps_by_its_own_length_towards_recent_rows() {
        let instants = [20, 10, 15].map(|day| Timestamp(day * 86_400_000_000_000));
        // Item 3 is one positive later than item 2. Item 1 is none.
        let own = OwnData {
            recency_ranks: (&[0u8, 1, 0][..]).into(),
            labels: Some(&[false, true, true]),
            instants: &instants,
            ..OwnData::new(&[1, 2, 3])
        };
        let of = |half_life_days| RecentStep {
            step: 0.5,
            tau: 2.0,
            half_life_days,
            ..RecentStep::default()
        };
        let expect = |of: RecentStep, old: f64| {
            // Half the length of (0, 2) is 1, and the mean row has the direction (old, 1).
            let length = old.hypot(1.0);
            let expected = [old / length, 2.0 + 1.0 / length];
            for (found, expected) in moved(Some(&of), &own).iter().zip(expected) {
                assert!((f64::from(*found) - expected).abs() < 1e-6, "{of:?}");
            }
        };
        expect(of(None), (-0.5f64).exp());
        expect(of(Some(5.0)), 0.5);
        assert_eq!(moved(None, &own), [0.0, 2.0]);
        for own in [OwnData::new(&[0]), OwnData::new(&[])] {
            assert_eq!(moved(Some(&of(None)), &own), [0.0, 2.0]);
        }
    }
}
