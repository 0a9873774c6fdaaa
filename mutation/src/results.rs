//! What became of each mutant, on the disk, so that a part that is stopped goes on where it was.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The mutant's key, see [`Mutant::key`](crate::mutant::Mutant::key).
    pub mutant: String,
    /// What the tests said of it.
    pub verdict: Verdict,
    /// The test that noticed it, or how the tests ended; empty for a survivor.
    pub by: String,
    /// The number of stages that it has passed without being noticed.
    #[serde(default)]
    pub passed: usize,
    /// How long the tests of the last stage ran, in seconds.
    pub seconds: f64,
}

/// What the tests said of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A test failed.
    Caught,
    /// The tests ran into the time limit.
    TimedOut,
    /// No test has failed so far, and not all have run.
    Waiting,
    /// All tests passed.
    Survived,
}

/// Reads all results; the last one counts of those of one mutant. There are none if there is no
/// file.
///
/// # Errors
///
/// Returns an error if a line of the file is no result. The last line may be cut off, by the end of
/// the program.
pub fn load(file: &Path) -> Result<BTreeMap<String, Trial>> {
    let mut trials = BTreeMap::new();
    let text = if file.exists() {
        fs::read_to_string(file)?
    } else {
        String::new()
    };
    for (place, line) in text
        .split_inclusive('\n')
        .enumerate()
        .filter(|(_, line)| line.ends_with('\n'))
    {
        let trial: Trial = serde_json::from_str(line)
            .with_context(|| format!("{}:{}", file.display(), place + 1))?;
        trials.insert(trial.mutant.clone(), trial);
    }
    Ok(trials)
}

/// Adds a result to the file.
///
/// # Errors
///
/// Returns an error if the file cannot be written.
pub fn add(file: &Path, trial: &Trial) -> Result<()> {
    let mut open = OpenOptions::new().create(true).append(true).open(file)?;
    open.write_all(format!("{}\n", serde_json::to_string(trial)?).as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_result_of_a_mutant_counts_and_a_line_that_is_cut_off_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.jsonl");
        assert!(load(&file).unwrap().is_empty());
        let trial = |mutant: &str, verdict| Trial {
            mutant: mutant.to_owned(),
            verdict,
            by: String::new(),
            passed: 0,
            seconds: 1.5,
        };
        add(&file, &trial("a", Verdict::Survived)).unwrap();
        add(&file, &trial("b", Verdict::TimedOut)).unwrap();
        add(&file, &trial("a", Verdict::Caught)).unwrap();
        OpenOptions::new()
            .append(true)
            .open(&file)
            .unwrap()
            .write_all(b"{\"mut")
            .unwrap();
        let trials = load(&file).unwrap();
        assert_eq!(trials.len(), 2);
        assert_eq!(trials["a"], trial("a", Verdict::Caught));
        fs::write(&file, "nonsense\n").unwrap();
        assert!(
            load(&file)
                .unwrap_err()
                .to_string()
                .ends_with("results.jsonl:1")
        );
    }
}
