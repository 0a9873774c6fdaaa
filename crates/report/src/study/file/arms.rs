//! Lists the arms of a study: all combinations of the values of its axes, and the single arms.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::{Spanned, Table, Value};

use super::{Arm, Faults, RawArm, RawAxis};
use fedrecsim_scenario::migrate::new_name;

/// The most arms of a study. A longer list is a mistake in the axes.
const MOST_ARMS: usize = 10_000;

/// What all arms of a study have in common.
pub(super) struct Arms<'a> {
    /// The folder in which paths of the file begin.
    pub folder: &'a Path,
    /// The scenario of the combinations, and of single arms without one of their own.
    pub base: Option<&'a Path>,
    /// Overrides of every run.
    pub set: Option<&'a Spanned<Table>>,
    /// Overrides of the command line, which come last.
    pub last: &'a [String],
}

/// One value of an axis: its name, and what it changes.
struct Choice {
    name: String,
    set: Vec<String>,
}

impl Arms<'_> {
    /// Returns the arms, and notes what is wrong with them. A study without axes and single arms
    /// has one arm, which is its base.
    pub(crate) fn list(
        &self,
        axes: &[Spanned<RawAxis>],
        single: &[Spanned<RawArm>],
        faults: &mut Faults,
    ) -> Vec<Arm> {
        let common = self
            .set
            .map_or_else(Vec::new, |set| overrides(set.as_ref(), &set.span(), faults));
        let axes_choices = self.choices(axes, faults);
        let mut arms: Vec<Arm> = Vec::new();
        let needs_base = !axes.is_empty()
            || single.iter().any(|arm| arm.as_ref().base.is_none())
            || single.is_empty();
        if needs_base && self.base.is_none() {
            faults.missing(
                "`base` is missing; write the path of the scenario file, from this file's folder",
            );
        }
        let count = axes_choices
            .iter()
            .try_fold(1usize, |count, axis| count.checked_mul(axis.len()));
        if count.is_none_or(|count| count > MOST_ARMS) {
            faults.missing(&format!("the axes have more than {MOST_ARMS} combinations"));
            return arms;
        }
        if !axes.is_empty() || single.is_empty() {
            for (values, set) in combinations(&axes_choices) {
                let name = if values.is_empty() {
                    "base".to_owned()
                } else {
                    values.join(", ")
                };
                arms.push(Arm {
                    values,
                    ..self.arm(name, self.base, &common, set)
                });
            }
        }
        for arm in single {
            let RawArm {
                name, base, set, ..
            } = arm.as_ref();
            check_name(name, faults);
            let own = set
                .as_ref()
                .map_or_else(Vec::new, |set| overrides(set.as_ref(), &set.span(), faults));
            // Folders are named after arms, and some file systems do not tell capitals from small
            // letters.
            if arms
                .iter()
                .any(|other| other.name.to_lowercase() == name.as_ref().to_lowercase())
            {
                faults.at(
                    name.span(),
                    format!("there are two arms of the name `{}`", name.as_ref()),
                );
            }
            arms.push(self.arm(
                name.as_ref().clone(),
                base.as_deref().or(self.base),
                &common,
                own,
            ));
        }
        arms
    }

    fn arm(&self, name: String, base: Option<&Path>, common: &[String], own: Vec<String>) -> Arm {
        let base = base.map_or_else(PathBuf::new, |base| self.folder.join(base));
        let set = common
            .iter()
            .cloned()
            .chain(own)
            .chain(self.last.iter().cloned())
            .collect();
        Arm {
            name,
            base,
            set,
            values: Vec::new(),
            compare_to: None,
        }
    }

    /// Returns the values of every axis.
    fn choices(&self, axes: &[Spanned<RawAxis>], faults: &mut Faults) -> Vec<Vec<Choice>> {
        let mut names: Vec<&str> = Vec::new();
        let mut listed = Vec::new();
        for axis in axes {
            let RawAxis { name, key, values } = axis.as_ref();
            check_name(name, faults);
            if names.contains(&name.as_ref().as_str()) {
                faults.at(
                    name.span(),
                    format!("there are two axes of the name `{}`", name.as_ref()),
                );
            }
            names.push(name.as_ref());
            if values.as_ref().is_empty() {
                faults.at(
                    values.span(),
                    format!("the axis `{}` is empty: it has no value", name.as_ref()),
                );
            }
            if let Some(key) = key {
                check_key(key.as_ref(), &key.span(), faults);
            }
            let mut choices: Vec<Choice> = Vec::new();
            for value in values.as_ref() {
                let Some(choice) =
                    choice_of(key.as_ref().map(|key| key.as_ref().as_str()), value, faults)
                else {
                    continue;
                };
                let name_of_arm = format!("{}={}", name.as_ref(), choice.name);
                if choices
                    .iter()
                    .any(|other| other.name.to_lowercase() == name_of_arm.to_lowercase())
                {
                    let message = format!(
                        "the axis `{}` has the value `{}` twice",
                        name.as_ref(),
                        choice.name
                    );
                    faults.at(value.span(), message);
                }
                choices.push(Choice {
                    name: name_of_arm,
                    ..choice
                });
            }
            listed.push(choices);
        }
        listed
    }
}

/// Returns the value of an axis: `{ name, set }` if the axis has no key; otherwise a plain value,
/// or `{ name, value }`.
fn choice_of(key: Option<&str>, value: &Spanned<Value>, faults: &mut Faults) -> Option<Choice> {
    let span = value.span();
    let (wanted, example) = match key {
        None => (
            "set",
            "{ name = \"int8\", set = { \"codec.uplink\" = \"rows-f32\" } }",
        ),
        Some(_) => (
            "value",
            "a number or a text, or { name = \"none\", value = 0.0 }",
        ),
    };
    match (value.as_ref(), key) {
        (Value::Table(table), _) => {
            let (name, content) = (table.get("name").and_then(Value::as_str), table.get(wanted));
            let (Some(name), Some(content), 2) = (name, content, table.len()) else {
                faults.at(span, format!("a value of this axis is {example}"));
                return None;
            };
            check_text(name, &span, faults);
            let set = match (key, content) {
                (Some(key), content) => vec![format!("{key}={content}")],
                (None, Value::Table(set)) => overrides(set, &span, faults),
                (None, _) => {
                    faults.at(span, "`set` is a table of keys and values");
                    return None;
                }
            };
            Some(Choice {
                name: name.to_owned(),
                set,
            })
        }
        (Value::Array(_), _) | (_, None) => {
            faults.at(span, format!("a value of this axis is {example}"));
            None
        }
        (plain, Some(key)) => {
            let name = plain
                .as_str()
                .map_or_else(|| plain.to_string(), str::to_owned);
            check_text(&name, &span, faults);
            Some(Choice {
                name,
                set: vec![format!("{key}={plain}")],
            })
        }
    }
}

/// Returns a table of overrides as `run --set` takes them.
fn overrides(set: &Table, span: &Range<usize>, faults: &mut Faults) -> Vec<String> {
    for (key, value) in set {
        check_key(key, span, faults);
        // Without quotation marks TOML makes a table of `training.rounds`, and it would replace all
        // of `[training]`.
        if value.is_table() && !key.contains('.') && key != "method" {
            let inner = value
                .as_table()
                .and_then(|table| table.keys().next())
                .map_or("KEY", String::as_str);
            let message = format!(
                "`{key}` would be replaced as a whole; write the key to change in quotation marks: \"{key}.{}\" = ...",
                new_name(key, inner).unwrap_or(inner)
            );
            faults.at(span.clone(), message);
        }
    }
    set.iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}

fn check_key(key: &str, span: &Range<usize>, faults: &mut Faults) {
    let is_bare = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
    };
    if !key.split('.').all(is_bare) {
        faults.at(
            span.clone(),
            format!("`{key}` is no key; one is written as \"training.rounds\""),
        );
    }
    if key == "seed" {
        faults.at(
            span.clone(),
            "the seed is no key of an arm: every arm is run with each of `seeds`",
        );
    }
}

fn check_name(name: &Spanned<String>, faults: &mut Faults) {
    check_text(name.as_ref(), &name.span(), faults);
}

/// Checks a text that becomes a part of a name, and of a folder's.
fn check_text(text: &str, span: &Range<usize>, faults: &mut Faults) {
    let is_fit =
        text.chars().all(|letter| !letter.is_control()) && text.trim() == text && !text.is_empty();
    if !is_fit || text.chars().count() > 80 {
        let what =
            "a name has 1 to 80 characters, no line end, and no blank at its beginning or end";
        faults.at(span.clone(), what);
    }
}

/// Returns the names of values and the overrides of all combinations of the choices; the last axis
/// changes the fastest.
fn combinations(axes: &[Vec<Choice>]) -> Vec<(Vec<String>, Vec<String>)> {
    let mut made = vec![(Vec::new(), Vec::new())];
    for choices in axes {
        let longer = |(names, set): &(Vec<String>, Vec<String>)| {
            let joined = |choice: &Choice| {
                let names = names.iter().chain([&choice.name]).cloned().collect();
                (names, set.iter().chain(&choice.set).cloned().collect())
            };
            choices.iter().map(joined).collect::<Vec<_>>()
        };
        made = made.iter().flat_map(longer).collect();
    }
    made
}
