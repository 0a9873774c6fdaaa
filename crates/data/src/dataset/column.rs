//! Stores numbers of many rows in little memory, which decides what a population of a million users
//! costs.
//!
//! Ratings have few different values (five stars, or none at all), so a row takes a byte or
//! nothing. A rank by time is below the number of a user's ratings, so a row takes the width of the
//! longest history.

/// A real number for every row. Rows are appended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Column {
    /// The form of rows that all have the same value; there may be no row yet.
    Constant { value: f32, rows: usize },
    /// The form in which row i has the value `dictionary[codes[i]]`.
    Coded {
        dictionary: Vec<f32>,
        codes: Vec<u8>,
    },
    /// The form for more than 256 different values.
    Plain(Vec<f32>),
}

impl Column {
    /// Makes a column without rows.
    pub(super) const fn new() -> Self {
        Self::Constant {
            value: 1.0,
            rows: 0,
        }
    }

    /// Appends a row.
    pub(super) fn push(&mut self, value: f32) {
        match self {
            Self::Constant { value: only, rows }
                if *rows == 0 || only.to_bits() == value.to_bits() =>
            {
                *only = value;
                *rows += 1;
            }
            Self::Constant { value: only, rows } => {
                let mut codes = vec![0; *rows];
                codes.push(1);
                *self = Self::Coded {
                    dictionary: vec![*only, value],
                    codes,
                };
            }
            Self::Coded { dictionary, codes } => {
                match dictionary
                    .iter()
                    .position(|known| known.to_bits() == value.to_bits())
                {
                    Some(code) => codes.push(code as u8),
                    None if dictionary.len() <= usize::from(u8::MAX) => {
                        codes.push(dictionary.len() as u8);
                        dictionary.push(value);
                    }
                    None => {
                        let mut values: Vec<f32> = codes
                            .iter()
                            .map(|&code| dictionary[usize::from(code)])
                            .collect();
                        values.push(value);
                        *self = Self::Plain(values);
                    }
                }
            }
            Self::Plain(values) => values.push(value),
        }
    }

    /// Returns the rows of `range`.
    pub(super) fn rows(&self, range: std::ops::Range<usize>) -> Values<'_> {
        Values(match self {
            Self::Constant { value, .. } => Repr::Constant {
                value: *value,
                rows: range.len(),
            },
            Self::Coded { dictionary, codes } => Repr::Coded {
                dictionary,
                codes: &codes[range],
            },
            Self::Plain(values) => Repr::Plain(&values[range]),
        })
    }

    /// Returns all rows.
    pub(super) fn all(&self) -> Values<'_> {
        let rows = match self {
            Self::Constant { rows, .. } => *rows,
            Self::Coded { codes, .. } => codes.len(),
            Self::Plain(values) => values.len(),
        };
        self.rows(0..rows)
    }
}

/// A real number for each of some rows, such as the ratings of one user.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a>(Repr<'a>);

#[derive(Clone, Copy, Debug)]
enum Repr<'a> {
    Constant {
        value: f32,
        rows: usize,
    },
    Coded {
        dictionary: &'a [f32],
        codes: &'a [u8],
    },
    Plain(&'a [f32]),
}

impl<'a> Values<'a> {
    /// Returns `rows` rows that all have this value.
    pub(crate) const fn constant(value: f32, rows: usize) -> Self {
        Self(Repr::Constant { value, rows })
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        match self.0 {
            Repr::Constant { rows, .. } => rows,
            Repr::Coded { codes, .. } => codes.len(),
            Repr::Plain(values) => values.len(),
        }
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of the row at `position`, which must be below [`Self::len`].
    #[inline]
    pub(crate) fn get(&self, position: usize) -> f32 {
        match self.0 {
            Repr::Constant { value, .. } => value,
            Repr::Coded { dictionary, codes } => dictionary[usize::from(codes[position])],
            Repr::Plain(values) => values[position],
        }
    }

    /// Returns the values in the order of the rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = f32> + use<'a> {
        let values = *self;
        (0..values.len()).map(move |position| values.get(position))
    }

    /// Replaces the content of `buffer` by the values, for arithmetic that wants a slice.
    pub fn copy_to(&self, buffer: &mut Vec<f32>) {
        buffer.clear();
        buffer.extend(self.iter());
    }
}

impl<'a> From<&'a [f32]> for Values<'a> {
    fn from(values: &'a [f32]) -> Self {
        Self(Repr::Plain(values))
    }
}

/// An integer for every row, stored in the width of the largest. Rows are appended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RankColumn {
    /// The form of ranks that are all below 2^8.
    Narrow(Vec<u8>),
    /// The form of ranks that are all below 2^16.
    Middle(Vec<u16>),
    /// The form of larger ranks.
    Wide(Vec<u32>),
}

impl RankColumn {
    /// Makes a column without rows.
    pub(super) const fn new() -> Self {
        Self::Narrow(Vec::new())
    }

    /// Appends a row.
    pub(super) fn push(&mut self, rank: u32) {
        match self {
            Self::Narrow(ranks) => match u8::try_from(rank) {
                Ok(rank) => return ranks.push(rank),
                Err(_) => *self = Self::Middle(ranks.iter().map(|&rank| rank.into()).collect()),
            },
            Self::Middle(ranks) => match u16::try_from(rank) {
                Ok(rank) => return ranks.push(rank),
                Err(_) => *self = Self::Wide(ranks.iter().map(|&rank| rank.into()).collect()),
            },
            Self::Wide(ranks) => return ranks.push(rank),
        }
        self.push(rank);
    }

    /// Returns the rows of `range`.
    pub(super) fn rows(&self, range: std::ops::Range<usize>) -> Ranks<'_> {
        Ranks(match self {
            Self::Narrow(ranks) => RankRepr::Narrow(&ranks[range]),
            Self::Middle(ranks) => RankRepr::Middle(&ranks[range]),
            Self::Wide(ranks) => RankRepr::Wide(&ranks[range]),
        })
    }
}

/// An integer for each of some rows, such as how recent each rating of one user is.
#[derive(Clone, Copy, Debug)]
pub struct Ranks<'a>(RankRepr<'a>);

#[derive(Clone, Copy, Debug)]
enum RankRepr<'a> {
    Zero(usize),
    Narrow(&'a [u8]),
    Middle(&'a [u16]),
    Wide(&'a [u32]),
}

impl<'a> Ranks<'a> {
    /// Returns `rows` rows of rank 0, which say nothing of the order.
    pub(crate) const fn zero(rows: usize) -> Self {
        Self(RankRepr::Zero(rows))
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        match self.0 {
            RankRepr::Zero(rows) => rows,
            RankRepr::Narrow(ranks) => ranks.len(),
            RankRepr::Middle(ranks) => ranks.len(),
            RankRepr::Wide(ranks) => ranks.len(),
        }
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the rank of the row at `position`, which must be below [`Self::len`].
    #[inline]
    pub(crate) fn get(&self, position: usize) -> u32 {
        match self.0 {
            RankRepr::Zero(_) => 0,
            RankRepr::Narrow(ranks) => ranks[position].into(),
            RankRepr::Middle(ranks) => ranks[position].into(),
            RankRepr::Wide(ranks) => ranks[position],
        }
    }

    /// Returns the ranks in the order of the rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        let ranks = *self;
        (0..ranks.len()).map(move |position| ranks.get(position))
    }
}

impl<'a> From<&'a [u32]> for Ranks<'a> {
    fn from(ranks: &'a [u32]) -> Self {
        Self(RankRepr::Wide(ranks))
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
            let mut part = vec![9.0];
            column.rows(half..expected.len()).copy_to(&mut part);
            prop_assert_eq!(&part[..], &expected[half..]);
        }

        /// If this fails, a long history shortens the ranks of the others.
        #[test]
        fn ranks_hold_what_was_pushed(ranks in prop::collection::vec((0u32..32, any::<u32>()), 0..300)) {
            let expected: Vec<u32> = ranks.iter().map(|(bits, rank)| rank >> bits).collect();
            let mut column = RankColumn::new();
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
            match column {
                Column::Constant { .. } => "constant",
                Column::Coded { .. } => "coded",
                Column::Plain(_) => "plain",
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
