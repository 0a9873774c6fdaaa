//! Checks what is read from correct files.

use proptest::prelude::*;

use super::*;
use fedrecsim_core::Direction;

#[test]
fn the_shortest_file_gets_every_documented_default() {
    let scenario = read(MINIMAL).unwrap();
    assert_eq!(scenario.name, "test");
    assert_eq!(scenario.seed, 1);
    assert_eq!(scenario.dataset.generator, Some(GeneratorSpec::default()));
    assert_eq!(scenario.dataset.split, SplitSpec::LEAVE_ONE_OUT);
    assert_eq!(scenario.dataset.minimum_interactions, 0);
    assert_eq!(
        scenario.method,
        MethodSpec {
            name: "popularity".to_owned(),
            parameters: json!({})
        }
    );
    assert_eq!(scenario.training.participation, Participants::All);
    assert_eq!(scenario.evaluation, EvaluationSpec::default());
    // Without a preset, links and devices are those of the first ones, and the scenario does not
    // say that these were named.
    for table in ["network", "devices"] {
        let written = json!(scenario)[table].clone();
        let first = presets::of_table(table)[0].name.as_str();
        let named = read(&format!("{MINIMAL}[{table}]\npreset = \"{first}\"\n")).unwrap();
        let mut named = json!(named)[table].clone();
        named.as_object_mut().unwrap().shift_remove("preset");
        assert_eq!(written, named);
    }
    assert_eq!(
        scenario.network.server,
        ServerLinkSpec::default(),
        "the server's link is no limit"
    );
    assert_eq!(
        (scenario.availability, scenario.faults),
        (AvailabilitySpec::default(), Vec::new())
    );
}

#[test]
fn a_method_is_filled_up_with_the_defaults_of_its_schema() {
    // Without the defaults, the record of a run would change its meaning when a default changes.
    let text = MINIMAL.replace("method = \"popularity\"\n", "")
        + "[method.fedrap]\nweights = { mu = 0 }\n";
    let scenario = read(&text).unwrap();
    let expected = json!({
        "latent_dimension": 32, "learning_rate": 0.5, "objective": "published-code", "weights": { "lambda": 0.1, "mu": 0 }
    });
    assert_eq!(
        scenario.method,
        MethodSpec {
            name: "fedrap".to_owned(),
            parameters: expected
        }
    );
}

#[test]
fn a_method_may_be_a_table_or_only_a_name() {
    let table = MINIMAL.replace("method = \"popularity\"\n", "") + "[method.popularity]\n";
    assert_eq!(read(&table).unwrap(), read(MINIMAL).unwrap());
}

/// Returns a file with these keys in `table`, which may be a list of tables.
fn with_keys(table: &str, keys: &str) -> String {
    let header = match table {
        "faults" => "[[faults]]".to_owned(),
        table => format!("[{table}]"),
    };
    format!("{MINIMAL}{header}\n{keys}\n")
}

/// If this fails, a preset says something else than its keys do, or hides a key that is written
/// beside it.
#[test]
fn every_preset_can_be_named_and_each_of_its_keys_replaced() {
    for table in presets::TABLES {
        for preset in presets::of_table(table) {
            let name = format!("preset = \"{}\"\n", preset.name);
            let lines: Vec<String> = preset
                .lines()
                .iter()
                .map(|(key, value)| format!("{key} = {value}\n"))
                .collect();
            let named = read(&with_keys(table, &name)).unwrap();
            let both = read(&with_keys(table, &(name.clone() + &lines.concat()))).unwrap();
            assert_eq!(both, named, "{}", preset.name);
            let alone = read(&with_keys(table, &name.replace(&preset.name, "")));
            assert!(alone.is_err(), "a preset without a name");
        }
    }
}

#[test]
fn keys_beside_a_preset_are_put_over_its_own() {
    let network = read(&with_keys(
        "network",
        "preset = \"wifi-2020\"\nrtt_ms = 7\nrates.lognormal.correlation = 0.5",
    ))
    .unwrap()
    .network;
    let RatesSpec::Lognormal(rates) = network.rates else {
        panic!("the rates are drawn")
    };
    assert_eq!(
        (
            network.rtt_ms,
            rates.correlation,
            rates.uplink_median_mbit_per_s
        ),
        (7.0, 0.5, 26.3)
    );
    // Another variant of a choice takes the place of that of the preset.
    let devices = "preset = \"phone-wifi\"\nspeed.trace.path = \"d.csv\"";
    let devices = read(&with_keys("devices", devices)).unwrap().devices;
    assert_eq!(devices.energy_nj_per_byte, Some(1716.0));
    assert!(matches!(devices.speed, SpeedSpec::Trace { .. }));
    let server = "preset = \"nginx-worker\"\nuplink_mbit_per_s = 0.5";
    let server = read(&with_keys("network.server", server))
        .unwrap()
        .network
        .server;
    assert_eq!(
        (server.uplink_mbit_per_s, server.connections),
        (Some(0.5), Some(512))
    );
    let daily = "preset = \"night-charging\"\npattern.daily.hours_on = 6";
    let daily = read(&with_keys("availability", daily))
        .unwrap()
        .availability;
    assert_eq!(
        daily.pattern,
        AvailabilityPattern::Daily(DailySpec {
            hours_on: 6.0,
            ..DailySpec::default()
        })
    );
    let rule = "preset = \"lost-transfers\"\ndirection = \"up\"\neffect = \"corrupt\"";
    let rules = read(&with_keys("faults", rule)).unwrap().faults;
    assert_eq!(
        rules,
        [FaultSpec {
            preset: Some("lost-transfers".to_owned()),
            probability: 0.04,
            direction: Some(Direction::Up),
            effect: FaultEffect::Corrupt,
            ..FaultSpec::default()
        }]
    );
}

/// If this fails, a split that ranks nothing asks for candidates to rank against.
#[test]
fn ratings_that_are_held_out_need_no_candidates() {
    let split = |split: &str| {
        let text = MINIMAL.replace("[training]", &format!("split = \"{split}\"\n[training]"));
        read(&format!(
            "{text}[dataset.generator]\nitems = 99\nratings_per_user = 9\n"
        ))
    };
    split("k-fold").unwrap();
    let refused = split("leave-one-out").unwrap_err().to_string();
    assert!(refused.contains("99 candidates"), "{refused}");
}

/// If this fails, the name of a choice cannot be written where all of its keys have defaults.
#[test]
fn the_name_of_a_choice_stands_for_its_defaults() {
    let with = |keys: &str| {
        let text = MINIMAL.replace("[training]", &format!("{keys}\n[training]"));
        read(&text).unwrap()
    };
    assert_eq!(with("split = \"k-fold\""), with("split = { k-fold = {} }"));
    let trained = MINIMAL.replace("\"popularity\"", "\"fedrap\"");
    let training = |keys: &str| read(&format!("{trained}{keys}\n")).unwrap().training;
    assert_eq!(
        training("client_selection = \"oort\"").client_selection,
        ClientSelection::Oort(OortSpec::default())
    );
    // Beside a preset it stands for what the preset says of this choice.
    let daily = "preset = \"night-charging\"\npattern = \"daily\"";
    assert_eq!(
        read(&with_keys("availability", daily)).unwrap(),
        read(&with_keys("availability", "preset = \"night-charging\"")).unwrap()
    );
}

#[test]
fn lastfm_and_amazon_alone_have_a_filter_by_default() {
    let minimum = |name: &str| {
        let text = MINIMAL.replace("generated", name);
        read(&text).unwrap().dataset.minimum_interactions
    };
    assert_eq!(
        [
            minimum("ml-100k"),
            minimum("ml-32m"),
            minimum("amazon-instant-video-5core")
        ],
        [0, 0, 0]
    );
    let filtered = ["lastfm-2k", "lastfm-2k-tags", "amazon-instant-video"].map(minimum);
    assert_eq!(filtered, [10, 5, 5]);
}

/// If this fails, a subset that leaves nothing out goes unnoticed, or a generated population is
/// thought to have one.
#[test]
fn a_subset_says_how_many_are_kept_of_a_file() {
    let of = |name: &str, keys: &str| {
        read(&format!(
            "{}[dataset.subset]\n{keys}",
            MINIMAL.replace("generated", name)
        ))
    };
    let subset = of("ml-100k", "users = 50\n")
        .unwrap()
        .dataset
        .subset
        .unwrap();
    assert_eq!(
        subset,
        SubsetSpec {
            users: Some(50),
            items: None,
            keep: Kept::MostRated,
            with_timestamps: false,
            newest_per_user: None
        }
    );
    assert!(
        of("ml-100k", "keep = \"random\"\n")
            .unwrap_err()
            .to_string()
            .contains("needs `users`, `items` or `newest_per_user`")
    );
    assert!(
        of("generated", "items = 50\n")
            .unwrap_err()
            .to_string()
            .contains("[dataset.generator]")
    );
}

#[test]
fn ten_is_always_among_the_sorted_cutoffs() {
    let scenario = read(&format!("{MINIMAL}[evaluation]\ncutoffs = [20, 5, 20]\n")).unwrap();
    assert_eq!(scenario.evaluation.cutoffs, [5, 10, 20]);
    // Among 19 candidates, every held-out item is within the first 20.
    let scenario = read(&format!(
        "{MINIMAL}[evaluation]\nranking.sampled.candidates = 19\n"
    ))
    .unwrap();
    assert_eq!(scenario.evaluation.cutoffs, [5, 10]);
    // Sixteen are as many as there may be.
    let most = read(&format!(
        "{MINIMAL}[evaluation]\ncutoffs = {:?}\n",
        (1..=16).collect::<Vec<u32>>()
    ))
    .unwrap();
    assert_eq!(most.evaluation.cutoffs.len(), 16);
}

#[test]
fn columns_are_named_or_numbered() {
    let text = MINIMAL.replace(
        "name = \"generated\"",
        "name = \"delimited\"\npath = \"r.csv\"",
    ) + "[dataset.columns]\nseparator = \",\"\nheader = true\nuser = \"uid\"\nitem = 2\n";
    let columns = DelimitedSpec {
        separator: Some(",".to_owned()),
        header: Some(true),
        user: ColumnRef::Name("uid".to_owned()),
        item: ColumnRef::Position(2),
        rating: None,
        rating_range: None,
        label: None,
        weight: None,
        timestamp: None,
        timestamp_format: None,
        order: None,
        part: None,
        on_incomplete: OnIncomplete::Refuse,
    };
    assert_eq!(read(&text).unwrap().dataset.columns, Some(columns));
}

/// If this fails, `--set dataset.columns.separator=\t` of a shell separates by a backslash and a letter, or
/// columns are separated by the word `tab`.
#[test]
fn a_separator_may_be_written_as_shells_and_people_have_it() {
    let text = MINIMAL.replace("\"generated\"", "\"delimited\"\npath = \"r.tsv\"")
        + "[dataset.columns]\nuser = 1\nitem = 2\n";
    for written in ["\\t", "'\\t'", "\"\\t\"", "\t"] {
        let set = format!("dataset.columns.separator={written}");
        let scenario = read_with(&text, &[&set]).unwrap();
        let separator = scenario.dataset.columns.unwrap().separator;
        assert_eq!(separator.as_deref(), Some("\t"), "{written:?}");
    }
    for (word, meant) in [
        ("tab", "\t"),
        ("TAB", "\t"),
        ("comma", ","),
        ("semicolon", ";"),
        ("space", " "),
        ("pipe", "|"),
        ("::", "::"),
    ] {
        let scenario = read_with(&text, &[&format!("dataset.columns.separator={word}")]).unwrap();
        let separator = scenario.dataset.columns.unwrap().separator;
        assert_eq!(separator.as_deref(), Some(meant), "{word}");
    }
    let without = read(&text).unwrap().dataset.columns.unwrap();
    assert_eq!((without.separator, without.header), (None, None));
}

#[test]
fn what_editors_and_windows_add_is_harmless() {
    let expected = read(MINIMAL).unwrap();
    assert_eq!(
        read(&format!("#:schema ./scenario.schema.json\n{MINIMAL}")).unwrap(),
        expected
    );
    assert_eq!(read(&format!("\u{feff}{MINIMAL}")).unwrap(), expected);
    assert_eq!(read(&MINIMAL.replace('\n', "\r\n")).unwrap(), expected);
}

#[test]
fn an_override_replaces_adds_and_makes_tables() {
    let overrides = [
        "seed=7",
        "training.rounds = 9",
        "dataset.negatives.pool=unrated",
        "method.fedrap.weights.mu=0.25",
        "evaluation.cutoffs=[1, 3]",
        "dataset.generator={ users = 50 }",
    ];
    let scenario = read_with(MINIMAL, &overrides).unwrap();
    assert_eq!((scenario.seed, scenario.training.rounds), (7, 9));
    assert_eq!(scenario.dataset.negatives.pool, NegativePool::Unrated);
    assert_eq!(scenario.method.name, "fedrap");
    assert_eq!(scenario.method.parameters["weights"]["mu"], json!(0.25));
    assert_eq!(scenario.evaluation.cutoffs, [1, 3, 10]);
    assert_eq!(scenario.dataset.generated_users(), Some(50));
}

#[test]
fn an_override_puts_a_table_where_a_word_was() {
    let text = MINIMAL.to_owned() + "participation = \"all\"\n";
    let scenario = read_with(&text, &["training.participation.cohort=50"]).unwrap();
    assert_eq!(scenario.training.participation, Participants::Cohort(50));
}

#[test]
fn the_last_of_two_overrides_of_a_key_holds() {
    assert_eq!(read_with(MINIMAL, &["seed=2", "seed=3"]).unwrap().seed, 3);
}

#[test]
fn a_file_that_does_not_exist_is_a_read_error_that_names_it() {
    let error = load(Path::new("nowhere/gone.toml"), &[], &vocabulary()).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
    assert!(error.to_string().contains("nowhere/gone.toml"));
    assert_eq!(error.exit_code(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// If this fails, a place that cuts a character in two, or lies beyond the end, aborts the
    /// program instead of being reported.
    #[test]
    fn no_text_and_no_override_makes_reading_panic(
        position in 0..=MINIMAL.len(),
        inserted in "[a-z0-9\\[\\]{}=.,\"'#\\\\\r\n\té€ -]{0,12}",
        value in "[a-z0-9\\[\\]{}=.,\"'#\n é-]{0,12}",
    ) {
        let mut text = MINIMAL.to_owned();
        text.insert_str(position, &inserted);
        for overrides in [vec![], vec![format!("evaluation.cutoffs={value}")], vec![value.clone()]] {
            if let Err(error) = parse(&text, "é.toml", &overrides, &vocabulary()) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
