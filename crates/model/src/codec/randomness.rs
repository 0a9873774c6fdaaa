//! Names the random streams of codecs and privacy mechanisms, frame by frame.

use fedrecsim_core::rng::{Stream, Streams};

/// Says what a frame is. The discriminant is a part of the names of its streams.
#[derive(Clone, Copy, Debug)]
pub enum FrameKind {
    /// The upload of an invitation.
    Upload = 0,
    /// The request or the reply of a consultation, for an invitation.
    Consultation = 1,
    /// The download of a version of the model, for one user or for all who share it.
    Download = 2,
    /// The rows that a user has asked for, for an invitation.
    Rows = 3,
}

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
    /// Names the randomness of a frame from or to `user`, or to many users. `number` is that of the
    /// invitation, or of the version of a download.
    pub fn new(streams: Streams, kind: FrameKind, user: Option<u32>, number: u32) -> Self {
        Self {
            streams,
            user: user.map_or(u64::MAX, u64::from),
            frame: (kind as u64) << 32 | u64::from(number),
        }
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
