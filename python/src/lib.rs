//! The native part of the Python package `fedrecsim`: scenarios, runs, simulations, studies and
//! methods in Python, by the types of the simulator.
//!
//! What users see is written in Python (`fedrecsim/`); this module has what needs the simulator.
//! `inputs` reads scenarios, and `ratings` takes ratings in memory, whose values `cells` writes. `run` and `simulation` carry them out, and `watch` looks for Ctrl-C
//! meanwhile. `report` is what remains, with its tables in `table`. `study` has studies and the
//! command, `method` the methods that are written in Python, and `metrics` measures predictions.

use pyo3::prelude::pymodule;

mod arrays;
mod attached;
mod cells;
mod error;
mod events;
mod inputs;
mod method;
mod metrics;
mod ratings;
mod report;
mod run;
mod running;
mod simulation;
mod study;
mod table;
mod testing;
mod vectors;
mod watch;

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    use super::error::{FedrecsimError, ScenarioError};

    #[pymodule_export]
    use super::events::events;
    #[pymodule_export]
    use super::inputs::{Start, estimate, explain, inline_of_json, resolve, toml_of_json};
    #[pymodule_export]
    use super::method::{MethodEntry, Received, Task, builtin_methods};
    #[pymodule_export]
    use super::metrics::{means_of_lists, means_of_scores};
    #[pymodule_export]
    use super::ratings::Ratings;
    #[pymodule_export]
    use super::report::Report;
    #[pymodule_export]
    use super::run::run;
    #[pymodule_export]
    use super::simulation::Simulation;
    #[pymodule_export]
    use super::study::{
        Held, compare, main, study_carry_out, study_here, study_prepare, study_runs, study_tables,
    };
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::testing::contract;
    #[pymodule_export]
    use super::watch::end_all;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        module.add("FedrecsimError", py.get_type::<FedrecsimError>())?;
        module.add("ScenarioError", py.get_type::<ScenarioError>())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
