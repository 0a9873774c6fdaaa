//! Declares the arguments of `data`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with data sets.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// List the public data sets: how large they are, and which are here; with a name, whose one is,
    /// what its licence allows and how it is had.
    List(DataListArgs),
    /// Fetch public data sets from their providers, check them, and unpack them where scenarios
    /// look for them.
    ///
    /// Nothing is downloaded twice, and a download that broke off is continued by the same command.
    /// A file is checked against the SHA-256 that this program knows; where it knows none, the one
    /// of the first download is kept in SHA256SUMS in the data folder. Proxies are those of
    /// HTTPS_PROXY, ALL_PROXY and NO_PROXY.
    Fetch(DataFetchArgs),
    /// Describe a scenario's ratings: how many, by how many users, how they are distributed, what is
    /// filtered out.
    ///
    /// They are read, filtered and split as in a run, so that faults of the file show here.
    Describe(DataDescribeArgs),
}

/// Arguments of `data describe`.
#[derive(Debug, Args)]
pub(crate) struct DataDescribeArgs {
    /// The scenario file, or the name of a scenario of this project.
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// Replace a value of the scenario, such as dataset.minimum_interactions=5; may be given
    /// several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Folder with the data sets [default: $FEDRECSIM_DATA, then data, then ../shared/data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// Arguments of `data list`.
#[derive(Debug, Args)]
pub(crate) struct DataListArgs {
    /// Show these data sets in full, by the names that the list has for them.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Folder with the data sets [default: $FEDRECSIM_DATA, then data, then ../shared/data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// Arguments of `data fetch`.
#[derive(Debug, Args)]
pub(crate) struct DataFetchArgs {
    /// The data sets, by the names that `dataset.name` has for them.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Folder for the data sets [default: $FEDRECSIM_DATA, or data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Download from this address, in place of the provider's; the file names are the same.
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
    /// Take this file, which was downloaded before, from the provider or anybody else; it is
    /// checked all the same.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub archive: Option<PathBuf>,
}
