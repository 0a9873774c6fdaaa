//! Finds a number in serialisable data that is not finite.
//!
//! `serde_json` writes NaN and infinities as `null` without an error, so data has to be checked before it is written.
//! Walking the serialised form, rather than a list of fields, also covers fields added later.

use std::fmt;

use serde::Serialize;
use serde::ser;

use crate::error::{Error, Result};

/// Checks that every number in `value` is finite; otherwise [`Error::NonFinite`] names the first that is not, by its
/// path below `root`.
pub fn check<T: Serialize + ?Sized>(root: &str, value: &T) -> Result<()> {
    let mut walk = Walk { path: vec![root.to_owned()] };
    value.serialize(&mut walk).map_err(|stop| match stop {
        Stop::NonFinite(value) => {
            let named: Vec<&str> = walk.path.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
            Error::NonFinite { place: named.join("."), value }
        }
        Stop::Refused(message) => Error::write("the report", std::io::Error::other(message)),
    })
}

/// Why a walk ended early.
#[derive(Debug)]
enum Stop {
    NonFinite(f64),
    /// A type's own `Serialize` returned an error.
    Refused(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NonFinite(value) => write!(f, "{value} is not finite"),
            Self::Refused(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Stop {}

impl ser::Error for Stop {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Refused(message.to_string())
    }
}

/// A serialiser that writes nothing and keeps the path to the current value. When the walk stops, the path stays as it
/// is.
struct Walk {
    path: Vec<String>,
}

impl Walk {
    fn below<T: Serialize + ?Sized>(&mut self, name: String, value: &T) -> Result<(), Stop> {
        self.path.push(name);
        value.serialize(&mut *self)?;
        self.path.pop();
        Ok(())
    }
}

/// Returns the name of a map key for the path. A key that is not a string is shown as in JSON.
fn key_name<T: Serialize + ?Sized>(key: &T) -> String {
    match serde_json::to_value(key) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => "?".to_owned(),
    }
}

macro_rules! nothing_to_check {
    ($($method:ident($kind:ty)),* $(,)?) => {
        $(fn $method(self, _: $kind) -> Result<(), Stop> {
            Ok(())
        })*
    };
}

impl<'a> ser::Serializer for &'a mut Walk {
    type Ok = ();
    type Error = Stop;
    type SerializeSeq = Elements<'a>;
    type SerializeTuple = Elements<'a>;
    type SerializeTupleStruct = Elements<'a>;
    type SerializeTupleVariant = Elements<'a>;
    type SerializeMap = Entries<'a>;
    type SerializeStruct = Entries<'a>;
    type SerializeStructVariant = Entries<'a>;

    fn serialize_f64(self, value: f64) -> Result<(), Stop> {
        if value.is_finite() { Ok(()) } else { Err(Stop::NonFinite(value)) }
    }

    fn serialize_f32(self, value: f32) -> Result<(), Stop> {
        self.serialize_f64(value.into())
    }

    nothing_to_check! {
        serialize_bool(bool), serialize_char(char), serialize_str(&str), serialize_bytes(&[u8]),
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64), serialize_i128(i128),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64), serialize_u128(u128),
        serialize_unit_struct(&'static str),
    }

    fn serialize_none(self) -> Result<(), Stop> {
        Ok(())
    }

    fn serialize_unit(self) -> Result<(), Stop> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Stop> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Stop> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Stop> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Stop> {
        self.below(variant.to_owned(), value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'a>, Stop> {
        Ok(Elements { walk: self, next: 0 })
    }

    fn serialize_tuple(self, _: usize) -> Result<Elements<'a>, Stop> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Elements<'a>, Stop> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Elements<'a>, Stop> {
        self.serialize_seq(None)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries<'a>, Stop> {
        Ok(Entries { walk: self, key: String::new() })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Entries<'a>, Stop> {
        self.serialize_map(None)
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Entries<'a>, Stop> {
        self.serialize_map(None)
    }
}

/// Walks a sequence, whose elements are named by position.
struct Elements<'a> {
    walk: &'a mut Walk,
    next: usize,
}

/// Walks a map or struct, whose entries are named by key.
struct Entries<'a> {
    walk: &'a mut Walk,
    key: String,
}

macro_rules! elements {
    ($($trait:ident::$method:ident),* $(,)?) => {
        $(impl ser::$trait for Elements<'_> {
            type Ok = ();
            type Error = Stop;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
                self.next += 1;
                self.walk.below((self.next - 1).to_string(), value)
            }
            fn end(self) -> Result<(), Stop> {
                Ok(())
            }
        })*
    };
}

elements! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

macro_rules! fields {
    ($($trait:ident),* $(,)?) => {
        $(impl ser::$trait for Entries<'_> {
            type Ok = ();
            type Error = Stop;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Stop> {
                self.walk.below(key.to_owned(), value)
            }
            fn end(self) -> Result<(), Stop> {
                Ok(())
            }
        })*
    };
}

fields! { SerializeStruct, SerializeStructVariant }

impl ser::SerializeMap for Entries<'_> {
    type Ok = ();
    type Error = Stop;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Stop> {
        self.key = key_name(key);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
        self.walk.below(std::mem::take(&mut self.key), value)
    }

    fn end(self) -> Result<(), Stop> {
        Ok(())
    }
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
        assert_eq!(place(BTreeMap::from([("hr@10", [0.5, f64::NAN])])).unwrap(), "root.hr@10.1");
        assert_eq!(place([Shape::Wrapped(1.0), Shape::Wrapped(f64::INFINITY)]).unwrap(), "root.1.Wrapped");
        assert_eq!(place(Shape::Pair(1, f32::NEG_INFINITY)).unwrap(), "root.1");
        assert_eq!(place(Shape::Fields { depth: Some(f64::NAN) }).unwrap(), "root.depth");
        assert_eq!(place((1.0, "text", Some((2u8, f64::NAN)))).unwrap(), "root.2.1");
    }

    #[test]
    fn finite_data_and_absent_values_pass() {
        assert_eq!(place((f64::MAX, f64::MIN_POSITIVE, -0.0, None::<f64>)), None);
        assert_eq!(place([Shape::Fields { depth: None }, Shape::Pair(0, f32::MAX)]), None);
    }
}
