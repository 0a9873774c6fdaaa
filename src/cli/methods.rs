//! Carries out `methods`, which lists what can be named in a scenario's `[method.NAME]`.

use serde_json::Value;

use super::wrapped;
use fedrecsim_methods::method::Entry;

/// Returns every one of `methods` with its source and its parameters, in lines of `width` columns.
/// Each part is a valid piece of a scenario file that spells out the defaults.
pub fn methods(methods: &[Entry], width: usize) -> String {
    methods
        .iter()
        .map(|entry| method(entry, width))
        .collect::<Vec<_>>()
        .join("\n")
}

fn method(entry: &Entry, width: usize) -> String {
    let schema = Value::from((entry.schema)());
    let parameters: Vec<(&String, &Value)> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .collect();
    let mut text = match parameters.is_empty() {
        true => format!("method = \"{}\"\n", entry.name),
        false => format!("[method.{}]\n", entry.name),
    };
    text.push_str(&wrapped(entry.summary, "# ", width));
    text.push_str(&wrapped(&format!("Source: {}", entry.source), "# ", width));
    for (name, parameter) in parameters {
        text.push('\n');
        text.push_str(&assignment(name, parameter));
        if let Some(description) = described(parameter) {
            text.push_str(&wrapped(description, "  # ", width));
        }
        for (value, meaning) in choices(&schema, parameter) {
            text.push_str(&wrapped(
                &format!("\"{value}\": {meaning}"),
                "  #   ",
                width,
            ));
        }
    }
    text
}

/// Returns the line that sets a parameter to its default. Where the default depends on other
/// parameters the line is a comment, so that copying it changes nothing.
fn assignment(name: &str, parameter: &Value) -> String {
    match parameter.get("default") {
        None | Some(Value::Null) => format!("# {name} = (depends)\n"),
        Some(default) => format!("{name} = {default}\n"),
    }
}

/// Returns the names that a parameter may have as its value, each with its meaning; empty if it is
/// not one of a few names.
fn choices<'s>(schema: &'s Value, parameter: &'s Value) -> Vec<(&'s str, &'s str)> {
    let definition = parameter
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| schema.pointer(reference.strip_prefix('#')?))
        .unwrap_or(parameter);
    let alternatives = definition
        .get("oneOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    alternatives
        .filter_map(|choice| Some((choice.get("const")?.as_str()?, described(choice)?)))
        .collect()
}

fn described(schema: &Value) -> Option<&str> {
    schema.get("description").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use fedrecsim_methods::method::registry::{METHODS, vocabulary};
    use fedrecsim_scenario::scenario;

    const REST: &str = "dataset.name = \"generated\"\ntraining.rounds = 1\n";

    #[test]
    fn what_is_printed_of_a_method_can_be_copied_and_means_its_defaults() {
        for entry in METHODS {
            let read = |method: &str| {
                scenario::parse(
                    &format!("{REST}{method}"),
                    "copied.toml",
                    &[],
                    &vocabulary(),
                )
                .unwrap()
                .method
            };
            let (copied, named) = (
                read(&method(entry, 80)),
                read(&format!("method = \"{}\"", entry.name)),
            );
            assert_eq!(copied, named);
        }
    }

    #[test]
    fn lines_fit_a_terminal_and_every_choice_is_explained() {
        for width in [60, 80] {
            let text = methods(METHODS, width);
            let long: Vec<&str> = text
                .lines()
                .filter(|line| line.chars().count() > width)
                .collect();
            assert!(long.is_empty(), "{long:?}");
        }
        let text = methods(METHODS, 80);
        for part in [
            "objective = \"published-code\"",
            "\"paper\": ",
            "# batch_size = (depends)",
            "method = \"random\"",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }
}
