//! Runs random scenarios over every key of the file. `keys` and `environment` draw values, `rules`
//! makes them fit together, and `files` has the ratings and traces that some of them read.
//!
//! `PROPTEST_CASES=2000 cargo test --release --test it random_scenarios` tries more of them than
//! the usual 100. A failing case prints its scenario file.

/// Sums up the work of devices.
mod device_work;
/// Draws the keys of the simulated world.
mod environment;
mod fault_rules;
/// Holds ratings and traces for the sources that read a file.
mod files;
/// Draws the keys and their values.
mod keys;
/// Draws the keys of methods.
mod methods;
/// Makes keys fit together.
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use fedrecsim_core::{Error, Result, Round};
use fedrecsim_data::dataset;
use fedrecsim_data::population::Traces;
use fedrecsim_methods::registry::{self, METHODS, vocabulary};
use fedrecsim_model::ArchiveReader;
use fedrecsim_scenario::{self as scenario, Mode, Scenario};
use fedrecsim_sim::outcome::RoundRecord;
use fedrecsim_sim::testing::CheckpointsInMemory;
use fedrecsim_sim::{
    self as sim, Checkpoints, Outcome, RunControl, Simulation, Start, Stop, World,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::Value as Json;
use toml::{Table, Value};

use self::device_work::{Watch, assert_energy};
use self::rules::Draft;
use crate::fuzz_case;
use crate::support::{Workshop, assert_balanced, assert_finite};

/// A scenario file; a failing case shows its text.
#[derive(Clone)]
struct File {
    table: Table,
    text: String,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.text)
    }
}

fn any_file() -> impl Strategy<Value = File> {
    let drawn: Vec<_> = keys::keys()
        .into_iter()
        .map(|key| (Just(key.path), Just(key.always), 0..100u32, key.values))
        .collect();
    // Some files leave nearly everything to its default, and some say nearly everything. A key is
    // in a file if it reaches the file's `left_out`, so that shrinking takes keys out.
    let left_out = prop_oneof![Just(98), Just(50), Just(10)];
    (left_out, drawn).prop_map(|(left_out, keys)| {
        let present = keys
            .into_iter()
            .filter(|(_, always, drawn, _)| *always || *drawn >= left_out);
        let values: BTreeMap<_, _> = present.map(|(path, _, _, value)| (path, value)).collect();
        let table = Draft(values).mend().into_table();
        File {
            text: toml::to_string(&table).unwrap(),
            table,
        }
    })
}

/// Collects what a value uses of a scenario's language: `key: type`, or `key = literal` for one of
/// several words.
fn collect_used(
    path: &str,
    value: &Value,
    literals: &BTreeSet<String>,
    used: &mut BTreeSet<String>,
) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                collect_used(&path, value, literals, used);
            }
        }
        Value::String(text) if literals.contains(&format!("{path} = {text}")) => {
            used.insert(format!("{path} = {text}"));
        }
        Value::String(_) => drop(used.insert(format!("{path}: string"))),
        Value::Integer(_) => drop(used.insert(format!("{path}: integer"))),
        Value::Float(_) => drop(used.insert(format!("{path}: number"))),
        Value::Boolean(truth) => drop(used.insert(format!("{path}: boolean {truth}"))),
        Value::Array(items) => {
            used.insert(format!("{path}: array"));
            for item in items.iter().filter(|item| item.is_table()) {
                collect_used(&format!("{path}[]"), item, literals, used);
            }
        }
        Value::Datetime(_) => unreachable!("no key takes a time"),
    }
}

/// Collects what the schema says that a scenario file can use, in the words of [`collect_used`].
fn collect_language(root: &Json, schema: &Json, path: &str, language: &mut BTreeSet<String>) {
    if let Some(target) = schema.get("$ref").and_then(Json::as_str) {
        return collect_language(root, root.pointer(&target[1..]).unwrap(), path, language);
    }
    let choices = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|key| schema.get(*key)?.as_array())
        .flatten();
    let choices: Vec<&Json> = choices.collect();
    if !choices.is_empty() {
        // A word that stands for a table is used where the table is.
        let is_table = |word: &Json| {
            choices
                .iter()
                .any(|choice| choice["properties"][word.as_str().unwrap()].is_object())
        };
        let words = choices.iter().filter(|choice| {
            choice
                .get("const")
                .is_none_or(|word| path == "method" || !is_table(word))
        });
        return words.for_each(|choice| collect_language(root, choice, path, language));
    }
    let literals = schema
        .get("enum")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .chain(schema.get("const"));
    let mut literals = literals.filter_map(Json::as_str).peekable();
    if literals.peek().is_some() {
        return language.extend(literals.map(|literal| format!("{path} = {literal}")));
    }
    match schema["type"]
        .as_str()
        .unwrap_or_else(|| panic!("{path} has no type: {schema}"))
    {
        "object" => {
            for (key, property) in schema
                .get("properties")
                .and_then(Json::as_object)
                .into_iter()
                .flatten()
            {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                collect_language(root, property, &path, language);
            }
        }
        "boolean" => language.extend([true, false].map(|truth| format!("{path}: boolean {truth}"))),
        "array" => {
            language.insert(format!("{path}: array"));
            let reference = schema["items"].get("$ref").and_then(Json::as_str);
            let items = reference.map_or(&schema["items"], |target| {
                root.pointer(&target[1..]).unwrap()
            });
            if items["type"] == "object" {
                collect_language(root, items, &format!("{path}[]"), language);
            }
        }
        name => drop(language.insert(format!("{path}: {name}"))),
    }
}

/// If this fails, a key, or a value of one, was added to scenario files and not to `keys`, so no
/// random scenario has it.
#[test]
fn random_scenarios_use_every_key_and_every_choice() {
    let mut language = BTreeSet::new();
    let schema = scenario::schema(&vocabulary());
    collect_language(&schema, &schema, "", &mut language);
    assert!(
        language.len() > 100 && language.contains("method.fedrap.tables = d-only"),
        "{language:?}"
    );
    let mut runner = TestRunner::deterministic();
    let files = any_file();
    let mut used = BTreeSet::new();
    for _ in 0..5_000 {
        let file = files.new_tree(&mut runner).unwrap().current();
        collect_used("", &Value::Table(file.table), &language, &mut used);
    }
    // What a download leaves out is remembered by nobody, so that this is always a fault.
    language.remove("codec.downlink.error_feedback: boolean true");
    // So is an upload of what the server needs, which nobody asks for.
    language.remove("codec.uplink.select = needed-rows");
    // A file of ratings to predict has no validation part, and the file here has one.
    language.remove("dataset.split.by-column.holds_out = ratings");
    let unused: Vec<_> = language.difference(&used).collect();
    assert!(unused.is_empty(), "never drawn: {unused:#?}");
}

/// Makes the world of a scenario from ratings and traces in the workshop.
fn world_of(workshop: &Workshop, scenario: &Scenario) -> Result<World> {
    let folders = [workshop.path("")];
    // Whom the run cannot serve follows from its method as well.
    let draws = registry::find(METHODS, &scenario.method)?.draws_negatives;
    let dataset = dataset::load_for((scenario, draws), &folders).unwrap();
    let traces = Traces::load(scenario, &dataset, &folders).unwrap();
    let start = Start::load(scenario, &folders)?;
    let runnable = registry::check(scenario.clone(), METHODS)?;
    World::with_start(runnable, Arc::new(dataset), &traces, start)
}

/// Writes the state of the same scenario after a round, with another seed, as what it starts from.
fn write_start(workshop: &Workshop, scenario: &Scenario, name: &Path) -> Result<()> {
    let mut first = scenario.clone();
    first.training.start = None;
    first.seed ^= 1;
    let begun = || Simulation::new(world_of(workshop, &first)?, &RunControl::with_threads(1));
    let mut simulation = begun()?;
    simulation.step()?;
    if simulation.stopped_by().is_some() {
        simulation = begun()?;
    }
    let mut file = std::fs::File::create(workshop.path("").join(name)).unwrap();
    simulation.save(&mut file)
}

/// Runs a scenario on one thread.
fn run(workshop: &Workshop, scenario: &Scenario) -> Outcome {
    run_from(workshop, scenario, Checkpoints::none())
}

/// Runs a scenario, and returns its outcome and what its devices did.
fn watched(workshop: &Workshop, scenario: &Scenario) -> (Outcome, Watch) {
    let mut watch = Watch::default();
    let world = world_of(workshop, scenario).unwrap();
    let outcome = sim::run(world, &RunControl::with_threads(1), &mut watch).unwrap();
    (outcome, watch)
}

fn run_from(workshop: &Workshop, scenario: &Scenario, checkpoints: Checkpoints) -> Outcome {
    let world = world_of(workshop, scenario).unwrap();
    sim::run_from(world, &RunControl::with_threads(1), &mut (), checkpoints).unwrap()
}

/// Returns the round that an error ended a run in.
fn failed_round(error: &Error) -> Option<Round> {
    match error {
        Error::Diverged { round, .. } => Some(*round),
        Error::Singular { round, .. } => *round,
        _ => match error.ended_by()? {
            Stop::TimeOverflow { round, .. }
            | Stop::NobodyFinished { round, .. }
            | Stop::NothingArrives { round, .. }
            | Stop::NobodyAvailable { round, .. } => Some(*round),
            _ => None,
        },
    }
}

/// Checks that a run ends early only because training explodes, links are too slow for any clock or
/// any deadline, or nobody comes, and that it says so.
fn assert_well_ended(outcome: &Outcome, scenario: &Scenario) {
    let waits_for_all = scenario.training.mode == Mode::Synchronous;
    match &outcome.stopped_by {
        // Patience may end a run that becomes no better.
        None if scenario.evaluation.patience.is_some() => assert!(!outcome.rounds.is_empty()),
        None => assert_eq!(outcome.rounds.len(), scenario.training.rounds as usize),
        Some(error) if failed_round(error).is_some() => {
            let round = failed_round(error).unwrap();
            let kept = outcome.rounds.len();
            // Users who take part may have begun in an earlier round.
            let is_kept = if waits_for_all {
                kept == round.0 as usize
            } else {
                kept >= round.0 as usize
            };
            assert!(
                is_kept,
                "{kept} rounds before the one that failed are kept: {:?}",
                outcome.stopped_by
            );
        }
        // Values that grow may leave the range of the codec before they pass the limit of
        // divergence.
        Some(Error::Unrepresentable { place, .. }) => {
            assert!(
                place.starts_with("block `") && place.contains(" of "),
                "{place}"
            );
        }
        // A device that solves for its vector may find only when it scores that a table is too
        // large for this.
        Some(Error::Singular {
            round: None,
            user: Some(_),
            ..
        }) => {}
        // A codec that loses something may leave no rating of those that were sent, or make one of
        // every item.
        Some(Error::Dataset(message))
            if message.contains("graph of users and items has no edges")
                || message.contains("negatives are wanted") => {}
        Some(other) => panic!("stopped by {other:?}"),
    }
    let in_flight = [outcome.bytes.up.in_flight, outcome.bytes.down.in_flight];
    assert!(
        !waits_for_all || outcome.stopped_by.is_some() || in_flight == [0, 0],
        "{in_flight:?} bytes never arrived"
    );
}

/// Checks that every figure of the report is a number, and that its digest and bytes are the
/// outcome's.
fn assert_report(workshop: &Workshop, outcome: &Outcome) {
    let json = workshop.run_json();
    assert_eq!(json["digest"], outcome.digest);
    assert_eq!(json["bytes"], serde_json::to_value(outcome.bytes).unwrap());
    assert_eq!(json["complete"], outcome.stopped_by.is_none());
    assert_no_null("run.json", &json);
    let rows = workshop.rounds_csv();
    assert_eq!(rows.len(), outcome.rounds.len());
    for cell in rows.iter().flatten().filter(|cell| !cell.is_empty()) {
        assert!(
            cell.parse::<f64>().is_ok_and(f64::is_finite),
            "{cell:?} in rounds.csv"
        );
    }
    let mut summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    // A NaN may well be what stopped a run.
    if let Some(error) = &outcome.stopped_by {
        summary = summary.replace(&error.to_string(), "");
    }
    let word = summary
        .split(|c: char| !c.is_ascii_alphanumeric())
        .find(|word| ["NaN", "inf"].contains(word));
    assert_eq!(word, None, "{summary}");
}

/// Checks that there is no `null`, which JSON makes of NaN, except at the known places of what was
/// not measured.
fn assert_no_null(path: &str, json: &Json) {
    const OPTIONAL: [&str; 18] = [
        "audit.linked",
        "audit.outer_product",
        "policy.deadline_ns",
        "privacy.epsilon",
        "privacy.delta",
        "privacy.adjacency",
        "privacy.trust",
        "privacy.sampling",
        "privacy.no_epsilon",
        "inference_bytes",
        "loss",
        "accuracy",
        "sparsity",
        "beyond_accuracy.history_long_tail_share",
        "popularity_deviation",
        "selected_round",
        "stopped_by",
        "peak_rss_bytes",
    ];
    match json {
        Json::Null => assert!(
            OPTIONAL.iter().any(|key| path.ends_with(key)),
            "{path} is null"
        ),
        Json::Object(object) => object
            .iter()
            .for_each(|(key, inner)| assert_no_null(&format!("{path}.{key}"), inner)),
        Json::Array(items) => items
            .iter()
            .for_each(|inner| assert_no_null(&format!("{path}[]"), inner)),
        _ => {}
    }
}

/// Returns the scenario of a file, and a workshop with all that it reads; `None` if nobody could
/// take part.
fn prepare(file: &File) -> Option<(Workshop, Scenario)> {
    let scenario =
        fuzz_case::scenario::check(file.text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let workshop = Workshop::new();
    if let Some((name, ratings)) = files::ratings(&scenario.dataset) {
        let path = scenario
            .dataset
            .path
            .as_ref()
            .map_or(workshop.path(name), |path| {
                workshop.path(path.to_str().unwrap())
            });
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, ratings).unwrap();
    }
    workshop.write(files::CARBON, &files::carbon());
    for (name, trace) in files::TRACES {
        workshop.write(name, trace);
    }
    let start = scenario.training.start.as_ref();
    let written = start.map_or(Ok(()), |name| write_start(&workshop, &scenario, name));
    match written.and_then(|()| world_of(&workshop, &scenario)) {
        // Some of the devices that are drawn are too small for the method.
        Err(Error::Usage(message)) if message.contains("the memory") => return None,
        // If there are few generated ratings, all of them may be equal.
        Err(Error::Dataset(message)) if message.contains("all of them are alike") => return None,
        // Whether an item can come later depends on the ratings.
        Err(Error::Usage(message)) if message.starts_with("joins.items") => return None,
        world => drop(world.unwrap()),
    }
    Some((workshop, scenario))
}

fn check(file: &File) {
    let Some((workshop, scenario)) = prepare(file) else {
        return;
    };
    let (outcome, watch) = watched(&workshop, &scenario);
    assert_well_ended(&outcome, &scenario);
    assert_balanced(&outcome);
    assert_finite(&outcome);

    let store = CheckpointsInMemory::default();
    let again = run_from(
        &workshop,
        &scenario,
        Checkpoints {
            resumed: None,
            store: Box::new(store.clone()),
        },
    );
    assert_eq!(again.digest, outcome.digest, "repeated");
    assert_eq!(
        (&again.rounds, &again.model),
        (&outcome.rounds, &outcome.model),
        "repeated"
    );

    let left = store.complete();
    if !left.is_empty() {
        // The digest picks one of them, which is as good as a random one, and the same when the
        // case is tried again.
        let one = left[outcome.digest.bytes().map(usize::from).sum::<usize>() % left.len()].clone();
        let resumed = Some(ArchiveReader::new(Box::new(Cursor::new(one))));
        let resumed = run_from(
            &workshop,
            &scenario,
            Checkpoints {
                resumed,
                store: Box::new(()),
            },
        );
        assert_eq!(resumed.digest, outcome.digest, "resumed");
        assert_eq!(
            (&resumed.rounds, &resumed.model),
            (&outcome.rounds, &outcome.model),
            "resumed"
        );
        assert_eq!(
            (&resumed.bytes, &resumed.durations),
            (&outcome.bytes, &outcome.durations),
            "resumed"
        );
        let reason = |outcome: &Outcome| outcome.stopped_by.as_ref().map(ToString::to_string);
        assert_eq!(reason(&resumed), reason(&outcome), "resumed");
    }

    let scenario_file = workshop.write("random.toml", &file.text);
    let arguments = workshop.input("run", &scenario_file, &[]);
    let arguments = arguments.and(&["--threads", "3", "--json", "--progress", "off", "--out"]);
    let finished = arguments.path(&workshop.report()).carry_out().unwrap();
    let reason = |error: Option<&Error>| error.map(ToString::to_string);
    match outcome.learned_nothing {
        true => assert!(
            matches!(&finished.errors[..], [error] if matches!(error.ended_by(), Some(Stop::NothingLearned { .. }))),
            "{:?}",
            finished.errors
        ),
        false => assert_eq!(
            reason(finished.errors.first()),
            reason(outcome.stopped_by.as_ref()),
            "with 3 threads"
        ),
    }
    assert_report(&workshop, &outcome);
    assert_energy(&workshop, &scenario, &watch);
}

/// Returns what became of bytes, of participations and of the run, by name.
fn fates(outcome: &Outcome) -> BTreeMap<&'static str, bool> {
    let (up, down) = (outcome.bytes.up, outcome.bytes.down);
    let any = |of: fn(&RoundRecord) -> bool| outcome.rounds.iter().any(of);
    let stopped = |by: fn(&Error) -> bool| outcome.stopped_by.as_ref().is_some_and(by);
    BTreeMap::from([
        ("lost downloads", down.lost > 0),
        ("lost uploads", up.lost > 0),
        ("cancelled downloads", down.cancelled > 0),
        ("cancelled uploads", up.cancelled > 0),
        ("downloads on their way", down.in_flight > 0),
        ("uploads on their way", up.in_flight > 0),
        ("late uploads", up.late > 0),
        ("stale uploads", up.stale > 0),
        (
            "an empty round and one that is not",
            any(|round| round.aggregated > 0) && any(|round| round.aggregated == 0),
        ),
        (
            "a round of a part of its cohort",
            any(|round| (1..round.invited).contains(&round.aggregated)),
        ),
        (
            "a round of more than its cohort",
            any(|round| round.aggregated > round.invited),
        ),
        (
            "nobody finishes",
            stopped(|error| matches!(error.ended_by(), Some(Stop::NobodyFinished { .. }))),
        ),
        (
            "nothing arrives",
            stopped(|error| matches!(error.ended_by(), Some(Stop::NothingArrives { .. }))),
        ),
        (
            "nobody comes",
            stopped(|error| matches!(error.ended_by(), Some(Stop::NobodyAvailable { .. }))),
        ),
        (
            "training explodes",
            stopped(|error| matches!(error, Error::Diverged { .. })),
        ),
    ])
}

/// If this fails, values are drawn in such a way that something which can happen to a run never
/// does.
#[test]
fn random_scenarios_meet_every_fate() {
    let mut runner = TestRunner::deterministic();
    let files = any_file();
    let mut met: BTreeMap<&str, u32> = BTreeMap::new();
    for case in 0..1200 {
        // A rare fate may take many scenarios, and most need few.
        if case >= 300 && met.values().all(|times| *times > 0) {
            break;
        }
        let Some((workshop, scenario)) = prepare(&files.new_tree(&mut runner).unwrap().current())
        else {
            continue;
        };
        for (fate, is_met) in fates(&run(&workshop, &scenario)) {
            *met.entry(fate).or_default() += u32::from(is_met);
        }
    }
    assert!(met.values().all(|times| *times > 0), "never met: {met:#?}");
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(100)
}

proptest! {
    // Persistence would write files beside the sources.
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// If this fails, some combination of settings breaks determinism or the ledger, or gives a
    /// figure that is no number.
    #[test]
    fn any_scenario_runs_balances_repeats_itself_and_is_finite(file in any_file()) {
        check(&file);
    }
}
