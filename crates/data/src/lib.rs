//! Ratings and who rates: file formats, splits, candidates, devices, links, availability.

pub mod dataset;
pub mod population;
mod records;
