//! Checks methods that are written in Python.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedrecsim_sim::testing::{Breach, Contract};
use pyo3::prelude::*;

use crate::error::FedrecsimError;
use crate::method::MethodEntry;
use crate::watch::watched;

/// Checks that a method keeps the contract, with these parameters (an inline table of TOML) in
/// place of its defaults.
#[pyfunction]
#[pyo3(signature = (method, parameters=None))]
pub fn contract(py: Python<'_>, method: &MethodEntry, parameters: Option<&str>) -> PyResult<()> {
    let entry = method.entry();
    // Nothing stops the check but a breach. A signal that comes meanwhile is raised at its end.
    let checked: Result<(), Breach> = watched(py, &Arc::new(AtomicBool::new(false)), None, |_| {
        let contract = Contract::of(&entry);
        Ok(match parameters {
            Some(parameters) => contract.with_parameters(parameters).check(),
            None => contract.check(),
        })
    })?;
    checked.map_err(|breach| FedrecsimError::new_err(breach.to_string()))
}
