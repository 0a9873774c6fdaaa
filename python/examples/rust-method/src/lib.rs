//! The Python package `fedrecsim` with one more method, which is written in Rust.

// The method is that of the example of a program. Yours is a file beside this one.
#[allow(dead_code)]
#[path = "../../../../examples/fedbpr/src/main.rs"]
mod fedbpr;

fedrecsim_python::module!(crate::fedbpr::ENTRY);
