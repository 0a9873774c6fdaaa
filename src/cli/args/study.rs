//! Declares the arguments of `study`, `search`, `compare` and `html`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::ProgressArg;
use super::values::{from_one, gigabytes, seeds, tasks, threads};
use fedrecsim_report::study::Shard;

/// Arguments of `study`.
#[derive(Debug, Args)]
pub(crate) struct StudyArgs {
    /// The runs.
    #[command(flatten)]
    pub runs: StudyRunsArgs,
    /// Write tables with the differences to this arm as well, to study-against-ARM.md,
    /// summary-against-ARM.csv and pooled-against-ARM.csv; may be given several times. A part of a name, such as
    /// method=popularity, compares each arm to the one that has it and else the same parts. Which
    /// runs are made does not change.
    #[arg(long, value_name = "ARM", conflicts_with = "slurm")]
    pub compare_to: Vec<String>,
}

/// The arguments that `study` and `search` share.
#[derive(Debug, Args)]
pub(crate) struct StudyRunsArgs {
    /// The study file, or the name of a study of this project, such as quickstart-codecs.
    #[arg(value_name = "STUDY")]
    pub study: PathBuf,
    /// Folder for the runs and the tables [default: reports/STUDY, of a search
    /// reports/STUDY-search; of a part, with -part-I-of-N at its end].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace a value in every run, such as training.rounds=5; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Seeds in place of those of the file.
    #[arg(long, value_name = "N,N", value_delimiter = ',', allow_hyphen_values = true, value_parser = seeds)]
    pub seeds: Vec<u64>,
    /// Folder with the data sets [default: $FEDRECSIM_DATA, then data, then ../shared/data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Threads for all runs together; a run much longer than the others gets several [default: all
    /// cores].
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<u16>,
    /// Memory of all runs together, in GB [default: what is free; without a limit with --launch].
    #[arg(long, value_name = "GB", value_parser = gigabytes)]
    pub memory: Option<f64>,
    /// The most runs at once, which share the threads [default: as many as there are threads].
    #[arg(long, value_name = "N", value_parser = threads)]
    pub jobs: Option<u16>,
    /// Run only part I of N, so that N machines can share the runs. Every part has its share of
    /// every arm.
    #[arg(long, value_name = "I/N", allow_hyphen_values = true)]
    pub shard: Option<Shard>,
    /// Run only the arms whose names contain this text, in which * stands for anything, and show
    /// them and what they are compared to; may be given several times.
    #[arg(long, value_name = "TEXT", conflicts_with = "merge")]
    pub arms: Vec<String>,
    /// Run nothing, and put the runs in the folders of parts together.
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["shard", "no_run", "dry_run", "explain"])]
    pub merge: Vec<PathBuf>,
    /// Take complete runs of the same scenarios and seeds, made by this executable, from the
    /// folders of other studies.
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["merge", "no_run", "dry_run", "explain", "slurm"])]
    pub reuse: Vec<PathBuf>,
    /// A command that starts each run, such as "srun -n1" or "nice"; the run's own command follows
    /// it.
    #[arg(long, value_name = "COMMAND")]
    pub launch: Option<String>,
    /// Run nothing, and write the script slurm.sh for the scheduler Slurm: an array of PARTS tasks,
    /// each with --threads cores [default: a task for each run, with one core].
    #[arg(long, value_name = "PARTS", num_args = 0..=1, require_equals = true, value_parser = tasks,
          conflicts_with_all = ["shard", "merge", "no_run", "dry_run", "explain", "launch", "memory"])]
    pub slurm: Option<Option<NonZeroUsize>>,
    /// Leave a checkpoint of a run after every N rounds [default: ten in a run].
    #[arg(long, value_name = "N", value_parser = from_one)]
    pub checkpoint_every: Option<u32>,
    /// Check the study and list its runs, and run nothing.
    #[arg(long, conflicts_with = "no_run")]
    pub dry_run: bool,
    /// Check the study and show in a table what differs between its arms, and run nothing.
    #[arg(long, conflicts_with_all = ["no_run", "dry_run"])]
    pub explain: bool,
    /// Run nothing, and write the tables of the runs that are there.
    #[arg(long)]
    pub no_run: bool,
    /// How progress is shown on standard error; a line is for every run that has ended.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub progress: ProgressArg,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Report folders.
    #[arg(required = true, value_name = "DIR")]
    pub reports: Vec<PathBuf>,
    /// Folder for tables and pictures [default: only the tables, on standard output].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The arm that differences are paired with, by its name in the tables.
    #[arg(long, value_name = "ARM")]
    pub to: Option<String>,
    /// Metrics that the tables show [default: the headline and its companion].
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub figures: Vec<String>,
    /// Replace tables and pictures that are in the folder.
    #[arg(long)]
    pub overwrite: bool,
}

/// Arguments of `html`.
#[derive(Debug, Args)]
pub(crate) struct HtmlArgs {
    /// Folders of reports, studies or comparisons.
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
}
