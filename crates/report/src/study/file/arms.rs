//! Lists the arms of a study: all combinations of the values of its axes, and the single arms.

use std::ops::Range;
use std::path::PathBuf;

use toml::{Spanned, Table, Value};

use super::overrides::{overrides, overrides_of};
use super::settings::{Change, Named, Settings};
use super::spaces::{space, space_of};
use super::{Arm, Faults, OfAll, RawAxis, RawStudy, check_key};
use fedrecsim_scenario::Override;

/// The most arms of a study. A longer list is a mistake in the axes.
pub(in crate::study) const MOST_ARMS: usize = 10_000;

/// One value of an axis: its name, and the keys that it sets.
struct Choice {
    name: String,
    /// Whether it is one of several repetitions of an experiment.
    repeats: bool,
    change: Change,
}

/// A value of every axis: their names, and all that they change.
#[derive(Clone, Default)]
struct Combination {
    names: Vec<String>,
    /// Those of axes that do not repeat an experiment.
    experiment: Vec<String>,
    change: Change,
}

/// Returns the arms of a study, and notes what is wrong with them. The overrides `last` come after all
/// others. A study without axes and single arms has one arm, which is its base.
pub(super) fn list(study: &RawStudy, last: &[Override], faults: &mut Faults) -> Vec<Arm> {
    let mut settings = Settings::new(&study.settings);
    let common = common(study, &mut settings, faults);
    let arm = |name: String, base: Option<&PathBuf>, own: &Change| {
        let Change { mut set, space } = common.and(own);
        set.extend_from_slice(last);
        Arm {
            experiment: name.clone(),
            name,
            base: base.or(study.base.as_ref()).cloned().unwrap_or_default(),
            set,
            values: Vec::new(),
            compare_to: None,
            space,
            chosen_from: None,
        }
    };
    let axes = choices(&study.axes, &mut settings, faults);
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
                ..arm(name(&of.names), None, &of.change)
            }
        }));
    }
    let mut before: Vec<Named> = Vec::new();
    for written in single.by_ref() {
        let (name, span) = (written.name.as_ref(), written.name.span());
        check_text(name, &span, faults);
        if is_among(name, arms.iter().map(|arm: &Arm| &arm.name)) {
            faults.at(span, format!("there are two arms of the name `{name}`"));
        }
        let uses = written
            .uses
            .as_ref()
            .map(|uses| (uses.as_ref(), uses.span()));
        let change = settings.of(uses, &before, faults).and(&Change {
            set: overrides_of(written.set.as_ref(), faults),
            space: space_of(written.search.as_ref(), &format!("arm `{name}`"), faults),
        });
        arms.push(arm(name.clone(), written.base.as_ref(), &change));
        before.push((name.clone(), change));
    }
    settings.note_unused(faults);
    arms
}

/// Returns what all arms have in common.
fn common(study: &RawStudy, settings: &mut Settings<'_>, faults: &mut Faults) -> Change {
    let mut change = Change::default();
    let inherited = study
        .inherited
        .iter()
        .map(|OfAll { uses, set }| (uses, set));
    for (uses, set) in inherited.chain([(&study.uses, &study.set)]) {
        let uses = uses.as_ref().map(|uses| (uses.as_ref(), uses.span()));
        change = change.and(&settings.of(uses, &[], faults));
        change.set.extend(overrides_of(set.as_ref(), faults));
    }
    let of_all = study.search.as_ref().map(Spanned::as_ref);
    let of_all = of_all.and_then(|search| search.space.as_ref());
    change.and(&Change {
        set: Vec::new(),
        space: space_of(of_all, "all arms", faults),
    })
}

/// Returns whether a name is there already. Folders are named after arms, and some file systems do
/// not tell capitals from small letters.
fn is_among<'a>(name: &str, mut others: impl Iterator<Item = &'a String>) -> bool {
    others.any(|other| other.to_lowercase() == name.to_lowercase())
}

/// Returns the values of every axis.
fn choices(
    axes: &[Spanned<RawAxis>],
    settings: &mut Settings<'_>,
    faults: &mut Faults,
) -> Vec<Vec<Choice>> {
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
        let mut before: Vec<Named> = Vec::new();
        for value in values.as_ref() {
            let Some((own, change)) = choice_of(key, value, (settings, &before), faults) else {
                continue;
            };
            let of_arm = format!("{name}={own}");
            if is_among(&of_arm, choices.iter().map(|other| &other.name)) {
                let message = format!("the axis `{name}` has the value `{own}` twice");
                faults.at(value.span(), message);
            }
            choices.push(Choice {
                name: of_arm,
                repeats: *repeats,
                change: change.clone(),
            });
            before.push((own, change));
        }
        listed.push(choices);
    }
    listed
}

/// Returns the value of an axis: the name of settings or `{ name, use, set }` if the axis has no key;
/// otherwise a plain value, or `{ name, value }`. `before` has the values that stand before it.
fn choice_of(
    key: Option<&str>,
    value: &Spanned<Value>,
    (settings, before): (&mut Settings<'_>, &[Named]),
    faults: &mut Faults,
) -> Option<Named> {
    let span = value.span();
    match (value.as_ref(), key) {
        (Value::Table(table), _) => {
            let known = match key {
                None => &["name", "use", "set", "search"][..],
                Some(_) => &["name", "value", "search"],
            };
            let is_known = |key: &String| known.contains(&key.as_str());
            let changes = known[1..known.len() - 1]
                .iter()
                .any(|key| table.contains_key(*key));
            let name = table.get("name").and_then(Value::as_str);
            let Some(name) = name.filter(|_| changes && table.keys().all(is_known)) else {
                faults.at(span, format!("a value of this axis is {}", example(key)));
                return None;
            };
            check_text(name, &span, faults);
            let uses = table.get("use").map(|uses| (uses, span.clone()));
            let own = Change {
                set: set_of(key, table, &span, faults)?,
                space: match table.get("search") {
                    None => Vec::new(),
                    Some(Value::Table(table)) => space(table, &span, &format!("`{name}`"), faults),
                    Some(_) => {
                        faults.at(span, "`search` is a table of keys and ranges");
                        return None;
                    }
                },
            };
            Some((name.to_owned(), settings.of(uses, before, faults).and(&own)))
        }
        (named @ Value::String(name), None) => {
            check_text(name, &span, faults);
            Some((name.clone(), settings.of(Some((named, span)), &[], faults)))
        }
        (Value::Array(_), _) | (_, None) => {
            faults.at(span, format!("a value of this axis is {}", example(key)));
            None
        }
        (plain, Some(key)) => {
            let name = plain
                .as_str()
                .map_or_else(|| plain.to_string(), str::to_owned);
            check_text(&name, &span, faults);
            let set = vec![faults.files.setting(key, plain, &span)];
            Some((
                name,
                Change {
                    set,
                    ..Change::default()
                },
            ))
        }
    }
}

/// Returns what a value of an axis is like.
fn example(key: Option<&str>) -> &'static str {
    match key {
        None => {
            "the name of settings, or { name = \"int8\", set = { \"codec.uplink\" = \"rows-f32\" } }"
        }
        Some(_) => "a number or a text, or { name = \"none\", value = 0.0 }",
    }
}

/// Returns the overrides of a value of an axis.
fn set_of(
    key: Option<&str>,
    table: &Table,
    span: &Range<usize>,
    faults: &mut Faults,
) -> Option<Vec<Override>> {
    match (key, table.get("set")) {
        (Some(key), _) => {
            let value = table.get("value")?;
            Some(vec![faults.files.setting(key, value, span)])
        }
        (None, None) => Some(Vec::new()),
        (None, Some(Value::Table(set))) => Some(overrides(set, span, faults)),
        (None, Some(_)) => {
            faults.at(span.clone(), "`set` is a table of keys and values");
            None
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
                change: of.change.and(&choice.change),
            };
            choices.iter().map(joined).collect::<Vec<_>>()
        };
        made = made.iter().flat_map(longer).collect();
    }
    made
}
