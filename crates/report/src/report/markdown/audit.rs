//! Says what a server could have read out of uploads.

use super::table;
use crate::report::record::RunRecord;
use crate::report::words::counted;
use fedrecsim_sim::sim::outcome::AuditFigures;

/// Returns the section on the audit, if there was one.
pub(super) fn section(record: &RunRecord) -> Option<String> {
    let audit = record.audit?;
    let cells = |figures: Option<&AuditFigures>| match figures {
        Some(AuditFigures { auc, precision }) => [format!("{auc:.3}"), format!("{precision:.3}")],
        None => ["-".to_owned(), "-".to_owned()],
    };
    let scores = [
        ("a changed row", audit.presence),
        ("how far the row moves", audit.norm),
        (
            "how much it moves against the mean of the changes",
            audit.against_mean,
        ),
    ];
    let rows: Vec<Vec<String>> = scores
        .iter()
        .enumerate()
        .map(|(place, (name, figures))| {
            let linked = audit.linked.as_ref().map(|linked| &linked[place]);
            [
                vec![(*name).to_owned()],
                cells(Some(figures)).into(),
                cells(linked).into(),
            ]
            .concat()
        })
        .collect();
    let header = [
        "guessed by",
        "AUC, one upload",
        "precision",
        "AUC, all uploads of a user",
        "precision",
    ];
    let rounds = record
        .per_round
        .iter()
        .filter(|round| round.audit.is_some())
        .count() as u64;
    let outer = audit.outer_product.map_or_else(String::new, |share| {
        format!(
            "\n\nOf the outer product of its vector with itself that a user uploads, the largest eigenvalue has {share:.4} of the \
             trace. At 1, the upload gives the vector away up to its sign."
        )
    });
    Some(format!(
        "## What uploads give away\n\nA probe that sees decoded uploads alone guessed which items their senders had rated, in {} \
         of {}. An AUC of 0.5 is no better than a guess at random; the precision is the share of rated items among as many \
         guesses as a user has rated.\n\n{}{outer}",
        counted(audit.users, "upload"),
        counted(rounds, "round"),
        table(&header, &rows)
    ))
}
