//! The native part of the Python package `fedrecsim`: scenarios, runs, simulations, studies and
//! methods in Python, by the types of the simulator.
//!
//! What users see is written in Python (`fedrecsim/`); this module has what needs the simulator.
//! `inputs` reads scenarios, and `ratings` takes ratings in memory, whose values `cells` writes. `run` and `simulation` carry them out, and `watch` looks for Ctrl-C
//! meanwhile. `report` is what remains, with its tables in `table`. `study` has studies and the
//! command, `method` the methods that are written in Python, and `metrics` measures predictions.
//! A package with methods of its own in Rust makes the module by [`module!`].

use fedrecsim_methods::Entry;
use pyo3::prelude::*;

mod arrays;
mod attached;
mod cells;
mod error;
pub mod events;
pub mod inputs;
pub mod method;
pub mod metrics;
pub mod ratings;
pub mod report;
pub mod run;
mod running;
pub mod simulation;
pub mod study;
pub mod table;
pub mod testing;
mod vectors;
pub mod watch;

/// Makes the native module `fedrecsim._native` with these methods beside those of the simulator.
#[macro_export]
macro_rules! module {
    ($($entry:expr),*) => {
        #[::pyo3::pymodule]
        mod _native {
            use ::pyo3::prelude::*;

            #[pymodule_export]
            use $crate::events::events;
            #[pymodule_export]
            use $crate::inputs::{Start, estimate, explain, inline_of_json, resolve, toml_of_json};
            #[pymodule_export]
            use $crate::method::{MethodEntry, Received, Task, builtin_methods};
            #[pymodule_export]
            use $crate::metrics::{means_of_lists, means_of_scores};
            #[pymodule_export]
            use $crate::ratings::Ratings;
            #[pymodule_export]
            use $crate::report::Report;
            #[pymodule_export]
            use $crate::run::run;
            #[pymodule_export]
            use $crate::simulation::Simulation;
            #[pymodule_export]
            use $crate::study::{
                Held, compare, main, study_carry_out, study_here, study_prepare, study_runs, study_tables,
            };
            #[pymodule_export]
            use $crate::table::Table;
            #[pymodule_export]
            use $crate::testing::contract;
            #[pymodule_export]
            use $crate::watch::end_all;

            #[pymodule_init]
            fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
                $crate::begin(module, &[$($entry),*])
            }
        }
    };
}

/// Adds what is no function and no class to the module, and the methods that were compiled with it.
///
/// # Errors
/// Those of Python.
pub fn begin(module: &Bound<'_, PyModule>, own: &[Entry]) -> PyResult<()> {
    // A process has one such module, and begins it once.
    method::OWN.get_or_init(|| own.to_vec());
    let py = module.py();
    module.add("FedrecsimError", py.get_type::<error::FedrecsimError>())?;
    module.add("ScenarioError", py.get_type::<error::ScenarioError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}

#[cfg(feature = "extension")]
module!();
