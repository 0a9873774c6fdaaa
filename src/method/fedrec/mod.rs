//! FedRec: federated rating prediction from explicit ratings, with virtual ratings that hide what was rated.

pub mod numerics;
#[cfg(test)]
mod tests;
