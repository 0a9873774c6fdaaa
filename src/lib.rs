//! fedrecsim: an actor-model discrete-event simulator of federated recommendation.

pub mod cli;
pub mod codec;
pub mod dataset;
pub mod error;
pub mod ids;
pub mod math;
pub mod method;
pub mod model;
pub mod report;
pub mod rng;
pub mod scenario;
pub mod units;
