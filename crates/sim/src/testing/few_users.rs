/// Returns the parameters, as an inline table of TOML, with which tests run a method of the crate among
/// a handful of users. They are its defaults, but where these are made for thousands of users and
/// diverge, or take most of a test that does not depend on them.
#[must_use]
pub fn parameters_for_few_users(method: &str) -> &'static str {
    match method {
        "fedrec-pmf" | "fedrec-svdpp" | "pmf" | "svdpp" => "{ learning_rate = 0.1 }",
        "fedrecon" => "{ learning_rate_items = 500 }",
        "fedpergnn" => "{ latent_dimension = 8, own_items = 6, neighbours_per_item = 4 }",
        "fedcia" => "{ latent_dimension = 8, alignment_steps = 5 }",
        "feddae" => "{ latent_dimension = 4, outer_units = 16, inner_units = 8, gate_units = 4 }",
        "adafedrec" => "{ latent_dimension = 8, autoencoder_steps = 4 }",
        // At a smaller latent dimension a codec changes who downloads, and the bytes cannot be compared.
        "cofedrec" | "cgfedrec" => "{ clusters = 6, cluster_starts = 2 }",
        "metamf" => "{ hidden_units = 64 }",
        _ => "{}",
    }
}
