//! Carries out `completions` and `man`, which describe the command line to shells and to `man`.

use clap::CommandFactory;

use super::args::{Cli, CompletionsArgs, ManArgs};
use super::reproduce::program;
use crate::{Error, Result};

/// Returns the script by which a shell completes the program's commands and options.
pub(crate) fn completions(arguments: &CompletionsArgs) -> String {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), program(), &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns the manual page of the program or of one of its commands, in the format that `man`
/// reads.
///
/// # Errors
/// [`Error::Usage`] if there is no such command.
pub(crate) fn man(arguments: &ManArgs) -> Result<String> {
    let mut root = Cli::command();
    root.build();
    let command = match &arguments.command {
        None => root,
        Some(name) => root.find_subcommand(name).cloned().ok_or_else(|| {
            Error::Usage(format!(
                "there is no command `{name}`; `{} --help` lists all",
                program()
            ))
        })?,
    };
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(|reason| Error::write("the manual page", reason))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
