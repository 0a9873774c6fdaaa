//! Declares what can be written on the command line.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Simulates federated recommendation and measures what accuracy costs in bytes and in time.
///
/// Exit codes: 0 done, 1 the run failed, 2 the scenario, the command line, the ratings or the checkpoint is wrong.
#[derive(Clone, Debug, Parser)]
#[command(name = "fedrecsim", version, arg_required_else_help = true)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run a scenario and write its report.
    ///
    /// Ctrl-C gives up the round in progress and reports the finished ones; a second Ctrl-C ends the program at once.
    Run(RunArgs),
    /// Go on with a run that was stopped, from the newest checkpoint in its report folder.
    ///
    /// The result is that of a run that was never stopped. `run --checkpoint-every N` leaves checkpoints. The scenario
    /// is in the checkpoint; the ratings and traces must be those that the run began with.
    Resume(ResumeArgs),
    /// Run a scenario and write what happens on links and devices: downloads, trainings, uploads, and how they end.
    ///
    /// A participation is written whole, whatever round it ends in. The run stops when nothing that is asked for can
    /// come any more.
    Events(EventsArgs),
    /// Run a scenario up to an instant of virtual time and print its state there.
    Replay(ReplayArgs),
    /// Check scenario files without running them; every fault is shown with its line and column.
    ///
    /// Whether the data set is there, and whether it has the users and items that the scenario asks for, shows
    /// when the scenario is run.
    Validate(ValidateArgs),
    /// Print the JSON schema of scenario files, for editors.
    ///
    /// Save it to a file and name that file in a scenario's first line, as `#:schema PATH`: an editor that knows
    /// TOML then completes keys, explains them, and marks mistakes.
    Schema,
    /// List the methods and their parameters with their defaults.
    Methods,
    /// List the presets of links, devices and availability, with the sources of their numbers.
    Presets,
}

/// What is run.
#[derive(Clone, Debug, Args)]
pub struct InputArgs {
    /// The scenario file.
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// Replace a value of the scenario, such as training.rounds=5; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Seed, in place of the scenario's.
    // TOML integers end at 2^63 - 1, and the seed must survive being printed as one. A negative one is refused.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Folder with the data sets [default: $FEDRECSIM_DATA, then data, then ../shared/data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Worker threads; the result does not depend on them [default: all cores].
    // Without a limit, more threads than any machine has would take minutes to start before they exhaust the machine.
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<NonZeroUsize>,
}

impl InputArgs {
    /// Returns all overrides of the scenario in the order in which they are applied. The seed comes last, because it is
    /// the more specific of two ways to say the same.
    pub fn overrides(&self) -> Vec<String> {
        let seed = self.seed.map(|seed| format!("seed={seed}"));
        self.set.iter().cloned().chain(seed).collect()
    }
}

/// Arguments of `run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// What is run.
    #[command(flatten)]
    pub input: InputArgs,
    /// Folder for the report [default: reports/SCENARIO-SEED].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace the files of an earlier report in the same folder.
    #[arg(long)]
    pub overwrite: bool,
    /// Print one JSON object with the results on standard output, and nothing else there.
    #[arg(long)]
    pub json: bool,
    /// Refuse a scenario with keys that have no effect, of which there is only a warning otherwise.
    #[arg(long)]
    pub strict: bool,
    /// Leave a checkpoint in the report folder after every N rounds, for `resume` to go on from.
    ///
    /// The last two are kept until the run is complete. A crash loses N rounds at most.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = rounds)]
    pub checkpoint_every: Option<NonZeroU32>,
    /// Write the parameters of the model after the last finished round to this file, for `numpy.load`.
    #[cfg(feature = "npz")]
    #[arg(long, value_name = "FILE.npz")]
    pub save_model: Option<PathBuf>,
}

/// Arguments of `resume`.
#[derive(Clone, Debug, Args)]
pub struct ResumeArgs {
    /// The report folder of the run that was stopped.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Worker threads; the result does not depend on them [default: all cores].
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<NonZeroUsize>,
    /// Folder with the data sets [default: where the run found them when it began].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Print one JSON object with the results on standard output, and nothing else there.
    #[arg(long)]
    pub json: bool,
    /// Write the parameters of the model after the last finished round to this file, for `numpy.load`.
    ///
    /// A file of this name is replaced.
    #[cfg(feature = "npz")]
    #[arg(long, value_name = "FILE.npz")]
    pub save_model: Option<PathBuf>,
}

/// Arguments of `events`.
#[derive(Clone, Debug, Args)]
pub struct EventsArgs {
    /// What is run.
    #[command(flatten)]
    pub input: InputArgs,
    /// How the events are written.
    #[arg(long, value_enum, default_value_t = EventFormat::Jsonl)]
    pub format: EventFormat,
    /// Leave out the participations that began in a round before this one.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub from_round: u32,
    /// Leave out those that began in a round after this one [default: the last round; of a picture, --from-round].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
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
pub enum EventFormat {
    /// One JSON object per event and line.
    Jsonl,
    /// The Trace Event format, for ui.perfetto.dev or chrome://tracing: a track for the rounds and one for each client.
    Trace,
    /// A picture: at most 60 participations as rows.
    #[cfg(feature = "plots")]
    Svg,
}

/// Arguments of `replay`.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// What is run.
    #[command(flatten)]
    pub input: InputArgs,
    /// The virtual time, in seconds; what happens at that instant has happened.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = virtual_seconds)]
    pub until_s: f64,
}

/// Parses a virtual time that the clock can show.
fn virtual_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=1e10).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0 to 1e10".to_owned()),
    }
}

/// Parses a number of threads from 1 to 1024.
fn threads(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse::<NonZeroUsize>() {
        Ok(threads) if threads.get() <= 1024 => Ok(threads),
        _ => Err("expected a whole number from 1 to 1024".to_owned()),
    }
}

/// Parses a number of rounds, at least one.
fn rounds(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| format!("expected a whole number from 1 to {}", u32::MAX))
}

/// Arguments of `validate`.
#[derive(Clone, Debug, Args)]
pub struct ValidateArgs {
    /// The scenario files.
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,
    /// Refuse scenarios with keys that have no effect, of which there is only a warning otherwise.
    #[arg(long)]
    pub strict: bool,
    /// Replace a value in every scenario, such as training.rounds=5; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definitions_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_run_takes_every_flag_that_scripts_rely_on() {
        let line = "fedrecsim run a.toml --seed 7 --threads 2 --out o --data-dir d --set a.b=1 --set c=x=y --json \
                    --overwrite --checkpoint-every 5";
        let Command::Run(run) = parse(line).unwrap().command else { panic!("`run` is parsed as another command") };
        assert_eq!(run.input.scenario, PathBuf::from("a.toml"));
        assert_eq!(run.input.threads, NonZeroUsize::new(2));
        assert_eq!((run.out.as_deref(), run.input.data_dir.as_deref()), (Some("o".as_ref()), Some("d".as_ref())));
        assert_eq!(run.input.overrides(), ["a.b=1", "c=x=y", "seed=7"]);
        assert!(run.json && run.overwrite);
        assert_eq!(run.checkpoint_every, NonZeroU32::new(5));
    }

    #[cfg(feature = "npz")]
    #[test]
    fn run_and_resume_take_a_file_for_the_model() {
        let Command::Run(run) = parse("fedrecsim run a.toml --save-model m.npz").unwrap().command else {
            panic!("run")
        };
        assert_eq!(run.save_model, Some("m.npz".into()));
        let resume = parse("fedrecsim resume o --save-model m.npz").unwrap().command;
        assert!(matches!(resume, Command::Resume(resume) if resume.save_model == Some("m.npz".into())));
    }

    #[test]
    fn a_wrong_command_line_exits_with_two() {
        for line in [
            "fedrecsim",
            "fedrecsim walk",
            "fedrecsim run",
            "fedrecsim run a.toml b.toml",
            "fedrecsim run a.toml --threads 0",
            "fedrecsim run a.toml --checkpoint-every 0",
            "fedrecsim resume",
            "fedrecsim run a.toml --seed -1",
            "fedrecsim run a.toml --seed 9223372036854775808",
            "fedrecsim run a.toml --sed 1",
            "fedrecsim validate",
            "fedrecsim events a.toml --format csv",
            "fedrecsim events a.toml --from-round 0",
            "fedrecsim replay a.toml",
            "fedrecsim replay a.toml --until-s -1",
            "fedrecsim replay a.toml --until-s inf",
            "fedrecsim replay a.toml --until-s 1.1e10",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
        for line in [
            "fedrecsim run a.toml --seed -1",
            "fedrecsim run a.toml --checkpoint-every -1",
            "fedrecsim replay a.toml --until-s -1",
        ] {
            let told = parse(line).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::ValueValidation, "told as another mistake: {told}");
        }
        let told = parse("fedrecsim run a.toml --checkpoint-every 0").unwrap_err().to_string();
        assert!(told.contains("expected a whole number from 1"), "{told}");
        assert_eq!(parse("fedrecsim --help").unwrap_err().kind(), ErrorKind::DisplayHelp);
    }
}
