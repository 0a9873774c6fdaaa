//! Holds what a device knows of its user's time: the items before an instant, in their order.

use fedrecsim_data::dataset::OwnData;

use crate::user_vector::latest_positives;

/// The days without a rating that end a session.
const SESSION_GAP_DAYS: f64 = 1.0;

/// Returns how many days before the present each row is. Without timestamps the rank of a row stands
/// for that.
pub(super) fn ages(own: &OwnData<'_>) -> Vec<f64> {
    let ages = own.ages_in_days().map(Vec::from_iter);
    ages.unwrap_or_else(|| own.recency_ranks.iter().map(f64::from).collect())
}

/// A user's positives before an instant, each once, by rising time and then by item.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct History {
    pub(super) items: Vec<u32>,
    /// How many days old each item is at the instant.
    pub(super) ages: Vec<f64>,
}

impl History {
    /// Returns the positives that are more than so many days older than the present, by the age of
    /// each row at the present. With 0 days the present itself belongs to them.
    pub(super) fn older_than(days: f64, own: &OwnData<'_>, ages: &[f64]) -> Self {
        let is_later = |age: f64| age <= days && days > 0.0;
        // Rows behind the instant are set aside as infinitely young.
        let kept = |age: &f64| if is_later(*age) { f64::INFINITY } else { *age };
        let (items, ages) = latest_positives(own, ages.iter().map(kept));
        let rows = items.into_iter().zip(ages);
        let mut rows: Vec<(u32, f64)> = rows.filter(|(_, age)| age.is_finite()).collect();
        rows.sort_by(|(item, age), (other, than)| than.total_cmp(age).then(item.cmp(other)));
        Self {
            items: rows.iter().map(|(item, _)| *item).collect(),
            ages: rows.iter().map(|(_, age)| age - days).collect(),
        }
    }

    pub(super) fn has(&self, item: u32) -> bool {
        self.items.contains(&item)
    }

    /// Returns for each item the number of items that are strictly later.
    pub(super) fn later(&self) -> Vec<f64> {
        let younger = |age: &f64| self.ages.partition_point(|other| other >= age);
        let later = self.ages.iter().map(|age| self.ages.len() - younger(age));
        later.map(|count| count as f64).collect()
    }

    /// Returns for each item the session that it lies in, from 0, and whether it lies at the first
    /// instant of that session.
    pub(super) fn sessions(&self) -> Vec<(u32, bool)> {
        let (mut session, mut began) = (0, self.ages.first().copied().unwrap_or_default());
        let mut before = began;
        let of = |age: &f64| {
            if before - age > SESSION_GAP_DAYS {
                (session, began) = (session + 1, *age);
            }
            before = *age;
            (session, *age == began)
        };
        self.ages.iter().map(of).collect()
    }
}

/// What a user took between two instants, which are so many days before the present.
pub(super) struct Targets {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) only_first: bool,
}

impl Targets {
    /// Returns the positives of this time, ascending.
    pub(super) fn of(&self, own: &OwnData<'_>, ages: &[f64]) -> Vec<u32> {
        let is_in = |age: f64| age <= self.from && (age > self.to || self.to == 0.0);
        let oldest = |oldest: f64, age: &f64| {
            if is_in(*age) {
                oldest.max(*age)
            } else {
                oldest
            }
        };
        let first = ages.iter().fold(f64::NEG_INFINITY, oldest);
        let is_taken = |age: f64| is_in(age) && (!self.only_first || age == first);
        let rows = own.items.iter().zip(ages).enumerate();
        let taken = rows.filter(|(at, (_, age))| own.is_positive(*at) && is_taken(**age));
        let mut items: Vec<u32> = taken.map(|(_, (item, _))| *item).collect();
        items.dedup();
        items
    }
}
