//! `[privacy]`: what is done to uploads to protect the users who send them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::Checker;
use super::{ClientSelection, CodecChoice, Mode, Scenario};

/// Protects uploads between training and encoding. Devices keep their own parameters as training
/// left them, and score with these. What each mechanism claims, and what it does not, stands in
/// docs/privacy.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Privacy")]
pub struct PrivacySpec {
    /// Noise of the Laplace distribution on every value of every upload, as in PFedRec's paper
    /// (Zhang et al., IJCAI 2023, section 6.6); none if absent. Nothing is clipped, so that no
    /// epsilon follows from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub laplace: Option<LaplaceSpec>,
    /// Clipping and Gaussian noise, with an accountant (McMahan et al., ICLR 2018); none if absent.
    /// It excludes `laplace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gaussian: Option<GaussianSpec>,
    /// Rows of items that the user has not rated, which every upload has beside the rows that
    /// training touched, so that a row that arrives does not give a rated item away; none if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_items: Option<VirtualItemsSpec>,
}

/// Noise of the Laplace distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Laplace")]
pub struct LaplaceSpec {
    /// The scale, which is the mean magnitude of the noise on a value.
    #[schemars(range(min = 0, max = 1e6))]
    pub scale: f64,
}

/// Clipping and Gaussian noise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Gaussian")]
pub struct GaussianSpec {
    /// The largest length (L2) of what a user contributes, over all values of all tables together.
    /// In a table that is a state of the model, the contribution is the difference to what the user
    /// has downloaded; a gradient or another statistic counts itself. What is longer is shortened
    /// to this.
    #[schemars(extend("exclusiveMinimum" = 0.0), range(max = 1e12))]
    pub clip: f64,
    /// The deviation of the noise on every value, as a multiple of `clip`. With 0, contributions
    /// are clipped and nothing more.
    #[schemars(range(min = 0, max = 1e6))]
    pub noise_multiplier: f64,
    /// Whom the users trust, which decides who adds the noise.
    pub trust: Trust,
    /// Which data sets must not be told apart.
    #[serde(default)]
    pub adjacency: Adjacency,
    /// The delta of the (epsilon, delta) that is reported, at most one over the number of users.
    #[serde(default = "usual_delta")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub delta: f64,
}

/// Returns the delta that most publications state.
pub fn usual_delta() -> f64 {
    1e-5
}

/// Whom users trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Nobody: every device clips its contribution and adds the noise before it sends anything.
    Local,
    /// The server, or a secure sum in its place: it clips every contribution, and adds the noise
    /// once to their sum. Those who see the model are not trusted.
    Central,
}

/// Which data sets are adjacent, that is, must not be told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Adjacency {
    /// Those in one of which a user contributes and in the other nothing.
    #[default]
    AddOrRemove,
    /// Those in which one user has other ratings. The sensitivity is twice as large.
    Replace,
}

impl Adjacency {
    /// Returns how far the sum of contributions of adjacent data sets can differ, as a multiple of
    /// the clipping length.
    pub fn sensitivity(self) -> f64 {
        match self {
            Self::AddOrRemove => 1.0,
            Self::Replace => 2.0,
        }
    }
}

/// Rows of items that the user has not rated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "VirtualItems")]
pub struct VirtualItemsSpec {
    /// The number of virtual items for each rated one, rounded for each user. They are drawn once
    /// for each user, so that what comes again and again is not what is rated.
    #[schemars(extend("exclusiveMinimum" = 0.0), range(max = 1000))]
    pub per_rated_item: f64,
}

impl PrivacySpec {
    /// Returns whether something is added to the values of uploads before they are encoded.
    pub(crate) fn has_device_noise(&self) -> bool {
        self.laplace.is_some()
            || self
                .gaussian
                .is_some_and(|gaussian| gaussian.trust == Trust::Local)
    }

    /// Returns what is wrong with the delta for so many users, as a sentence without a full stop.
    pub fn too_large_delta(&self, users: u32) -> Option<String> {
        let delta = self.gaussian?.delta;
        (delta * f64::from(users) > 1.0).then(|| {
            format!(
                "`delta` is {delta}, which is more than one over the number of users ({users}): it would allow to publish \
                 all that somebody has"
            )
        })
    }
}

const TRUST: &str = "privacy.gaussian.trust";
const VIRTUAL_ITEMS: &str = "privacy.virtual_items";
const SECURE_AGGREGATION: &str = "overheads.secure_aggregation";
const UPLINK: &str = "codec.uplink";
const DOWNLINK: &str = "codec.downlink";

/// Checks that what is to protect uploads can do so.
pub(in super::super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let privacy = &scenario.privacy;
    if *privacy == PrivacySpec::default() {
        return;
    }
    if privacy.laplace.is_some() && privacy.gaussian.is_some() {
        checker.fault(
            "privacy.laplace",
            "`laplace` and `gaussian` are two kinds of noise; choose one of them",
        );
    }
    if checker.method.runs_at_server {
        let message = "this method's server trains on the ratings that users send as they are, and no mechanism here \
                       protects these";
        checker.fault("privacy", message);
    }
    let users = scenario.dataset.generated_users();
    if let Some(message) = users.and_then(|users| privacy.too_large_delta(users)) {
        let users = "dataset.generator.users";
        checker.contradiction("privacy.gaussian.delta", users, message);
    }
    if let Some(gaussian) = &privacy.gaussian {
        check_gaussian(gaussian, scenario, checker);
    }
    if scenario.codec.downloads_needed_rows() {
        check_needed_rows(scenario, checker);
    }
    if privacy.virtual_items.is_some() {
        check_virtual_items(scenario, checker);
    }
}

fn check_gaussian(gaussian: &GaussianSpec, scenario: &Scenario, checker: &mut Checker<'_>) {
    if let ClientSelection::Oort(_) = scenario.training.client_selection {
        let message = "`oort` has each client report its loss, on which there is no noise";
        checker.contradiction("training.client_selection", "privacy.gaussian", message);
    }
    if gaussian.trust == Trust::Local {
        if scenario.overheads.secure_aggregation.is_some() {
            let message = "with `trust = \"local\"` every device adds the noise for an upload that the server sees, and \
                           `secure_aggregation` hides each upload from it: take `trust = \"central\"`, with noise on the sum";
            checker.contradiction(TRUST, SECURE_AGGREGATION, message);
        }
        return;
    }
    let mode = &scenario.training.mode;
    if !matches!(mode, Mode::Synchronous | Mode::OverSelection(_)) {
        let message = format!(
            "with `trust = \"central\"` the server adds noise to the sum of a cohort, in which nobody is twice, and the \
             mode `{}` has no such sums",
            mode.key()
        );
        checker.contradiction("training.mode", TRUST, message);
    }
}

/// Refuses noise on whole tables of which a device has downloaded the rows alone that it needs.
fn check_needed_rows(scenario: &Scenario, checker: &mut Checker<'_>) {
    let privacy = &scenario.privacy;
    let lists_rows = scenario
        .codec
        .uplinks()
        .all(CodecChoice::lists_touched_rows);
    let is_central = privacy
        .gaussian
        .is_some_and(|gaussian| gaussian.trust == Trust::Central);
    if privacy.has_device_noise() && !lists_rows {
        let message = "noise on every row takes all rows, and a client that downloads the rows that it needs has no \
                       others: take `rows-f32` for the uplink";
        checker.contradiction(UPLINK, DOWNLINK, message);
    } else if is_central {
        let message = "noise on a sum is on all rows, and the server knows each client's contribution in the rows alone \
                       that the client has downloaded: take another `select` than `needed-rows`";
        checker.contradiction(DOWNLINK, TRUST, message);
    }
}

fn check_virtual_items(scenario: &Scenario, checker: &mut Checker<'_>) {
    let codec = &scenario.codec;
    if scenario.overheads.secure_aggregation.is_some() {
        let message = "`secure_aggregation` hides which rows a client has touched, so that `virtual_items` have nothing \
                       to hide";
        checker.contradiction(VIRTUAL_ITEMS, SECURE_AGGREGATION, message);
    } else if !codec.uplinks().any(CodecChoice::lists_touched_rows) {
        let message = "`virtual_items` hide rated items among the rows that an upload lists, and the uplink's codec \
                       lists no touched rows: take `rows-f32` or `select = \"touched-rows\"`";
        checker.contradiction(UPLINK, VIRTUAL_ITEMS, message);
    }
    if codec.downloads_needed_rows() {
        let message = "clients ask for the rows that they need and for no others, so that `virtual_items` hide nothing";
        checker.contradiction(DOWNLINK, VIRTUAL_ITEMS, message);
    }
}
