//! Writes the page of all methods, from their declarations.

use super::wrapped;
use crate::Result;
use crate::method::{Entry, Kept, vocabulary_of};
use fedrecsim_methods::Placement;
use fedrecsim_scenario::reference::{self, Key};
use fedrecsim_scenario::{self as scenario, Traffic, UploadUse};

const HEAD: &str = "# Methods

`fedrecsim methods --markdown` prints this page, from what each method declares, with its default parameters. *Rows* means a
row for each item: if not all are sent, those that are tell which items they belong to. A secure sum can hide uploads of which
the server uses the sum alone.

| in formulas | |
|---|---|
| u, i, j | a user and two items. A device has one user, and leaves u out. |
| s, r̂ | the score that items are ranked by; the predicted rating |
| y, r | 1 for a positive and 0 for a negative; a rating |
| I_u; I | the positives of u, or the items that u has rated; the identity matrix |
| n, m, n_u, n_i | the numbers of users, of items, of items of u, of users of i |
| σ(s) | 1 / (1 + exp(−s)) |
| BCE(s, y) | −y ln σ(s) − (1 − y) ln(1 − σ(s)) |
| L | the loss. If nothing else is said, training steps all blocks at once down its gradient, and the server takes the mean. |
| mean | over the samples of a batch |
| [a; b] | a and b, one after the other |
| η, γ; λ, μ | learning rates; weights of the other terms |
| other letters | blocks that are private or sent, and parameters as the [keys](keys.md#method) name them |
";

/// The width of lines.
const WIDTH: usize = 126;

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
        let kept = (entry.kept)(&parsed.method.parameters);
        text += &section(entry, (&traffic, kept), &keys);
    }
    Ok(text)
}

fn section(entry: &Entry, (traffic, kept): (&Traffic, Option<Vec<Kept>>), keys: &[Key]) -> String {
    let place = match entry.placement {
        Placement::Federated => "on the devices",
        Placement::Assisted => "on the devices, and a third party computes for them",
        Placement::Central => "at the server, which every user sends its ratings to",
        Placement::Untrained => "nowhere: it knows the ratings of all users, and no round is run",
    };
    let prefix = format!("method.{}.", entry.name);
    let own = keys.iter().filter_map(|key| key.path.strip_prefix(&prefix));
    let own: Vec<String> = own.map(|key| format!("`{key}`")).collect();
    let in_training = "`recency.in_training`".to_owned();
    let mut private = private(entry.placement, kept);
    if entry.placement == Placement::Central && own.contains(&in_training) {
        private += &format!(", but for the weights of {in_training}, which are sent");
    }
    let mut rows = vec![("trains", place.to_owned())];
    rows.push(("private", private));
    if matches!(entry.placement, Placement::Federated | Placement::Assisted) {
        rows.push(("sent up", blocks(traffic, true)));
        rows.push(("sent down", blocks(traffic, false)));
        rows.push(("the server uses", of_uploads(traffic.upload_use).to_owned()));
    }
    if traffic.has_personal_downloads {
        rows.push(("downloads", "each user has one of its own".to_owned()));
    }
    if traffic.sends_chosen_rows {
        let rule = "rows that the server chooses for each step; whoever is evaluated, all rows";
        rows.push(("downloads", rule.to_owned()));
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
    if !own.is_empty() {
        rows.push(("[parameters](keys.md#method)", own.join(", ")));
    }
    rows.push(("source", entry.source.to_owned()));
    let rows: String = rows
        .iter()
        .map(|(title, text)| format!("| {title} | {} |\n", text.replace('|', "\\|")))
        .collect();
    let summary = wrapped(&format!("{}.", entry.summary), "", WIDTH);
    let (name, equations) = (entry.name, equations(entry));
    format!("\n## {name}\n\n{summary}\n{equations}| | |\n|---|---|\n{rows}")
}

/// Returns the formulas of a method, and in which points its paper and its code differ.
fn equations(entry: &Entry) -> String {
    let mut text = String::new();
    if !entry.formula.is_empty() {
        text = format!("```text\n{}\n```\n\n", entry.formula.join("\n"));
    }
    if !entry.differs.is_empty() {
        let differs = format!("**Paper and code:** {}", entry.differs);
        text += &format!("{}\n", wrapped(&differs, "", WIDTH));
    }
    text
}

/// Returns what stays on the device.
fn private(placement: Placement, kept: Option<Vec<Kept>>) -> String {
    match placement {
        Placement::Central => "the times of ratings".to_owned(),
        Placement::Untrained => "nothing".to_owned(),
        Placement::Federated | Placement::Assisted => match kept {
            None => "the ratings, and what else the method keeps".to_owned(),
            Some(kept) if kept.is_empty() => {
                "the ratings; a device keeps nothing else from round to round".to_owned()
            }
            Some(kept) => {
                let named = kept.iter().map(named);
                let named = ["the ratings".to_owned()].into_iter().chain(named);
                named.collect::<Vec<_>>().join(", ")
            }
        },
    }
}

fn named(kept: &Kept) -> String {
    match kept {
        Kept::Block {
            name,
            has_item_rows,
        } => of_block(name, *has_item_rows),
        Kept::OwnVersion(name) => format!("its own version of `{name}` (rows)"),
        Kept::Other(words) => (*words).to_owned(),
    }
}

fn of_block(name: &str, has_item_rows: bool) -> String {
    let rows = if has_item_rows { " (rows)" } else { "" };
    format!("`{name}`{rows}")
}

/// Returns the blocks that travel in one direction.
fn blocks(traffic: &Traffic, up: bool) -> String {
    let mut named: Vec<String> = Vec::new();
    for block in traffic
        .blocks
        .iter()
        .filter(|block| block.is_uploaded == up)
    {
        let text = of_block(&block.name, block.has_item_rows);
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
