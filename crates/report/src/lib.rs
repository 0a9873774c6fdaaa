//! What is left of runs: records, tables, charts, pages, and studies over many runs.

pub mod report;
pub mod study;
#[cfg(test)]
mod tests;
