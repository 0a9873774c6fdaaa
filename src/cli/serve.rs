//! Carries out `serve`: a run in real time, whose devices are in other processes.

use std::io::BufWriter;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use super::args::{Pretend, ProgressArg, RunArgs, RunOptions, ServeArgs};
use super::carry_out::{Job, conclude};
use super::inputs::{strictness, threads_of};
use super::run::{claim, reproducing};
use super::task::Task;
use super::watch::Watch;
use super::{Finished, Session};
use crate::{Error, Result};
use fedrecsim_core::begin_file;
use fedrecsim_deploy::{self as deploy, News, OpenArrivals, Serving};
use fedrecsim_sim::RoundObserver;
use fedrecsim_sim::checkpoint::Build;
use fedrecsim_sim::deployment::{ARRIVALS_FILE, Arrivals};

/// Runs a scenario with the devices of other processes, and writes its report.
///
/// # Errors
/// As `run`, and an error for an address that cannot be listened on.
pub(crate) fn serve(arguments: ServeArgs, session: &Session) -> Result<Finished> {
    session.listen()?;
    let (listen, insecure) = (arguments.listen, arguments.insecure);
    let [shape, pace] =
        [arguments.shape, arguments.pace].map(|pretend| pretend == Pretend::Scenario);
    let arguments = RunArgs {
        input: arguments.input,
        out: arguments.out,
        overwrite: arguments.overwrite,
        options: RunOptions {
            json: arguments.json,
            progress: ProgressArg::Rounds,
            ..RunOptions::default()
        },
        ..RunArgs::default()
    };
    let listener = bind(listen, insecure)?;
    let mut task = Task::of(&arguments.input, strictness(false), session)?;
    let folder = claim(&arguments, &task.scenario)?;
    let inputs = task.inputs(None, session.methods)?;
    let [told, warnings] = inputs.remarks();
    told.iter().for_each(|text| session.note(text));
    task.warnings.extend(warnings);
    task.warnings.iter().for_each(|text| session.warn(text));
    let threads = threads_of(arguments.input.threads);
    let scenario = task.scenario.to_toml()?;
    let serving = Serving {
        world: Arc::clone(&inputs.world),
        scenario: scenario.clone(),
        build: build()?,
        data: data(&inputs.fingerprint()),
        threads,
        interrupted: Arc::clone(&session.interrupted),
        arrivals: Some(arrivals(folder.path(), scenario)),
        shape,
        pace,
    };
    let mut watch = Watch::new(&task.scenario, arguments.options.progress, session);
    watch.begin(&task.scenario, Some(folder.path()), session);
    let outcome = deploy::serve(serving, listener, &mut |news| match news {
        News::WaitsFor(users) => session.note(&format!(
            "waits for the users {users} (fedrecsim join {listen} --users FIRST..LAST)"
        )),
        News::Complete => session.note("all users are there"),
        News::CutOff(reason) => session.warn(&format!("a process was cut off: {reason}")),
        News::Round(record, total) => watch.round_finished(record, *total),
    })?;
    let job = Job {
        control: None,
        options: &arguments.options,
        threads,
        folder: Some(folder),
        model_file: None,
        saved: Vec::new(),
        command: reproducing(&arguments.input),
        warnings: task.warnings,
        other_builds: Vec::new(),
        expect_digest: None,
        keep: false,
        crew: None,
    };
    conclude(task.scenario, (outcome, Vec::new()), watch, job, session)
}

/// Opens the file of what arrives, in the folder of the report.
fn arrivals(folder: &Path, scenario: String) -> OpenArrivals {
    let path = folder.join(ARRIVALS_FILE);
    Box::new(move || {
        let begun = begin_file(&path, true);
        let (file, name) = begun.map_err(|reason| Error::write(&path, reason))?;
        // What has arrived is what is left of a server that is killed, so that it keeps its name.
        name.keep();
        Arrivals::begin(Box::new(BufWriter::new(file)), &scenario)
    })
}

/// Listens on an address.
///
/// # Errors
/// [`Error::Usage`] for one that other machines reach, unless `insecure`, and for one that cannot
/// be listened on.
fn bind(address: SocketAddr, insecure: bool) -> Result<TcpListener> {
    if !address.ip().is_loopback() && !insecure {
        return Err(Error::Usage(format!(
            "--listen {address}: other machines reach this address, and nothing is encrypted: TLS is not there yet; \
             listen on 127.0.0.1 (over a tunnel, if need be), or say --insecure"
        )));
    }
    TcpListener::bind(address).map_err(|reason| {
        Error::Usage(format!(
            "--listen {address}: {reason}; end the process that has the address, or name another port"
        ))
    })
}

/// Returns the digest of the program that is running.
///
/// # Errors
/// Those of reading its file.
pub(super) fn build() -> Result<deploy::Digest> {
    let build = Build::running(&crate::PROGRAM, "")?;
    Ok(*blake3::hash(build.describe().as_bytes()).as_bytes())
}

/// Returns the digest of the ratings and traces with this fingerprint.
pub(super) fn data(fingerprint: &str) -> deploy::Digest {
    *blake3::hash(fingerprint.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, ratings travel over a network in the clear without anybody having said so, or
    /// nobody learns why the server does not start.
    #[test]
    fn an_address_that_is_open_or_in_use_is_refused() {
        let refusal = |address: SocketAddr| bind(address, false).unwrap_err().to_string();
        let open = refusal(([0, 0, 0, 0], 0).into());
        assert!(open.contains("--insecure"), "{open}");
        let bound = bind(([127, 0, 0, 1], 0).into(), false).unwrap();
        let in_use = refusal(bound.local_addr().unwrap());
        assert!(in_use.contains("name another port"), "{in_use}");
    }

    /// If this fails, a link in the folder of a report has its file overwritten, or others can read when
    /// which user was there.
    #[cfg(unix)]
    #[test]
    fn arrivals_follow_no_link_and_are_their_owners_alone() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let folder = tempfile::tempdir().unwrap();
        let [victim, path] = ["victim", ARRIVALS_FILE].map(|name| folder.path().join(name));
        std::fs::write(&victim, "secret").unwrap();
        symlink(&victim, &path).unwrap();
        drop(arrivals(folder.path(), "seed = 1\n".to_owned())().unwrap());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "secret");
        let found = std::fs::symlink_metadata(&path).unwrap();
        assert!(found.is_file());
        assert_eq!(found.permissions().mode() & 0o077, 0);
    }
}
