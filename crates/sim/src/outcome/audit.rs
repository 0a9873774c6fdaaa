//! What an audit has found that a server could read out of uploads.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// How well a score tells the items that a user has rated from all others, as a mean over users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditFigures {
    /// The probability that a rated item has a higher score than another one, where ties count half
    /// (AUC). It is 0.5 for a score that says nothing.
    pub auc: f64,
    /// The share of rated items among as many of the highest scores as there are rated items.
    pub precision: f64,
}

/// The findings on the uploads of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The number of uploads that were looked at. Without any, the guesses from one upload are at
    /// random.
    pub users: u64,
    /// By whether an upload changes the item's row.
    pub presence: AuditFigures,
    /// By how far it moves the row.
    pub norm: AuditFigures,
    /// By how much it moves the row against the mean of its changes.
    pub against_mean: AuditFigures,
    /// The same three, by the sums over all uploads of a user so far; absent in rounds after which
    /// this was not asked.
    pub linked: Option<[AuditFigures; 3]>,
    /// The largest eigenvalue of the outer product of a user vector with itself, as a share of the
    /// trace. It is 1 if the upload gives the vector away up to its sign; absent unless uploads
    /// have such a product.
    pub outer_product: Option<f64>,
}

impl AuditFigures {
    /// The figures of a guess at random where no item is rated.
    pub(crate) const NOTHING: Self = Self {
        auc: 0.5,
        precision: 0.0,
    };

    /// Returns the highest of each figure. An AUC below 0.5 counts as that of the opposite guess.
    pub(crate) fn best(guesses: [Self; 3]) -> Self {
        let highest = |of: fn(&Self) -> f64| guesses.iter().map(of).fold(0.0, f64::max);
        Self {
            auc: highest(|guess| guess.auc.max(1.0 - guess.auc)),
            precision: highest(|guess| guess.precision),
        }
    }
}

impl AddAssign for AuditFigures {
    fn add_assign(&mut self, other: Self) {
        self.auc += other.auc;
        self.precision += other.precision;
    }
}

impl AuditRecord {
    /// Returns the highest AUC and the highest precision of the guesses from one upload. Each
    /// figure is taken by itself, so that the two may come from different guesses.
    pub fn best_guess(&self) -> AuditFigures {
        AuditFigures::best([self.presence, self.norm, self.against_mean])
    }

    /// Returns the best of the guesses from all uploads of a user, as [`Self::best_guess`].
    pub fn best_linked_guess(&self) -> Option<AuditFigures> {
        self.linked.map(AuditFigures::best)
    }

    /// Returns the mean over the uploads of several rounds, with the latest guess from all uploads;
    /// `None` without any.
    pub fn over(records: impl Iterator<Item = Self> + Clone) -> Option<Self> {
        let users: u64 = records.clone().map(|record| record.users).sum();
        if users == 0 {
            return None;
        }
        let mean = |of: fn(&Self) -> AuditFigures| {
            records
                .clone()
                .fold(AuditFigures::default(), |mut sum, record| {
                    let (figures, share) = (of(&record), record.users as f64 / users as f64);
                    sum += AuditFigures {
                        auc: figures.auc * share,
                        precision: figures.precision * share,
                    };
                    sum
                })
        };
        Some(Self {
            users,
            presence: mean(|record| record.presence),
            norm: mean(|record| record.norm),
            against_mean: mean(|record| record.against_mean),
            linked: records.clone().filter_map(|record| record.linked).last(),
            outer_product: records.filter_map(|record| record.outer_product).last(),
        })
    }
}
