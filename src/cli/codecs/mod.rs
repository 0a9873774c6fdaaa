//! Carries out `codecs`, which lists what a codec can be composed of, and `codec bench`, which
//! measures codecs on a table.

mod bench;

pub use bench::bench;

use super::wrapped;
use fedrecsim_scenario::scenario::reference::{self, Key};
use fedrecsim_scenario::scenario::{self, MethodVocabulary};

/// The key whose choices are listed. Those of the other direction are the same.
const KEY: &str = "codec.uplink";

/// Returns the codecs that have a name, and what may be chosen in a composition, in lines of
/// `width` columns.
pub fn codecs(vocabulary: &[MethodVocabulary], width: usize) -> String {
    let keys = reference::keys(&scenario::schema(vocabulary));
    let below = format!("{KEY}.");
    let mut text = "# Codecs with a name, for `codec.uplink` and `codec.downlink`\n".to_owned();
    if let Some(named) = keys.iter().find(|key| key.path == KEY) {
        text.push_str(&choices(named, width));
    }
    text.push_str(
        "\n# A composition, for the same keys and for single blocks (`[codec.blocks.NAME.uplink]`)\n[codec.uplink]\n",
    );
    for key in keys
        .iter()
        .filter(|key| key.path.starts_with(&below) && !key.path[below.len()..].contains('.'))
    {
        let default = key.default.as_deref().unwrap_or("(depends)");
        text.push_str(&format!("\n{} = {default}\n", &key.path[below.len()..]));
        text.push_str(&wrapped(&key.description, "  # ", width));
        text.push_str(&choices(key, width));
    }
    text
}

fn choices(key: &Key, width: usize) -> String {
    key.choices
        .iter()
        .map(|(name, meaning)| wrapped(&format!("{name}: {meaning}"), "  #   ", width))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_methods::method::registry::vocabulary;

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
}
