//! Implements FedTide, which ranks what users take next on a common timeline.
//!
//! Time is cut into periods. At the end of each, devices send sums: decayed counts of what they
//! have taken, rows of a common basis summed over their items, and what follows what
//! ([`statistics`]). From these the server makes a package of popularity, of a low-rank table of
//! items that occur together, and of the items that follow each item most ([`package`]). With it a
//! device computes six features of every item ([`features`]). How much each of them counts is
//! fitted on what devices have taken in the period after a package was made ([`reports`],
//! [`learned`]).
//!
//! The server uses nothing but sums, so that secure aggregation and noise can hide each upload. An
//! upload in rows discloses the user's items.
//!
//! Source: This method is the project's own. A decayed count is known as a strong baseline (Ji et
//! al., A re-visit of the popularity baseline in recommender systems, SIGIR 2020).

use std::sync::Arc;

use self::columns::StepColumns;
use self::features::Features;
use self::history::{History, Targets};
use self::package::Package;
use self::server::TideServer;
use super::choices;
use super::prelude::*;
use fedrecsim_model::Layout;

mod columns;
mod features;
mod history;
mod learned;
mod neighbours;
mod package;
mod products;
mod reports;
mod server;
mod statistics;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedtide",
    summary: "decayed counts, items that occur together and items that follow one another, weighed \
              by what devices took last",
    source: "an own method of this project (the decayed count: Ji et al., SIGIR 2020)",
    formula: &[
        "s_i = θ · X_i,  X_i = (ln(a q_i + (1 − a) P_i + ε), ln(q'_i + ε), e_i, f_i, age_i, drift_i)",
        "q, q' decayed counts of all and of returning users;  P, e what occurs with own items;  f what follows them",
        "L = −Σ_u Σ_{j∈J} t_uj ln softmax_J(θ · X_uj) + 10 ‖θ − θ₀‖²,  by Newton steps",
        "J the 100 items with the largest X_i1 + X_i2 / 2,  t_uj the share of j in what u takes next",
    ],
    kept: &|_| Some(Vec::new()),
    schema: &|| schemars::schema_for!(FedTideParameters),
    draws_negatives: false,
    without_controls: Some(
        "devices send sums, of which only a server with those of many users makes a model",
    ),
    sizes: &|value, size| {
        super::sizes_by(value, |parameters: FedTideParameters| {
            let (items, rank) = (size.items, parameters.rank(size.items));
            let columns = items.min(parameters.step_columns as usize);
            let layouts = [
                package::layout(items, rank),
                statistics::layout(items, rank, columns),
            ];
            let blocks = layouts.iter().flat_map(|layout| layout.blocks().to_vec());
            Layout::new(blocks.collect())
        })
    },
    build: &|value, problem| {
        let parameters = super::parameters(ENTRY.name, value)?;
        Ok(Box::new(FedTide::new(parameters, problem)))
    },
    ..Entry::BY_HAND
};

choices! {
    /// What the fit takes for the targets of a period.
    pub(crate) enum FitTargets {
        /// The items at the user's first instant in the period.
        First,
        /// All items of the period.
        All,
    }
}

parameters! {
    /// Parameters of FedTide.
    pub(crate) struct FedTideParameters {
        /// Length of a period, in days. The last one ends where training does, as `global-time`
        /// says. Other splits have no common present, and there it ends at the user's own last
        /// training rating. Where ratings have no timestamps, each of a user's ratings is a day.
        period_days: f64 = 20.0, > 0.0;
        /// Number of periods on which coefficients are fitted. Before the first there is one more
        /// package, of all that is older. `training.rounds` has to be at least 2 + 7 times this
        /// number; with fewer the package stays that of an earlier period.
        periods: u32 = 4, >= 1, <= 80;
        /// What the coefficients are fitted to.
        targets: FitTargets = FitTargets::First;
        /// Latent dimension r of the table of items that occur together. A catalogue of fewer items
        /// has as many as items.
        latent_dimension: u32 = 96, >= 1, <= MAX_DIMENSION;
        /// The most columns in which devices count what follows an item. In a larger catalogue items
        /// share columns, so that the counts are estimates.
        step_columns: u32 = 512, >= 1;
        /// How much the fit of a period counts, beside that of the next one.
        carry: f64 = 0.5, >= 0, <= 1;
        /// Share of the users whose uploads the server waits for before it makes a package. What is
        /// fitted takes the uploads of one round.
        coverage: f64 = 0.9, > 0.0, <= 1;
    }
}

impl FedTideParameters {
    /// Returns the number of columns of the low-rank tables.
    fn rank(&self, items: usize) -> usize {
        items.min(self.latent_dimension as usize)
    }

    /// Returns how many days before the present a period ends, by its number. Period 0 is all that
    /// is older than the first one that is fitted.
    fn days_back(&self, period: u32) -> f64 {
        f64::from(self.periods - period) * self.period_days
    }
}

/// What a participation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Devices send statistics of what they have until the end of this period, and what they took
    /// in it.
    Statistics { period: u32 },
    /// Devices say how well counts and neighbours explain what they took in this period.
    Mixture { period: u32 },
    /// Devices send the terms of a Newton step for this period.
    Newton { period: u32 },
}

impl Stage {
    /// Returns the phase of the stage.
    fn phase(self) -> Phase {
        // The parameters have at most 80 periods.
        Phase(match self {
            Self::Statistics { period: 0 } => 0,
            Self::Statistics { period } => 3 * period - 2,
            Self::Mixture { period } => 3 * period - 1,
            Self::Newton { period } => 3 * period,
        } as u8)
    }

    fn of(Phase(phase): Phase) -> Self {
        let period = u32::from(phase).div_ceil(3);
        match phase % 3 {
            _ if phase == 0 => Self::Statistics { period: 0 },
            1 => Self::Statistics { period },
            2 => Self::Mixture { period },
            _ => Self::Newton { period },
        }
    }

    /// Returns the layout of uploads, for this many items, columns of vectors and columns of
    /// steps.
    fn uploads(self, items: usize, rank: usize, columns: usize) -> Layout {
        match self {
            Self::Statistics { .. } => statistics::layout(items, rank, columns),
            Self::Mixture { .. } => reports::mixture_layout(),
            Self::Newton { .. } => reports::newton_layout(),
        }
    }
}

/// What the server and all devices know.
#[derive(Debug)]
struct FedTide {
    parameters: Arc<FedTideParameters>,
    columns: Arc<StepColumns>,
    items: usize,
    starts: Streams,
}

impl FedTide {
    fn new(parameters: FedTideParameters, problem: &Problem) -> Self {
        let most = parameters.step_columns as usize;
        Self {
            columns: Arc::new(StepColumns::new(problem.items, most, problem.starts)),
            parameters: Arc::new(parameters),
            items: problem.items,
            starts: problem.starts,
        }
    }
}

impl Method for FedTide {
    fn initial(&self) -> Model {
        let rank = self.parameters.rank(self.items);
        package::initial(self.items, rank, self.starts)
    }

    fn phases(&self) -> u8 {
        let last = Stage::Newton {
            period: self.parameters.periods,
        };
        last.phase().0 + 1
    }

    fn least_steps(&self) -> u32 {
        server::FIRST_STATISTICS + self.parameters.periods * server::STEPS_OF_PERIOD
    }

    fn download_layout(&self, _: Phase, _: Class) -> Layout {
        package::layout(self.items, self.parameters.rank(self.items))
    }

    fn upload_layout(&self, phase: Phase, _: Class) -> Layout {
        let rank = self.parameters.rank(self.items);
        Stage::of(phase).uploads(self.items, rank, self.columns.count())
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(Device {
            parameters: Arc::clone(&self.parameters),
            columns: Arc::clone(&self.columns),
        })
    }

    fn server(&self) -> Box<dyn Server> {
        let columns = Arc::clone(&self.columns);
        Box::new(TideServer::new(&self.parameters, columns, self.initial()))
    }
}

/// A device, which keeps nothing but its user's ratings.
#[derive(Clone, Debug)]
struct Device {
    parameters: Arc<FedTideParameters>,
    columns: Arc<StepColumns>,
}

impl Device {
    /// Returns what the user took in this period, and the features that the package of its
    /// beginning gives; nothing if the user took no item that could have been recommended.
    fn fitting(&self, task: &LocalTask<'_>, period: u32) -> Option<(Features, Vec<u32>)> {
        let package = Package::of(task.model);
        let ages = history::ages(&task.own);
        let (history, targets) = self.period(task, period, (&package, &ages));
        (!targets.is_empty()).then(|| (Features::of(&package, &history), targets))
    }

    /// Returns the user's items before this period, and those that it took in it.
    fn period(
        &self,
        task: &LocalTask<'_>,
        period: u32,
        (package, ages): (&Package<'_>, &[f64]),
    ) -> (History, Vec<u32>) {
        let p = &self.parameters;
        let [from, to] = [period - 1, period].map(|period| p.days_back(period));
        let history = History::older_than(from, &task.own, ages);
        let mut targets = Targets {
            from,
            to,
            only_first: p.targets == FitTargets::First,
        }
        .of(&task.own, ages);
        // Newcomers are not ranked for, and what they take would count for those who are.
        if history.items.is_empty() {
            targets.clear();
        }
        targets.retain(|item| package.is_live(*item) && !history.has(*item));
        (history, targets)
    }
}

impl Client for Device {
    fn train(&mut self, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<Trained> {
        let p = &self.parameters;
        match Stage::of(task.phase) {
            Stage::Statistics { period } => {
                let package = Package::of(task.model);
                let ages = history::ages(&task.own);
                let history = History::older_than(p.days_back(period), &task.own, &ages);
                let targets = match period {
                    0 => Vec::new(),
                    _ => self.period(task, period, (&package, &ages)).1,
                };
                reports::statistics_upload(task, (&package, &self.columns), &history, targets)
            }
            Stage::Mixture { period } => reports::mixture_upload(task, self.fitting(task, period)),
            Stage::Newton { period } => reports::newton_upload(task, self.fitting(task, period)),
        }
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        let package = Package::of(context.model);
        let ages = history::ages(&context.own);
        let history = History::older_than(0.0, &context.own, &ages);
        let all = Features::of(&package, &history).scores(&package);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            for (item, score) in items.iter().zip(scores) {
                *score = all[*item as usize];
            }
        }))
    }

    fn visit_state(&mut self, _: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}
