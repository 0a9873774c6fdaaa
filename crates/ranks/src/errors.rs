//! Carries errors from the rank where they occur to rank 0, where they end the run as they would
//! have on one machine.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use fedrecsim_core::error::Error;
use fedrecsim_core::ids::{Round, UserId};
use fedrecsim_model::model::archive::{Archive, ArchiveReader};

/// An error on its way. Kinds that no training, scoring or saving ends with travel as their text.
#[derive(Serialize, Deserialize)]
enum Carried {
    Usage(String),
    Memory(String),
    Dataset(String),
    Frame(String),
    Update(String),
    Checkpoint(String),
    Diverged {
        round: Round,
        user: Option<UserId>,
        parameter: Cow<'static, str>,
        value: f32,
        limit: f32,
    },
    Unscorable {
        user: UserId,
        place: Cow<'static, str>,
    },
    Singular {
        round: Option<Round>,
        user: Option<UserId>,
        system: Cow<'static, str>,
        cause: String,
    },
    Unrepresentable {
        place: String,
        value: f32,
        reason: Cow<'static, str>,
    },
    Write {
        path: PathBuf,
        reason: String,
    },
    Read {
        path: PathBuf,
        reason: String,
    },
    Interrupted,
    Actor(String),
    Other(String),
}

/// Appends an error.
pub(crate) fn put(error: &Error, archive: &mut Archive) {
    archive.put(&match error {
        Error::Usage(text) => Carried::Usage(text.clone()),
        Error::Memory(text) => Carried::Memory(text.clone()),
        Error::Dataset(text) => Carried::Dataset(text.clone()),
        Error::Frame(text) => Carried::Frame(text.clone()),
        Error::Update(text) => Carried::Update(text.clone()),
        Error::Checkpoint(text) => Carried::Checkpoint(text.clone()),
        Error::Diverged {
            round,
            user,
            parameter,
            value,
            limit,
        } => Carried::Diverged {
            round: *round,
            user: *user,
            parameter: parameter.clone(),
            value: *value,
            limit: *limit,
        },
        Error::Unscorable { user, place } => Carried::Unscorable {
            user: *user,
            place: place.clone(),
        },
        Error::Singular {
            round,
            user,
            system,
            cause,
        } => Carried::Singular {
            round: *round,
            user: *user,
            system: system.clone(),
            cause: cause.clone(),
        },
        Error::Unrepresentable {
            place,
            value,
            reason,
        } => Carried::Unrepresentable {
            place: place.clone(),
            value: *value,
            reason: reason.clone(),
        },
        Error::Write { path, source } => Carried::Write {
            path: path.clone(),
            reason: source.to_string(),
        },
        Error::Read { path, reason } => Carried::Read {
            path: path.clone(),
            reason: reason.clone(),
        },
        Error::Interrupted => Carried::Interrupted,
        Error::Actor { reason, .. } => Carried::Actor(reason.clone()),
        other => Carried::Other(other.to_string()),
    });
}

/// Returns the next error; where there is none, the reason for that.
pub(crate) fn take(archive: &mut ArchiveReader) -> Error {
    let carried = match archive.take() {
        Ok(carried) => carried,
        Err(error) => return error,
    };
    match carried {
        Carried::Usage(text) => Error::Usage(text),
        Carried::Memory(text) => Error::Memory(text),
        Carried::Dataset(text) => Error::Dataset(text),
        Carried::Frame(text) => Error::Frame(text),
        Carried::Update(text) => Error::Update(text),
        Carried::Checkpoint(text) => Error::Checkpoint(text),
        Carried::Diverged {
            round,
            user,
            parameter,
            value,
            limit,
        } => Error::Diverged {
            round,
            user,
            parameter,
            value,
            limit,
        },
        Carried::Unscorable { user, place } => Error::Unscorable { user, place },
        Carried::Singular {
            round,
            user,
            system,
            cause,
        } => Error::Singular {
            round,
            user,
            system,
            cause,
        },
        Carried::Unrepresentable {
            place,
            value,
            reason,
        } => Error::Unrepresentable {
            place,
            value,
            reason,
        },
        Carried::Interrupted => Error::Interrupted,
        Carried::Write { path, reason } => Error::write(path, io::Error::other(reason)),
        Carried::Read { path, reason } => Error::read(path, reason),
        Carried::Actor(reason) | Carried::Other(reason) => Error::Actor {
            actor: "workers",
            reason,
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Cursor;

    use super::*;

    /// If this fails, a training that diverges on another machine ends the run with another error,
    /// or without a result.
    #[test]
    fn errors_say_on_rank_zero_what_they_said_where_they_occurred() {
        let errors = [
            Error::Diverged {
                round: Round(3),
                user: Some(UserId(7)),
                parameter: "C".into(),
                value: f32::INFINITY,
                limit: 1e6,
            },
            Error::Unscorable {
                user: UserId(2),
                place: "a score".into(),
            },
            Error::Singular {
                round: None,
                user: Some(UserId(4)),
                system: "the user vector".into(),
                cause: "pivot 3 is 0".to_owned(),
            },
            Error::Unrepresentable {
                place: "C".to_owned(),
                value: 1e30,
                reason: "must be small".into(),
            },
            Error::Dataset("no negatives".to_owned()),
            Error::Memory("none".to_owned()),
            Error::Frame("damaged".to_owned()),
            Error::Interrupted,
        ];
        let mut archive = Archive::default();
        errors.iter().for_each(|error| put(error, &mut archive));
        let mut reader = ArchiveReader::new(Box::new(Cursor::new(archive.take().unwrap())));
        for error in errors {
            let arrived = take(&mut reader);
            assert_eq!(
                (arrived.to_string(), arrived.kind()),
                (error.to_string(), error.kind())
            );
        }
        assert!(
            matches!(take(&mut reader), Error::Checkpoint(_)),
            "there is no more"
        );
    }
}
