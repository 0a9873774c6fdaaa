//! What unit tests of several modules share.

pub(in crate::sim) mod small;
