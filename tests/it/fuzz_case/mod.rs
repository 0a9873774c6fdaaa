/// Checks of the decoders of composed blocks and of frames of frames.
pub mod composed;
/// Checks of the frame decoders.
pub mod frame;
/// Checks of the reader of ratings files.
pub mod ratings;
/// Checks of the reader of requests for rows.
pub mod row_request;
/// Checks of the reader of scenario files.
pub mod scenario;
