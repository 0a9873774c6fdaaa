//! Reads JSON lines: one object in a line, whose keys are the columns. A key with a point, as in
//! `value.user`, stands for one of an object within that.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use csv::{ByteRecord, Position};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::lines::Lines;
use crate::records::malformed;
use fedrecsim_core::Result;

/// The rows of a text with an object in each line.
pub(super) struct JsonLines<'a> {
    lines: Lines<'a>,
    path: &'a Path,
    line: Vec<u8>,
    /// The keys that are wanted, in the order of a row's fields.
    wanted: Vec<String>,
    /// The keys of the first object, once its line has been read.
    found: Option<Vec<String>>,
    /// Whether the line is the first one, which is yet to be given out.
    is_ahead: bool,
}

impl<'a> JsonLines<'a> {
    /// Starts with the names of the columns, which are the keys that are wanted.
    pub(super) fn new(lines: Lines<'a>, path: &'a Path, wanted: Vec<String>) -> Self {
        Self {
            lines,
            path,
            line: Vec::new(),
            wanted,
            found: None,
            is_ahead: false,
        }
    }

    /// Returns the keys of the first object.
    pub(super) fn found(&self) -> &[String] {
        self.found.as_deref().unwrap_or_default()
    }

    /// Reads the next row into `record`, and returns `false` at the end of the text. The first row has
    /// the names of the columns.
    pub(super) fn read(&mut self, record: &mut ByteRecord) -> Result<bool> {
        if !std::mem::take(&mut self.is_ahead) && !self.next_line()? {
            return Ok(false);
        }
        if self.found.is_none() {
            self.found = Some(keys_of(&self.line));
            self.is_ahead = true;
            *record = self.wanted.iter().collect();
            self.set_line(record);
            return Ok(true);
        }
        let fault = |message: String| malformed(self.path, self.lines.number, message);
        let values = values_in(&self.line, &self.wanted);
        let values = values.map_err(|error| {
            fault(format!(
                "expected a JSON object, found {}{}",
                reason(&error),
                match is_twice(&error) {
                    true =>
                        "; programs differ in which value they take, so leave one out".to_owned(),
                    false =>
                        of_several(&self.line, &error).unwrap_or_else(|| no_number(&self.line)),
                }
            ))
        })?;
        record.clear();
        for (value, key) in values.iter().zip(&self.wanted) {
            let text = value.map_or(Ok(Cow::Borrowed("")), text_of);
            let text = text.map_err(|found| {
                let hint = self.hint((found, key), &values);
                fault(format!(
                    "expected a text or a number under {key:?}, found {found}{hint}"
                ))
            })?;
            record.push_field(text.as_bytes());
        }
        self.set_line(record);
        Ok(true)
    }

    /// Returns what to do about an array or an object under a key.
    fn hint(&self, (found, key): (&str, &str), values: &[Option<&RawValue>]) -> String {
        // A part of a key may have a hyphen, which jq takes for a minus.
        let of_jq = |key: &str| {
            key.split('.')
                .map(|part| format!(".\"{part}\""))
                .collect::<String>()
        };
        let at = of_jq(key);
        let is_array = |value: &Option<&RawValue>| value.is_some_and(|v| v.get().starts_with('['));
        if values.len() > 1 && values.iter().all(is_array) {
            return format!(
                "; if each array is a column, write one object in a line, as with `jq -c '. as $all | {at} | keys[] \
                 as $row | $all | map_values(.[$row])' FILE > mended.jsonl`"
            );
        }
        if found == AN_ARRAY {
            return format!(
                "; write one item in a line, as with `jq -c '{at}[] as $i | {at} = $i' FILE > mended.jsonl`"
            );
        }
        let place = self.wanted.iter().position(|wanted| wanted == key);
        let object = place.and_then(|place| values[place]).map(RawValue::get);
        let inner = object.and_then(|object| keys_of(object.as_bytes()).into_iter().next());
        inner.map_or_else(String::new, |inner| {
            let column = format!("{key}.{inner}");
            format!("; name a key within it, as in {column:?}")
        })
    }

    /// Reads the next line that is not blank.
    fn next_line(&mut self) -> Result<bool> {
        loop {
            self.line.clear();
            if !self.lines.append(&mut self.line)? {
                return Ok(false);
            }
            if !self.line.trim_ascii().is_empty() {
                if self.line.windows(3).any(|three| three == b"NaN") {
                    self.line = without_nan(&self.line);
                }
                return Ok(true);
            }
        }
    }

    fn set_line(&self, record: &mut ByteRecord) {
        let mut position = Position::new();
        position.set_line(self.lines.number);
        record.set_position(Some(position));
    }
}

/// Returns the values of these keys in a line that is an object.
fn values_in<'l>(
    line: &'l [u8],
    wanted: &[String],
) -> serde_json::Result<Vec<Option<&'l RawValue>>> {
    let mut json = serde_json::Deserializer::from_slice(line);
    let values = Wanted(wanted).deserialize(&mut json)?;
    json.end().map(|()| values)
}

/// Returns a line with `null` in place of `NaN`, which Python writes for a missing number.
fn without_nan(line: &[u8]) -> Vec<u8> {
    let mut written = Vec::new();
    let (mut is_text, mut is_escaped, mut rest) = (false, false, line);
    while let Some((&byte, behind)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(b"NaN").filter(|_| !is_text) {
            written.extend_from_slice(b"null");
            rest = behind;
            continue;
        }
        is_text ^= byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        written.push(byte);
        rest = behind;
    }
    written
}

/// Returns what to do with a line that has more than an object, if that is a comma or another object.
fn of_several(line: &[u8], error: &serde_json::Error) -> Option<String> {
    let at = error.column().checked_sub(1)?;
    if !error.to_string().starts_with("trailing characters") {
        return None;
    }
    match line.get(at)? {
        b',' => Some(
            "; if the objects are separated by commas, write one in a line, as with `sed '1s/^/[/; \
             $s/,*[[:space:]]*$/]/' FILE | jq -c '.[]' > mended.jsonl`"
                .to_owned(),
        ),
        b'{' => Some(
            "; if the line has more than one object, write one in a line, as with `jq -c . FILE > mended.jsonl`"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Returns what serde says is wrong with a line, without the number of the line, which is that of this
/// text alone.
fn reason(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let end = said.find(" at line ").unwrap_or(said.len());
    format!("{} in column {}", &said[..end], error.column())
}

/// Returns what to do with the values of Python and JavaScript that JSON does not have.
fn no_number(line: &[u8]) -> String {
    let is_word = |byte: &u8| !byte.is_ascii_alphanumeric();
    let mut words = line.split(is_word);
    let found = words.find_map(|word| {
        let mut values = [&b"Infinity"[..], b"None", b"True", b"False", b"undefined"].into_iter();
        values.find(|value| *value == word)
    });
    if line
        .windows(3)
        .any(|three| three == b": '" || three == b": u")
    {
        return "; if the line is a dictionary of Python, write it with `json.dumps`".to_owned();
    }
    found.map_or_else(String::new, |word| {
        let word = String::from_utf8_lossy(word);
        format!("; JSON has no {word}: write `null`, `true` or `false`")
    })
}

const TWICE: &str = "twice the key";

const AN_ARRAY: &str = "an array";

/// Returns a value as text: numbers as they are written, yes as 1 and no as 0, and none as nothing.
fn text_of(value: &RawValue) -> Result<Cow<'_, str>, &'static str> {
    match value.get() {
        "null" => Ok("".into()),
        "true" => Ok("1".into()),
        "false" => Ok("0".into()),
        text if text.starts_with('"') => serde_json::from_str::<String>(text)
            .map_or(Err("a broken text"), |text| Ok(text.into())),
        text if text.starts_with('[') => Err(AN_ARRAY),
        text if text.starts_with('{') => of_mongo(text).map_or(Err("an object"), text_of),
        number => Ok(number.into()),
    }
}

/// Returns the value of an object that gives its type, as MongoDB writes it: `{"$oid": "5f"}`.
fn of_mongo(object: &str) -> Option<&RawValue> {
    let mut keys = serde_json::from_str::<BTreeMap<&str, &RawValue>>(object)
        .ok()?
        .into_iter();
    let (key, value) = keys.next()?;
    (key.starts_with('$') && keys.next().is_none()).then_some(value)
}

/// Returns the value under a key of an object, or under one of an object within it.
fn within<'v>(object: &'v RawValue, key: &str) -> serde_json::Result<Option<&'v RawValue>> {
    if !object.get().starts_with('{') {
        return Ok(None);
    }
    let json = &mut serde_json::Deserializer::from_str(object.get());
    let values = Wanted(&[key.to_owned()]).deserialize(json)?;
    Ok(values.into_iter().flatten().next())
}

/// The values of these keys, as they are written.
struct Wanted<'k>(&'k [String]);

impl<'de> DeserializeSeed<'de> for Wanted<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = vec![None; self.0.len()];
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            let inner = |wanted: &'_ String| {
                wanted
                    .strip_prefix(&*key)?
                    .strip_prefix('.')
                    .map(str::to_owned)
            };
            if let Some(place) = self.0.iter().position(|wanted| *wanted == key) {
                let before = values[place].replace(map.next_value()?);
                if before.is_some() {
                    return Err(twice(&key));
                }
            } else if self.0.iter().any(|wanted| inner(wanted).is_some()) {
                let object: &RawValue = map.next_value()?;
                for (value, wanted) in values.iter_mut().zip(self.0) {
                    let found = inner(wanted).map(|inner| within(object, &inner));
                    let found = found.transpose().map_err(|error| match is_twice(&error) {
                        true => twice(wanted),
                        false => A::Error::custom(error),
                    })?;
                    let found = found.flatten();
                    if value.is_some() && found.is_some() {
                        return Err(twice(wanted));
                    }
                    *value = value.or(found);
                }
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(values)
    }
}

fn is_twice(error: &serde_json::Error) -> bool {
    error.to_string().starts_with(TWICE)
}

/// Returns what is wrong with an object that has a key more than once.
fn twice<E: serde::de::Error>(key: &str) -> E {
    E::custom(format_args!("{TWICE} {key:?}"))
}

/// Returns the keys of the object in a line, with those of objects within it; none if it holds no object.
fn keys_of(line: &[u8]) -> Vec<String> {
    fn add(object: &Map<String, Value>, before: &str, keys: &mut Vec<String>) {
        for (key, value) in object {
            let key = format!("{before}{key}");
            match value {
                Value::Object(inner) if !inner.keys().all(|key| key.starts_with('$')) => {
                    add(inner, &format!("{key}."), keys);
                }
                _ => keys.push(key),
            }
        }
    }
    let mut keys = Vec::new();
    if let Ok(object) = serde_json::from_slice::<Map<String, Value>>(line) {
        add(&object, "", &mut keys);
    }
    keys
}
