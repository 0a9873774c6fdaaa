//! Stores numbers of many rows in little memory, which decides what a population of a million users
//! costs.
//!
//! Ratings have few different values (five stars, or none at all), so a row takes a byte or
//! nothing. A rank by time is below the number of a user's ratings, so a row takes the bytes that the
//! longest history needs.

/// A real number for every row. Rows are appended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    rows: usize,
    /// The different values, as long as there are at most 256.
    dictionary: Vec<f32>,
    /// The place of each row's value in the dictionary; empty as long as there is only one.
    codes: Vec<u8>,
    /// The values themselves, if more than 256 are different.
    plain: Vec<f32>,
}

impl Column {
    /// Makes a column without rows.
    pub(super) const fn new() -> Self {
        Self {
            rows: 0,
            dictionary: Vec::new(),
            codes: Vec::new(),
            plain: Vec::new(),
        }
    }

    /// Appends a row.
    pub(super) fn push(&mut self, value: f32) {
        self.rows += 1;
        if !self.plain.is_empty() {
            return self.plain.push(value);
        }
        let is_known = |known: &f32| known.to_bits() == value.to_bits();
        let code = self.dictionary.iter().position(is_known);
        let code = code.unwrap_or_else(|| {
            self.dictionary.push(value);
            self.dictionary.len() - 1
        });
        if code > usize::from(u8::MAX) {
            let codes = std::mem::take(&mut self.codes);
            let values = codes.iter().map(|code| self.dictionary[usize::from(*code)]);
            self.plain = values.chain([value]).collect();
            self.dictionary = Vec::new();
        } else if self.dictionary.len() > 1 {
            self.codes.resize(self.rows - 1, 0);
            self.codes.push(code as u8);
        }
    }

    /// Returns the rows of `range`.
    pub(super) fn rows(&self, range: std::ops::Range<usize>) -> Values<'_> {
        Values {
            rows: range.len(),
            only: self.dictionary.first().copied().unwrap_or(1.0),
            dictionary: &self.dictionary,
            codes: self.codes.get(range.clone()).unwrap_or_default(),
            plain: self.plain.get(range).unwrap_or_default(),
        }
    }

    /// Returns all rows.
    pub(super) fn all(&self) -> Values<'_> {
        self.rows(0..self.rows)
    }
}

/// A real number for each of some rows, such as the ratings of one user.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    rows: usize,
    /// The value of all rows, if there are neither codes nor plain values.
    only: f32,
    dictionary: &'a [f32],
    codes: &'a [u8],
    plain: &'a [f32],
}

impl<'a> Values<'a> {
    /// Returns `rows` rows that all have this value.
    pub(crate) const fn constant(value: f32, rows: usize) -> Self {
        Self {
            rows,
            only: value,
            dictionary: &[],
            codes: &[],
            plain: &[],
        }
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Returns the value of the row at `position`, which must be below [`Self::len`].
    #[inline]
    pub(crate) fn get(&self, position: usize) -> f32 {
        if let Some(code) = self.codes.get(position) {
            self.dictionary[usize::from(*code)]
        } else {
            self.plain.get(position).copied().unwrap_or(self.only)
        }
    }

    /// Returns the values in the order of the rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = f32> + use<'a> {
        let values = *self;
        (0..values.len()).map(move |position| values.get(position))
    }
}

impl<'a> From<&'a [f32]> for Values<'a> {
    fn from(values: &'a [f32]) -> Self {
        Self {
            plain: values,
            ..Self::constant(0.0, values.len())
        }
    }
}

/// An integer for every row, in as many bytes as the largest one needs. Rows are appended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RankColumn {
    width: usize,
    /// The integers one after the other, little-endian, in `width` bytes each.
    bytes: Vec<u8>,
}

impl RankColumn {
    /// Appends a row.
    pub(super) fn push(&mut self, rank: u32) {
        let bytes = rank.to_le_bytes();
        let needed = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
        if needed > self.width {
            let mut wider = Vec::new();
            if self.width > 0 {
                for narrow in self.bytes.chunks_exact(self.width) {
                    wider.extend_from_slice(narrow);
                    wider.resize(wider.len() + needed - self.width, 0);
                }
            }
            (self.width, self.bytes) = (needed, wider);
        }
        self.bytes.extend_from_slice(&bytes[..self.width]);
    }

    /// Returns the rows of `range`.
    pub(super) fn rows(&self, range: std::ops::Range<usize>) -> Ranks<'_> {
        Ranks {
            rows: range.len(),
            width: self.width,
            bytes: &self.bytes[range.start * self.width..range.end * self.width],
        }
    }
}

/// An integer for each of some rows, such as how recent each rating of one user is. Of width 0 are
/// rows of rank 0, which say nothing of the order.
#[derive(Clone, Copy, Debug)]
pub struct Ranks<'a> {
    rows: usize,
    width: usize,
    bytes: &'a [u8],
}

impl<'a> Ranks<'a> {
    /// Returns `rows` rows of rank 0.
    pub(crate) const fn zero(rows: usize) -> Self {
        let (width, bytes) = (0, &[]);
        Self { rows, width, bytes }
    }

    #[inline]
    fn get(&self, position: usize) -> u32 {
        let mut rank = [0; size_of::<u32>()];
        let start = position * self.width;
        rank[..self.width].copy_from_slice(&self.bytes[start..start + self.width]);
        u32::from_le_bytes(rank)
    }

    /// Returns the ranks in the order of the rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        let ranks = *self;
        (0..ranks.rows).map(move |position| ranks.get(position))
    }
}

impl<'a> From<&'a [u8]> for Ranks<'a> {
    fn from(ranks: &'a [u8]) -> Self {
        let (rows, width) = (ranks.len(), 1);
        Self {
            rows,
            width,
            bytes: ranks,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// If this fails, a rating is not what the file says once its column has changed its form.
        #[test]
        fn a_column_holds_what_was_pushed(values in prop::collection::vec(0u16..400, 0..900), different in 1u16..400) {
            let expected: Vec<f32> = values.iter().map(|value| f32::from(value % different) - 7.5).collect();
            let mut column = Column::new();
            expected.iter().for_each(|&value| column.push(value));
            prop_assert_eq!(column.all().iter().collect::<Vec<_>>(), expected.clone());
            let half = expected.len() / 2;
            let part: Vec<f32> = column.rows(half..expected.len()).iter().collect();
            prop_assert_eq!(&part[..], &expected[half..]);
        }

        /// If this fails, a long history shortens the ranks of the others.
        #[test]
        fn ranks_hold_what_was_pushed(ranks in prop::collection::vec((0u32..32, any::<u32>()), 0..300)) {
            let expected: Vec<u32> = ranks.iter().map(|(bits, rank)| rank >> bits).collect();
            let mut column = RankColumn::default();
            expected.iter().for_each(|&rank| column.push(rank));
            prop_assert_eq!(column.rows(0..expected.len()).iter().collect::<Vec<_>>(), expected);
        }
    }

    /// If this fails, a million users with ratings of five stars take four times the memory that
    /// they need.
    #[test]
    fn a_column_takes_the_form_that_its_values_allow() {
        let form = |values: &[f32]| {
            let mut column = Column::new();
            values.iter().for_each(|&value| column.push(value));
            match (column.codes.is_empty(), column.plain.is_empty()) {
                (true, true) => "constant",
                (false, true) => "coded",
                (_, false) => "plain",
            }
        };
        let many: Vec<f32> = (0..257u16).map(f32::from).collect();
        assert_eq!(
            [form(&[]), form(&[3.0; 9]), form(&[0.0, -0.0])],
            ["constant", "constant", "coded"]
        );
        assert_eq!([form(&many[..256]), form(&many)], ["coded", "plain"]);
    }
}
