//! Why participations were lost.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// The cause of the loss of a participation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LossCause {
    /// It dropped out, as `network.dropout` has it.
    Dropout,
    /// The user left, by its availability.
    Departure,
    /// The fault rule of this number, counted from 0, spoiled a transfer or kept the user away.
    Fault(u32),
}

/// The numbers of participations that were lost, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Those that dropped out.
    pub dropouts: u64,
    /// Those whose users left.
    pub departures: u64,
    /// Those that a fault rule has cost, by the number of the rule. Rules after the last one that
    /// has cost any are left out.
    pub faults: Vec<u64>,
}

impl Losses {
    /// Counts one more participation that was lost for this cause.
    pub(crate) fn count(&mut self, cause: LossCause) {
        match cause {
            LossCause::Dropout => self.dropouts += 1,
            LossCause::Departure => self.departures += 1,
            LossCause::Fault(rule) => *self.of_rule(rule as usize) += 1,
        }
    }

    /// Returns how many participations the fault rule of this number has cost.
    pub fn by_fault(&self, rule: usize) -> u64 {
        self.faults.get(rule).copied().unwrap_or(0)
    }

    /// Returns how many participations were lost for any cause.
    pub fn total(&self) -> u64 {
        self.dropouts + self.departures + self.faults.iter().sum::<u64>()
    }

    fn of_rule(&mut self, rule: usize) -> &mut u64 {
        if self.faults.len() <= rule {
            self.faults.resize(rule + 1, 0);
        }
        &mut self.faults[rule]
    }
}

impl AddAssign<&Self> for Losses {
    fn add_assign(&mut self, other: &Self) {
        self.dropouts += other.dropouts;
        self.departures += other.departures;
        for (rule, lost) in other.faults.iter().enumerate() {
            *self.of_rule(rule) += lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a loss is counted for another cause than its own, or is missing in the sum.
    #[test]
    fn every_cause_has_its_own_count() {
        let causes = [
            LossCause::Fault(2),
            LossCause::Dropout,
            LossCause::Departure,
            LossCause::Fault(0),
        ];
        let mut losses = Losses::default();
        causes
            .into_iter()
            .chain([LossCause::Fault(2)])
            .for_each(|cause| losses.count(cause));
        assert_eq!(
            losses,
            Losses {
                dropouts: 1,
                departures: 1,
                faults: vec![1, 0, 2]
            }
        );
        assert_eq!(
            (losses.by_fault(2), losses.by_fault(7), losses.total()),
            (2, 0, 5)
        );
        let mut sum = Losses {
            faults: vec![0, 4],
            ..Losses::default()
        };
        sum += &losses;
        assert_eq!((sum.faults.as_slice(), sum.total()), (&[1, 4, 2][..], 9));
    }
}
