//! Carries errors from the rank where they occur to rank 0, where they end the run as they would
//! have on one machine.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use fedrecsim_core::{Error, ErrorKind};
use fedrecsim_model::{Archive, ArchiveReader};

/// An error on its way. Only those that rank 0 treats in a special way travel as what they are.
#[derive(Serialize, Deserialize)]
enum Carried {
    Interrupted,
    Write { path: PathBuf, reason: String },
    Told { kind: ErrorKind, message: String },
}

/// Appends an error.
pub(crate) fn put(error: &Error, archive: &mut Archive) {
    archive.put(&match error {
        Error::Interrupted => Carried::Interrupted,
        Error::Write { path, source } => Carried::Write {
            path: path.clone(),
            reason: source.to_string(),
        },
        other => Carried::Told {
            kind: other.kind(),
            message: other.to_string(),
        },
    });
}

/// Returns the next error; where there is none, the reason for that.
pub(crate) fn take(archive: &mut ArchiveReader) -> Error {
    match archive.take() {
        Ok(Carried::Interrupted) => Error::Interrupted,
        Ok(Carried::Write { path, reason }) => Error::write(path, io::Error::other(reason)),
        Ok(Carried::Told { kind, message }) => Error::Told { kind, message },
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Cursor;

    use fedrecsim_core::{Round, UserId};

    use super::*;

    /// If this fails, a training that diverges on another machine ends the run with another error,
    /// or without a result.
    #[test]
    fn errors_say_on_rank_zero_what_they_said_where_they_occurred() {
        let errors = [
            Error::Diverged {
                round: Round(3),
                user: Some(UserId(7).into()),
                parameter: "C".into(),
                value: f32::INFINITY,
                limit: 1e6,
            },
            Error::Unscorable {
                user: UserId(2).into(),
                place: "a score".into(),
            },
            Error::Singular {
                round: None,
                user: Some(UserId(4).into()),
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
            matches!(take(&mut reader), Error::Unrestorable(_)),
            "there is no more"
        );
    }
}
