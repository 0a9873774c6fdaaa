//! Says which users cannot be split, and what helps.

use super::{Splitter, Way, different_positives};
use crate::dataset::ratings::Interaction;

/// The keys that say which rows are positives.
const POSITIVES: &str = "dataset.columns.label, where 1 is one, or dataset.positive_from";

/// The users that cannot be split.
pub(super) struct TooFew {
    first: String,
    first_different_items: usize,
    first_rows: usize,
    pub users: Vec<u32>,
    most_rows: usize,
    /// The most different positives of one of them.
    most_positives: usize,
}

impl Splitter {
    pub(super) fn note_too_few(
        &mut self,
        label: impl FnOnce() -> String,
        user: u32,
        rows: &[Interaction],
    ) {
        let positives = different_positives(rows).len();
        let too_few = self.too_few.get_or_insert_with(|| TooFew {
            first: label(),
            first_different_items: positives,
            first_rows: rows.len(),
            users: Vec::new(),
            most_rows: 0,
            most_positives: 0,
        });
        too_few.most_positives = too_few.most_positives.max(positives);
        too_few.users.push(user);
        too_few.most_rows = too_few.most_rows.max(rows.len());
    }

    pub(super) fn too_few_message(&self, too_few: &TooFew) -> String {
        let TooFew {
            first,
            first_different_items,
            first_rows,
            users,
            ..
        } = too_few;
        let split = match &self.way {
            Way::Holdout(..) => "holdout",
            _ => "leave-one-out",
        };
        let why = match &self.way {
            Way::KFold(draw) => format!(
                "{first} has no rating to train on: all of them are in the test part ({}); users without one",
                draw.part_in_words()
            ),
            Way::ByColumn => format!(
                "{first} has no positive in the training part (dataset.columns.part), so that there is nothing to train \
                 on; users without one"
            ),
            _ => {
                let (needed, held_out) = match self.held_out.has_validation_items() {
                    true => (3, "a test item, a validation item"),
                    false => (2, "a test item"),
                };
                let has = match (first_different_items, first_rows) {
                    (0, 1..) => format!(
                        "has no positive among {first_rows} row{} ({POSITIVES})",
                        if *first_rows == 1 { "" } else { "s" }
                    ),
                    (1, _) => "has rated 1 different item".to_owned(),
                    (items, _) => format!("has rated {items} different items"),
                };
                format!(
                    "{first} {has}, but {split} needs at least {needed} ({held_out} and one to train on); users with too \
                     few"
                )
            }
        };
        let way_out = self
            .way_out(too_few)
            .map_or_else(String::new, |advice| format!(". {advice}"));
        format!("{why}: {}{way_out}", users.len())
    }

    /// Returns advice for users that cannot be split, if there is some beside leaving them out of a file.
    fn way_out(&self, too_few: &TooFew) -> Option<String> {
        let left = self.train.users();
        let validates = self.held_out.has_validation_items();
        let validation_key = match &self.way {
            Way::Holdout(..) => "holdout.validation_share = 0",
            _ => "leave-one-out.validation_item = false",
        };
        match &self.way {
            Way::ByColumn if left == 0 => Some("No user has one".to_owned()),
            _ if left == 0 && validates && too_few.most_positives >= 2 => Some(format!(
                "No user has enough; without validation items (dataset.split.{validation_key}) 2 would do"
            )),
            _ if left == 0 && too_few.most_positives == 0 && too_few.most_rows > 0 => Some(
                format!("No row of anybody counts as a positive: look at {POSITIVES}"),
            ),
            _ if left == 0 => {
                Some("No user has enough, so that these ratings cannot be split so".to_owned())
            }
            _ if self.is_of_file => None,
            _ if self.most_rows > too_few.most_rows => Some(format!(
                "Set dataset.minimum_interactions to {} to leave them out",
                too_few.most_rows + 1
            )),
            _ => Some("Raise dataset.generator.ratings_per_user".to_owned()),
        }
    }
}
