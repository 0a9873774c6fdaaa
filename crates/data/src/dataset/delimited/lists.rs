//! Tells rows that list the items of a user (an adjacency list) where all of them are equally long, so that
//! they look like columns.

use std::collections::HashMap;

use csv::ByteRecord;

use super::columns::Columns;
use super::trimmed;
use crate::dataset::form::WRITE_PAIRS;

/// The highest number that is probably a rating.
const HIGHEST_RATING: u64 = 10;

/// How many rows must be expected whose rating is also the number of their item, if the two have
/// nothing to do with one another, for none of them to mean that a row is a list of different items:
/// by chance, that happens once in e^20 files.
const CHANCE_MEETINGS: u64 = 20;

/// How many times the numbers of one column exceed those of another one, if the columns mean different
/// things, such as items and times.
const OTHER_KIND: u64 = 4;

/// The rows so far, as lists. Once a user has a second row, or a field is no item, they are none, and the
/// others are not looked at.
#[derive(Default)]
pub(super) struct Lists {
    rows: usize,
    are_none: bool,
    /// Whether the items are numbers, or texts.
    are_numbers: bool,
    /// Whether each list is in the order of its numbers.
    are_sorted: bool,
    /// The highest number of each column, without that of the user.
    highest: Vec<u64>,
    /// Whether a column of these has ratings, labels or weights.
    are_ratings: Vec<bool>,
    /// How often each number up to the highest rating is an item, and how often a rating.
    small: [[u64; 2]; HIGHEST_RATING as usize + 1],
    /// The column that a text was found in first; the map is only looked up.
    columns: HashMap<Box<[u8]>, usize>,
    /// Whether a text stands in several columns.
    is_shared: bool,
}

impl Lists {
    /// Looks at a row; `is_new` says whether its user has none before it.
    pub(super) fn add(&mut self, columns: &Columns, record: &ByteRecord, is_new: bool) {
        if self.are_none {
            return;
        }
        let is_list = is_new && self.is_list(columns, record);
        if !is_list {
            *self = Self {
                are_none: true,
                ..Self::default()
            };
        }
    }

    fn is_list(&mut self, columns: &Columns, record: &ByteRecord) -> bool {
        let places = || (0..record.len()).filter(|place| *place != columns.user);
        if self.rows == 0 {
            let ratings = [columns.rating, columns.label, columns.weight];
            self.are_ratings = places().map(|at| ratings.contains(&Some(at))).collect();
            self.highest = vec![0; self.are_ratings.len()];
            self.are_numbers = number(record, columns.item).is_some();
            self.are_sorted = self.are_numbers;
        }
        self.rows += 1;
        let is_short = record.len() < 3 || columns.part.is_some() || columns.has_header;
        !is_short
            && match self.are_numbers {
                true => {
                    let of_pair = [Some(columns.item), columns.rating];
                    for (kind, at) in of_pair.into_iter().enumerate() {
                        let small = at.and_then(|at| number(record, at)?.try_into().ok());
                        if let Some(counts) = small.and_then(|at: usize| self.small.get_mut(at)) {
                            counts[kind] += 1;
                        }
                    }
                    self.is_list_of_numbers(places().map(|at| number(record, at)))
                }
                false => self.is_list_of_texts(places().map(|at| trimmed(record, at))),
            }
    }

    /// An item stands in a list once.
    fn is_list_of_numbers(&mut self, numbers: impl Iterator<Item = Option<u64>>) -> bool {
        let Some(numbers) = numbers.collect::<Option<Vec<u64>>>() else {
            return false;
        };
        for (highest, number) in self.highest.iter_mut().zip(&numbers) {
            *highest = (*highest).max(*number);
        }
        self.are_sorted &= numbers.is_sorted_by(|one, next| one < next);
        let mut sorted = numbers;
        sorted.sort_unstable();
        sorted.is_sorted_by(|one, next| one < next)
    }

    fn is_list_of_texts<'f>(&mut self, texts: impl Iterator<Item = &'f [u8]>) -> bool {
        for (column, text) in texts.enumerate() {
            let is_number = std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok());
            if is_number || text.is_empty() {
                return false;
            }
            let first = *self.columns.entry(text.into()).or_insert(column);
            self.is_shared |= first != column;
        }
        true
    }

    /// Returns what to do if the rows are lists: no user has two of them, and their columns have the same
    /// items.
    pub(super) fn refusal(&self) -> Option<String> {
        let lowest = self.highest.iter().min().copied().unwrap_or_default();
        let highest = self.highest.iter().max().copied().unwrap_or_default();
        let mut of_ratings = self.highest.iter().zip(&self.are_ratings);
        let has_ratings = of_ratings.any(|(highest, is)| *is && *highest <= HIGHEST_RATING);
        // No row has met itself so far, or the rows would be no lists.
        let meetings: u64 = self
            .small
            .iter()
            .map(|[items, ratings]| items * ratings)
            .sum();
        let has_ratings = has_ratings && meetings < CHANCE_MEETINGS * self.rows as u64;
        let is_alike = highest <= OTHER_KIND * lowest || self.are_sorted && self.highest.len() > 3;
        let are_lists = match self.are_numbers {
            true => is_alike && !has_ratings,
            false => self.is_shared,
        };
        (self.rows > 1 && !self.are_none && are_lists).then(|| {
            format!(
                "each of the {} rows has a user of its own and {} fields that look like items: if they list the items \
                 of a user (an adjacency list), {WRITE_PAIRS}; if they are columns, give the file a first line that \
                 names them",
                self.rows,
                self.are_ratings.len()
            )
        })
    }
}

/// Returns a whole number without a sign.
fn number(record: &ByteRecord, place: usize) -> Option<u64> {
    let field = trimmed(record, place);
    let is_plain = !field.is_empty() && field.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(field).ok().filter(|_| is_plain)?;
    text.parse().ok()
}
