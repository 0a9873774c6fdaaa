//! Carries out `demo`: the quickstart, and its page in a browser.

use std::ffi::OsStr;

use super::args::{Command, DemoArgs, parsed};
use super::run::run;
use super::{Finished, Session};
use crate::Result;

/// Runs the quickstart, and opens its page if somebody watches.
///
/// # Errors
/// Those of the run.
pub(crate) fn demo(arguments: &DemoArgs, session: &Session) -> Result<Finished> {
    let words = ["run", "quickstart", "--overwrite", "--out"].map(OsStr::new);
    let Command::Run(of_run) = parsed(words.into_iter().chain([arguments.out.as_os_str()]))? else {
        unreachable!("the first word is that of the command `run`")
    };
    session.listen()?;
    let mut finished = run(&of_run, session, None)?;
    let page = arguments.out.join("report.html");
    let is_open = session.visible && page.is_file() && opener::open(&page).is_ok();
    let doing = if is_open {
        "opened"
    } else {
        "open in a browser"
    };
    finished.output += &format!("{doing}: {}\n", page.display());
    Ok(finished)
}
