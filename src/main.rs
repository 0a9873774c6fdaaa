//! The `fedrecsim` command.

use std::process::ExitCode;

use fedrecsim::cli;
use fedrecsim::method::registry::METHODS;

// Frames of tens of kilobytes come and go by the hundred in every round.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::program(METHODS)
}
