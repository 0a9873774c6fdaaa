//! The private side of one user, in Python.

use std::cell::RefCell;
use std::sync::Arc;

use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_methods::{
    Client, LocalTask, PersonalVector, Scorer, Scoring, ScoringContext, Scratch, Trained,
};
use fedrecsim_model::{Private, StateVisitor};
use numpy::{PyArray1, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Shared;
use super::state::{Attributes, changes};
use super::task::{Task, read_update};
use crate::arrays;
use crate::attached::attached;
use crate::error::refused;

/// What there is of a user's object.
enum State {
    /// The object is as the method makes it.
    Fresh,
    /// The object is to be made, and given this state.
    Saved(Attributes),
    /// The object is there.
    Live(Py<PyAny>),
    /// The state could not be copied, for this reason.
    Broken(String),
}

/// A user of a method in Python. Its object is made when it is first needed.
pub struct PythonClient {
    shared: Arc<Shared>,
    user: UserId,
    state: Private<RefCell<State>>,
}

impl PythonClient {
    /// Makes the private side of a user, as it is before the first participation.
    pub fn new(shared: &Arc<Shared>, user: UserId) -> Self {
        Self {
            shared: Arc::clone(shared),
            user,
            state: Private::new(RefCell::new(State::Fresh)),
        }
    }

    /// Returns the user's object, which is made if it is not there.
    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let made = || {
            self.shared
                .object
                .bind(py)
                .call_method1(intern!(py, "client"), (self.user.0,))
        };
        let object = match &*self.state.get().borrow() {
            State::Live(object) => return Ok(object.bind(py).clone()),
            State::Fresh => made()?,
            State::Saved(attributes) => {
                let object = made()?;
                attributes.write(&object)?;
                object
            }
            State::Broken(reason) => return Err(refused(reason.clone())),
        };
        *self.state.get().borrow_mut() = State::Live(object.clone().unbind());
        Ok(object)
    }

    /// Returns the state of the user's object.
    fn attributes(&self, py: Python<'_>) -> PyResult<Attributes> {
        if let State::Saved(attributes) = &*self.state.get().borrow() {
            return Ok(attributes.clone());
        }
        Attributes::read(&self.object(py)?)
    }
}

impl fedrecsim_methods::CloneClient for PythonClient {
    fn snapshot(&self) -> Box<dyn Client> {
        let copied = match &*self.state.get().borrow() {
            State::Fresh => State::Fresh,
            State::Saved(attributes) => State::Saved(attributes.clone()),
            State::Broken(reason) => State::Broken(reason.clone()),
            State::Live(object) => attached(|py| match Attributes::read(object.bind(py)) {
                Ok(attributes) => State::Saved(attributes),
                Err(raised) => State::Broken(super::in_words(py, &raised)),
            }),
        };
        let state = Private::new(RefCell::new(copied));
        Box::new(Self {
            shared: Arc::clone(&self.shared),
            user: self.user,
            state,
        })
    }
}

impl Client for PythonClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        scratch.samples.samples.items.clear();
        scratch.samples.samples.labels.clear();
        if self.shared.facts.draws_negatives {
            task.draw_samples(&mut scratch.samples)?;
        }
        let samples = (
            &scratch.samples.samples.items[..],
            &scratch.samples.samples.labels[..],
        );
        attached(|py| {
            let trained = self.object(py).and_then(|object| {
                let described = Task::new(py, task, samples)?;
                let returned = object.call_method1(intern!(py, "train"), (described,))?;
                read_update(py, &self.shared, task, &returned)
            });
            trained.map_err(|raised| {
                self.shared
                    .failed(py, Some(task.round), Some(self.user), &raised)
            })?
        })
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        attached(|py| {
            let parts = self.object(py).and_then(|object| {
                Ok((object.unbind(), arrays::blocks(py, context.model)?.unbind()))
            });
            let (object, model) =
                parts.map_err(|raised| self.shared.failed(py, None, Some(self.user), &raised))?;
            Ok(Box::new(PythonScorer {
                shared: &self.shared,
                user: self.user,
                object,
                model,
            }) as Box<dyn Scorer>)
        })
    }

    /// It is the first array of one dimension that the class names in `state`.
    fn personal_vector(&self) -> Result<Option<PersonalVector>> {
        let read = attached(|py| {
            self.attributes(py)
                .map_err(|raised| self.shared.failed(py, None, Some(self.user), &raised))
        });
        Ok(read?.first_vector())
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        let read = attached(|py| {
            self.attributes(py)
                .map_err(|raised| self.shared.failed(py, None, Some(self.user), &raised))
        });
        let mut attributes = read?;
        attributes.visit(state)?;
        if changes(state) {
            *self.state.get_mut().get_mut() = State::Saved(attributes);
        }
        Ok(())
    }
}

/// Scores items by the method's code.
struct PythonScorer<'a> {
    shared: &'a Shared,
    user: UserId,
    object: Py<PyAny>,
    model: Py<PyDict>,
}

impl PythonScorer<'_> {
    fn score_attached(&self, py: Python<'_>, items: &[u32], scores: &mut [f32]) -> PyResult<()> {
        let listed = PyArray1::from_iter(py, items.iter().map(|item| i64::from(*item)));
        let returned = self
            .object
            .bind(py)
            .call_method1(intern!(py, "score"), (self.model.bind(py), listed))?;
        let array = arrays::floats(&returned)?;
        if array.len() != items.len() {
            let (found, wanted) = (array.shape(), items.len());
            return Err(refused(format!(
                "`score` returned an array of the shape {found:?} for {wanted} items"
            )));
        }
        scores.copy_from_slice(arrays::slice(&array)?);
        Ok(())
    }
}

impl Scorer for PythonScorer<'_> {
    fn score(&self, items: &[u32], scores: &mut [f32]) -> Result<()> {
        attached(|py| {
            let scored = self.score_attached(py, items, scores);
            scored.map_err(|raised| self.shared.failed(py, None, Some(self.user), &raised))
        })?;
        match items.iter().zip(&*scores).find(|(_, score)| score.is_nan()) {
            None => Ok(()),
            Some((item, _)) => Err(Error::MethodFailed {
                method: self.shared.name.to_owned(),
                round: None,
                user: Some(self.user.into()),
                reason: format!("the score of item {item} is NaN"),
            }),
        }
    }
}
