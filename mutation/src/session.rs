//! What the command does, from the list of mutants to the score.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::Arguments;
use crate::cargo::{Binaries, Crate};
use crate::copy;
use crate::mutant::Mutant;
use crate::results::{self, Trial, Verdict};
use crate::sample::{self, Sample};
use crate::score;
use crate::sources::{self, Source};
use crate::trial::{Choice, End, Place, Run};

/// A run gets this time and [`TIMES_UNMUTATED`] times what its tests take without a mutant, and
/// counts as stuck then.
const LEAST_LIMIT: Duration = Duration::from_secs(20);
const TIMES_UNMUTATED: u32 = 4;

/// The modules of integration tests that take most of the time of all. They run last.
const SLOW: [&str; 6] = [
    "random_scenarios::",
    "resume::",
    "learning::",
    "checkerboard::",
    "determinism::",
    "scenario_files::",
];

/// The number of stages in which tests run: the unit tests of the mutant's module, those of its
/// layer, those of other layers, the integration tests that are quick, and the others.
const STAGES: usize = 5;

/// How long the tests take without a mutant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unmutated {
    /// A checksum of both binaries.
    binaries: u32,
    lib_seconds: f64,
    it_seconds: f64,
}

/// The tests with the mutants of the sample, built.
struct Built {
    binaries: Binaries,
    unmutated: Unmutated,
}

/// One use of the command.
pub struct Session<'a> {
    arguments: &'a Arguments,
    root: PathBuf,
    /// The folder of the copy, of what is built of it, and of the results.
    folder: PathBuf,
    sources: Vec<Source>,
    all: Vec<Mutant>,
    sample: Sample,
}

impl<'a> Session<'a> {
    /// Reads the sources of the repository at `root` and lists their mutants.
    ///
    /// # Errors
    ///
    /// Returns an error if a source file cannot be read or is not Rust.
    pub fn new(root: &Path, arguments: &'a Arguments) -> Result<Self> {
        let sources = sources::read(root, &arguments.folders)?;
        let all = sources::mutants(&sources)?;
        ensure!(!all.is_empty(), "there is nothing to mutate");
        let folder = root.join("target/mutation");
        std::fs::create_dir_all(&folder)?;
        let sample = Sample {
            of: sample::checksum(&all),
            viable: Vec::new(),
            unviable: Vec::new(),
        };
        Ok(Self {
            arguments,
            root: root.to_owned(),
            folder,
            sources,
            all,
            sample,
        })
    }

    /// Prints every mutant with its number.
    pub fn list(&self) {
        self.all
            .iter()
            .enumerate()
            .for_each(|(number, mutant)| println!("{number} {mutant}"));
    }

    /// Draws the sample, or reads it if it was drawn before from the same mutants.
    ///
    /// # Errors
    ///
    /// Returns an error if the sources do not compile as they are.
    pub fn draw(&mut self) -> Result<()> {
        let Arguments {
            seed, sample: size, ..
        } = *self.arguments;
        let file = self.folder.join(format!("sample-{seed}-{size}.json"));
        if let Some(sample) = sample::load(&file, self.sample.of)? {
            self.sample = sample;
            return Ok(());
        }
        let order = sample::order(self.all.len(), seed);
        self.sample = sample::draw(&order, size, self.sample.of, |mutants| {
            self.refused(mutants)
        })?;
        sample::save(&file, &self.sample)
    }

    /// Runs the mutants of the part that have no result yet. Each stage of tests runs with all of
    /// them before the next one begins, so that what notices most in the least time comes first.
    ///
    /// # Errors
    ///
    /// Returns an error if the tests fail without a mutant.
    pub fn run_part(&self) -> Result<()> {
        let part = self.arguments.part;
        let (trials, equivalent) = (
            results::load(&self.results_file())?,
            score::equivalent(&self.equivalent_file())?,
        );
        // The stages that a mutant has passed, if it is to run on.
        let passed = |number: usize| match trials.get(&self.all[number].key()) {
            None => Some(0),
            Some(trial) => match trial.verdict {
                Verdict::Waiting => Some(trial.passed),
                Verdict::Survived => (self.arguments.again
                    && !equivalent.contains_key(&self.all[number].name()))
                .then_some(0),
                Verdict::Caught | Verdict::TimedOut => None,
            },
        };
        let sample = sample::part(&self.sample.viable, part.number, part.of).into_iter();
        let mut left: Vec<(usize, usize)> = sample
            .filter_map(|number| Some((number, passed(number)?)))
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        let tests = self.build(&self.sample.viable)?;
        for stage in 0..STAGES {
            let count = left.iter().filter(|(_, passed)| *passed == stage).count();
            let mut done = 0;
            for (number, passed) in left.iter_mut().filter(|(_, passed)| *passed == stage) {
                done += 1;
                eprint!("[stage {} of {STAGES}, {done}/{count}] ", stage + 1);
                if self.run_stage(*number, stage, &tests)? == Verdict::Waiting {
                    *passed += 1;
                }
            }
            left.retain(|(_, passed)| *passed > stage);
        }
        Ok(())
    }

    /// Runs one mutant, and returns whether a test noticed it.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such mutant, if it does not compile, or if the tests fail
    /// without it.
    pub fn run_one(&mut self, number: usize) -> Result<bool> {
        ensure!(
            number < self.all.len(),
            "there are only {} mutants, from 0",
            self.all.len()
        );
        let Arguments {
            seed, sample: size, ..
        } = *self.arguments;
        let drawn = sample::load(
            &self.folder.join(format!("sample-{seed}-{size}.json")),
            self.sample.of,
        )?;
        // If it is of the sample, the sample's build has it.
        let numbers = drawn
            .map(|sample| sample.viable)
            .filter(|viable| viable.contains(&number));
        let numbers = match numbers {
            Some(numbers) => numbers,
            None => {
                ensure!(
                    self.refused(&BTreeSet::from([number]))?.is_empty(),
                    "{} does not compile",
                    self.all[number]
                );
                vec![number]
            }
        };
        let tests = self.build(&numbers)?;
        for stage in 0..STAGES {
            match self.run_stage(number, stage, &tests)? {
                Verdict::Waiting => {}
                verdict => return Ok(verdict != Verdict::Survived),
            }
        }
        Ok(false)
    }

    /// Prints the score so far. Returns whether it is high enough, which it is as long as mutants
    /// have still to run.
    ///
    /// # Errors
    ///
    /// Returns an error if the results cannot be read.
    pub fn report(&self) -> Result<bool> {
        let equivalent = score::equivalent(&self.equivalent_file())?;
        let trials = results::load(&self.results_file())?;
        let Sample {
            viable, unviable, ..
        } = &self.sample;
        let tally = score::tally(viable, &self.all, &trials, &equivalent);
        print!(
            "{}",
            tally.report(viable.len(), unviable.len(), &self.all, &equivalent)
        );
        Ok(!tally.is_complete(viable.len()) || 100.0 * tally.score(true).0 >= self.arguments.least)
    }

    fn results_file(&self) -> PathBuf {
        self.folder.join("results.jsonl")
    }

    fn equivalent_file(&self) -> PathBuf {
        self.root.join("mutation/equivalent.toml")
    }

    fn krate(&self) -> (PathBuf, PathBuf) {
        (self.folder.join("copy"), self.folder.join("build"))
    }

    /// Puts mutants into the copy, and returns those that the compiler refuses.
    fn refused(&self, mutants: &BTreeSet<usize>) -> Result<BTreeSet<usize>> {
        let (copy, target) = self.krate();
        let chosen: Vec<(usize, &Mutant)> = mutants
            .iter()
            .map(|number| (*number, &self.all[*number]))
            .collect();
        let pieces = copy::update(&self.root, &copy, &self.sources, &chosen)?;
        Crate {
            folder: &copy,
            target: &target,
            jobs: self.arguments.jobs,
        }
        .refused(&pieces)
    }

    /// Builds the tests with mutants, and runs them with none of these on, unless that was done
    /// before.
    fn build(&self, numbers: &[usize]) -> Result<Built> {
        let (copy, target) = self.krate();
        let chosen: Vec<(usize, &Mutant)> = numbers
            .iter()
            .map(|number| (*number, &self.all[*number]))
            .collect();
        copy::update(&self.root, &copy, &self.sources, &chosen)?;
        let binaries = Crate {
            folder: &copy,
            target: &target,
            jobs: self.arguments.jobs,
        }
        .tests()?;
        let mut hasher = crc32fast::Hasher::new();
        for binary in [&binaries.lib, &binaries.it] {
            hasher.update(
                &std::fs::read(binary)
                    .with_context(|| format!("{} cannot be read", binary.display()))?,
            );
        }
        let checksum = hasher.finalize();
        let file = self.folder.join("unmutated.json");
        let before = std::fs::read_to_string(&file)
            .ok()
            .and_then(|text| serde_json::from_str::<Unmutated>(&text).ok());
        if let Some(before) = before.filter(|before| before.binaries == checksum) {
            return Ok(Built {
                binaries,
                unmutated: before,
            });
        }
        eprintln!("the tests run without a mutant first");
        let [lib_seconds, it_seconds] = [
            self.unmutated(&binaries.lib)?,
            self.unmutated(&binaries.it)?,
        ];
        eprintln!(
            "they pass: {lib_seconds:.1} s for the unit tests, {it_seconds:.1} s for the integration tests"
        );
        let unmutated = Unmutated {
            binaries: checksum,
            lib_seconds,
            it_seconds,
        };
        std::fs::write(&file, serde_json::to_string(&unmutated)?)?;
        Ok(Built {
            binaries,
            unmutated,
        })
    }

    fn unmutated(&self, binary: &Path) -> Result<f64> {
        let run = Run {
            binary,
            choice: &Choice::default(),
            mutant: None,
            limit: Duration::from_secs(3600),
        };
        match self.place().run(&run)? {
            (End::Passed, taken) => Ok(taken.as_secs_f64()),
            (End::Failed(test), _) => bail!("without a mutant, {} fails: {test}", binary.display()),
            (End::TimedOut, _) => bail!("without a mutant, {} does not end", binary.display()),
        }
    }

    fn place(&self) -> Place {
        Place {
            copy: self.krate().0,
            scratch: self.folder.join("temporary"),
        }
    }

    /// Runs the tests of one stage with one mutant on, until one fails, and notes the verdict.
    fn run_stage(&self, number: usize, stage: usize, tests: &Built) -> Result<Verdict> {
        let mutant = &self.all[number];
        let Built {
            binaries,
            unmutated,
        } = tests;
        let (module, layer) = (module_of(&mutant.file, 2), module_of(&mutant.file, 1));
        let slow = || SLOW.map(str::to_owned).to_vec();
        let (binary, seconds, of, but) = match stage {
            0 => (
                &binaries.lib,
                unmutated.lib_seconds,
                vec![module],
                Vec::new(),
            ),
            1 => (
                &binaries.lib,
                unmutated.lib_seconds,
                vec![layer],
                vec![module],
            ),
            2 => (
                &binaries.lib,
                unmutated.lib_seconds,
                Vec::new(),
                vec![layer],
            ),
            3 => (&binaries.it, unmutated.it_seconds, Vec::new(), slow()),
            _ => (&binaries.it, unmutated.it_seconds, slow(), Vec::new()),
        };
        let limit = LEAST_LIMIT + TIMES_UNMUTATED * Duration::from_secs_f64(seconds);
        let (end, taken) = self.place().run(&Run {
            binary,
            choice: &Choice { of, but },
            mutant: Some(number),
            limit,
        })?;
        let (verdict, by) = match end {
            End::Passed if stage + 1 < STAGES => (Verdict::Waiting, String::new()),
            End::Passed => (Verdict::Survived, String::new()),
            End::Failed(test) => (Verdict::Caught, test),
            End::TimedOut => (
                Verdict::TimedOut,
                format!("the limit of {} s", limit.as_secs()),
            ),
        };
        let (passed, seconds) = (stage + usize::from(by.is_empty()), taken.as_secs_f64());
        let trial = Trial {
            mutant: mutant.key(),
            verdict,
            by,
            passed,
            seconds,
        };
        results::add(&self.results_file(), &trial)?;
        let said = match verdict {
            Verdict::Caught | Verdict::TimedOut => format!("noticed by {}", trial.by),
            Verdict::Waiting => "not noticed yet".to_owned(),
            Verdict::Survived => "SURVIVED".to_owned(),
        };
        eprintln!("{number} {mutant}: {said} ({seconds:.1} s)");
        Ok(verdict)
    }
}

/// Returns the beginning of the names of the unit tests of a file's module: with depth 1 of its
/// layer, with depth 2 of the part of the layer, which is `sim::calendar::` for
/// `src/sim/calendar/queue.rs`.
fn module_of(file: &str, depth: usize) -> String {
    let path = file
        .trim_start_matches("src/")
        .trim_end_matches(".rs")
        .trim_end_matches("/mod");
    let parts: Vec<&str> = path.split('/').take(depth).collect();
    format!("{}::", parts.join("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_of_a_module_are_those_of_its_part_of_the_layer() {
        assert_eq!(module_of("src/sim/calendar/queue.rs", 2), "sim::calendar::");
        assert_eq!(module_of("src/sim/calendar/mod.rs", 2), "sim::calendar::");
        assert_eq!(module_of("src/method/fcf.rs", 2), "method::fcf::");
        assert_eq!(module_of("src/scenario/mod.rs", 2), "scenario::");
        assert_eq!(module_of("src/sim/calendar/queue.rs", 1), "sim::");
    }
}
