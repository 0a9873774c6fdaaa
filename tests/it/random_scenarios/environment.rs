//! Draws the keys of the clients' environment: links, devices, availability, and what goes wrong.

use fedrecsim_scenario::presets;
use proptest::prelude::*;
use toml::{Table, Value};

use super::files;
use super::keys::{
    Key, always, integer, magnitude, maybe, names, one_of, rate, rate_from, real, zero_or,
};

pub fn keys() -> Vec<Key> {
    [
        network(),
        devices(),
        carbon(),
        availability(),
        joins(),
        vec![maybe("faults", faults())],
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn network() -> Vec<Key> {
    vec![
        maybe("network.preset", preset_of("network")),
        maybe(
            "network.rates.lognormal.downlink_median_mbit_per_s",
            rate_from(1e-6, 1e-3, 1e9),
        ),
        maybe(
            "network.rates.lognormal.downlink_log_sigma",
            zero_or(1e-2, 5.0),
        ),
        maybe(
            "network.rates.lognormal.uplink_median_mbit_per_s",
            rate_from(1e-6, 1e-3, 1e9),
        ),
        maybe(
            "network.rates.lognormal.uplink_log_sigma",
            zero_or(1e-2, 5.0),
        ),
        maybe("network.rates.lognormal.correlation", real(-1.0, 1.0)),
        maybe(
            "network.rates.lognormal.transfer_log_sigma",
            zero_or(1e-2, 5.0),
        ),
        // Half of them are so long that stays end, and windows of faults open and close, within a
        // round.
        maybe(
            "network.rtt_ms",
            prop_oneof![
                zero_or(1e-3, 1e9),
                magnitude(1e3, 3e4).prop_map(Value::Float)
            ]
            .boxed(),
        ),
        maybe("network.rtt_log_sigma", zero_or(1e-2, 5.0)),
        maybe(
            "network.dropout",
            prop_oneof![zero_or(1e-2, 1.0), Just(Value::Float(1.0))].boxed(),
        ),
        maybe("network.sharing", one_of(&["equal", "tcp"])),
        maybe("network.rates", one_of(&["lognormal", "trace"])),
        always("network.rates.trace.path", one_of(&[files::LINKS])),
        maybe(
            "network.rates.trace.period_s",
            real(files::LAST_CHANGE_S + 0.001, 1e5),
        ),
        maybe("network.server.preset", preset_of("network.server")),
        maybe(
            "network.server.downlink_mbit_per_s",
            rate_from(1e-6, 1e-3, 1e9),
        ),
        maybe(
            "network.server.uplink_mbit_per_s",
            rate_from(1e-6, 1e-3, 1e9),
        ),
        maybe("network.server.connections", integer(1..=20)),
    ]
}

fn devices() -> Vec<Key> {
    vec![
        maybe("devices.preset", preset_of("devices")),
        maybe(
            "devices.speed.lognormal.median_ns_per_row_visit",
            rate(1e-3, 1e12),
        ),
        maybe("devices.ns_per_multiply_add", zero_or(1e-3, 1e9)),
        maybe("devices.fixed_ms_per_participation", zero_or(1e-3, 1e6)),
        maybe("devices.speed.lognormal.log_sigma", zero_or(1e-2, 5.0)),
        maybe("devices.speed", one_of(&["lognormal", "classes", "trace"])),
        always("devices.speed.classes", classes()),
        always("devices.speed.trace.path", one_of(&[files::DEVICES])),
        maybe("devices.memory.median_mb", rate_from(1e-6, 1e-3, 1e9)),
        maybe("devices.memory.log_sigma", real(0.01, 5.0)),
        maybe("devices.energy_nj_per_byte", zero_or(1e-3, 1e12)),
        maybe("devices.energy_nj_per_row_visit", zero_or(1e-3, 1e12)),
        maybe("devices.energy_nj_per_multiply_add", zero_or(1e-3, 1e12)),
        maybe("devices.power_mw", zero_or(1e-3, 1e9)),
        maybe("devices.radio_tail.power_mw", zero_or(1e-3, 1e9)),
        maybe("devices.radio_tail.length_s", zero_or(1e-6, 1e6)),
    ]
}

fn carbon() -> Vec<Key> {
    vec![
        maybe("server.power_w", zero_or(1e-3, 1e9)),
        maybe("carbon.g_per_kwh", zero_or(1e-3, 1e6)),
        maybe("carbon.path", one_of(&[files::CARBON])),
        maybe(
            "carbon.server_utc_offset",
            Just(Value::Float(files::CARBON_ZONE)).boxed(),
        ),
    ]
}

/// Draws one to three classes, whose shares add up to 1.
fn classes() -> BoxedStrategy<Value> {
    let class = (
        1..=9_u32,
        rate(1e-3, 1e12),
        [
            ("log_sigma", 5.0),
            ("ns_per_multiply_add", 1e9),
            ("fixed_ms_per_participation", 1e6),
        ]
        .map(|(key, most)| option(zero_or(1e-2, most)).prop_map(move |value| (key, value))),
        option(rate_from(1e-6, 1e-3, 1e9)).prop_map(|value| ("memory_mb", value)),
    );
    let classes = proptest::collection::vec(class, 1..=3).prop_map(|classes| {
        let all: u32 = classes.iter().map(|(weight, ..)| weight).sum();
        let table = |(index, (weight, speed, keys, memory))| {
            let mut table = Table::new();
            table.insert("name".into(), format!("class {index}").into());
            table.insert("share".into(), (f64::from(weight) / f64::from(all)).into());
            table.insert("ns_per_row_visit".into(), speed);
            let optional = <[(&str, Option<Value>); 3]>::into_iter(keys).chain([memory]);
            table.extend(optional.filter_map(|(key, value)| Some((key.to_owned(), value?))));
            Value::Table(table)
        };
        Value::Array(classes.into_iter().enumerate().map(table).collect())
    });
    classes.boxed()
}

/// Draws the keys of availability. Of the pattern `none`, `rules` leaves nothing.
fn availability() -> Vec<Key> {
    let offsets = proptest::collection::vec(real(-24.0, 24.0), 1..=3)
        .prop_map(Value::Array)
        .boxed();
    vec![
        always(
            "availability.pattern",
            one_of(&["none", "always", "daily", "on-off", "trace"]),
        ),
        maybe("availability.preset", preset_of("availability")),
        maybe("availability.pattern.daily.hours_on", real(0.01, 24.0)),
        maybe("availability.pattern.daily.starts_at_hour", real(0.0, 23.9)),
        maybe(
            "availability.pattern.daily.jitter_hours",
            zero_or(0.1, 12.0),
        ),
        maybe("availability.pattern.daily.utc_offsets", offsets),
        always(
            "availability.pattern.on-off.mean_on_s",
            prop_oneof![real(1.0, 60.0), real(1.0, 1e9)].boxed(),
        ),
        always(
            "availability.pattern.on-off.mean_off_s",
            prop_oneof![real(1.0, 60.0), real(1.0, 1e5)].boxed(),
        ),
        always(
            "availability.pattern.trace.path",
            one_of(&[files::AVAILABILITY]),
        ),
        maybe(
            "availability.pattern.trace.period_s",
            real(files::LAST_OFF_S, 1e5),
        ),
    ]
}

/// Draws the keys of users or items that come later. `rules` leaves nothing of them where none can.
fn joins() -> Vec<Key> {
    let ratings = proptest::collection::vec(integer(0..=5), 1..=3);
    vec![
        maybe("joins.users", one_of(&["share", "names"])),
        // At least one of two users is there from the start.
        always("joins.users.share", real(0.01, 0.5)),
        always(
            "joins.users.names",
            Just(Value::Array(vec!["0".into()])).boxed(),
        ),
        maybe("joins.items", one_of(&["share", "names"])),
        always("joins.items.share", real(0.01, 0.3)),
        always(
            "joins.items.names",
            Just(Value::Array(vec!["1".into()])).boxed(),
        ),
        maybe("joins.stage_s", rate_from(1e-9, 1e-3, 1e3)),
        always("joins.at_s", rate_from(1e-9, 1e-3, 1e3)),
        maybe("joins.ratings", ratings.prop_map(Value::Array).boxed()),
        maybe("joins.local_trainings", integer(1..=3)),
    ]
}

/// Draws up to three rules. `rules` keeps the numbers of users below their count, and puts in the
/// classes and time zones that there are.
fn faults() -> BoxedStrategy<Value> {
    let table = |key: &'static str| {
        move |value: Value| Value::Table(Table::from_iter([(key.to_owned(), value)]))
    };
    let effect = prop_oneof![
        one_of(&["drop", "corrupt", "outage"]),
        (real(1.0, 1e5), real(1.0, 1e3)).prop_map(|(gap, duration)| {
            let times = [("mean_gap_s", gap), ("mean_duration_s", duration)];
            let times = Table::from_iter(times.map(|(key, value)| (key.to_owned(), value)));
            Value::Table(Table::from_iter([(
                "recurring_outage".to_owned(),
                Value::Table(times),
            )]))
        }),
        rate_from(1e-9, 1e-6, 1e3).prop_map(table("delay_s")),
        integer(0..=10_000).prop_map(table("cut_at_byte")),
    ];
    let users = prop_oneof![
        real(0.01, 1.0).prop_map(table("share")),
        proptest::collection::vec(integer(0..=29), 1..=3)
            .prop_map(move |numbers| table("numbers")(Value::Array(numbers))),
        integer(0..=29).prop_map(move |user| table("names")(Value::Array(vec![user]))),
        Just(table("device_classes")(Value::Array(Vec::new()))),
        Just(table("utc_offsets")(Value::Array(Vec::new()))),
    ];
    let rule = (
        option(preset_of("faults")),
        option(effect),
        option(one_of(&["up", "down"])),
        option(0.0..100.0),
        option(0.01..100.0),
        option(users),
        option(real(0.01, 1.0)),
    );
    let rule = rule.prop_map(
        |(preset, effect, direction, mut from_s, length_s, users, probability)| {
            let mut table = Table::new();
            let effect = effect.or_else(|| preset.is_none().then(|| Value::from("drop")));
            // A beginning is written beside every end, because that of a preset may be later than
            // the end that is drawn.
            if length_s.is_some() {
                from_s = from_s.or(Some(0.0));
            }
            let until_s =
                length_s.map(|length_s: f64| Value::Float(from_s.unwrap_or(0.0) + length_s));
            let optional = [
                ("preset", preset),
                ("effect", effect),
                ("direction", direction),
                ("from_s", from_s.map(Value::Float)),
                ("until_s", until_s),
                ("users", users),
                ("probability", probability),
            ];
            table.extend(
                optional
                    .into_iter()
                    .filter_map(|(key, value)| Some((key.to_owned(), value?))),
            );
            Value::Table(table)
        },
    );
    proptest::collection::vec(rule, 1..=3)
        .prop_map(Value::Array)
        .boxed()
}

fn option<S: Strategy>(strategy: S) -> impl Strategy<Value = Option<S::Value>> {
    proptest::option::of(strategy)
}

/// Draws one of the presets of a table, by name.
fn preset_of(table: &str) -> BoxedStrategy<Value> {
    let presets = presets::of_table(table);
    names(presets.iter().map(|preset| preset.name.as_str()))
}
