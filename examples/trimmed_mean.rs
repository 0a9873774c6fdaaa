//! A server rule of one's own choice: FedMF whose server takes a trimmed mean.
//!
//! Of the differences that users send for a row, the server leaves out the largest tenth and the
//! smallest tenth in every coordinate, at least one at either end. So a single user who sends
//! nonsense moves no row far. Any block of any declaration can have this rule. Blocks, score and
//! training are those of FedMF.
//!
//! ```sh
//! cargo run --release --example trimmed_mean -- run scenarios/quickstart.toml --set method=fedmf-trimmed --out reports/trimmed
//! ```

use std::process::ExitCode;

use fedrecsim::cli;
use fedrecsim::method::prelude::*;
use fedrecsim::method::{FedMf, METHODS};

/// The method's line in a list of methods.
pub const ENTRY: Entry = Entry::of::<Trimmed>();

/// The rule of every shared block.
const RULE: ServerRule = ServerRule {
    combine: Combine::TrimmedMean { share: 0.1 },
    ..ServerRule::MEAN
};

/// FedMF with another rule.
#[derive(Debug)]
pub struct Trimmed(FedMf);

impl Declare for Trimmed {
    type Parameters = FedMf;
    type Memory = ();

    const NAME: &str = "fedmf-trimmed";
    const SUMMARY: &str = "FedMF with a server that leaves out the extremes of every value";
    const SOURCE: &str = "an example of this project, after Yin et al., Byzantine-Robust \
                          Distributed Learning, ICML 2018";

    fn new(parameters: FedMf, _problem: &Problem) -> Self {
        Self(parameters)
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let blocks = self.0.blocks(size).into_iter();
        blocks.map(|block| block.rule(RULE)).collect()
    }

    fn score(&self) -> Score {
        self.0.score()
    }

    fn training(&self) -> Training {
        self.0.training()
    }
}

fn main() -> ExitCode {
    cli::program(&[METHODS, &[ENTRY]].concat())
}
