//! Adds up the weights of a step's updates.

/// The part of the shared model g that the step keeps, and the divisor of the sum over all updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepWeights {
    /// The weight of g.
    pub kept: f64,
    /// The divisor.
    pub divisor: f64,
}

/// The sums of the weights of a step's updates, in the order of addition.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WeightTotals {
    /// The number of updates; where the method weighs them, the sum of the method's weights.
    pub updates: f64,
    /// The sum of all weights.
    pub weights: f64,
    /// The sum of the weights of the updates that started from the model of now.
    pub fresh_weights: f64,
    /// The sum of the weights of the others.
    pub stale_weights: f64,
}

impl WeightTotals {
    /// Adds an update whose weight is `by_method` by the method and `by_policy` by the policy.
    /// `is_fresh` says whether the update started from the model of now.
    pub fn add(&mut self, by_method: f64, by_policy: f64, is_fresh: bool) {
        let weight = by_policy * by_method;
        self.updates += by_method;
        self.weights += weight;
        match is_fresh {
            true => self.fresh_weights += weight,
            false => self.stale_weights += weight,
        }
    }

    /// Adds the sums of other updates of the same step.
    pub fn merge(&mut self, other: &Self) {
        self.updates += other.updates;
        self.weights += other.weights;
        self.fresh_weights += other.fresh_weights;
        self.stale_weights += other.stale_weights;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a step whose updates were added up at several places divides by another
    /// number.
    #[test]
    fn merged_weights_are_those_of_all_updates() {
        let totals = |updates: &[(f64, f64, bool)]| {
            let mut totals = WeightTotals::default();
            updates
                .iter()
                .for_each(|(method, policy, is_fresh)| totals.add(*method, *policy, *is_fresh));
            totals
        };
        let (one, other) = ([(1.0, 0.5, false), (2.0, 1.0, true)], [(4.0, 0.25, false)]);
        let mut merged = totals(&one);
        merged.merge(&totals(&other));
        assert_eq!(merged, totals(&[&one[..], &other].concat()));
        let expected = WeightTotals {
            updates: 7.0,
            weights: 3.5,
            fresh_weights: 2.0,
            stale_weights: 1.5,
        };
        assert_eq!(merged, expected);
    }
}
