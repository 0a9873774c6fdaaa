//! Answers questions about a schema without alternatives, and checks single values against it.

use serde_json::Value as Json;

use super::faults::Fault;
use super::repair::Repair;
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
    faults: &mut Vec<Fault>,
) {
    // Bounds are compared as f64, which cannot tell some integers beyond 2^53 apart; no bound that
    // a value could break is as large.
    for (keyword, words) in [
        ("minimum", "at least"),
        ("exclusiveMinimum", "greater than"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "less than"),
    ] {
        let Some(bound) = plain_schema.get(keyword).and_then(Json::as_f64) else {
            continue;
        };
        let holds = match keyword {
            "minimum" => number >= bound,
            "exclusiveMinimum" => number > bound,
            "maximum" => number <= bound,
            _ => number < bound,
        };
        if !holds {
            let bound = decimal(bound);
            let fault = Fault::new(
                &node.place,
                format!("`{name}` must be {words} {bound}, found {written}"),
            );
            faults.push(fault.or(Repair::numbers(within(plain_schema))));
            return;
        }
    }
    if number != 0.0 && number.abs() < SMALLEST {
        let message = format!(
            "`{name}` is {written}, which is taken for 0: numbers are computed with down to {}; write 0 or a larger one",
            decimal(f64::from(SMALLEST as f32))
        );
        faults.push(Fault::new(&node.place, message).or(Repair::numbers(within(plain_schema))));
    }
}

/// The smallest number above 0 that a scenario may have: that of the 32-bit numbers with which
/// methods train.
const SMALLEST: f64 = f32::MIN_POSITIVE as f64;

/// Returns two numbers within the bounds of a schema.
pub(super) fn within(plain_schema: &Json) -> [f64; 2] {
    let bound = |keyword: &str| plain_schema.get(keyword).and_then(Json::as_f64);
    let is_whole = types(plain_schema).any(|t| t == "integer");
    let least = bound("minimum")
        .or(bound("exclusiveMinimum").map(|bound| bound + f64::from(u8::from(is_whole))));
    let most = bound("maximum")
        .or(bound("exclusiveMaximum").map(|bound| bound - f64::from(u8::from(is_whole))));
    match (least, most) {
        (Some(least), Some(most)) if is_whole => [least, (least + 1.0).min(most)],
        (Some(least), Some(most)) => [0.25, 0.5].map(|share| least + share * (most - least)),
        (Some(least), None) => [1.0, 2.0].map(|more| least + more),
        (None, Some(most)) => [1.0, 2.0].map(|less| most - less),
        (None, None) => [1.0, 2.0],
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

    /// If this fails, a message offers a value that is refused as well.
    #[test]
    fn two_numbers_within_the_bounds_are_offered() {
        let of = |schema: Json| within(&schema);
        assert_eq!(
            of(json!({ "type": "integer", "exclusiveMinimum": 3, "maximum": 9 })),
            [4.0, 5.0]
        );
        assert_eq!(
            of(json!({ "type": "integer", "minimum": 3, "exclusiveMaximum": 5 })),
            [3.0, 4.0]
        );
        assert_eq!(
            of(json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 })),
            [0.25, 0.5]
        );
        assert_eq!(of(json!({ "type": "number", "minimum": 7 })), [8.0, 9.0]);
        assert_eq!(of(json!({ "type": "number", "maximum": 7 })), [6.0, 5.0]);
        assert_eq!(of(json!({ "type": "number" })), [1.0, 2.0]);
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
