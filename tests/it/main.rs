//! Holds the integration tests: one binary, with one module per behaviour.
// Nothing outside reaches a test, and the examples are compiled here as they stand.
#![allow(unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

/// Under the controls of `training.aggregation`, devices train alone or the server takes the mean.
mod aggregation;
/// A probe finds in uploads what is known of methods and codecs, and changes nothing.
mod audit;
/// Scenarios and ratings that cannot be used are refused by name, line or user, with exit code 2.
mod bad_input;
/// What lists of items are like is what their definitions say of the lists that users would be shown.
mod beyond_accuracy;
/// An entry of the board is repeated, and what has moved is named; the page is that of what was noted.
mod board;
/// Every byte that was sent arrives, is lost, or is on its way; dense frames have the size that
/// their shape says.
mod bytes;
/// Every method learns ratings with an obvious pattern.
mod checkerboard;
/// Runs leave checkpoints, and `resume` goes on from them; a message says what is wrong with a bad
/// one.
mod checkpoints;
/// Scripts can expect a digest, run without a report, compare two reports, and repeat a run.
mod ci_kit;
/// Pictures in committed reports that no run draws are those of the code.
mod committed_pictures;
/// Codecs that a scenario composes run with every method and in every mode, and those that make no
/// sense are refused.
mod compositions;
/// A method that breaks a clause of the contract is told which one, and what was seen.
mod contract_breaches;
/// Every registered method keeps the promises of all methods.
mod contract_suite;
/// Runs that are killed, or have no room on the disk, go on from a checkpoint and leave nothing
/// half written.
#[cfg(unix)]
mod crashes;
/// Processes that are killed in a run over sockets find together again.
#[cfg(unix)]
mod deploy;
/// The result depends on the scenario and the seed, and on nothing else.
mod determinism;
/// A deadline costs accuracy where users of slow devices have tastes of their own.
mod device_correlation;
/// A run that explodes names the round and the parameter and keeps the rounds before.
mod divergence;
/// A participation that is cut off leaves the device as it was at that instant.
mod dropout;
/// The event log tells what the report tells, and a replay the state at an instant.
mod estimates;
mod events;
/// Rounds are added to a run that is complete.
mod extension;
/// The documented example of a codec, with its test.
#[allow(dead_code)]
#[path = "../../examples/farthest_rows.rs"]
mod farthest_rows;
/// Transfers that a rule spoils, and users who leave: what arrives, what is lost, and what a device
/// keeps is right.
mod faults;
/// The documented example of a method in a crate of its own, with its test.
#[allow(dead_code)]
#[path = "../../examples/fedbpr/src/main.rs"]
mod fedbpr;
/// The program that draws FedRAP's curricula, compiled here as it stands.
#[allow(dead_code)]
#[path = "../../examples/fedrap_curricula.rs"]
mod fedrap_curricula;
/// The program that draws FedRec's errors by rho, compiled here as it stands.
#[allow(dead_code)]
#[path = "../../examples/fedrec_by_rho.rs"]
mod fedrec_by_rho;
/// What the fuzz targets check for one input.
mod fuzz_case;
/// Inputs that fuzzing has found are still handled as they were.
mod fuzz_replay;
/// A split by time trains on the past alone, and tests whom the scenario says.
mod global_time;
/// The interactive page of a report opens in a browser without an error, and shows what the report
/// says.
mod html_pages;
/// Reads from the text of a source file what it imports.
mod import_paths;
/// Ctrl-C, SIGTERM and SIGHUP leave a report of the finished rounds.
mod interruption;
/// The documented example of a method, compiled here as it stands.
#[allow(dead_code)]
#[path = "../../examples/item_mean.rs"]
mod item_mean;
/// Users who come in the course of a run are unknown until then, and scored as new.
mod joins;
/// `--json` prints what `run.json` says, and nothing else.
mod json_output;
/// A run of k-fold tests one part of a random division, and reports its errors beside those of the
/// means.
mod k_fold;
/// Imports of `src/` point one way.
mod layers;
/// Training that knows what is held out is found out.
mod leak_test;
/// FedRAP's ablations have their effects, and so has the pool of negatives.
mod learning;
/// Rates of links that a file states, and that change during transfers.
mod link_traces;
/// Lost participations are counted by cause, and the causes add up.
mod losses;
/// Ratings files as people have them: what is warned of, left out and refused.
mod messy_files;
/// The scenario chooses the figures of accuracy and the one that rounds are judged by.
mod metrics;
/// `--save-model` leaves the parameters that the run ended with.
mod model_file;
/// Modes that mean the same give the same result, and their steps are those that their authors
/// describe.
mod modes;
/// The program in several processes, which mpirun has started, comes to one result, and survives
/// what becomes of them.
mod mpi;
/// Users and items go by the names of the ratings file wherever a person reads or writes them.
mod names;
/// Clients that download the rows that they need learn the same for fewer bytes.
mod needed_rows;
/// The rule that nobody is heard twice in a row is kept, or refused where it cannot be.
mod never_twice;
/// Items that come in the course of a run are unknown until then, and learned afterwards.
mod new_items;
/// A run that ends without one update that was used says so, and its exit code is that of a
/// failure.
mod nothing_learned;
/// The report folder is claimed before anything else happens.
mod output_folder;
mod overheads;
/// A method takes one file and a line where methods are listed, in this crate and in another
/// program.
mod own_method;
/// A policy that a program defines itself runs as it says.
mod own_policy;
/// A page of the documents shows what the program prints, and code that is compiled here.
#[cfg(unix)]
mod pages;
/// Training replays the recordings of the authors' code.
mod parity;
/// Users can be shown, drawn and scored with the item tables that they keep for themselves.
mod personal_tables;
/// Each mode still computes what it computed when its digest was pinned.
mod pinned_digests;
/// Every method tells two groups of users apart without the leak of the pool, or a list says why
/// not.
mod planted_groups;
/// Noise, draws of each user by itself and virtual items do what they claim, and no more is
/// claimed.
mod privacy;
/// Random small scenarios keep the contracts.
mod random_scenarios;
/// A run on several ranks comes to the result of one process, and goes on from checkpoints with any
/// number of ranks.
mod ranks;
/// The public data sets, if they are at hand, give the known figures.
mod real_data;
/// A run that goes on from a checkpoint ends as if it had never been stopped.
mod resume;
/// Every scenario file, and every command that the documentation shows, works.
mod scenario_files;
/// A run survives what the scheduler of a cluster does: it stops in time, and goes on only where it
/// may.
mod schedulers;
/// The seams work that no method of the crate needs yet: codecs that lose something, mechanisms of
/// privacy, methods that run at the server.
mod seams;
/// The load of the server's link, the line for connections and the users who are waited for are
/// told over time.
mod server_load;
/// A simulation that is driven step by step gives the result of a whole run.
mod simulation;
/// A run starts from the parameters of another, or is told why it cannot.
mod start;
/// A round of many steps consists of these steps, recorded once.
mod steps;
/// Studies run their arms beside each other, go on where they stopped, and sum up what the runs
/// came to.
mod study;
/// Holds what the modules share: small scenarios, and ways to run them.
mod support;
/// What is printed fits a narrow terminal, and progress, colours, completions and manual pages are
/// where they belong.
mod terminal;
/// Where a formula tells how long something takes, it takes that long.
mod theory;
/// What clients exchange with a third party is really sent, takes its time and is booked by peer.
mod third_party;
/// The documented example of a server rule, compiled here as it stands.
#[allow(dead_code)]
#[path = "../../examples/trimmed_mean.rs"]
mod trimmed_mean;
/// The report lists every user with its bytes, participations, time and energy.
mod users_file;
/// A round takes the virtual time that latency, rates and work add up to.
mod virtual_time;
/// What a scenario says in vain is told, and with `--strict` refused.
mod without_effect;
