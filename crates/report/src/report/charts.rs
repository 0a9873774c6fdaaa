//! The names of a report's charts, whether or not this build can draw them.

#[cfg(test)]
use super::record::RunRecord;

/// The file name of every chart that a report may hold.
pub(crate) const FILE_NAMES: [&str; 5] = [
    "accuracy-by-round.svg",
    "accuracy-by-bytes.svg",
    "accuracy-by-uploads.svg",
    "accuracy-by-time.svg",
    "sparsity-by-round.svg",
];

/// Returns the file names of the charts that the report of `record` holds: none in a build without
/// the feature `plots`, and the one of sparsity only where a round has such figures.
#[cfg(test)]
pub(crate) fn file_names(record: &RunRecord) -> Vec<&'static str> {
    if !cfg!(feature = "plots") {
        return Vec::new();
    }
    let sparsity = record
        .per_round
        .iter()
        .any(|round| round.sparsity.is_some());
    FILE_NAMES[..if sparsity { 5 } else { 4 }].to_vec()
}
