//! The arguments of the commands that look at tables of parameters: `codec` and `table`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with codecs.
#[derive(Debug, Subcommand)]
pub(crate) enum CodecCommand {
    /// Show what codecs make of a table of your own: bytes, errors, and the speed of encoding and
    /// decoding.
    Bench(CodecBenchArgs),
}

/// Arguments of `codec bench`.
#[derive(Debug, Args)]
pub(crate) struct CodecBenchArgs {
    /// The table: a NumPy array of two dimensions, of float32 or float64, saved with numpy.save.
    #[arg(value_name = "FILE.npy")]
    pub file: PathBuf,
    /// Measure this codec besides, as `codec.uplink` has it, such as '{ values = "int4" }'; may be
    /// given several times.
    #[arg(long = "codec", value_name = "CODEC")]
    pub codecs: Vec<String>,
}

/// Arguments of `table`.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// The file of `run --save-model`.
    #[arg(value_name = "FILE.npz")]
    pub file: PathBuf,
    /// The tables, by the names of their arrays, such as C or D-ann (with --save-users ann); several
    /// are added up, as C,D-ann [default: each array of floating-point numbers by itself].
    #[arg(long, value_name = "ARRAY,...", value_delimiter = ',')]
    pub sum: Vec<String>,
    /// Draw the values of the table's first rows as colours, to this SVG file.
    #[arg(long, value_name = "FILE.svg", requires = "sum")]
    pub heat_map: Option<PathBuf>,
    /// Maps of rows by t-SNE were drawn here before.
    #[arg(long, alias = "user", hide = true, value_parser = moved)]
    pub map: Option<String>,
}

/// Refuses `--map` and `--user`, and says where maps are drawn now.
fn moved(_file: &str) -> Result<String, &'static str> {
    Err("maps are drawn by python/notebooks/item-tables.ipynb, with the t-SNE of scikit-learn")
}
