//! `[privacy]`: what is done to uploads to protect the users who send them.

use super::dataset::USERS;
use super::overheads::SECURE_AGGREGATION;
use super::{ClientSelection, CodecChoice, Mode, Scenario, name_of};
use crate::check::Checker;
use crate::traffic::{Traffic, UploadUse};
use crate::{choices, keys};
use fedrecsim_core::Direction;

keys! {
    /// Protects uploads between training and encoding. Devices keep their own parameters as
    /// training left them, and score with these. What each mechanism claims, and what it does not,
    /// stands in docs/reference/privacy.md.
    #[derive(Copy)]
    pub struct PrivacySpec {
        /// Noise of the Laplace distribution on every value of every upload, as in PFedRec's paper
        /// (Zhang et al., IJCAI 2023, section 6.6); none if absent. Nothing is clipped, so that no
        /// epsilon follows from it.
        laplace: Option<LaplaceSpec> = None;
        /// Clipping and Gaussian noise, with an accountant (McMahan et al., ICLR 2018); none if
        /// absent. It excludes `laplace`.
        gaussian: Option<GaussianSpec> = None;
        /// Rows of items that the user has not rated, which every upload has beside the rows that
        /// training touched, so that a row that arrives does not give a rated item away; none if
        /// absent.
        virtual_items: Option<VirtualItemsSpec> = None;
    }
}

keys! {
    /// Noise of the Laplace distribution.
    #[derive(Copy)]
    pub struct LaplaceSpec with required keys {
        /// The scale, which is the mean magnitude of the noise on a value.
        scale: f64, >= 0.0, <= 1e6;
    }

    /// Clipping and Gaussian noise.
    #[derive(Copy)]
    pub struct GaussianSpec with required keys {
        /// The largest length (L2) of what a user contributes, over all values of all tables
        /// together. In a table that is a state of the model, the contribution is the difference to
        /// what the user has downloaded; a gradient or another statistic counts itself. What is
        /// longer is shortened to this.
        clip: f64, > 0.0, <= 1e12;
        /// The deviation of the noise on every value, as a multiple of `clip`. With 0,
        /// contributions are clipped and nothing more.
        noise_multiplier: f64, >= 0.0, <= 1e6;
        /// Whom the users trust, which decides who adds the noise.
        trust: Trust;
        /// Which data sets must not be told apart.
        adjacency: Adjacency = Adjacency::AddOrRemove;
        /// The delta of the (epsilon, delta) that is reported, at most one over the number of
        /// users.
        delta: f64 = USUAL_DELTA, > 0.0, <= 1.0;
    }
}

/// The delta that most publications state.
pub const USUAL_DELTA: f64 = 1e-5;

choices! {
    /// Whom users trust.
    pub enum Trust {
        /// Nobody: every device clips its contribution and adds the noise before it sends anything.
        Local,
        /// The server, or a secure sum in its place: it clips every contribution, and adds the
        /// noise once to their sum. Those who see the model are not trusted.
        Central,
    }

    /// Which data sets are adjacent, that is, must not be told apart.
    pub enum Adjacency {
        /// Data sets that differ by the presence of one user.
        AddOrRemove,
        /// Data sets that differ in the ratings of one user. The sensitivity is twice as large.
        Replace,
    }
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

keys! {
    /// Rows of items that the user has not rated.
    #[derive(Copy)]
    pub struct VirtualItemsSpec with required keys {
        /// The number of virtual items for each rated one, rounded for each user. They are drawn
        /// once for each user, so that what comes again and again is not what is rated.
        per_rated_item: f64, > 0.0, <= 1000.0;
    }
}

impl PrivacySpec {
    /// Returns whether something is added to the values of uploads before they are encoded.
    fn has_device_noise(&self) -> bool {
        self.laplace.is_some() || self.trust() == Some(Trust::Local)
    }

    fn trust(&self) -> Option<Trust> {
        Some(self.gaussian?.trust)
    }

    /// Returns whether the server adds noise to the sum of uploads.
    pub fn is_central(&self) -> bool {
        self.trust() == Some(Trust::Central)
    }

    /// Returns what is wrong with the delta for this many users, as a sentence without a full stop.
    pub fn too_large_delta(&self, users: u32) -> Option<String> {
        let delta = self.gaussian?.delta;
        (delta * f64::from(users) > 1.0).then(|| {
            format!(
                "`delta` is {delta}, more than one over the number of users ({users}): it would \
                 allow publishing all data of one user"
            )
        })
    }
}

const TRUST: &str = "privacy.gaussian.trust";
const VIRTUAL_ITEMS: &str = "privacy.virtual_items";
const UPLINK: &str = "codec.uplink";
const DOWNLINK: &str = "codec.downlink";

/// Checks that what is to protect uploads can do so.
pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let privacy = &scenario.privacy;
    if *privacy == PrivacySpec::default() {
        return;
    }
    checker.refuse_if(
        privacy.laplace.is_some() && privacy.gaussian.is_some(),
        "privacy.laplace",
        "`laplace` and `gaussian` are two kinds of noise; choose one of them",
    );
    checker.refuse_if(
        checker.method.runs_at_server,
        "privacy",
        "this method's users send their ratings as they are, and no mechanism here protects these",
    );
    let users = scenario.dataset.generated_users();
    if let Some(message) = users.and_then(|users| privacy.too_large_delta(users)) {
        checker.contradiction("privacy.gaussian.delta", USERS, message);
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
        checker.contradiction(
            "training.client_selection",
            "privacy.gaussian",
            "`oort` has each client report its loss, on which there is no noise",
        );
    }
    if gaussian.trust == Trust::Local {
        if scenario.overheads.secure_aggregation.is_some() {
            checker.contradiction(
                TRUST,
                SECURE_AGGREGATION,
                "`trust = \"local\"` adds noise to each upload, which `secure_aggregation` hides \
                 from the server anyway: take `trust = \"central\"`, with noise on the sum",
            );
        }
        return;
    }
    let mode = &scenario.training.mode;
    if !matches!(mode, Mode::Synchronous | Mode::OverSelection(_)) {
        checker.contradiction(
            "training.mode",
            TRUST,
            format!(
                "`trust = \"central\"` needs sums of cohorts in which nobody is twice, and the \
                 mode `{}` has none",
                name_of(mode)
            ),
        );
    }
}

/// Adds why the server of a method cannot be the one that adds noise to sums of uploads, if it is to
/// do that and cannot.
pub(super) fn contradiction(
    traffic: &Traffic,
    privacy: &PrivacySpec,
    found: &mut Vec<(String, String)>,
) {
    let has_noisy_sums = traffic.upload_use == UploadUse::Sum || traffic.makes_noisy_sums;
    if !privacy.is_central() || has_noisy_sums || traffic.blocks.is_empty() {
        return;
    }
    let message = "noise on the sum of the uploads does not protect what else this method's \
                   server uses (such as who sent which row, or a weight of each upload): take \
                   `trust = \"local\"`, or `sends_counts = true` or `equal_weights = true` where \
                   the method has it";
    found.push((TRUST.to_owned(), message.to_owned()));
}

/// Refuses noise on whole tables where devices downloaded only the rows they need.
fn check_needed_rows(scenario: &Scenario, checker: &mut Checker<'_>) {
    let privacy = &scenario.privacy;
    let lists_none = |choice: &CodecChoice| !choice.lists_touched_rows();
    if privacy.has_device_noise() && scenario.codec.any(Direction::Up, lists_none) {
        checker.contradiction(
            UPLINK,
            DOWNLINK,
            "noise on every row needs all rows, but clients download only the rows that they \
             need: take `rows-f32` for the uplink",
        );
    } else if privacy.is_central() {
        checker.contradiction(
            DOWNLINK,
            TRUST,
            "noise on a sum is on all rows, but clients contribute only to the rows that they \
             downloaded: take another `select` than `needed-rows`",
        );
    }
}

fn check_virtual_items(scenario: &Scenario, checker: &mut Checker<'_>) {
    let codec = &scenario.codec;
    if scenario.overheads.secure_aggregation.is_some() {
        checker.contradiction(
            VIRTUAL_ITEMS,
            SECURE_AGGREGATION,
            "`secure_aggregation` hides which rows a client has touched, so `virtual_items` have \
             nothing to hide",
        );
    } else if !codec.any(Direction::Up, CodecChoice::lists_touched_rows) {
        checker.contradiction(
            UPLINK,
            VIRTUAL_ITEMS,
            "`virtual_items` hide rated items among the touched rows of an upload, and this \
             codec lists none: take `rows-f32` or `select = \"touched-rows\"`",
        );
    }
    if codec.downloads_needed_rows() {
        checker.contradiction(
            DOWNLINK,
            VIRTUAL_ITEMS,
            "clients ask for exactly the rows that they need, so `virtual_items` hide nothing",
        );
    }
}
