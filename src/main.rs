//! Runs the `fedrecsim` command.

use std::process::ExitCode;

use fedrecsim::cli;
use fedrecsim::method::registry::METHODS;

// This allocator is fast at what every round does hundreds of times: to allocate and free frames of tens of kilobytes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::program(METHODS)
}
