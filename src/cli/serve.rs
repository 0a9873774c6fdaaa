//! Carries out `serve`: a run in real time, whose devices are in other processes.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::args::{Pretend, ProgressArg, RunArgs, RunOptions, ServeArgs};
use super::carry_out::{Job, conclude};
use super::inputs::{Inputs, strictness, threads_of};
use super::keeping::{header, reopened};
use super::log::Log;
use super::run::{claim, folder_of, reproducing};
use super::task::Task;
use super::watch::Watch;
use super::{Finished, Session};
use crate::{Error, Result};
use fedrecsim_core::{begin_file, shell_word};
use fedrecsim_deploy::{self as deploy, Keys, News, OpenArrivals, Serving, Status, publish};
use fedrecsim_report::ReportFolder;
use fedrecsim_sim::checkpoint::{self, Build, Header, Keeper};
use fedrecsim_sim::deployment::{ARRIVALS_FILE, Arrivals};
use fedrecsim_sim::{Checkpoints, RoundObserver};

/// Runs a scenario with the devices of other processes, and writes its report.
///
/// # Errors
/// As `run`, and an error for an address that cannot be listened on.
pub(crate) fn serve(arguments: ServeArgs, session: &Session) -> Result<Finished> {
    session.listen()?;
    let (resume, every) = (arguments.resume, arguments.checkpoint_every);
    let [shape, pace] =
        [arguments.shape, arguments.pace].map(|pretend| pretend == Pretend::Scenario);
    let keys = arguments
        .tls_certificate
        .as_deref()
        .zip(arguments.tls_key.as_deref());
    let keys = keys.map(|(certificate, key)| Keys::of_server(certificate, key));
    let keys = keys.transpose()?;
    let lack = match (&keys, &arguments.token_file) {
        (Some(_), Some(_)) => None,
        (Some(_), None) => Some(ANYBODY_JOINS),
        (None, _) => Some(UNSEALED),
    };
    let lack = lack.filter(|_| !arguments.insecure);
    let answer_within = arguments.answer_within;
    let listener = bind_unless(lack, "--listen", arguments.listen)?;
    let token = token(arguments.token_file.as_deref())?;
    let shown = arguments.metrics;
    let shown = shown.map(|address| bind("--metrics", address, arguments.insecure));
    let shown = shown.transpose()?;
    // Port 0 stands for one that the system picks.
    let listen = listener.local_addr().unwrap_or(arguments.listen);
    let log = arguments.log.as_deref();
    let log = log.map(|path| Log::open(path, listen, session));
    let mut log = log.transpose()?;
    let arguments = RunArgs {
        input: arguments.input,
        out: arguments.out,
        overwrite: arguments.overwrite,
        options: RunOptions {
            json: arguments.json,
            progress: ProgressArg::Rounds,
            checkpoint_every: every,
            ..RunOptions::default()
        },
        ..RunArgs::default()
    };
    let mut task = Task::of(&arguments.input, strictness(false), session)?;
    let is_new = !resume || !checkpoint::is_in(&folder_of(&arguments, &task.scenario));
    let claimed = is_new.then(|| claim(&arguments, &task.scenario));
    let claimed = claimed.transpose()?;
    let inputs = task.inputs(None, session.methods)?;
    let [told, warnings] = inputs.remarks();
    told.iter().for_each(|text| session.note(text));
    task.warnings.extend(warnings);
    task.warnings.iter().for_each(|text| session.warn(text));
    let (folder, checkpoints) = keeping(claimed, (&arguments, listen), (&task, &inputs), session)?;
    let threads = threads_of(arguments.input.threads);
    let scenario = task.scenario.to_toml()?;
    let serving = Serving {
        world: Arc::clone(&inputs.world),
        scenario: scenario.clone(),
        token,
        build: build()?,
        data: data(&inputs.fingerprint()),
        threads,
        interrupted: Arc::clone(&session.interrupted),
        arrivals: Some(arrivals(folder.path(), scenario)),
        checkpoints,
        shape,
        pace,
        silence: deploy::SILENCE,
        answer_within,
        keys,
    };
    let mut watch = Watch::new(&task.scenario, arguments.options.progress, session);
    watch.begin(&task.scenario, Some(folder.path()), session);
    let status = Status::new(&task.scenario.name, task.scenario.training.rounds);
    let status = Arc::new(status);
    let published = shown.map(|listener| publish(Arc::clone(&status), listener));
    let published = published.transpose();
    let _published = published.map_err(|reason| Error::Usage(format!("--metrics: {reason}")))?;
    let outcome = deploy::serve(serving, listener, &mut |news| {
        status.hear(&news);
        log.iter_mut().for_each(|log| log.hear(&news, session));
        say(&news, listen, &mut watch, session);
    });
    log.iter_mut().for_each(|log| log.end(&outcome, session));
    let outcome = outcome?;
    let job = Job {
        controls: Vec::new(),
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

/// Says what the server on this address has said.
fn say(news: &News<'_>, listen: SocketAddr, watch: &mut Watch<'_>, session: &Session) {
    match news {
        News::WaitsFor(users) => session.note(&format!(
            "waits for the users {users} (fedrecsim join {listen} --users FIRST..LAST)"
        )),
        News::Complete => session.note("all users are there"),
        News::CutOff(reason) => session.warn(&format!("a peer was cut off: {reason}")),
        News::Left(Range { start, end }, reason) => session.warn(&format!(
            "the connection of the users {start}..{} is lost: {reason}",
            end - 1
        )),
        // The line of those who are missing says so, and the round.
        News::Joined(_) | News::Checkpoint(_) => {}
        News::BeginsAnew(Range { start, end }) => session.warn(&format!(
            "the devices of the users {start}..{} begin anew, since their process has lost them",
            end - 1
        )),
        News::Round(record, total) => watch.round_finished(record, **total),
    }
}

/// Returns the folder of the report, the checkpoint to go on from if the folder was not claimed for a
/// new run, and the place for checkpoints.
fn keeping(
    claimed: Option<ReportFolder>,
    (arguments, listen): (&RunArgs, SocketAddr),
    (task, inputs): (&Task, &Inputs),
    session: &Session,
) -> Result<(ReportFolder, Checkpoints)> {
    let path = folder_of(arguments, &task.scenario);
    let (folder, found) = match claimed {
        Some(folder) => {
            checkpoint::remove_all(folder.path())?;
            (folder, None)
        }
        None => {
            let (folder, found) = reopened(&path, inputs)?;
            (folder, Some(found))
        }
    };
    let mut command = reproducing(&arguments.input);
    command[1] = SERVE.to_owned();
    let out = path.to_string_lossy().into_owned();
    let listen = listen.to_string();
    command.extend(["--listen", &listen, "--out", &out, "--resume"].map(str::to_owned));
    let of_scenario = (&task.warnings[..], &task.directories[..]);
    let mut header = header(inputs, of_scenario, command)?;
    header.every = arguments.options.checkpoint_every.unwrap_or(0);
    header.replaces = folder.earlier_report().map(|report| report.digest);
    let mut resumed = None;
    if let Some(found) = found {
        let left = found.checkpoint.header;
        let on = format!("going on from the checkpoint after round {}", left.rounds);
        for reason in found.passed_over {
            session.warn(&format!("{reason}; {on}"));
        }
        session.note(&on);
        (header.rounds, header.replaces) = (left.rounds, left.replaces);
        resumed = Some(found.checkpoint.world);
    }
    let store = Box::new(Keeper::new(path, header, task.scenario.training.rounds));
    Ok((folder, Checkpoints { resumed, store }))
}

/// The name of this command.
const SERVE: &str = "serve";

/// Refuses to go on from a checkpoint without the processes that have its devices.
///
/// # Errors
/// [`Error::Usage`], with the command that goes on.
pub(super) fn check_is_here(header: &Header) -> Result<()> {
    if header.command.get(1).is_none_or(|name| name != SERVE) {
        return Ok(());
    }
    let words: Vec<String> = header.command.iter().map(|word| shell_word(word)).collect();
    Err(Error::Usage(format!(
        "the devices of this run are in other processes; go on with it by `{}`",
        words.join(" ")
    )))
}

/// A file that is on the disk once it is flushed.
struct Synced(BufWriter<File>);

impl Write for Synced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()?;
        self.0.get_ref().sync_data()
    }
}

/// Opens the file of what arrives, in the folder of the report.
fn arrivals(folder: &Path, scenario: String) -> OpenArrivals {
    let path = folder.join(ARRIVALS_FILE);
    Box::new(move |kept| {
        if kept > 0 {
            return go_on(&path, kept);
        }
        let begun = begin_file(&path, true);
        let (file, name) = begun.map_err(|reason| Error::write(&path, reason))?;
        // What has arrived is what is left of a server that is killed, so that it keeps its name.
        name.keep();
        Arrivals::begin(Box::new(Synced(BufWriter::new(file))), &scenario)
    })
}

/// Goes on with the file of a server that was killed, after its first `kept` bytes.
fn go_on(path: &Path, kept: u64) -> Result<Arrivals> {
    let open = || {
        // A link is not followed, as the file behind it is somebody else's.
        if !path.symlink_metadata()?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let file = File::options().read(true).write(true).open(path)?;
        let lines = file.try_clone()?.take(kept);
        let to = Box::new(Synced(BufWriter::new(file.try_clone()?)));
        let arrivals = Arrivals::go_on(to, lines)?;
        if arrivals.bytes() < kept {
            return Err(io::Error::other("it has lost lines since the checkpoint"));
        }
        file.set_len(kept)?;
        Ok(arrivals)
    };
    open().map_err(|reason| {
        Error::Unrestorable(format!(
            "{}: {reason}; put the file back as it was, or begin anew with --overwrite",
            path.display()
        ))
    })
}

/// What the server lacks on an address that other machines reach, and what it needs.
type Lack = [&'static str; 2];

const UNSEALED: Lack = [
    "nothing is encrypted",
    "give `serve` a certificate and a token (--tls-certificate, --token-file), ",
];

const ANYBODY_JOINS: Lack = [
    "anybody there can join",
    "name a --token-file beside the certificate, ",
];

/// Listens on an address.
///
/// # Errors
/// [`Error::Usage`] for one that other machines reach, unless `insecure`, and for one that cannot
/// be listened on.
pub(super) fn bind(option: &str, address: SocketAddr, insecure: bool) -> Result<TcpListener> {
    let lack = (!insecure).then_some(["nothing is encrypted", ""]);
    bind_unless(lack, option, address)
}

fn bind_unless(lack: Option<Lack>, option: &str, address: SocketAddr) -> Result<TcpListener> {
    if let Some([lack, remedy]) = lack.filter(|_| !address.ip().is_loopback()) {
        return Err(Error::Usage(format!(
            "{option} {address}: other machines reach this address, and {lack}; {remedy}listen on 127.0.0.1 (over a \
             tunnel, if need be), or say --insecure"
        )));
    }
    TcpListener::bind(address).map_err(|reason| {
        Error::Usage(format!(
            "{option} {address}: {reason}; end the process that has the address, or name another port"
        ))
    })
}

/// Returns the digest of the secret in a file; zeros if none is named.
///
/// # Errors
/// [`Error::Read`] for a file that cannot be read, or is empty.
pub(super) fn token(file: Option<&Path>) -> Result<deploy::Digest> {
    let Some(file) = file else {
        return Ok(deploy::Digest::default());
    };
    let text = std::fs::read(file).map_err(|reason| Error::read(file, reason))?;
    // Editors end a file with a line feed, and others do not.
    match text.trim_ascii() {
        b"" => Err(Error::read(file, "it has no secret: it is empty")),
        secret => Ok(blake3::derive_key(
            "fedrecsim token of serve and join",
            secret,
        )),
    }
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
        let refusal =
            |address: SocketAddr| bind("--answer", address, false).unwrap_err().to_string();
        let everywhere = ([0, 0, 0, 0], 0).into();
        let open = refusal(everywhere);
        // It has no certificate.
        assert!(
            open.contains("--insecure") && !open.contains("--tls"),
            "{open}"
        );
        for (lack, named) in [
            (UNSEALED, "--tls-certificate"),
            (ANYBODY_JOINS, "--token-file"),
        ] {
            let open = bind_unless(Some(lack), "--listen", everywhere).unwrap_err();
            assert!(open.to_string().contains(named), "{open}");
        }
        let bound = bind("--listen", ([127, 0, 0, 1], 0).into(), false).unwrap();
        let in_use = refusal(bound.local_addr().unwrap());
        assert!(in_use.contains("name another port"), "{in_use}");
    }

    /// If this fails, an empty file lets everybody in, or a line feed keeps a process out.
    #[test]
    fn a_token_is_the_text_of_its_file_and_is_not_empty() {
        let folder = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            let path = folder.path().join("token");
            std::fs::write(&path, text).unwrap();
            token(Some(&path))
        };
        assert_eq!(of("secret\n").unwrap(), of("secret").unwrap());
        assert_ne!(of("secret").unwrap(), of("another").unwrap());
        assert_ne!(of("secret").unwrap(), token(None).unwrap());
        assert!(of(" \n").unwrap_err().to_string().contains("empty"));
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
        drop(arrivals(folder.path(), "seed = 1\n".to_owned())(0).unwrap());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "secret");
        let found = std::fs::symlink_metadata(&path).unwrap();
        assert!(found.is_file());
        assert_eq!(found.permissions().mode() & 0o077, 0);
    }
}
