//! Repairs what codecs and overheads ask of methods, modes and one another.

use toml::Value;

use super::Draft;
use super::kinds::{AT_SERVER, SINGLE_UPLOADS};

impl Draft {
    /// Has only downloads that are the same for all users, and of the same rows, be differences, and
    /// only these begin with a seed.
    pub(super) fn mend_codecs(&mut self) {
        let have_no_versions = self.has_own_downloads() || self.is_one_of(&["fcf-bts"]);
        if let Some(Value::Table(downlink)) = self.0.get_mut("codec.downlink")
            && have_no_versions
        {
            downlink.insert("delta".to_owned(), Value::Boolean(false));
        }
        self.mend_needed_rows();
        let downlink = self.0.get("codec.downlink").and_then(Value::as_table);
        if downlink.and_then(|downlink| downlink.get("delta")?.as_bool()) != Some(true) {
            self.0.remove("codec.first_download");
        }
    }

    /// Returns whether the server makes something of its own for each user.
    fn has_own_downloads(&self) -> bool {
        self.is_one_of(&["metamf", "adafedrec"]) || self.is_one_of(&SINGLE_UPLOADS)
    }

    /// Takes a method whose training reads no other rows than those that clients ask for. It
    /// predicts no ratings, so that items have to be held out.
    pub(super) fn choose_method_for_needed_rows(&mut self) {
        if self.downloads_needed_rows() {
            self.set("method", "fedmf");
            self.0.remove("dataset.split");
        }
    }

    /// Has clients ask for rows only where their uploads need no others.
    fn mend_needed_rows(&mut self) {
        if !self.downloads_needed_rows() {
            return;
        }
        if let Some(Value::Table(downlink)) = self.0.get_mut("codec.downlink") {
            downlink.insert("delta".to_owned(), Value::Boolean(false));
        }
        let takes_all = match self.0.get("codec.uplink") {
            Some(Value::Table(uplink)) => {
                uplink.get("select").and_then(Value::as_str) == Some("all")
            }
            Some(named) => named.as_str() != Some("rows-f32"),
            None => false,
        };
        if takes_all {
            self.set("codec.uplink", "rows-f32");
        }
        self.remove_below("overheads.secure_aggregation");
        // A client that keeps a table of its own keeps all rows of it.
        if let Some(keeps_own) = self.0.get_mut("method.fedmf.dual_personalization") {
            *keeps_own = Value::Boolean(false);
        }
    }

    pub(super) fn downloads_needed_rows(&self) -> bool {
        let Some(Value::Table(downlink)) = self.0.get("codec.downlink") else {
            return false;
        };
        downlink.get("select").and_then(Value::as_str) == Some("needed-rows")
    }

    /// Has what is encrypted only where it can be.
    pub(super) fn mend_overheads(&mut self) {
        const SECURE: &str = "overheads.secure_aggregation";
        const PAILLIER: &str = "overheads.paillier";
        let works_apart = self.is_one_of(&AT_SERVER) || self.has_own_downloads();
        let selection = "training.client_selection";
        let reads_losses =
            self.is(selection, "oort") || self.has_below("training.client_selection.oort");
        if works_apart || reads_losses {
            self.remove_below(SECURE);
            self.remove_below(PAILLIER);
        }
        let other_modes = ["semi-synchronous", "fedbuff", "fedasync"];
        let is_mode = |mode: &&str| {
            self.is("training.mode", mode) || self.has_below(&format!("training.mode.{mode}"))
        };
        if other_modes.iter().any(is_mode) || self.counts_senders() {
            self.remove_below(SECURE);
        }
        if self.has_below(SECURE) {
            self.set("codec.uplink", "dense-f32");
            self.remove_below(PAILLIER);
        }
        let is_composed = |key: &&str| self.0.get(*key).is_some_and(Value::is_table);
        let composes = ["codec.uplink", "codec.downlink"].iter().any(is_composed);
        if composes || self.is("codec.downlink", "sparse-f32") {
            self.remove_below(PAILLIER);
        }
        if self.has_below(SECURE) || self.has_below(PAILLIER) {
            self.remove_below("audit");
        }
    }
}
