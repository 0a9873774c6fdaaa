/// Checks of the frame decoders.
pub mod frame;
/// Checks of the reader of ratings files.
pub mod ratings;
/// Checks of the reader of scenario files.
pub mod scenario;
