//! Checks methods that are written in Python.

use fedrecsim::testing::{Breach, Contract};
use pyo3::prelude::*;

use crate::error::FedrecsimError;
use crate::method::MethodEntry;

/// Checks that a method keeps the contract, with these parameters (an inline table of TOML) in place of its defaults.
#[pyfunction]
#[pyo3(signature = (method, parameters=None))]
pub fn contract(py: Python<'_>, method: &MethodEntry, parameters: Option<&str>) -> PyResult<()> {
    let entry = method.entry();
    let checked: Result<(), Breach> = py.detach(|| {
        let contract = Contract::of(&entry);
        match parameters {
            Some(parameters) => contract.with_parameters(parameters).check(),
            None => contract.check(),
        }
    });
    checked.map_err(|breach| FedrecsimError::new_err(breach.to_string()))
}
