//! What the command does, from the list of mutants to the score.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
use crate::trial::{End, Place, Run};

/// A run gets this time and [`TIMES_UNMUTATED`] times what its tests take without a mutant, and counts as stuck then.
const LEAST_LIMIT: Duration = Duration::from_secs(20);
const TIMES_UNMUTATED: u32 = 4;

/// The integration tests that notice most in a short time.
const TELLING: &str = "pinned_digests::";

/// How long the tests take without a mutant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unmutated {
    /// A checksum of both binaries.
    binaries: u32,
    lib_seconds: f64,
    it_seconds: f64,
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
        let sample = Sample { of: sample::checksum(&all), viable: Vec::new(), unviable: Vec::new() };
        Ok(Self { arguments, root: root.to_owned(), folder, sources, all, sample })
    }

    /// Prints every mutant with its number.
    pub fn list(&self) {
        self.all.iter().enumerate().for_each(|(number, mutant)| println!("{number} {mutant}"));
    }

    /// Draws the sample, or reads it if it was drawn before from the same mutants.
    ///
    /// # Errors
    ///
    /// Returns an error if the sources do not compile as they are.
    pub fn draw(&mut self) -> Result<()> {
        let Arguments { seed, sample: size, .. } = *self.arguments;
        let file = self.folder.join(format!("sample-{seed}-{size}.json"));
        if let Some(sample) = sample::load(&file, self.sample.of)? {
            self.sample = sample;
            return Ok(());
        }
        let order = sample::order(self.all.len(), seed);
        self.sample = sample::draw(&order, size, self.sample.of, |mutants| self.refused(mutants))?;
        sample::save(&file, &self.sample)
    }

    /// Runs the mutants of the part that have no result yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the tests fail without a mutant.
    pub fn run_part(&self) -> Result<()> {
        let part = self.arguments.part;
        let (trials, equivalent) = (results::load(&self.results_file())?, score::equivalent(&self.equivalent_file())?);
        let is_to_run = |number: &usize| match trials.get(&self.all[*number].key()) {
            None => true,
            Some(trial) if trial.verdict == Verdict::Survived => {
                self.arguments.again && !equivalent.contains_key(&self.all[*number].name())
            }
            Some(_) => false,
        };
        let mut numbers = sample::part(&self.sample.viable, part.number, part.of);
        numbers.retain(is_to_run);
        if numbers.is_empty() {
            return Ok(());
        }
        let (binaries, unmutated) = self.build(&self.sample.viable)?;
        for (done, number) in numbers.iter().enumerate() {
            eprint!("[{}/{}] ", done + 1, numbers.len());
            self.try_mutant(*number, &binaries, &unmutated)?;
        }
        Ok(())
    }

    /// Runs one mutant, and returns whether a test noticed it.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such mutant, if it does not compile, or if the tests fail without it.
    pub fn run_one(&mut self, number: usize) -> Result<bool> {
        ensure!(number < self.all.len(), "there are only {} mutants, from 0", self.all.len());
        let Arguments { seed, sample: size, .. } = *self.arguments;
        let drawn = sample::load(&self.folder.join(format!("sample-{seed}-{size}.json")), self.sample.of)?;
        // If it is of the sample, the sample's build has it.
        let numbers = drawn.map(|sample| sample.viable).filter(|viable| viable.contains(&number));
        let numbers = match numbers {
            Some(numbers) => numbers,
            None => {
                ensure!(self.refused(&BTreeSet::from([number]))?.is_empty(), "{} does not compile", self.all[number]);
                vec![number]
            }
        };
        let (binaries, unmutated) = self.build(&numbers)?;
        Ok(self.try_mutant(number, &binaries, &unmutated)?.verdict != Verdict::Survived)
    }

    /// Prints the score so far. Returns whether it is high enough, which it is as long as mutants have still to run.
    ///
    /// # Errors
    ///
    /// Returns an error if the results cannot be read.
    pub fn report(&self) -> Result<bool> {
        let equivalent = score::equivalent(&self.equivalent_file())?;
        let trials = results::load(&self.results_file())?;
        let Sample { viable, unviable, .. } = &self.sample;
        let tally = score::tally(viable, &self.all, &trials, &equivalent);
        print!("{}", tally.report(viable.len(), unviable.len(), &self.all, &equivalent));
        Ok(tally.run() < viable.len() || 100.0 * tally.score(true).0 >= self.arguments.least)
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
        let chosen: Vec<(usize, &Mutant)> = mutants.iter().map(|number| (*number, &self.all[*number])).collect();
        let pieces = copy::update(&self.root, &copy, &self.sources, &chosen)?;
        Crate { folder: &copy, target: &target, jobs: self.arguments.jobs }.refused(&pieces)
    }

    /// Builds the tests with mutants, and runs them with none of these on, unless that was done before.
    fn build(&self, numbers: &[usize]) -> Result<(Binaries, Unmutated)> {
        let (copy, target) = self.krate();
        let chosen: Vec<(usize, &Mutant)> = numbers.iter().map(|number| (*number, &self.all[*number])).collect();
        copy::update(&self.root, &copy, &self.sources, &chosen)?;
        let binaries = Crate { folder: &copy, target: &target, jobs: self.arguments.jobs }.tests()?;
        let mut hasher = crc32fast::Hasher::new();
        for binary in [&binaries.lib, &binaries.it] {
            hasher.update(&std::fs::read(binary).with_context(|| format!("{} cannot be read", binary.display()))?);
        }
        let checksum = hasher.finalize();
        let file = self.folder.join("unmutated.json");
        let before = std::fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str::<Unmutated>(&text).ok());
        if let Some(before) = before.filter(|before| before.binaries == checksum) {
            return Ok((binaries, before));
        }
        eprintln!("the tests run without a mutant first");
        let [lib_seconds, it_seconds] = [self.unmutated(&binaries.lib)?, self.unmutated(&binaries.it)?];
        eprintln!("they pass: {lib_seconds:.1} s for the unit tests, {it_seconds:.1} s for the integration tests");
        let unmutated = Unmutated { binaries: checksum, lib_seconds, it_seconds };
        std::fs::write(&file, serde_json::to_string(&unmutated)?)?;
        Ok((binaries, unmutated))
    }

    fn unmutated(&self, binary: &Path) -> Result<f64> {
        let run = Run { binary, filter: "", mutant: None, limit: Duration::from_secs(3600) };
        match self.place().run(&run)? {
            (End::Passed, taken) => Ok(taken.as_secs_f64()),
            (End::Failed(test), _) => bail!("without a mutant, {} fails: {test}", binary.display()),
            (End::TimedOut, _) => bail!("without a mutant, {} does not end", binary.display()),
        }
    }

    fn place(&self) -> Place {
        Place { copy: self.krate().0, scratch: self.folder.join("temporary") }
    }

    /// Runs the tests with one mutant on: the unit tests of its module, then all of them, then the integration tests that
    /// notice most, then all of them.
    fn try_mutant(&self, number: usize, binaries: &Binaries, unmutated: &Unmutated) -> Result<Trial> {
        let mutant = &self.all[number];
        let limit = |seconds: f64| LEAST_LIMIT + TIMES_UNMUTATED * Duration::from_secs_f64(seconds);
        let (lib, it) = (limit(unmutated.lib_seconds), limit(unmutated.it_seconds));
        let module = module_of(&mutant.file);
        let runs = [
            (&binaries.lib, module.as_str(), lib),
            (&binaries.lib, "", lib),
            (&binaries.it, TELLING, it),
            (&binaries.it, "", it),
        ];
        let start = Instant::now();
        let (mut verdict, mut by) = (Verdict::Survived, String::new());
        for (binary, filter, limit) in runs {
            match self.place().run(&Run { binary, filter, mutant: Some(number), limit })?.0 {
                End::Passed => continue,
                End::Failed(test) => (verdict, by) = (Verdict::Caught, test),
                End::TimedOut => (verdict, by) = (Verdict::TimedOut, format!("the limit of {} s", limit.as_secs())),
            }
            break;
        }
        let seconds = start.elapsed().as_secs_f64();
        let trial = Trial { mutant: mutant.key(), verdict, by, seconds };
        results::add(&self.results_file(), &trial)?;
        let said = match verdict {
            Verdict::Caught => format!("caught by {}", trial.by),
            Verdict::TimedOut => format!("caught by {}", trial.by),
            Verdict::Survived => "SURVIVED".to_owned(),
        };
        eprintln!("{number} {mutant}: {said} ({seconds:.1} s)");
        Ok(trial)
    }
}

/// Returns the beginning of the names of the unit tests of a file's module, which is the part of its layer that it is in:
/// `sim::calendar::` for `src/sim/calendar/queue.rs`.
fn module_of(file: &str) -> String {
    let path = file.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    let parts: Vec<&str> = path.split('/').take(2).collect();
    format!("{}::", parts.join("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_of_a_module_are_those_of_its_part_of_the_layer() {
        assert_eq!(module_of("src/sim/calendar/queue.rs"), "sim::calendar::");
        assert_eq!(module_of("src/sim/calendar/mod.rs"), "sim::calendar::");
        assert_eq!(module_of("src/method/fcf.rs"), "method::fcf::");
        assert_eq!(module_of("src/scenario/mod.rs"), "scenario::");
    }
}
