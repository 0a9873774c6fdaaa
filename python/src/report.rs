//! What remains of a run, for Python: the record, its tables, charts and files, and the model.

use std::path::PathBuf;
use std::sync::OnceLock;

use fedrecsim_core::Error;
use fedrecsim_model::Model;
use fedrecsim_report::{EXPORTERS, ReportFolder, RunRecord, Wall, arrow, check, run_json, summary};
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::Outcome;
use fedrecsim_sim::checkpoint::{self, END, SCENARIO_FILE, scenario_text};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrays;
use crate::error::OrRaise;
use crate::table::Table;
use crate::vectors::{SavedVectors, Vectors};

/// The contents of files, by their names.
type Files = Vec<(String, Vec<u8>)>;

/// What remains of a run.
#[pyclass(frozen, module = "fedrecsim._native")]
pub struct Report {
    /// `run.json`.
    json: String,
    summary: String,
    rounds: Table,
    users: Option<Table>,
    items: Table,
    /// The blocks of the model by their names.
    model: Py<PyDict>,
    /// What everything is made of; `None` for a report that was pickled.
    record: Option<RunRecord>,
    /// The parameters that another run can start from, if they were kept in memory.
    kept: Option<Vec<u8>>,
    /// The vectors of users, if they were saved.
    vectors: Option<Vectors>,
    /// The files of the report, which are rendered when they are first asked for.
    files: OnceLock<Files>,
}

/// Everything of a report, as it is pickled.
type Pickled<'py> = (
    String,
    String,
    Bound<'py, PyBytes>,
    Option<Bound<'py, PyBytes>>,
    Bound<'py, PyBytes>,
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
    Option<SavedVectors>,
);

impl Report {
    /// Makes the report of an outcome.
    ///
    /// # Errors
    /// Those of a record that does not hold what it must.
    pub fn of(
        py: Python<'_>,
        (scenario, warnings): (Scenario, Vec<String>),
        outcome: Outcome,
        wall: Wall,
        (kept, vectors): (Option<Vec<u8>>, Option<Vectors>),
    ) -> PyResult<Self> {
        let model: Model = outcome.model.clone();
        let (json, summary, [rounds, items], users, record) = py
            .detach(|| {
                let (mut record, _) =
                    RunRecord::of(scenario, outcome, wall, Vec::new(), &fedrecsim::PROGRAM);
                record.warnings = warnings;
                check(&record)?;
                let (json, summary) = (run_json(&record)?, summary(&record, None, None));
                let tables = [arrow::rounds(&record)?, arrow::items(&record)?];
                let users = arrow::users(&record)?;
                Ok::<_, Error>((json, summary, tables, users, record))
            })
            .or_raise()?;
        Ok(Self {
            json,
            summary,
            rounds: Table(rounds),
            users: users.map(Table),
            items: Table(items),
            model: arrays::blocks(py, &model)?.unbind(),
            record: Some(record),
            kept,
            vectors,
            files: OnceLock::new(),
        })
    }

    /// Returns the files of the report.
    fn rendered(&self, py: Python<'_>) -> PyResult<&Files> {
        if let Some(files) = self.files.get() {
            return Ok(files);
        }
        let mut files = Files::new();
        if let Some(record) = &self.record {
            let made = py.detach(|| {
                EXPORTERS
                    .iter()
                    .map(|exporter| (exporter.render)(record))
                    .collect::<Vec<_>>()
            });
            for of_exporter in made {
                files.extend(
                    of_exporter
                        .or_raise()?
                        .into_iter()
                        .map(|(name, bytes)| (name.to_owned(), bytes)),
                );
            }
        }
        if let Some(kept) = &self.kept {
            files.push((END.to_owned(), kept.clone()));
        }
        Ok(self.files.get_or_init(|| files))
    }

    /// Returns the record, for the folder that the run has had; nothing for a report that was pickled.
    pub fn record(&self) -> Option<&RunRecord> {
        self.record.as_ref()
    }
}

#[pymethods]
impl Report {
    /// The text of `run.json`.
    #[getter]
    fn json(&self) -> &str {
        &self.json
    }

    /// The summary that the command prints.
    #[getter]
    fn summary(&self) -> &str {
        &self.summary
    }

    /// The rounds.
    #[getter]
    fn rounds(&self) -> Table {
        Table(self.rounds.0.clone())
    }

    /// The users, if they are listed.
    #[getter]
    fn users(&self) -> Option<Table> {
        self.users.as_ref().map(|table| Table(table.0.clone()))
    }

    /// The items.
    #[getter]
    fn items(&self) -> Table {
        Table(self.items.0.clone())
    }

    /// The blocks of the model by their names.
    #[getter]
    fn model<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.model.bind(py).copy()
    }

    /// The files of the report by their names.
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, bytes) in self.rendered(py)? {
            dict.set_item(name, PyBytes::new(py, bytes))?;
        }
        Ok(dict)
    }

    /// The scenario as it was resolved, as TOML; nothing if TOML cannot express it.
    #[getter]
    fn scenario(&self, py: Python<'_>) -> PyResult<Option<String>> {
        if let Some(record) = &self.record {
            return Ok(record
                .scenario
                .to_toml()
                .ok()
                .map(|text| scenario_text(&text)));
        }
        let file = self
            .rendered(py)?
            .iter()
            .find(|(name, _)| name == SCENARIO_FILE);
        Ok(file.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()))
    }

    /// Writes the report to a folder, as the command does.
    #[pyo3(signature = (folder, overwrite=false))]
    fn write(&self, py: Python<'_>, folder: PathBuf, overwrite: bool) -> PyResult<()> {
        let claim = || {
            let claimed = ReportFolder::create(folder, overwrite)?;
            // Those of an earlier report would be taken for this one's.
            checkpoint::remove_all(claimed.path()).map(|()| claimed)
        };
        if let (Some(record), None) = (&self.record, &self.kept) {
            return py.detach(|| claim()?.write(record)).or_raise();
        }
        let files = self.rendered(py)?;
        py.detach(|| {
            let files: Vec<(&str, &[u8])> = files
                .iter()
                .map(|(name, bytes)| (&**name, &**bytes))
                .collect();
            claim()?.write_files(&files)
        })
        .or_raise()
    }

    /// The parameters that another run can start from, if they were kept in memory.
    #[getter]
    fn kept<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let of_files = || self.files.get()?.iter().find(|(name, _)| name == END);
        let kept = self.kept.as_ref().or_else(|| Some(&of_files()?.1));
        kept.map(|kept| PyBytes::new(py, kept))
    }

    /// The users whose vectors were saved, and the name and the rows of the vectors, which are nothing if
    /// the method has none; nothing if none were saved.
    #[getter]
    fn vectors(&self, py: Python<'_>) -> Option<SavedVectors> {
        self.vectors.as_ref().map(|vectors| vectors.shared(py))
    }

    /// Makes a report of what pickling made of it.
    #[staticmethod]
    fn restore(
        texts: (String, String),
        rounds: Vec<u8>,
        users: Option<Vec<u8>>,
        items: Vec<u8>,
        model: Bound<'_, PyDict>,
        files: Vec<(String, Vec<u8>)>,
        vectors: Option<SavedVectors>,
    ) -> PyResult<Self> {
        let (json, summary) = texts;
        Ok(Self {
            json,
            summary,
            rounds: Table::of_ipc(rounds)?,
            users: users.map(Table::of_ipc).transpose()?,
            items: Table::of_ipc(items)?,
            model: model.unbind(),
            record: None,
            kept: None,
            vectors: vectors.map(Vectors),
            files: OnceLock::from(files),
        })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Pickled<'py>)> {
        let restore = py.import("fedrecsim._bridge")?.getattr("restore_report")?;
        let rounds = PyBytes::new(py, &self.rounds.to_ipc()?);
        let users = self
            .users
            .as_ref()
            .map(Table::to_ipc)
            .transpose()?
            .map(|bytes| PyBytes::new(py, &bytes));
        let (json, summary) = (self.json.clone(), self.summary.clone());
        Ok((
            restore,
            (
                json,
                summary,
                rounds,
                users,
                PyBytes::new(py, &self.items.to_ipc()?),
                self.model(py)?,
                self.files(py)?,
                self.vectors(py),
            ),
        ))
    }
}
