//! Carries out `board`: repeats entries, and makes the page of all of them.

use std::ffi::OsString;
use std::path::Path;

use super::args::{BoardBuildArgs, BoardRunArgs, Command, parsed};
use super::output_file::write_files;
use super::study::study;
use super::{Finished, Session};
use crate::{Error, Result};
use fedrecsim_core::ErrorKind;
use fedrecsim_methods as methods;
use fedrecsim_methods::registry::{METHODS, vocabulary, vocabulary_of};
use fedrecsim_report::board::{self, Entry, Noted};
use fedrecsim_report::study::{Results, saved};
use fedrecsim_report::words::counted;
use fedrecsim_report::{MadeFolders, html};
use fedrecsim_sim::checkpoint;

/// The page as Markdown, which is shown where the folder is looked at.
const README: &str = "README.md";

/// The page for a browser.
const INDEX: &str = "index.html";

/// Repeats entries, one after the other. One that cannot be repeated, or has moved, stops no other.
pub(crate) fn run(arguments: &BoardRunArgs, session: &Session) -> Finished {
    let mut all = Finished::default();
    let count = arguments.entries.len();
    for (place, folder) in arguments.entries.iter().enumerate() {
        if count > 1 {
            session.note(&format!("{} of {count}: {}", place + 1, folder.display()));
        }
        let of = run_one(folder, arguments, session).unwrap_or_else(Finished::from);
        all.output += &of.output;
        all.is_in_files |= of.is_in_files;
        all.warnings.extend(of.warnings);
        all.errors.extend(of.errors);
        if session.is_interrupted() {
            break;
        }
    }
    all
}

/// Repeats an entry.
///
/// # Errors
/// Those of an entry and of its study. A digest that has moved is told in [`Finished`].
fn run_one(folder: &Path, arguments: &BoardRunArgs, session: &Session) -> Result<Finished> {
    let entry = Entry::read(folder)?;
    let outdated = entry.outdated();
    if !arguments.write && !outdated.is_empty() {
        return Err(Error::Usage(outdated.join("\n")));
    }
    let out = match &arguments.out {
        Some(out) if arguments.entries.len() == 1 => out.clone(),
        Some(out) => out.join(&entry.name),
        None => Path::new("reports/board").join(&entry.name),
    };
    let Command::Study(of_study) = parsed(words(folder, arguments, &out))? else {
        return Err(Error::Usage("`study` is another command".to_owned()));
    };
    check_control(&entry, session.methods)?;
    let ran = study(&of_study, session)?;
    if ran
        .errors
        .iter()
        .any(|error| matches!(error, Error::Interrupted))
    {
        return Ok(ran);
    }
    let results = saved::read(&out)?;
    check_build(&results, arguments.write, session)?;
    // What has failed is told by what was noted of it.
    let here = Noted::of(&results, &entry.study);
    if arguments.write {
        let text = entry.noted.and(here, &entry.study).render()?;
        let file = (Noted::FILE_NAME.to_owned(), text.into_bytes());
        write_files(folder, vec![file], true)?;
        let path = folder.join(Noted::FILE_NAME);
        return Ok(Finished::in_files(format!(
            "written to {}\n",
            path.display()
        )));
    }
    Ok(held_against(&entry, &here))
}

/// Refuses runs that another build of the program has left in the folder, which tell nothing of this
/// one. Their digests may be noted all the same.
fn check_build(results: &Results, is_noted: bool, session: &Session) -> Result<()> {
    let executable = checkpoint::executable_digest();
    let runs = results.arms.iter().flat_map(|arm| &arm.runs);
    let reports = runs.filter_map(|run| run.report.as_ref());
    let others = reports.filter(|report| report.run.executable != executable);
    let others = others.count() as u64;
    let told = format!(
        "{} had been made by another build of the program",
        counted(others, "run")
    );
    match (others, is_noted) {
        (0, _) => Ok(()),
        (_, true) => {
            session.warn(&told);
            Ok(())
        }
        (_, false) => Err(Error::Usage(format!(
            "{told}, and tell nothing of this one; remove the folder of the runs, or name another with --out"
        ))),
    }
}

/// Returns what the runs here are beside what was noted.
fn held_against(entry: &Entry, here: &Noted) -> Finished {
    let moved = entry.noted.moved(here);
    let name = &entry.name;
    let left = entry.noted.arms.len().saturating_sub(here.arms.len());
    let mut output = format!(
        "entry `{name}`: {} repeated, {} of them as noted",
        counted(here.arms.len() as u64, "arm"),
        here.arms.len().saturating_sub(moved.len())
    );
    if left > 0 {
        output += &format!("; {left} not asked for, or without data here");
    }
    let errors = match (moved.is_empty(), here.arms.is_empty()) {
        (false, false) if entry.noted.arms.is_empty() => vec![Error::Usage(format!(
            "entry `{name}`: it has no results.json yet, which these runs could be held against; --write notes them"
        ))],
        (true, false) => Vec::new(),
        (_, true) => vec![Error::Usage(format!(
            "entry `{name}`: none of its arms was repeated, since no data set of them is here; `fedrecsim data list` says how \
             to have them"
        ))],
        _ => vec![Error::Told {
            kind: ErrorKind::Failure,
            message: format!("entry `{name}` has moved:\n{}", moved.join("\n")),
        }],
    };
    Finished {
        errors,
        ..Finished::from(output + "\n")
    }
}

/// Returns the command line of the study of an entry, after the name of the program.
fn words(folder: &Path, arguments: &BoardRunArgs, out: &Path) -> Vec<OsString> {
    let study = folder.join(board::STUDY);
    let mut words: Vec<OsString> = vec!["study".into(), study.into(), "--out".into(), out.into()];
    let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
    for text in &arguments.arms {
        option("--arms", text.into());
    }
    if let Some(folder) = &arguments.data_dir {
        option("--data-dir", folder.into());
    }
    if let Some(threads) = arguments.threads {
        option("--threads", threads.to_string().into());
    }
    words.extend(arguments.no_run.then(|| "--no-run".into()));
    words
}

/// Refuses a control that the method of an entry cannot have.
fn check_control(entry: &Entry, methods: &[methods::Entry]) -> Result<()> {
    let name = entry.method(&vocabulary_of(methods));
    let method = methods.iter().find(|of| Some(of.name) == name.as_deref());
    match method.and_then(|of| Some((of.name, of.without_controls?))) {
        Some((method, reason)) if entry.has_control() => Err(Error::Usage(format!(
            "entry `{}`: the method `{method}` cannot be alone: {reason}; take `alone` out of the axis `on`, and say why in \
             entry.toml, as `no_control`",
            entry.name
        ))),
        _ => Ok(()),
    }
}

/// Returns the methods of this program that train on devices, and that are no entry's.
fn not_entered(entries: &[Entry]) -> Vec<&'static str> {
    let vocabulary = vocabulary();
    let entered = entries.iter().filter_map(|entry| entry.method(&vocabulary));
    let entered: Vec<String> = entered.collect();
    let others = METHODS.iter().filter(|of| of.placement.is_on_devices());
    let mut names: Vec<&str> = others.map(|of| of.name).collect();
    names.retain(|name| !entered.iter().any(|entered| entered == name));
    names.sort_unstable();
    names
}

/// Makes the page.
///
/// # Errors
/// Those of the entries, and [`Error::Write`].
pub(crate) fn build(arguments: &BoardBuildArgs) -> Result<Finished> {
    let entries = board::entries(&arguments.board)?;
    let document = board::document(&entries, &not_entered(&entries));
    let out = arguments.out.as_ref().unwrap_or(&arguments.board);
    let _made = MadeFolders::make(out)?;
    let files = vec![
        (README.to_owned(), document.markdown().into_bytes()),
        (INDEX.to_owned(), html::render(&document)?.into_bytes()),
    ];
    write_files(out, files, true)?;
    let [page, text] = [INDEX, README].map(|name| out.join(name));
    let written = format!("written to {} and {}\n", page.display(), text.display());
    Ok(Finished::in_files(written))
}
