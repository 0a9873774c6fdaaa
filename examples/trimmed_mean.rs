//! A server rule of one's own: FedMF whose server takes a trimmed mean.
//!
//! Of the differences that users send for a row, the server drops the largest and the smallest in
//! every coordinate before it adds up the rest, so that a single user who sends nonsense moves no
//! row far. Clients, network and codecs are those of FedMF; only [`Method::server`] is another one.
//! The rule is the coordinate-wise trimmed mean of Yin, Chen, Ramchandran and Bartlett,
//! Byzantine-Robust Distributed Learning (ICML 2018), with one value trimmed at either end.
//!
//! ```sh
//! cargo run --release --example trimmed_mean -- run scenarios/quickstart.toml --set method=fedmf-trimmed --out reports/trimmed
//! ```

use std::collections::BTreeMap;
use std::process::ExitCode;

use fedrecsim::Result;
use fedrecsim::UserId;
use fedrecsim::cli;
use fedrecsim::method::declare::Declared;
use fedrecsim::method::fedmf::{self, FedMf};
use fedrecsim::method::{Accumulator, Contribution, METHODS, StepContext, StepReport, downcast};
use fedrecsim::method::{Client, Entry, Method, Server, parameters};
use fedrecsim::model::Model;
use fedrecsim::model::{Table, floats};

/// The method's line in a list of methods: that of FedMF, with another name and another server.
pub const ENTRY: Entry = Entry {
    name: "fedmf-trimmed",
    summary: "FedMF with a server that drops the largest and the smallest difference of every value",
    source: "an example of this project, after Yin et al., Byzantine-Robust Distributed Learning, ICML 2018",
    build: &|value, problem| {
        let inner: FedMf = parameters(ENTRY.name, value)?;
        Ok(Box::new(TrimmedFedMf {
            inner: Declared::new(inner, problem),
        }))
    },
    ..fedmf::ENTRY
};

/// FedMF with another server.
#[derive(Debug)]
struct TrimmedFedMf {
    inner: Declared<FedMf>,
}

impl Method for TrimmedFedMf {
    fn initial(&self) -> Model {
        self.inner.initial()
    }

    fn client(&self, user: UserId) -> Box<dyn Client> {
        self.inner.client(user)
    }

    fn server(&self) -> Box<dyn Server> {
        Box::new(TrimmedMean {
            model: self.initial(),
        })
    }
}

/// The server. It keeps nothing but the model.
struct TrimmedMean {
    model: Model,
}

impl Server for TrimmedMean {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.replace(model)
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Differences::default())
    }

    /// Moves every row that was sent by the sum of its differences without the extremes, divided by
    /// the weight of all contributions, as a plain mean would divide it.
    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let Differences { by_row, weight } = *downcast::<Differences>(sums)?;
        let mut table = Table::clone(self.model.table(0));
        for (row, mut sent) in by_row {
            for (column, value) in table.row_mut(row).iter_mut().enumerate() {
                sent.sort_by(|one, other| one[column].total_cmp(&other[column]));
                // If only one or two users sent the row, all of their values are kept.
                let trimmed = usize::from(sent.len() > 2);
                let kept = &sent[trimmed..sent.len() - trimmed];
                let sum: f64 = kept
                    .iter()
                    .map(|difference| f64::from(difference[column]))
                    .sum();
                *value += (sum / weight.max(1.0)) as f32;
            }
        }
        step.check_magnitude("V", fedrecsim::method::largest_magnitude(table.as_slice()))?;
        self.model.set_table(0, table.into())?;
        Ok(StepReport::default())
    }
}

/// The differences of a step by row, each times the weight of its contribution. Rows are in a map
/// with an order, so that sums do not depend on chance.
#[derive(Default)]
struct Differences {
    by_row: BTreeMap<usize, Vec<Vec<f32>>>,
    weight: f64,
}

impl Accumulator for Differences {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let base = contribution.received.table(0);
            for (row, bytes) in contribution.update.blocks[0].iter() {
                let pairs = floats(bytes).zip(base.row(row));
                let difference = pairs
                    .map(|(value, base)| (value - base) * contribution.weight as f32)
                    .collect();
                self.by_row.entry(row).or_default().push(difference);
            }
            self.weight += contribution.weight;
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        for (row, mut sent) in other.by_row {
            self.by_row.entry(row).or_default().append(&mut sent);
        }
        self.weight += other.weight;
        Ok(())
    }
}

fn main() -> ExitCode {
    cli::program(&[METHODS, &[ENTRY]].concat())
}
