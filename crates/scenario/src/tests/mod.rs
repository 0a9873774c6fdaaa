//! Checks what is read from a scenario file, what is reported as wrong, and that a scenario can be
//! printed and read again.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::sizes::{BlockSize, ProblemSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::*;

mod messages;
mod reading;
mod round_trip;

/// A method's parameters as a method would declare them, with ranges, an enum, an option and a
/// nested table.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct FedrapLike {
    /// Latent dimensions.
    #[schemars(range(min = 1, max = 4096))]
    latent_dimension: u32,
    /// Learning rate.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    learning_rate: f64,
    /// Which equations.
    objective: Objective,
    /// Stop early below this change of the loss.
    early_stop: Option<f64>,
    /// Weights of the regularisers.
    weights: Weights,
}

impl Default for FedrapLike {
    fn default() -> Self {
        let weights = Weights::default();
        Self {
            latent_dimension: 32,
            learning_rate: 0.5,
            objective: Objective::PublishedCode,
            early_stop: None,
            weights,
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Objective {
    /// The code's.
    PublishedCode,
    /// The paper's.
    Paper,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Weights {
    lambda: f64,
    mu: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            lambda: 0.1,
            mu: 0.1,
        }
    }
}

/// Holds another type of the same name, which must not replace that of the other method.
mod elsewhere {
    use super::*;

    /// A method with a key that has no default.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct PfedrecLike {
        /// Learning rate.
        pub learning_rate: f64,
        /// Weights.
        pub weights: Option<Weights>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct Weights {
        pub eta: f64,
    }
}

/// The parameters of a method that has none.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoParameters {}

fn no_more_faults(_: &mut Json) -> Vec<ParameterFault> {
    Vec::new()
}

/// Refuses an early stop with the paper's objective, as an example of a rule across two keys.
fn check_fedrap(parameters: &mut Json) -> Vec<ParameterFault> {
    let paper = parameters["objective"] == "paper" && parameters.get("early_stop").is_some();
    let fault = |path: &str, message: &str| ParameterFault::wrong(path, message);
    paper
        .then(|| {
            fault(
                "early_stop",
                "`early_stop` belongs to `objective = \"published-code\"`",
            )
        })
        .into_iter()
        .collect()
}

/// Returns one item table of `latent_dimension` columns, for methods with such a key.
fn size_of_a_table(parameters: &Json, size: ProblemSize) -> Vec<BlockSize> {
    let columns = parameters.get("latent_dimension").and_then(Json::as_u64);
    let block = |columns| BlockSize {
        name: "V".into(),
        rows: size.items as u64,
        columns,
        bytes_each: 4,
    };
    columns.map(block).into_iter().collect()
}

fn vocabulary() -> Vec<MethodVocabulary> {
    let entry = |name, schema, resolve: &'static Resolve| MethodVocabulary {
        name,
        schema,
        resolve,
        trains: name != "popularity",
        runs_at_server: false,
        server_computes: false,
        draws_negatives: true,
        without_controls: None,
        sizes: &size_of_a_table,
        traffic: std::sync::Arc::new(|_| None),
    };
    vec![
        entry("fedrap", schemars::schema_for!(FedrapLike), &check_fedrap),
        entry(
            "pfedrec",
            schemars::schema_for!(elsewhere::PfedrecLike),
            &no_more_faults,
        ),
        entry(
            "popularity",
            schemars::schema_for!(NoParameters),
            &no_more_faults,
        ),
    ]
}

/// The shortest valid file.
const MINIMAL: &str =
    "method = \"popularity\"\n[dataset]\nname = \"generated\"\n[training]\nrounds = 3\n";

fn read_with(text: &str, overrides: &[&str]) -> Result<Scenario> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    parse(text, "scenarios/test.toml", &overrides, &vocabulary())
}

fn read(text: &str) -> Result<Scenario> {
    read_with(text, &[])
}

/// Returns the message of the error that `text` must give.
fn refused(text: &str, overrides: &[&str]) -> String {
    match read_with(text, overrides) {
        Ok(scenario) => panic!("accepted: {scenario:?}"),
        Err(error) => error.to_string(),
    }
}

/// If this fails, a file is checked by the vocabulary of the file before.
#[test]
fn a_file_is_checked_by_the_vocabulary_at_hand() {
    let all = vocabulary();
    let mut other = vocabulary();
    other[2].schema = schemars::schema_for!(FedrapLike);
    let is_sound = |methods: &[MethodVocabulary]| parse(MINIMAL, "test.toml", &[], methods).is_ok();
    let with = |methods: &[MethodVocabulary]| {
        let overrides = ["method.popularity.latent_dimension=8".to_owned()];
        parse(MINIMAL, "test.toml", &overrides, methods).is_ok()
    };
    assert!(is_sound(&all) && !is_sound(&all[..2]) && is_sound(&all));
    assert!(!with(&all) && with(&other) && !with(&all));
}

/// If this fails, the line of a fault is not shown in a long file, where it is needed most.
#[test]
fn a_fault_far_down_in_a_file_is_shown_with_its_line() {
    let text = format!(
        "{}{}rounds = 0\n",
        MINIMAL.replace("rounds = 3\n", ""),
        "# A remark.\n".repeat(500)
    );
    let message = refused(&text, &[]);
    assert!(
        message.contains("test.toml:505:10") && message.contains("505 | rounds = 0"),
        "{message}"
    );
}

/// If this fails, an override of the data set removes what a file says of a data set that it does
/// not name.
#[test]
fn a_file_without_a_data_set_of_its_own_keeps_what_it_says() {
    let text = MINIMAL.replace("name = \"generated\"", "generator = { users = 9 }");
    let message = refused(&text, &["dataset.name=\"ml-100k\""]);
    assert!(message.contains("`generator` belongs to"), "{message}");
    assert!(read_with(&text, &["dataset.name=\"generated\""]).is_ok());
}

/// If this fails, a slip in the only form of a choice that has keys is told as one of an ordinary
/// table.
#[test]
fn an_unknown_choice_with_keys_is_told_as_a_choice() {
    let message = refused(
        &MINIMAL.replace(
            "[training]",
            "split = { kfold = { folds = 3 } }\n[training]",
        ),
        &[],
    );
    assert!(
        message.contains("unknown value `kfold` for `split`; did you mean `k-fold`?"),
        "{message}"
    );
}

/// If this fails, a user is warned of a key that the file does not have.
#[test]
fn a_parameter_without_effect_is_told_only_if_it_was_written() {
    let resolve: &'static Resolve = &|_| vec![ParameterFault::without_effect("rate", "it is off")];
    let schema = schemars::json_schema!({
        "type": "object",
        "properties": { "rate": { "type": "number", "default": 1.0 } },
        "additionalProperties": false,
    });
    let vocabulary = [MethodVocabulary {
        name: "odd",
        schema,
        resolve,
        ..vocabulary().remove(0)
    }];
    let warnings = |method: &str| {
        let text = MINIMAL.replace("method = \"popularity\"", method);
        parse_with_warnings(
            &text,
            "scenarios/test.toml",
            &[],
            &vocabulary,
            Strictness::Lenient,
        )
        .unwrap()
        .warnings
    };
    assert_eq!(warnings("method = \"odd\""), Vec::<String>::new());
    let told = warnings("method.odd.rate = 2.0");
    assert!(
        told.len() == 1 && told[0].contains("`rate` has no effect: it is off"),
        "{told:?}"
    );
}

/// Checks that files are really checked against every schema rule that the methods above use.
#[test]
fn no_rule_of_the_schema_goes_unchecked() {
    assert_eq!(unchecked_rules(&vocabulary()), Vec::<String>::new());
}

#[test]
fn a_rule_that_nobody_checks_is_found() {
    let schema = schemars::json_schema!({
        "type": "object",
        "properties": { "name": { "type": "string", "pattern": "^a" } },
        "additionalProperties": false,
    });
    let odd = MethodVocabulary {
        name: "odd",
        schema,
        resolve: &no_more_faults,
        trains: true,
        runs_at_server: false,
        server_computes: false,
        draws_negatives: true,
        without_controls: None,
        sizes: &|_, _| Vec::new(),
        traffic: std::sync::Arc::new(|_| None),
    };
    assert_eq!(
        unchecked_rules(&[odd]),
        ["#/$defs/Method/oneOf/properties/odd/properties/name/pattern"]
    );
}

#[test]
fn the_schema_tells_an_editor_every_key_with_words_and_defaults() {
    let schema = schema(&vocabulary());
    insta::assert_snapshot!(serde_json::to_string_pretty(&schema).unwrap());
    assert_eq!(schema["properties"]["seed"]["default"], json!(1));
}
