//! Draws the values that random scenarios have for the keys of a scenario file: **the one place to
//! add a key to**.
//!
//! Each key is drawn by itself; `rules` then repairs what does not fit together. Values are such
//! that a run takes milliseconds, with a few that are absurd.

use std::ops::RangeInclusive;

use fedrecsim_data::dataset::public::datasets;
use proptest::prelude::*;
use proptest::sample::select;
use toml::Value;

use super::{environment, files, methods};

/// A key by its dotted path, and how to draw it.
pub struct Key {
    pub path: &'static str,
    /// Whether every scenario has it, because the file must have it or its default would make a run
    /// long.
    pub always: bool,
    pub values: BoxedStrategy<Value>,
}

pub fn always(path: &'static str, values: BoxedStrategy<Value>) -> Key {
    Key {
        path,
        always: true,
        values,
    }
}

pub fn maybe(path: &'static str, values: BoxedStrategy<Value>) -> Key {
    Key {
        path,
        always: false,
        values,
    }
}

/// Returns every key that a scenario file can have.
///
/// A choice that a file writes as a name or as a table of that name (`method`,
/// `training.participation`) is here as the name, and the keys of its tables with their whole path.
pub fn keys() -> Vec<Key> {
    [
        vec![always("seed", integer(0..=i64::MAX))],
        methods::keys(),
        dataset(),
        columns(),
        training(),
        modes(),
        evaluation(),
        privacy(),
        environment::keys(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn dataset() -> Vec<Key> {
    let files = datasets().iter().map(|set| set.name.as_str());
    let sources: Vec<&str> = ["generated"; 6]
        .into_iter()
        .chain(files)
        .chain(["delimited"; 2])
        .collect();
    vec![
        always("dataset.name", one_of(&sources)),
        maybe("dataset.path", one_of(&["ratings.txt"])),
        maybe("dataset.minimum_interactions", integer(0..=9)),
        maybe("dataset.k_core", integer(2..=2)),
        maybe("dataset.minimum_positives", integer(1..=1)),
        maybe("dataset.positive_from", real(-5.0, 0.0)),
        maybe(
            "dataset.repeated_pairs",
            one_of(&["keep", "last", "first", "sum"]),
        ),
        maybe("dataset.on_unusable_user", one_of(&["refuse", "leave-out"])),
        // More than any file here has, so that all are kept.
        maybe("dataset.subset.users", integer(10_000..=20_000)),
        maybe("dataset.subset.items", integer(10_000..=20_000)),
        maybe(
            "dataset.subset.keep",
            one_of(&["most-rated", "least-rated", "random"]),
        ),
        maybe("dataset.subset.with_timestamps", boolean()),
        maybe("dataset.subset.newest_per_user", integer(1000..=2000)),
        maybe(
            "dataset.split",
            one_of(&[
                "leave-one-out",
                "leave-one-out",
                "holdout",
                "global-time",
                "k-fold",
            ]),
        ),
        // There are so many parts that nobody has all ratings in one.
        always("dataset.split.k-fold.folds", integer(30..=60)),
        maybe("dataset.split.k-fold.fold", integer(0..=29)),
        maybe("dataset.split.k-fold.division", integer(0..=3)),
        maybe("dataset.split.by-column.holds_out", one_of(&["items"])),
        maybe("dataset.split.leave-one-out.validation_item", boolean()),
        // A longer one leaves users out, and one beyond these everybody.
        maybe(
            "dataset.split.leave-one-out.session_gap_days",
            prop_oneof![real(0.1, 3.0), real(4.5, 6.0)].boxed(),
        ),
        maybe("dataset.split.holdout.share", real(0.01, 0.6)),
        maybe(
            "dataset.split.holdout.validation_share",
            zero_or(0.01, 0.39),
        ),
        // Training has at least the first quarter of the ratings.
        always(
            "dataset.split.global-time.cut",
            prop_oneof![real(0.4, 0.6), one_of(&[files::MIDDLE])].boxed(),
        ),
        maybe(
            "dataset.split.global-time.validation_share",
            zero_or(0.05, 0.1),
        ),
        maybe("dataset.split.global-time.window_share", real(0.2, 0.35)),
        maybe(
            "dataset.split.global-time.targets",
            one_of(&["first", "first-session", "all"]),
        ),
        maybe(
            "dataset.split.global-time.session_gap_days",
            rate(0.1, 30.0),
        ),
        maybe("dataset.split.global-time.new_users", boolean()),
        maybe("dataset.split.global-time.new_items", boolean()),
        maybe(
            "dataset.negatives.pool",
            one_of(&["unrated", "not-in-train", "symmetric"]),
        ),
        maybe("dataset.negatives.per_positive", integer(1..=6)),
        always("dataset.generator.users", integer(1..=30)),
        always(
            "dataset.generator.items",
            prop_oneof![integer(4..=20), integer(60..=130)].boxed(),
        ),
        always("dataset.generator.ratings_per_user", real(3.0, 30.0)),
        maybe("dataset.generator.ratings_log_sigma", zero_or(1e-2, 3.0)),
        maybe("dataset.generator.popularity_exponent", zero_or(1e-2, 3.0)),
        maybe("dataset.generator.taste_dimension", integer(1..=64)),
        maybe("dataset.generator.taste_strength", zero_or(1e-2, 20.0)),
        maybe("dataset.generator.device_correlation", real(-1.0, 1.0)),
    ]
}

/// Draws one of these pairs of numbers, as an array.
fn one_of_ranges(ranges: &[[f64; 2]]) -> BoxedStrategy<Value> {
    let array =
        |range: &[f64; 2]| Value::Array(range.iter().map(|end| Value::Float(*end)).collect());
    select(ranges.iter().map(array).collect::<Vec<_>>()).boxed()
}

fn columns() -> Vec<Key> {
    // A column is given by name or by position; `rules` keeps the positions apart.
    let column = |names: &[&'static str]| prop_oneof![one_of(names), integer(1..=6)].boxed();
    vec![
        maybe(
            "dataset.columns.separator",
            one_of(&[",", "\t", "::", ";", " | "]),
        ),
        maybe("dataset.columns.header", boolean()),
        always("dataset.columns.user", column(&["user", "who"])),
        always(
            "dataset.columns.item",
            column(&["item", "song, or \"film\""]),
        ),
        maybe("dataset.columns.rating", column(&["rating"])),
        maybe(
            "dataset.columns.rating_range",
            one_of_ranges(&[[1.0, 5.0], [-0.5, 1e3]]),
        ),
        maybe("dataset.columns.timestamp", column(&["time"])),
        maybe(
            "dataset.columns.timestamp_format",
            one_of(&[
                "seconds",
                "milliseconds",
                "microseconds",
                "nanoseconds",
                "date-time",
            ]),
        ),
        maybe("dataset.columns.order", column(&["place"])),
        maybe("dataset.columns.label", column(&["liked"])),
        maybe("dataset.columns.part", column(&["part"])),
        maybe("dataset.columns.weight", column(&["plays"])),
        maybe("dataset.columns.on_incomplete", one_of(&["refuse", "skip"])),
    ]
}

fn training() -> Vec<Key> {
    vec![
        always("training.rounds", integer(1..=6)),
        maybe(
            "training.participation",
            one_of(&["all", "share", "cohort", "poisson"]),
        ),
        always("training.participation.share", real(0.01, 1.0)),
        always("training.participation.cohort", integer(1..=30)),
        always("training.participation.poisson", real(0.01, 1.0)),
        maybe("training.start", one_of(&["start.bin"])),
        maybe("training.aggregation", one_of(&["method", "none", "mean"])),
        maybe("training.client_selection", one_of(&CLIENT_SELECTIONS)),
        always(
            "training.client_selection.oort.exploration",
            zero_or(0.01, 1.0),
        ),
        maybe(
            "training.client_selection.oort.exploration_decay",
            real(0.1, 1.0),
        ),
        maybe(
            "training.client_selection.oort.least_exploration",
            zero_or(0.01, 1.0),
        ),
        maybe(
            "training.client_selection.oort.straggler_penalty",
            zero_or(0.01, 10.0),
        ),
        maybe(
            "training.client_selection.oort.preferred_quantile",
            real(0.1, 1.0),
        ),
        maybe("training.steps_per_round", integer(1..=4)),
        maybe("training.empty_rounds_limit", integer(1..=20)),
        maybe("report.users_csv_limit", integer(0..=40)),
        maybe(
            "training.waiting_limit_s",
            rate(1.0, 1e9).prop_map(at_least_one).boxed(),
        ),
        maybe("training.divergence_limit", rate(1.0, 3e38)),
        maybe("server.ns_per_row_visit", rate(0.1, 1e3)),
        maybe("server.ns_per_multiply_add", rate(0.1, 1e3)),
    ]
}

const CLIENT_SELECTIONS: [&str; 6] = [
    "uniform",
    "round-robin",
    "longest-available",
    "never-twice-in-a-row",
    "by-data-size",
    "oort",
];

fn at_least_one(value: Value) -> Value {
    value
        .as_float()
        .map_or(value, |number| Value::Float(number.max(1.0)))
}

/// Lists the keys of staleness in the table of a mode.
macro_rules! staleness {
    ($mode:literal) => {
        [
            maybe(
                concat!($mode, ".staleness_weight"),
                one_of(&["constant", "polynomial", "hinge"]),
            ),
            always(
                concat!($mode, ".staleness_weight.polynomial"),
                zero_or(0.01, 10.0),
            ),
            always(
                concat!($mode, ".staleness_weight.hinge.a"),
                zero_or(0.01, 1000.0),
            ),
            always(concat!($mode, ".staleness_weight.hinge.b"), integer(0..=5)),
            maybe(concat!($mode, ".maximum_staleness"), integer(0..=10)),
        ]
    };
}

/// Draws a deadline, mostly near the duration of a round: milliseconds on the usual links, seconds
/// on slow ones.
fn deadline() -> BoxedStrategy<Value> {
    let near = |low, high| magnitude(low, high).prop_map(Value::Float);
    prop_oneof![2 => near(1e-3, 0.1), 2 => near(1.0, 60.0), 1 => rate_from(1e-9, 1e-6, 1e6)].boxed()
}

fn modes() -> Vec<Key> {
    let modes = [
        "synchronous",
        "over-selection",
        "semi-synchronous",
        "fedbuff",
        "fedasync",
    ];
    let mut keys = vec![
        always("training.mode", one_of(&modes)),
        always("training.mode.over-selection.factor", real(1.0, 3.0)),
        maybe("training.mode.over-selection.deadline_s", deadline()),
        always(
            "training.mode.over-selection.stragglers",
            one_of(&["cancelled", "late"]),
        ),
        always("training.mode.semi-synchronous.deadline_s", deadline()),
        always("training.mode.fedbuff.concurrency", integer(1..=30)),
        always("training.mode.fedbuff.buffer", integer(1..=20)),
        maybe("training.mode.fedbuff.server_rate", real(0.01, 10.0)),
        always("training.mode.fedasync.concurrency", integer(1..=30)),
        maybe("training.mode.fedasync.mixing", real(0.01, 1.0)),
    ];
    keys.extend(staleness!("training.mode.semi-synchronous"));
    keys.extend(staleness!("training.mode.fedbuff"));
    keys.extend(staleness!("training.mode.fedasync"));
    keys
}

fn evaluation() -> Vec<Key> {
    let codec = || one_of(&["dense-f32", "rows-f32", "sparse-f32"]);
    let metric = || {
        one_of(&[
            "hr",
            "hr@3",
            "ndcg",
            "mrr",
            "recall",
            "precision@3",
            "map",
            "expected-hr@2",
            "expected-ndcg",
            "expected-mrr",
            "expected-recall",
            "expected-precision",
            "expected-map@4",
        ])
    };
    let metrics = proptest::collection::vec(metric(), 1..=5)
        .prop_map(Value::Array)
        .boxed();
    let cutoffs = proptest::collection::vec(integer(1..=40), 1..=4)
        .prop_map(Value::Array)
        .boxed();
    vec![
        maybe("evaluation.every_rounds", integer(1..=4)),
        maybe("evaluation.metrics", metrics),
        maybe(
            "evaluation.headline",
            one_of(&["hr@7", "expected-ndcg@3", "mrr", "map@6"]),
        ),
        always("evaluation.ranking", one_of(&["sampled", "full-catalogue"])),
        always("evaluation.ranking.sampled.candidates", integer(10..=25)),
        maybe("evaluation.ranking.sampled.shared_candidates", boolean()),
        maybe("evaluation.cutoffs", cutoffs),
        maybe(
            "evaluation.item_table",
            one_of(&["own", "shared", "another-users"]),
        ),
        maybe(
            "evaluation.selection",
            one_of(&["last", "best-validation", "best-test"]),
        ),
        maybe("evaluation.patience", integer(1..=3)),
        maybe("evaluation.users", integer(0..=30)),
        maybe(
            "codec.uplink",
            prop_oneof![codec(), composition(true)].boxed(),
        ),
        maybe(
            "codec.downlink",
            prop_oneof![codec(), composition(false)].boxed(),
        ),
        maybe("audit.every_rounds", integer(1..=3)),
        maybe("audit.users", integer(1..=30)),
        maybe("overheads.transport.payload_bytes", integer(1..=2000)),
        maybe("overheads.transport.header_bytes", integer(0..=100)),
        maybe(
            "overheads.secure_aggregation.public_key_bytes",
            integer(1..=300),
        ),
        maybe("overheads.secure_aggregation.share_bytes", integer(1..=300)),
        maybe("overheads.paillier.ciphertext_bytes", integer(4..=512)),
        maybe("codec.first_download", one_of(&["values", "seed"])),
    ]
}

fn privacy() -> Vec<Key> {
    vec![
        maybe("privacy.laplace.scale", zero_or(1e-3, 0.1)),
        // A file names all or none of the next three; `rules` sees to it.
        maybe("privacy.gaussian.clip", rate(1e-3, 10.0)),
        always("privacy.gaussian.noise_multiplier", zero_or(0.1, 2.0)),
        always("privacy.gaussian.trust", one_of(&["local", "central"])),
        maybe(
            "privacy.gaussian.adjacency",
            one_of(&["add-or-remove", "replace"]),
        ),
        maybe(
            "privacy.gaussian.delta",
            magnitude(1e-9, 1e-2).prop_map(Value::Float).boxed(),
        ),
        maybe("privacy.virtual_items.per_rated_item", real(0.1, 5.0)),
    ]
}

/// Draws a composition. Only a device remembers what it left out, of uploads that are differences.
fn composition(of_uploads: bool) -> BoxedStrategy<Value> {
    let table = |keys: Vec<(&str, Value)>| {
        Value::Table(
            keys.into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    };
    let of = move |key: &'static str| move |value: f64| table(vec![(key, Value::Float(value))]);
    let share = || (1u32..=10).prop_map(|tenths| f64::from(tenths) / 10.0);
    let entries = prop_oneof![
        one_of(&[
            "all",
            "touched-rows",
            "non-zeros",
            if of_uploads { "all" } else { "needed-rows" }
        ]),
        share().prop_map(of("top-share")),
        share().prop_map(of("random-share")),
        share()
            .prop_map(|share| share / 100.0)
            .prop_map(of("at-least")),
        (1i64..=5).prop_map(move |rank| table(vec![("low-rank", Value::Integer(rank))])),
    ];
    let dead_zone = (share(), share()).prop_map(move |(step, zone)| {
        let steps = table(vec![
            ("step", Value::Float(step)),
            ("zone", Value::Float(zone)),
        ]);
        table(vec![("dead-zone", steps)])
    });
    let values = prop_oneof![
        7 => one_of(&["f32", "f16", "bf16", "int8", "int4", "int2", "sign"]),
        1 => dead_zone,
        1 => (2i64..=20).prop_map(move |most| table(vec![("centroids", Value::Integer(most))])),
    ];
    let scales = (
        one_of(&["row", "block"]),
        one_of(&["stochastic", "nearest"]),
    );
    let positions = one_of(&[
        "auto",
        "bitmap",
        "gaps",
        "rice",
        "elias-fano",
        "enumerative",
    ]);
    let entropy = one_of(&["none", "ans", "zstd", "auto"]);
    let flags = (any::<bool>(), any::<bool>());
    (entries, values, scales, positions, entropy, flags)
        .prop_map(
            move |(entries, values, (scale, rounding), positions, entropy, (delta, feedback))| {
                table(vec![
                    ("select", entries),
                    ("values", values),
                    ("scale", scale),
                    ("rounding", rounding),
                    ("positions", positions),
                    ("entropy", entropy),
                    ("delta", Value::Boolean(delta)),
                    (
                        "error_feedback",
                        Value::Boolean(of_uploads && delta && feedback),
                    ),
                ])
            },
        )
        .boxed()
}

pub fn names<'a>(names: impl Iterator<Item = &'a str>) -> BoxedStrategy<Value> {
    select(
        names
            .map(|name| Value::String(name.to_owned()))
            .collect::<Vec<_>>(),
    )
    .boxed()
}

pub fn one_of(literals: &[&str]) -> BoxedStrategy<Value> {
    names(literals.iter().copied())
}

pub fn boolean() -> BoxedStrategy<Value> {
    any::<bool>().prop_map(Value::Boolean).boxed()
}

pub fn integer(range: RangeInclusive<i64>) -> BoxedStrategy<Value> {
    range.prop_map(Value::Integer).boxed()
}

pub fn real(low: f64, high: f64) -> BoxedStrategy<Value> {
    prop_oneof![8 => low..=high, 1 => Just(low), 1 => Just(high)]
        .prop_map(Value::Float)
        .boxed()
}

/// Draws a number between the two, with every order of magnitude equally likely.
pub fn magnitude(low: f64, high: f64) -> impl Strategy<Value = f64> {
    // The result is clamped because rounding could step over either end.
    (low.ln()..high.ln()).prop_map(move |logarithm| logarithm.exp().clamp(low, high))
}

pub fn zero_or(low: f64, high: f64) -> BoxedStrategy<Value> {
    prop_oneof![2 => magnitude(low, high), 1 => Just(0.0)]
        .prop_map(Value::Float)
        .boxed()
}

/// Draws a positive number for keys that must not be zero. Now and then it is absurdly small or,
/// within what any key admits, absurdly large.
pub fn rate(low: f64, high: f64) -> BoxedStrategy<Value> {
    rate_from(1e-30, low, high)
}

/// Draws a rate, which now and then is the least that may be.
pub fn rate_from(least: f64, low: f64, high: f64) -> BoxedStrategy<Value> {
    prop_oneof![30 => magnitude(low, high), 1 => Just(least), 1 => Just(high)]
        .prop_map(Value::Float)
        .boxed()
}
