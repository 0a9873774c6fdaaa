//! Makes up records, results of studies and events for the tests of this crate.

pub(crate) mod events;
pub(crate) mod records;
pub(crate) mod results;
