//! Lists the keys of methods, and how to draw their values.

use fedrecsim_methods::registry::METHODS;
use proptest::prelude::*;
use proptest::sample::select;
use toml::Value;

use super::keys::{Key, always, boolean, integer, maybe, names, one_of, rate, real, zero_or};

/// What training may minimise.
const LOSSES: [&str; 4] = ["binary-cross-entropy", "squared", "pairwise", "softmax"];

fn dimension() -> BoxedStrategy<Value> {
    select(vec![1, 2, 7, 16, 17, 32, 33, 100, 256])
        .prop_map(Value::Integer)
        .boxed()
}

/// Draws a dimension for methods whose work grows with its square or its cube.
fn small_dimension() -> BoxedStrategy<Value> {
    select(vec![1, 2, 7, 16, 17])
        .prop_map(Value::Integer)
        .boxed()
}

fn batch() -> BoxedStrategy<Value> {
    integer(1..=200)
}

fn epochs() -> BoxedStrategy<Value> {
    integer(1..=3)
}

/// Returns every key of a method.
pub fn keys() -> Vec<Key> {
    let groups = [
        method(),
        methods_of_published_code(),
        methods_of_least_squares(),
        steps_before_scoring(),
        methods_of_ratings(),
        methods_at_the_server(),
    ];
    groups.into_iter().flatten().collect()
}

fn method() -> Vec<Key> {
    vec![
        always("method", names(METHODS.iter().map(|entry| entry.name))),
        maybe("method.fedrap.latent_dimension", dimension()),
        maybe(
            "method.fedrap.objective",
            one_of(&["published-code", "paper"]),
        ),
        maybe("method.fedrap.local_epochs", epochs()),
        maybe("method.fedrap.batch_size", batch()),
        maybe("method.fedrap.learning_rate_network", rate(1e-4, 1.0)),
        maybe("method.fedrap.learning_rate_tables", rate(1e-4, 300.0)),
        maybe("method.fedrap.learning_rate_batch_decay", real(1e-3, 1.0)),
        maybe("method.fedrap.learning_rate_round_decay", real(1e-3, 1.0)),
        maybe("method.fedrap.weight_decay", zero_or(1e-6, 0.1)),
        maybe("method.fedrap.lambda", zero_or(1e-4, 1.0)),
        maybe("method.fedrap.mu", zero_or(1e-4, 1.0)),
        maybe(
            "method.fedrap.regularizer",
            one_of(&["l1", "l1-subgradient", "l1-proximal", "l2", "none"]),
        ),
        maybe("method.fedrap.server_threshold", zero_or(1e-6, 0.1)),
        maybe(
            "method.fedrap.curriculum",
            one_of(&["tanh", "fixed", "sin", "square", "frac"]),
        ),
        maybe(
            "method.fedrap.tables",
            one_of(&["both", "c-only", "d-only"]),
        ),
        maybe("method.fedrap.aggregate_d", boolean()),
        maybe("method.fedrap.early_stop_tolerance", zero_or(1e-6, 1.0)),
        maybe("method.fedrap.noise.multiplier", zero_or(1e-3, 10.0)),
        maybe("method.fedrap.noise.clip_norm", rate(1e-3, 1.0)),
        maybe("method.fedrap.noise.at", one_of(&["gradient", "upload"])),
        maybe("method.fedrap.noise.participants", integer(1..=100)),
        maybe("method.feddad.latent_dimension", small_dimension()),
        maybe("method.feddad.local_epochs", epochs()),
        maybe("method.feddad.batch_size", batch()),
        maybe("method.feddad.learning_rate_users", rate(1e-3, 0.5)),
        maybe("method.feddad.learning_rate_items", rate(1e-2, 200.0)),
        maybe("method.feddad.learning_rate_batch_decay", real(0.5, 1.0)),
        maybe("method.feddad.learning_rate_round_decay", real(0.5, 1.0)),
        maybe("method.feddad.weight_decay", zero_or(1e-6, 1e-3)),
        maybe("method.feddad.lambda", zero_or(1e-3, 0.3)),
        maybe("method.feddad.mu", zero_or(1e-3, 0.3)),
        maybe("method.feddad.curriculum", one_of(&["tanh", "fixed"])),
        maybe("method.feddad.early_stop_tolerance", zero_or(1e-6, 1.0)),
        maybe("method.pfedrec.latent_dimension", dimension()),
        maybe("method.pfedrec.local_epochs", epochs()),
        maybe("method.pfedrec.batch_size", batch()),
        maybe("method.pfedrec.learning_rate", rate(1e-4, 1.0)),
        maybe(
            "method.pfedrec.item_learning_rate_multiplier",
            rate(1e-2, 100.0),
        ),
        maybe("method.pfedrec.weight_decay", zero_or(1e-6, 0.1)),
        maybe("method.gpfedrec.latent_dimension", small_dimension()),
        maybe("method.gpfedrec.local_epochs", epochs()),
        maybe("method.gpfedrec.batch_size", batch()),
        maybe("method.gpfedrec.learning_rate", rate(1e-4, 0.2)),
        maybe("method.gpfedrec.learning_rate_multiplier", real(1.1, 100.0)),
        maybe("method.gpfedrec.regularization", zero_or(1e-3, 2.0)),
        maybe(
            "method.gpfedrec.graph",
            one_of(&["published-code", "paper", "random"]),
        ),
        maybe("method.gpfedrec.threshold", real(-1.0, 2.0)),
        maybe("method.gpfedrec.neighbours", integer(0..=20)),
        maybe("method.gpfedrec.propagations", integer(1..=3)),
        maybe("method.cofedrec.latent_dimension", small_dimension()),
        maybe("method.cofedrec.local_epochs", epochs()),
        maybe("method.cofedrec.batch_size", batch()),
        maybe("method.cofedrec.learning_rate", rate(1e-4, 0.2)),
        maybe(
            "method.cofedrec.item_learning_rate_multiplier",
            rate(1e-2, 100.0),
        ),
        maybe("method.cofedrec.clusters", integer(1..=80)),
        maybe("method.cofedrec.cluster_starts", integer(1..=3)),
        maybe("method.cofedrec.regularization", zero_or(1e-4, 0.1)),
        maybe("method.cofedrec.temperature", real(0.05, 1.0)),
        maybe("method.cofedrec.base_temperature", real(0.05, 1.0)),
        maybe("method.cofedrec.groups", boolean()),
        maybe("method.fedca.latent_dimension", small_dimension()),
        maybe("method.fedca.local_epochs", epochs()),
        maybe("method.fedca.batch_size", batch()),
        maybe("method.fedca.learning_rate", rate(1e-4, 1.0)),
        maybe("method.fedca.early_stop_tolerance", zero_or(1e-6, 1.0)),
        maybe("method.fedca.directions", integer(1..=6)),
        maybe("method.fedca.mixture", one_of(&["published-code", "paper"])),
        maybe("method.fedca.mixed_share", real(0.01, 1.0)),
        maybe("method.fedca.own_share", real(0.0, 1.0)),
        maybe("method.fedca.similarity", zero_or(1e-3, 2.0)),
        maybe("method.fedca.alignment", zero_or(1e-3, 2.0)),
        maybe("method.fedem.latent_dimension", small_dimension()),
        maybe("method.fedem.local_epochs", epochs()),
        maybe("method.fedem.batch_size", batch()),
        maybe("method.fedem.learning_rate", rate(1e-4, 1.0)),
        maybe("method.fedem.learning_rate_adapter", rate(1e-4, 1.0)),
        maybe("method.fedem.early_stop_tolerance", zero_or(1e-6, 1.0)),
        maybe("method.fedem.mixed_share", real(0.01, 1.0)),
        maybe("method.fedem.similarity", zero_or(1e-3, 2.0)),
        maybe("method.fedea.latent_dimension", small_dimension()),
        maybe("method.fedea.local_epochs", epochs()),
        maybe("method.fedea.batch_size", batch()),
        maybe("method.fedea.learning_rate", rate(1e-4, 1.0)),
        maybe("method.fedea.learning_rate_adapter", rate(1e-4, 1.0)),
        maybe("method.fedea.early_stop_tolerance", zero_or(1e-6, 1.0)),
        maybe("method.fedea.mixed_share", real(0.01, 1.0)),
        maybe("method.fedea.similarity", zero_or(1e-3, 2.0)),
        maybe("method.fedcia.latent_dimension", small_dimension()),
        maybe("method.fedcia.local_epochs", epochs()),
        maybe("method.fedcia.batch_size", batch()),
        maybe("method.fedcia.learning_rate", rate(1e-4, 1.0)),
        maybe("method.fedcia.weight_decay", zero_or(1e-6, 1.0)),
        maybe(
            "method.fedcia.objective",
            one_of(&["published-code", "paper"]),
        ),
        maybe("method.fedcia.alignment_steps", integer(0..=10)),
        maybe("method.fedcia.alignment_rate", rate(1e-4, 1.0)),
        maybe("method.fedcia-gsp.low_pass_weight", zero_or(1e-3, 5.0)),
        maybe("method.fedcia-gsp.aggregate_weight", rate(1e-2, 100.0)),
        maybe("method.lightfr.code_length", small_dimension()),
        maybe("method.lightfr.regularization", zero_or(1e-3, 2.0)),
        maybe("method.lightfr.most_sweeps", integer(1..=20)),
        maybe("method.lightfr.lowest_rating", real(-1.0, 1.0)),
        maybe("method.lightfr.highest_rating", real(1.1, 5.0)),
        maybe("method.fedmf.latent_dimension", dimension()),
        maybe("method.fedmf.local_epochs", epochs()),
        maybe("method.fedmf.batch_size", batch()),
        maybe("method.fedmf.learning_rate_user", rate(1e-4, 1.0)),
        maybe("method.fedmf.learning_rate_items", rate(1e-2, 1e4)),
        maybe("method.fedmf.bias", boolean()),
        maybe("method.fedmf.dual_personalization", boolean()),
    ]
}

/// Returns the keys of the methods with networks, of those that reconstruct, and of matrix
/// factorisation at the server.
fn methods_of_published_code() -> Vec<Key> {
    vec![
        maybe("method.fedncf.latent_dimension", dimension()),
        maybe("method.fedncf.local_epochs", epochs()),
        maybe("method.fedncf.batch_size", batch()),
        maybe("method.fedncf.optimizer", one_of(&["sgd", "adam"])),
        maybe("method.fedncf.learning_rate_user", rate(1e-4, 10.0)),
        maybe("method.fedncf.learning_rate_items", rate(1e-4, 100.0)),
        maybe("method.fedncf.learning_rate_network", rate(1e-4, 1.0)),
        maybe("method.fedncf.embedding_deviation", rate(1e-2, 1.0)),
        maybe("method.fedncf.dual_personalization", boolean()),
        maybe("method.fedrecon.latent_dimension", dimension()),
        maybe("method.fedrecon.reconstruction_epochs", epochs()),
        maybe("method.fedrecon.local_epochs", epochs()),
        maybe("method.fedrecon.batch_size", batch()),
        maybe("method.fedrecon.learning_rate_user", rate(1e-4, 1.0)),
        maybe("method.fedrecon.learning_rate_items", rate(1e-2, 1e4)),
        maybe("method.fedrecon.learning_rate_server", rate(1e-2, 10.0)),
        maybe("method.fedrecon.dual_personalization", boolean()),
        maybe("method.fedrecon.splits_samples", boolean()),
        maybe("method.fedrecon.equal_weights", boolean()),
        maybe("method.colr.latent_dimension", dimension()),
        maybe("method.colr.rank", integer(1..=20)),
        maybe("method.colr.download", one_of(&["table", "aggregate"])),
        maybe("method.colr.local_epochs", epochs()),
        maybe("method.colr.batch_size", batch()),
        maybe("method.colr.learning_rate_user", rate(1e-4, 1.0)),
        maybe("method.colr.learning_rate_items", rate(1e-2, 1e4)),
        maybe("method.metamf.latent_dimension", small_dimension()),
        maybe("method.metamf.memory_units", integer(1..=40)),
        maybe("method.metamf.hidden_units", integer(1..=64)),
        maybe("method.metamf.item_rank", integer(1..=9)),
        maybe("method.metamf.learning_rate", rate(1e-5, 0.1)),
        maybe("method.metamf.weight_decay", zero_or(1e-6, 0.1)),
        maybe("method.metamf.clip_norm", rate(0.1, 100.0)),
        maybe("method.metamf.equal_weights", boolean()),
        maybe("method.mf.latent_dimension", dimension()),
        maybe("method.mf.batch_size", batch()),
        maybe("method.mf.learning_rate", rate(1e-5, 0.1)),
        maybe("method.mf.weight_decay", zero_or(1e-6, 0.1)),
        maybe("method.mf.deviation", rate(1e-3, 1.0)),
        maybe("method.centrap.latent_dimension", small_dimension()),
        maybe("method.centrap.batch_size", batch()),
        maybe("method.centrap.learning_rate_network", rate(1e-4, 1.0)),
        maybe("method.centrap.learning_rate_tables", rate(1e-4, 10.0)),
        maybe("method.centrap.personal_rate_multiplier", rate(0.1, 10.0)),
        maybe("method.centrap.learning_rate_decay", real(0.1, 1.0)),
        maybe("method.centrap.weight_decay", zero_or(1e-6, 0.1)),
        maybe("method.centrap.lambda", zero_or(1e-4, 1.0)),
        maybe("method.centrap.mu", zero_or(1e-4, 1.0)),
    ]
}

/// Returns the keys of the methods whose devices solve least squares.
fn methods_of_least_squares() -> Vec<Key> {
    vec![
        maybe("method.fcf.latent_dimension", small_dimension()),
        maybe("method.fcf.confidence", rate(0.1, 100.0)),
        maybe("method.fcf.regularization", rate(1e-3, 10.0)),
        maybe("method.fcf.server_rate", rate(1e-4, 1.0)),
        maybe("method.fcf.beta1", real(0.0, 0.99)),
        maybe("method.fcf.beta2", real(0.0, 0.999)),
        maybe("method.fcf.epsilon", rate(1e-9, 1e-3)),
        maybe("method.fcf.initial_length", rate(1e-2, 1.0)),
        maybe("method.fcf.recency.tau", rate(0.1, 100.0)),
        maybe("method.fcf.recency.floor", zero_or(1e-2, 1.0)),
        maybe("method.fcf.recency.half_life_days", rate(0.1, 1000.0)),
        maybe("method.fcf.recency.in_training", boolean()),
        maybe("method.fcf-bts.latent_dimension", small_dimension()),
        maybe("method.fcf-bts.confidence", rate(0.1, 100.0)),
        maybe("method.fcf-bts.regularization", rate(1e-3, 10.0)),
        maybe("method.fcf-bts.server_rate", rate(1e-4, 1.0)),
        maybe("method.fcf-bts.initial_length", rate(1e-2, 1.0)),
        maybe("method.fcf-bts.row_share", real(0.01, 1.0)),
        maybe("method.fcf-bts.choice", one_of(&["bandit", "random"])),
        maybe("method.fcf-bts.reward", one_of(&["change", "length"])),
        maybe("method.fcf-bts.reward_precision", rate(1e-2, 100.0)),
        maybe("method.fedgram.latent_dimension", small_dimension()),
        maybe("method.fedgram.unobserved_weight", rate(1e-3, 1.0)),
        maybe("method.fedgram.regularization", rate(1e-3, 10.0)),
        maybe("method.fedgram.server_rate", real(0.1, 1.0)),
        maybe("method.fedgram.server_rate_decay", real(0.1, 1.0)),
        maybe("method.fedgram.initial_length", rate(1e-2, 1.0)),
        maybe("method.fedgram.popularity_weight", zero_or(1e-3, 1.0)),
        maybe("method.fedgram.sends_counts", boolean()),
        maybe("method.fedgram.recency.tau", rate(0.1, 100.0)),
        maybe("method.fedgram.recency.floor", zero_or(1e-2, 1.0)),
        maybe("method.fedgram.recency.half_life_days", rate(0.1, 1000.0)),
        maybe("method.fedgram.recency.in_training", boolean()),
        maybe(
            "method.fedgram.recency.background",
            one_of(&["positives-at-one", "all-at-zero"]),
        ),
        maybe(
            "method.fedgram.by_density.unobserved_per_positive",
            rate(0.1, 100.0),
        ),
        maybe("method.fedgram.by_density.regularization", rate(0.1, 20.0)),
        maybe("method.popularity.window_days", real(5.0, 100.0)),
        maybe("method.popularity.half_life_days", real(1.0, 100.0)),
        maybe("method.popularity.returning", boolean()),
        maybe("method.popularity.session_gap_days", real(0.5, 5.0)),
        maybe("method.fedmf.loss", one_of(&LOSSES)),
        maybe("method.pfedrec.loss", one_of(&LOSSES)),
        maybe("method.fedncf.loss", one_of(&LOSSES)),
        maybe("method.fedrecon.loss", one_of(&LOSSES)),
        maybe("method.fedtide.period_days", rate(0.5, 50.0)),
        maybe("method.fedtide.periods", integer(1..=5)),
        maybe("method.fedtide.targets", one_of(&["first", "all"])),
        maybe("method.fedtide.latent_dimension", small_dimension()),
        maybe("method.fedtide.step_columns", integer(1..=60)),
        maybe("method.fedtide.carry", real(0.0, 1.0)),
        maybe("method.fedtide.coverage", real(0.1, 1.0)),
        maybe("method.fedspec.latent_dimension", small_dimension()),
        maybe("method.fedspec.ridge", zero_or(1e-3, 10.0)),
        maybe("method.fedspec.damping_exponent", zero_or(0.1, 1.0)),
        maybe("method.fedspec.popularity_exponent", zero_or(1e-2, 1.0)),
        maybe("method.fedspec.popularity_weight", zero_or(1e-3, 5.0)),
        maybe("method.fedspec.timeless_share", real(0.0, 1.0)),
        maybe("method.fedspec.kernel_length", rate(0.1, 100.0)),
        maybe("method.fedspec.coverage", real(0.1, 1.0)),
        maybe("method.fedspec.sends_counts", boolean()),
        maybe("method.fedspec.recency.tau", rate(0.1, 100.0)),
        maybe("method.fedspec.recency.floor", zero_or(1e-2, 1.0)),
        maybe("method.fedspec.recency.half_life_days", rate(0.1, 1000.0)),
        maybe("method.fedspec.recency.in_training", boolean()),
        maybe("method.privirec.latent_dimension", small_dimension()),
        maybe("method.privirec.low_pass_weight", zero_or(1e-3, 5.0)),
        maybe("method.privirec.coverage", real(0.1, 1.0)),
        maybe("method.privirec.sends_counts", boolean()),
        maybe("method.privirec.recency.tau", rate(0.1, 100.0)),
        maybe("method.privirec.recency.floor", zero_or(1e-2, 1.0)),
        maybe("method.privirec.recency.half_life_days", rate(0.1, 1000.0)),
        maybe("method.privirec.recency.in_training", boolean()),
    ]
}

/// Returns the keys of the step that user vectors make before they score.
fn steps_before_scoring() -> Vec<Key> {
    vec![
        maybe("method.fedmf.recency.step", rate(1e-2, 10.0)),
        maybe("method.fedmf.recency.tau", rate(0.1, 100.0)),
        maybe("method.fedmf.recency.floor", zero_or(1e-2, 1.0)),
        maybe("method.fedmf.recency.half_life_days", rate(0.1, 1000.0)),
        maybe("method.pfedrec.recency.step", rate(1e-2, 10.0)),
        maybe("method.pfedrec.recency.tau", rate(0.1, 100.0)),
        maybe("method.pfedrec.recency.floor", zero_or(1e-2, 1.0)),
        maybe("method.pfedrec.recency.half_life_days", rate(0.1, 1000.0)),
        maybe("method.fedrecon.recency.step", rate(1e-2, 10.0)),
        maybe("method.fedrecon.recency.tau", rate(0.1, 100.0)),
        maybe("method.fedrecon.recency.floor", zero_or(1e-2, 1.0)),
        maybe("method.fedrecon.recency.half_life_days", rate(0.1, 1000.0)),
        maybe("method.colr.recency.step", rate(1e-2, 10.0)),
        maybe("method.colr.recency.tau", rate(0.1, 100.0)),
        maybe("method.colr.recency.floor", zero_or(1e-2, 1.0)),
        maybe("method.colr.recency.half_life_days", rate(0.1, 1000.0)),
    ]
}

/// Returns the keys of the methods that predict ratings.
fn methods_of_ratings() -> Vec<Key> {
    vec![
        maybe("method.fedrec-pmf.latent_dimension", dimension()),
        maybe("method.fedrec-pmf.style", one_of(&["batch", "stochastic"])),
        maybe("method.fedrec-pmf.learning_rate", rate(1e-4, 1.0)),
        maybe("method.fedrec-pmf.learning_rate_decay", real(0.1, 1.0)),
        maybe("method.fedrec-pmf.steps_per_iteration", integer(1..=40)),
        maybe("method.fedrec-pmf.regularization", zero_or(1e-6, 0.1)),
        maybe("method.fedrec-pmf.virtual_items_per_rated", integer(0..=3)),
        maybe(
            "method.fedrec-pmf.strategy",
            one_of(&["user-averaging", "hybrid-filling"]),
        ),
        maybe(
            "method.fedrec-pmf.hybrid_filling",
            one_of(&["code", "slides"]),
        ),
        maybe("method.fedrec-pmf.predict_from", integer(0..=4)),
        maybe("method.fedrec-pmf.local_steps", integer(0..=5)),
        maybe("method.fedrec-pmf.initial_range", rate(1e-3, 1.0)),
        maybe("method.fedrec-pmf.sends_counts", boolean()),
        maybe("method.fedrec-svdpp.latent_dimension", dimension()),
        maybe(
            "method.fedrec-svdpp.style",
            one_of(&["batch", "stochastic"]),
        ),
        maybe("method.fedrec-svdpp.learning_rate", rate(1e-4, 1.0)),
        maybe("method.fedrec-svdpp.learning_rate_decay", real(0.1, 1.0)),
        maybe("method.fedrec-svdpp.steps_per_iteration", integer(1..=40)),
        maybe("method.fedrec-svdpp.regularization", zero_or(1e-6, 0.1)),
        maybe(
            "method.fedrec-svdpp.virtual_items_per_rated",
            integer(0..=3),
        ),
        maybe(
            "method.fedrec-svdpp.strategy",
            one_of(&["user-averaging", "hybrid-filling"]),
        ),
        maybe(
            "method.fedrec-svdpp.hybrid_filling",
            one_of(&["code", "slides"]),
        ),
        maybe("method.fedrec-svdpp.predict_from", integer(0..=4)),
        maybe("method.fedrec-svdpp.local_steps", integer(0..=5)),
        maybe("method.fedrec-svdpp.initial_range", rate(1e-3, 1.0)),
        maybe("method.fedrec-svdpp.sends_counts", boolean()),
        maybe("method.fedpergnn.latent_dimension", small_dimension()),
        maybe("method.fedpergnn.own_items", integer(1..=20)),
        maybe("method.fedpergnn.neighbours_per_item", integer(1..=20)),
        maybe(
            "method.fedpergnn.predictor",
            one_of(&["published-code", "product"]),
        ),
        maybe("method.fedpergnn.learning_rate", rate(1e-4, 1.0)),
        maybe("method.fedpergnn.clip_norm", rate(1e-2, 10.0)),
        maybe("method.fedpergnn.dropout", zero_or(1e-2, 0.9)),
        maybe("method.fedpergnn.pseudo_items", integer(0..=200)),
        maybe("method.fedpergnn.epsilon", zero_or(0.1, 100.0)),
        maybe("method.fedpergnn.rating_scale", rate(1.0, 10.0)),
        maybe("method.fedpergnn.as_published_labels", boolean()),
        maybe("method.fedpergnn.equal_weights", boolean()),
        maybe("method.pmf.latent_dimension", dimension()),
        maybe("method.pmf.learning_rate", rate(1e-4, 1.0)),
        maybe("method.pmf.learning_rate_decay", real(0.1, 1.0)),
        maybe("method.pmf.regularization", zero_or(1e-6, 0.1)),
        maybe("method.pmf.initial_range", rate(1e-3, 1.0)),
        maybe("method.svdpp.latent_dimension", dimension()),
        maybe("method.svdpp.learning_rate", rate(1e-4, 1.0)),
        maybe("method.svdpp.learning_rate_decay", real(0.1, 1.0)),
        maybe("method.svdpp.regularization", zero_or(1e-6, 0.1)),
        maybe("method.svdpp.initial_range", rate(1e-3, 1.0)),
    ]
}

/// Returns the keys of the other methods that make a model of all positives at the server.
fn methods_at_the_server() -> Vec<Key> {
    vec![
        maybe("method.ease.regularization", rate(1.0, 1000.0)),
        maybe("method.ease.recency.tau", rate(0.1, 100.0)),
        maybe("method.ease.recency.floor", zero_or(1e-2, 1.0)),
        maybe("method.ease.recency.half_life_days", rate(0.1, 1000.0)),
        maybe("method.ease.recency.in_training", boolean()),
        maybe("method.itemknn.neighbours", integer(1..=200)),
        maybe("method.itemknn.shrinkage", zero_or(1e-2, 100.0)),
        maybe("method.itemknn.recency.tau", rate(0.1, 100.0)),
        maybe("method.itemknn.recency.floor", zero_or(1e-2, 1.0)),
        maybe("method.itemknn.recency.half_life_days", rate(0.1, 1000.0)),
        maybe("method.itemknn.recency.in_training", boolean()),
        maybe("method.ials.latent_dimension", small_dimension()),
        maybe("method.ials.unobserved_weight", rate(1e-3, 1.0)),
        maybe("method.ials.regularization", rate(1e-3, 10.0)),
        maybe("method.ials.regularization_exponent", real(0.0, 1.0)),
        maybe("method.ials.initial_length", rate(1e-2, 1.0)),
        maybe("method.ials.recency.tau", rate(0.1, 100.0)),
        maybe("method.ials.recency.floor", zero_or(1e-2, 1.0)),
        maybe("method.ials.recency.half_life_days", rate(0.1, 1000.0)),
        maybe("method.ials.recency.in_training", boolean()),
        maybe(
            "method.ials.by_density.unobserved_per_positive",
            rate(0.1, 100.0),
        ),
        maybe("method.ials.by_density.regularization", rate(0.1, 20.0)),
        maybe("method.bpr-mf.latent_dimension", dimension()),
        maybe("method.bpr-mf.learning_rate", rate(1e-4, 0.5)),
        maybe("method.bpr-mf.regularization", zero_or(1e-6, 0.1)),
        maybe("method.bpr-mf.deviation", rate(1e-3, 1.0)),
        maybe("method.ncf.latent_dimension", dimension()),
        maybe("method.ncf.batch_size", batch()),
        maybe("method.ncf.learning_rate", rate(1e-5, 0.1)),
        maybe("method.ncf.deviation", rate(1e-3, 0.5)),
        maybe("method.lightgcn.latent_dimension", dimension()),
        maybe("method.lightgcn.layers", integer(0..=4)),
        maybe("method.lightgcn.batch_size", batch()),
        maybe("method.lightgcn.learning_rate", rate(1e-5, 0.1)),
        maybe("method.lightgcn.regularization", zero_or(1e-6, 0.1)),
        maybe("method.lightgcn.deviation", rate(1e-3, 1.0)),
        maybe(
            "method.lightgcn.graph",
            one_of(&["train", "train-and-test", "train-and-test-positives"]),
        ),
    ]
}
