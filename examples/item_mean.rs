//! Defines a whole method in one file: the item mean, federated.
//!
//! The global model is a table p of one value per item, which becomes the share of users who rated
//! it. The private state is the number n of participations so far. A client moves what it
//! downloaded towards its own ratings, p_j <- p_j + (x_j - p_j) / n^a with x_j = 1 for the items
//! that it rated and 0 for all others; the server averages. An item's score is its p_j.
//!
//! The program is all of `fedrecsim` with one more method:
//!
//! ```sh
//! cargo run --release --example item_mean -- methods
//! cargo run --release --example item_mean -- run scenarios/quickstart.toml --set method=item-mean --out reports/item-mean
//! ```

use fedrecsim::model::Layout;
use std::process::ExitCode;

use fedrecsim::Result;
use fedrecsim::UserId;
use fedrecsim::method::METHODS;
use fedrecsim::method::{
    Client, Entry, LocalTask, Method, Problem, Scoring, ScoringContext, Scratch, Trained, Work,
    largest_magnitude, parameters, sizes_by,
};
use fedrecsim::model::Private;
use fedrecsim::model::StateVisitor;
use fedrecsim::model::{Model, ModelUpdate};
use fedrecsim::model::{Table, TableShape, TableUpdate};
use fedrecsim::{cli, math};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The method's line in a list of methods.
pub const ENTRY: Entry = Entry {
    name: "item-mean",
    summary: "scores an item by the share of users who rated it, which they work out together",
    source: "an example of this project",
    schema: &|| schemars::schema_for!(ItemMeanParameters),
    sizes: &|value, size| {
        sizes_by(value, |_: ItemMeanParameters| {
            Layout::of_table("p", item_table(size.items))
        })
    },
    build: &|value, problem| {
        Ok(Box::new(ItemMean::new(
            parameters(ENTRY.name, value)?,
            problem,
        )))
    },
    ..Entry::BY_HAND
};

/// Parameters of the item mean: the keys of `[method.item-mean]`, with their ranges, defaults and
/// documentation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ItemMeanParameters {
    /// Exponent a of the step 1/n^a in a user's n-th participation; with 0 the table is the mean of
    /// the last cohort.
    #[schemars(range(min = 0, max = 1))]
    pub step_decay: f64,
}

impl Default for ItemMeanParameters {
    fn default() -> Self {
        Self { step_decay: 1.0 }
    }
}

/// The part of the method that the server and all clients share.
#[derive(Debug)]
struct ItemMean {
    step_decay: f64,
    shape: TableShape,
}

impl ItemMean {
    fn new(parameters: ItemMeanParameters, problem: &Problem) -> Self {
        Self {
            step_decay: parameters.step_decay,
            shape: item_table(problem.items),
        }
    }
}

/// Returns the shape of p for this many items.
fn item_table(items: usize) -> TableShape {
    TableShape {
        rows: items,
        dimension: 1,
    }
}

impl Method for ItemMean {
    fn initial(&self) -> Model {
        Model::of_table("p", Table::zeros(self.shape))
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(ItemMeanClient {
            step_decay: self.step_decay,
            participations: Private::new(0),
        })
    }
}

/// The part of the method that belongs to one user.
#[derive(Clone)]
struct ItemMeanClient {
    step_decay: f64,
    participations: Private<u32>,
}

impl Client for ItemMeanClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        let participations = self.participations.get_mut();
        *participations += 1;
        // This is the project's own `pow`, as that of the system may give other bits on another
        // machine.
        let step = math::pow(f64::from(*participations), -self.step_decay) as f32;
        task.draw_samples(&mut scratch.samples)?;
        let (samples, table) = (&scratch.samples.samples, task.model.table(0));
        let (mut rated, mut values, mut loss) = (Vec::new(), Vec::new(), 0.0);
        for (&item, &label) in samples.items.iter().zip(&samples.labels) {
            let mean = table.row(item as usize)[0];
            loss += f64::from((label - mean) * (label - mean));
            // Positives come in ascending order; one that was rated twice is one item.
            if label == 1.0 && rated.last() != Some(&item) {
                rated.push(item);
                values.push(mean + step * (1.0 - mean));
            }
        }
        task.check_magnitude("p", largest_magnitude(&values))?;
        let row_visits = rated.len() as u64;
        // All other rows move towards zero by one factor, which a codec for rows sends as one
        // number.
        let update = TableUpdate::listed(table.shape(), rated, &values, 1.0 - step)?;
        Ok(Trained::new(
            ModelUpdate::of_table(update),
            loss / samples.items.len() as f64,
            Work::of_row_visits(row_visits),
        ))
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        let table = context.model.table(0);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            for (&item, score) in items.iter().zip(scores) {
                *score = table.row(item as usize)[0];
            }
        }))
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(self.participations.get_mut())
    }
}

fn main() -> ExitCode {
    cli::program(&[METHODS, &[ENTRY]].concat())
}

#[cfg(test)]
mod tests {
    use fedrecsim::testing::{Breach, contract};

    /// If this fails, the method breaks a promise that the simulator relies on, such as that a run
    /// repeats its digest or that private state stays on the device.
    #[test]
    fn the_method_keeps_the_contract() -> Result<(), Breach> {
        contract(&super::ENTRY)
    }
}
