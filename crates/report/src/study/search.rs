//! Makes the trials of a search: each is an arm with settings that are drawn from the arm's space.
//!
//! A search is a study of trials, so everything that carries out a study carries out a search. The
//! first trial of an arm is the arm as it is written. What is chosen is therefore never worse on the
//! validation part than what was there before, whatever is drawn.

use serde_json::Value as Json;
use toml::Value;

use super::file::{Arm, Dimension, MOST_ARMS, Range, Search, Study};
use super::plan::{Plan, PlannedArm, fingerprint, of_arms, resolved};
use fedrecsim_core::math;
use fedrecsim_core::rng::{PortableDraws, Stream, Streams};
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::MethodVocabulary;

/// How often settings are drawn for a trial before the space counts as exhausted.
const MOST_DRAWS: u64 = 1000;

/// A search, with its trials as the arms of a plan.
#[derive(Clone, Debug)]
pub struct SearchPlan {
    /// The plan. Its only metric is the one that decides.
    pub plan: Plan,
    /// The trials, one for each arm of the plan.
    pub trials: Vec<Trial>,
    /// The number of trials of an arm, and the seed of the draws.
    pub search: Search,
}

/// An arm with the settings that are drawn for one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The arm.
    pub arm: String,
    /// Its number, from 0.
    pub number: u32,
    /// The keys that are searched.
    pub keys: Vec<String>,
    /// What is drawn for them; empty for the arm as it is written.
    pub drawn: Vec<Value>,
}

impl Trial {
    /// Returns the name of the trial, which is that of its arm in the plan.
    fn name(&self) -> String {
        format!("{}, trial={:02}", self.arm, self.number)
    }

    /// Returns the method that was drawn, where a space has several.
    fn drawn_method(&self) -> Option<&str> {
        let place = self.keys.iter().position(|key| key == "method")?;
        match self.drawn.get(place)? {
            Value::Table(table) => table.keys().next().map(String::as_str),
            name => name.as_str(),
        }
    }
}

impl SearchPlan {
    /// Makes the trials of the arms that have a space, and resolves them. `file` is the study's name
    /// in messages.
    ///
    /// # Errors
    /// [`Error::Usage`] for a study without a search, for a space with fewer settings than trials,
    /// for an arm without a validation part or without the metric that decides, and for the faults
    /// of trials that `is_wanted` asks for by their names.
    pub fn of(
        mut study: Study,
        file: &str,
        vocabulary: &[MethodVocabulary],
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let refuse = |reason: String| Error::Usage(format!("{file}: {reason}"));
        let Some(search) = study.search.take() else {
            return Err(refuse(
                "there is no search in it; write [search] with `trials = 20`, and `search` with keys and ranges below the arms".to_owned(),
            ));
        };
        // Those of the command line have the last word.
        if !study.seeds_are_named {
            match search.seeds.is_empty() {
                true => study.seeds.truncate(1),
                false => study.seeds.clone_from(&search.seeds),
            }
        }
        study.metrics = match &search.metric {
            Some(metric) => vec![metric.clone()],
            None => study.metrics.into_iter().take(1).collect(),
        };
        (study.references, study.courses) = (Vec::new(), Vec::new());
        let seed = study.seeds.first().copied().unwrap_or_default();
        let mut arms: Vec<Arm> = Vec::new();
        for mut arm in std::mem::take(&mut study.arms) {
            // An experiment is searched at the first of the arms that repeat it.
            arm.name.clone_from(&arm.experiment);
            if arm.space.is_empty() || arms.iter().any(|other| other.name == arm.name) {
                continue;
            }
            let before = arm.set.len().saturating_sub(study.last_overrides);
            arm.set.splice(before..before, search.set.iter().cloned());
            arms.push(arm);
        }
        if arms.len().saturating_mul(search.trials as usize) > MOST_ARMS {
            let count = arms.len();
            return Err(refuse(format!(
                "{} trials of {count} arms are more than {MOST_ARMS} in all; lower `trials`",
                search.trials
            )));
        }
        let (mut trials, mut faults) = (Vec::new(), Vec::new());
        for arm in &arms {
            let told = |arm: &Arm| {
                let loaded = resolved(arm, seed, vocabulary).ok()?;
                fingerprint(&loaded.scenario).ok()
            };
            match trials_of(arm, &search, study.last_overrides, told) {
                Ok(of_arm) => trials.extend(of_arm),
                Err(reason) => faults.push(reason),
            }
        }
        if !faults.is_empty() {
            return Err(refuse(faults.join("\n")));
        }
        let (trials, arms): (Vec<Trial>, Vec<Arm>) = trials.into_iter().unzip();
        study.arms = arms;
        study.title = format!("{}: the search", study.title);
        let mut plan = Plan::of(study, vocabulary, is_wanted)?;
        plan.metrics.truncate(1);
        let whole = Self {
            plan,
            trials,
            search,
        };
        let faults = whole.faults();
        match faults.is_empty() {
            true => Ok(whole),
            false => Err(refuse(faults.join("\n"))),
        }
    }

    /// Returns the metric that decides.
    pub fn metric(&self) -> &str {
        self.plan.metrics.first().map_or("", String::as_str)
    }

    /// Returns why arms cannot be judged, each reason with the first arm that has it.
    fn faults(&self) -> Vec<String> {
        let mut faults: Vec<(String, Vec<String>)> = Vec::new();
        let mut note = |arm: &str, fault: String| {
            let known = faults.iter_mut().find(|(other, _)| *other == fault);
            match known {
                Some((_, arms)) if arms.iter().any(|other| other == arm) => {}
                Some((_, arms)) => arms.push(arm.to_owned()),
                None => faults.push((fault, vec![arm.to_owned()])),
            }
        };
        let mut as_written = "";
        for (trial, PlannedArm { scenario, .. }) in self.trials.iter().zip(&self.plan.arms) {
            let method = scenario.method.name.as_str();
            if trial.number == 0 {
                as_written = method;
            }
            let wanted = trial.drawn_method().unwrap_or(as_written);
            if method != wanted {
                note(
                    &trial.arm,
                    format!(
                        "the search space has keys of `{method}`, which would take the place of `{wanted}`; a space has keys of one method"
                    ),
                );
            }
            let split = &scenario.dataset.split;
            if !split.has_validation_items() {
                let key = split.validation_key();
                note(
                    &trial.arm,
                    format!(
                        "a search chooses by validation items, and none are held out; hold some out with `{key}`"
                    ),
                );
            }
            let mut measured = scenario.evaluation.metrics().into_iter();
            let metric = self.metric();
            if !measured.any(|of| of.name() == metric) {
                note(
                    &trial.arm,
                    format!(
                        "it does not measure `{metric}`, by which the search chooses; name it in `evaluation.metrics` and `evaluation.cutoffs`"
                    ),
                );
            }
        }
        faults.iter().map(of_arms).collect()
    }

    /// Returns what a trial has for a key that is searched, as text; empty for a key that is not
    /// searched in its arm, or of which its scenario says nothing.
    pub(super) fn setting(&self, trial: usize, key: &str) -> String {
        let Trial { keys, drawn, .. } = &self.trials[trial];
        let Some(place) = keys.iter().position(|of| of == key) else {
            return String::new();
        };
        // The command line may have had the last word. A table is shorter as it was drawn.
        let saved = self.plan.arms[trial].without_seed().unwrap_or_default();
        let found = key.split('.').try_fold(&saved, |at, step| at.get(step));
        match (found, drawn.get(place)) {
            (Some(Json::Object(_)) | None, Some(value)) => shown(value.as_str(), value),
            (None | Some(Json::Null), _) => String::new(),
            (Some(value), _) => shown(value.as_str(), value),
        }
    }
}

/// Returns a value as text, without quotation marks if it is one.
fn shown(text: Option<&str>, value: &impl ToString) -> String {
    text.map_or_else(|| value.to_string(), str::to_owned)
}

/// Makes the trials of an arm, each with its arm of the plan. Settings that come to a scenario that
/// is there already are drawn again, so that no trial is wasted. They come before the `last`
/// overrides, which are those of the command line. `told` returns what tells an arm's
/// scenario from others; `None` for one that has faults, which the plan tells.
fn trials_of(
    arm: &Arm,
    search: &Search,
    last: usize,
    told: impl Fn(&Arm) -> Option<Json>,
) -> Result<Vec<(Trial, Arm)>, String> {
    let streams = Streams::new(search.seed);
    let trial = |number, drawn: &[Value]| {
        let keys: Vec<String> = arm.space.iter().map(|of| of.key.clone()).collect();
        // A key below another one counts after it, wherever it stands in the space.
        let mut settings: Vec<(&String, &Value)> = keys.iter().zip(drawn).collect();
        settings.sort_by_key(|(key, _)| key.matches('.').count());
        let settings = settings
            .iter()
            .map(|(key, value)| format!("{key}={value}").into());
        let mut set = arm.set.clone();
        let before = set.len().saturating_sub(last);
        set.splice(before..before, settings);
        let trial = Trial {
            arm: arm.name.clone(),
            number,
            keys,
            drawn: drawn.to_vec(),
        };
        let arm = Arm {
            name: trial.name(),
            experiment: trial.name(),
            base: arm.base.clone(),
            set,
            values: Vec::new(),
            compare_to: None,
            space: Vec::new(),
            chosen_from: None,
        };
        (trial, arm)
    };
    let mut trials = vec![trial(0, &[])];
    let mut scenarios: Vec<Json> = told(&trials[0].1).into_iter().collect();
    let mut seen: Vec<Vec<Value>> = Vec::new();
    for number in 1..search.trials {
        let draw = |attempt: u64| -> Vec<Value> {
            let of = |dimension: &Dimension| {
                let name = format!("search/{}/{}", dimension.key, arm.name);
                let mut stream = streams.named(&name, attempt, number.into());
                dimension.range.draw(&mut stream)
            };
            arm.space.iter().map(of).collect()
        };
        let mut found = None;
        for drawn in (0..MOST_DRAWS).map(draw) {
            if seen.contains(&drawn) {
                continue;
            }
            let made = trial(number, &drawn);
            seen.push(drawn);
            let scenario = told(&made.1);
            if !scenario.as_ref().is_some_and(|of| scenarios.contains(of)) {
                scenarios.extend(scenario);
                found = Some(made);
                break;
            }
        }
        trials.push(found.ok_or_else(|| {
            format!(
                "arm `{}`: its search space has {number} settings that differ, with the arm as written, and `trials` is {}; widen a range, or lower `trials` for all arms",
                arm.name, search.trials
            )
        })?);
    }
    Ok(trials)
}

impl Range {
    /// Draws a value. A number is rounded to three digits, so that it is written as short as it is
    /// exact.
    fn draw(&self, stream: &mut Stream) -> Value {
        match self {
            Self::Log([low, high]) => {
                let [least, most] = [*low, *high].map(math::ln);
                let value = math::exp(least + (most - least) * stream.open_unit());
                Value::Float(rounded(format!("{value:.2e}"), value).clamp(*low, *high))
            }
            Self::Uniform([low, high]) => {
                let value = low + (high - low) * stream.open_unit();
                let decimals = usize::try_from(2 - exponent(high - low)).unwrap_or_default();
                Value::Float(rounded(format!("{value:.decimals$}"), value).clamp(*low, *high))
            }
            Self::Whole([low, high]) => {
                let count = u32::try_from(high - low + 1).unwrap_or(u32::MAX);
                Value::Integer(low + i64::from(stream.below(count)))
            }
            Self::Among(values) => values[stream.below(values.len() as u32) as usize].clone(),
        }
    }
}

/// Returns the number that `text` writes; there is always one.
fn rounded(text: String, otherwise: f64) -> f64 {
    text.parse().unwrap_or(otherwise)
}

/// Returns the decimal exponent of a number, as scientific notation writes it.
fn exponent(value: f64) -> i32 {
    let text = format!("{value:e}");
    let exponent = text.split_once('e').map(|(_, exponent)| exponent);
    exponent.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests;
