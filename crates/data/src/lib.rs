//! Ratings and who rates: file formats, splits, candidates, devices, links, availability.

pub mod dataset;
mod fields;
mod lines;
pub mod population;
mod records;
