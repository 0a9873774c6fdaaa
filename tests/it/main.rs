//! The integration tests: one binary, one module per behaviour.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

/// One input of the fuzz target `decode`, checked.
mod frame_case;
/// Hostile and damaged frames are still refused, sound ones still decoded.
mod frame_replay;
/// Training replays the recordings of the authors' code.
mod parity;
