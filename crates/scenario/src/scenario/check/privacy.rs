//! Rules for what protects uploads, which not every codec, mode and method leaves a meaning.

use super::super::modes::{ClientSelection, Mode};
use super::super::spec::{OverheadsSpec, PrivacySpec, Trust};
use super::super::traffic::Traffic;
use super::Checker;
use super::overheads::Beside;

const PRIVACY: &[&str] = &["privacy"];
const GAUSSIAN: &[&str] = &["privacy", "gaussian"];
const TRUST: &[&str] = &["privacy", "gaussian", "trust"];
const VIRTUAL_ITEMS: &[&str] = &["privacy", "virtual_items"];
const SECURE_AGGREGATION: &[&str] = &["overheads", "secure_aggregation"];
const UPLINK: &[&str] = &["codec", "uplink"];

impl Checker<'_> {
    /// Checks that what is to protect uploads can do so. `users` is their number, where it is known
    /// already.
    pub(super) fn privacy(
        &mut self,
        privacy: &PrivacySpec,
        overheads: &OverheadsSpec,
        beside: &Beside<'_>,
        users: Option<u32>,
    ) {
        if *privacy == PrivacySpec::default() {
            return;
        }
        if privacy.laplace.is_some() && privacy.gaussian.is_some() {
            self.fault(
                &["privacy", "laplace"],
                "`laplace` and `gaussian` are two kinds of noise; choose one of them",
            );
        }
        if beside.runs_at_server {
            let message = "this method's server trains on the ratings that users send as they are, and no mechanism here \
                           protects these";
            self.fault(PRIVACY, message);
        }
        if let Some(message) = users.and_then(|users| privacy.too_large_delta(users)) {
            self.contradiction(
                &["privacy", "gaussian", "delta"],
                &["dataset", "generator", "users"],
                message,
            );
        }
        self.gaussian(privacy, overheads, beside);
        self.noise_on_needed_rows(privacy, beside);
        if privacy.virtual_items.is_some() {
            self.virtual_items(overheads, beside);
        }
    }

    fn gaussian(&mut self, privacy: &PrivacySpec, overheads: &OverheadsSpec, beside: &Beside<'_>) {
        let Some(gaussian) = privacy.gaussian else {
            return;
        };
        let Beside {
            training,
            traffic,
            runs_at_server,
            ..
        } = *beside;
        if matches!(training.client_selection, ClientSelection::Oort(_)) {
            let message = "`oort` has each client report its loss, on which there is no noise";
            self.contradiction(&["training", "client_selection"], GAUSSIAN, message);
        }
        match gaussian.trust {
            Trust::Local if overheads.secure_aggregation.is_some() => {
                let message = "with `trust = \"local\"` every device adds the noise for an upload that the server sees, and \
                               `secure_aggregation` hides each upload from it: take `trust = \"central\"`, with noise on the sum";
                self.contradiction(TRUST, SECURE_AGGREGATION, message);
            }
            Trust::Local => {}
            Trust::Central => {
                if !matches!(training.mode, Mode::Synchronous | Mode::OverSelection(_)) {
                    let mode = training.mode.key();
                    let message = format!(
                        "with `trust = \"central\"` the server adds noise to the sum of a cohort, in which nobody is twice, \
                         and the mode `{mode}` has no such sums"
                    );
                    self.contradiction(&["training", "mode"], TRUST, message);
                }
                if let Some(message) = traffic
                    .filter(|_| !runs_at_server)
                    .and_then(Traffic::without_noisy_sums)
                {
                    self.fault(TRUST, message);
                }
            }
        }
    }

    /// Refuses noise on whole tables of which a device has downloaded the rows alone that it needs.
    fn noise_on_needed_rows(&mut self, privacy: &PrivacySpec, beside: &Beside<'_>) {
        let codec = beside.codec;
        let mut uplinks = codec
            .uplinks_of_blocks()
            .map(|(_, choice)| choice)
            .chain([&codec.uplink]);
        if !codec.downloads_needed_rows() {
            return;
        }
        if privacy.has_device_noise() && uplinks.any(|choice| !choice.lists_touched_rows()) {
            let message = "noise on every row takes all rows, and a client that downloads the rows that it needs has no \
                           others: take `rows-f32` for the uplink";
            self.contradiction(UPLINK, &["codec", "downlink"], message);
        } else if privacy
            .gaussian
            .is_some_and(|gaussian| gaussian.trust == Trust::Central)
        {
            let message = "noise on a sum is on all rows, and the server knows each client's contribution in the rows alone \
                           that the client has downloaded: take another `select` than `needed-rows`";
            self.contradiction(&["codec", "downlink"], TRUST, message);
        }
    }

    fn virtual_items(&mut self, overheads: &OverheadsSpec, beside: &Beside<'_>) {
        let codec = beside.codec;
        let mut uplinks = codec
            .uplinks_of_blocks()
            .map(|(_, choice)| choice)
            .chain([&codec.uplink]);
        if overheads.secure_aggregation.is_some() {
            let message = "`secure_aggregation` hides which rows a client has touched, so that `virtual_items` have nothing \
                           to hide";
            self.contradiction(VIRTUAL_ITEMS, SECURE_AGGREGATION, message);
        } else if !uplinks.any(|choice| choice.lists_touched_rows()) {
            let message = "`virtual_items` hide rated items among the rows that an upload lists, and the uplink's codec \
                           lists no touched rows: take `rows-f32` or `select = \"touched-rows\"`";
            self.contradiction(UPLINK, VIRTUAL_ITEMS, message);
        }
        if codec.downloads_needed_rows() {
            let message = "clients ask for the rows that they need and for no others, so that `virtual_items` hide nothing";
            self.contradiction(&["codec", "downlink"], VIRTUAL_ITEMS, message);
        }
    }
}
