//! Makes up records for the tests of this layer. Every figure is a formula of the round, so
//! snapshots are stable.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use crate::file_names::PICTURES;
use crate::record::{
    Accuracy, BeyondAccuracy, ByDirection, DeviceBytes, Distribution, Energy, FORMAT, Flow,
    LossTotals, NetworkSummary, ParticipationTotals, ProblemSize, RoundRecord, RunRecord,
    SplitAccuracy, UserRecord, Wall, WorkTotals,
};
use fedrecsim_core::metric::ListFigures;
use fedrecsim_core::{SimDuration, SimTime, UserId, math};
use fedrecsim_data::dataset::SplitFacts;
use fedrecsim_scenario::{
    Aggregation, AvailabilitySpec, CarbonSpec, ClientSelection, CodecSpec, DatasetName,
    DatasetSpec, DevicesSpec, EvaluationSpec, LognormalRatesSpec, LognormalSpeedSpec, MethodSpec,
    Mode, NegativePool, NegativesSpec, NetworkSpec, OverSelectionSpec, Participants, Policy,
    RatesSpec, ReportSpec, Scenario, Selection, ServerSpec, SpeedSpec, SplitSpec, TrainingSpec,
};
use fedrecsim_sim::outcome::UserTest;
use fedrecsim_sim::outcome::{
    Gauges, Level, Losses, Metered, NetworkRecord, Sparsity, UserAccount, Waits,
};

const USERS: u32 = 943;

/// Returns a finished run of `rounds` rounds, judged by the last one.
pub(crate) fn run(rounds: u32) -> RunRecord {
    let mut record = empty(rounds);
    record.per_round = (1..=rounds).map(round).collect();
    let mut time_s = 0.0;
    for round in &mut record.per_round {
        let began = SimTime::ZERO + SimDuration::from_secs_f64(time_s);
        time_s += round.duration_s;
        round.virtual_time_s = time_s;
        round.network = network(began, SimTime::ZERO + SimDuration::from_secs_f64(time_s));
        record.bytes += round.bytes;
        record.work += round.work;
    }
    record.participations = ParticipationTotals::of(record.per_round.iter());
    record.losses = LossTotals::of(record.per_round.iter(), &record.scenario.faults);
    let network = NetworkRecord::over(
        record.per_round.iter().map(|round| round.network),
        waits(12 * u64::from(rounds)),
    );
    record.network = NetworkSummary::of(&network, &record.scenario.network);
    let of_a_device = record.bytes.up.sent / u64::from(USERS);
    record.device_bytes = DeviceBytes {
        users: USERS.into(),
        never_took_part: 3,
        median_bytes: of_a_device,
        p99_bytes: 2 * of_a_device,
        max_bytes: 3 * of_a_device,
    };
    record.virtual_time_s = time_s;
    record.rounds = rounds;
    record.complete = true;
    record.stopped_by = None;
    record.beyond_accuracy = Some(beyond_accuracy());
    record.selected_round = Some(rounds);
    record.inference_bytes = record
        .per_round
        .last()
        .and_then(|round| round.inference_bytes);
    if let Some(last) = record.per_round.last() {
        record.accuracy = last.accuracy.clone().unwrap_or_default();
    }
    record
}

/// Returns a run that was interrupted after `finished` of `planned` rounds, judged by its best test
/// round.
pub(crate) fn interrupted(finished: u32, planned: u32) -> RunRecord {
    let mut record = run(finished);
    record.scenario.training.rounds = planned;
    record.scenario.evaluation.selection = Selection::BestTest;
    record.selected_round = Some(finished - 1);
    record.accuracy = record.per_round[finished as usize - 2]
        .accuracy
        .clone()
        .unwrap();
    record.complete = false;
    record.stopped_by = Some("interrupted".into());
    record.beyond_accuracy = None;
    // These are the bytes of a transfer that was in progress; it belongs to no finished round.
    record.bytes.up += Flow {
        sent: 300,
        in_flight: 300,
        header: 20,
        index: 40,
        values: 240,
        frames: 1,
        ..flow(0, 0)
    };
    record
}

/// Returns a finished run of a real system: over-selection with a deadline, some users too small,
/// energy stated.
pub(crate) fn over_selected(rounds: u32) -> RunRecord {
    let mut record = run(rounds);
    record.scenario.training.mode = Mode::OverSelection(OverSelectionSpec {
        deadline_s: Some(30.0),
        ..OverSelectionSpec::default()
    });
    record.policy = Policy::of(&record.scenario.training.mode);
    record.scenario.devices.energy_nj_per_byte = Some(5.0);
    record.scenario.devices.energy_nj_per_row_visit = Some(200.0);
    record.size.excluded_users = 12;
    for round in &mut record.per_round {
        round.aggregated -= 30;
        round.cancelled = 20;
        round.late = 9;
    }
    record.participations = ParticipationTotals::of(record.per_round.iter());
    record.energy = Energy::of(
        &record.scenario.devices,
        &record.bytes,
        (record.work, Metered::default()),
    );
    record
}

/// Returns a finished run whose report lists two users; the second one never took part.
pub(crate) fn with_users(rounds: u32) -> RunRecord {
    let mut record = run(rounds);
    let account = UserAccount {
        invited: 4,
        completed: 2,
        lost: 1,
        late: 1,
        metered: Metered {
            taking_part_ns: 1_500_000_000,
            ..Metered::default()
        },
        inference_bytes: 215_316,
        work: WorkTotals {
            finished: 2_000_000_000,
            lost: 5,
            ..WorkTotals::default()
        },
        ..UserAccount::default()
    };
    let metrics = record.scenario.evaluation.metrics().into_iter();
    let values: Vec<Option<f64>> = metrics
        .map(|metric| record.accuracy.test.get(&metric.name()).copied())
        .collect();
    let user = |user, bytes, account| UserRecord {
        user: UserId(user),
        name: format!("O'Brien 014{user}"),
        bytes,
        account,
        test: (user == 0).then(|| UserTest {
            held_out: 1,
            values: values.clone(),
        }),
    };
    let nothing = (ByDirection::default(), UserAccount::default());
    record.per_user = Some(vec![
        user(0, record.bytes, account),
        user(1, nothing.0, nothing.1),
    ]);
    record
}

/// Returns a run that diverged in its first round.
pub(crate) fn nothing_finished() -> RunRecord {
    let mut record = empty(60);
    record.complete = false;
    record.stopped_by =
        Some("training diverged in round 1 (user 17): C reached NaN (limit 1e6)".into());
    record
}

/// Returns a run of popularity, with two rounds, no traffic, no time and no loss.
pub(crate) fn popularity() -> RunRecord {
    let mut record = run(2);
    record.name = "ml100k-popularity".into();
    record.scenario.method = MethodSpec {
        name: "popularity".into(),
        parameters: serde_json::json!({}),
    };
    let popularity = record.baselines["popularity"].clone();
    for round in &mut record.per_round {
        *round = RoundRecord {
            round: round.round,
            accuracy: Some(popularity.clone()),
            ..RoundRecord::default()
        };
    }
    record.accuracy = popularity;
    record.bytes = ByDirection::default();
    record.participations = ParticipationTotals::default();
    record.losses = LossTotals::default();
    record.network = None;
    record.device_bytes = empty(2).device_bytes;
    record.work = WorkTotals::default();
    record.virtual_time_s = 0.0;
    record.durations.clear();
    record
}

/// Returns a run of a k-fold split with these errors after its rounds, judged by the last one.
pub(crate) fn predicting<const N: usize>(errors: [f64; N]) -> RunRecord {
    let mut record = run(N as u32);
    let split = |rmse: f64| {
        let test = BTreeMap::from([
            ("rmse".to_owned(), rmse),
            ("mae".to_owned(), (0.8 * rmse * 1e4).round() / 1e4),
        ]);
        SplitAccuracy {
            validation: None,
            test,
        }
    };
    record.scenario.dataset.split = SplitSpec::KFold {
        folds: 5,
        fold: 0,
        division: None,
    };
    record.scenario.evaluation.metrics = ["rmse", "mae"].map(String::from).into();
    record.scenario.evaluation.headline = "rmse".to_owned();
    record.protocol = "5-fold, test part 0, last round".into();
    record.baselines = BTreeMap::from([
        ("global-mean".to_owned(), split(1.1538)),
        ("user-mean".to_owned(), split(1.0623)),
    ]);
    record
        .per_round
        .iter_mut()
        .zip(errors)
        .for_each(|(round, rmse)| round.accuracy = Some(split(rmse)));
    record.accuracy = errors.last().map(|&rmse| split(rmse)).unwrap_or_default();
    record
}

/// Returns the same run, evaluated only after every `every` rounds and the last, and without a
/// validation item.
pub(crate) fn evaluated_every(every: u32, rounds: u32) -> RunRecord {
    let mut record = run(rounds);
    for round in &mut record.per_round {
        if !round.round.is_multiple_of(every) && round.round != rounds {
            round.accuracy = None;
        }
        if let Some(accuracy) = &mut round.accuracy {
            accuracy.validation = None;
        }
    }
    record.accuracy.validation = None;
    record
}

fn beyond_accuracy() -> BeyondAccuracy {
    let of = |coverage, popularity_deviation| ListFigures {
        coverage,
        gini: 0.875,
        novelty_bits: 2.25,
        long_tail_share: 0.0625,
        popularity_deviation: Some(popularity_deviation),
    };
    BeyondAccuracy {
        list_length: 10,
        users: USERS.into(),
        long_tail_items: 1_210,
        history_long_tail_share: Some(0.1875),
        method: of(0.375, 0.125),
        popularity: of(0.046875, 0.5),
    }
}

fn empty(rounds: u32) -> RunRecord {
    let split = |test: &Accuracy| SplitAccuracy {
        validation: Some(test.clone()),
        test: test.clone(),
    };
    RunRecord {
        format: FORMAT,
        name: "ml100k-fedrap".into(),
        seed: 1,
        digest: "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef".into(),
        state_digest: None,
        rounds: 0,
        complete: false,
        learned_nothing: false,
        uploads_were_empty: false,
        stopped_by: None,
        selected_round: None,
        accuracy: SplitAccuracy::default(),
        protocol: "negatives from unrated, 99 sampled candidates shared by validation and test, last round".into(),
        draws_negatives: true,
        baselines: BTreeMap::from([
            ("popularity".into(), split(&figures(0.4110, 0.2301))),
            ("random".into(), split(&figures(0.1004, 0.0457))),
        ]),
        beyond_accuracy: None,
        bytes: ByDirection::default(),
        third_party_bytes: None,
        inference_bytes: None,
        versions_cost: None,
        audit: None,
        audited_rounds: 0,
        privacy: None,
        participations: ParticipationTotals::default(),
        losses: LossTotals::default(),
        network: None,
        user_groups: Vec::new(),
        newcomers: None,
        device_bytes: DeviceBytes { users: USERS.into(), never_took_part: USERS.into(), ..DeviceBytes::default() },
        work: WorkTotals::default(),
        server_energy_j: None,
        carbon: None,
        energy: None,
        virtual_time_s: 0.0,
        durations: BTreeMap::from([
            ("download".into(), distribution(0.21)),
            ("compute".into(), distribution(0.048)),
            ("upload".into(), distribution(0.35)),
            ("round".into(), distribution(3.4)),
        ]),
        size: ProblemSize {
            users: USERS.into(),
            items: 1682,
            training_ratings: 98_114,
            evaluated_users: USERS.into(),
            excluded_users: 0,
            split: SplitFacts {
                test_items: USERS.into(),
                timed_test_items: USERS.into(),
                test_items_within_a_day: 851,
                ..SplitFacts::default()
            },
            training_ends: None,
        },
        policy: Policy::of(&Mode::Synchronous),
        per_round: Vec::new(),
        per_user: None,
        per_item: Vec::new(),
        scenario: scenario(rounds),
        warnings: Vec::new(),
        command: ["fedrecsim", "run", "scenarios/ml100k-fedrap.toml", "--set", "method.mu = 0.1", "--seed", "1"]
            .map(String::from)
            .into(),
        versions: BTreeMap::from([("fedrecsim".into(), "0.1.0".into())]),
        executable: "5eed".to_owned(),
        other_builds: Vec::new(),
        wall: Wall { total_s: 6.125, per_round_ms: 91.5, peak_rss_bytes: Some(312_000_000), threads: 2 },
    }
}

fn scenario(rounds: u32) -> Scenario {
    Scenario {
        name: "ml100k-fedrap".into(),
        seed: 1,
        dataset: DatasetSpec {
            negatives: NegativesSpec {
                pool: NegativePool::Unrated,
                per_positive: 4,
            },
            ..DatasetSpec::named(DatasetName::Ml100k)
        },
        method: MethodSpec {
            name: "fedrap".into(),
            parameters: serde_json::json!({"objective": "published-code", "k": 32, "mu": 0.1}),
        },
        training: TrainingSpec {
            start: None,
            rounds,
            steps_per_round: 1,
            participation: Participants::All,
            client_selection: ClientSelection::Uniform,
            mode: Mode::Synchronous,
            aggregation: Aggregation::Method,
            empty_rounds_limit: 10,
            waiting_limit_s: 604_800.0,
            divergence_limit: 1e6,
        },
        evaluation: EvaluationSpec::default(),
        codec: CodecSpec::default(),
        audit: None,
        joins: None,
        overheads: Default::default(),
        privacy: Default::default(),
        network: NetworkSpec {
            preset: Some("wifi-2020".into()),
            rates: RatesSpec::Lognormal(LognormalRatesSpec {
                downlink_median_mbit_per_s: 34.5,
                downlink_log_sigma: 0.47,
                uplink_median_mbit_per_s: 26.3,
                uplink_log_sigma: 0.68,
                correlation: 0.45,
                transfer_log_sigma: 0.4,
            }),
            rtt_ms: 30.0,
            rtt_log_sigma: 0.5,
            dropout: 0.05,
            ..NetworkSpec::default()
        },
        devices: DevicesSpec {
            speed: SpeedSpec::Lognormal(LognormalSpeedSpec {
                median_ns_per_row_visit: 40.0,
                log_sigma: 0.6,
            }),
            ..DevicesSpec::default()
        },
        server: ServerSpec::default(),
        carbon: CarbonSpec::default(),
        availability: AvailabilitySpec::default(),
        faults: Vec::new(),
        report: ReportSpec {
            users_csv_limit: 500,
        },
    }
}

fn figures(hr_at_10: f64, ndcg_at_10: f64) -> Accuracy {
    // Values are rounded, so that snapshots show round numbers.
    let entry = |name: &str, value: f64| (name.to_owned(), (value.min(1.0) * 1e4).round() / 1e4);
    BTreeMap::from([
        entry("hr@5", hr_at_10 * 0.8),
        entry("hr@10", hr_at_10),
        entry("hr@20", hr_at_10 * 1.2),
        entry("mrr", ndcg_at_10 * 0.9),
        entry("ndcg@10", ndcg_at_10),
    ])
}

fn distribution(median_s: f64) -> Distribution {
    Distribution {
        count: 5_000,
        mean_s: median_s * 1.2,
        min_s: median_s * 0.25,
        p50_s: median_s,
        p90_s: median_s * 2.0,
        p99_s: median_s * 3.5,
        max_s: median_s * 6.0,
    }
}

/// Returns the flow of `frames` frames of `size` bytes; every twentieth is cut off half-way.
fn flow(frames: u32, size: u64) -> Flow {
    let (cut, whole) = (u64::from(frames / 20), u64::from(frames - frames / 20));
    let (lost, useful) = (cut * size / 2, whole * size);
    let sent = lost + useful;
    let (header, index) = (u64::from(frames) * 20, sent / 30);
    Flow {
        sent,
        delivered: useful,
        lost,
        useful,
        header,
        index,
        values: sent - header - index,
        frames: frames.into(),
        ..Flow::default()
    }
}

/// Returns what was watched between two instants: quantities that were there for half of the time.
fn network(began: SimTime, ended: SimTime) -> NetworkRecord {
    let half = ended.since(began).as_nanos() / 2;
    let mut levels = Gauges::<Level>::default();
    for (level, value) in
        levels
            .as_mut_array()
            .into_iter()
            .zip([240_000_000, 520_000_000, 64, 20, 943])
    {
        level.pass(value, half);
    }
    NetworkRecord {
        began,
        ended,
        levels,
        waits: waits(12),
    }
}

fn waits(count: u64) -> Waits {
    Waits {
        count,
        total_s: 0.25 * count as f64,
        p50_s: 0.2,
        p95_s: 0.45,
        max_s: 0.5,
    }
}

fn round(round: u32) -> RoundRecord {
    let t = f64::from(round);
    let wobble = 0.012 * math::sin(t * 1.7) + 0.008 * math::sin(t * 0.31);
    let hr = 0.10 + 0.87 * (1.0 - math::exp(-t / 12.0)) + wobble;
    let ndcg = 0.05 + 0.82 * (1.0 - math::exp(-t / 18.0)) + 0.8 * wobble;
    // The share above each threshold shrinks faster for the larger ones, and the average is denser
    // than the uploads.
    let above =
        |scale: f64| std::array::from_fn(|i| math::exp(-(i as f64) * t / scale - 0.05 * i as f64));
    RoundRecord {
        round,
        virtual_time_s: 0.0,
        duration_s: 3.0 + 0.5 * f64::from(round % 3),
        invited: USERS,
        aggregated: USERS - USERS / 20,
        lost: USERS / 20,
        cancelled: 0,
        late: 0,
        stale: 0,
        metered: Metered::default(),
        server_co2_ng: 0,
        losses: Losses {
            dropouts: u64::from(USERS / 20),
            ..Losses::default()
        },
        loss: Some(((0.2 + 0.5 * math::exp(-t / 10.0)) * 1e4).round() / 1e4),
        accuracy: Some(SplitAccuracy {
            validation: Some(figures(hr * 0.98 + 0.01 * math::sin(t), ndcg * 0.97)),
            test: figures(hr, ndcg),
        }),
        newcomers: None,
        bytes: ByDirection {
            up: flow(USERS, 84_200),
            down: flow(USERS, 215_316),
        },
        third_party_bytes: None,
        inference_bytes: Some(u64::from(USERS) * 215_316),
        work: WorkTotals {
            finished: u64::from(USERS) * 4_000,
            lost: 120_000,
            unused: 20_000,
            unused_download_bytes: 5 * 215_316,
            ..WorkTotals::default()
        },
        network: NetworkRecord::default(),
        sparsity: Some(Sparsity {
            uploads: above(90.0),
            averaged: above(160.0),
            union: Some(above(320.0)[0]),
        }),
        versions: None,
        audit: None,
        privacy: None,
    }
}

/// Returns the file names of the pictures that the report of `record` holds: none in a build
/// without the feature `plots`, and the one of sparsity only where a round has such figures.
pub(crate) fn pictures(record: &RunRecord) -> Vec<&'static str> {
    let sparsity = record
        .per_round
        .iter()
        .any(|round| round.sparsity.is_some());
    match cfg!(feature = "plots") {
        true => PICTURES[..if sparsity { 5 } else { 4 }].to_vec(),
        false => Vec::new(),
    }
}
