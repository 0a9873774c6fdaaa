//! Groups of values that have something in common, such as the rows of a table.

/// Iterates over the lengths of groups.
#[derive(Clone, Debug)]
pub(crate) enum Groups<'a> {
    /// Groups of one length.
    Even {
        /// The length of each.
        length: usize,
        /// The number of groups that are left.
        left: usize,
    },
    /// Groups of these lengths.
    Of(std::slice::Iter<'a, usize>),
}

impl<'a> Groups<'a> {
    /// Returns `count` groups of `length` values each.
    pub(crate) fn even(length: usize, count: usize) -> Self {
        Self::Even {
            length,
            left: count,
        }
    }

    /// Returns groups of these lengths.
    pub fn of(lengths: &'a [usize]) -> Self {
        Self::Of(lengths.iter())
    }
}

impl Iterator for Groups<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        match self {
            Self::Even { length, left } => {
                *left = left.checked_sub(1)?;
                Some(*length)
            }
            Self::Of(lengths) => lengths.next().copied(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match self {
            Self::Even { left, .. } => *left,
            Self::Of(lengths) => lengths.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Groups<'_> {}
