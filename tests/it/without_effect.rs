use std::path::PathBuf;

use fedrecsim_core::Error;
use fedrecsim_methods::registry::vocabulary;
use fedrecsim_scenario::{self as scenario, Loaded, Override, Strictness};

use crate::checkpoints::{DOOMED, resume, saving};
use crate::support::{SMALL, Words, Workshop, assert_refusal, repository};

fn strings(overrides: &[&str]) -> Vec<String> {
    overrides.iter().map(ToString::to_string).collect()
}

fn load(text: &str, overrides: &[&str], strictness: Strictness) -> Result<Loaded, Error> {
    scenario::parse_with_warnings(
        text,
        "small.toml",
        &Override::of_line(&strings(overrides)),
        &vocabulary(),
        strictness,
    )
}

fn warnings(overrides: &[&str]) -> Vec<String> {
    load(SMALL, overrides, Strictness::Lenient)
        .unwrap_or_else(|error| panic!("{error}"))
        .warnings
}

const FEDBUFF: &str =
    "training.mode.fedbuff={ concurrency = 4, buffer = 2, maximum_staleness = 0 }";
const FEDASYNC: &str = "training.mode.fedasync={ concurrency = 4, maximum_staleness = 0 }";
const SEMI_SYNCHRONOUS: &str =
    "training.mode.semi-synchronous={ deadline_s = 1, maximum_staleness = 0 }";
const CLASS: &str = "devices.speed.classes=[{ name = \"a\", share = 1, ns_per_row_visit = 1, ns_per_multiply_add = 1, \
                     fixed_ms_per_participation = 1 }]";
const UPLINK: &str = "codec.uplink={ select = \"all\", delta = true }";
const PLAIN: &str = "method={ cofedrec = { regularization = 0 } }";
const ALONE: &str = "method={ cgfedrec = { regularization = 0 } }";
const OWN: &str = "method={ fedca = { own_share = 1 } }";
const FEDREC: &str = "method=\"fedrec-pmf\"";

/// What switches a key off, the key with its value, and its usual value.
type Case = (
    &'static [&'static str],
    &'static str,
    &'static str,
    &'static str,
);

/// Every rule about a key that another key switches off.
const CASES: &[Case] = &[
    (&[UPLINK], "codec.uplink.scale", "\"block\"", "\"row\""),
    (
        &[UPLINK],
        "codec.uplink.rounding",
        "\"nearest\"",
        "\"stochastic\"",
    ),
    (&[UPLINK], "codec.uplink.positions", "\"rice\"", "\"auto\""),
    (&[UPLINK], "codec.uplink.error_feedback", "true", "false"),
    (
        &["dataset.split.leave-one-out.validation_item=false"],
        "evaluation.ranking.sampled.shared_candidates",
        "false",
        "true",
    ),
    (
        &["evaluation.metrics=[\"mrr\", \"hr@10\"]"],
        "evaluation.cutoffs",
        "[3]",
        "[5, 10, 20]",
    ),
    (&[], "training.waiting_limit_s", "60", "604800"),
    (
        &["method=\"mf\""],
        "training.aggregation",
        "\"mean\"",
        "\"method\"",
    ),
    (
        &["method=\"fedmf\"", "training.aggregation=\"none\""],
        "codec",
        "{ uplink = \"sparse-f32\" }",
        "{ uplink = \"rows-f32\" }",
    ),
    (
        &["training.mode.over-selection={ factor = 1 }"],
        "training.mode.over-selection.stragglers",
        "\"late\"",
        "\"cancelled\"",
    ),
    (
        &[SEMI_SYNCHRONOUS],
        "training.mode.semi-synchronous.staleness_weight",
        "\"constant\"",
        "{ polynomial = 0.5 }",
    ),
    (
        &[FEDBUFF],
        "training.mode.fedbuff.staleness_weight",
        "\"constant\"",
        "{ polynomial = 0.5 }",
    ),
    (
        &[FEDASYNC],
        "training.mode.fedasync.staleness_weight",
        "\"constant\"",
        "{ polynomial = 0.5 }",
    ),
    (
        &["training.client_selection.oort.exploration=0.2"],
        "training.client_selection.oort.exploration_decay",
        "0.5",
        "0.98",
    ),
    (
        &["training.client_selection.oort.straggler_penalty=0"],
        "training.client_selection.oort.preferred_quantile",
        "0.5",
        "0.8",
    ),
    (
        &["network.rates.lognormal.uplink_log_sigma=1"],
        "network.rates.lognormal.correlation",
        "0.5",
        "0",
    ),
    (&["network.rtt_ms=0"], "network.rtt_log_sigma", "0.5", "0"),
    (&[CLASS], "devices.ns_per_multiply_add", "2", "0"),
    (&[CLASS], "devices.fixed_ms_per_participation", "2", "0"),
    (
        &["availability.pattern.daily.hours_on=24"],
        "availability.pattern.daily.starts_at_hour",
        "3",
        "22",
    ),
    (
        &["availability.pattern.daily.hours_on=24"],
        "availability.pattern.daily.jitter_hours",
        "1",
        "2",
    ),
    (
        &["method.fedrap.regularizer=\"none\""],
        "method.fedrap.mu",
        "3",
        "0.1",
    ),
    (
        &["method.fedrap.tables=\"d-only\""],
        "method.fedrap.mu",
        "3",
        "0.1",
    ),
    (
        &["method.fedrap.tables=\"d-only\""],
        "method.fedrap.regularizer",
        "\"l2\"",
        "\"l1\"",
    ),
    (
        &["method.fedrap.tables=\"c-only\""],
        "method.fedrap.lambda",
        "3",
        "0.1",
    ),
    (&[], "method.fedrap.curriculum", "\"sin\"", "\"tanh\""),
    (
        &[FEDREC],
        "method.fedrec-pmf.hybrid_filling",
        "\"slides\"",
        "\"code\"",
    ),
    (&[FEDREC], "method.fedrec-pmf.predict_from", "3", "10"),
    (&[FEDREC], "method.fedrec-pmf.local_steps", "3", "10"),
    (
        &[FEDREC],
        "method.fedrec-pmf.strategy",
        "\"hybrid-filling\"",
        "\"user-averaging\"",
    ),
    (
        &["method={ fedpergnn = { as_published_labels = true } }"],
        "method.fedpergnn.rating_scale",
        "10",
        "5",
    ),
    (&[PLAIN], "method.cofedrec.temperature", "0.2", "0.1"),
    (&[PLAIN], "method.cofedrec.base_temperature", "0.3", "0.5"),
    (&[ALONE], "method.cgfedrec.clusters", "30", "60"),
    (&[ALONE], "method.cgfedrec.cluster_starts", "2", "10"),
    (
        &["method={ gpfedrec = { neighbours = 2 } }"],
        "method.gpfedrec.threshold",
        "2",
        "1",
    ),
    (
        &["method={ fedcia = { alignment_steps = 0 } }"],
        "method.fedcia.alignment_rate",
        "0.2",
        "0.1",
    ),
    (
        &["method={ fcf-bts = { row_share = 1 } }"],
        "method.fcf-bts.choice",
        "\"random\"",
        "\"bandit\"",
    ),
    (
        &["method={ fcf-bts = { choice = \"random\" } }"],
        "method.fcf-bts.reward",
        "\"length\"",
        "\"change\"",
    ),
    (&[OWN], "method.fedca.similarity", "0.5", "0.3"),
    (&[OWN], "method.fedca.alignment", "0.5", "0.3"),
    (
        &["method=\"mf\""],
        "training.participation",
        "{ cohort = 3 }",
        "\"all\"",
    ),
    (&[], "server.ns_per_row_visit", "1", "10"),
    (
        &["method=\"popularity\""],
        "training.participation",
        "{ cohort = 3 }",
        "\"all\"",
    ),
    (
        &["method=\"popularity\""],
        "training.steps_per_round",
        "2",
        "1",
    ),
    (
        &["method=\"popularity\""],
        "training.empty_rounds_limit",
        "2",
        "10",
    ),
    (
        &["method=\"popularity\""],
        "training.divergence_limit",
        "2",
        "1e6",
    ),
    (
        &["method=\"popularity\""],
        "dataset.negatives",
        "{ per_positive = 2 }",
        "{ per_positive = 4 }",
    ),
    (
        &["method=\"fcf\""],
        "dataset.negatives",
        "{ pool = \"unrated\" }",
        "{ pool = \"not-in-train\" }",
    ),
    (
        &["method=\"popularity\""],
        "codec",
        "{ uplink = \"sparse-f32\" }",
        "{ uplink = \"rows-f32\" }",
    ),
    (
        &["method=\"popularity\""],
        "network",
        "{ preset = \"wifi-2020\" }",
        "{ rtt_ms = 1 }",
    ),
    (
        &["method=\"popularity\""],
        "devices",
        "{ speed = { lognormal = { log_sigma = 1 } } }",
        "{ speed = { lognormal = { log_sigma = 0 } } }",
    ),
    (
        &["method=\"popularity\""],
        "server",
        "{ ns_per_row_visit = 1 }",
        "{ ns_per_row_visit = 10 }",
    ),
    (
        &["method=\"popularity\""],
        "availability",
        "{ preset = \"night-charging\" }",
        "{}",
    ),
    (
        &["method=\"popularity\""],
        "faults",
        "[{ effect = \"drop\", from_s = 1 }]",
        "[]",
    ),
];

/// If this fails, a key that cannot have an effect is taken without a word, or one at its usual
/// value, as every printed scenario has them, is complained of.
#[test]
fn every_key_that_another_one_switches_off_is_told() {
    for (switch, key, value, usual) in CASES {
        let name = key.rsplit('.').next().unwrap();
        let with = |value: &str| {
            let written = format!("{key}={value}");
            let mut told = warnings(&[switch, &[written.as_str()][..]].concat());
            // The small scenario's own parameters are dropped with its method, which other tests are
            // about.
            told.retain(|warning| !warning.contains("are dropped"));
            told
        };
        let told = with(value);
        assert!(
            told.iter()
                .any(|told| told.contains(&format!("`{name}` has no effect: "))),
            "{key}: {told:?}"
        );
        assert!(
            !with(usual)
                .iter()
                .any(|told| told.contains(&format!("`{name}` has"))),
            "{key}: {:?}",
            with(usual)
        );
    }
}

/// If this fails, a rule of faults behind one that hits everything is believed to do something.
#[test]
fn rules_of_faults_behind_one_that_hits_everything_are_told() {
    let faults = |first: &str| {
        format!("faults=[{first}, {{ effect = \"corrupt\" }}, {{ effect = {{ delay_s = 1 }} }}]")
    };
    let told = warnings(&[&faults("{ effect = { delay_s = 2 } }")]);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].contains("`faults[1]` has no effect: `faults[0]`")
            && told[1].contains("`faults[2]`"),
        "{told:?}"
    );
    assert_eq!(
        warnings(&[&faults("{ effect = \"drop\", probability = 0.5 }")]).len(),
        1,
        "the last one only"
    );
    assert!(
        warnings(&["faults=[{ effect = \"drop\", direction = \"up\" }, { effect = \"corrupt\" }]"])
            .is_empty()
    );
}

/// If this fails, a run that ends before the method has learned anything looks like one that has.
#[test]
fn a_run_that_ends_before_the_model_is_whole_is_told() {
    let too_short = |rounds: u32| {
        let rounds = format!("training.rounds={rounds}");
        let told = warnings(&["method=\"fedtide\"", "method.fedtide.periods=2", &rounds]);
        told.iter().any(|text| text.contains("whole after 16"))
    };
    assert!(too_short(15));
    assert!(!too_short(16));
}

/// If this fails, a scenario that is printed and read again has warnings about keys that its author
/// never wrote.
#[test]
fn a_printed_scenario_has_no_warnings_and_neither_has_any_of_the_project() {
    let printed = load(SMALL, &[], Strictness::Strict)
        .unwrap()
        .scenario
        .to_toml()
        .unwrap();
    assert_eq!(
        load(&printed, &[], Strictness::Strict).unwrap().warnings,
        [""; 0]
    );
    for entry in repository("scenarios").read_dir().unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let loaded = scenario::load_with_warnings(&path, &[], &vocabulary(), Strictness::Strict);
        let scenario = loaded.unwrap_or_else(|error| panic!("{error}")).scenario;
        let printed = scenario.to_toml().unwrap();
        let again = load(&printed, &[], Strictness::Strict);
        assert!(again.is_ok(), "{}: {}", path.display(), again.unwrap_err());
    }
}

/// If this fails, the warning is missing from the terminal or the report, or `--strict` lets it
/// pass.
#[test]
fn a_key_without_effect_is_a_warning_or_with_strict_a_fault() {
    let workshop = Workshop::new();
    let overrides = ["method.fedrap.regularizer=\"none\"", "method.fedrap.mu=3"];
    let set = overrides.iter().flat_map(|text| ["--set", text]);
    let arguments = Words::new(&["validate"])
        .path(&workshop.small())
        .and(&set.collect::<Vec<_>>());
    let found = arguments.carry_out().unwrap();
    assert!(found.errors.is_empty() && found.output.contains("valid"));
    let warning = "--set:1:18: `mu` has no effect: `regularizer` is `none`";
    assert_eq!(found.warnings, [warning]);
    let found = arguments.and(&["--strict"]).carry_out().unwrap();
    assert!(found.output.is_empty() && found.warnings.is_empty());
    assert_refusal(&found.errors[0], &[warning, "small.toml: 1 fault"]);

    workshop.run(workshop.small(), &overrides).unwrap();
    assert_eq!(
        workshop.run_json()["warnings"],
        serde_json::json!([warning])
    );
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    assert!(summary.contains(warning), "{summary}");
    let other = Workshop::new();
    let strict = other
        .arguments(other.small(), &overrides)
        .and(&["--strict"]);
    assert_refusal(&strict.carry_out().unwrap_err(), &[warning]);
    assert!(!other.report().exists());
}

/// If this fails, a report that is resumed has no warnings, though that of a run without a stop
/// has.
#[test]
fn a_resumed_run_reports_the_warnings_of_the_run_that_was_stopped() {
    let workshop = Workshop::new();
    let overrides = [&DOOMED[..], &["training.waiting_limit_s=60"]].concat();
    saving(&workshop, &overrides, 1).carry_out().unwrap();
    std::fs::remove_file(workshop.report().join("run.json")).unwrap();
    resume(&workshop.report(), &workshop.path(".")).unwrap();
    assert_eq!(
        workshop.run_json()["warnings"].as_array().map(Vec::len),
        Some(1)
    );
}

/// If this fails, a rate that nobody can compute with is silently another one.
#[test]
fn numbers_that_would_be_taken_for_zero_or_for_the_smallest_one_are_refused() {
    for (tiny, part) in [
        (
            "method.fedrap.learning_rate_network=1e-300",
            "`learning_rate_network` is 1e-300, which is taken for 0",
        ),
        ("method.fedrap.mu=1e-300", "`mu` is 1e-300"),
        (
            "network.rates.lognormal.uplink_median_mbit_per_s=1e-300",
            "`uplink_median_mbit_per_s` must be at least 0.000001",
        ),
        (
            "network.server.downlink_mbit_per_s=1e-7",
            "`downlink_mbit_per_s` must be at least",
        ),
        (
            "training.mode.over-selection.deadline_s=1e-10",
            "`deadline_s` must be at least 1e-9",
        ),
        (
            "faults=[{ effect = { delay_s = 1e-12 } }]",
            "`delay_s` must be at least",
        ),
        (
            "faults=[{ effect = \"drop\", from_s = 1e-12 }]",
            "`from_s` is 1e-12, which is taken for 0",
        ),
        (
            "network.rtt_ms=1e-7",
            "`rtt_ms` is 1e-7, which is taken for 0",
        ),
        (
            "devices.fixed_ms_per_participation=1e-30",
            "`fixed_ms_per_participation` is 1e-30",
        ),
        ("network.dropout=1e-200", "`dropout` is 1e-200"),
    ] {
        let error = load(SMALL, &[tiny], Strictness::Lenient).expect_err(tiny);
        assert_refusal(&error, &[part]);
    }
    for sound in [
        "method.fedrap.mu=1e-30",
        "network.rates.lognormal.uplink_median_mbit_per_s=1e-6",
        "network.rtt_ms=0",
        "network.rtt_ms=1e-6",
    ] {
        assert!(
            load(SMALL, &[sound], Strictness::Lenient).is_ok(),
            "{sound}"
        );
    }
}

/// If this fails, contradictions between keys are reported only after the wrong keys and values are
/// mended.
#[test]
fn contradictions_are_told_beside_faults_of_single_keys() {
    let both = [
        "network.dropout=2",
        "dataset.path=\"a.csv\"",
        "training.rounds=0",
        "evaluation.users=50",
    ];
    let error = load(SMALL, &both, Strictness::Lenient).unwrap_err();
    assert_refusal(
        &error,
        &[
            "`dropout` must be at most 1",
            "`path` has no meaning",
            "`users` is 50",
            "4 faults",
        ],
    );
    // What is said of the number itself would be a guess.
    let dependent = ["dataset.generator.users=0", "evaluation.users=50"];
    let error = load(SMALL, &dependent, Strictness::Lenient).unwrap_err();
    assert_refusal(&error, &["`users` must be at least 1", "1 fault"]);
    // A wrong type, a word with a slip, a key with a slip and a key that means nothing hide no
    // contradiction either.
    for slip in [
        "network.rtt_ms=\"long\"",
        "codec.uplink=\"row-f32\"",
        "training.round=3",
        "network.colour=1",
    ] {
        let both = [slip, "dataset.path=\"a.csv\"", "evaluation.users=50"];
        let error = load(SMALL, &both, Strictness::Lenient).unwrap_err();
        assert_refusal(
            &error,
            &["`path` has no meaning", "`users` is 50", "3 faults"],
        );
    }
    // A table with a wrong key exists, and it is not empty.
    for (wrong, count) in [
        (
            "[dataset]\nname = \"delimited\"\npath = \"a.csv\"\n[dataset.columns]\nusr = 1\nitem = 2\n",
            "1 fault",
        ),
        (
            "[dataset]\nname = \"ml-100k\"\nsubset.users = \"x\"\n",
            "1 fault",
        ),
        (
            "dataset.name = \"ml-100k\"\n[[faults]]\nkind = \"x\"\n",
            "1 fault",
        ),
    ] {
        let file = format!("method = \"fedmf\"\ntraining.rounds = 1\n{wrong}");
        let error = load(&file, &[], Strictness::Lenient).unwrap_err();
        assert_refusal(&error, &[count]);
    }
    // What depends on the value that is wrong is not guessed, and a key with a slip counts as what
    // it resembles.
    let error = load(
        SMALL,
        &["dataset.generator.users=\"many\"", "evaluation.users=50"],
        Strictness::Lenient,
    );
    assert_refusal(&error.unwrap_err(), &["expected an integer", "1 fault"]);
    let meant = SMALL.replace("users = 40", "user = 60");
    assert_refusal(
        &load(&meant, &["evaluation.users=50"], Strictness::Lenient).unwrap_err(),
        &["`user`", "1 fault"],
    );
    // An unknown key counts as left out.
    let unknown = [
        "network.dropout=2",
        "dataset.path=\"a.csv\"",
        "dataset.colums=3",
    ];
    assert_refusal(
        &load(SMALL, &unknown, Strictness::Lenient).unwrap_err(),
        &["`path` has no meaning", "3 faults"],
    );
}

/// If this fails, a comparison of methods by `--set method=...` runs with other parameters than its
/// author believes.
#[test]
fn parameters_that_an_override_of_the_method_removes_are_told() {
    let told = warnings(&["method=\"fedmf\""]);
    let lost = "--set:1:1: `latent_dimension`, `learning_rate_tables`, parameters of `fedrap`, are dropped";
    assert!(told.len() == 1 && told[0].starts_with(lost), "{told:?}");
    let told = warnings(&["method=fedrap"]);
    assert!(
        told[0].contains("`latent_dimension`, `learning_rate_tables`, parameters of `fedrap`"),
        "{told:?}"
    );
    let told = warnings(&["method={ fedrap = { latent_dimension = 4 } }"]);
    assert!(
        told.len() == 1
            && told[0].contains("`learning_rate_tables`, a parameter of `fedrap`, is dropped"),
        "{told:?}"
    );
    assert!(warnings(&["method.fedrap.latent_dimension=4"]).is_empty());
    assert!(load(SMALL, &["method=\"fedmf\""], Strictness::Strict).is_err());
}

/// If this fails, `--set dataset.name=...` cannot be used on a scenario with a generator or a file
/// of its own, or it reads the file of another data set.
#[test]
fn an_override_of_the_data_set_leaves_out_what_the_file_says_of_its_own() {
    let loaded = load(SMALL, &["dataset.name=\"lastfm-2k\""], Strictness::Lenient).unwrap();
    assert_eq!(
        loaded.scenario.dataset.name,
        scenario::DatasetName::LastFm2k
    );
    assert_eq!(loaded.warnings.len(), 1);
    assert!(
        loaded.warnings[0]
            .contains("`generator` is dropped: an override names another data set, `lastfm-2k`")
    );
    let own = "method = \"popularity\"\ntraining.rounds = 1\n[dataset]\nname = \"delimited\"\npath = \"a.csv\"\n\
               columns = { separator = \",\", user = 1, item = 2 }\n";
    for name in ["ml-100k", "generated"] {
        let loaded = load(own, &[&format!("dataset.name={name}")], Strictness::Lenient).unwrap();
        assert_eq!(
            (loaded.scenario.dataset.path, loaded.warnings.len()),
            (None, 2),
            "{:?}",
            loaded.warnings
        );
    }
    let path = ["dataset.name=ml-100k", "dataset.path=u.data"];
    assert_eq!(
        load(own, &path, Strictness::Lenient)
            .unwrap()
            .scenario
            .dataset
            .path,
        Some("u.data".into())
    );
    // What is said on the command line is never dropped, so that it contradicts itself.
    let both = ["dataset.generator.users=50", "dataset.name=ml-100k"];
    assert_refusal(
        &load(SMALL, &both, Strictness::Lenient).unwrap_err(),
        &["`generator` belongs to"],
    );
}

/// If this fails, a program that writes scenario files can make `validate` work for minutes on a
/// file that nobody reads.
#[test]
fn a_file_beyond_a_mebibyte_is_refused_before_it_is_parsed() {
    let workshop = Workshop::new();
    let long = format!("{}# {}\n", SMALL, "x".repeat(1 << 20));
    workshop.refused(
        workshop.write("long.toml", &long),
        &[],
        &["long.toml", "a scenario file has at most 1 MiB"],
    );
    assert_refusal(
        &load(&long, &[], Strictness::Lenient).unwrap_err(),
        &["at most 1 MiB"],
    );
}

/// If this fails, a short time per fault becomes a long one for a file of nothing but faults, or a
/// fault is not counted.
#[test]
fn of_many_faults_a_hundred_are_shown_and_the_others_are_counted() {
    let unknown: String = (0..20_000)
        .map(|number| format!("round_{number:05} = 1\n"))
        .collect();
    let error = load(&format!("{unknown}{SMALL}"), &[], Strictness::Lenient).unwrap_err();
    assert_refusal(
        &error,
        &[
            "small.toml:1:1: unknown key `round_00000`",
            "20000 faults, of which the first 100",
        ],
    );
    assert!(matches!(error, Error::Scenario { faults: 20_000, .. }));
    assert_eq!(error.to_string().matches("unknown key").count(), 100);
    let syntax = "a = = 1\n".repeat(20_000);
    let error = load(&syntax, &[], Strictness::Lenient).unwrap_err();
    assert_refusal(
        &error,
        &["small.toml:1:", "of which the first 100 are shown"],
    );
    let key = format!("{} = 1\n{SMALL}", "k".repeat(1_000_000));
    let error = load(&key, &[], Strictness::Lenient).unwrap_err();
    assert!(
        error.to_string().len() < 2_000 && error.to_string().contains("unknown key `kkk"),
        "{error}"
    );
}
