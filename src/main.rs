//! Runs the `fedrecsim` command.

use std::process::ExitCode;

use fedrecsim::cli;
use fedrecsim::method::METHODS;

// Every round allocates and frees hundreds of frames of tens of kilobytes, and this allocator is
// fast at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::program(METHODS)
}
