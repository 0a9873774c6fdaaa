//! Checks that a scenario that is printed and read again is the same scenario.

use proptest::prelude::*;

use super::*;
use data::dataset;
use fedrecsim_core::Direction;

mod data;

fn unit() -> impl Strategy<Value = f64> {
    0.0..=1.0
}

fn method() -> impl Strategy<Value = MethodSpec> {
    let spec = |name: &str, parameters| MethodSpec {
        name: name.to_owned(),
        parameters,
    };
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

fn staleness() -> impl Strategy<Value = StalenessWeight> {
    prop_oneof![
        Just(StalenessWeight::Constant),
        (0.0..=10.0).prop_map(StalenessWeight::Polynomial),
        (0.0..=1000.0, 0..9u32).prop_map(|(a, b)| StalenessWeight::Hinge { a, b }),
    ]
}

fn mode() -> impl Strategy<Value = Mode> {
    let over_selection = (1.0..=100.0, proptest::option::of(1e-6..1e9), any::<bool>()).prop_map(
        |(factor, deadline_s, late)| {
            let stragglers = if late {
                Stragglers::Late
            } else {
                Stragglers::Cancelled
            };
            Mode::OverSelection(OverSelectionSpec {
                factor,
                deadline_s,
                stragglers,
            })
        },
    );
    let semi_synchronous = (1e-6..1e9, staleness(), 0..99u32).prop_map(
        |(deadline_s, staleness_weight, maximum_staleness)| Mode::SemiSynchronous {
            deadline_s,
            staleness_weight,
            maximum_staleness,
        },
    );
    let fedbuff = (1e-6..=10.0, staleness(), 1..999u32).prop_map(
        |(server_rate, staleness_weight, buffer)| Mode::FedBuff {
            concurrency: 1,
            buffer,
            server_rate,
            staleness_weight,
            maximum_staleness: 5,
        },
    );
    let fedasync = (1e-6..=1.0, staleness(), 0..99u32).prop_map(
        |(mixing, staleness_weight, maximum_staleness)| Mode::FedAsync {
            concurrency: 1,
            mixing,
            staleness_weight,
            maximum_staleness,
        },
    );
    prop_oneof![
        Just(Mode::Synchronous),
        over_selection,
        semi_synchronous,
        fedbuff,
        fedasync
    ]
}

fn client_selection() -> impl Strategy<Value = ClientSelection> {
    let oort = (unit(), 1e-6..=1.0, unit(), 0.0..=10.0, 1e-6..=1.0).prop_map(
        |(exploration, exploration_decay, least, straggler_penalty, preferred_quantile)| {
            let least_exploration = least * exploration;
            ClientSelection::Oort(OortSpec {
                exploration,
                exploration_decay,
                least_exploration,
                straggler_penalty,
                preferred_quantile,
            })
        },
    );
    let others = [
        ClientSelection::Uniform,
        ClientSelection::RoundRobin,
        ClientSelection::LongestAvailable,
        ClientSelection::ByDataSize,
    ];
    prop_oneof![proptest::sample::select(others.to_vec()), oort]
}

fn training() -> impl Strategy<Value = TrainingSpec> {
    let participation = prop_oneof![
        Just(Participants::All),
        (1e-6..=1.0).prop_map(Participants::Share),
        Just(Participants::Cohort(1)),
    ];
    let limits = (1e-30..1e30, 1..99u32, 1.0..1e9);
    (
        1u32..1_000_000,
        participation,
        mode(),
        client_selection(),
        limits,
    )
        .prop_map(
            |(
                rounds,
                participation,
                mode,
                client_selection,
                (divergence_limit, empty_rounds_limit, waiting_limit_s),
            )| {
                let asynchronous = matches!(mode, Mode::FedBuff { .. } | Mode::FedAsync { .. });
                let participation = if asynchronous {
                    Participants::All
                } else {
                    participation
                };
                let most = if asynchronous { u32::MAX } else { 7 * rounds };
                TrainingSpec {
                    steps_per_round: 7,
                    rounds,
                    start: (rounds % 2 == 0).then(|| "reports/one \"é\"".into()),
                    participation,
                    client_selection,
                    mode,
                    aggregation: Aggregation::Mean,
                    empty_rounds_limit: empty_rounds_limit.min(most),
                    waiting_limit_s,
                    divergence_limit,
                }
            },
        )
}

fn network() -> impl Strategy<Value = NetworkSpec> {
    let preset = prop_oneof![Just(None), Just(Some("wifi-2020".to_owned()))];
    let trace =
        ("[a-z/ \"\\\\é.]{1,12}", proptest::option::of(1e-3..1e9)).prop_map(|(path, period_s)| {
            RatesSpec::Trace {
                path: path.into(),
                period_s,
            }
        });
    let sharing = prop_oneof![Just(Sharing::Equal), Just(Sharing::Tcp)];
    let lognormal =
        (1e-3..1e6, unit(), 1e-3..1e6, -1.0..=1.0).prop_map(|(down, sigma, up, correlation)| {
            RatesSpec::Lognormal(LognormalRatesSpec {
                downlink_median_mbit_per_s: down,
                downlink_log_sigma: sigma,
                uplink_median_mbit_per_s: up,
                uplink_log_sigma: sigma / 3.0,
                correlation,
                transfer_log_sigma: sigma / 7.0,
            })
        });
    let rates = prop_oneof![lognormal, trace];
    (preset, rates, 1e-3..1e6, unit(), unit(), 0.0..1e4, sharing).prop_map(
        |(preset, rates, mbit, sigma, dropout, rtt_ms, sharing)| NetworkSpec {
            preset,
            rates,
            rtt_ms,
            rtt_log_sigma: sigma,
            dropout,
            sharing,
            server: ServerLinkSpec {
                preset: None,
                downlink_mbit_per_s: (dropout < 0.7).then_some(mbit),
                uplink_mbit_per_s: (dropout > 0.3).then_some(mbit / 3.0),
                connections: (rtt_ms > 1e3).then_some(rtt_ms as u32),
            },
        },
    )
}

fn devices() -> impl Strategy<Value = DevicesSpec> {
    let class = |name: &str, share, memory_mb: Option<f64>| DeviceClassSpec {
        name: name.to_owned(),
        share,
        ns_per_row_visit: 1.0 + share,
        log_sigma: share,
        ns_per_multiply_add: memory_mb.map(|memory_mb| memory_mb / 3.0),
        fixed_ms_per_participation: memory_mb,
        memory_mb,
    };
    let classes =
        (1e-3..0.999, proptest::option::of(1e-3..1e6)).prop_map(move |(share, memory_mb)| {
            SpeedSpec::Classes(vec![
                class("a \"b\"", share, memory_mb),
                class("é", 1.0 - share, None),
            ])
        });
    let speed = prop_oneof![
        unit().prop_map(|sigma| SpeedSpec::Lognormal(LognormalSpeedSpec {
            median_ns_per_row_visit: 1.0 + sigma,
            log_sigma: sigma
        })),
        classes,
        "[a-z/ \"\\\\é.]{1,12}".prop_map(|path| SpeedSpec::Trace { path: path.into() }),
    ];
    let memory = prop_oneof![
        Just(None),
        (1e-3..1e9, prop_oneof![Just(0.0), 1e-3..5.0]).prop_map(|(median_mb, log_sigma)| Some(
            MemorySpec {
                median_mb,
                log_sigma
            }
        )),
    ];
    (speed, memory, proptest::option::of(0.0..1e12)).prop_map(|(speed, memory, energy)| {
        DevicesSpec {
            memory,
            ns_per_multiply_add: energy.unwrap_or(0.0) / 1e4,
            fixed_ms_per_participation: energy.unwrap_or(0.0) / 1e5,
            energy_nj_per_byte: energy,
            energy_nj_per_row_visit: energy.map(|energy| energy / 3.0),
            energy_nj_per_multiply_add: energy.map(|energy| energy / 5.0),
            power_mw: energy.map(|energy| energy / 1e4),
            radio_tail: energy.map(|energy| RadioTailSpec {
                power_mw: energy / 1e5,
                length_s: energy / 1e7,
            }),
            speed,
            preset: None,
        }
    })
}

fn availability() -> impl Strategy<Value = AvailabilitySpec> {
    let daily = (
        0.1..=24.0,
        0.0..24.0,
        0.0..=12.0,
        proptest::collection::vec(-24.0..=24.0, 0..4),
    )
        .prop_map(|(hours_on, starts_at_hour, jitter_hours, utc_offsets)| {
            AvailabilityPattern::Daily(DailySpec {
                hours_on,
                starts_at_hour,
                jitter_hours,
                utc_offsets,
            })
        });
    let on_off = (1.0..1e9, 1.0..1e9).prop_map(|(mean_on_s, mean_off_s)| {
        AvailabilityPattern::OnOff(OnOffSpec {
            mean_on_s,
            mean_off_s,
        })
    });
    let trace =
        ("[a-z/ \"\\\\é.]{1,12}", proptest::option::of(1e-3..1e9)).prop_map(|(path, period_s)| {
            AvailabilityPattern::Trace {
                path: path.into(),
                period_s,
            }
        });
    prop_oneof![Just(AvailabilityPattern::Always), daily, on_off, trace].prop_map(|pattern| {
        AvailabilitySpec {
            preset: None,
            pattern,
        }
    })
}

fn faults() -> impl Strategy<Value = Vec<FaultSpec>> {
    let effect = prop_oneof![
        (1e-3..1e9).prop_map(FaultEffect::Delay),
        Just(FaultEffect::Drop),
        (0..=i64::MAX as u64).prop_map(FaultEffect::CutAtByte),
        Just(FaultEffect::Corrupt),
        Just(FaultEffect::Outage),
        (1.0..1e9, 1.0..1e9).prop_map(|(mean_gap_s, mean_duration_s)| {
            FaultEffect::RecurringOutage {
                mean_gap_s,
                mean_duration_s,
            }
        }),
    ];
    let direction = prop_oneof![
        Just(None),
        Just(Some(Direction::Up)),
        Just(Some(Direction::Down))
    ];
    let users = prop_oneof![
        Just(None),
        (1e-3..=1.0).prop_map(|share| Some(FaultUsers::Share(share))),
        proptest::collection::vec(any::<u32>(), 1..4)
            .prop_map(|numbers| Some(FaultUsers::Numbers(numbers))),
        Just(Some(FaultUsers::Names(vec!["O'Brien".to_owned()]))),
        Just(Some(FaultUsers::DeviceClasses(vec!["é".to_owned()]))),
        Just(Some(FaultUsers::UtcOffsets(Vec::new()))),
    ];
    let rule = (
        effect,
        direction,
        users,
        0.0..1e6,
        proptest::option::of(1e-3..1e3),
        1e-3..=1.0,
    )
        .prop_map(
            |(effect, direction, users, from_s, length_s, probability)| FaultSpec {
                preset: (probability > 0.5 && !effect.is_outage())
                    .then(|| "lost-transfers".to_owned()),
                effect,
                direction: direction.filter(|_| !effect.is_outage()),
                from_s,
                until_s: length_s.map(|length_s| from_s + length_s),
                users,
                probability: if effect.is_outage() { 1.0 } else { probability },
            },
        );
    proptest::collection::vec(rule, 0..3)
}

/// Returns a table with one kind of noise, as Oort and an epsilon exclude each other.
fn privacy(training: &TrainingSpec) -> PrivacySpec {
    let (trust, adjacency) = (Trust::Local, Adjacency::Replace);
    let gaussian = GaussianSpec {
        clip: 0.1,
        noise_multiplier: 0.5,
        trust,
        adjacency,
        delta: 1e-9,
    };
    let reads_losses = matches!(training.client_selection, ClientSelection::Oort(_));
    PrivacySpec {
        laplace: reads_losses.then_some(LaplaceSpec { scale: 0.1 }),
        gaussian: (!reads_losses).then_some(gaussian),
        virtual_items: Some(VirtualItemsSpec {
            per_rated_item: 1.5,
        }),
    }
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let world = (network(), devices(), availability(), faults());
    (0..=i64::MAX as u64, dataset(), method(), training(), world).prop_map(
        |(seed, dataset, method, mut training, (network, devices, availability, mut faults))| {
            if method.name == "popularity" {
                training.start = None;
                (training.mode, training.client_selection) =
                    (Mode::Synchronous, ClientSelection::Uniform);
            }
            // If everybody is needed, nobody is left to be over-selected, so only a deadline gives
            // the mode a meaning.
            if let Mode::OverSelection(spec) = &mut training.mode {
                spec.deadline_s = spec
                    .deadline_s
                    .or(Some(7.5))
                    .filter(|_| training.participation != Participants::Cohort(1));
            }
            // The least number of users can be checked only for a generated population.
            if dataset.generator.is_some() {
                faults.retain(|rule| !matches!(rule.users, Some(FaultUsers::Numbers(_))));
            }
            let is_plain = (training.mode, training.client_selection)
                == (Mode::Synchronous, ClientSelection::Uniform);
            if let (Participants::Share(share), true, 0) =
                (training.participation, is_plain, seed % 2)
            {
                training.participation = Participants::Poisson(share);
            }
            let faults = with_groups(faults, &devices, &availability);
            let evaluation = match dataset.split {
                SplitSpec::LeaveOneOut { .. }
                | SplitSpec::Holdout(_)
                | SplitSpec::ByColumn(_)
                | SplitSpec::GlobalTime(_) => EvaluationSpec {
                    metrics: ["expected-hr@7", "ndcg"].map(String::from).into(),
                    headline: "ndcg@10".to_owned(),
                    selection: Selection::BestValidation,
                    ..EvaluationSpec::default()
                },
                SplitSpec::KFold { .. } => EvaluationSpec {
                    metrics: ["mae", "rmse"].map(String::from).into(),
                    headline: "rmse".to_owned(),
                    selection: Selection::BestTest,
                    ..EvaluationSpec::default()
                },
            };
            // A method without training has no newcomers, and neither has a run that goes on from
            // another one, or one that predicts ratings.
            let joining = match seed % 3 {
                0 => Joining::Names(vec!["O'Brien".to_owned()]),
                _ => Joining::Share(0.25),
            };
            let is_single = matches!(dataset.split, SplitSpec::LeaveOneOut { .. });
            let joins = JoinsSpec {
                at_s: 7.5,
                ratings: vec![0, 2],
                ..match is_single && seed % 2 == 0 {
                    true => JoinsSpec {
                        users: None,
                        items: Some(joining),
                        at_s: 1.0,
                        ratings: Vec::new(),
                        local_trainings: 1,
                        stage_s: Some(2.5),
                    },
                    false => JoinsSpec {
                        users: Some(joining),
                        items: None,
                        at_s: 1.0,
                        ratings: Vec::new(),
                        local_trainings: 3,
                        stage_s: None,
                    },
                }
            };
            let has_joins = method.name != "popularity"
                && training.start.is_none()
                && !dataset.split.holds_ratings_out();
            let joins = has_joins.then_some(joins);
            // The audit guesses what a user has rated, which changes when items come.
            let has_audit = joins.as_ref().is_none_or(|joins| joins.items.is_none());
            Scenario {
                joins,
                audit: has_audit.then_some(AuditSpec {
                    every_rounds: 3,
                    users: 17,
                }),
                overheads: OverheadsSpec {
                    transport: Some(TransportSpec {
                        payload_bytes: 1000,
                        header_bytes: 52,
                    }),
                    ..OverheadsSpec::default()
                },
                privacy: privacy(&training),
                name: "test".to_owned(),
                seed,
                dataset,
                method,
                training,
                evaluation,
                codec: CodecSpec {
                    downlink: CodecChoice::Named(CodecName::SparseF32),
                    ..CodecSpec::default()
                },
                network,
                devices,
                server: ServerSpec {
                    ns_per_row_visit: 0.5,
                    ns_per_multiply_add: 0.0,
                    power_w: Some(40.0),
                },
                carbon: CarbonSpec {
                    path: Some("carbon.csv".into()),
                    server_utc_offset: -3.5,
                    ..CarbonSpec::default()
                },
                availability,
                faults,
                report: ReportSpec { users_csv_limit: 7 },
            }
        },
    )
}

/// Returns rules without those that choose by groups of users that there are not.
fn with_groups(
    rules: Vec<FaultSpec>,
    devices: &DevicesSpec,
    availability: &AvailabilitySpec,
) -> Vec<FaultSpec> {
    let fitting = |mut rule: FaultSpec| {
        match (&mut rule.users, &availability.pattern) {
            (Some(FaultUsers::DeviceClasses(_)), _)
                if !matches!(devices.speed, SpeedSpec::Classes(_)) =>
            {
                return None;
            }
            (Some(FaultUsers::UtcOffsets(offsets)), AvailabilityPattern::Daily(daily)) => {
                *offsets = daily.offsets()
            }
            (Some(FaultUsers::UtcOffsets(_)), _) => return None,
            _ => {}
        }
        Some(rule)
    };
    rules.into_iter().filter_map(fitting).collect()
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
    let text = MINIMAL.replace("method = \"popularity\"\n", "")
        + "[method.fedrap]\n[network]\npreset = \"wifi-2020\"\n";
    insta::assert_snapshot!(read(&text).unwrap().to_toml().unwrap());
}

#[test]
fn the_record_of_a_run_holds_the_layout_of_the_file() {
    let record = serde_json::to_value(read(MINIMAL).unwrap()).unwrap();
    assert_eq!(record["method"], json!("popularity"));
    assert_eq!(record["dataset"]["generator"]["users"], json!(500));
    assert_eq!(record["training"]["participation"], json!("all"));
}
