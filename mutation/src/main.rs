//! Measures which changes of the simulator's code its tests notice, by a seeded sample of mutants
//! that are all in one build, each behind a switch. `docs/testing.md` says how it is used.
//!
//! One round of it: [`sources`] are read, [`find`] lists every mutant, [`sample`] draws some,
//! [`copy`] puts these into a copy of the repository ([`weave`]), [`cargo`] builds it, [`trial`]
//! runs the tests with one mutant after the other switched on, and [`score`] says what the
//! [`results`] mean.
#![warn(missing_docs)]

mod cargo;
mod copy;
mod find;
mod mutant;
mod results;
mod sample;
mod score;
mod session;
mod sources;
mod trial;
mod weave;

use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Result;
use clap::Parser;

use crate::session::Session;

/// Measures which changes of the code the tests notice.
#[derive(Parser)]
pub struct Arguments {
    /// Seed of the sample.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of mutants in the sample.
    #[arg(long, default_value_t = 300)]
    sample: usize,
    /// Part of the sample to run, such as 1/10. Results of other parts are kept.
    #[arg(long, default_value = "1/1")]
    part: Part,
    /// List all mutants with their numbers, and run none.
    #[arg(long)]
    list: bool,
    /// Print the results so far, and run none.
    #[arg(long)]
    report: bool,
    /// Run the one mutant of this number (see `--list`), whatever is known of it.
    #[arg(long)]
    mutant: Option<usize>,
    /// Run those again that no test noticed and that are not listed as equivalent, after tests were
    /// added.
    #[arg(long)]
    again: bool,
    /// Folders whose files are mutated.
    #[arg(long = "folder", default_values_t = ["src/method", "src/scenario", "src/sim"].map(str::to_owned))]
    folders: Vec<String>,
    /// Score in percent below which the command fails once all of the sample has run, equivalent
    /// mutants left out.
    #[arg(long, default_value_t = 90.0)]
    least: f64,
    /// Number of compilers at work at a time.
    #[arg(long, default_value_t = 2)]
    jobs: u32,
}

/// A part of several of equal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    number: usize,
    of: usize,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts = text
            .split_once('/')
            .and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err("a part is written as 1/10, from 1/10 to 10/10".to_owned()),
        }
    }
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()?;
    let mut session = Session::new(&root, &arguments)?;
    if arguments.list {
        session.list();
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(number) = arguments.mutant {
        return session.run_one(number).map(|noticed| {
            if noticed {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        });
    }
    session.draw()?;
    if !arguments.report {
        session.run_part()?;
    }
    session.report().map(|enough| {
        if enough {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_number_of_several() {
        assert_eq!("3/10".parse(), Ok(Part { number: 3, of: 10 }));
        for text in ["0/10", "11/10", "1", "a/b", "1/0"] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
    }
}
