//! The command line: arguments and commands.
//!
//! A program offers the whole command with [`program`]; [`carry_out`] is a command within another
//! program, whose words are those of a command line. Commands return what is to be printed. Only
//! the program prints, handles signals and sets exit codes.

mod args;
mod board;
mod calibrate;
mod carry_out;
mod codec_bench;
mod control;
mod data;
mod demo;
mod estimates;
mod events;
mod explain;
mod follow;
mod inputs;
mod inspect;
mod join;
mod keeping;
mod leak_test;
mod leftovers;
mod log;
mod memory;
mod methods_page;
mod new;
mod output_file;
mod program;
mod ranks;
mod recommend;
mod reports;
mod resume;
mod run;
mod screen;
mod serve;
mod session;
mod signals;
mod stage_times;
mod study;
mod table;
mod task;
#[cfg(test)]
mod tests;
mod watch;

pub use inputs::{Inputs, beside_scenario, data_directories};
pub use keeping::{Asked, Keeping};
pub use program::{carry_out, program, program_of};
pub use session::{Finished, Followed, Session};
pub use study::outside;

use fedrecsim_report::words::lines;

/// Returns `text` in lines of at most `width` characters, each after `indent`.
fn wrapped(text: &str, indent: &str, width: usize) -> String {
    lines(text, width - indent.len())
        .iter()
        .map(|line| format!("{indent}{line}\n"))
        .collect()
}
