//! What uploads give away of their senders, method by method and codec by codec.

use fedrecsim_sim::Outcome;
use fedrecsim_sim::outcome::AuditRecord;

use crate::support::{Workshop, run, small_with};

const AUDIT: &str = "audit={ every_rounds = 1 }";

/// Returns what was found in the uploads of the last round.
fn last(outcome: &Outcome) -> AuditRecord {
    outcome.rounds.last().unwrap().audit.unwrap()
}

fn audited(method: &str, overrides: &[&str]) -> AuditRecord {
    last(&run(
        small_with(method, &[&[AUDIT, "training.rounds=8"], overrides].concat()),
        2,
    ))
}

/// If this fails, looking at uploads changes a run, or what is found depends on threads.
#[test]
fn an_audit_changes_nothing_and_finds_the_same_on_any_number_of_threads() {
    for mode in [
        "\"synchronous\"",
        "{ fedbuff = { concurrency = 8, buffer = 4 } }",
    ] {
        let mode = format!("training.mode={mode}");
        let overrides = [mode.as_str(), "network.dropout=0.1"];
        let without = run(small_with("fedmf", &overrides), 2);
        let with = |threads| {
            run(
                small_with("fedmf", &[&overrides[..], &[AUDIT]].concat()),
                threads,
            )
        };
        let (one, three) = (with(1), with(3));
        assert_eq!((&without.digest, &one.digest), (&one.digest, &three.digest));
        let found = |outcome: &Outcome| {
            outcome
                .rounds
                .iter()
                .map(|round| round.audit)
                .collect::<Vec<_>>()
        };
        assert_eq!(found(&one), found(&three));
        assert!(
            found(&one).iter().all(Option::is_some) && found(&without).iter().all(Option::is_none)
        );
    }
}

/// If this fails, the audit misses known leaks: the rows that FedGram sends, and the direction of
/// rows in FedMF's uploads, which tells positives from negatives and more so over several rounds.
#[test]
fn methods_give_away_what_is_known_of_them() {
    let fedgram = audited("fedgram", &[]);
    assert!(
        fedgram.presence.auc > 0.999 && fedgram.presence.precision > 0.999,
        "{fedgram:?}"
    );
    assert!(fedgram.outer_product.unwrap() > 0.9999, "{fedgram:?}");
    let fedmf = audited("fedmf", &[]);
    assert!(
        fedmf.against_mean.auc > fedmf.presence.auc && fedmf.against_mean.auc > 0.9,
        "{fedmf:?}"
    );
    let [presence, ..] = fedmf.linked.unwrap();
    assert!(
        presence.auc > fedmf.presence.auc + 0.02 && presence.precision > 0.9,
        "{fedmf:?}"
    );
    assert_eq!(fedmf.outer_product, None);
    // The rows of FedRAP's paper are all changed.
    let paper = audited(
        "fedrap",
        &[
            "method.fedrap.objective=\"paper\"",
            "method.fedrap.learning_rate_network=0.01",
        ],
    );
    assert!((paper.presence.auc - 0.5).abs() < 0.01, "{paper:?}");
}

/// If this fails, a whole table hides which of its rows have changed, or a codec that leaves rows
/// out does not show in what is found.
#[test]
fn what_is_found_is_what_the_codec_sends() {
    let rows = audited("fedrap", &[]);
    let dense = audited("fedrap", &["codec.uplink=\"dense-f32\""]);
    assert!(
        (rows.presence.auc - dense.presence.auc).abs() < 0.01,
        "{rows:?} {dense:?}"
    );
    let few = audited(
        "fedmf",
        &["codec.uplink={ delta = true, select = { random-share = 0.001 } }"],
    );
    let all = audited("fedmf", &[]);
    assert!(few.presence.auc < all.presence.auc - 0.1, "{few:?} {all:?}");
}

/// If this fails, the audit takes a table whose rows have all been moved by noise, and not the counts
/// beside it, which list the rated items.
#[test]
fn a_table_that_noise_hides_does_not_hide_the_one_beside_it() {
    let found = audited(
        "fedspec",
        &[
            "method.fedspec.sends_counts=true",
            "codec.uplink=\"dense-f32\"",
            "codec.blocks.counts.uplink=\"rows-f32\"",
            "privacy.laplace.scale=2",
        ],
    );
    assert!(found.presence.auc > 0.999, "{found:?}");
    assert!(found.linked.unwrap()[0].auc > 0.999, "{found:?}");
}

/// If this fails, the report does not show what the audit found.
#[test]
fn the_report_shows_what_was_found() {
    let workshop = Workshop::new();
    workshop
        .run(
            workshop.small(),
            &[
                "method=\"fedgram\"",
                "audit={ every_rounds = 2, users = 7 }",
            ],
        )
        .unwrap();
    let audit = &workshop.run_json()["audit"];
    assert_eq!(
        (
            &audit["users"],
            audit["presence"]["precision"].as_f64().unwrap().round()
        ),
        (&7.into(), 1.0)
    );
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    assert!(
        summary.contains("## What uploads give away")
            && summary.contains("had rated, in 7 uploads of 1 round."),
        "{summary}"
    );
    assert!(
        summary.contains("whose largest eigenvalue is 1.0000 of its trace"),
        "{summary}"
    );
}
