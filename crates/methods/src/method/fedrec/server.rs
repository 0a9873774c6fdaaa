//! Implements FedRec's server, which moves every row of V against the mean gradient of those who
//! sent it. The learning rate falls by iteration. A row of O moves as the devices have moved it, by
//! the mean over those who sent it. Who has sent a row is what the server counts, or what devices
//! say (`sends_counts`).

use std::sync::Arc;

use super::Shared;
use super::client::V;
use crate::method::averager::Averager;
use crate::method::rule::{Combine, ServerRule};
use crate::method::server::{Accumulator, Server, StepContext, StepReport, UploadUse};
use fedrecsim_core::error::Result;
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::layout::Layout;
use fedrecsim_model::model::state::StateVisitor;

/// Steps the model by an [`Averager`] with the learning rate of the iteration, which in the
/// stochastic style has many steps.
pub(super) struct FedRecServer {
    shared: Arc<Shared>,
    averager: Averager,
}

impl FedRecServer {
    /// Makes the server that starts with `model` and takes in uploads of this layout.
    pub(crate) fn new(shared: Arc<Shared>, model: Model, upload: Layout) -> Self {
        let of_o = ServerRule {
            combine: Combine::MeanPerSender,
            ..ServerRule::MEAN
        };
        let rules = [Self::rule(&shared, 0), of_o];
        let averager = Averager::with_rules(model, upload, &rules).counted_by("counts");
        Self { shared, averager }
    }

    /// Returns the rule of V in the step of this number.
    fn rule(shared: &Shared, step: u32) -> ServerRule {
        let rate = f64::from(shared.rate(shared.iteration(step)));
        // The mean over one sender is its gradient, so that the rule serves both styles.
        ServerRule {
            combine: Combine::MeanPerSender,
            rate,
            ..ServerRule::MEAN
        }
    }
}

impl Server for FedRecServer {
    fn model(&self) -> &Model {
        self.averager.model()
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.averager.set_model(model)
    }

    fn upload_use(&self) -> UploadUse {
        self.averager.upload_use()
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        self.averager.accumulator()
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        self.averager
            .set_rule(V, Self::rule(&self.shared, step.step));
        self.averager.step(sums, step)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.averager.visit_state(state)
    }
}
