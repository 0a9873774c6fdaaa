//! Implements the clients of methods whose logit of item j is w . E_j + b, which are FedMF and
//! PFedRec.
//!
//! The vector w and the bias b are private, and the item table E is shared. A client trains them by
//! mini-batches of the mean binary cross-entropy, in the steps that its method names. With dual
//! personalisation it keeps the rows that it has tuned and scores with them, and otherwise it
//! scores with the averaged table.

use std::sync::Arc;

use super::minibatch::{self, Schedule};
use super::tuned_table::TunedTable;
use super::user_vector::score_items_with_bias;
use super::{Client, LocalTask, LocalUpdate, PersonalTable, Scorer, ScoringContext, Scratch};
use fedrecsim_core::error::Result;
use fedrecsim_model::model::blocks::ModelUpdate;
use fedrecsim_model::model::kernel::logistic::{LogisticStep, Target};
use fedrecsim_model::model::private::Private;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::Table;

/// Describes how the clients of a method train.
#[derive(Debug)]
pub(super) struct VectorTraining {
    /// The number of passes over the samples.
    pub epochs: u32,
    /// The number of samples in a batch.
    pub batch_size: usize,
    /// The steps taken on each batch, in order.
    pub steps: Vec<LogisticStep>,
    /// Whether there is a bias. Without one it is 0, and the steps do not move it.
    pub has_bias: bool,
    /// The names of the vector, the bias and the table in the papers, for error messages.
    pub names: [&'static str; 3],
}

impl VectorTraining {
    /// Returns the steps of dual personalisation, with the rates of `step`: the score function
    /// first and, with the new one, the rows.
    pub(crate) fn dual_steps(step: LogisticStep) -> Vec<LogisticStep> {
        [Target::Vector, Target::Rows]
            .map(|target| LogisticStep { target, ..step })
            .into()
    }
}

/// Holds the private side of one user.
#[derive(Clone)]
pub(super) struct VectorClient {
    training: Arc<VectorTraining>,
    own: Private<Own>,
}

/// Holds the private parameters of one user.
#[derive(Clone)]
struct Own {
    vector: Box<[f32]>,
    bias: f32,
    /// The item table that the user scores with, under dual personalisation. It is boxed, since a
    /// population without it may have a million users.
    table: Option<Box<TunedTable>>,
}

impl VectorClient {
    /// Makes the private side of a user who starts with this vector and bias and, under dual
    /// personalisation, with this table.
    pub(crate) fn new(
        training: &Arc<VectorTraining>,
        vector: Vec<f32>,
        bias: f32,
        table: Option<TunedTable>,
    ) -> Self {
        let own = Own {
            vector: vector.into(),
            bias,
            table: table.map(Box::new),
        };
        Self {
            training: Arc::clone(training),
            own: Private::new(own),
        }
    }
}

impl Client for VectorClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate> {
        let VectorTraining {
            epochs,
            batch_size,
            steps,
            names: [vector, bias, table],
            ..
        } = &*self.training;
        let schedule = Schedule {
            epochs: *epochs,
            batch_size: *batch_size,
            steps,
            names: [vector, bias],
        };
        let own = self.own.get_mut();
        let trained = minibatch::train(task, &schedule, &mut own.vector, &mut own.bias, scratch)?;
        let update = minibatch::update(task, scratch, trained.others_scale, table)?;
        if let Some(table) = &mut own.table {
            table.keep(task.model.table(0), &update);
        }
        Ok(LocalUpdate::new(
            ModelUpdate::of_table(update),
            trained.loss,
            trained.row_visits,
        ))
    }

    fn was_sent(&mut self, update: &ModelUpdate) {
        if let Some(table) = &mut self.own.get_mut().table {
            table.was_sent(update);
        }
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let Own {
            vector,
            bias,
            table,
        } = self.own.get();
        let shared = context.model.table(0);
        Ok(Box::new(
            move |items: &[u32], scores: &mut [f32]| match table {
                Some(table) => table.score(vector, *bias, items, scores),
                None => score_items_with_bias(vector, *bias, shared, items, scores),
            },
        ))
    }

    fn personal_table(&self) -> Result<Option<PersonalTable>> {
        let table = self.own.get().table.as_ref();
        table
            .map(|table| table.shown_as(self.training.names[2]))
            .transpose()
    }

    fn replace_personal_table(&mut self, values: Table) -> Result<()> {
        self.own.get_mut().table = Some(Box::new(TunedTable::new(&Arc::new(values))));
        Ok(())
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        let Own {
            vector,
            bias,
            table,
        } = self.own.get_mut();
        state.values(vector)?;
        if self.training.has_bias {
            state.value(bias)?;
        }
        table
            .as_mut()
            .map_or(Ok(()), |table| table.visit_state(state))
    }
}
