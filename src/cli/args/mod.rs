//! Declares what can be written on the command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{
    Args, Command as Definition, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
};

mod board;
mod data;
mod study;
mod tables;
mod values;

#[cfg(test)]
mod tests;

pub(crate) use board::{BoardBuildArgs, BoardCommand, BoardRunArgs};
pub(crate) use data::{DataCommand, DataDescribeArgs, DataFetchArgs, DataListArgs};
pub(crate) use study::{CompareArgs, HtmlArgs, StudyArgs, StudyRunsArgs};
pub(crate) use tables::{CodecBenchArgs, CodecCommand, TableArgs};
pub(crate) use values::{ControlArg, Pretend, TableFormat, check_parquet};

use super::screen::harmless;
use crate::{Error, Result};
use values::{digest, from_one, seeds, threads, time, users, virtual_seconds};

/// Simulates federated recommendation and measures what accuracy costs in bytes and in time.
///
/// Exit codes: 0 done, 1 the run failed, 2 the scenario, the command line, the ratings or the
/// checkpoint is wrong.
#[derive(Debug, Parser)]
#[command(
    name = "fedrecsim",
    version,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Returns the definition of the command line. What begins with a minus and is a number is the value
    /// of the option before it, so that a message can say what is wrong with it.
    pub(crate) fn definition() -> Definition {
        fn with_negative_numbers(of: Definition) -> Definition {
            of.mut_args(
                |of| match of.is_positional() || !of.get_action().takes_values() {
                    true => of,
                    false => of.allow_negative_numbers(true),
                },
            )
            .mut_subcommands(with_negative_numbers)
        }
        with_negative_numbers(Self::command())
    }

    /// Reads a command line, which begins with the name of the program.
    ///
    /// # Errors
    /// What is wrong with it, or the help that it asks for.
    pub(crate) fn of<W: Into<OsString> + Clone>(
        words: impl IntoIterator<Item = W>,
    ) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        let matches = |words: &[OsString]| Self::definition().try_get_matches_from(words);
        let found = matches(&words).map_err(|refusal| {
            // What commands a terminal would be left out of the message, which would then quote another word.
            let shown = words
                .iter()
                .map(|word| harmless(&word.to_string_lossy()).into());
            matches(&shown.collect::<Vec<_>>()).err().unwrap_or(refusal)
        });
        Self::from_arg_matches(&found?)
    }
}

/// Reads the words of a command line, after the name of the program.
pub(crate) fn parsed<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Result<Command> {
    let words = words.into_iter().map(Into::<OsString>::into);
    Cli::of(std::iter::once("fedrecsim".into()).chain(words))
        .map(|cli| cli.command)
        .map_err(|refusal| Error::Usage(refusal.to_string()))
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the quickstart and open its page.
    ///
    /// It trains FedRAP on 500 generated users, in some seconds, and needs no data.
    Demo(DemoArgs),
    /// Write a commented scenario to begin with, and the schema for editors beside it.
    New(NewArgs),
    /// Run a scenario and write its report.
    ///
    /// Ctrl-C gives up the round in progress and reports the finished ones; a second Ctrl-C ends
    /// the program at once. SIGTERM, and SIGHUP where it is not ignored, do the same as the first
    /// Ctrl-C.
    Run(RunArgs),
    /// Go on with a run that was stopped, from the newest checkpoint in its report folder.
    ///
    /// The result is that of a run that was never stopped. `run --checkpoint-every N` and
    /// `run --max-wall-time` leave checkpoints. The scenario is in the checkpoint; the ratings, the
    /// traces and the build of the program must be those that the run began with.
    Resume(ResumeArgs),
    /// Run a scenario in real time: this process is the server, and processes of `join` have the
    /// devices.
    ///
    /// It begins when all users are there, and says whom it waits for. The report has measured
    /// seconds in the place of virtual ones. In synchronous rounds the model is that of `run`, bit
    /// for bit: `state_digest` in run.json is equal.
    Serve(ServeArgs),
    /// Be the devices of some users of a scenario that a `serve` runs.
    ///
    /// The scenario comes from the server. The ratings and the build of the program must be those of
    /// the server. If the connection breaks, the process connects again.
    Join(JoinArgs),
    /// Measure how fast this machine is as a device of a scenario, and print that as its `[devices]`;
    /// or the way to another machine, as its `[network]`.
    ///
    /// Devices train one after the other on one thread. The error is told by cross-validation: for
    /// each size of a training, that of the fit to the other sizes. Let the machine be idle.
    Calibrate(CalibrateArgs),
    /// Compare two runs: the keys that differ between the scenarios, and the first round and figure
    /// that differ between the results.
    ///
    /// What does not belong to a result is not compared: name, command, versions, and what the
    /// host took. The exit code is 0 if the runs are equal, 1 if they differ, and 2 if a report
    /// cannot be read.
    Diff(DiffArgs),
    /// Run a study: arms that differ in a few keys, each with several seeds, and tables and
    /// pictures of all of them.
    ///
    /// Each run is a process of its own. Ctrl-C or SIGTERM stops them, and the same command goes on
    /// where it stopped. The exit code is 1 if a run failed; the others have their results.
    Study(StudyArgs),
    /// Search for the settings of a study's arms, by the validation part alone: the same number of
    /// trials for every arm, drawn at random from the spaces that the file declares.
    ///
    /// The first trial of an arm is the arm as written. Trials are runs as those of a study: in
    /// parallel, kept, and gone on with by the same command. What was found is in search.md and
    /// search.csv, and what was chosen in chosen.toml, which the study takes as its `chosen`. A
    /// trial that fails counts as one; the exit code is 1 if all trials of an arm have failed.
    Search(StudyRunsArgs),
    /// Compare reports that exist, as the tables of a study do: reports whose scenarios differ in
    /// the seed alone are one arm.
    Compare(CompareArgs),
    /// Repeat an entry of the board of methods, or make the board's page.
    #[command(subcommand)]
    Board(BoardCommand),
    /// Make the interactive page, `report.html`, of reports, studies or comparisons that exist.
    ///
    /// The page holds its charts and its tables, and opens in a browser without a network. A page
    /// that is there is replaced.
    Html(HtmlArgs),
    /// Run a scenario and write what happens on links and devices: downloads, trainings, uploads,
    /// and how they end.
    ///
    /// A participation is written whole, even if it ends in a later round. The run stops when
    /// nothing that is asked for can come any more.
    Events(EventsArgs),
    /// Print what a trained run would show a user, beside what popularity would.
    ///
    /// The parameters of a run and its users are not part of its report. They are read from the
    /// checkpoint that `run --keep-checkpoint` leaves; without one, the run is repeated and its
    /// digest compared.
    Recommend(RecommendArgs),
    /// Run a scenario up to an instant of virtual time and print its state there.
    Replay(ReplayArgs),
    /// Tell whether training knows what is held out: by the scenario's negatives, or by a method of
    /// one's own.
    ///
    /// The scenario is run up to five times: as it is, with the held-out items of other users in the place
    /// of a user's, with an item that only held-out parts have, with devices that share nothing, and with a
    /// random item that is never a negative. Runs are judged after their last round. The exit code is 1 if
    /// there is a leak.
    LeakTest(InputArgs),
    /// Check scenario files without running them; every fault is shown with its line and column.
    ///
    /// Whether the data set is there, and whether it has the users and items that the scenario asks
    /// for, shows when the scenario is run.
    Validate(ValidateArgs),
    /// Rewrite scenarios and studies of older versions: keys are moved to where they stand now.
    ///
    /// Comments and the order of keys stay. A file with nothing to move is not touched.
    Migrate(MigrateArgs),
    /// Say what a key of scenario files means, what may be written there, and what it is by
    /// default.
    Explain(ExplainArgs),
    /// Print the JSON schema of scenario files, for editors.
    ///
    /// Save it to a file and name that file in a scenario's first line, as `#:schema PATH`: an
    /// editor that knows TOML then completes keys, explains them, and marks mistakes.
    Schema,
    /// List the methods and their parameters with their defaults.
    Methods(MethodsArgs),
    /// List the codecs, and what a codec can be composed of.
    Codecs,
    /// Describe the tables of parameters that `run --save-model` has written, and draw them.
    Table(TableArgs),
    /// Measure codecs.
    #[command(subcommand)]
    Codec(CodecCommand),
    /// List and fetch public data sets, and describe ratings.
    #[command(subcommand)]
    Data(DataCommand),
    /// List the presets of links, devices and availability, with the sources of their numbers.
    Presets,
    /// Print a shell completion script.
    ///
    /// For bash, for example: fedrecsim completions bash >
    /// ~/.local/share/bash-completion/completions/fedrecsim
    Completions(CompletionsArgs),
    /// Print the manual page, or that of a command: fedrecsim man run | man -l -
    Man(ManArgs),
}

/// The scenario to run.
#[derive(Debug, Default, Args)]
pub(crate) struct InputArgs {
    /// The scenario file, or the name of a scenario of this project, such as quickstart.
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// Replace a value of the scenario, such as training.rounds=5; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Seed, in place of the scenario's.
    #[arg(long, value_name = "N", value_parser = seeds)]
    pub seed: Option<u64>,
    /// Folder with the data sets [default: $FEDRECSIM_DATA, then data, then ../shared/data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Worker threads; the result does not depend on them [default: all cores].
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<u16>,
}

impl InputArgs {
    /// Returns all overrides of the scenario in the order of their application. The seed comes
    /// last, because it is the more specific of two ways to say the same.
    pub(crate) fn overrides(&self) -> Vec<String> {
        let seed = self.seed.map(|seed| format!("seed={seed}"));
        self.set.iter().cloned().chain(seed).collect()
    }
}

/// Arguments of `run`.
#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// The scenario to run.
    #[command(flatten)]
    pub input: InputArgs,
    /// Folder for the report [default: reports/SCENARIO-SEED].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace the files of an earlier report in the same folder.
    #[arg(long)]
    pub overwrite: bool,
    /// Write no report, only the result to standard output: the summary, or with --json the object.
    #[arg(long, conflicts_with_all = ["out", "overwrite", "checkpoint_every", "keep_checkpoint", "max_wall_time"])]
    pub no_report: bool,
    /// The format of the tables of rounds and users; those of Parquet stand beside the CSV files.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        conflicts_with = "no_report"
    )]
    pub format: TableFormat,
    /// Run even if more memory will be needed than there is.
    #[arg(long)]
    pub force: bool,
    /// Bytes that the run is known to need: if they are free, it is not rehearsed.
    #[arg(long, hide = true, value_name = "BYTES")]
    pub known_memory: Option<u64>,
    /// Exit with code 1 unless the result digest begins with these hexadecimal digits (8 suffice).
    ///
    /// The report is written all the same.
    #[arg(long, value_name = "HEX", value_parser = digest)]
    pub expect_digest: Option<String>,
    /// Repeat a run of `serve` from the `arrivals.jsonl` of its report, with the devices in this
    /// process.
    ///
    /// Both digests are those of that run.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["checkpoint_every", "keep_checkpoint", "max_wall_time", "save_users"]
    )]
    pub replay_arrivals: Option<PathBuf>,
    /// Run the scenario once more without what the method's server does, and put its accuracy beside the
    /// result; may be given twice.
    #[arg(
        long,
        value_enum,
        value_name = "CONTROL",
        conflicts_with = "replay_arrivals"
    )]
    pub control: Vec<ControlArg>,
    /// Treat keys without an effect as errors, not warnings.
    #[arg(long)]
    pub strict: bool,
    /// Leave a checkpoint before the last round and one of the end, and keep them when the run is
    /// complete, so that `resume --rounds N` can add rounds and another run can start from the
    /// parameters (`training.start`).
    #[arg(long)]
    pub keep_checkpoint: bool,
    /// How it is run.
    #[command(flatten)]
    pub options: RunOptions,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The scenario to run.
    #[command(flatten)]
    pub input: InputArgs,
    /// Address to listen on, such as 127.0.0.1:7070.
    #[arg(long, value_name = "ADDR")]
    pub listen: SocketAddr,
    /// Listen on an address that other machines reach, although nothing is encrypted or anybody can join.
    #[arg(long)]
    pub insecure: bool,
    /// File with a secret that processes have to know, too. A digest of it is sent, in the clear without
    /// TLS.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Seal all connections with this certificate (PEM), in a build with the feature `tls`.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Time after which a process is cut off that gives signs of life and owes an answer. It answers when
    /// the trainings of its devices are over.
    #[arg(long, value_name = "DURATION", default_value = "1h", allow_hyphen_values = true, value_parser = time)]
    pub answer_within: Duration,
    /// Show what the server does on this address: / for people, /metrics for Prometheus.
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<SocketAddr>,
    /// Append what happens to this file, a JSON object on each line.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// What links frames go over, besides the real ones: those of the scenario's `[network]`, or none.
    #[arg(long, value_enum, default_value_t, value_name = "LINKS")]
    pub shape: Pretend,
    /// What devices set the pace of trainings: those of the scenario's `[devices]`, where the host
    /// is faster, or none.
    #[arg(long, value_enum, default_value_t, value_name = "DEVICES")]
    pub pace: Pretend,
    /// Folder for the report [default: reports/SCENARIO-SEED].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace the files of an earlier report in the same folder.
    #[arg(long)]
    pub overwrite: bool,
    /// Leave a checkpoint in the report folder after every N rounds. Devices leave their part of it
    /// where they are (`join --keep`).
    #[arg(long, value_name = "N", value_parser = from_one)]
    pub checkpoint_every: Option<u32>,
    /// Go on from the checkpoint in the report folder, if there is one, with the devices as they were
    /// then.
    #[arg(long, conflicts_with = "overwrite")]
    pub resume: bool,
    /// Print one JSON object with the results on standard output, and nothing else there.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `join`.
#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    /// Address of the server, such as 127.0.0.1:7070.
    #[arg(value_name = "ADDR")]
    pub address: String,
    /// The first and the last of the users, by their numbers from 0.
    #[arg(long, value_name = "FIRST..LAST", allow_hyphen_values = true, value_parser = users)]
    pub users: (u32, u32),
    /// File with the secret of the server.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Send a digest of the secret in the clear to another machine.
    #[arg(long)]
    pub insecure: bool,
    /// Talk to a server that has this certificate, or one that it vouches for (PEM), in a build with the
    /// feature `tls`.
    #[arg(long, value_name = "FILE")]
    pub tls_trust: Option<PathBuf>,
    /// Folder where the devices are kept for a server that leaves checkpoints. With it, this process
    /// can be killed and started again together with the server.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Folder with the data sets [default: $FEDRECSIM_DATA, then data, then ../shared/data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Worker threads [default: all cores].
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<u16>,
}

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
#[command(mut_arg("scenario", |scenario| scenario
    .required(false)
    .required_unless_present_any(["probe", "answer"])))]
pub(crate) struct CalibrateArgs {
    /// The scenario whose trainings are measured.
    #[command(flatten)]
    pub input: Option<InputArgs>,
    /// Measure for about this long, such as 30s.
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true, value_parser = time)]
    pub length: Duration,
    /// Measure the way to a machine where `calibrate --answer` runs, and print it as a scenario's `[network]`.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "InputArgs")]
    pub probe: Option<String>,
    /// Answer those who measure the way to this machine, until it is interrupted.
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["InputArgs", "probe"])]
    pub answer: Option<SocketAddr>,
    /// Answer on an address that other machines reach, although nothing is encrypted.
    #[arg(long, requires = "answer", conflicts_with_all = ["InputArgs", "probe"])]
    pub insecure: bool,
}

/// The options that `run` and `resume` share.
#[derive(Debug, Default, Args)]
pub(crate) struct RunOptions {
    /// Leave a checkpoint in the report folder after every N rounds, for `resume` to go on from
    /// [default of `resume`: as before].
    ///
    /// The last two are kept until the run is complete. A crash loses N rounds at most.
    #[arg(long, value_name = "N", value_parser = from_one)]
    pub checkpoint_every: Option<u32>,
    /// Stop after the round when this wall-clock time is over (such as 55m), with a checkpoint for
    /// `resume`.
    ///
    /// The time counts from the start of the command. The finished rounds are reported, and the
    /// exit code is 1, as after Ctrl-C. Leave time for the longest round and for writing the
    /// report.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = time)]
    pub max_wall_time: Option<Duration>,
    /// Print one JSON object with the results on standard output, and nothing else there.
    #[arg(long)]
    pub json: bool,
    /// How progress is shown on standard error.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub progress: ProgressArg,
    /// Print where the time went, stage by stage, on standard error after the run.
    #[arg(long)]
    pub stage_times: bool,
    /// Write the parameters of the model after the last finished round to this file, for
    /// `numpy.load`. `resume` replaces a file of this name.
    #[arg(long, value_name = "FILE.npz")]
    pub save_model: Option<PathBuf>,
    /// Write to that file also which items each of these users rated, and the item table that it
    /// keeps for itself, if any.
    ///
    /// Users are named as in the ratings file; generated ones by their numbers, from 0. The arrays of
    /// ann are D-ann, if the table is called D, and items-ann. The latter has a number for each item:
    /// 1 if it is trained on, 2 and 3 if it is held out for validation and test, else 0. May be given
    /// several times, for names with a comma.
    #[arg(
        long,
        value_name = "NAME,...",
        requires = "save_model",
        allow_hyphen_values = true
    )]
    pub save_users: Vec<String>,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressArg {
    /// A bar on a terminal; elsewhere a line after a round, at most every 10 seconds.
    #[default]
    Auto,
    /// A line after every round.
    Rounds,
    /// Nothing.
    Off,
}

/// Arguments of `resume`.
#[derive(Debug, Default, Args)]
pub(crate) struct ResumeArgs {
    /// The report folder of the run that was stopped.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Worker threads; the result does not depend on them [default: all cores].
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<u16>,
    /// Folder with the data sets [default: where the run found them when it began].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Go on to round N in place of the last round of the scenario.
    ///
    /// A complete run is extended in this way if `run --keep-checkpoint` has left its checkpoint.
    /// The result is that of a run that was begun with N rounds.
    #[arg(long, value_name = "N", value_parser = from_one)]
    pub rounds: Option<u32>,
    /// Go on although another build of the program, or another version of the method, has left the
    /// checkpoint. The report says so.
    #[arg(long)]
    pub other_build: bool,
    /// How it is run.
    #[command(flatten)]
    pub options: RunOptions,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A report folder, or its `run.json`.
    #[arg(value_name = "A")]
    pub one: PathBuf,
    /// Another one.
    #[arg(value_name = "B")]
    pub other: PathBuf,
}

/// Arguments of `events`.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// The scenario to run.
    #[command(flatten)]
    pub input: InputArgs,
    /// How the events are written.
    #[arg(long, value_enum, default_value_t = EventFormat::Jsonl)]
    pub format: EventFormat,
    /// Leave out the participations that began in a round before this one.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_one)]
    pub from_round: u32,
    /// Leave out those that began in a round after this one [default: the last round; of a picture,
    /// --from-round].
    #[arg(long, value_name = "N", value_parser = from_one)]
    pub to_round: Option<u32>,
    /// The file [default: standard output].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file.
    #[arg(long)]
    pub overwrite: bool,
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventFormat {
    /// One JSON object per event and line.
    Jsonl,
    /// The Trace Event format, for ui.perfetto.dev or chrome://tracing: a track for the rounds and
    /// one for each client.
    Trace,
    /// A picture: at most 60 participations as rows.
    Svg,
    /// A Parquet file with a row for each event; takes the feature `parquet`.
    Parquet,
}

/// Arguments of `recommend`.
#[derive(Debug, Args)]
pub(crate) struct RecommendArgs {
    /// The report folder of a complete run.
    #[arg(value_name = "REPORT")]
    pub report: PathBuf,
    /// The user, named as in the ratings file; a generated one by its number, from 0.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub user: String,
    /// How many items.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = from_one)]
    pub top: u32,
    /// Folder with the data sets [default: $FEDRECSIM_DATA, then data, then ../shared/data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Worker threads; the result does not depend on them [default: all cores].
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<u16>,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The scenario to run.
    #[command(flatten)]
    pub input: InputArgs,
    /// The virtual time, in seconds; what happens at that instant has happened.
    #[arg(long, value_name = "S", value_parser = virtual_seconds)]
    pub until_s: f64,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Folder for the report; an earlier report there is replaced.
    #[arg(long, value_name = "DIR", default_value = "reports/demo")]
    pub out: PathBuf,
}

/// Arguments of `new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The file to write; nothing may be there.
    ///
    /// The schema is fedrecsim.schema.json in the same folder. One that is there stays.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// The scenario files, or names.
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,
    /// Treat keys without an effect as errors, not warnings.
    #[arg(long)]
    pub strict: bool,
    /// Replace a value in every scenario, such as training.rounds=5; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Rehearse the first rounds as well, and say what a run takes: bytes, time and memory.
    ///
    /// The data set must be there. A few users train for all, so that this takes a small part of
    /// the time of the rounds. Exit code 1 if a run would not fit into memory.
    #[arg(long)]
    pub estimate: bool,
    /// Folder with the data sets, for an estimate [default: $FEDRECSIM_DATA, then data, then
    /// ../shared/data].
    #[arg(long, value_name = "DIR", requires = "estimate")]
    pub data_dir: Option<PathBuf>,
    /// Worker threads that an estimate is for [default: all cores].
    #[arg(long, value_name = "N", value_parser = threads, requires = "estimate")]
    pub threads: Option<u16>,
}

/// Arguments of `migrate`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// The files to rewrite.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A key, such as `training.mode`, or the end of one [default: the list of all keys].
    #[arg(value_name = "KEY")]
    pub key: Option<String>,
    /// Print the reference of all keys as Markdown.
    #[arg(long, conflicts_with = "key")]
    pub markdown: bool,
    /// Print the reference of the columns of reports and studies as Markdown.
    #[arg(long, conflicts_with_all = ["key", "markdown"])]
    pub columns: bool,
}

/// Arguments of `methods`.
#[derive(Debug, Args)]
pub(crate) struct MethodsArgs {
    /// Print a page of all methods as Markdown: what travels, what stays, and where each is from.
    #[arg(long)]
    pub markdown: bool,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// A command of the program [default: the program].
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}
