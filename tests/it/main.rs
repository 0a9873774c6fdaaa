//! Integration tests, one module for each behaviour.
#![allow(clippy::unwrap_used, clippy::expect_used)]

/// One input of the fuzz target `decode`, checked.
mod frame_case;
/// Hostile and damaged frames found interesting by fuzzing are still refused, sound ones still decoded.
mod frame_replay;
