//! Turns the raw mirror into the checked scenario: resolves presets, fills in defaults, and applies
//! the rules that concern more than one key.

use serde_json::{Map, Value as Json};

use super::faults::Fault;
use super::raw::{RawDataset, RawKFold, RawMethod, RawScenario, RawSplit, SourceName};
use super::sizes::{ProblemSize, block_too_large, candidates_too_many, too_large};
use super::spec::{
    ColumnRef, DatasetSpec, DelimitedSpec, EvaluationSpec, GeneratorSpec, MethodSpec,
    PublicDataset, Ranking, Scenario, SourceSpec, SplitSpec, SubsetSpec,
};
use super::tree::Node;
use super::vocabulary::{MethodVocabulary, ParameterFaultKind, fill_defaults};
use overheads::Beside;

mod codec;
mod environment;
mod evaluation;
mod fault;
mod overheads;
mod privacy;
mod rounds;
mod without_effect;

/// Returns the checked form of `raw`, and warnings about what was written without an effect.
///
/// `file` is what `raw` was read from, for the places of faults; `schema` is the schema that it
/// obeys.
///
/// # Errors
/// Every broken rule.
pub(super) fn check(
    raw: RawScenario,
    name: String,
    file: &Node,
    schema: &Json,
    vocabulary: &[MethodVocabulary],
) -> Result<(Scenario, Vec<Fault>), Vec<Fault>> {
    let mut checker = Checker {
        file,
        faults: Vec::new(),
        warnings: Vec::new(),
    };
    checker.times(&raw);
    let dataset = checker.dataset(raw.dataset);
    let method = checker.method(raw.method, schema, vocabulary);
    let known = method
        .as_ref()
        .and_then(|method| vocabulary.iter().find(|entry| entry.name == method.name));
    let evaluation = checker.evaluation(raw.evaluation, dataset.as_ref());
    if let Some(dataset) = &dataset {
        checker.population(&evaluation, dataset);
    }
    if let Some(SourceSpec::Generated(generator)) = dataset.as_ref().map(|dataset| &dataset.source)
    {
        checker.sizes(generator, method.as_ref().zip(known), &evaluation);
    }
    let traffic = method
        .as_ref()
        .zip(known)
        .and_then(|(method, known)| known.traffic.tell(&method.parameters));
    checker.codecs(&raw.codec, traffic.as_ref());
    let (codec, training, traffic) = (&raw.codec, &raw.training, traffic.as_ref());
    let (runs_at_server, has_audit) = (
        known.is_some_and(|known| known.runs_at_server),
        raw.audit.is_some(),
    );
    let beside = Beside {
        codec,
        training,
        runs_at_server,
        has_audit,
        traffic,
    };
    checker.item_table(evaluation.item_table, traffic);
    checker.overheads(&raw.overheads, &beside);
    let users = dataset.as_ref().and_then(DatasetSpec::generated_users);
    checker.privacy(&raw.privacy, &raw.overheads, &beside, users);
    checker.empty_rounds(&raw.training);
    checker.training(&raw.training, dataset.as_ref(), known);
    checker.rates_beside_trace(&raw.network);
    let network = environment::network(raw.network);
    let devices = checker.devices(raw.devices);
    let availability = checker.availability(raw.availability);
    let faults = checker.fault_rules(raw.faults, dataset.as_ref());
    checker.fault_groups(&faults, &devices, &availability);
    let (Some(dataset), Some(method), Some(known)) = (dataset, method, known) else {
        return Err(checker.faults);
    };
    if !checker.faults.is_empty() {
        return Err(checker.faults);
    }
    let scenario = Scenario {
        name,
        seed: raw.seed,
        dataset,
        method,
        training: raw.training,
        evaluation,
        codec: raw.codec,
        network,
        devices,
        server: raw.server,
        availability,
        faults,
        audit: raw.audit,
        overheads: raw.overheads,
        privacy: raw.privacy,
        report: raw.report,
    };
    checker.without_effect(&scenario, known);
    Ok((scenario, checker.warnings))
}

struct Checker<'f> {
    file: &'f Node,
    faults: Vec<Fault>,
    warnings: Vec<Fault>,
}

impl Checker<'_> {
    fn fault(&mut self, path: &[&str], message: impl AsRef<str>) {
        self.faults
            .push(Fault::new(self.file.place_of(path), message));
    }

    /// Notes something that has no effect.
    fn warn(&mut self, path: &[&str], message: impl AsRef<str>) {
        self.warnings
            .push(Fault::new(self.file.place_of(path), message));
    }

    /// Notes a contradiction between two keys, of which one may have been left to its default. It
    /// is shown at the first of them that was written.
    fn contradiction(&mut self, first: &[&str], second: &[&str], message: impl AsRef<str>) {
        let path = if !self.file.has(first) && self.file.has(second) {
            second
        } else {
            first
        };
        self.fault(path, message);
    }

    /// Returns the checked data set; `None` if the source cannot be told, which is noted as a
    /// fault.
    fn dataset(&mut self, raw: RawDataset) -> Option<DatasetSpec> {
        if raw.generator.is_some() && raw.name != SourceName::Generated {
            self.fault(
                &["dataset", "generator"],
                "`generator` belongs to `name = \"generated\"` only",
            );
        }
        if raw.columns.is_some() && raw.name != SourceName::Delimited {
            self.fault(
                &["dataset", "columns"],
                "`columns` belongs to `name = \"delimited\"` only",
            );
        }
        if raw.path.is_some() && raw.name == SourceName::Generated {
            self.fault(
                &["dataset", "path"],
                "a generated population is not read from a file: `path` has no meaning here",
            );
        }
        if raw.path.is_none() && raw.name == SourceName::Delimited {
            self.fault(
                &["dataset", "name"],
                "`name = \"delimited\"` needs the key `path`, the ratings file",
            );
        }
        let split = self.split(raw.split, raw.validation_item);
        let source = match raw.name {
            SourceName::Generated => Some(SourceSpec::Generated(raw.generator.unwrap_or_default())),
            SourceName::Delimited => raw.columns.map(|columns| {
                self.columns(&columns);
                SourceSpec::Delimited(columns)
            }),
            name => name.public().map(SourceSpec::Public),
        };
        if source.is_none() {
            self.fault(
                &["dataset", "name"],
                "`name = \"delimited\"` needs the table `[dataset.columns]`",
            );
        }
        self.subset(raw.subset.as_ref(), raw.name);
        let default_minimum = raw
            .name
            .public()
            .map_or(0, PublicDataset::default_minimum_interactions);
        Some(DatasetSpec {
            source: source?,
            path: raw.path,
            minimum_interactions: raw.minimum_interactions.unwrap_or(default_minimum),
            subset: raw.subset,
            split,
            negatives: raw.negatives,
        })
    }

    fn subset(&mut self, subset: Option<&SubsetSpec>, name: SourceName) {
        let Some(subset) = subset else { return };
        let message = if name == SourceName::Generated {
            "a generated population has as many users and items as `[dataset.generator]` says, and no `subset`"
        } else if subset.users.is_none() && subset.items.is_none() {
            "`subset` needs `users` or `items`: how many of them are to be kept"
        } else {
            return;
        };
        self.fault(&["dataset", "subset"], message);
    }

    fn split(&mut self, split: RawSplit, validation_item: Option<bool>) -> SplitSpec {
        let RawSplit::KFold(RawKFold {
            folds,
            fold,
            division,
        }) = split
        else {
            return SplitSpec::LeaveOneOut {
                validation_item: validation_item.unwrap_or(true),
            };
        };
        if fold >= folds {
            let message = format!(
                "`fold` is {fold}, but the {folds} folds are numbered from 0 to {}",
                folds.saturating_sub(1)
            );
            self.fault(&["dataset", "split", "k-fold", "fold"], message);
        }
        if validation_item.is_some() {
            self.fault(
                &["dataset", "validation_item"],
                "`validation_item` belongs to `split = \"leave-one-out\"` only: `k-fold` holds no single item out",
            );
        }
        SplitSpec::KFold {
            folds,
            fold,
            division,
        }
    }

    fn columns(&mut self, columns: &DelimitedSpec) {
        if columns.separator.contains(['\n', '\r']) {
            self.fault(
                &["dataset", "columns", "separator"],
                "`separator` cannot be an end of line",
            );
        }
        if let Some([lowest, highest]) = columns.rating_range {
            if lowest >= highest {
                let message = format!(
                    "`rating_range` is [{lowest}, {highest}]: write the lower rating first"
                );
                self.fault(&["dataset", "columns", "rating_range"], message);
            }
            if columns.rating.is_none() {
                let message = "`rating_range` needs a column of ratings: give `rating`";
                self.fault(&["dataset", "columns", "rating_range"], message);
            }
        }
        let named = [
            ("user", Some(&columns.user)),
            ("item", Some(&columns.item)),
            ("rating", columns.rating.as_ref()),
            ("label", columns.label.as_ref()),
            ("weight", columns.weight.as_ref()),
            ("timestamp", columns.timestamp.as_ref()),
        ];
        for (index, (key, column)) in named.iter().enumerate() {
            let Some(column) = column else { continue };
            if let (ColumnRef::Name(name), false) = (column, columns.header) {
                let message = format!(
                    "`{key}` names the column `{name}`, but `header` is false: say `header = true`, or give its position"
                );
                self.fault(&["dataset", "columns", key], message);
            }
            if let Some((other, _)) = named[..index]
                .iter()
                .find(|(_, other)| *other == Some(*column))
            {
                self.fault(
                    &["dataset", "columns", key],
                    format!("`{key}` and `{other}` are the same column"),
                );
            }
        }
    }

    /// Returns the method with its parameters checked and completed; `None` if it is unknown, which
    /// is noted as a fault.
    fn method(
        &mut self,
        raw: RawMethod,
        schema: &Json,
        vocabulary: &[MethodVocabulary],
    ) -> Option<MethodSpec> {
        let (name, mut parameters) = match raw {
            RawMethod::Name(name) => (name, Json::Object(Map::new())),
            // The schema admits tables of one key only.
            RawMethod::Table(table) => table.into_iter().next()?,
        };
        let Some(method) = vocabulary.iter().find(|method| method.name == name) else {
            self.fault(&["method"], format!("unknown method `{name}`"));
            return None;
        };
        if let Some(rules) = parameter_schema(schema, &name) {
            fill_defaults(schema, rules, &mut parameters);
        }
        for fault in (method.resolve)(&mut parameters) {
            let mut path = vec!["method", name.as_str()];
            path.extend(fault.path.iter().map(String::as_str));
            match fault.kind {
                ParameterFaultKind::Wrong => self.fault(&path, fault.message),
                ParameterFaultKind::WithoutEffect if self.file.has(&path) => {
                    self.warn(&path, fault.message)
                }
                ParameterFaultKind::WithoutEffect => {}
            }
        }
        Some(MethodSpec { name, parameters })
    }

    /// Checks numbers that must fit into a generated population. The size of a population from a
    /// file is known only when it is read.
    fn population(&mut self, evaluation: &EvaluationSpec, dataset: &DatasetSpec) {
        const USERS: &[&str] = &["dataset", "generator", "users"];
        const ITEMS: &[&str] = &["dataset", "generator", "items"];
        let SourceSpec::Generated(generator) = &dataset.source else {
            return;
        };
        let (users, items) = (generator.users, generator.items);
        if evaluation.users > users {
            let message = format!(
                "`users` is {}, but the population (`dataset.generator.users`) is {users}",
                evaluation.users
            );
            self.contradiction(&["evaluation", "users"], USERS, message);
        }
        // The held-out item is ranked against items that its user never rated.
        if evaluation.ranking == Ranking::Sampled && evaluation.candidates >= items {
            let message = format!(
                "{} candidates (`evaluation.candidates`) cannot be drawn for a user from {items} items \
                 (`dataset.generator.items`): candidates are items that the user never rated",
                evaluation.candidates
            );
            self.contradiction(&["evaluation", "candidates"], ITEMS, message);
        }
        if generator.ratings_per_user > f64::from(items) {
            let message = format!(
                "a user cannot rate {} of {items} items: lower `ratings_per_user` or raise `items`",
                generator.ratings_per_user
            );
            self.contradiction(
                &["dataset", "generator", "ratings_per_user"],
                ITEMS,
                message,
            );
        }
    }

    /// Checks products of numbers each of which is sound by itself, but which together may be more
    /// than a run can hold.
    fn sizes(
        &mut self,
        generator: &GeneratorSpec,
        method: Option<(&MethodSpec, &MethodVocabulary)>,
        evaluation: &EvaluationSpec,
    ) {
        let GeneratorSpec {
            users,
            items,
            ratings_per_user,
            taste_dimension,
            ..
        } = *generator;
        let key = |key| ["dataset", "generator", key];
        if let Some((method, vocabulary)) = method {
            let size = ProblemSize {
                users: users as usize,
                items: items as usize,
            };
            let blocks = (vocabulary.sizes)(&method.parameters, size);
            if let Some(reason) = blocks.iter().find_map(block_too_large) {
                self.contradiction(&["method", &method.name], &key("items"), reason);
            }
        }
        if let Some(size) = too_large([f64::from(items), f64::from(taste_dimension)], 4) {
            let message = format!("{items} items with {taste_dimension} tastes each take {size}");
            self.contradiction(&key("taste_dimension"), &key("items"), message);
        }
        if let Some(size) = too_large([f64::from(users), ratings_per_user], 8) {
            let message = format!("{users} users with {ratings_per_user} ratings each take {size}");
            self.contradiction(&key("users"), &key("ratings_per_user"), message);
        }
        let evaluated = if evaluation.users == 0 {
            users
        } else {
            evaluation.users
        };
        let candidates = evaluation.candidates;
        if evaluation.ranking == Ranking::Sampled
            && let Some(message) = candidates_too_many(u64::from(evaluated), u64::from(candidates))
        {
            self.contradiction(&["evaluation", "candidates"], &key("users"), message);
        }
    }
}

/// Returns the schema of the parameters of method `name`.
fn parameter_schema<'s>(schema: &'s Json, name: &str) -> Option<&'s Json> {
    let choices = schema.pointer("/$defs/Method/oneOf")?.as_array()?;
    choices
        .iter()
        .find_map(|choice| choice.get("properties")?.get(name))
}
