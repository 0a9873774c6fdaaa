//! A method in a crate of its own, and a program with it: every command of `fedrecsim`, and one
//! more method.
//!
//! The method is BPR matrix factorisation on devices. The user vector u is private; the item table
//! V and the item biases c are shared and averaged. Item j is scored by u . V_j + c_j, and each
//! positive is to be scored higher than the negatives that are drawn for it (Rendle et al., BPR:
//! Bayesian Personalized Ranking from Implicit Feedback, UAI 2009).
//!
//! ```sh
//! cargo run --release -p fedbpr -- run scenarios/quickstart.toml --set method=fedbpr --out reports/fedbpr
//! ```

use std::process::ExitCode;

use fedrecsim::cli;
use fedrecsim::method::METHODS;
use fedrecsim::method::prelude::*;

/// The method's line in a list of methods.
pub const ENTRY: Entry = Entry::of::<FedBpr>();

parameters! {
    /// Parameters of FedBPR.
    pub struct FedBpr {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Passes over the local samples per round.
        local_epochs: u32 = 1, >= 1, <= 10_000;
        /// Samples per batch.
        batch_size: u32 = 256, >= 1;
        /// Learning rate of the user vector.
        learning_rate_user: f64 = 0.1, > 0.0;
        /// Learning rate of the item rows and biases. The mean over a batch and then over clients
        /// makes it large.
        learning_rate_items: f64 = 1_000.0, > 0.0;
    }
}

impl Declare for FedBpr {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "fedbpr";
    const SUMMARY: &str = "BPR: private user vector, averaged item table and biases";
    const SOURCE: &str = "an example of this project, after Rendle et al., BPR, UAI 2009";
    const FORMULA: &[&str] = &["s_i = u · V_i + c_i", "L = mean −ln σ(s_i − s_j)"];

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let k = self.latent_dimension;
        let start = normal(0.1);
        let shared =
            |name, columns| item_table(name, size.items, columns).rate(self.learning_rate_items);
        vec![
            shared("V", k).start(start.clone()),
            shared("c", 1),
            vector("u", k)
                .private()
                .start(start)
                .rate(self.learning_rate_user),
        ]
    }

    fn score(&self) -> Score {
        Score::dot("u", "V").item_biased("c")
    }

    fn loss(&self) -> Loss {
        Loss::Pairwise
    }

    fn training(&self) -> Training {
        Training::of(self.local_epochs, self.batch_size)
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
