//! Reads the settings that a search has chosen, as it writes them into `chosen.toml`, and has the
//! arms of a study take them over.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Spanned, Table};

use super::include::text_of;
use super::overrides::overrides;
use super::{Arm, Faults};

/// The most arms that a warning names.
const MOST_NAMED: usize = 6;

/// The file of chosen settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chosen {
    /// The settings of arms, by their names.
    pub(crate) arms: BTreeMap<String, ChosenArm>,
}

/// What was chosen for an arm, and from how much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChosenArm {
    /// The number of trials that it was chosen from.
    pub(crate) trials: u32,
    /// The number of the trial, from 0, which is the arm as written.
    pub(crate) trial: u32,
    /// The seed of the draws.
    pub(crate) seed: u64,
    /// The metric that decided.
    pub(crate) metric: String,
    /// Its value on the validation part.
    pub(crate) validation: f64,
    /// The settings.
    #[serde(default)]
    pub(crate) set: Table,
}

/// Puts the settings in the file that `written` names into the arms, before their `last` overrides.
/// Those of an experiment are for all arms that repeat it, except for arms that have their own.
pub(super) fn take_over(
    written: &Spanned<PathBuf>,
    arms: &mut [Arm],
    last: usize,
    faults: &mut Faults,
) {
    let path = written.as_ref();
    let (chosen, text) = match read(path) {
        Ok(read) => read,
        Err(reason) => {
            let message = format!(
                "`chosen`, {}: {reason}; `fedrecsim search` makes such a file",
                path.display()
            );
            return faults.at(written.span(), message);
        }
    };
    for name in chosen.arms.keys() {
        if !arms
            .iter()
            .any(|arm| arm.experiment == *name || arm.name == *name)
        {
            let mut known: Vec<String> = arms
                .iter()
                .map(|arm| format!("`{}`", arm.experiment))
                .collect();
            known.dedup();
            let message = format!(
                "`chosen`, {}: there is no arm `{name}`; known: {}",
                path.display(),
                known.join("; ")
            );
            faults.at(written.span(), message);
        }
    }
    for arm in arms {
        let of = |name: &String| chosen.arms.get_key_value(name);
        if let Some((name, of_arm)) = of(&arm.name).or_else(|| of(&arm.experiment)) {
            let mut own = overrides(&of_arm.set, &written.span(), faults);
            for (of, key) in own.iter_mut().zip(of_arm.set.keys()) {
                of.written = Some((path.display().to_string(), Some(line_of(&text, name, key))));
            }
            let before = arm.set.len().saturating_sub(last);
            arm.set.splice(before..before, own);
            arm.chosen_from = Some(of_arm.trials);
        }
    }
}

/// Returns the line of a key of an arm, or of what is found of the two.
fn line_of(text: &str, arm: &str, key: &str) -> usize {
    let after = |start: usize, part: &str| {
        let found = text.get(start..).and_then(|rest| rest.find(part));
        found.map_or(start, |found| start + found)
    };
    let before = text.get(..after(after(0, arm), key)).unwrap_or_default();
    before.matches('\n').count() + 1
}

/// Returns what the file at `path` says, and its text.
fn read(path: &Path) -> Result<(Chosen, String), String> {
    let (text, _) = text_of(path).map_err(|reason| reason.to_string())?;
    let chosen = toml::from_str(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.as_bytes()[..start.min(text.len())]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        format!("line {}: {}", line + 1, error.message().trim_end())
    })?;
    Ok((chosen, text))
}

/// Returns what a reader of a study should know of how its settings were found.
pub(super) fn warnings(arms: &[Arm], has_settings: bool) -> Vec<String> {
    let named = |wanted: &dyn Fn(&Arm) -> bool| {
        let arms = arms.iter().filter(|arm| wanted(arm));
        let mut names: Vec<String> = arms.map(|arm| format!("`{}`", arm.experiment)).collect();
        names.dedup();
        let others = names.len().saturating_sub(MOST_NAMED);
        names.truncate(MOST_NAMED);
        if others > 0 {
            names.push(format!("and {others} more"));
        }
        (!names.is_empty()).then(|| names.join(", "))
    };
    let mut told = Vec::new();
    let as_written = |arm: &Arm| !arm.space.is_empty() && arm.chosen_from.is_none();
    if let Some(names) = named(&as_written) {
        let why = match has_settings {
            true => "`chosen` has nothing for them",
            false => "the study has no `chosen`",
        };
        told.push(format!(
            "arms with a search space run as written, since {why}: {names}; `fedrecsim search` chooses theirs"
        ));
    }
    let mut trials: Vec<u32> = arms.iter().filter_map(|arm| arm.chosen_from).collect();
    trials.sort_unstable();
    trials.dedup();
    if let [fewest, .., most] = trials[..] {
        let fewer = |arm: &Arm| arm.chosen_from.is_some_and(|from| from < most);
        let names = named(&fewer).unwrap_or_default();
        told.push(format!(
            "settings were not chosen from the same number of trials: {fewest} to {most}, and fewer than {most} for {names}; search again with one number for all"
        ));
    }
    told
}
