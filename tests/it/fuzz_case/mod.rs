/// For the decoders of frames.
pub mod frame;
/// For the reader of ratings files.
pub mod ratings;
/// For the reader of scenario files.
pub mod scenario;
