//! The messages between the server and a process with devices.
//!
//! A message is its length in four bytes, a head, and a payload that takes the rest: a frame as the
//! simulator has it, or a text. Beside its payload it takes 64 bytes at most after the greeting.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use fedrecsim_core::legs::Peer;
use fedrecsim_core::{ErrorKind, InvitationId, UserId};

/// The version of the protocol.
pub const PROTOCOL: u32 = 5;

/// The bytes of the length before a message.
pub(crate) const LENGTH_BYTES: usize = 4;

/// The largest message of a greeting, before the server has said what the largest frame is.
pub(crate) const LARGEST_GREETING: u32 = 1 << 20;

/// A digest of what both sides must have alike.
pub type Digest = [u8; blake3::OUT_LEN];

/// A message: a head, and a payload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub head: Head,
    pub payload: Bytes,
}

/// The kind of a message, with what is said besides its payload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Head {
    /// A process says who it is.
    Hello {
        protocol: u32,
        token: Digest,
        build: Digest,
    },
    /// The server offers a scenario, whose text is the payload, names the largest message, and says
    /// whether trainings are paced and checkpoints are left.
    Offer {
        largest: u32,
        pace: bool,
        keeps: bool,
    },
    /// The process has read the scenario and its ratings, and has these users, who have been in a run
    /// of this number before.
    Join {
        scenario: Digest,
        data: Digest,
        first: u32,
        end: u32,
        run: u64,
    },
    /// The process takes part.
    Welcome,
    /// The process may not take part, for the reason in the payload.
    Refusal,
    /// A user is invited; the payload is its download.
    Invite {
        to: To,
        step: u32,
        number: u32,
        phase: u8,
    },
    /// The download or the reply has come.
    Received { to: To },
    /// A request to a peer of the device is the payload.
    Request { to: To, peer: Peer, made: Made },
    /// The reply to a request is the payload.
    Reply { to: To },
    /// The upload is the payload.
    Upload { to: To, made: Made, loss: f64 },
    /// The training failed, for the reason in the payload.
    Failed { to: To, kind: ErrorKind },
    /// The server has the upload, and the training takes effect.
    Taken { to: To },
    /// The participation is over without effect.
    Cancel { to: To },
    /// A question about what users score or keep is the payload.
    Question,
    /// The answer to it is the payload.
    Answer,
    /// The sender is there.
    Heartbeat,
    /// The server: the run is over. A process: its devices cannot begin as the server asks.
    Bye,
}

/// A participation: the user and the number of its invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct To {
    pub user: u32,
    pub invitation: u32,
}

/// A user, and the number of its invitation.
pub(crate) type Participant = (UserId, InvitationId);

/// Names a participation in a message.
pub(crate) fn to((user, invitation): Participant) -> To {
    To {
        user: user.0,
        invitation: invitation.0,
    }
}

/// What it took to make a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Made {
    pub row_visits: u64,
    pub multiply_adds: u64,
    pub took_ns: u64,
    /// The bytes of the frame's header and index. The others are values.
    pub header: u32,
    pub index: u32,
}

/// Why something is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

impl Message {
    pub(crate) fn new(head: Head) -> Self {
        let payload = Bytes::new();
        Self { head, payload }
    }

    pub(crate) fn with(head: Head, payload: impl Into<Bytes>) -> Self {
        let payload = payload.into();
        Self { head, payload }
    }

    /// Returns the bytes before the payload; `None` for a message whose length does not fit.
    pub(crate) fn beginning(&self) -> Option<Vec<u8>> {
        let head = postcard::to_stdvec(&self.head).ok()?;
        let length = u32::try_from(head.len() + self.payload.len()).ok()?;
        Some([&length.to_le_bytes()[..], &head].concat())
    }

    /// Reads a message without its length.
    pub(crate) fn read(bytes: Bytes) -> Result<Self, Nonsense> {
        let (head, rest): (Head, &[u8]) =
            postcard::take_from_bytes(&bytes).map_err(|_| Nonsense)?;
        let payload = bytes.slice(bytes.len() - rest.len()..);
        Ok(Self { head, payload })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn heads() -> impl Strategy<Value = Head> {
        let to =
            (any::<u32>(), any::<u32>()).prop_map(|(user, invitation)| To { user, invitation });
        let made = (any::<[u64; 3]>(), any::<[u32; 2]>()).prop_map(|(long, short)| Made {
            row_visits: long[0],
            multiply_adds: long[1],
            took_ns: long[2],
            header: short[0],
            index: short[1],
        });
        prop_oneof![
            (to.clone(), any::<[u32; 2]>(), any::<u8>()).prop_map(|(to, [step, number], phase)| {
                Head::Invite {
                    to,
                    step,
                    number,
                    phase,
                }
            }),
            to.clone().prop_map(|to| Head::Received { to }),
            to.clone().prop_map(|to| Head::Cancel { to }),
            to.clone().prop_map(|to| Head::Taken { to }),
            (to.clone(), made.clone()).prop_map(|(to, made)| Head::Request {
                to,
                peer: Peer::ThirdParty,
                made
            }),
            (to, made, -1e9..1e9).prop_map(|(to, made, loss)| Head::Upload { to, made, loss }),
            Just(Head::Bye),
        ]
    }

    proptest! {
        /// If this fails, a peer reads something else than was written, or a message takes more
        /// beside its frame than the protocol says.
        #[test]
        fn a_message_is_read_as_it_was_written(head in heads(), payload in prop::collection::vec(any::<u8>(), 0..99)) {
            let message = Message::with(head, payload);
            let beginning = message.beginning().unwrap();
            prop_assert!(beginning.len() <= 64, "{}", beginning.len());
            let whole = [&beginning[LENGTH_BYTES..], &message.payload].concat();
            let length = u32::from_le_bytes([beginning[0], beginning[1], beginning[2], beginning[3]]);
            prop_assert_eq!(length as usize, whole.len());
            prop_assert_eq!(Message::read(whole.into()).unwrap(), message);
        }

        /// If this fails, bytes from a connection end the process that reads them.
        #[test]
        fn nonsense_is_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = Message::read(bytes.into());
        }
    }
}
