//! Answers questions about a schema without alternatives, and checks single values against it.

use serde_json::Value as Json;

use super::faults::Fault;
use super::tree::{Node, Value};

/// Returns the types that a schema without alternatives allows.
pub(super) fn types(plain_schema: &Json) -> impl Iterator<Item = &str> {
    let (one, many) = match plain_schema.get("type") {
        Some(Json::String(one)) => (Some(one.as_str()), None),
        Some(Json::Array(many)) => (None, Some(many)),
        // A list of literals without a type is one of strings: scenario schemas have no other
        // literals.
        _ if literals_of(plain_schema).is_some() => (Some("string"), None),
        _ => (None, None),
    };
    one.into_iter()
        .chain(many.into_iter().flatten().filter_map(Json::as_str))
}

/// Returns whether the schema allows values of the type of `value`.
pub(super) fn admits(plain_schema: &Json, value: &Value) -> bool {
    types(plain_schema).any(|t| match value {
        Value::Boolean(_) => t == "boolean",
        Value::Integer(_) => t == "integer" || t == "number",
        Value::Float(_) => t == "number",
        Value::String(_) => t == "string",
        Value::Array(_) => t == "array",
        Value::Table(_) => t == "object",
        Value::Datetime | Value::Unusable => false,
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
        Value::Datetime => "a date or time",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
        Value::Unusable => "an unusable number",
    }
}

/// Returns the strings that a schema admits, if it lists them.
pub(super) fn literals_of(plain_schema: &Json) -> Option<Vec<&str>> {
    match (plain_schema.get("const"), plain_schema.get("enum")) {
        (Some(literal), _) => Some(literal.as_str().into_iter().collect()),
        (None, Some(Json::Array(literals))) => {
            Some(literals.iter().filter_map(Json::as_str).collect())
        }
        _ => None,
    }
}

pub(super) fn literals(plain_schema: &Json) -> Vec<&str> {
    literals_of(plain_schema).unwrap_or_default()
}

/// Returns the key that marks an alternative of an externally tagged enum: its only property, which
/// is required.
pub(super) fn tag(plain_schema: &Json) -> Option<&str> {
    let properties = plain_schema.get("properties")?.as_object()?;
    let mut keys = properties.keys();
    let only = keys.next().filter(|_| keys.next().is_none())?;
    required(plain_schema)
        .any(|key| key == only)
        .then_some(only)
}

/// Returns the names that the alternatives offer, as a word or as the key of a table.
pub(super) fn choices<'s>(alternatives: &[&'s Json]) -> Vec<&'s str> {
    let mut names = Vec::new();
    for name in alternatives
        .iter()
        .flat_map(|plain_schema| literals(plain_schema).into_iter().chain(tag(plain_schema)))
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns whether `plain_schema` is a tagged one among several alternatives.
pub(super) fn is_tagged(plain_schema: &Json, alternatives: &[&Json]) -> bool {
    alternatives.len() > 1 && tag(plain_schema).is_some()
}

pub(super) fn required(plain_schema: &Json) -> impl Iterator<Item = &str> {
    plain_schema
        .get("required")
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

/// Checks a number, which the user wrote as `written`, against its bounds.
pub(super) fn bounds(
    plain_schema: &Json,
    number: f64,
    written: &str,
    node: &Node,
    name: &str,
) -> Option<Fault> {
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
        let bound = plain_schema.get(*keyword)?.as_f64()?;
        (!holds(&number, &bound)).then(|| {
            let bound = decimal(bound);
            format!("`{name}` must be {words} {bound}, found {written}")
        })
    });
    let (smallest, unit) = smallest(name);
    let lost = || {
        format!(
            "`{name}` is {written}, which is taken for 0: write 0 or at least {}{unit}",
            decimal(smallest)
        )
    };
    let is_lost = number != 0.0 && number.abs() < smallest;
    let message = broken.or_else(|| is_lost.then(lost))?;
    Some(Fault::new(&node.place, message).or(Some(within(plain_schema))))
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

/// Returns a number within the bounds of a schema.
pub(super) fn within(plain_schema: &Json) -> Json {
    let bound = |keyword: &str| plain_schema.get(keyword).and_then(Json::as_f64);
    let is_whole = types(plain_schema).any(|t| t == "integer");
    let beside = f64::from(u8::from(is_whole));
    let least = bound("minimum").or(bound("exclusiveMinimum").map(|bound| bound + beside));
    let most = bound("maximum").or(bound("exclusiveMaximum").map(|bound| bound - beside));
    let number = match (least, most) {
        (Some(least), Some(_)) if is_whole => least,
        (Some(least), Some(most)) => least + 0.5 * (most - least),
        (Some(least), None) => least + 1.0,
        (None, Some(most)) => most - 1.0,
        (None, None) => 1.0,
    };
    if is_whole {
        (number as i64).into()
    } else {
        number.into()
    }
}

/// Checks that the `length` of a string or an array is within the limits under the two `keywords`;
/// `unit` is the word for what is counted.
pub(super) fn length(
    plain_schema: &Json,
    keywords: [&str; 2],
    (length, unit): (usize, &str),
    node: &Node,
    name: &str,
) -> Option<Fault> {
    let limit = |keyword: &str| plain_schema.get(keyword).and_then(Json::as_u64);
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    let (words, limit) = match keywords.map(limit) {
        [Some(least), _] if (length as u64) < least => ("at least", least),
        [_, Some(most)] if length as u64 > most => ("at most", most),
        _ => return None,
    };
    let message = format!(
        "`{name}` must have {words} {limit} {unit}{}, found {length}",
        plural(limit)
    );
    Some(Fault::new(&node.place, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// If this fails, what stands for a wrong number is wrong itself.
    #[test]
    fn a_number_within_the_bounds_stands_for_one_that_is_not() {
        for (schema, expected) in [
            (
                json!({ "type": "integer", "exclusiveMinimum": 3, "maximum": 9 }),
                json!(4),
            ),
            (
                json!({ "type": "integer", "minimum": 3, "exclusiveMaximum": 5 }),
                json!(3),
            ),
            (
                json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 }),
                json!(0.5),
            ),
            (json!({ "type": "number", "minimum": 7 }), json!(8.0)),
            (json!({ "type": "number", "maximum": 7 }), json!(6.0)),
            (json!({ "type": "number" }), json!(1.0)),
        ] {
            assert_eq!(within(&schema), expected);
        }
    }

    /// If this fails, the only form that a key may have is taken for one choice among several.
    #[test]
    fn a_tag_tells_alternatives_apart_only_where_there_are_several() {
        let tagged = json!({ "type": "object", "properties": { "share": {} }, "required": ["share"], "additionalProperties": false });
        let other = json!({ "type": "string", "const": "all" });
        assert!(!is_tagged(&tagged, &[&tagged]));
        assert!(is_tagged(&tagged, &[&tagged, &other]) && !is_tagged(&other, &[&tagged, &other]));
    }
}
