//! How large a run may be: limits of the model, the same on every machine. What fits into the memory of one is another
//! matter, and not known here.

use super::spec::MethodSpec;

/// Most entries of a large array: values of a table, ratings, candidates, tastes. Beyond that a program that runs out
/// of memory would be the only message.
pub const MAX_ENTRIES: u64 = 1 << 31;

/// Why a table with a row per item is too large for `method`, if it is; a sentence without a full stop.
pub fn table_too_large(method: &MethodSpec, items: u64) -> Option<String> {
    let dimension = method.latent_dimension()?;
    let size = too_large([items as f64, dimension as f64], 4)?;
    Some(format!("a table of {items} items x {dimension} values (`latent_dimension`) takes {size}"))
}

/// Why so many candidates for so many users are too many, if they are; a sentence without a full stop.
pub fn candidates_too_many(users: u64, candidates: u64) -> Option<String> {
    let size = too_large([users as f64, candidates as f64], 4)?;
    Some(format!("{users} evaluated users with {candidates} candidates each take {size}: lower `evaluation.users`"))
}

/// The size of `counts[0]` x `counts[1]` entries of so many bytes, beside the most that is allowed; `None` if it is not
/// too large.
pub(super) fn too_large(counts: [f64; 2], bytes_each: u32) -> Option<String> {
    let gibibytes = |entries: f64| entries * f64::from(bytes_each) / f64::from(1 << 30);
    let (entries, most) = (counts[0] * counts[1], MAX_ENTRIES as f64);
    (entries > most)
        .then(|| format!("{:.1} GiB; the most is {} GiB (2^31 entries)", gibibytes(entries), gibibytes(most)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_largest_table_has_two_to_the_thirty_one_values() {
        let method = |parameters| MethodSpec { name: "fedmf".to_owned(), parameters };
        let wide = method(json!({ "latent_dimension": 256 }));
        assert_eq!(table_too_large(&wide, MAX_ENTRIES / 256), None);
        let reason = table_too_large(&wide, MAX_ENTRIES / 256 + 1);
        assert_eq!(
            reason.as_deref(),
            Some(
                "a table of 8388609 items x 256 values (`latent_dimension`) takes 8.0 GiB; the most is 8 GiB (2^31 entries)"
            )
        );
        assert_eq!(table_too_large(&method(json!({})), u64::MAX), None, "a baseline has no table");
    }
}
