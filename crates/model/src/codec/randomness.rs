//! Names the random streams of codecs and privacy mechanisms, frame by frame.

use fedrecsim_core::rng::{Stream, Streams};

/// Names the random streams of one frame. No two frames of a run share one.
#[derive(Clone, Copy, Debug)]
pub struct Randomness {
    streams: Streams,
    /// The user's number, or `u64::MAX` for a frame that many receive.
    user: u64,
    /// The kind of frame in the upper half, and the number of its invitation or of its model's
    /// version in the lower.
    frame: u64,
}

impl Randomness {
    fn new(streams: Streams, user: Option<u32>, kind: u64, number: u32) -> Self {
        Self {
            streams,
            user: user.map_or(u64::MAX, u64::from),
            frame: kind << 32 | u64::from(number),
        }
    }

    /// Names the randomness of the upload that `user` makes for an invitation.
    pub fn of_upload(streams: Streams, user: u32, invitation_id: u32) -> Self {
        Self::new(streams, Some(user), 0, invitation_id)
    }

    /// Names the randomness of the request and the reply that `user` exchanges with a third party
    /// for an invitation.
    pub fn of_consultation(streams: Streams, user: u32, invitation_id: u32) -> Self {
        Self::new(streams, Some(user), 1, invitation_id)
    }

    /// Names the randomness of the download of a version of the model, for `user` or for all who
    /// share it.
    pub fn of_download(streams: Streams, user: Option<u32>, version: u32) -> Self {
        Self::new(streams, user, 2, version)
    }

    /// Names the randomness of the rows that `user` has asked for in a participation.
    pub fn of_rows(streams: Streams, user: u32, invitation_id: u32) -> Self {
        Self::new(streams, Some(user), 3, invitation_id)
    }

    /// Returns the stream of this name that all frames of the same user share.
    pub fn stream_of_user(&self, name: &str) -> Stream {
        self.streams.named(name, self.user, 0)
    }

    /// Returns the stream of this name, which should begin with the name of the codec or mechanism
    /// that uses it.
    pub fn stream(&self, name: &str) -> Stream {
        self.streams.named(name, self.user, self.frame)
    }
}
