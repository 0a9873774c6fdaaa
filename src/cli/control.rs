//! Runs a scenario once more without what the method's server does, to stand beside the result.

use std::sync::Arc;

use super::Session;
use super::args::{ControlArg, InputArgs, RunArgs};
use super::inputs::Inputs;
use super::task::Task;
use crate::scenario::Scenario;
use crate::sim::World;
use crate::{Error, Result};
use fedrecsim_methods::registry::find;
use fedrecsim_scenario::Strictness;
use fedrecsim_sim::outcome::SplitAccuracy;
use fedrecsim_sim::{Outcome, RunControl, run};

/// The control of a run.
pub(crate) struct Control {
    which: ControlArg,
    world: World,
}

impl Control {
    /// Prepares the controls that `arguments` ask for, on the ratings of the run.
    ///
    /// # Errors
    /// [`Error::Usage`] if the method has none.
    pub(crate) fn all_of(
        arguments: &RunArgs,
        (task, inputs): (&Task, &Inputs),
        session: &Session,
    ) -> Result<Vec<Self>> {
        let entry = find(session.methods, &task.scenario.method)?;
        if let (Some(reason), false) = (entry.without_controls, arguments.control.is_empty()) {
            return Err(Error::Usage(format!(
                "--control: the method `{}` has none: {reason}",
                entry.name
            )));
        }
        let prepare = |which: &ControlArg| Self::of(*which, arguments, (task, inputs), session);
        arguments.control.iter().map(prepare).collect()
    }

    fn of(
        which: ControlArg,
        arguments: &RunArgs,
        (task, inputs): (&Task, &Inputs),
        session: &Session,
    ) -> Result<Self> {
        let aggregation = match which {
            ControlArg::None => "training.aggregation=\"none\"",
            ControlArg::Mean => "training.aggregation=\"mean\"",
        };
        let own = arguments.input.set.iter().cloned();
        let input = InputArgs {
            scenario: arguments.input.scenario.clone(),
            set: own.chain([aggregation.to_owned()]).collect(),
            seed: arguments.input.seed,
            ..InputArgs::default()
        };
        let control = Task::of(&input, Strictness::Lenient, session)?;
        let dataset = Arc::clone(&inputs.world.dataset);
        let place = (&task.directories[..], session.methods);
        let world = inputs.world_with(&control.scenario, dataset, place)?;
        Ok(Self { which, world })
    }

    /// Runs the control, and puts its accuracy beside that of the run. Returns a warning if it is as good.
    ///
    /// # Errors
    /// Those of a run, and the reason why the control stopped early.
    pub(crate) fn stand_beside(
        self,
        outcome: &mut Outcome,
        scenario: &Scenario,
        control: &RunControl,
    ) -> Result<Option<String>> {
        let (name, with) = match self.which {
            ControlArg::None => ("devices alone", "devices that share nothing"),
            ControlArg::Mean => ("plain mean", "a server that takes the plain mean"),
        };
        let method = &scenario.method.name;
        let alone = run(self.world, control, &mut ())?;
        let judged = |of: &Outcome| of.rounds[of.selected?].accuracy.clone();
        let (own, other) = (judged(outcome), judged(&alone));
        if let Some(error) = alone.stopped_by {
            return Err(error);
        }
        let Some(other) = other else {
            return Ok(None);
        };
        if outcome.state_digest.is_some() && outcome.state_digest == alone.state_digest {
            let same =
                format!("`{method}` with {with} is the same run, which no control stands beside");
            return Ok(Some(same));
        }
        let warning = scenario.evaluation.headline().and_then(|headline| {
            let value = |of: &SplitAccuracy| of.test.get(&headline.name()).copied();
            let (own, other) = (value(&own?)?, value(&other)?);
            headline.better().compare(other, own).is_ge().then(|| {
                format!(
                    "`{method}` has {} {own:.3}, and {other:.3} with {with}: what its server does has shown nothing",
                    headline.label()
                )
            })
        });
        outcome.baselines.insert(name.to_owned(), other);
        Ok(warning)
    }
}
