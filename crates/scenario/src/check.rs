//! Collects the faults of rules between keys, which stand beside the keys that they are about.

use serde_json::{Value as Json, json};

use super::faults::Fault;
use super::presets;
use super::rules::Rules;
use super::traffic::Traffic;
use super::tree::Node;
use super::vocabulary::MethodVocabulary;

/// Collects what is wrong with a scenario, and what has no effect in it.
pub(super) struct Checker<'a> {
    /// The text as written, for the places of faults.
    pub file: &'a Node,
    /// The method's entry in the vocabulary.
    pub method: &'a MethodVocabulary,
    /// The traffic of the method in each direction, if it is known.
    pub traffic: Option<Traffic>,
    /// The rules of single keys, for their defaults.
    pub rules: &'a Rules<'a>,
    pub faults: Vec<Fault>,
    pub warnings: Vec<Fault>,
}

impl Checker<'_> {
    /// Notes what is wrong with `key`, which is given from the top of the file (`training.rounds`).
    pub(super) fn fault(&mut self, key: &str, message: impl AsRef<str>) {
        self.faults
            .push(Fault::new(self.file.place_of(key), message));
    }

    /// Notes what is wrong with `key` if `is_wrong`.
    pub(super) fn refuse_if(&mut self, is_wrong: bool, key: &str, message: &str) {
        if is_wrong {
            self.fault(key, message);
        }
    }

    /// Notes a contradiction between two keys; one may have been left to its default. It is shown
    /// at the first of them that was written.
    pub(super) fn contradiction(&mut self, first: &str, second: &str, message: impl AsRef<str>) {
        let (shown, other) = match !self.file.has(first) && self.file.has(second) {
            true => (second, first),
            false => (first, second),
        };
        let mut fault = Fault::new(self.file.place_of(shown), message);
        fault.other = Some(self.file.place_of(other).clone());
        self.faults.push(fault);
    }

    /// Notes something that has no effect.
    pub(super) fn warn(&mut self, key: &str, message: impl AsRef<str>) {
        self.warnings
            .push(Fault::new(self.file.place_of(key), message));
    }

    /// Warns that `key` has no effect if `is_off`, for the reason `because`, which ends a sentence.
    ///
    /// A key that has the value which it would have if it were left out is let pass, because a
    /// printed scenario has every key.
    pub(super) fn idle_if(&mut self, is_off: bool, key: &str, because: &str) {
        if !is_off || self.is_usual(key) {
            return;
        }
        let name = key.rsplit('.').next().unwrap_or(key);
        let place = self.file.place_of(key);
        if self.warnings.iter().all(|told| told.place != *place) {
            self.warn(key, format!("`{name}` has no effect: {because}"));
        }
    }

    /// Returns whether `key` was left out, or has the value that it would have then.
    fn is_usual(&self, key: &str) -> bool {
        let Some(written) = self.file.at(key) else {
            return true;
        };
        let usual = self.usual(key);
        usual.is_some_and(|usual| is_part_of(&written.to_json(&[]), &usual))
    }

    /// Returns the value that a key which was written would have if it were left out.
    fn usual(&self, key: &str) -> Option<Json> {
        let key = format!("/{}", key.replace('.', "/"));
        let (table, name) = key.rsplit_once('/')?;
        let mut values = self.file.to_json(&[]);
        let keys = values.pointer_mut(table)?.as_object_mut()?;
        keys.shift_remove(name);
        presets::put_under(&mut values);
        self.rules.complete(&mut values);
        if values.pointer(&key).is_none() {
            // A table that is left out as a whole has keys with defaults all the same.
            let keys = values.pointer_mut(table)?.as_object_mut()?;
            keys.insert(name.to_owned(), json!({}));
            self.rules.complete(&mut values);
        }
        values.pointer(&key).cloned()
    }
}

/// Returns whether a value says nothing that `usual` does not say.
fn is_part_of(written: &Json, usual: &Json) -> bool {
    match (written, usual) {
        (Json::Object(written), Json::Object(usual)) => written
            .iter()
            .all(|(key, value)| usual.get(key).is_some_and(|usual| is_part_of(value, usual))),
        (Json::Array(written), usual) => {
            let usual = usual.as_array().map_or(&[][..], Vec::as_slice);
            (written.iter()).all(|value| usual.iter().any(|usual| is_same(value, usual)))
        }
        _ => is_same(written, usual),
    }
}

/// Returns whether two values are the same; a whole number may be written with a fraction or
/// without.
fn is_same(one: &Json, other: &Json) -> bool {
    one == other || one.as_f64().is_some_and(|one| Some(one) == other.as_f64())
}
