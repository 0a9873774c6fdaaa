//! Tests what methods have in common: their initial parameters, their scores and the copies of
//! their clients.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::UserRatings;
use super::central::{Central, Pass};
use super::declare::tests::start_of;
use super::server::{StepContext, StepReport};
use super::*;
use fedrecsim_core::{InvitationId, Round, Streams};
use fedrecsim_data::dataset::negatives::Samples;
use fedrecsim_data::dataset::{Dataset, OwnData, load};
use fedrecsim_model::ModelUpdate;
use fedrecsim_scenario::sizes::ProblemSize;
use fedrecsim_scenario::{
    DatasetName, DatasetSpec, GeneratorSpec, NegativesSpec, SplitSpec, StepWeights, WeightTotals,
};

const DIMENSION: usize = 256;

/// Returns a generated data set of five users, each with one test item.
pub(crate) fn dataset() -> Arc<Dataset> {
    let population = GeneratorSpec {
        users: 5,
        items: 100,
        ratings_per_user: 10.0,
        ..GeneratorSpec::default()
    };
    let spec = DatasetSpec {
        generator: Some(population),
        split: SplitSpec::leave_one_out(false),
        ..DatasetSpec::named(DatasetName::Generated)
    };
    Arc::new(load(&spec, &[], Streams::new(4)).unwrap())
}

pub(crate) fn problem() -> Problem {
    Problem::new(&dataset(), Streams::new(4), Placement::Federated)
}

/// Returns a problem of this size without any data.
pub(crate) fn problem_of(users: usize, items: usize) -> Problem {
    Problem::of_size(ProblemSize { users, items }, Streams::new(4))
}

/// Returns what users with these items have sent.
pub(crate) fn sent(of_users: &[&[u32]]) -> Vec<UserRatings> {
    let of_user = |(user, items): (usize, &&[u32])| UserRatings {
        user: UserId::from(user),
        items: items.to_vec(),
        ratings: vec![2.5; items.len()],
    };
    of_users.iter().enumerate().map(of_user).collect()
}

/// Returns uploads of these items with weights that differ.
pub(crate) fn sent_with_weights(of_users: &[&[u32]]) -> Vec<UserRatings> {
    let mut all = sent(of_users);
    for user in &mut all {
        let weight = |item: &u32| 1.0 - 0.125 * ((user.user.0 + item) % 6) as f32;
        user.ratings = user.items.iter().map(weight).collect();
    }
    all
}

/// Returns the memory of a client that is to train on these samples.
pub(crate) fn holding(samples: Samples) -> Scratch {
    let mut scratch = Scratch::default();
    scratch.samples.samples = samples;
    scratch
}

/// Returns the scores of `items`, for the client of the user that `context` describes.
pub(crate) fn score(client: &dyn Client, context: ScoringContext<'_>, items: &[u32]) -> Vec<f32> {
    let mut scores = vec![0.0; items.len()];
    let scorer = client.scorer(context).unwrap();
    scorer.score(items, &mut scores).unwrap();
    scores
}

/// Calls `then` with a step of this number of a run of six users.
pub(crate) fn with_step<T>(number: u32, then: impl FnOnce(&StepContext<'_>) -> T) -> T {
    let normalise = |totals: &WeightTotals| StepWeights {
        kept: 0.0,
        divisor: totals.weights,
    };
    then(&StepContext::new(number, 6, &normalise, Streams::new(1)))
}

/// Holds a method at the server at work.
pub(crate) struct AtWork<M: Central> {
    pub method: M,
    pub problem: Problem,
    pub model: Model,
    pub memory: M::Memory,
}

impl<M: Central> AtWork<M> {
    pub(crate) fn new(method: M, problem: Problem) -> Self {
        let drawn = start_of(method.blocks(problem.size()), problem.streams);
        let model = method.initial(drawn);
        Self {
            memory: method.memory(&model),
            method,
            problem,
            model,
        }
    }

    /// Makes the pass of this number.
    pub(crate) fn pass(&mut self, ratings: &[UserRatings], number: u32) -> StepReport {
        let pass = |step: &StepContext<'_>| {
            self.method.pass(Pass {
                model: &mut self.model,
                memory: &mut self.memory,
                ratings,
                problem: &self.problem,
                step,
            })
        };
        with_step(number, pass).unwrap()
    }
}

/// Returns the model as user 1 has it: the download of its own where there is one, and the server's
/// model otherwise.
fn model_of(method: &dyn Method) -> Model {
    let server = method.server();
    match server.download() {
        server::Download::PerUser(downloads) => downloads.download(UserId(1)).unwrap(),
        server::Download::Shared(_) | server::Download::Nothing => server.model().clone(),
    }
}

/// The methods whose private state begins with a vector as wide as the latent dimension that starts
/// uniformly.
const HAVE_A_SCORE_FUNCTION: [&str; 3] = ["fedrap", "pfedrec", "fedmf"];

/// Returns the methods that train with this latent dimension, by name.
fn methods(latent_dimension: usize) -> impl Iterator<Item = (&'static str, Box<dyn Method>)> {
    let parameters = serde_json::json!({ "latent_dimension": latent_dimension });
    let build = move |entry: &Entry| {
        (entry.build)(&parameters, &problem())
            .ok()
            .map(|method| (entry.name, method))
    };
    registry::METHODS
        .iter()
        .filter(|entry| entry.placement.trains())
        .filter_map(build)
}

fn private_bytes(mut client: Box<dyn Client>) -> Vec<u8> {
    let mut bytes = Vec::new();
    client
        .visit_state(&mut StateVisitor::Digest(&mut |part| {
            bytes.extend_from_slice(part)
        }))
        .unwrap();
    bytes
}

/// If this fails, no checkpoint of another build of the program with the same methods can be gone
/// on from.
#[test]
fn methods_of_the_crate_have_no_version_of_their_own() {
    assert!(methods(DIMENSION).all(|(_, method)| method.version().is_empty()));
}

#[test]
fn every_method_that_has_a_latent_dimension_is_looked_at() {
    let trained = |entry: &&Entry| {
        (entry.schema)()
            .to_value()
            .to_string()
            .contains("latent_dimension")
    };
    for dimension in [16, DIMENSION] {
        assert_eq!(
            methods(dimension).count(),
            registry::METHODS.iter().filter(trained).count()
        );
    }
}

#[test]
fn score_functions_start_uniformly_within_one_over_the_root_of_k() {
    // This is the start of the authors' `nn.Linear`. Another start would train as well, but to
    // other figures.
    let reach = 1.0 / (DIMENSION as f32).sqrt();
    let having_one = |(name, _): &(&str, _)| HAVE_A_SCORE_FUNCTION.contains(name);
    for (name, method) in methods(DIMENSION).filter(having_one) {
        let bytes = private_bytes(method.client(UserId(1)));
        // w comes first. It may be followed by a bias and the scale of the untouched rows.
        assert!(
            (4 * DIMENSION..=4 * DIMENSION + 8).contains(&bytes.len()),
            "{name} hides a private parameter"
        );
        let w: Vec<f32> = fedrecsim_model::table::floats(&bytes[..4 * DIMENSION]).collect();
        let (least, most) = (
            w.iter().copied().fold(0.0, f32::min),
            w.iter().copied().fold(0.0, f32::max),
        );
        assert!(
            least >= -reach && most <= reach,
            "{name}: from {least} to {most}"
        );
        assert!(
            least < -0.95 * reach && most > 0.95 * reach,
            "{name}: from {least} to {most}"
        );
        let mean = w.iter().sum::<f32>() / DIMENSION as f32;
        assert!(mean.abs() < 0.1 * reach, "{name}: mean {mean}");
    }
}

#[test]
fn a_client_scores_what_it_is_asked_for_and_a_snapshot_scores_the_same() {
    let items = [0, 1, 50, 99];
    let (dataset, negatives) = (dataset(), NegativesSpec::default());
    for (name, method) in methods(16) {
        let (client, model) = (method.client(UserId(1)), model_of(&*method));
        let own = dataset.own_data(UserId(1));
        let mut scratch = Scratch::default();
        let [scores, copied] = [&client, &client.snapshot()].map(|client| {
            let (streams, scratch) = (Streams::new(4), &mut scratch);
            let mut context = ScoringContext::new(UserId(1), &model, own, streams, scratch);
            context.negatives = Some((&dataset, &negatives));
            score(&**client, context, &items)
        });
        assert!(
            scores.iter().all(|score| score.is_finite()),
            "{name}: {scores:?}"
        );
        // FedTide recommends nothing that nobody has taken, and before the first upload that is all.
        assert!(
            name == "fedtide" || (scores[0] != scores[1] && scores[2] != scores[3]),
            "{name} does not tell items apart: {scores:?}"
        );
        assert_eq!(scores, copied, "{name}");
    }
}

/// The user whose random start in FedMF is the start that all users have in PFedRec.
const USER: UserId = UserId(0);

/// Trains the user for five rounds, each from the table that the round before has made, and returns
/// the user, the last table's model and the updates.
fn train(name: &str, parameters: &serde_json::Value) -> (Box<dyn Client>, Model, Vec<ModelUpdate>) {
    let problem = problem();
    let entry = registry::METHODS
        .iter()
        .find(|entry| entry.name == name)
        .unwrap();
    let method = (entry.build)(parameters, &problem).unwrap();
    let (mut client, mut scratch, mut model) =
        (method.client(USER), Scratch::default(), method.initial());
    let mut updates = Vec::new();
    for round in 0..5 {
        let items: Vec<u32> = (0..30)
            .map(|sample| (7 * sample + 11 * round) % 50)
            .collect();
        let labels = (0..30).map(|sample| f32::from(sample % 5 == 0)).collect();
        let (samples, names) = (
            Samples { items, labels },
            (USER, Round(round), InvitationId(round)),
        );
        scratch.samples.samples = samples;
        let task = LocalTask::new(names, &model, OwnData::new(&[]), problem.streams, 1e6);
        let update = client.train(&task, &mut scratch).unwrap().update;
        let averaged = update.blocks[0].apply(Some(model.table(0))).unwrap();
        model.set_table(0, Arc::new(averaged)).unwrap();
        updates.push(update);
    }
    (client, model, updates)
}

fn scores(client: &dyn Client, model: &Model) -> Vec<f32> {
    let (dataset, negatives) = (dataset(), NegativesSpec::default());
    let (own, scratch) = (dataset.own_data(USER), &mut Scratch::default());
    let mut context = ScoringContext::new(USER, model, own, Streams::new(4), scratch);
    context.negatives = Some((&dataset, &negatives));
    score(client, context, &[0, 7, 30, 99])
}

/// Returns the updates, the scores and the bytes of the private state of a user that [`train`] has
/// trained.
fn trained(name: &str, parameters: &serde_json::Value) -> (Vec<ModelUpdate>, Vec<f32>, Vec<u8>) {
    let (client, model, updates) = train(name, parameters);
    let scores = scores(&*client, &model);
    (updates, scores, private_bytes(client))
}

/// If this fails, the table that is shown as a user's own is not the one that the user scores with,
/// or a run that measures what another table is worth scores with the user's own.
#[test]
fn the_personal_table_is_the_one_that_scores() {
    let small = serde_json::json!({ "latent_dimension": 8 });
    let dual = serde_json::json!({ "latent_dimension": 8, "dual_personalization": true });
    // At the rates that are meant for means over many users, the network of a single one would be
    // constant, and its rows would leave every bound.
    let slow = serde_json::json!({
        "latent_dimension": 8, "dual_personalization": true,
        "learning_rate_user": 0.1, "learning_rate_items": 0.1, "learning_rate_network": 0.01,
    });
    let few = serde_json::json!({ "latent_dimension": 8, "dual_personalization": true, "learning_rate_items": 10.0 });
    for (name, parameters) in [
        ("pfedrec", &small),
        ("fedrap", &small),
        ("fedmf", &dual),
        ("fedncf", &slow),
        ("fedrecon", &few),
        ("fedcia", &small),
    ] {
        let (mut client, model, _) = train(name, parameters);
        let expected = scores(&*client, &model);
        let PersonalTable {
            values, is_added, ..
        } = client.personal_table().unwrap().unwrap();
        assert_eq!(is_added, name == "fedrap");
        client.replace_personal_table(values.clone()).unwrap();
        assert_eq!(
            client.personal_table().unwrap().unwrap().values,
            values,
            "{name}"
        );
        let again = scores(&*client, &model);
        assert!(
            expected
                .iter()
                .zip(&again)
                .all(|(one, two)| (one - two).abs() <= 1e-5 * one.abs()),
            "{name}"
        );
        client
            .replace_personal_table(Table::zeros(values.shape()))
            .unwrap();
        let without = scores(&*client, &model);
        assert!(
            without.iter().zip(&expected).all(|(one, two)| one != two),
            "{name}: {without:?} and {expected:?}"
        );
    }
    assert_eq!(train("fedmf", &small).0.personal_table().unwrap(), None);
}

/// If this fails, dual personalisation is something else than PFedRec, which is what it is called
/// after.
#[test]
fn dual_personalization_with_a_bias_is_pfedrec_to_the_bit() {
    let published =
        serde_json::json!({ "latent_dimension": 8, "local_epochs": 2, "batch_size": 7 });
    // The problem has 100 items; PFedRec multiplies the rate of 0.1 by their number and by 80.
    let mut dual = serde_json::json!({
        "latent_dimension": 8, "local_epochs": 2, "batch_size": 7, "bias": true, "dual_personalization": true,
        "learning_rate_user": 0.1, "learning_rate_items": 0.1 * 100.0 * 80.0,
    });
    let expected = trained("pfedrec", &published);
    assert_eq!(trained("fedmf", &dual), expected);
    for key in ["bias", "dual_personalization"] {
        dual[key] = false.into();
        let (updates, scores, state) = trained("fedmf", &dual);
        assert!(
            updates != expected.0 && scores != expected.1 && state != expected.2,
            "{key} has no effect"
        );
        dual[key] = true.into();
    }
}
