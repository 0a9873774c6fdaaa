//! Checks the rules between keys, which stand beside the keys that they are about.

use serde_json::Value as Json;

use super::faults::Fault;
use super::keys::{
    Scenario, availability, codec, dataset, devices, evaluation, faults, network, overheads,
    privacy, training,
};
use super::rules::Rules;
use super::traffic::Traffic;
use super::tree::Node;
use super::vocabulary::{MethodVocabulary, ParameterFaultKind};

/// Collects what is wrong with a scenario, and what has no effect in it.
pub(super) struct Checker<'a> {
    /// What was written, for the places of faults.
    pub file: &'a Node,
    /// The method's entry in the vocabulary.
    pub method: &'a MethodVocabulary,
    /// What the method exchanges, if that can be told.
    pub traffic: Option<Traffic>,
    /// The rules of single keys, for their defaults.
    pub rules: &'a Rules<'a>,
    pub faults: Vec<Fault>,
    pub warnings: Vec<Fault>,
}

impl Checker<'_> {
    /// Fills in the defaults of `scenario` that depend on other keys, and checks all rules between
    /// keys.
    pub(super) fn check(&mut self, scenario: &mut Scenario) {
        self.resolve_parameters(scenario);
        dataset::fill(scenario, self);
        evaluation::fill(scenario, self);
        let traffic = &self.method.traffic;
        let told = traffic.tell(&scenario.method.parameters);
        self.traffic = told.map(|traffic| traffic.under(scenario.training.aggregation));
        dataset::check(scenario, self);
        training::check(scenario, self);
        evaluation::check(scenario, self);
        codec::check(scenario, self);
        network::check(scenario, self);
        devices::check(scenario, self);
        availability::check(scenario, self);
        faults::check(scenario, self);
        overheads::check(scenario, self);
        privacy::check(scenario, self);
        let of_method = self.traffic.as_ref();
        let contradictions = of_method.map(|traffic| traffic.contradictions(scenario));
        for (key, message) in contradictions.unwrap_or_default() {
            // What cannot be hidden from a server that trains is told with the key itself.
            if key.starts_with("codec") || !self.method.runs_at_server {
                self.fault(&key, message);
            }
        }
        if !self.method.trains {
            self.idle_without_rounds();
        }
    }

    fn resolve_parameters(&mut self, scenario: &mut Scenario) {
        let method = &mut scenario.method;
        for fault in (self.method.resolve)(&mut method.parameters) {
            let key = [&["method".to_owned(), method.name.clone()], &fault.path[..]].concat();
            let key = key.join(".");
            match fault.kind {
                ParameterFaultKind::Wrong => self.fault(&key, fault.message),
                ParameterFaultKind::WithoutEffect if self.file.has(&key) => {
                    self.warn(&key, fault.message);
                }
                ParameterFaultKind::WithoutEffect => {}
            }
        }
    }

    /// Warns of keys that say how rounds are run and what happens in them.
    fn idle_without_rounds(&mut self) {
        let because = format!(
            "the method `{}` trains nothing, so that no round is run",
            self.method.name
        );
        for key in [
            "training.participation",
            "training.aggregation",
            "training.steps_per_round",
            "training.empty_rounds_limit",
            "training.waiting_limit_s",
            "training.divergence_limit",
            "codec",
            "network",
            "devices",
            "server",
            "availability",
            "faults",
            "privacy",
            "overheads",
        ] {
            self.idle_if(true, key, &because);
        }
    }

    /// Notes what is wrong with `key`, which is given from the top of the file (`training.rounds`).
    pub(super) fn fault(&mut self, key: &str, message: impl AsRef<str>) {
        self.faults
            .push(Fault::new(self.file.place_of(key), message));
    }

    /// Notes a contradiction between two keys, of which one may have been left to its default. It
    /// is shown at the first of them that was written.
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
        let usual = self.rules.usual(key, self.file);
        usual.is_some_and(|usual| is_part_of(&written.to_json(&[]), &usual))
    }
}

/// Returns whether a value says nothing that `usual` does not say.
fn is_part_of(written: &Json, usual: &Json) -> bool {
    match (written, usual) {
        (Json::Object(written), Json::Object(usual)) => written
            .iter()
            .all(|(key, value)| usual.get(key).is_some_and(|usual| is_part_of(value, usual))),
        (Json::Array(written), Json::Array(usual)) => written
            .iter()
            .all(|value| usual.iter().any(|usual| is_same(value, usual))),
        _ => is_same(written, usual),
    }
}

/// Returns whether two values are the same; a whole number may be written with a fraction or
/// without.
fn is_same(one: &Json, other: &Json) -> bool {
    one == other || one.as_f64().is_some_and(|one| Some(one) == other.as_f64())
}
