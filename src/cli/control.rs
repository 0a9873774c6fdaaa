//! Runs a scenario once more without what the method's server does, to stand beside the result.

use std::sync::Arc;

use super::Session;
use super::args::{ControlArg, InputArgs, RunArgs};
use super::inputs::Inputs;
use super::task::Task;
use crate::Result;
use crate::scenario::Scenario;
use crate::sim::World;
use fedrecsim_scenario::Strictness;
use fedrecsim_sim::outcome::SplitAccuracy;
use fedrecsim_sim::{Outcome, RunControl, run};

/// The control of a run.
pub(crate) struct Control {
    which: ControlArg,
    world: World,
}

impl Control {
    /// Prepares the control that `arguments` ask for, on the ratings of the run.
    ///
    /// # Errors
    /// Those of a scenario whose method cannot do without its server.
    pub(crate) fn of(
        arguments: &RunArgs,
        (task, inputs): (&Task, &Inputs),
        session: &Session,
    ) -> Result<Option<Self>> {
        let Some(which) = arguments.control else {
            return Ok(None);
        };
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
        Ok(Some(Self { which, world }))
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
        let (name, does) = match self.which {
            ControlArg::None => ("devices alone", "devices that share nothing"),
            ControlArg::Mean => ("plain mean", "a server that takes the plain mean"),
        };
        let alone = run(self.world, control, &mut ())?;
        let judged = |of: &Outcome| of.rounds[of.selected?].accuracy.clone();
        let (own, other) = (judged(outcome), judged(&alone));
        if let Some(error) = alone.stopped_by {
            return Err(error);
        }
        let Some(other) = other else {
            return Ok(None);
        };
        let warning = scenario.evaluation.headline().and_then(|headline| {
            let value = |of: &SplitAccuracy| of.test.get(&headline.name()).copied();
            let (own, other) = (value(&own?)?, value(&other)?);
            let method = &scenario.method.name;
            headline.better().compare(other, own).is_ge().then(|| {
                format!(
                    "{does} reach {} {other:.3}, and {method} {own:.3}: what its server does has shown nothing",
                    headline.label()
                )
            })
        });
        outcome.baselines.insert(name.to_owned(), other);
        Ok(warning)
    }
}
