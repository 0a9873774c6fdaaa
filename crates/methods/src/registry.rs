//! Lists the methods that a scenario can name.
//!
//! A list of methods is a slice of [`Entry`], and [`METHODS`] is the list of this crate. Scenario
//! files, commands and the simulated world are given a list, so that a new method need not be
//! registered anywhere else.

use super::{Entry, Method, Placement, Problem, traffic};
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::sizes;
use fedrecsim_scenario::{MethodSpec, MethodVocabulary, Scenario};

/// Lists every method of this crate, in the order of the commands' lists. A program that has
/// methods of its own adds them to these (see the page of this crate).
///
/// It is a static, so that all methods are compiled here. A constant would compile them again in
/// every crate that reads it.
pub static METHODS: &[Entry] = &[
    super::fedrap::ENTRY,
    super::fedrap::feddad::ENTRY,
    super::pfedrec::ENTRY,
    super::gpfedrec::ENTRY,
    super::cofedrec::ENTRY,
    super::cofedrec::CG_FED_REC,
    super::fedca::ENTRY,
    super::fedem::ENTRY,
    super::fedem::FED_EA,
    super::fedcia::ENTRY,
    super::fedcia::gsp::ENTRY,
    super::fedpeft::ENTRY,
    super::lightfr::ENTRY,
    super::feddae::ENTRY,
    super::adafedrec::ENTRY,
    super::fedmf::ENTRY,
    super::fedncf::ENTRY,
    super::fedrecon::ENTRY,
    super::colr::ENTRY,
    super::metamf::ENTRY,
    super::fcf::ENTRY,
    super::fcf_bts::ENTRY,
    super::fedgram::ENTRY,
    super::fedspec::ENTRY,
    super::privirec::ENTRY,
    super::fedtide::ENTRY,
    super::fedrec::ENTRY,
    super::fedrec::SVD_PLUS_PLUS,
    super::fedpergnn::ENTRY,
    super::mf::ENTRY,
    super::fedrap::central::ENTRY,
    super::fedrec::central::ENTRY,
    super::fedrec::central::SVD_PLUS_PLUS,
    super::item_to_item::ease::ENTRY,
    super::item_to_item::itemknn::ENTRY,
    super::ials::ENTRY,
    super::bpr_mf::ENTRY,
    super::ncf::ENTRY,
    super::lightgcn::ENTRY,
    super::baselines::POPULARITY,
    super::baselines::RANDOM,
    super::baselines::GLOBAL_MEAN,
    super::baselines::USER_MEAN,
];

/// Returns what scenario files may say about the methods of this crate.
pub fn vocabulary() -> Vec<MethodVocabulary> {
    vocabulary_of(METHODS)
}

/// Returns what scenario files may say about `methods`.
pub fn vocabulary_of(methods: &[Entry]) -> Vec<MethodVocabulary> {
    let words = |entry: &Entry| {
        let Entry {
            name,
            resolve,
            placement,
            draws_negatives,
            without_controls,
            sizes,
            ..
        } = *entry;
        MethodVocabulary {
            name,
            schema: (entry.schema)(),
            resolve,
            trains: placement.trains(),
            runs_at_server: placement == Placement::Central,
            server_computes: matches!(placement, Placement::Central | Placement::Assisted),
            draws_negatives,
            without_controls,
            sizes,
            traffic: traffic::of(*entry),
        }
    };
    methods.iter().map(words).collect()
}

/// Returns the one of `methods` that `spec` names.
///
/// # Errors
/// [`Error::Usage`] if there is none, which cannot happen for a scenario that was read with their
/// vocabulary.
pub fn find<'m>(methods: &'m [Entry], spec: &MethodSpec) -> Result<&'m Entry> {
    let entry = methods.iter().find(|entry| entry.name == spec.name);
    entry.ok_or_else(|| Error::Usage(format!("there is no method named `{}`", spec.name)))
}

/// A scenario that names one of a list of methods, and asks for nothing that this method cannot do.
/// Only [`check`] makes one.
#[derive(Clone)]
pub struct Runnable {
    scenario: Scenario,
    entry: Entry,
}

/// Checks `scenario` against a list of methods.
///
/// # Errors
/// [`Error::Usage`] if the method is not among them, or cannot do what a key asks for. A scenario
/// that was read with the vocabulary of `methods` passes.
pub fn check(scenario: Scenario, methods: &[Entry]) -> Result<Runnable> {
    let entry = *find(methods, &scenario.method)?;
    let traffic = traffic::of(entry)(&scenario.method.parameters);
    let traffic = traffic.map(|traffic| traffic.under(scenario.training.aggregation));
    let contradictions = traffic.map(|traffic| traffic.contradictions(&scenario));
    match contradictions.unwrap_or_default().first() {
        Some((key, message)) if entry.placement.trains() => {
            Err(Error::Usage(format!("{key}: {message}")))
        }
        _ => Ok(Runnable { scenario, entry }),
    }
}

impl Runnable {
    /// Returns the scenario and the entry of its method.
    pub fn into_parts(self) -> (Scenario, Entry) {
        (self.scenario, self.entry)
    }
}

/// Builds the one of `methods` that `spec` names.
///
/// # Errors
/// [`Error::Usage`] for a block beyond `sizes::MAX_ENTRIES`, and for an unknown name or
/// parameters that do not fit, which a scenario that was read with the vocabulary of `methods` does
/// not have.
pub fn build(methods: &[Entry], spec: &MethodSpec, problem: &Problem) -> Result<Box<dyn Method>> {
    let entry = find(methods, spec)?;
    let sizes = (entry.sizes)(&spec.parameters, problem.size());
    if let Some(reason) = sizes.iter().find_map(sizes::block_too_large) {
        return Err(Error::Usage(reason));
    }
    (entry.build)(&spec.parameters, problem)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::{Kept, Placement};
    use fedrecsim_core::Streams;
    use fedrecsim_data::dataset::Interaction;
    use fedrecsim_data::dataset::split::Splitter;
    use serde_json::{Value, json};

    /// If this fails, the page of methods shows no formula of a method, or that of another one.
    #[test]
    fn every_method_has_a_formula_of_its_own() {
        for (at, Entry { name, formula, .. }) in METHODS.iter().enumerate() {
            assert!(!formula.is_empty(), "{name}");
            let length = |line: &&str| line.chars().count();
            let longest = formula.iter().map(length).max();
            assert!(longest <= Some(130), "{name}: a line is too long");
            let mut others = METHODS[..at].iter();
            assert!(others.all(|other| other.formula != *formula), "{name}");
        }
    }

    /// If this fails, a reader is told that something stays on a device which does not, or not told
    /// of what does.
    #[test]
    fn what_devices_keep_follows_from_the_declaration() {
        let kept = |name: &str, parameters: Value| {
            let entry = METHODS.iter().find(|entry| entry.name == name).unwrap();
            (entry.kept)(&parameters).unwrap()
        };
        let block = |name: &str, has_item_rows| Kept::Block {
            name: name.to_owned(),
            has_item_rows,
        };
        let function = [block("w", false), block("b", false)];
        let with_d = [&function[..], &[block("D", true)]].concat();
        assert_eq!(kept("fedrap", json!({})), with_d);
        assert_eq!(kept("fedrap", json!({ "tables": "c-only" })), function);
        let tuned = [&[Kept::OwnVersion("E".to_owned())], &function[..]].concat();
        assert_eq!(kept("pfedrec", json!({})), tuned);
        let remembered = Kept::Other("the item table of its last step");
        let whole = json!({ "download": "aggregate" });
        assert_eq!(kept("colr", whole), [block("u", false), remembered]);
        for nothing in ["fedrecon", "metamf", "fedtide", "ease"] {
            assert_eq!(kept(nothing, json!({})), [], "{nothing}");
        }
    }

    /// If this fails, a data set with very many items makes the program run out of memory instead
    /// of reporting an error.
    #[test]
    fn a_table_too_large_for_any_run_is_refused_before_it_is_made() {
        let mut splitter = Splitter::leave_one_out(200_000_000, false);
        let rows = [0, 1, 2].map(|item| Interaction::new(item, 1.0, i64::from(item)));
        splitter.push_user(String::new, &rows);
        let dataset = Arc::new(splitter.finish().unwrap());
        let problem = Problem::new(&dataset, Streams::new(1), Placement::Federated);
        // FedPEFT's table has its own number of rows, whatever the catalogue.
        let grows = |entry: &&Entry| entry.placement.trains() && entry.name != "fedpeft";
        for entry in METHODS.iter().filter(grows) {
            let spec = MethodSpec {
                name: entry.name.to_owned(),
                parameters: serde_json::json!({}),
            };
            let refused = build(METHODS, &spec, &problem).unwrap_err().to_string();
            assert!(
                refused.contains("values takes") && refused.contains("the most is 8 GiB"),
                "{refused}"
            );
        }
    }
}
