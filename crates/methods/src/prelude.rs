//! Holds what most methods use, for `use fedrecsim::method::prelude::*`.

pub use super::UserRatings;
pub use super::central::{Central, Pass};
pub use super::declare::{
    Block, Counts, Declare, Loss, Memory, Optimizer, Own, Remembered, Score, Start, Training,
    constant, each, item_table, normal, perceptron, table_of, uniform, vector, weights,
};
pub use super::rule::{Combine, ServerRule};
pub use super::server::{Accumulator, Contribution, Server, StepContext, StepReport, UploadUse};
pub use super::{
    Averager, Class, Classes, Client, Entry, LocalTask, Method, Phase, Placement, Problem,
    Products, Scorer, Scoring, ScoringContext, Scratch, Trained, largest_magnitude,
};
pub use crate::{choices, parameters};
pub use fedrecsim_core::UserId;
pub use fedrecsim_core::math;
pub use fedrecsim_core::work::Work;
pub use fedrecsim_core::{Error, Result};
pub use fedrecsim_core::{PortableDraws, Purpose, Stream, Streams};
pub use fedrecsim_model::StateVisitor;
pub use fedrecsim_model::kernel::MAX_DIMENSION;
pub use fedrecsim_model::neural::Perceptron;
pub use fedrecsim_model::table::{RowSet, Table, TableShape, TableUpdate, floats};
pub use fedrecsim_model::{BlockLayout, Layout};
pub use fedrecsim_model::{Model, ModelUpdate};
pub use fedrecsim_scenario::sizes::ProblemSize;
pub use fedrecsim_scenario::{ParameterFault, Traffic};
pub use serde_json::Value;
