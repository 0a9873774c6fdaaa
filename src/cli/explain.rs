//! Carries out `explain`, which says what the keys of a scenario file mean.

use super::{ExplainArgs, wrapped};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_report::study::columns;
use fedrecsim_scenario::scenario::reference::{self, Key};
use fedrecsim_scenario::scenario::{self, MethodVocabulary};

/// Returns what the keys mean that were asked for, in lines of `width` columns, or the list of all
/// keys.
///
/// # Errors
/// [`Error::Usage`] for a key that is not there, with the nearest one that is.
pub fn explain(
    arguments: &ExplainArgs,
    vocabulary: &[MethodVocabulary],
    width: usize,
) -> Result<String> {
    if arguments.columns {
        return Ok(columns::reference());
    }
    let keys = reference::keys(&scenario::schema(vocabulary));
    if arguments.markdown {
        return Ok(markdown(&keys));
    }
    let Some(asked) = &arguments.key else {
        let list = keys.iter().map(|key| format!("{}\n", key.path));
        return Ok(list.collect());
    };
    match reference::find(&keys, asked) {
        Ok(found) => Ok(found
            .into_iter()
            .map(|key| in_words(key, width))
            .collect::<Vec<_>>()
            .join("\n")),
        Err(nearest) => {
            let hint = nearest.map_or("; `fedrecsim explain` lists all keys".to_owned(), |key| {
                format!("; did you mean `{key}`?")
            });
            Err(Error::Usage(format!("there is no key `{asked}`{hint}")))
        }
    }
}

fn in_words(key: &Key, width: usize) -> String {
    let mut text = format!("{}\n", key.path);
    let unit = key
        .unit()
        .map(|unit| format!(", in {unit}"))
        .unwrap_or_default();
    let default = key
        .default
        .as_ref()
        .map(|default| format!("; default: {default}"))
        .unwrap_or_default();
    text.push_str(&wrapped(
        &format!("{}{unit}{default}", key.kind),
        "  ",
        width,
    ));
    text.push_str(&wrapped(&key.description, "  ", width));
    for (name, meaning) in &key.choices {
        text.push_str(&wrapped(&format!("{name}: {meaning}"), "    ", width));
    }
    text
}

/// Returns the reference of all keys, a section for each table at the top of a scenario.
fn markdown(keys: &[Key]) -> String {
    let mut text = "# Scenario reference\n\n[Back to the README](../README.md)\n\nEvery key of a scenario file, from the schema of this version. `fedrecsim explain KEY` prints the same for one \
                    key, and\n`fedrecsim explain --markdown` prints this file. The end of a key states its unit.\n"
        .to_owned();
    let mut section = "";
    for key in keys {
        let top = key.path.split(['.', '[']).next().unwrap_or_default();
        if top != section {
            section = top;
            text.push_str(&format!("\n## `{section}`\n\n"));
        }
        let default = key
            .default
            .as_ref()
            .map(|default| format!("; default `{default}`"))
            .unwrap_or_default();
        text.push_str(&format!(
            "- `{}`: {}{default}. {}\n",
            key.path, key.kind, key.description
        ));
        for (name, meaning) in &key.choices {
            text.push_str(&format!("  - `{name}`: {meaning}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use fedrecsim_methods::method::registry::vocabulary;

    fn asked(key: &str) -> Result<String> {
        explain(
            &ExplainArgs {
                key: Some(key.to_owned()),
                markdown: false,
                columns: false,
            },
            &vocabulary(),
            80,
        )
    }

    #[test]
    fn a_key_is_explained_with_range_unit_and_default() {
        let text = asked("waiting_limit_s").unwrap();
        for part in [
            "training.waiting_limit_s",
            "a number from 1 to 1e9, in seconds; default: 604800",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(
            asked("training.mode")
                .unwrap()
                .contains("training.mode.fedbuff.buffer"),
            "what is below a key"
        );
        assert!(
            asked("mode.fedbuf")
                .unwrap_err()
                .to_string()
                .contains("no key `mode.fedbuf`")
        );
    }

    /// If this fails, the documentation says other things than the schema: make it again with
    /// `cargo run -- explain --markdown > docs/scenario-reference.md`.
    #[test]
    fn the_reference_in_the_documentation_is_that_of_this_version() {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/scenario-reference.md");
        let printed = explain(
            &ExplainArgs {
                key: None,
                markdown: true,
                columns: false,
            },
            &vocabulary(),
            80,
        )
        .unwrap();
        assert!(
            std::fs::read_to_string(path).unwrap() == printed,
            "docs/scenario-reference.md is out of date"
        );
    }

    /// If this fails, the documentation lists other columns than reports have: make it again with
    /// `cargo run -- explain --columns > docs/columns.md`.
    #[test]
    fn the_reference_of_columns_is_that_of_this_version() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/columns.md");
        assert!(
            std::fs::read_to_string(path).unwrap() == columns::reference(),
            "docs/columns.md is out of date"
        );
    }
}
