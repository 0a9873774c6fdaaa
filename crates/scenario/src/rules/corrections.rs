//! Suggests how to write what a wrong value or key was probably meant to be.

use serde_json::Value as Json;

use super::Rules;
use crate::form::{admits, chosen, has_type, has_word, keys_of, literals, property, required, tag};
use crate::tree::Value;
use crate::{migrate, suggest};

impl<'s> Rules<'s> {
    /// Returns the end of a message about a value of a wrong type, which says how to write what was
    /// probably meant.
    pub(super) fn instead_of_value(&self, forms: &[&'s Json], value: &Value, name: &str) -> String {
        let admits = |wanted: &str| forms.iter().any(|form| has_type(form, wanted));
        match value {
            // In `network = "lan"`, the text is the value of one key of the table.
            Value::String(text) => {
                let mut keys = forms.iter().flat_map(|form| keys_of(form));
                let key = keys.find(|(_, schema)| has_word(&self.forms(schema), text));
                match (key, self.only_key(forms, value)) {
                    (Some((key, _)), _) => format!("; did you mean `{name}.{key} = \"{text}\"`?"),
                    // In `trace = "a.csv"`, the text is the value of the only required key.
                    (None, Some(key)) => format!("; write `{name} = {{ {key} = \"{text}\" }}`"),
                    (None, None) => String::new(),
                }
            }
            Value::Array(items)
                if admits("object")
                    && !items.is_empty()
                    && items
                        .iter()
                        .all(|item| matches!(item.value, Value::Table(_))) =>
            {
                format!("; write `[{name}]` for `[[{name}]]`")
            }
            Value::Table(_) if forms.iter().any(|form| self.lists_tables(form)) => {
                "; write its header in double brackets (`[[`)".to_owned()
            }
            Value::Float(number)
                if admits("integer") && number.fract() == 0.0 && number.abs() < 1e15 =>
            {
                format!("; write `{number}`")
            }
            Value::Integer(_) => {
                let takers = self.takers(forms, value);
                let only = self.only_key(forms, value).filter(|_| takers.is_empty());
                let tag = if let [tag] = takers[..] {
                    Some(tag)
                } else {
                    only
                };
                tag.map_or(String::new(), |tag| {
                    format!("; write `{name} = {{ {tag} = {} }}`", in_short(value))
                })
            }
            // In `participation = 0.5`, the number is the value of one of the choices that could
            // take it. In `users = [3, 4]`, the list is that of one that takes a list of such
            // items.
            Value::Float(_) | Value::Array(_) => {
                let written = |tag: &&str| format!("`{name} = {{ {tag} = {} }}`", in_short(value));
                let choices: Vec<String> = self.takers(forms, value).iter().map(written).collect();
                if choices.is_empty() {
                    String::new()
                } else {
                    format!("; write {}", suggest::or_list(&choices))
                }
            }
            _ => String::new(),
        }
    }

    fn lists_tables(&self, form: &'s Json) -> bool {
        form.get("items").is_some_and(|schema| {
            let mut items = self.forms(schema).into_iter();
            items.any(|item| has_type(item, "object"))
        })
    }

    /// Returns the key of the only table among the forms, if that table requires no other
    /// key and the key takes any value of this type.
    fn only_key(&self, forms: &[&'s Json], value: &Value) -> Option<&'s str> {
        let mut tables = forms.iter().filter(|form| has_type(form, "object"));
        let (table, None) = (tables.next()?, tables.next()) else {
            return None;
        };
        let mut keys = required(table);
        let (key, None) = (keys.next()?, keys.next()) else {
            return None;
        };
        let takes = |schema: &&Json| admits(schema, value) && literals(schema).is_empty();
        self.forms(property(table, key)?)
            .iter()
            .any(takes)
            .then_some(key)
    }

    /// Returns the choices whose tables could hold `value` behind their names.
    fn takers(&self, forms: &[&'s Json], value: &Value) -> Vec<&'s str> {
        let takes = |form: &'s Json| {
            let tag = tag(form).filter(|_| forms.len() > 1)?;
            self.forms(property(form, tag)?)
                .iter()
                .any(|form| admits(form, value) && self.takes_items(form, value))
                .then_some(tag)
        };
        forms.iter().filter_map(|form| takes(form)).collect()
    }

    /// Returns whether a list may have the first item of `value`; true if that is no list, or an
    /// empty one.
    fn takes_items(&self, form: &'s Json, value: &Value) -> bool {
        let (Value::Array(items), Some(schema)) = (value, form.get("items")) else {
            return true;
        };
        let of_items = self.forms(schema);
        items
            .first()
            .is_none_or(|item| of_items.iter().any(|form| admits(form, &item.value)))
    }

    /// Returns how to write `key` if it is not a key of a table but a choice of one of its keys:
    /// `effect = "drop"` for `drop`.
    pub(super) fn as_a_choice(&self, key: &str, table: &'s Json) -> Option<String> {
        keys_of(table).find_map(|(owner, schema)| {
            let choices = self.forms(schema);
            let is_choice = choices.len() > 1 && chosen(&choices, key).is_some();
            let value = match is_choice {
                true => format!("{{ {key} = {} }}", self.least_value(&choices, key)),
                false if has_word(&choices, key) => format!("\"{key}\""),
                false => return None,
            };
            Some(format!("{owner} = {value}"))
        })
    }

    /// Returns what has to stand behind the name of a choice: its required keys, if it is a table.
    pub(super) fn least_value(&self, forms: &[&'s Json], name: &str) -> String {
        let forms = chosen(forms, name).map_or(Vec::new(), |schema| self.forms(schema));
        match forms[..] {
            [table] if has_type(table, "object") => {
                let keys: Vec<String> = required(table).map(|key| format!("{key} = ...")).collect();
                match keys.is_empty() {
                    true => "{}".to_owned(),
                    false => format!("{{ {} }}", keys.join(", ")),
                }
            }
            _ => "...".to_owned(),
        }
    }

    /// Returns whether `key` is a key of the table that `schema` describes.
    pub(super) fn has_key(&self, schema: &'s Json, key: &str) -> bool {
        let forms = self.forms(schema);
        forms.iter().any(|form| property(form, key).is_some())
    }

    /// Returns in words where in the file the key `key` is known, if that is in few places. In TOML
    /// a key that is written below a `[table]` belongs to that table, which is easily forgotten.
    pub(super) fn home_of(&self, key: &str) -> Option<String> {
        let (mut homes, passed_over) = self.homes(key);
        let mut end = "";
        if homes.is_empty() {
            homes = passed_over;
            end = ", which the file does not choose";
        }
        match homes.as_slice() {
            [top] if top.is_empty() => {
                Some("at the top of the file, above the first `[table]`".to_owned())
            }
            [] | [_, _, _, _, _, _, ..] => None,
            homes => {
                let homes: Vec<String> = homes.iter().map(|home| format!("`[{home}]`")).collect();
                Some(format!("to {}{end}", suggest::or_list(&homes)))
            }
        }
    }

    /// Returns what to do about the key `key` of `table`, which is `new` there now.
    pub(super) fn instead_of_moved(&self, table: &str, key: &str, new: &str) -> String {
        let (below, last) = new.rsplit_once('.').unwrap_or(("", new));
        let home = format!("{table}.{below}");
        if self.homes(last).1.contains(&home) {
            return format!(
                "`{key}` belongs to `[{home}]` now, which the file does not choose: take it out"
            );
        }
        migrate::advice(table, key, new)
    }

    /// Returns the tables in which `key` is known, and those of choices that the file does not make.
    fn homes(&self, key: &str) -> (Vec<String>, Vec<String>) {
        let mut homes = Default::default();
        self.find_homes(self.root, ("", true), key, &mut homes);
        homes
    }

    fn find_homes(
        &self,
        schema: &'s Json,
        (path, is_open): (&str, bool),
        key: &str,
        homes: &mut (Vec<String>, Vec<String>),
    ) {
        let forms = self.forms(schema);
        for form in &forms {
            let is_open = is_open && !self.is_passed_over(form, &forms, path);
            if property(form, key).is_some() {
                let known = if is_open { &mut homes.0 } else { &mut homes.1 };
                known.push(path.to_owned());
            }
            // This depth is enough for every table that people write; a schema may refer to itself.
            if path.matches('.').count() >= 3 {
                continue;
            }
            for (name, schema) in keys_of(form) {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                self.find_homes(schema, (&path, is_open), key, homes);
            }
        }
    }

    /// Returns whether the file chooses another one of `forms` than `form` for the key `path`.
    fn is_passed_over(&self, form: &'s Json, forms: &[&'s Json], path: &str) -> bool {
        let written = self.file.and_then(|file| Some(&file.at(path)?.value));
        let is_chosen = |form: &'s Json| match (written, tag(form)) {
            (Some(Value::Table(table)), Some(tag)) => table.contains_key(tag),
            (Some(Value::String(word)), tag) => tag == Some(word) || has_word(&[form], word),
            _ => false,
        };
        tag(form).is_some() && !is_chosen(form) && forms.iter().any(|form| is_chosen(form))
    }
}

/// Returns a value as it may be written, or its beginning and end if it is long.
fn in_short(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        _ => "[...]".to_owned(),
    }
}
