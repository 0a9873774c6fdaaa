//! Divides ratings as a column of the file says.
//!
//! An item that a user has in an earlier part as well is not held out: what is trained on is no candidate,
//! and what validation has chosen by is no test. What is held out and not wanted (labelled 0, or rated too
//! low) is neither trained on nor a candidate.

use std::collections::BTreeSet;

use super::Parts;
use crate::dataset::ratings::{Interaction, Part, Ratings};
use crate::dataset::split_facts::SplitFacts;
use crate::dataset::user_rows::UserRows;
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::{ByColumnSpec, HoldsOut};

impl Ratings {
    /// Returns whether some rating belongs to this part.
    pub(super) fn has_part(&self, part: Part) -> bool {
        self.interactions.iter().any(|row| row.part == part)
    }
}

/// What is said where no row of a test part is held out.
pub(super) const NOTHING_TO_TEST: &str = "no row of the test part is held out (dataset.columns.part): none of them is a \
    positive whose item its user lacks in the other parts; check that the column names the parts rightly";

/// Checks that the parts of a file can be used.
///
/// # Errors
/// [`Error::Dataset`] without a part to train on or to test, and for a validation part where ratings are
/// held out.
pub(super) fn check(ratings: &Ratings, spec: &ByColumnSpec) -> Result<()> {
    let count = |part| {
        let rows = ratings.interactions.iter();
        rows.filter(|row| row.part == part).count()
    };
    let [train, validation, test] = [Part::Train, Part::Validation, Part::Test].map(count);
    let fault = if test == 0 {
        "no row is in the test part"
    } else if train == 0 {
        "no row is in the training part"
    } else if validation > 0 && spec.holds_out == HoldsOut::Ratings {
        "held-out ratings have no validation part (dataset.split.by-column.holds_out): leave these rows out, or call \
         them train or test"
    } else {
        return Ok(());
    };
    Err(Error::Dataset(format!(
        "{fault}: dataset.columns.part says `train` of {train} rows, `validation` of {validation} and `test` of {test}"
    )))
}

/// Holds the items of a user out, and leaves the rows to train on in `train`. `None` for a user who has no
/// positive to train on.
pub(super) fn items(
    rows: &[Interaction],
    train: &mut Vec<Interaction>,
    facts: &mut SplitFacts,
) -> Option<Parts> {
    train.extend(rows.iter().filter(|row| row.part == Part::Train));
    let mut seen: BTreeSet<u32> = train.iter().map(|row| row.item).collect();
    let mut held_out = |part: Part| -> Vec<u32> {
        let earlier = seen.clone();
        let positives = rows
            .iter()
            .filter(|row| row.part == part && row.is_positive);
        let (repeated, new): (Vec<_>, Vec<_>) = positives
            .map(|row| row.item)
            .partition(|item| earlier.contains(item));
        facts.repeated_held_out_rows += repeated.len() as u64;
        new.into_iter().filter(|item| seen.insert(*item)).collect()
    };
    let [validation, test] = [Part::Validation, Part::Test].map(&mut held_out);
    let unwanted = rows.iter().map(|row| row.item);
    let left_out: BTreeSet<u32> = unwanted.filter(|item| !seen.contains(item)).collect();
    let has_history = train.iter().any(|row| row.is_positive);
    has_history.then(|| Parts {
        test,
        validation,
        left_out: left_out.into_iter().collect(),
    })
}

/// Holds the ratings of a user out, and leaves those to train on in `train`. `None` for a user who has none.
pub(super) fn ratings(
    rows: &[Interaction],
    train: &mut Vec<Interaction>,
    all: &mut UserRows,
) -> Option<Parts> {
    let (mut test, rest): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.part == Part::Test);
    all.push_user(&mut test);
    train.extend(rest);
    (!train.is_empty()).then(Parts::default)
}
