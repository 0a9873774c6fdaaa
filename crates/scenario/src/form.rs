//! Answers questions about the forms of a value, which are schemas without alternatives, and checks
//! single values against them.

use serde_json::Value as Json;

use super::suggest;
use super::tree::Value;

/// Returns the types that a form allows.
pub(super) fn types(form: &Json) -> impl Iterator<Item = &str> {
    let (one, many) = match form.get("type") {
        Some(Json::String(one)) => (Some(one.as_str()), None),
        Some(Json::Array(many)) => (None, Some(many)),
        // A list of literals without a type is one of strings: scenario schemas have no other
        // literals.
        _ if literals_of(form).is_some() => (Some("string"), None),
        _ => (None, None),
    };
    one.into_iter()
        .chain(many.into_iter().flatten().filter_map(Json::as_str))
}

/// Returns whether a form allows this type.
pub(super) fn has_type(form: &Json, name: &str) -> bool {
    types(form).any(|of_schema| of_schema == name)
}

/// Returns whether the form allows values of the type of `value`.
pub(super) fn admits(form: &Json, value: &Value) -> bool {
    types(form).any(|t| match value {
        Value::Boolean(_) => t == "boolean",
        Value::Integer(_) => t == "integer" || t == "number",
        Value::Float(_) => t == "number",
        Value::String(_) | Value::Datetime(_) => t == "string",
        Value::Array(_) => t == "array",
        Value::Table(_) => t == "object",
        Value::Unusable => false,
    })
}

/// Returns the words for a type that was expected.
pub(super) fn type_in_words(name: &str) -> Option<&'static str> {
    Some(match name {
        "boolean" => "true or false",
        "integer" => "an integer",
        "number" => "a number",
        "string" => "a string",
        "array" => "an array",
        "object" => "a table",
        _ => return None,
    })
}

/// Returns the words for a value that was found instead.
pub(super) fn kind_in_words(value: &Value) -> &'static str {
    match value {
        Value::Boolean(_) => "a boolean",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a float",
        Value::String(_) => "a string",
        Value::Datetime(_) => "a date or time",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
        Value::Unusable => "an unusable number",
    }
}

/// Returns the strings that a schema admits, if it lists them.
pub(super) fn literals_of(form: &Json) -> Option<Vec<&str>> {
    match (form.get("const"), form.get("enum")) {
        (Some(literal), _) => Some(literal.as_str().into_iter().collect()),
        (None, Some(Json::Array(literals))) => {
            Some(literals.iter().filter_map(Json::as_str).collect())
        }
        _ => None,
    }
}

pub(super) fn literals(form: &Json) -> Vec<&str> {
    literals_of(form).unwrap_or_default()
}

/// Returns the key that marks a form of an externally tagged enum: its only property, which
/// is required.
pub(super) fn tag(form: &Json) -> Option<&str> {
    let properties = form.get("properties")?.as_object()?;
    let mut keys = properties.keys();
    let only = keys.next().filter(|_| keys.next().is_none())?;
    required(form).any(|key| key == only).then_some(only)
}

/// Returns the keys of a table and their schemas.
pub(super) fn keys_of(form: &Json) -> impl Iterator<Item = (&String, &Json)> {
    let properties = form.get("properties").and_then(Json::as_object);
    properties.into_iter().flatten()
}

/// Returns the schema of a key of a table.
pub(super) fn property<'s>(form: &'s Json, key: &str) -> Option<&'s Json> {
    form.get("properties")?.get(key)
}

/// Returns the schema of what stands behind the name of a choice, if one form is that choice.
pub(super) fn chosen<'s>(forms: &[&'s Json], name: &str) -> Option<&'s Json> {
    let form = forms.iter().find(|form| tag(form) == Some(name))?;
    property(form, name)
}

/// Returns whether a word is one of those that the forms list.
pub(super) fn has_word(forms: &[&Json], word: &str) -> bool {
    forms.iter().any(|form| literals(form).contains(&word))
}

/// Returns the names that the forms offer, as a word or as the key of a table.
pub(super) fn choices<'s>(forms: &[&'s Json]) -> Vec<&'s str> {
    let names = |form: &&'s Json| literals(form).into_iter().chain(tag(form));
    suggest::once(forms.iter().flat_map(names))
}

/// Returns whether `form` is a tagged one among several forms.
pub(super) fn is_tagged(form: &Json, forms: &[&Json]) -> bool {
    forms.len() > 1 && tag(form).is_some()
}

pub(super) fn required(form: &Json) -> impl Iterator<Item = &str> {
    form.get("required")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
}

/// Returns a number as people write it, with a power of ten in place of a row of zeros.
pub(super) fn decimal(number: f64) -> String {
    if number == 0.0 || (1e-6..1e15).contains(&number.abs()) {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

/// Returns what is wrong with a number, which the user wrote as `written`, by its bounds.
pub(super) fn bounds(form: &Json, number: f64, written: &str, name: &str) -> Option<String> {
    // Bounds are compared as f64, which cannot tell some integers beyond 2^53 apart; no bound that
    // a value could break is as large.
    type Holds = fn(&f64, &f64) -> bool;
    let keywords: [(&str, &str, Holds); 4] = [
        ("minimum", "at least", f64::ge),
        ("exclusiveMinimum", "greater than", f64::gt),
        ("maximum", "at most", f64::le),
        ("exclusiveMaximum", "less than", f64::lt),
    ];
    let broken = keywords.iter().find_map(|(keyword, words, holds)| {
        let bound = form.get(*keyword)?.as_f64()?;
        (!holds(&number, &bound)).then(|| {
            let bound = decimal(bound);
            format!("`{name}` must be {words} {bound}, found {written}")
        })
    });
    let (smallest, unit) = smallest(name);
    let is_lost = number != 0.0 && number.abs() < smallest;
    broken.or_else(|| {
        let smallest = decimal(smallest);
        let may_be_0 = form.get("exclusiveMinimum").and_then(Json::as_f64) != Some(0.0);
        let zero = if may_be_0 { "0 or " } else { "" };
        is_lost.then(|| {
            format!(
                "`{name}` is {written}, which is taken for 0: write {zero}at least {smallest}{unit}"
            )
        })
    })
}

/// Returns the smallest number above 0 that the value of `name` may have, and what it is. Times are
/// counted in nanoseconds, and methods train with 32-bit numbers.
fn smallest(name: &str) -> (f64, &'static str) {
    if name.ends_with("_ms") || name.contains("_ms_per_") {
        (1e-6, ", a nanosecond")
    } else if name.ends_with("_s") && !name.ends_with("_per_s") {
        (1e-9, ", a nanosecond")
    } else {
        (f64::from(f32::MIN_POSITIVE), "")
    }
}

/// Returns what is wrong with the `length` of a string or an array, whose limits stand under the two
/// `keywords`; `unit` is the word for what is counted.
pub(super) fn length(
    form: &Json,
    keywords: [&str; 2],
    (length, unit): (usize, &str),
    name: &str,
) -> Option<String> {
    let limit = |keyword: &str| form.get(keyword).and_then(Json::as_u64);
    let (words, limit) = match keywords.map(limit) {
        [Some(least), _] if (length as u64) < least => ("at least", least),
        [_, Some(most)] if length as u64 > most => ("at most", most),
        _ => return None,
    };
    let plural = if limit == 1 { "" } else { "s" };
    let demand = format!("{words} {limit} {unit}{plural}");
    Some(format!("`{name}` must have {demand}, found {length}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// If this fails, the only form that a key may have is taken for one choice among several.
    #[test]
    fn a_tag_tells_alternatives_apart_only_where_there_are_several() {
        let tagged = json!({ "type": "object", "properties": { "share": {} }, "required": ["share"], "additionalProperties": false });
        let other = json!({ "type": "string", "const": "all" });
        assert!(!is_tagged(&tagged, &[&tagged]));
        assert!(is_tagged(&tagged, &[&tagged, &other]) && !is_tagged(&other, &[&tagged, &other]));
    }
}
