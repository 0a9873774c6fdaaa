//! The names of a report's files, whether or not this build can make them.

/// The file that is written last, since a run counts as complete when it is there.
pub(crate) const RUN_JSON: &str = "run.json";

/// The interactive page.
pub(crate) const PAGE: &str = "report.html";

/// The tables of a run for Parquet.
pub(crate) const PARQUET: [&str; 2] = ["rounds.parquet", "users.parquet"];

/// The files with a line for every user, which only their owner may read.
pub(crate) const OF_USERS: [&str; 2] = ["users.csv", PARQUET[1]];

/// The pictures; the last one is left out where no round has figures of sparsity.
pub(crate) const PICTURES: [&str; 5] = [
    "accuracy-by-round.svg",
    "accuracy-by-bytes.svg",
    "accuracy-by-uploads.svg",
    "accuracy-by-time.svg",
    "sparsity-by-round.svg",
];
