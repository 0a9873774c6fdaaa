//! Repairs what codecs and overheads ask of methods, modes and one another.

use toml::Value;

use super::Draft;

impl Draft {
    /// Has only downloads that all users share, and that are differences, begin with a seed.
    pub(super) fn mend_codecs(&mut self) {
        let has_own_downloads = self.is("method", "metamf") || self.has_below("method.metamf");
        let mut sends_differences = false;
        if let Some(Value::Table(downlink)) = self.0.get_mut("codec.downlink") {
            if has_own_downloads {
                downlink.insert("delta".to_owned(), Value::Boolean(false));
            }
            sends_differences = downlink.get("delta").and_then(Value::as_bool) == Some(true);
        }
        if !sends_differences {
            self.0.remove("codec.first_download");
        }
    }

    /// Has what is encrypted only where it can be.
    pub(super) fn mend_overheads(&mut self) {
        const SECURE: &str = "overheads.secure_aggregation";
        if self.has_below(SECURE) {
            let has_own_downloads = self.is("method", "metamf") || self.has_below("method.metamf");
            let other_modes = ["semi-synchronous", "fedbuff", "fedasync"];
            let uses_one_by_one = other_modes
                .iter()
                .any(|mode| self.is("training.mode", mode) || self.has_below(&format!("training.mode.{mode}")));
            let oort = "training.client_selection";
            let reads_losses = self.is(oort, "oort") || self.has_below("training.client_selection.oort");
            if has_own_downloads || uses_one_by_one || reads_losses {
                self.remove_below(SECURE);
            } else {
                self.set("codec.uplink", "dense-f32");
                self.remove_below("audit");
                self.remove_below("overheads.paillier");
            }
        }
        if ["codec.uplink", "codec.downlink"].iter().any(|key| self.0.get(key).is_some_and(Value::is_table)) {
            self.remove_below("overheads.paillier");
        }
    }
}
