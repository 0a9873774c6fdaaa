//! Downloads of the rows that a client asks for: they save bytes and nothing else, and are refused
//! where training reads others.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedrecsim_core::legs::Route;
use fedrecsim_core::{Error, Streams, UserId};
use fedrecsim_data::dataset;
use fedrecsim_methods::{Client, Entry, Method, pfedrec};
use fedrecsim_model::Model;
use fedrecsim_scenario::{CodecChoice, CodecName, CompositionSpec, SelectSpec};
use fedrecsim_sim::outcome::{
    Booking, ByDirection, Ending, Flow, LinkEvent, RoundRecord, RoundSpan,
};
use fedrecsim_sim::{self as sim, Outcome, RoundObserver, RunControl, World};

use crate::support::{Workshop, assert_balanced, assert_finite, run, small_with, world};

const ROWS_UP: &str = "codec.uplink=\"rows-f32\"";
const NEEDED: &str = "codec.downlink={ select = \"needed-rows\" }";
const NEEDED_LOSSY: &str = "codec.downlink={ select = \"needed-rows\", values = \"int8\", positions = \"rice\", entropy = \"auto\" }";

/// Returns what a run learned, without what it cost.
fn learned(outcome: &Outcome) -> Vec<String> {
    let of_round =
        |round: &RoundRecord| format!("{:?} {:?} {:?}", round.accuracy, round.loss, round.sparsity);
    let mut bits = blake3::Hasher::new();
    outcome.model.tables().for_each(|(_, table)| {
        table.as_slice().iter().for_each(|value| {
            bits.update(&value.to_bits().to_le_bytes());
        });
    });
    outcome
        .rounds
        .iter()
        .map(of_round)
        .chain([bits.finalize().to_string()])
        .collect()
}

/// If this fails, clients that download the rows that they need train otherwise than with whole
/// tables, or it saves nothing.
#[test]
fn needed_rows_teach_the_same_as_whole_tables_for_fewer_bytes() {
    let often = [
        "method.fedmf.local_epochs=3",
        "training.participation={ share = 0.5 }",
    ];
    for (method, extra) in [
        ("fedmf", &[][..]),
        ("fedmf", &often),
        ("fedncf", &[]),
        ("fedrecon", &[]),
    ] {
        let with = |downlink: &str| {
            run(
                small_with(method, &[&[ROWS_UP, downlink][..], extra].concat()),
                2,
            )
        };
        let (whole, needed) = (with("codec.downlink=\"dense-f32\""), with(NEEDED));
        assert_eq!(learned(&whole), learned(&needed), "{method}");
        assert_balanced(&needed);
        let bytes = |outcome: &Outcome| (outcome.bytes.up.sent, outcome.bytes.down.sent);
        assert!(
            bytes(&needed).1 < bytes(&whole).1 * 8 / 10,
            "{:?} {:?}",
            bytes(&needed),
            bytes(&whole)
        );
        // A request is a frame of its own, of positions and nothing else.
        let (up, down) = (needed.bytes.up, needed.bytes.down);
        assert_eq!(
            (up.frames, down.frames),
            (2 * whole.bytes.up.frames, whole.bytes.down.frames)
        );
        assert!(
            up.index > whole.bytes.up.index
                && up.values == whole.bytes.up.values
                && down.index == 0,
            "{up:?} {down:?}"
        );
        // A user who scores needs all rows, and their bytes are booked.
        let inference = |outcome: &Outcome| outcome.rounds.last().unwrap().inference_bytes.unwrap();
        assert!(inference(&needed) >= 40 * 150 * 32 * 4 && inference(&whole) >= 40 * 150 * 32 * 4);
        assert!(
            needed.durations["row-request"].count > 0
                && !whole.durations.contains_key("row-request")
        );
    }
}

/// Follows what happens to every participation.
#[derive(Default)]
struct Ways(BTreeMap<UserId, Vec<(Route, u64)>>);

impl RoundObserver for Ways {
    fn happened(&mut self, _round: Option<RoundSpan>, bookings: &[Booking]) {
        for Booking {
            at, user, event, ..
        } in bookings
        {
            match event {
                LinkEvent::Sent(route, _) => self
                    .0
                    .entry(*user)
                    .or_default()
                    .push((*route, at.as_nanos())),
                LinkEvent::TransferEnded { route, ending, .. } => {
                    assert_eq!(*ending, Ending::Done);
                    assert_eq!(self.0[user].last().unwrap().0, *route);
                }
                _ => {}
            }
        }
    }

    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}
}

/// If this fails, a request costs no time, or a download begins before the server knows what is
/// asked for.
#[test]
fn a_download_waits_for_its_request() {
    let slow = [
        "network.rates.lognormal.uplink_median_mbit_per_s=0.01",
        "network.rtt_ms=100",
        "training.rounds=1",
    ];
    let mut ways = Ways::default();
    let scenario = small_with("fedmf", &[&slow[..], &[ROWS_UP, NEEDED]].concat());
    sim::run(world(scenario), &RunControl::with_threads(1), &mut ways).unwrap();
    assert_eq!(ways.0.len(), 40);
    for way in ways.0.values() {
        let routes: Vec<Route> = way.iter().map(|(route, _)| *route).collect();
        assert_eq!(
            routes,
            [Route::ROW_REQUEST, Route::ASKED_ROWS, Route::UPLOAD]
        );
        // A request has some 25 bytes, which take 20 ms besides the latency of 50 ms.
        let waited = way[1].1 - way[0].1;
        assert!((60_000_000..100_000_000).contains(&waited), "{waited} ns");
    }
}

/// If this fails, what is downloaded depends on threads, or a fate that a request or a download
/// meets is not booked.
#[test]
fn needed_rows_run_in_every_mode_and_repeat_their_digest() {
    let corrupt = "faults=[{ effect = \"corrupt\", probability = 0.2 }, { effect = { cut_at_byte = 12 }, probability = 0.1 }]";
    for mode in [
        "\"synchronous\"",
        "{ over-selection = { factor = 1.8 } }",
        "{ semi-synchronous = { deadline_s = 0.2, maximum_staleness = 2 } }",
        "{ fedbuff = { concurrency = 8, buffer = 4 } }",
    ] {
        let mode = format!("training.mode={mode}");
        let worldly = [
            "network.preset=\"mobile-pessimistic\"",
            "network.dropout=0.2",
            "training.rounds=6",
            corrupt,
        ];
        let share = if mode.contains("fedbuff") {
            &[][..]
        } else {
            &["training.participation={ share = 0.5 }"]
        };
        let lossy = [
            "codec.uplink={ delta = true, values = \"int4\" }",
            NEEDED_LOSSY,
        ];
        for (method, codecs) in [
            ("fedmf", [ROWS_UP, NEEDED]),
            ("fedmf", lossy),
            ("fedncf", lossy),
        ] {
            let overrides = [&worldly[..], &codecs, &[&mode], share].concat();
            let once = run(small_with(method, &overrides), 1);
            assert_balanced(&once);
            assert_finite(&once);
            let again = run(small_with(method, &overrides), 3);
            assert_eq!(
                (&once.digest, &once.rounds),
                (&again.digest, &again.rounds),
                "{mode}"
            );
        }
    }
}

/// If this fails, what a codec loses of the rows that were asked for is taken for something that
/// was learned.
#[test]
fn a_lossy_codec_of_needed_rows_changes_what_is_learned_a_little() {
    let with = |downlink: &str| run(small_with("fedmf", &[ROWS_UP, downlink]), 2);
    let (exact, lossy) = (with(NEEDED), with(NEEDED_LOSSY));
    assert!(3 * lossy.bytes.down.sent < exact.bytes.down.sent);
    let (one, other) = (
        exact.model.table(0).as_slice(),
        lossy.model.table(0).as_slice(),
    );
    let furthest = one
        .iter()
        .zip(other)
        .map(|(one, other)| (one - other).abs())
        .fold(0.0, f32::max);
    let largest = one
        .iter()
        .fold(0.0f32, |largest, value| largest.max(value.abs()));
    assert!(
        furthest > 0.0 && furthest < 0.5 * largest,
        "{furthest} of {largest}"
    );
}

/// If this fails, a scenario asks for rows where that changes what is learned, or where nobody
/// could carry it out.
#[test]
fn needed_rows_are_refused_where_training_or_an_upload_reads_others() {
    let others = "clients of this method read or keep others too";
    for (overrides, parts) in [
        (
            &["method=\"fedrap\"", ROWS_UP, NEEDED][..],
            &["codec.downlink", others][..],
        ),
        (&["method=\"pfedrec\"", ROWS_UP, NEEDED], &[others]),
        (&["method=\"fedgram\"", ROWS_UP, NEEDED], &[others]),
        (
            &["method=\"gpfedrec\"", ROWS_UP, NEEDED],
            &["a download per user"],
        ),
        (
            &["method=\"fedca\"", ROWS_UP, NEEDED],
            &["a download per user"],
        ),
        (
            &["method=\"fedem\"", ROWS_UP, NEEDED],
            &["a download per user"],
        ),
        (
            &["method=\"fedea\"", ROWS_UP, NEEDED],
            &["a download per user"],
        ),
        (
            &["method=\"cofedrec\"", ROWS_UP, NEEDED],
            &["a download per user"],
        ),
        (
            &["method=\"cgfedrec\"", ROWS_UP, NEEDED],
            &["a download per user"],
        ),
        (
            &["method=\"metamf\"", ROWS_UP, NEEDED],
            &["a download per user"],
        ),
        (
            &["method=\"mf\"", ROWS_UP, NEEDED],
            &["needs an item table in the download"],
        ),
        (
            &["method=\"fedmf\"", "codec.uplink=\"dense-f32\"", NEEDED],
            &["cannot send the whole table `V`", "rows-f32"],
        ),
        (
            &[
                "method=\"fedmf\"",
                "codec.uplink={ delta = true, select = \"all\" }",
                NEEDED,
            ],
            &["cannot send the whole"],
        ),
        (
            &[
                "method=\"fedmf\"",
                "codec.uplink={ select = \"needed-rows\" }",
            ],
            &["is for downloads"],
        ),
        (
            &[
                "method=\"fedmf\"",
                ROWS_UP,
                "codec.downlink={ select = \"needed-rows\", delta = true }",
            ],
            &["the version of each row"],
        ),
        (
            &[
                "method=\"fedmf\"",
                "codec.blocks.V.downlink={ select = \"needed-rows\" }",
            ],
            &["cannot send the whole"],
        ),
    ] {
        let workshop = Workshop::new();
        workshop.refused(workshop.small(), overrides, parts);
    }
    let block = "codec.blocks.V.downlink={ select = \"needed-rows\" }";
    let whole = run(small_with("fedmf", &[ROWS_UP, NEEDED]), 2);
    assert_eq!(
        run(small_with("fedmf", &[ROWS_UP, block]), 2).digest,
        whole.digest
    );
}

/// If this fails, the audit overlooks that a request names the items even if the upload hides them.
#[test]
fn the_audit_sees_what_is_asked_for() {
    let audited = |downlink: &str| {
        let few = "codec.uplink={ delta = true, select = { random-share = 0.001 } }";
        let overrides = [
            "audit={ every_rounds = 1 }",
            "training.rounds=4",
            few,
            downlink,
        ];
        run(small_with("fedmf", &overrides), 2)
            .rounds
            .last()
            .unwrap()
            .audit
            .unwrap()
            .presence
    };
    let (whole, needed) = (audited("codec.downlink=\"dense-f32\""), audited(NEEDED));
    let usual = run(
        small_with(
            "fedmf",
            &["audit={ every_rounds = 1 }", "training.rounds=4", ROWS_UP],
        ),
        2,
    );
    let usual = usual.rounds.last().unwrap().audit.unwrap().presence;
    assert!(
        needed.auc > whole.auc + 0.1 && (needed.auc - usual.auc).abs() < 0.01,
        "{whole:?} {needed:?} {usual:?}"
    );
}

/// If this fails, the report of a run leaves out of what was sent down what its clients need in
/// order to score.
#[test]
fn the_report_adds_what_it_takes_to_score() {
    let workshop = Workshop::new();
    workshop
        .run(workshop.small(), &["method=\"fedmf\"", ROWS_UP, NEEDED])
        .unwrap();
    let json = workshop.run_json();
    let bytes = |value: &serde_json::Value| value.as_u64().unwrap();
    let all = bytes(&json["bytes"]["down"]["sent"]) + bytes(&json["inference_bytes"]);
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    let all = fedrecsim_core::Bytes::new(all).to_string();
    assert!(
        summary.contains(&format!("{all} down in all")),
        "{all}\n{summary}"
    );
}

/// PFedRec, which keeps the rows that it did not ask for in order to score, and says that it does
/// not.
#[derive(Debug)]
struct Claims(Box<dyn Method>);

impl Method for Claims {
    fn initial(&self) -> Model {
        self.0.initial()
    }

    fn client(&self, user: UserId) -> Box<dyn Client> {
        self.0.client(user)
    }

    fn trains_on_sampled_rows(&self) -> bool {
        true
    }
}

/// If this fails, a method that reads rows that its clients did not ask for finds something there.
#[test]
fn rows_that_were_not_asked_for_cannot_be_used() {
    let claiming = Entry {
        build: &|value, problem| Ok(Box::new(Claims((pfedrec::ENTRY.build)(value, problem)?))),
        traffic: &|_| None,
        ..pfedrec::ENTRY
    };
    let stopped_by = |downlink: CodecChoice| {
        let mut scenario = small_with("pfedrec", &[ROWS_UP]);
        scenario.codec.downlink = downlink;
        let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed)).unwrap();
        let world = World::with_methods(scenario, Arc::new(dataset), &[claiming]).unwrap();
        sim::run(world, &RunControl::with_threads(1), &mut ()).map(|outcome| outcome.stopped_by)
    };
    assert!(
        stopped_by(CodecChoice::Named(CodecName::DenseF32))
            .unwrap()
            .is_none()
    );
    let needed = CompositionSpec {
        select: SelectSpec::NeededRows,
        ..CompositionSpec::default()
    };
    let stopped = stopped_by(CodecChoice::Composed(needed));
    assert!(
        matches!(
            stopped,
            Ok(Some(Error::Unscorable { .. })) | Err(Error::Unscorable { .. })
        ),
        "{stopped:?}"
    );
}
