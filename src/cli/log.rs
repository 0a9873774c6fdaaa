//! The log of `serve`: a JSON object for each event, on a line of its own.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::Session;
use crate::{Error, Result};
use fedrecsim_deploy::News;
use fedrecsim_sim::Outcome;

/// A file that events are appended to.
pub(super) struct Log {
    path: PathBuf,
    /// The file; `None` once it could not be written.
    file: Option<File>,
    /// The last round that was over.
    rounds: u32,
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'l> {
    /// When it was written, by the clock of the host.
    unix_s: f64,
    #[serde(flatten)]
    event: Event<'l>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event<'l> {
    Listening {
        address: String,
    },
    Joined {
        users: String,
    },
    Left {
        users: String,
        reason: &'l str,
    },
    /// A peer that was not one of the processes was refused or cut off.
    CutOff {
        reason: &'l str,
    },
    BeginsAnew {
        users: String,
    },
    Waiting {
        users: &'l str,
    },
    Complete,
    Round {
        round: u32,
        aggregated: u32,
        late: u32,
        lost: u32,
        bytes_up: u64,
        bytes_down: u64,
    },
    Checkpoint {
        round: u32,
    },
    End {
        rounds: u32,
        /// What ended the run before its last round.
        error: Option<String>,
    },
}

impl Log {
    /// Opens the file of this name, and says where the server listens.
    ///
    /// # Errors
    /// [`Error::Write`] if it cannot be opened.
    pub(super) fn open(path: &Path, address: SocketAddr, session: &Session) -> Result<Self> {
        let mut options = File::options();
        options.create(true).append(true);
        // It says when which users were there.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let opened = options.open(path);
        let file = opened.map_err(|reason| Error::write(path, reason))?;
        let mut log = Self {
            path: path.to_owned(),
            file: Some(file),
            rounds: 0,
        };
        let address = address.to_string();
        log.put(Event::Listening { address }, session);
        Ok(log)
    }

    /// Writes what the server has said.
    pub(super) fn hear(&mut self, news: &News<'_>, session: &Session) {
        if let News::Round(record, _) = news {
            self.rounds = record.round;
        }
        let event = match news {
            News::Joined(users) => Event::Joined {
                users: listed(users),
            },
            News::Left(users, reason) => Event::Left {
                users: listed(users),
                reason,
            },
            News::CutOff(reason) => Event::CutOff { reason },
            News::BeginsAnew(users) => Event::BeginsAnew {
                users: listed(users),
            },
            News::WaitsFor(users) => Event::Waiting { users },
            News::Complete => Event::Complete,
            News::Round(record, total) => Event::Round {
                round: record.round,
                aggregated: record.aggregated,
                late: record.late,
                lost: record.lost,
                bytes_up: total.up.sent,
                bytes_down: total.down.sent,
            },
            News::Checkpoint(round) => Event::Checkpoint { round: *round },
        };
        self.put(event, session);
    }

    /// Writes how the run has ended.
    pub(super) fn end(&mut self, outcome: &Result<Outcome>, session: &Session) {
        let (rounds, error) = match outcome {
            Ok(outcome) => (outcome.rounds.len() as u32, outcome.stopped_by.as_ref()),
            // An error leaves no outcome, and the rounds were there.
            Err(error) => (self.rounds, Some(error)),
        };
        let error = error.map(ToString::to_string);
        self.put(Event::End { rounds, error }, session);
    }

    /// Appends a line. A log that cannot be written does not end a run.
    fn put(&mut self, event: Event<'_>, session: &Session) {
        let Some(file) = &mut self.file else { return };
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix_s = since.unwrap_or_default().as_secs_f64();
        let written = serde_json::to_string(&Line { unix_s, event })
            .map_err(Into::into)
            // One write for a line, so that one that was cut off is the last.
            .and_then(|line| file.write_all((line + "\n").as_bytes()));
        if let Err(reason) = written {
            self.file = None;
            session.warn(&format!(
                "cannot write the log {}: {reason}; the run goes on without it",
                self.path.display()
            ));
        }
    }
}

/// Returns users as the command line names them.
fn listed(users: &Range<u32>) -> String {
    format!("{}..{}", users.start, users.end - 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Mutex;

    use serde_json::{Value, json};

    use super::*;
    use fedrecsim_sim::outcome::{ByDirection, Flow, RoundRecord};

    /// If this fails, a program that reads the log does not find out what has happened, or a reason
    /// that a peer has worded breaks a line.
    #[test]
    fn every_event_is_an_object_on_a_line_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        std::fs::write(&path, "{\"event\":\"end\"}\n").unwrap();
        let session = Session::new(&[]);
        let mut log = Log::open(&path, ([127, 0, 0, 1], 7000).into(), &session).unwrap();
        let record = RoundRecord {
            round: 3,
            aggregated: 15,
            late: 2,
            lost: 1,
            ..RoundRecord::default()
        };
        let mut total = ByDirection::<Flow>::default();
        (total.up.sent, total.down.sent) = (4096, 512);
        for news in [
            News::WaitsFor("0..9"),
            News::Joined(0..10),
            News::Complete,
            News::Left(0..10, "a \"reason\"\nof a peer"),
            News::CutOff("nonsense"),
            News::BeginsAnew(0..10),
            News::Round(&record, &total),
            News::Checkpoint(3),
        ] {
            log.hear(&news, &session);
        }
        log.end(&Err(Error::Interrupted), &session);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for line in &mut lines[1..] {
            let at = line.as_object_mut().unwrap().remove("unix_s").unwrap();
            assert!(at.as_f64().unwrap() > 1.7e9, "{at}");
        }
        let expected = [
            json!({ "event": "end" }),
            json!({ "event": "listening", "address": "127.0.0.1:7000" }),
            json!({ "event": "waiting", "users": "0..9" }),
            json!({ "event": "joined", "users": "0..9" }),
            json!({ "event": "complete" }),
            json!({ "event": "left", "users": "0..9", "reason": "a \"reason\"\nof a peer" }),
            json!({ "event": "cut-off", "reason": "nonsense" }),
            json!({ "event": "begins-anew", "users": "0..9" }),
            json!({ "event": "round", "round": 3, "aggregated": 15, "late": 2, "lost": 1,
                "bytes_up": 4096, "bytes_down": 512 }),
            json!({ "event": "checkpoint", "round": 3 }),
            json!({ "event": "end", "rounds": 3, "error": Error::Interrupted.to_string() }),
        ];
        assert_eq!(lines, expected);
    }

    /// If this fails, a disk that is full ends a run for want of its log, or nobody learns of it.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_log_that_cannot_be_written_is_named_once_and_ends_nothing() {
        let told = Mutex::new(Vec::new());
        let tell = |line: &str| told.lock().unwrap().push(line.to_owned());
        let session = Session {
            tell: Some(&tell),
            ..Session::new(&[])
        };
        // This device is always full.
        let full = Path::new("/dev/full");
        let mut log = Log::open(full, ([127, 0, 0, 1], 7000).into(), &session).unwrap();
        log.hear(&News::Complete, &session);
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("/dev/full"), "{told:?}");
    }
}
