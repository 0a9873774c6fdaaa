//! Limits on how large a run may be, which are the same on every machine. What fits into the memory
//! of a particular machine is not known here.

use std::borrow::Cow;

/// The most entries of a large array: values of a table, ratings, candidates, tastes. Beyond it a
/// program would run out of memory without any other message.
pub(crate) const MAX_ENTRIES: u64 = 1 << 31;

/// How many users and items a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProblemSize {
    /// Number of users.
    pub users: usize,
    /// Number of items in the catalogue.
    pub items: usize,
}

/// The size of one block of values that a method makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSize {
    /// The name of the block.
    pub name: Cow<'static, str>,
    /// Number of rows.
    pub rows: u64,
    /// Number of values in a row.
    pub columns: u64,
    /// Number of bytes of a value.
    pub bytes_each: u32,
}

/// Returns why `block` is too large, if it is, as a sentence without a full stop.
pub fn block_too_large(block: &BlockSize) -> Option<String> {
    let BlockSize {
        name,
        rows,
        columns,
        bytes_each,
    } = block;
    let size = too_large([*rows as f64, *columns as f64], *bytes_each)?;
    Some(format!(
        "the block `{name}` of {rows} x {columns} values takes {size}"
    ))
}

/// Returns why these candidates for all users are too many, if they are, as a sentence without a
/// full stop.
pub fn candidates_too_many(users: u64, candidates: u64) -> Option<String> {
    let size = too_large([users as f64, candidates as f64], 4)?;
    Some(format!(
        "{users} evaluated users with {candidates} candidates each take {size}: lower `evaluation.users`"
    ))
}

/// Returns in words the size of `counts[0]` x `counts[1]` entries of `bytes_each` bytes beside the
/// most that is allowed; `None` if it is not too large.
pub(super) fn too_large(counts: [f64; 2], bytes_each: u32) -> Option<String> {
    let gibibytes = |entries: f64| entries * f64::from(bytes_each) / f64::from(1 << 30);
    let (entries, most) = (counts[0] * counts[1], MAX_ENTRIES as f64);
    (entries > most).then(|| {
        format!(
            "{:.1} GiB; the most is {} GiB (2^31 entries)",
            gibibytes(entries),
            gibibytes(most)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_block_has_two_to_the_thirty_one_values() {
        let block = |rows| BlockSize {
            name: "V".into(),
            rows,
            columns: 256,
            bytes_each: 4,
        };
        assert_eq!(block_too_large(&block(MAX_ENTRIES / 256)), None);
        let reason = block_too_large(&block(MAX_ENTRIES / 256 + 1));
        assert_eq!(
            reason.as_deref(),
            Some(
                "the block `V` of 8388609 x 256 values takes 8.0 GiB; the most is 8 GiB (2^31 entries)"
            )
        );
    }
}
