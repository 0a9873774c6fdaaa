//! Runs tests with a mutant switched on, until one of them fails.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::weave::VARIABLE;

/// The most memory that a test binary may take, in kB: a mutant that allocates without end must not
/// take the machine with it.
const MEMORY_KB: u32 = 8_000_000;

/// How the tests of a binary ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All tests passed.
    Passed,
    /// This test failed, or the binary ended in this way.
    Failed(String),
    /// The time limit was reached.
    TimedOut,
}

/// Where tests run.
pub struct Place {
    /// The folder of the copy, in which tests look for files.
    pub copy: PathBuf,
    /// A folder for the temporary files of tests, which is emptied after each run.
    pub scratch: PathBuf,
}

/// A choice of tests by parts of their names; the default is all of them.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only tests whose name has one of these parts are run, unless there are none.
    pub of: Vec<String>,
    /// Tests whose name has one of these parts are not run.
    pub but: Vec<String>,
}

/// One run of tests.
pub struct Run<'a> {
    /// The test binary.
    pub binary: &'a Path,
    /// The tests of the binary to run.
    pub choice: &'a Choice,
    /// The mutant that is on.
    pub mutant: Option<usize>,
    /// The time after which the run is ended.
    pub limit: Duration,
}

impl Place {
    /// Runs tests until the first one fails. Returns how they ended, and how long that took.
    ///
    /// # Errors
    ///
    /// Returns an error if the binary cannot be started.
    pub fn run(&self, run: &Run) -> Result<(End, Duration)> {
        std::fs::create_dir_all(&self.scratch)?;
        let start = Instant::now();
        let mut command = Command::new("/bin/sh");
        command
            .args([
                "-c",
                &format!("ulimit -v {MEMORY_KB}; ulimit -c 0; exec \"$0\" \"$@\""),
            ])
            .arg(run.binary);
        command.args(&run.choice.of);
        command.args(run.choice.but.iter().flat_map(|part| ["--skip", part]));
        // Proptest draws what it draws in every run, and neither it nor insta writes files.
        command
            .env("INSTA_UPDATE", "no")
            .env("CI", "true")
            .env("PROPTEST_RNG_SEED", "1");
        command
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
            .env("TMPDIR", &self.scratch);
        command
            .env("CARGO_MANIFEST_DIR", &self.copy)
            .env_remove(VARIABLE);
        if let Some(mutant) = run.mutant {
            command.env(VARIABLE, mutant.to_string());
        }
        // A group of its own, so that programs that tests start end with it.
        command
            .current_dir(&self.copy)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        let mut child = command
            .spawn()
            .with_context(|| format!("{} cannot be started", run.binary.display()))?;
        let end = watch(&mut child, start + run.limit)?;
        // What is left of the group has nobody to end it. It is an error if nothing is left, and
        // then all is well.
        let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
        child.wait()?;
        let _ = std::fs::remove_dir_all(&self.scratch);
        Ok((end, start.elapsed()))
    }
}

/// Reads what the tests print, until one fails, all have passed, or the time is over.
fn watch(child: &mut Child, deadline: Instant) -> Result<End> {
    let output = child
        .stdout
        .take()
        .context("the output of the tests is not there")?;
    let (sender, lines) = mpsc::channel();
    // The thread ends with the output, which the end of the processes closes.
    std::thread::spawn(move || {
        for line in BufReader::new(output)
            .split(b'\n')
            .map_while(std::io::Result::ok)
        {
            if sender
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                return;
            }
        }
    });
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if let Some(test) = failed(&line) {
                    return Ok(End::Failed(test.to_owned()));
                }
            }
            Err(RecvTimeoutError::Timeout) => return Ok(End::TimedOut),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // The output may be closed some time before the end.
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(End::Passed),
            Some(status) => return Ok(End::Failed(format!("the tests ended with {status}"))),
            None if Instant::now() > deadline => return Ok(End::TimedOut),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Returns the test of which a line of the test harness says that it failed.
fn failed(line: &str) -> Option<&str> {
    let (test, _) = line
        .strip_prefix("test ")?
        .strip_suffix("FAILED")?
        .split_once(" ... ")?;
    Some(test.trim_end_matches(" - should panic"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script as if it were a test binary.
    fn run(script: &str, limit_ms: u64) -> End {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("binary");
        std::fs::write(&binary, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mut permissions = std::fs::metadata(&binary).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
        std::fs::set_permissions(&binary, permissions).unwrap();
        let place = Place {
            copy: folder.path().to_owned(),
            scratch: folder.path().join("scratch"),
        };
        let choice = Choice {
            of: vec!["sim::".to_owned()],
            but: vec!["sim::slow".to_owned()],
        };
        let limit = Duration::from_millis(limit_ms);
        let run = Run {
            binary: &binary,
            choice: &choice,
            mutant: Some(17),
            limit,
        };
        let (end, _) = place.run(&run).unwrap();
        assert!(!place.scratch.exists(), "temporary files are gone");
        end
    }

    #[test]
    fn the_tests_run_with_the_mutant_and_pass_or_fail() {
        let conditions = format!(
            "[ ${VARIABLE} = 17 ] && [ \"$*\" = 'sim:: --skip sim::slow' ] && [ $INSTA_UPDATE = no ] && [ -d $TMPDIR ]"
        );
        assert_eq!(run(&conditions, 60_000), End::Passed);
        let end = run(
            "echo 'test a::b ... ok'; echo 'test c::d ... FAILED'; sleep 600",
            60_000,
        );
        assert_eq!(
            end,
            End::Failed("c::d".to_owned()),
            "nothing waits for the tests after it"
        );
        assert!(matches!(run("exit 101", 60_000), End::Failed(how) if how.contains("101")));
        assert!(
            matches!(run("kill -ABRT $$", 60_000), End::Failed(how) if how.contains("signal: 6"))
        );
    }

    #[test]
    fn tests_that_do_not_end_are_ended_with_what_they_started() {
        assert_eq!(run("sleep 600 & sleep 600", 50), End::TimedOut);
    }

    #[test]
    fn only_the_harness_says_that_a_test_failed() {
        assert_eq!(failed("test a::b ... FAILED"), Some("a::b"));
        assert_eq!(failed("test a::b - should panic ... FAILED"), Some("a::b"));
        assert_eq!(failed("test a::b ... ok"), None);
        assert_eq!(failed("test result: FAILED. 1 passed; 1 failed"), None);
    }
}
