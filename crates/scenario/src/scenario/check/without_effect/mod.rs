//! Finds keys that another key, or the method, leaves without an effect: what is written there is
//! probably a mistake.
//!
//! A key that has the value which it would have if it were left out is let pass, because a printed
//! scenario has every key. Keys that exclude one another are faults, which the other files of this
//! folder find.

use super::super::spec::{FaultSpec, Scenario};
use super::super::vocabulary::MethodVocabulary;
use super::Checker;

mod rules;

use rules::{ABOUT_ROUNDS, RULES};

/// A checked scenario and what is known of its method.
struct Case<'a> {
    scenario: &'a Scenario,
    method: &'a MethodVocabulary,
}

impl Checker<'_> {
    /// Warns of every key of `scenario` that was written and has no effect.
    pub(super) fn without_effect(&mut self, scenario: &Scenario, method: &MethodVocabulary) {
        let case = Case { scenario, method };
        let mut told: Vec<&[&str]> = Vec::new();
        for rule in RULES {
            let applies = (rule.is_off)(&case) && !(rule.is_usual)(&case);
            if applies && !told.contains(&rule.key) {
                told.push(rule.key);
                self.idle(rule.key, rule.because);
            }
        }
        if !method.trains {
            let because = format!(
                "the method `{}` trains nothing, so that no round is run",
                method.name
            );
            ABOUT_ROUNDS
                .iter()
                .filter(|(_, is_usual)| !is_usual(&case))
                .for_each(|(key, _)| self.idle(key, &because));
            return;
        }
        // The first rule that hits a transfer counts, and this one hits all of them.
        if let Some(first) = scenario.faults.iter().position(hits_everything) {
            for index in first + 1..scenario.faults.len() {
                let because =
                    format!("`faults[{first}]`, which stands before it, hits every transfer");
                self.warn(
                    &["faults", &index.to_string()],
                    format!("`faults[{index}]` has no effect: {because}"),
                );
            }
        }
    }

    /// Warns of `key`, if it was written.
    fn idle(&mut self, key: &[&str], because: &str) {
        if let (true, Some(name)) = (self.file.has(key), key.last()) {
            self.warn(key, format!("`{name}` has no effect: {because}"));
        }
    }
}

fn hits_everything(rule: &FaultSpec) -> bool {
    let FaultSpec {
        preset: _,
        effect: _,
        direction,
        from_s,
        until_s,
        users,
        probability,
    } = rule;
    direction.is_none()
        && *from_s == 0.0
        && until_s.is_none()
        && users.is_none()
        && *probability == 1.0
}
