//! What is done to uploads to protect the users who send them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
