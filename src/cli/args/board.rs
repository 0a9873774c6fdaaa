//! Declares the arguments of `board`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::values::threads;

/// What to do with the board.
#[derive(Debug, Subcommand)]
pub(crate) enum BoardCommand {
    /// Repeat entries, and hold their digests against those that are committed.
    ///
    /// The study of each is run as `study` runs one, into reports/board/ENTRY; arms whose data set is
    /// not here are left out. The exit code is 1 if a digest has moved.
    Run(BoardRunArgs),
    /// Make the page of all entries, README.md and index.html, from their committed results.
    Build(BoardBuildArgs),
}

/// Arguments of `board run`.
#[derive(Debug, Args)]
pub(crate) struct BoardRunArgs {
    /// The folders of the entries.
    #[arg(value_name = "ENTRY", required = true)]
    pub entries: Vec<PathBuf>,
    /// Repeat only the arms whose names contain this text, in which * stands for anything; may be
    /// given several times.
    #[arg(long, value_name = "TEXT")]
    pub arms: Vec<String>,
    /// Note the digests and figures in the entry's results.json; those of other arms stay.
    #[arg(long)]
    pub write: bool,
    /// Run nothing, and take the runs that are in their folder, such as those of a cluster.
    #[arg(long)]
    pub no_run: bool,
    /// Folder for the runs; those of several entries have a folder in it each [default:
    /// reports/board/ENTRY].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Folder with the data sets [default: $FEDRECSIM_DATA, then data, then ../shared/data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Threads for all runs together [default: all cores].
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<u16>,
}

/// Arguments of `board build`.
#[derive(Debug, Args)]
pub(crate) struct BoardBuildArgs {
    /// The folder with the entries.
    #[arg(value_name = "BOARD", default_value = "board")]
    pub board: PathBuf,
    /// Folder for the page [default: that of the board].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}
