//! Steps that the server makes by itself, without inviting anybody. Time passes at the server's
//! speed.

use super::{ServerActor, averages};
use crate::messages::Orders;
use fedrecsim_core::work::Work;
use fedrecsim_core::{Result, SimDuration, SimTime};
use fedrecsim_data::population::Speed;
use fedrecsim_methods::server::StepReport;

/// A step without participants that is under way.
pub(super) struct StepAlone {
    /// When the step ends.
    pub ends: SimTime,
    /// The method's report of the step.
    pub report: StepReport,
}

impl ServerActor {
    /// Makes a step without participants. The computation is done at once, and the step is due when
    /// its virtual time has passed.
    ///
    /// # Errors
    /// Any error of the method's server side.
    pub(super) fn step_alone(&mut self, now: SimTime) -> Result<Orders> {
        let step = self.step_name();
        let (world, server, audit) = (&*self.world, &mut *self.server, &mut self.audit);
        let report = self
            .workers
            .run_and_wait(|| averages::step(world, server, step, Vec::new(), audit))?;
        let ends = now + self.time_of(&report);
        self.steps += 1;
        self.forget_download();
        self.alone = Some(StepAlone { ends, report });
        Ok(Orders {
            deadline: Some(ends),
            ..Orders::default()
        })
    }

    /// Returns the virtual time that the server's own work of a step takes.
    fn time_of(&self, report: &StepReport) -> SimDuration {
        let StepReport {
            row_visits,
            multiply_adds,
            ..
        } = *report;
        Speed::of_server(&self.world.scenario.server).time_for(Work {
            row_visits,
            multiply_adds,
        })
    }
}
