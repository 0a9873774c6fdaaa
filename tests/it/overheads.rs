use fedrecsim_sim::Outcome;
use fedrecsim_sim::outcome::Flow;

use crate::support::{Workshop, assert_balanced, run, small_with};

/// The bytes of a dense frame of the small scenario, and of its header.
const FRAME: u64 = HEADER + 4 * VALUES;
const HEADER: u64 = 28;
const VALUES: u64 = 150 * 32;

/// The users of the small scenario.
const USERS: u64 = 40;

const DENSE: &str = "codec.uplink=\"dense-f32\"";

fn outcome(overrides: &[&str]) -> Outcome {
    let outcome = run(small_with("fedmf", &[&[DENSE][..], overrides].concat()), 2);
    assert_balanced(&outcome);
    outcome
}

fn first_round(overrides: &[&str]) -> (Flow, Flow) {
    let bytes = outcome(overrides).rounds[0].bytes;
    (bytes.up, bytes.down)
}

/// If this fails, what is modelled is counted as measured, or is not what the documentation says.
#[test]
fn overheads_are_counted_beside_what_was_measured() {
    let (up, down) = first_round(&["overheads.transport={}"]);
    for flow in [up, down] {
        assert_eq!(flow.modelled, USERS * FRAME.div_ceil(1460) * 40);
        assert_eq!(flow.measured(), USERS * FRAME);
        assert_eq!(
            (flow.header, flow.values),
            (USERS * HEADER, USERS * 4 * VALUES)
        );
    }
    let (up, down) = first_round(&["overheads.paillier={}"]);
    assert_eq!(
        [up, down].map(|flow| flow.sent),
        [USERS * (HEADER + 256 * VALUES); 2]
    );
    let (up, down) = first_round(&["overheads.secure_aggregation={}"]);
    assert_eq!(
        up.modelled + down.modelled,
        USERS * 32 * (2 * USERS + 5 * USERS - 4)
    );
    assert_eq!(up.measured(), USERS * FRAME);
}

/// If this fails, overheads change what is learned, or are free.
#[test]
fn overheads_take_time_and_change_nothing_else() {
    let slow = "network.preset=\"mobile-pessimistic\"";
    let (without, with) = (outcome(&[slow]), outcome(&[slow, "overheads.paillier={}"]));
    assert_eq!(without.model, with.model);
    assert_ne!(without.digest, with.digest);
    let ends = |outcome: &Outcome| {
        outcome
            .rounds
            .iter()
            .map(|round| round.virtual_time_s)
            .collect::<Vec<_>>()
    };
    assert!(
        ends(&without)
            .iter()
            .zip(ends(&with))
            .all(|(without, with)| with > 20.0 * without),
        "{:?}",
        ends(&with)
    );
}

/// If this fails, of a transfer that is cut off more overhead is counted than was carried.
#[test]
fn cut_transfers_carry_their_share_of_overheads() {
    let overrides = [
        "network.dropout=0.5",
        "network.preset=\"mobile-pessimistic\"",
        "overheads.transport.header_bytes=146",
    ];
    let outcome = outcome(&overrides);
    let (up, down) = (outcome.bytes.up, outcome.bytes.down);
    assert!(up.lost + down.lost > 0);
    for flow in [up, down] {
        let share = flow.modelled as f64 / flow.measured() as f64;
        let whole = (FRAME.div_ceil(1460) * 146) as f64 / FRAME as f64;
        assert!((share - whole).abs() < 0.001, "{share} of {flow:?}");
    }
}

/// If this fails, a run counts keys of a protocol that could not be carried out.
#[test]
fn what_cannot_be_encrypted_is_refused_with_the_reason() {
    let shop = Workshop::new();
    let secure = "overheads.secure_aggregation={}";
    let refused = |overrides: &[&str], part: &str| shop.refused(shop.small(), overrides, &[part]);
    refused(
        &[secure, "codec.uplink=\"rows-f32\""],
        "needs `codec.uplink = \"dense-f32\"`",
    );
    refused(
        &[
            secure,
            "codec.uplink={ values = \"int8\", select = \"all\" }",
        ],
        "nor scale anything by itself",
    );
    refused(
        &[secure, DENSE, "training.mode.fedasync={ concurrency = 3 }"],
        "in the mode `fedasync`",
    );
    refused(
        &[secure, DENSE, "training.client_selection.oort={}"],
        "`oort` reads the loss of each client",
    );
    refused(
        &[secure, DENSE, "audit={}"],
        "the audit reads single uploads",
    );
    for method in [
        "metamf",
        "gpfedrec",
        "fedca",
        "fedem",
        "fedea",
        "cofedrec",
        "cgfedrec",
        "adafedrec",
    ] {
        let of_method = format!("method=\"{method}\"");
        refused(&[secure, DENSE, &of_method], "works with single uploads");
    }
    for method in ["fedgram", "fedspec", "privirec", "fedrec-pmf"] {
        let of_method = format!("method=\"{method}\"");
        let small = if method == "fedrec-pmf" {
            shop.small_of_ratings()
        } else {
            shop.small()
        };
        shop.refused(small, &[secure, DENSE, &of_method], &["who sent which row"]);
    }
    refused(
        &[secure, DENSE, "overheads.paillier={}"],
        "choose one of them",
    );
    refused(
        &[
            "overheads.paillier={}",
            "codec.downlink={ values = \"int8\" }",
        ],
        "`paillier` encrypts every value by itself",
    );
    let paillier = "overheads.paillier={}";
    refused(
        &[paillier, "audit={}"],
        "the audit reads single uploads, which `paillier` hides",
    );
    refused(
        &[paillier, "training.client_selection.oort={}"],
        "which `paillier` hides",
    );
    refused(
        &[paillier, "method=\"metamf\""],
        "works with single uploads",
    );
    refused(
        &[paillier, "codec.downlink=\"sparse-f32\""],
        "cannot leave out values that are 0",
    );
    for hidden in [paillier, secure] {
        let at_server = ["method=\"mf\"", DENSE, hidden];
        shop.refused(
            shop.small_of_ratings(),
            &at_server,
            &["trains on the ratings of each user"],
        );
    }
    refused(&["overheads.transport.payload_bytes=0"], "payload_bytes");
}
