//! Repairs what protects uploads asks of methods, modes, codecs and one another.

use super::Draft;
use super::kinds::AT_SERVER;

impl Draft {
    /// Draws each user by itself only where rounds need no number of users, and nobody is picked in
    /// another way.
    pub(super) fn mend_draws_of_each(&mut self) {
        if !self.is("training.participation", "poisson") {
            return;
        }
        let is_plain = ["synchronous", "semi-synchronous"]
            .iter()
            .any(|mode| self.is("training.mode", mode));
        let has_mode = self.0.contains_key("training.mode");
        let selection = "training.client_selection";
        let is_uniform = self.is(selection, "uniform") || !self.0.contains_key(selection);
        if has_mode && !is_plain || !is_uniform {
            self.set("training.participation", "share");
        }
    }

    /// Keeps one kind of noise, and each mechanism only where it has a meaning.
    pub(super) fn mend_privacy(&mut self) {
        const GAUSSIAN: &str = "privacy.gaussian";
        const VIRTUAL: &str = "privacy.virtual_items";
        if !self.0.contains_key("privacy.gaussian.clip") {
            self.remove_below(GAUSSIAN);
        }
        if self.is_one_of(&AT_SERVER) {
            self.remove_below("privacy");
        }
        let reads_losses = self.is("training.client_selection", "oort")
            || self.has_below("training.client_selection.oort");
        if reads_losses {
            self.remove_below(GAUSSIAN);
        }
        if self.has_below(GAUSSIAN) {
            self.remove_below("privacy.laplace");
        }
        let is_secret = self.has_below("overheads.secure_aggregation");
        let other_modes = ["semi-synchronous", "fedbuff", "fedasync"];
        let is_mode = |mode: &&str| {
            self.is("training.mode", mode) || self.has_below(&format!("training.mode.{mode}"))
        };
        let can_be_central = !self.does_more_than_add()
            && !other_modes.iter().any(is_mode)
            && !self.downloads_needed_rows();
        match (
            self.is("privacy.gaussian.trust", "central"),
            can_be_central,
            is_secret,
        ) {
            (true, false, false) => self.set("privacy.gaussian.trust", "local"),
            (true, false, true) | (false, false, true) => self.remove_below(GAUSSIAN),
            (false, true, true) if self.has_below(GAUSSIAN) => {
                self.set("privacy.gaussian.trust", "central")
            }
            _ => {}
        }
        let lists_rows = match self.0.get("codec.uplink") {
            None => true,
            Some(toml::Value::Table(uplink)) => match uplink.get("select") {
                None => true,
                Some(toml::Value::Table(select)) => select.contains_key("low-rank"),
                Some(select) => select.as_str() == Some("touched-rows"),
            },
            Some(named) => named.as_str() == Some("rows-f32"),
        };
        if !lists_rows || is_secret || self.downloads_needed_rows() {
            self.remove_below(VIRTUAL);
        }
        if !lists_rows && self.downloads_needed_rows() {
            self.remove_below("privacy.laplace");
            self.remove_below(GAUSSIAN);
        }
    }
}
