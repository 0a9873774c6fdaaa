//! A scenario that is printed and read again is the same scenario.

use proptest::prelude::*;

use super::*;

fn unit() -> impl Strategy<Value = f64> {
    0.0..=1.0
}

fn column() -> impl Strategy<Value = ColumnRef> {
    prop_oneof![(1u32..100).prop_map(ColumnRef::Position), "[a-z\"\\\\ é]{1,8}".prop_map(ColumnRef::Name)]
}

fn source() -> impl Strategy<Value = SourceSpec> {
    let generated = (1u32..5000, 200u32..5000, 3.0..100.0, 0.0..3.0, 0.0..20.0).prop_map(
        |(users, items, ratings_per_user, popularity_exponent, taste_strength)| {
            let rest = GeneratorSpec::default();
            SourceSpec::Generated(GeneratorSpec {
                users,
                items,
                ratings_per_user,
                popularity_exponent,
                taste_strength,
                ..rest
            })
        },
    );
    let delimited = ("[,;|\t:#\"']{1,3}", column(), column(), proptest::option::of(column()))
        .prop_filter("columns differ", |(_, user, item, time)| {
            user != item && time.as_ref() != Some(user) && time.as_ref() != Some(item)
        })
        .prop_map(|(separator, user, item, timestamp)| {
            SourceSpec::Delimited(DelimitedSpec { separator, header: true, user, item, rating: None, timestamp })
        });
    prop_oneof![generated, delimited, Just(SourceSpec::Ml100k), Just(SourceSpec::Ml1m), Just(SourceSpec::LastFm2k)]
}

fn dataset() -> impl Strategy<Value = DatasetSpec> {
    (source(), "[a-z/ \"\\\\é.]{1,12}", any::<bool>(), any::<u32>(), any::<bool>(), 1u32..1000).prop_map(
        |(source, path, has_path, minimum_interactions, unrated, per_positive)| {
            let path = match &source {
                SourceSpec::Generated(_) => None,
                SourceSpec::Delimited(_) => Some(path.into()),
                _ => has_path.then(|| path.into()),
            };
            let pool = if unrated { NegativePool::Unrated } else { NegativePool::NotInTrain };
            let negatives = NegativesSpec { pool, per_positive };
            DatasetSpec { source, path, minimum_interactions, validation_item: true, negatives }
        },
    )
}

fn method() -> impl Strategy<Value = MethodSpec> {
    let spec = |name: &str, parameters| MethodSpec { name: name.to_owned(), parameters };
    prop_oneof![
        Just(spec("popularity", json!({}))),
        (1u32..4096, 1e-9..1e9, proptest::option::of(unit())).prop_map(move |(dimension, rate, early_stop)| {
            let mut parameters = json!({
                "latent_dimension": dimension, "learning_rate": rate, "objective": "published-code",
                "weights": { "lambda": 0.1, "mu": rate },
            });
            if let Some(early_stop) = early_stop {
                parameters["early_stop"] = early_stop.into();
            }
            spec("fedrap", parameters)
        }),
    ]
}

fn training() -> impl Strategy<Value = TrainingSpec> {
    let participation = prop_oneof![
        Just(Participation::All),
        (1e-6..=1.0).prop_map(Participation::Share),
        Just(Participation::Cohort(1)),
    ];
    (1u32..1_000_000, participation, 1e-30f32..1e30).prop_map(|(rounds, participation, divergence_limit)| {
        TrainingSpec { divergence_limit, ..TrainingSpec::synchronous(rounds, participation) }
    })
}

fn network() -> impl Strategy<Value = NetworkSpec> {
    let preset = prop_oneof![Just(None), Just(Some("wifi-2020".to_owned()))];
    (preset, 1e-3..1e6, unit(), 1e-3..1e6, -1.0..=1.0, unit(), 0.0..1e4).prop_map(
        |(preset, down, dropout, up, correlation, sigma, rtt_ms)| NetworkSpec {
            preset,
            downlink_median_mbit_per_s: down,
            downlink_log_sigma: sigma,
            uplink_median_mbit_per_s: up,
            uplink_log_sigma: sigma / 3.0,
            correlation,
            transfer_log_sigma: sigma / 7.0,
            rtt_ms,
            rtt_log_sigma: sigma,
            dropout,
        },
    )
}

fn scenario() -> impl Strategy<Value = Scenario> {
    (0..=i64::MAX as u64, dataset(), method(), training(), network(), unit()).prop_map(
        |(seed, dataset, method, training, network, log_sigma)| Scenario {
            name: "test".to_owned(),
            seed,
            dataset,
            method,
            training,
            evaluation: EvaluationSpec { selection: Selection::BestValidation, ..EvaluationSpec::default() },
            codec: CodecSpec { uplink: CodecName::RowsF32, downlink: CodecName::SparseF32 },
            network,
            devices: DevicesSpec { preset: None, median_ns_per_row_visit: 1.0 + log_sigma, log_sigma },
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn printing_and_reading_a_scenario_gives_it_back(scenario in scenario()) {
        let text = scenario.to_toml().unwrap();
        let again = read(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(again, scenario, "{}", text);
    }
}

#[test]
fn a_printed_scenario_reads_like_one_that_a_person_wrote() {
    let text =
        MINIMAL.replace("method = \"popularity\"\n", "") + "[method.fedrap]\n[network]\npreset = \"wifi-2020\"\n";
    insta::assert_snapshot!(read(&text).unwrap().to_toml().unwrap());
}

#[test]
fn the_record_of_a_run_holds_the_layout_of_the_file() {
    let record = serde_json::to_value(read(MINIMAL).unwrap()).unwrap();
    assert_eq!(record["method"], json!("popularity"));
    assert_eq!(record["dataset"]["generator"]["users"], json!(500));
    assert_eq!(record["training"]["participation"], json!("all"));
}
