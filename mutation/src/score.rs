//! The mutation score, its interval, and what is left to do.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::mutant::Mutant;
use crate::results::{Trial, Verdict};

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Mutants that change nothing that could be observed, by [`Mutant::name`], with the reasons.
pub type Equivalent = BTreeMap<String, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EquivalentFile {
    #[serde(default)]
    equivalent: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    mutant: String,
    reason: String,
}

/// How many mutants of a sample were noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Mutants that a test noticed, those that ran into the time limit among them.
    pub caught: usize,
    /// Mutants that ran into the time limit.
    pub timed_out: usize,
    /// Mutants that no test noticed, by number.
    pub survivors: Vec<usize>,
    /// Those of them that change nothing that could be observed.
    pub equivalent: Vec<usize>,
    /// Mutants that no test has noticed so far, and for which not all tests have run.
    pub waiting: usize,
}

/// Reads the list of equivalent mutants.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or if an entry has no reason.
pub fn equivalent(file: &Path) -> Result<Equivalent> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{} cannot be read", file.display()))?;
    let read: EquivalentFile =
        toml::from_str(&text).with_context(|| format!("{} is wrong", file.display()))?;
    for entry in &read.equivalent {
        anyhow::ensure!(
            !entry.reason.trim().is_empty(),
            "{}: {} has no reason",
            file.display(),
            entry.mutant
        );
    }
    Ok(read
        .equivalent
        .into_iter()
        .map(|entry| (entry.mutant, entry.reason))
        .collect())
}

/// Counts what became of the mutants of a sample, as far as they were run.
pub fn tally(
    sample: &[usize],
    all: &[Mutant],
    trials: &BTreeMap<String, Trial>,
    equivalent: &Equivalent,
) -> Tally {
    let mut tally = Tally::default();
    for &number in sample {
        let mutant = &all[number];
        match trials.get(&mutant.key()).map(|trial| trial.verdict) {
            None => {}
            Some(Verdict::Waiting) => tally.waiting += 1,
            Some(Verdict::Caught) => tally.caught += 1,
            Some(Verdict::TimedOut) => {
                tally.caught += 1;
                tally.timed_out += 1;
            }
            Some(Verdict::Survived) => {
                tally.survivors.push(number);
                if equivalent.contains_key(&mutant.name()) {
                    tally.equivalent.push(number);
                }
            }
        }
    }
    tally
}

impl Tally {
    /// Returns how many mutants were run, to the end or in part.
    pub fn run(&self) -> usize {
        self.caught + self.survivors.len() + self.waiting
    }

    /// Returns whether every mutant of a sample of this size was run to the end.
    pub fn is_complete(&self, size: usize) -> bool {
        self.run() == size && self.waiting == 0
    }

    /// Returns the share of mutants that were noticed, and its 95 % interval: of all that were run,
    /// or of those that are not equivalent. Those that wait for further tests count as not noticed.
    pub fn score(&self, without_equivalent: bool) -> (f64, (f64, f64)) {
        let out_of = self.run()
            - if without_equivalent {
                self.equivalent.len()
            } else {
                0
            };
        (
            self.caught as f64 / out_of as f64,
            wilson(self.caught, out_of),
        )
    }

    /// Returns the score and the survivors as text.
    pub fn report(
        &self,
        size: usize,
        unviable: usize,
        all: &[Mutant],
        equivalent: &Equivalent,
    ) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{} of {size} mutants have run, drawn from {}; {unviable} more were drawn and do not compile.",
            self.run(),
            all.len()
        );
        let _ = writeln!(
            text,
            "{} were noticed ({} of them by the time limit), {} were not, of which {} are listed as equivalent.",
            self.caught,
            self.timed_out,
            self.survivors.len(),
            self.equivalent.len()
        );
        if self.waiting > 0 {
            let _ = writeln!(
                text,
                "{} wait for further tests. They count as not noticed below, so that the score can only rise.",
                self.waiting
            );
        }
        if self.run() > 0 {
            for (of, without_equivalent) in [("all of them", false), ("those not equivalent", true)]
            {
                let (score, (low, high)) = self.score(without_equivalent);
                let [score, low, high] = [score, low, high].map(|share| 100.0 * share);
                let _ = writeln!(
                    text,
                    "Mutation score of {of}: {score:.1} % (95 % interval {low:.1} to {high:.1} %)"
                );
            }
        }
        for &number in &self.survivors {
            let mutant = &all[number];
            let _ = match equivalent.get(&mutant.name()) {
                Some(reason) => writeln!(text, "equivalent {number}: {mutant}\n    {reason}"),
                None => writeln!(text, "survivor {number}: {mutant}"),
            };
        }
        text
    }
}

/// Returns Wilson's 95 % interval of a probability, of which `successes` of `trials` were seen
/// (Wilson 1927).
fn wilson(successes: usize, trials: usize) -> (f64, f64) {
    let (n, share) = (trials as f64, successes as f64 / trials as f64);
    let centre = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    ((centre - half) / scale, (centre + half) / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    #[test]
    fn the_interval_is_that_of_wilson() {
        // Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
        for (successes, trials, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let found = wilson(successes, trials);
            assert!(
                (found.0 - low).abs() < 5e-5 && (found.1 - high).abs() < 5e-5,
                "{successes}/{trials}: {found:?}"
            );
        }
    }

    #[test]
    fn survivors_are_named_and_equivalent_ones_counted_both_ways() {
        let all = find::mutants("src/x.rs", "fn f() { a + b; c < d; }").unwrap();
        assert_eq!(all.len(), 6);
        let verdicts = [
            Verdict::Caught,
            Verdict::TimedOut,
            Verdict::Survived,
            Verdict::Caught,
            Verdict::Survived,
        ];
        let trials = all.iter().zip(verdicts).map(|(mutant, verdict)| {
            (
                mutant.key(),
                Trial {
                    mutant: mutant.key(),
                    verdict,
                    by: String::new(),
                    passed: 0,
                    seconds: 0.0,
                },
            )
        });
        let trials: BTreeMap<String, Trial> = trials.collect();
        let equivalent = Equivalent::from([(all[2].name(), "It is the same.".to_owned())]);
        let sample: Vec<usize> = (0..6).collect();
        let tally = tally(&sample, &all, &trials, &equivalent);
        assert_eq!(
            tally,
            Tally {
                caught: 3,
                timed_out: 1,
                survivors: vec![2, 4],
                equivalent: vec![2],
                waiting: 0
            }
        );
        assert!(!tally.is_complete(6) && tally.is_complete(5));
        assert_eq!(tally.score(false).0, 0.6);
        assert_eq!(tally.score(true).0, 0.75);
        let report = tally.report(6, 4, &all, &equivalent);
        for part in [
            "5 of 6 mutants",
            "4 more were drawn",
            "60.0 %",
            "75.0 %",
            "equivalent 2",
            "It is the same.",
            "survivor 4: src/x.rs:1",
        ] {
            assert!(report.contains(part), "{part} is not in:\n{report}");
        }
    }

    #[test]
    fn who_waits_for_further_tests_is_not_noticed_yet() {
        let tally = Tally {
            caught: 3,
            waiting: 1,
            ..Tally::default()
        };
        assert_eq!(tally.score(false).0, 0.75);
        assert!(!tally.is_complete(4));
        assert!(
            tally
                .report(4, 0, &[], &Equivalent::new())
                .contains("1 wait for further tests")
        );
    }

    #[test]
    fn an_equivalent_mutant_needs_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("equivalent.toml");
        std::fs::write(&file, "[[equivalent]]\nmutant = \"a\"\nreason = \" \"\n").unwrap();
        assert!(
            equivalent(&file)
                .unwrap_err()
                .to_string()
                .contains("a has no reason")
        );
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("equivalent.toml");
        assert!(equivalent(&committed).is_ok());
    }
}
