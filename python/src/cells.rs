//! Writes values of Arrow as a file has them.

use std::fmt::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::as_datetime;
use arrow_array::types::{
    Date32Type, Date64Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_schema::{DataType, TimeUnit};

/// Refuses a type that has no text.
///
/// # Errors
/// What to do about it.
pub fn check(name: &str, data_type: &DataType) -> Result<(), String> {
    use DataType::{
        Binary, Boolean, Date32, Date64, Decimal128, Dictionary, FixedSizeBinary, FixedSizeList,
        Float32, Float64, Int8, Int16, Int32, Int64, LargeList, LargeUtf8, List, Null, Timestamp,
        UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    let remedy = match data_type {
        Boolean | Date32 | Date64 | Float32 | Float64 | Int8 | Int16 | Int32 | Int64
        | LargeUtf8 | Null | Timestamp(..) | UInt8 | UInt16 | UInt32 | UInt64 | Utf8 | Utf8View => {
            return Ok(());
        }
        FixedSizeBinary(16) => return Ok(()),
        Dictionary(_, values) => return check(name, values),
        List(_) | LargeList(_) | FixedSizeList(..) => {
            format!("write one value in a row, as with `frame.explode({name:?})`")
        }
        Decimal128(..) => format!("make it a float, as with `frame[{name:?}].astype(float)`"),
        Binary => format!("make it a text, as with `frame[{name:?}].str.decode(\"utf-8\")`"),
        _ => "make it numbers, texts or times".to_owned(),
    };
    Err(format!(
        "the column `{name}` of the ratings has the type {data_type}, and must have numbers, texts or times: {remedy}"
    ))
}

/// Appends the text of a value, as a file has it; nothing for one that is missing.
pub fn write(array: &dyn Array, row: usize, text: &mut String) {
    use DataType::{
        Boolean, Date32, Date64, Dictionary, FixedSizeBinary, Float32, Float64, Int8, Int16, Int32,
        Int64, LargeUtf8, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    if array.is_null(row) {
        return;
    }
    // Writing to a text cannot fail.
    let _ = match array.data_type() {
        Utf8 => text.write_str(array.as_string::<i32>().value(row)),
        LargeUtf8 => text.write_str(array.as_string::<i64>().value(row)),
        Utf8View => text.write_str(array.as_string_view().value(row)),
        Int8 => write!(text, "{}", value::<Int8Type>(array, row)),
        Int16 => write!(text, "{}", value::<Int16Type>(array, row)),
        Int32 => write!(text, "{}", value::<Int32Type>(array, row)),
        Int64 => write!(text, "{}", value::<Int64Type>(array, row)),
        UInt8 => write!(text, "{}", value::<UInt8Type>(array, row)),
        UInt16 => write!(text, "{}", value::<UInt16Type>(array, row)),
        UInt32 => write!(text, "{}", value::<UInt32Type>(array, row)),
        UInt64 => write!(text, "{}", value::<UInt64Type>(array, row)),
        // Frames have NaN for what is missing. `2.0` stays `2.0`, as they write it.
        Float32 => match value::<Float32Type>(array, row) {
            number if number.is_nan() => Ok(()),
            number => write!(text, "{number:?}"),
        },
        Float64 => match value::<Float64Type>(array, row) {
            number if number.is_nan() => Ok(()),
            number => write!(text, "{number:?}"),
        },
        Boolean => write!(text, "{}", u8::from(array.as_boolean().value(row))),
        FixedSizeBinary(_) => uuid(array.as_fixed_size_binary().value(row), text),
        Date32 => date::<Date32Type>(i64::from(value::<Date32Type>(array, row)), text),
        Date64 => date::<Date64Type>(value::<Date64Type>(array, row), text),
        Timestamp(unit, _) => match unit {
            TimeUnit::Second => {
                date::<TimestampSecondType>(value::<TimestampSecondType>(array, row), text)
            }
            TimeUnit::Millisecond => date::<TimestampMillisecondType>(
                value::<TimestampMillisecondType>(array, row),
                text,
            ),
            TimeUnit::Microsecond => date::<TimestampMicrosecondType>(
                value::<TimestampMicrosecondType>(array, row),
                text,
            ),
            TimeUnit::Nanosecond => {
                date::<TimestampNanosecondType>(value::<TimestampNanosecondType>(array, row), text)
            }
        },
        Dictionary(..) => {
            if let Some(dictionary) = array.as_any_dictionary_opt() {
                let mut key = String::new();
                write(dictionary.keys(), row, &mut key);
                if let Ok(key) = key.parse() {
                    write(&**dictionary.values(), key, text);
                }
            }
            Ok(())
        }
        // Other types are refused before.
        _ => Ok(()),
    };
}

/// Returns a number of an array of this type.
fn value<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> T::Native {
    array.as_primitive::<T>().value(row)
}

/// Appends an instant in UTC as a date. One that is out of the calendar's range stays a number, which is refused
/// with its row.
fn date<T: ArrowPrimitiveType>(instant: i64, text: &mut String) -> std::fmt::Result {
    match as_datetime::<T>(instant) {
        Some(date) => write!(text, "{date}"),
        None => write!(text, "{instant} is no date"),
    }
}

/// Appends the 16 bytes of a UUID in its usual form.
fn uuid(bytes: &[u8], text: &mut String) -> std::fmt::Result {
    for (place, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&place) {
            text.write_char('-')?;
        }
        write!(text, "{byte:02x}")?;
    }
    Ok(())
}
