//! The server side of a method, in Python.

use std::sync::Arc;

use fedrecsim_core::Result;
use fedrecsim_methods::largest_magnitude;
use fedrecsim_methods::server::{
    Accumulator, Contribution, Server, StepContext, StepReport, downcast,
};
use fedrecsim_model::{Layout, Model, ModelUpdate, StateVisitor, TableUpdate};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::Shared;
use super::state::{Attributes, changes};
use crate::arrays;
use crate::attached::attached;
use crate::error::OrRaise;

/// The server side of a method. Its object is made when it is first needed.
pub struct PythonServer {
    shared: Arc<Shared>,
    model: Model,
    object: Option<Py<PyAny>>,
    /// The state that the object is to be given when it is made.
    saved: Option<Attributes>,
}

impl PythonServer {
    /// Makes the server side as it is before the first round.
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            model: shared.initial.clone(),
            object: None,
            saved: None,
        }
    }

    fn object<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(object) = &self.object {
            return Ok(object.bind(py).clone());
        }
        let object = self.shared.object.bind(py).call_method0("server")?;
        if let Some(saved) = self.saved.take() {
            saved.write(&object)?;
        }
        self.object = Some(object.clone().unbind());
        Ok(object)
    }

    fn stepped(
        &mut self,
        py: Python<'_>,
        updates: Vec<Received>,
        step: &StepContext<'_>,
    ) -> PyResult<Model> {
        let object = self.object(py)?;
        let list = PyList::empty(py);
        for update in updates {
            list.append(Bound::new(py, update)?)?;
        }
        let model = arrays::blocks(py, &self.model)?;
        let returned = object.call_method1("step", (model, list, step.step))?;
        arrays::model(self.model.layout(), &returned)
    }
}

impl Server for PythonServer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.replace(model)
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Collected {
            layout: self.shared.upload.clone(),
            updates: Vec::new(),
        })
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let Collected { updates, .. } = *downcast::<Collected>(sums)?;
        let row_visits = updates.iter().map(|update| update.rows).sum();
        let stepped = attached(|py| {
            let stepped = self.stepped(py, updates, step);
            stepped.map_err(|raised| self.shared.failed(py, Some(step.round), None, &raised))
        });
        let model = stepped?;
        for (block, name) in model.layout().blocks().iter().zip(&self.shared.model_names) {
            if let Some(table) = model.named(&block.name) {
                step.check_magnitude(name, largest_magnitude(table.as_slice()))?;
            }
        }
        self.model = model;
        Ok(StepReport {
            row_visits,
            ..StepReport::default()
        })
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        let read = attached(|py| match &self.saved {
            Some(saved) => Ok(saved.clone()),
            None => {
                let read = self.object(py).and_then(|object| Attributes::read(&object));
                read.map_err(|raised| self.shared.failed(py, None, None, &raised))
            }
        });
        let mut attributes = read?;
        attributes.visit(state)?;
        if changes(state) {
            (self.object, self.saved) = (None, Some(attributes));
        }
        Ok(())
    }
}

/// The updates of a step, in the order of users and invitations.
struct Collected {
    layout: Layout,
    updates: Vec<Received>,
}

impl Accumulator for Collected {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let rows = |update: &TableUpdate| update.rows.len(update.shape) as u64;
            self.updates.push(Received {
                user: contribution.user.0,
                weight: contribution.weight * contribution.weight_by_method(),
                base_weight: contribution.base_weight * contribution.weight_by_method(),
                rows: contribution.update.blocks.iter().map(rows).sum(),
                update: contribution.update.clone(),
                received: contribution.received.clone(),
                layout: self.layout.clone(),
            });
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        self.updates.extend(downcast::<Self>(other)?.updates);
        Ok(())
    }
}

/// Holds one of the updates that a step of the server uses.
#[pyclass(frozen, module = "fedrecsim._native")]
pub struct Received {
    /// The sender.
    #[pyo3(get)]
    user: u32,
    /// The weight of the update by the run's mode and by the method.
    #[pyo3(get)]
    weight: f64,
    /// The weight of the model that the sender had received, which is subtracted: 0 where updates
    /// count themselves, and `weight` where their differences do.
    #[pyo3(get)]
    base_weight: f64,
    rows: u64,
    update: ModelUpdate,
    received: Model,
    layout: Layout,
}

#[pymethods]
impl Received {
    /// The blocks as the sender has left them, whole.
    #[getter]
    fn blocks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        arrays::blocks(
            py,
            &self.update.apply(&self.layout, &self.received).or_raise()?,
        )
    }

    /// The blocks that the sender had received.
    #[getter]
    fn received<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        arrays::blocks(py, &self.received)
    }
}
