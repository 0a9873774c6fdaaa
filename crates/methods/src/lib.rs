//! The methods of recommendation, and what it takes to write one.

pub mod method;

pub use fedrecsim_scenario::choices;
/// Declares the parameters of a method, one line a key.
pub use fedrecsim_scenario::keys as parameters;
