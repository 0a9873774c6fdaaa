//! From a run record to files: JSON, CSV, Markdown, SVG.

pub mod record;
