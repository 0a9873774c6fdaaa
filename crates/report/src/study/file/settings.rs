//! Named settings, which arms and values of axes use.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::{Spanned, Table, Value};

use super::overrides::overrides;
use super::spaces::{joined, space};
use super::{Dimension, Faults};
use fedrecsim_scenario::Override;

/// What an arm or a value of an axis changes, and what is searched in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    pub set: Vec<Override>,
    pub space: Vec<Dimension>,
}

impl Change {
    /// Returns this change with another one behind it, which counts where both say something.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self {
            set: self.set.iter().chain(&other.set).cloned().collect(),
            space: joined(&self.space, &other.space),
        }
    }
}

/// A change by its name.
pub(super) type Named = (String, Change);

/// The settings of a study by their names.
pub(super) struct Settings<'r> {
    written: &'r BTreeMap<String, Spanned<Table>>,
    used: BTreeSet<String>,
}

impl<'r> Settings<'r> {
    pub(super) fn new(written: &'r BTreeMap<String, Spanned<Table>>) -> Self {
        let used = BTreeSet::new();
        Self { written, used }
    }

    /// Returns what the names in `uses` stand for, one behind the other. They are those of settings, or
    /// of `others`, which stand before the user in the file.
    pub(super) fn of(
        &mut self,
        uses: Option<(&Value, Range<usize>)>,
        others: &[Named],
        faults: &mut Faults,
    ) -> Change {
        self.within(uses, others, &mut Vec::new(), faults)
    }

    /// Notes settings that the study's own file has and that nothing uses.
    pub(super) fn note_unused(&self, faults: &mut Faults) {
        for (name, written) in self.written {
            if !self.used.contains(name) && faults.files.is_own(&written.span()) {
                let message = format!(
                    "nothing uses the settings `{name}`: write `use = \"{name}\"` in an arm or a value of an axis, or \
                     leave them out"
                );
                faults.at(written.span(), message);
            }
        }
    }

    /// Does the same within other settings.
    fn within(
        &mut self,
        uses: Option<(&Value, Range<usize>)>,
        others: &[Named],
        within: &mut Vec<String>,
        faults: &mut Faults,
    ) -> Change {
        let Some((uses, span)) = uses else {
            return Change::default();
        };
        let listed = match uses {
            Value::Array(listed) => listed.iter().collect(),
            one => vec![one],
        };
        let mut all = Change::default();
        for name in listed {
            let Some(name) = name.as_str() else {
                faults.at(
                    span.clone(),
                    "`use` is the name of settings, or a list of names",
                );
                continue;
            };
            let other = others.iter().find(|(other, _)| other == name);
            let change = match (self.written.get(name), other) {
                (Some(written), _) => self.named(name, written, within, faults),
                (None, Some((_, change))) => change.clone(),
                (None, None) => {
                    let known = self
                        .written
                        .keys()
                        .chain(others.iter().map(|(name, _)| name));
                    // A value of an axis may have the name of settings.
                    let known: BTreeSet<String> = known.map(|name| format!("`{name}`")).collect();
                    let known: Vec<String> = known.into_iter().collect();
                    let known = match known.is_empty() {
                        true => format!("; write them below [settings.{name}]"),
                        false => format!("; known: {}", known.join(", ")),
                    };
                    faults.at(
                        span.clone(),
                        format!("there are no settings `{name}`{known}"),
                    );
                    continue;
                }
            };
            all = all.and(&change);
        }
        all
    }

    /// Returns what settings stand for: first what they use, then their own keys.
    fn named(
        &mut self,
        name: &str,
        written: &Spanned<Table>,
        within: &mut Vec<String>,
        faults: &mut Faults,
    ) -> Change {
        self.used.insert(name.to_owned());
        let (table, span) = (written.as_ref(), written.span());
        if within.iter().any(|other| other == name) {
            let circle: String = within
                .iter()
                .map(|other| format!("`{other}` uses "))
                .collect();
            faults.at(
                span,
                format!("settings cannot use themselves: {circle}`{name}`"),
            );
            return Change::default();
        }
        within.push(name.to_owned());
        let uses = table.get("use").map(|uses| (uses, span.clone()));
        let used = self.within(uses, &[], within, faults);
        within.pop();
        let mut keys = table.clone();
        keys.remove("use");
        let space = match keys.remove("search") {
            None => Vec::new(),
            Some(Value::Table(table)) => space(&table, &span, &format!("`{name}`"), faults),
            Some(_) => {
                faults.at(span, "`search` is a table of keys and ranges");
                return used;
            }
        };
        let set = overrides(&keys, &span, faults);
        used.and(&Change { set, space })
    }
}
