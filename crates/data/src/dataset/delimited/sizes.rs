//! Tells a first line that has the numbers of users, items and ratings from one that is a rating.

use csv::ByteRecord;

use super::number;

/// What is said of a first line that may have the sizes of the table.
pub(super) const SIZES: &str = "if that line has the numbers of users, items and ratings, leave it out, as with \
                                `tail -n +2 FILE > mended.txt`";

/// Returns whether the first of these names is the number of all others, or the highest of them, which may count
/// from 0. If it `is_alone`, no other row has it.
pub(super) fn is_size(names: &[Box<str>], is_alone: bool) -> bool {
    let rest = &names[usize::from(is_alone)..];
    let highest = || {
        rest.iter()
            .filter_map(|name| name.parse::<usize>().ok())
            .max()
    };
    let size = names[0].parse::<usize>().ok();
    size.is_some_and(|size| {
        let is_highest = |highest| size == highest || size == highest + 1;
        size == rest.len() || highest().is_some_and(is_highest)
    })
}

/// Returns whether all fields of a line are whole numbers, as sizes are.
pub(super) fn may_be_sizes(first: &ByteRecord) -> bool {
    (0..first.len()).all(|place| number::<u64>(first, place).is_some())
}
