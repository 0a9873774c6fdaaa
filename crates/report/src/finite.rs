//! Finds a number in serialisable data that is not finite.
//!
//! `serde_json` writes NaN and infinities as `null` without an error, so data has to be checked
//! before it is written. The check looks at what is serialised rather than at a list of fields, so
//! that it also covers fields added later. A type of number that cannot be NaN would stand between
//! every reader of an outcome and its figures.

use ciborium::Value;
use serde::Serialize;

use fedrecsim_core::{Error, Result};

/// Checks that every number in `value` is finite; otherwise [`Error::NonFinite`] names the first
/// that is not, by its path below `root`.
pub(crate) fn check<T: Serialize + ?Sized>(root: &str, value: &T) -> Result<()> {
    let refused = |reason: ciborium::value::Error| {
        Error::write("the report", std::io::Error::other(reason.to_string()))
    };
    match not_finite(&Value::serialized(value).map_err(refused)?) {
        None => Ok(()),
        Some((mut path, value)) => {
            path.push(root.to_owned());
            let named: Vec<&str> = path
                .iter()
                .rev()
                .map(String::as_str)
                .filter(|part| !part.is_empty())
                .collect();
            Err(Error::NonFinite {
                place: named.join("."),
                value,
            })
        }
    }
}

/// Returns the first number that is not finite, and the keys on the way to it, the innermost first.
fn not_finite(value: &Value) -> Option<(Vec<String>, f64)> {
    let below = |key: &dyn Fn() -> String, value: &Value| {
        let (mut path, number) = not_finite(value)?;
        path.push(key());
        Some((path, number))
    };
    match value {
        Value::Float(number) => (!number.is_finite()).then(|| (Vec::new(), *number)),
        Value::Array(values) => (0..)
            .zip(values)
            .find_map(|(index, value): (u64, _)| below(&|| index.to_string(), value)),
        Value::Map(entries) => entries
            .iter()
            .find_map(|(key, value)| below(&|| name_of(key), value)),
        _ => None,
    }
}

/// Returns the name of a key for the path. A key that is no text is shown as Rust shows it.
fn name_of(key: &Value) -> String {
    key.as_text()
        .map_or_else(|| format!("{key:?}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Serialize)]
    enum Shape {
        Wrapped(f64),
        Pair(u8, f32),
        Fields { depth: Option<f64> },
    }

    fn place<T: Serialize>(value: T) -> Option<String> {
        match check("root", &value) {
            Ok(()) => None,
            Err(Error::NonFinite { place, .. }) => Some(place),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_hidden_nan_is_found_wherever_it_hides() {
        assert_eq!(
            place(BTreeMap::from([("hr@10", [0.5, f64::NAN])])).unwrap(),
            "root.hr@10.1"
        );
        assert_eq!(
            place([Shape::Wrapped(1.0), Shape::Wrapped(f64::INFINITY)]).unwrap(),
            "root.1.Wrapped"
        );
        assert_eq!(
            place(Shape::Pair(1, f32::NEG_INFINITY)).unwrap(),
            "root.Pair.1"
        );
        assert_eq!(
            place(Shape::Fields {
                depth: Some(f64::NAN)
            })
            .unwrap(),
            "root.Fields.depth"
        );
        assert_eq!(
            place((1.0, "text", Some((2u8, f64::NAN)))).unwrap(),
            "root.2.1"
        );
    }

    #[test]
    fn finite_data_and_absent_values_pass() {
        assert_eq!(
            place((f64::MAX, f64::MIN_POSITIVE, -0.0, None::<f64>)),
            None
        );
        assert_eq!(
            place([Shape::Fields { depth: None }, Shape::Pair(0, f32::MAX)]),
            None
        );
    }
}
