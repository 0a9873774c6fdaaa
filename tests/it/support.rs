use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fedrecsim::cli::{self, Finished, Session};
use fedrecsim_core::{Error, Result, Streams};
use fedrecsim_data::dataset::{self, Dataset};
use fedrecsim_data::population::Traces;
use fedrecsim_methods::Entry;
use fedrecsim_methods::registry::{METHODS, check, vocabulary_of};
use fedrecsim_scenario::{self as scenario, Scenario};
use fedrecsim_sim::outcome::{ByDirection, Flow, RoundRecord};
use fedrecsim_sim::testing::{check_balance, check_figures, parameters_for_few_users};
use fedrecsim_sim::{self as sim, Outcome, RoundObserver, RunControl, Start, World};
use serde_json::Value;
use tempfile::TempDir;

use crate::{fedbpr, item_mean, trimmed_mean};

/// A scenario that trains in milliseconds, without variance of devices or links and without
/// dropout.
pub const SMALL: &str = r#"
seed = 3

[method.fedrap]
latent_dimension = 8
learning_rate_tables = 10

[dataset]
name = "generated"

[dataset.generator]
users = 40
items = 150
ratings_per_user = 12

[training]
rounds = 3

[codec]
uplink = "dense-f32"

[evaluation]
ranking.sampled.candidates = 20
"#;

/// Returns every method of the crate, and those of the examples.
pub fn methods() -> Vec<Entry> {
    let examples = [fedbpr::ENTRY, item_mean::ENTRY, trimmed_mean::ENTRY];
    [METHODS, &examples].concat()
}

/// Returns the small scenario with these keys replaced.
pub fn small(overrides: &[&str]) -> Scenario {
    parse(SMALL, overrides)
}

/// Returns the small scenario with another method and these keys replaced. The method has its
/// defaults, except for those of [`parameters_for_few_users`].
pub fn small_with(method: &str, overrides: &[&str]) -> Scenario {
    let parameters = parameters_for_few_users(method);
    let method = format!("method={{ {method} = {parameters} }}");
    small(&[&[method.as_str()], overrides].concat())
}

/// Returns the same with a split that holds ratings out, and hence without candidates.
pub fn small_of_ratings(method: &str, overrides: &[&str]) -> Scenario {
    let method = format!("method=\"{method}\"");
    parse(
        &ratings_of_small(),
        &[&[method.as_str()], overrides].concat(),
    )
}

fn ratings_of_small() -> String {
    SMALL.replace(
        "[evaluation]\nranking.sampled.candidates = 20\n",
        "[dataset.split.k-fold]\n",
    )
}

/// Returns the scenario in `text`, which must be a sound one.
pub fn parse(text: &str, overrides: &[&str]) -> Scenario {
    let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
    scenario::parse(text, "small.toml", &overrides, &vocabulary_of(&methods()))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the path of a file of this repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the scenario in a file of this repository.
pub fn load(path: &str, overrides: &[&str]) -> Scenario {
    let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
    scenario::load(&repository(path), &overrides, &vocabulary_of(METHODS))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the world of a scenario on generated ratings.
pub fn world(scenario: Scenario) -> World {
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed)).unwrap();
    world_over(scenario, dataset)
}

/// Returns the world of a scenario over these ratings, with what it starts from.
pub fn world_over(scenario: Scenario, dataset: Dataset) -> World {
    try_world_over(scenario, dataset).unwrap()
}

/// Returns the world as [`world_over`], or why there is none.
pub fn try_world_over(scenario: Scenario, dataset: Dataset) -> Result<World> {
    let start = Start::load(&scenario, &[]).unwrap();
    let runnable = check(scenario, &methods()).unwrap();
    World::with_start(runnable, Arc::new(dataset), &Traces::default(), start)
}

/// Runs a scenario on generated ratings to its end.
pub fn run(scenario: Scenario, threads: usize) -> Outcome {
    let outcome = sim::run(world(scenario), &RunControl::with_threads(threads), &mut ()).unwrap();
    assert!(outcome.stopped_by.is_none(), "{:?}", outcome.stopped_by);
    outcome
}

/// Sets `flag` when round `after` (from 1) is over.
pub struct InterruptAfter {
    pub after: u32,
    pub flag: Arc<AtomicBool>,
}

impl RoundObserver for InterruptAfter {
    fn round_finished(&mut self, round: &RoundRecord, _total: ByDirection<Flow>) {
        if round.round == self.after {
            self.flag.store(true, Ordering::Relaxed);
        }
    }
}

/// A folder with scenario files, ratings and reports of one test.
pub struct Workshop {
    folder: TempDir,
}

impl Workshop {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes the small scenario to a file, and returns its path.
    pub fn small(&self) -> PathBuf {
        self.write("small.toml", SMALL)
    }

    /// Writes the scenario of [`small_of_ratings`] to a file, and returns its path.
    pub fn small_of_ratings(&self) -> PathBuf {
        self.write("small.toml", &ratings_of_small())
    }

    /// Returns the report folder of the test's run.
    pub fn report(&self) -> PathBuf {
        self.path("report")
    }

    /// Returns the words of a command that runs `scenario`.
    pub fn input(&self, command: &str, scenario: &Path, overrides: &[&str]) -> Words {
        let set = overrides.iter().flat_map(|text| ["--set", text]);
        Words::new(&[command])
            .path(scenario)
            .and(&set.collect::<Vec<_>>())
            .and(&["--data-dir"])
            .path(self.folder.path())
    }

    /// Returns the words of a quiet `run` of `scenario` on two threads, with its report in `out`.
    pub fn arguments_to(&self, out: &Path, scenario: &Path, overrides: &[&str]) -> Words {
        self.input("run", scenario, overrides)
            .and(&["--threads", "2", "--json", "--progress", "off", "--out"])
            .path(out)
    }

    /// Returns the same with the report in [`Self::report`].
    pub fn arguments(&self, scenario: PathBuf, overrides: &[&str]) -> Words {
        self.arguments_to(&self.report(), &scenario, overrides)
    }

    /// Runs `scenario` as the command does.
    pub fn run(&self, scenario: PathBuf, overrides: &[&str]) -> Result<Finished> {
        self.arguments(scenario, overrides).carry_out()
    }

    /// Checks that `scenario` is refused: the exit code is 2, no report folder is left, and the
    /// message has every one of `parts`.
    pub fn refused(&self, scenario: PathBuf, overrides: &[&str], parts: &[&str]) {
        let error = self.run(scenario, overrides).expect_err("it ran");
        assert_refusal(&error, parts);
        assert!(
            !self.report().exists(),
            "a refused run left a report folder"
        );
    }

    /// Returns `run.json` of the report.
    pub fn run_json(&self) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.report().join("run.json")).unwrap())
            .unwrap()
    }

    /// Returns the rows of `rounds.csv`, without its header.
    pub fn rounds_csv(&self) -> Vec<csv::StringRecord> {
        let mut reader = csv::Reader::from_path(self.report().join("rounds.csv")).unwrap();
        reader.records().collect::<csv::Result<_>>().unwrap()
    }
}

/// The words of a command, after the name of the program.
#[derive(Clone)]
pub struct Words(Vec<OsString>);

impl Words {
    pub fn new(words: &[&str]) -> Self {
        Self(words.iter().map(OsString::from).collect())
    }

    /// Returns these words and more.
    pub fn and(&self, words: &[&str]) -> Self {
        Self([&self.0[..], &Self::new(words).0].concat())
    }

    /// Returns these words and a path.
    pub fn path(&self, path: &Path) -> Self {
        Self([&self.0[..], &[path.into()]].concat())
    }

    /// Carries out the command in this process, with the methods of [`methods`].
    pub fn carry_out(&self) -> Result<Finished> {
        self.carry_out_in(&Session::new(&methods()))
    }

    pub fn carry_out_in(&self, session: &Session) -> Result<Finished> {
        cli::carry_out(&self.0, session)
    }
}

/// Checks that the error refuses an input, and says `parts`.
pub fn assert_refusal(error: &Error, parts: &[&str]) {
    let message = error.to_string();
    assert_eq!(error.exit_code(), 2, "{message}");
    for part in parts {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
}

/// Asserts that a file, which tells of single users, can be read by its owner alone.
#[track_caller]
pub fn assert_hidden(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "others read {}: {mode:o}", path.display());
    }
}

/// Checks that every byte of the outcome is accounted for, in every round and in all, and that the
/// rounds add up to the total.
#[track_caller]
pub fn assert_balanced(outcome: &Outcome) {
    check_balance(outcome).unwrap_or_else(|reason| panic!("{reason}"));
}

/// Checks that no figure of the outcome is NaN or infinite, and that accuracies are shares.
#[track_caller]
pub fn assert_finite(outcome: &Outcome) {
    check_figures(outcome).unwrap_or_else(|reason| panic!("{reason}"));
}

/// Returns test HR@10 after the last round.
pub fn final_hr(outcome: &Outcome) -> f64 {
    outcome
        .rounds
        .last()
        .unwrap()
        .accuracy
        .as_ref()
        .unwrap()
        .test["hr@10"]
}
