//! What the coordinator was told, as a file with a line for each event.
//!
//! The first line names the scenario, and the last one has a digest of all lines before it. So a
//! file of another run, one that was cut off and one that was edited are told apart from a run
//! that comes to something else.

use std::io::{self, BufRead, Read, Write};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Event, Sent, Told};
use crate::invitation::Participant;
use fedrecsim_core::legs::Peer;
use fedrecsim_core::work::Work;
use fedrecsim_core::{Error, InvitationId, Result, SimTime, UserId};

/// The name of the file in a report folder.
pub const ARRIVALS_FILE: &str = "arrivals.jsonl";

/// The version of the format.
const FORMAT: u32 = 1;

/// A line of the file. Instants are nanoseconds since the first round began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Line {
    Run {
        format: u32,
        scenario: String,
    },
    Round {
        at: u64,
    },
    Alarm {
        at: u64,
    },
    Received {
        at: u64,
        user: u32,
        invitation: u32,
    },
    Asked {
        at: u64,
        user: u32,
        invitation: u32,
        peer: Peer,
        made: Made,
    },
    Uploaded {
        at: u64,
        user: u32,
        invitation: u32,
        made: Made,
        loss: f64,
    },
    Lost {
        at: u64,
        user: u32,
        invitation: u32,
    },
    /// The devices of these users begin anew, before they are scored after the last round or later.
    Anew {
        at: u64,
        first: u32,
        end: u32,
        scored: bool,
    },
    End {
        at: u64,
        digest: String,
    },
}

/// What a device has made: a frame, and what it took. The frame itself is not in the file, as the
/// replay makes it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Made {
    pub row_visits: u64,
    pub multiply_adds: u64,
    pub took_ns: u64,
    pub frame_bytes: u64,
    /// The beginning of the frame's digest.
    pub frame: String,
}

impl Made {
    fn of(sent: &Sent) -> Self {
        let Work {
            row_visits,
            multiply_adds,
        } = sent.work;
        Self {
            row_visits,
            multiply_adds,
            took_ns: sent.took_ns,
            frame_bytes: sent.frame.bytes.len() as u64,
            frame: blake3::hash(&sent.frame.bytes).to_hex()[..16].to_owned(),
        }
    }

    /// Gives what a replay has made the time that it took; `None` if it has made something else.
    pub(super) fn timed(&self, sent: Sent) -> Option<Sent> {
        let took_ns = self.took_ns;
        let sent = Sent { took_ns, ..sent };
        (Self::of(&sent) == *self).then_some(sent)
    }
}

impl Line {
    /// Returns the line of an event; `None` for one that ends the run with an error.
    fn of(at: SimTime, event: &Event) -> Option<Self> {
        let at = at.as_nanos();
        let Event::Of((user, invitation), told) = event else {
            return Some(Self::Alarm { at });
        };
        let (user, invitation) = (user.0, invitation.0);
        Some(match told {
            Told::Received => Self::Received {
                at,
                user,
                invitation,
            },
            Told::Asked(peer, sent) => Self::Asked {
                at,
                user,
                invitation,
                peer: *peer,
                made: Made::of(sent),
            },
            Told::Uploaded(sent, loss) => Self::Uploaded {
                at,
                user,
                invitation,
                made: Made::of(sent),
                loss: *loss,
            },
            Told::Lost => Self::Lost {
                at,
                user,
                invitation,
            },
            Told::Failed(_) => return None,
        })
    }

    /// Returns the participation that the line is about.
    pub(super) fn participant(&self) -> Option<Participant> {
        match self {
            Self::Received {
                user, invitation, ..
            }
            | Self::Asked {
                user, invitation, ..
            }
            | Self::Uploaded {
                user, invitation, ..
            }
            | Self::Lost {
                user, invitation, ..
            } => Some((UserId(*user), InvitationId(*invitation))),
            Self::Run { .. }
            | Self::Round { .. }
            | Self::Alarm { .. }
            | Self::Anew { .. }
            | Self::End { .. } => None,
        }
    }
}

/// Writes the file as events come.
pub struct Arrivals {
    to: Box<dyn Write>,
    digest: blake3::Hasher,
    /// The bytes that were written.
    bytes: u64,
}

impl Arrivals {
    /// Begins a file for a run of `scenario`, which is the resolved text.
    ///
    /// # Errors
    /// Those of writing.
    pub fn begin(to: Box<dyn Write>, scenario: &str) -> Result<Self> {
        let digest = blake3::Hasher::new();
        let bytes = 0;
        let mut begun = Self { to, digest, bytes };
        begun.put(&Line::Run {
            format: FORMAT,
            scenario: digest_of(scenario),
        })?;
        Ok(begun)
    }

    /// Goes on with a file that has these lines.
    ///
    /// # Errors
    /// Those of reading.
    pub fn go_on(to: Box<dyn Write>, lines: impl Read) -> io::Result<Self> {
        let mut digest = blake3::Hasher::new();
        digest.update_reader(lines)?;
        let bytes = digest.count();
        Ok(Self { to, digest, bytes })
    }

    /// Returns how long the file is, with what is not on the disk yet.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns how long the file is, with all of it written.
    ///
    /// # Errors
    /// Those of writing.
    pub(super) fn flush(&mut self) -> Result<u64> {
        self.to.flush().map_err(|reason| unwritten(&reason))?;
        Ok(self.bytes)
    }

    pub(super) fn round(&mut self, at: SimTime) -> Result<()> {
        self.put(&Line::Round { at: at.as_nanos() })
    }

    pub(super) fn anew(&mut self, at: SimTime, users: &Range<u32>, scored: bool) -> Result<()> {
        let at = at.as_nanos();
        let (first, end) = (users.start, users.end);
        self.put(&Line::Anew {
            at,
            first,
            end,
            scored,
        })
    }

    pub(super) fn event(&mut self, at: SimTime, event: &Event) -> Result<()> {
        Line::of(at, event).map_or(Ok(()), |line| self.put(&line))
    }

    /// Ends the file.
    pub(super) fn end(mut self, at: SimTime) -> Result<()> {
        let digest = self.digest.finalize().to_hex().to_string();
        let at = at.as_nanos();
        self.put(&Line::End { at, digest })?;
        self.flush().map(drop)
    }

    fn put(&mut self, line: &Line) -> Result<()> {
        let text = serde_json::to_string(line).map_err(|reason| unwritten(&reason.into()))? + "\n";
        self.digest.update(text.as_bytes());
        self.bytes += text.len() as u64;
        self.to
            .write_all(text.as_bytes())
            .map_err(|reason| unwritten(&reason))
    }
}

/// Returns a digest of a scenario that does not depend on the order of keys, which is another one
/// where a report's scenario is read again.
fn digest_of(scenario: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    match scenario.parse::<toml::Table>() {
        Ok(table) => list(&toml::Value::Table(table), "", &mut lines),
        Err(_) => lines.push(scenario.to_owned()),
    }
    lines.sort_unstable();
    blake3::hash(lines.join("\n").as_bytes())
        .to_hex()
        .to_string()
}

/// Lists the values in `value`, each with its path.
fn list(value: &toml::Value, path: &str, lines: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                list(value, &format!("{path}.{key}"), lines);
            }
        }
        toml::Value::Array(all) => {
            for (place, value) in all.iter().enumerate() {
                list(value, &format!("{path}.{place}"), lines);
            }
        }
        value => lines.push(format!("{path} = {value}")),
    }
}

fn unwritten(reason: &io::Error) -> Error {
    Error::Usage(format!(
        "cannot write {ARRIVALS_FILE}: {reason}; make room on the disk, or name another folder with --out"
    ))
}

/// The events of a file, each with the number of its line.
#[derive(Debug)]
pub struct Recorded {
    name: String,
    pub(super) lines: Vec<Line>,
}

impl Recorded {
    /// Reads the file that is called `name`, of a run of `scenario`.
    ///
    /// # Errors
    /// [`Error::Usage`] for a file of another scenario, one that ends too early and one that was
    /// edited, with the line and what to do.
    pub fn read(name: &str, file: impl BufRead, scenario: &str) -> Result<Self> {
        let mut read = Self {
            name: name.to_owned(),
            lines: Vec::new(),
        };
        let mut digest = blake3::Hasher::new();
        for text in file.split(b'\n') {
            let text = text.map_err(|reason| Error::Usage(format!("{name}: {reason}")))?;
            let ends = matches!(read.lines.last(), Some(Line::End { .. }));
            let line = match serde_json::from_slice(&text) {
                Ok(line) if !ends => line,
                Ok(_) => return Err(read.refused("nothing follows the end of a run")),
                Err(reason) => {
                    let reason = format!("it is no event: {reason}");
                    return Err(read.refused(&reason));
                }
            };
            match &line {
                Line::Run { .. } if read.lines.is_empty() => {
                    read.check_beginning(&line, scenario)?
                }
                Line::Run { .. } => return Err(read.refused("another run begins in the middle")),
                _ if read.lines.is_empty() => return Err(read.refused("it does not name a run")),
                Line::End { digest: said, .. } if digest.finalize().to_hex().as_str() != said => {
                    return Err(read.refused("the lines before it were edited"));
                }
                _ => {}
            }
            digest.update(&text);
            digest.update(b"\n");
            read.lines.push(line);
        }
        match read.lines.last() {
            Some(Line::End { .. }) => Ok(read),
            _ => Err(read.refused("the file is cut off, since its last line ends no run")),
        }
    }

    fn check_beginning(&self, line: &Line, own: &str) -> Result<()> {
        let Line::Run { format, scenario } = line else {
            return Ok(());
        };
        if *format != FORMAT {
            let reason = format!("its format is {format}, and this program reads {FORMAT}");
            return Err(self.refused(&reason));
        }
        if *scenario != digest_of(own) {
            return Err(self.refused(
                "it is of a run of another scenario; give the scenario.toml that is beside it, with \
                 the same --set and --seed",
            ));
        }
        Ok(())
    }

    /// Returns the error of the line after those that were read.
    fn refused(&self, reason: &str) -> Error {
        self.at(self.lines.len(), reason)
    }

    /// Returns an error about the line at this place.
    pub(super) fn at(&self, place: usize, reason: &str) -> Error {
        let (name, line) = (&self.name, place + 1);
        Error::Usage(format!(
            "{name}:{line}: {reason}; replay the {ARRIVALS_FILE} that `serve` wrote, unchanged"
        ))
    }
}
