//! Carries out the commands that say what may be written in a scenario file: `explain`, `methods`
//! and `codecs`. All of it is from the schema.

use super::args::ExplainArgs;
use super::wrapped;
use crate::method::{Entry, vocabulary_of};
use crate::{Error, Result};
use fedrecsim_report::study;
use fedrecsim_scenario::reference::{self, Key};
use fedrecsim_scenario::{self as scenario, MethodVocabulary, migrate};

/// The key whose choices `codecs` lists. Those of the other direction are the same.
const CODEC: &str = "codec.uplink";

/// Returns what the keys mean that were asked for, in lines of `width` columns, or the list of all
/// keys.
///
/// # Errors
/// [`Error::Usage`] for a key that is not there, with the nearest one that is.
pub(crate) fn explain(
    arguments: &ExplainArgs,
    vocabulary: &[MethodVocabulary],
    width: usize,
) -> Result<String> {
    if arguments.columns {
        return Ok(study::reference());
    }
    let keys = reference::keys(&scenario::schema(vocabulary));
    if arguments.markdown {
        return Ok(markdown(&keys));
    }
    let Some(asked) = &arguments.key else {
        return Ok(keys.iter().map(|key| format!("{}\n", key.path)).collect());
    };
    let found = reference::find(&keys, asked).map_err(|nearest| {
        let hint = nearest.map_or("; `fedrecsim explain` lists all keys".to_owned(), |key| {
            format!("; did you mean `{key}`?")
        });
        let moved = asked.split_once('.');
        let moved = moved.and_then(|(table, key)| {
            let new = migrate::new_name(table, key)?;
            Some(migrate::advice(table, key, new))
        });
        Error::Usage(moved.unwrap_or_else(|| format!("there is no key `{asked}`{hint}")))
    })?;
    let words: Vec<String> = found.iter().map(|key| in_words(key, width)).collect();
    Ok(words.join("\n"))
}

fn in_words(key: &Key, width: usize) -> String {
    let unit = key
        .unit()
        .map_or(String::new(), |unit| format!(", in {unit}"));
    let default = key.default.as_ref();
    let default = default.map_or(String::new(), |text| format!("; default: {text}"));
    let kind = format!("{}{unit}{default}", key.kind);
    format!(
        "{}\n{}{}{}",
        key.path,
        wrapped(&kind, "  ", width),
        wrapped(&key.description, "  ", width),
        choices(key, "    ", width)
    )
}

/// Returns the names that may be written for a key, each with its meaning.
fn choices(key: &Key, indent: &str, width: usize) -> String {
    let meaning = |(name, meaning): &(String, String)| format!("{name}: {meaning}");
    let choices = key.choices.iter().map(meaning);
    choices.map(|text| wrapped(&text, indent, width)).collect()
}

/// Returns the keys of a table as lines of a scenario file that spell out the defaults. A default
/// that depends on other keys is a comment, so that copying the lines changes nothing.
fn assignments(keys: &[Key], table: &str, width: usize) -> String {
    let of_table = |key: &'_ Key| -> Option<String> {
        let name = key.path.strip_prefix(table)?.strip_prefix('.')?;
        let line = match &key.default {
            _ if name.contains('.') => return None,
            Some(default) => format!("{name} = {default}"),
            None => format!("# {name} = (depends)"),
        };
        let description = wrapped(&key.description, "  # ", width);
        let choices = choices(key, "  #   ", width);
        Some(format!("\n{line}\n{description}{choices}"))
    };
    keys.iter().filter_map(of_table).collect()
}

/// Returns every one of `methods` with its source and its parameters, in lines of `width` columns.
/// Each part is a valid piece of a scenario file.
pub(crate) fn methods(methods: &[Entry], width: usize) -> String {
    let keys = reference::keys(&scenario::schema(&vocabulary_of(methods)));
    let described = |entry: &Entry| {
        let parameters = assignments(&keys, &format!("method.{}", entry.name), width);
        let head = match parameters.is_empty() {
            true => format!("method = \"{}\"\n", entry.name),
            false => format!("[method.{}]\n", entry.name),
        };
        let summary = wrapped(entry.summary, "# ", width);
        let source = wrapped(&format!("Source: {}", entry.source), "# ", width);
        head + &summary + &source + &parameters
    };
    methods.iter().map(described).collect::<Vec<_>>().join("\n")
}

/// Returns the codecs that have a name, and what may be chosen in a composition, in lines of
/// `width` columns.
pub(crate) fn codecs(vocabulary: &[MethodVocabulary], width: usize) -> String {
    let keys = reference::keys(&scenario::schema(vocabulary));
    let named = keys.iter().find(|key| key.path == CODEC);
    format!(
        "# Codecs with a name, for `codec.uplink` and `codec.downlink`\n{}\n\
         # A composition, for the same keys and for single blocks (`[codec.blocks.NAME.uplink]`)\n\
         [{CODEC}]\n{}",
        named.map_or_else(String::new, |key| choices(key, "  #   ", width)),
        assignments(&keys, CODEC, width)
    )
}

/// Returns the reference of all keys, a section for each table at the top of a scenario.
fn markdown(keys: &[Key]) -> String {
    let mut text = "# Scenario reference\n\nEvery key of a scenario file, from the schema of this version. `fedrecsim explain KEY` prints the same for one \
                    key, and\n`fedrecsim explain --markdown` prints this file. The end of a key states its unit.\n"
        .to_owned();
    let mut section = "";
    for key in keys {
        let top = key.path.split(['.', '[']).next().unwrap_or_default();
        if top != section {
            section = top;
            text.push_str(&format!("\n## `{section}`\n\n"));
        }
        let default = key.default.as_ref();
        let default = default.map_or(String::new(), |text| format!("; default `{text}`"));
        let (path, kind, description) = (&key.path, &key.kind, &key.description);
        text.push_str(&format!("- `{path}`: {kind}{default}. {description}\n"));
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
    use fedrecsim_methods::registry::{METHODS, vocabulary};

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
                read(&methods(&[*entry], 80)),
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

    /// If this fails, a user looks for a codec in the list that is not there.
    #[test]
    fn every_codec_and_every_choice_is_listed() {
        let text = codecs(&vocabulary(), 80);
        for word in [
            "dense-f32",
            "rows-f32",
            "sparse-f32",
            "top-share",
            "low-rank",
            "int4",
            "dead-zone",
            "centroids",
            "zstd",
            "rice",
        ] {
            assert!(text.contains(word), "{word} is missing:\n{text}");
        }
        assert!(
            text.contains("select = \"touched-rows\"") && text.contains("error_feedback = false"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }

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
    /// `cargo run -- explain --markdown > docs/reference/keys.md`.
    #[test]
    fn the_reference_in_the_documentation_is_that_of_this_version() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/keys.md");
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
            "docs/reference/keys.md is out of date"
        );
    }

    /// If this fails, the documentation lists other columns than reports have: make it again with
    /// `cargo run -- explain --columns > docs/reference/columns.md`.
    #[test]
    fn the_reference_of_columns_is_that_of_this_version() {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/columns.md");
        assert!(
            std::fs::read_to_string(path).unwrap() == study::reference(),
            "docs/reference/columns.md is out of date"
        );
    }
}
