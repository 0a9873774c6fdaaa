//! The methods of recommendation, and what it takes to write one.

pub mod method;
