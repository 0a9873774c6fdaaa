//! Lists the arms of a study: all combinations of the values of its axes, and the single arms.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::{Spanned, Value};

use super::overrides::{overrides, overrides_of};
use super::spaces::{joined, space, space_of};
use super::{Arm, Dimension, Faults, RawAxis, RawStudy, check_key};

/// The most arms of a study. A longer list is a mistake in the axes.
pub(in crate::study) const MOST_ARMS: usize = 10_000;

/// One value of an axis: its name, what it changes, and what is searched in it.
struct Choice {
    name: String,
    /// Whether it is one of several repetitions of an experiment.
    repeats: bool,
    set: Vec<String>,
    space: Vec<Dimension>,
}

/// A value of every axis: their names, and all that they change and search.
#[derive(Clone, Default)]
struct Combination {
    names: Vec<String>,
    /// Those of axes that do not repeat an experiment.
    experiment: Vec<String>,
    set: Vec<String>,
    space: Vec<Dimension>,
}

/// Returns the arms of a study, and notes what is wrong with them. Paths begin in `folder`, and the
/// overrides `last` come after all others. A study without axes and single arms has one arm, which
/// is its base.
pub(super) fn list(
    study: &RawStudy,
    folder: &Path,
    last: &[String],
    faults: &mut Faults,
) -> Vec<Arm> {
    let common = overrides_of(study.set.as_ref(), faults);
    let of_all = study.search.as_ref().map(Spanned::as_ref);
    let of_all = of_all.and_then(|search| search.space.as_ref());
    let common_space = space_of(of_all, "all arms", faults);
    let arm = |name: String, base: Option<&PathBuf>, own: &[String], space: &[Dimension]| {
        let base = base.or(study.base.as_ref());
        Arm {
            experiment: name.clone(),
            name,
            base: base.map_or_else(PathBuf::new, |base| folder.join(base)),
            set: [&common, own, last].concat(),
            values: Vec::new(),
            compare_to: None,
            space: joined(&common_space, space),
            chosen_from: None,
        }
    };
    let axes = choices(&study.axes, faults);
    let is_combined = !axes.is_empty() || study.arms.is_empty();
    let mut single = study.arms.iter().map(Spanned::as_ref);
    if study.base.is_none() && (is_combined || single.clone().any(|arm| arm.base.is_none())) {
        faults.missing(
            "`base` is missing; write the path of the scenario file, from this file's folder",
        );
    }
    let count = axes
        .iter()
        .try_fold(1usize, |count, axis| count.checked_mul(axis.len()));
    if count.is_none_or(|count| count > MOST_ARMS) {
        faults.missing(&format!("the axes have more than {MOST_ARMS} combinations"));
        return Vec::new();
    }
    let mut arms = Vec::new();
    if is_combined {
        arms.extend(combinations(&axes).into_iter().map(|of| {
            let name = |values: &[String]| match values.is_empty() {
                true => "base".to_owned(),
                false => values.join(", "),
            };
            Arm {
                experiment: name(&of.experiment),
                values: of.names.clone(),
                ..arm(name(&of.names), None, &of.set, &of.space)
            }
        }));
    }
    for written in single.by_ref() {
        let (name, span) = (written.name.as_ref(), written.name.span());
        check_text(name, &span, faults);
        let own = overrides_of(written.set.as_ref(), faults);
        if is_among(name, arms.iter().map(|arm: &Arm| &arm.name)) {
            faults.at(span, format!("there are two arms of the name `{name}`"));
        }
        let space = space_of(written.search.as_ref(), &format!("arm `{name}`"), faults);
        arms.push(arm(name.clone(), written.base.as_ref(), &own, &space));
    }
    arms
}

/// Returns whether a name is there already. Folders are named after arms, and some file systems do
/// not tell capitals from small letters.
fn is_among<'a>(name: &str, mut others: impl Iterator<Item = &'a String>) -> bool {
    others.any(|other| other.to_lowercase() == name.to_lowercase())
}

/// Returns the values of every axis.
fn choices(axes: &[Spanned<RawAxis>], faults: &mut Faults) -> Vec<Vec<Choice>> {
    let mut names: Vec<&str> = Vec::new();
    let mut listed = Vec::new();
    for RawAxis {
        name,
        key,
        repeats,
        values,
    } in axes.iter().map(Spanned::as_ref)
    {
        let (name, span) = (name.as_ref(), name.span());
        check_text(name, &span, faults);
        if names.contains(&name.as_str()) {
            faults.at(span, format!("there are two axes of the name `{name}`"));
        }
        names.push(name);
        if values.as_ref().is_empty() {
            let message = format!("the axis `{name}` is empty: it has no value");
            faults.at(values.span(), message);
        }
        if let Some(key) = key {
            check_key(key.as_ref(), &key.span(), faults);
        }
        let key = key.as_ref().map(|key| key.as_ref().as_str());
        let mut choices: Vec<Choice> = Vec::new();
        for value in values.as_ref() {
            let Some(choice) = choice_of(key, value, faults) else {
                continue;
            };
            let own = &choice.name;
            let of_arm = format!("{name}={own}");
            if is_among(&of_arm, choices.iter().map(|other| &other.name)) {
                let message = format!("the axis `{name}` has the value `{own}` twice");
                faults.at(value.span(), message);
            }
            choices.push(Choice {
                name: of_arm,
                repeats: *repeats,
                ..choice
            });
        }
        listed.push(choices);
    }
    listed
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
            let searched = table.get("search");
            let others = usize::from(searched.is_some());
            let (Some(name), Some(content), 2) = (name, content, table.len() - others) else {
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
            let space = match searched {
                None => Vec::new(),
                Some(Value::Table(table)) => space(table, &span, &format!("`{name}`"), faults),
                Some(_) => {
                    faults.at(span, "`search` is a table of keys and ranges");
                    return None;
                }
            };
            Some(Choice {
                name: name.to_owned(),
                repeats: false,
                set,
                space,
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
                repeats: false,
                set: vec![format!("{key}={plain}")],
                space: Vec::new(),
            })
        }
    }
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

/// Returns all combinations of the choices; the last axis changes the fastest.
fn combinations(axes: &[Vec<Choice>]) -> Vec<Combination> {
    let mut made = vec![Combination::default()];
    for choices in axes {
        let longer = |of: &Combination| {
            let joined = |choice: &Choice| Combination {
                names: of.names.iter().chain([&choice.name]).cloned().collect(),
                experiment: of
                    .experiment
                    .iter()
                    .chain((!choice.repeats).then_some(&choice.name))
                    .cloned()
                    .collect(),
                set: of.set.iter().chain(&choice.set).cloned().collect(),
                space: joined(&of.space, &choice.space),
            };
            choices.iter().map(joined).collect::<Vec<_>>()
        };
        made = made.iter().flat_map(longer).collect();
    }
    made
}
