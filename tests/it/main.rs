//! The integration tests: one binary, one module per behaviour.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

/// Scenarios and ratings that cannot be used are refused by name, line or user, with exit code 2.
mod bad_input;
/// What was sent is what arrived, was lost, or is on its way; dense frames have the size that their shape says.
mod bytes;
/// Every method learns what has an obvious answer.
mod checkerboard;
/// Runs leave checkpoints, and `resume` goes on from them; whatever is wrong with one is said.
mod checkpoints;
/// Promises that every registered method keeps.
mod contract_suite;
/// Runs that are killed, or find no room, go on where they left a checkpoint and leave nothing half written.
#[cfg(unix)]
mod crashes;
/// The result depends on the scenario and the seed, and on nothing else.
mod determinism;
/// A run that explodes names the round and the parameter and keeps the rounds before.
mod divergence;
/// A participation that is cut off leaves the device as it was at that instant.
mod dropout;
/// The event log tells what the report tells, and a replay the state at an instant.
mod events;
/// What rules spoil, and who leaves in the middle: what arrives, what is lost, and what a device keeps.
mod faults;
/// No file is too long to be read in one go.
mod file_sizes;
/// What the fuzz targets check of one input.
mod fuzz_case;
/// Inputs that fuzzing has found are still handled as they were.
mod fuzz_replay;
/// What a source file imports, read from its text.
mod import_paths;
/// Ctrl-C and SIGTERM leave a report of the finished rounds.
mod interruption;
/// The documented example of a method, compiled here as it stands.
#[allow(dead_code)]
#[path = "../../examples/item_mean.rs"]
mod item_mean;
/// `--json` prints what `run.json` says, and nothing else.
mod json_output;
/// A fold of a random division is tested: errors of ratings beside those of means.
mod k_fold;
/// Imports of `src/` point one way.
mod layers;
/// FedRAP's ablations, and what the negatives' pool is worth.
mod learning;
/// Which figures of accuracy there are is the scenario's choice, and so is the one that counts.
mod metrics;
/// `--save-model` leaves the parameters that the run ended with.
mod model_file;
/// Modes that come to the same thing come to the same result, and their steps are what their authors wrote.
mod modes;
/// The report folder is claimed before anything else happens.
mod output_folder;
/// A method is one file and a line where methods are listed, in this crate as in a program of one's own.
mod own_method;
/// A policy of a program's own runs as it says.
mod own_policy;
/// Training replays the recordings of the authors' code.
mod parity;
/// Each mode still computes what it computed when its digest was pinned.
mod pinned_digests;
/// Random small scenarios keep the contracts.
mod random_scenarios;
/// The public data sets, where they are at hand.
mod real_data;
/// A run that goes on from a checkpoint ends as if it had never been stopped.
mod resume;
/// Every scenario file, and every command that the documentation shows, works.
mod scenario_files;
/// What no method of the crate needs yet works all the same: codecs that lose something, mechanisms of privacy, methods
/// that run at the server.
mod seams;
/// A simulation that is driven step by step comes to what a whole run comes to.
mod simulation;
/// A round of many steps is these steps, recorded once.
mod steps;
/// What the modules share: small scenarios, and ways to run them.
mod support;
/// Where a formula knows how long something takes, it takes so long.
mod theory;
/// The documented example of a server rule, compiled here as it stands.
#[allow(dead_code)]
#[path = "../../examples/trimmed_mean.rs"]
mod trimmed_mean;
/// A round takes the virtual time that latency, rates and work add up to.
mod virtual_time;
