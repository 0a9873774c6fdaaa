//! The integration tests: one binary, one module per behaviour.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

/// Training replays the recordings of the authors' code.
mod parity;
