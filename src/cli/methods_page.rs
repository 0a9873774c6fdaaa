//! Writes the page of all methods, from their declarations.

use crate::Result;
use crate::method::{Entry, vocabulary_of};
use fedrecsim_methods::Placement;
use fedrecsim_scenario::reference::{self, Key};
use fedrecsim_scenario::{self as scenario, Traffic, UploadUse};

const HEAD: &str = "# Methods

`fedrecsim methods --markdown` prints this page, from what each method declares, with its default parameters. What is not sent
stays on the device. *Rows* means a row for each item. A secure sum can hide uploads of which the server uses the sum alone.
";

/// Returns the page of `methods`.
///
/// # Errors
/// Those of a scenario with a method and nothing else.
pub(crate) fn page(methods: &[Entry]) -> Result<String> {
    let vocabulary = vocabulary_of(methods);
    let keys = reference::keys(&scenario::schema(&vocabulary));
    let mut text = HEAD.to_owned();
    for (entry, words) in methods.iter().zip(&vocabulary) {
        let source = format!(
            "method = \"{}\"\ndataset.name = \"generated\"\ntraining.rounds = 100\n",
            entry.name
        );
        let parsed = scenario::parse(&source, "method.toml", &[], &vocabulary)?;
        let traffic = (words.traffic)(&parsed.method.parameters).unwrap_or_default();
        text += &section(entry, &traffic, &keys);
    }
    Ok(text)
}

fn section(entry: &Entry, traffic: &Traffic, keys: &[Key]) -> String {
    let place = match entry.placement {
        Placement::Federated => "on the devices",
        Placement::Assisted => "on the devices, and a third party computes for them",
        Placement::Central => "at the server, which every user sends its ratings to",
        Placement::Untrained => "nowhere: it knows the ratings of all users, and no round is run",
    };
    let mut rows = vec![("trains", place.to_owned())];
    if matches!(entry.placement, Placement::Federated | Placement::Assisted) {
        rows.push(("sent up", blocks(traffic, true)));
        rows.push(("sent down", blocks(traffic, false)));
        rows.push(("the server uses", of_uploads(traffic.upload_use).to_owned()));
    }
    if traffic.keeps_personal_tables {
        rows.push(("kept", "an item table of its own on each device".to_owned()));
    }
    if traffic.has_personal_downloads {
        rows.push(("downloads", "each user has one of its own".to_owned()));
    }
    if traffic.needs_everybody {
        rows.push(("needs", "everybody in every step".to_owned()));
    }
    let drawn = if entry.draws_negatives {
        "drawn as `dataset.negatives` says"
    } else {
        "none"
    };
    rows.push(("negatives", drawn.to_owned()));
    let prefix = format!("method.{}.", entry.name);
    let own = keys.iter().filter_map(|key| key.path.strip_prefix(&prefix));
    let own: Vec<String> = own.map(|key| format!("`{key}`")).collect();
    if !own.is_empty() {
        rows.push(("[parameters](keys.md#method)", own.join(", ")));
    }
    rows.push(("source", entry.source.to_owned()));
    let rows: String = rows
        .iter()
        .map(|(title, text)| format!("| {title} | {} |\n", text.replace('|', "\\|")))
        .collect();
    let (name, summary) = (entry.name, entry.summary);
    format!("\n## {name}\n\n{summary}.\n\n| | |\n|---|---|\n{rows}")
}

/// Returns the blocks that travel in one direction.
fn blocks(traffic: &Traffic, up: bool) -> String {
    let mut named: Vec<String> = Vec::new();
    for block in traffic
        .blocks
        .iter()
        .filter(|block| block.is_uploaded == up)
    {
        let rows = if block.has_item_rows { " (rows)" } else { "" };
        let text = format!("`{}`{rows}", block.name);
        if !named.contains(&text) {
            named.push(text);
        }
    }
    match named.is_empty() {
        true => "nothing".to_owned(),
        false => named.join(", "),
    }
}

fn of_uploads(upload_use: UploadUse) -> &'static str {
    match upload_use {
        UploadUse::Sum => "their sum",
        UploadUse::WeightedSum => "their sum, weighted by what each upload states",
        UploadUse::Each => "each of them",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_methods::registry::METHODS;

    /// If this fails, the page shows other methods or parameters than the program has:
    /// `cargo run -- methods --markdown > docs/reference/methods.md`.
    #[test]
    fn the_page_of_methods_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/methods.md");
        let written = std::fs::read_to_string(path).unwrap();
        assert!(page(METHODS).unwrap() == written, "{path} is out of date");
    }
}
