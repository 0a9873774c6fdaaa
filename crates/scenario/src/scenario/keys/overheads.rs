//! Bytes that the simulator does not make, and counts as if they travelled with the frames.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::Checker;
use super::{ClientSelection, CodecChoice, CodecName, Mode, Scenario};

/// Adds bytes to every frame that a deployment would send and the simulator does not make. They
/// take time on the links and energy like all others, and a run's report shows them apart from
/// those that were measured. Nothing here changes what is learned but through time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Overheads")]
pub struct OverheadsSpec {
    /// The headers of the packets in which a frame travels; left out if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportSpec>,
    /// The keys and shares of secure aggregation, with which the server learns nothing but the sum
    /// of all uploads of a round (Bonawitz et al., CCS 2017); left out if absent. It takes
    /// `codec.uplink = "dense-f32"`, since all clients must send the same entries on one scale, and
    /// rounds that wait for their cohort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_aggregation: Option<SecureAggregationSpec>,
    /// Paillier's encryption of every value in both directions, as in FedMF's paper (Chai et al.,
    /// 2020); left out if absent. It takes codecs that send values in single precision, since each
    /// is a ciphertext of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paillier: Option<PaillierSpec>,
}

/// Packets. The defaults are those of IPv4 and TCP without options on Ethernet (RFC 791, RFC 9293).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Transport")]
pub struct TransportSpec {
    /// Bytes of a frame that a packet carries.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub payload_bytes: u32,
    /// Bytes of a packet's header.
    #[schemars(range(max = 1_000_000))]
    pub header_bytes: u32,
}

impl Default for TransportSpec {
    fn default() -> Self {
        Self {
            payload_bytes: 1460,
            header_bytes: 40,
        }
    }
}

/// Secure aggregation among the n clients that are invited to a round. Each sends two public keys,
/// two shares to each of the others and one share of everybody's secret at the end, and receives
/// the others' keys and shares, which is 2 n keys and 5 n - 4 shares together (Bonawitz et al., CCS
/// 2017). They are counted with the download and the upload, and the round trips of the protocol
/// are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SecureAggregation")]
pub struct SecureAggregationSpec {
    /// Bytes of a public key; 32 for Curve25519.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub public_key_bytes: u32,
    /// Bytes of a secret share.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub share_bytes: u32,
}

impl Default for SecureAggregationSpec {
    fn default() -> Self {
        Self {
            public_key_bytes: 32,
            share_bytes: 32,
        }
    }
}

/// Paillier's encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Paillier")]
pub struct PaillierSpec {
    /// Bytes of a ciphertext, which has twice the bits of the key; 256 for a key of 1024 bits.
    #[schemars(range(min = 4, max = 1_000_000))]
    pub ciphertext_bytes: u32,
}

impl Default for PaillierSpec {
    fn default() -> Self {
        Self {
            ciphertext_bytes: 256,
        }
    }
}

const SECURE_AGGREGATION: &str = "overheads.secure_aggregation";
const PAILLIER: &str = "overheads.paillier";

/// Checks that what would be encrypted can be.
pub(in super::super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let overheads = &scenario.overheads;
    if overheads.secure_aggregation.is_some() {
        if overheads.paillier.is_some() {
            checker.fault(
                PAILLIER,
                "`paillier` and `secure_aggregation` hide the same uploads; choose one of them",
            );
        }
        check_hidden_uploads(SECURE_AGGREGATION, scenario, checker);
        check_secure_aggregation(scenario, checker);
    }
    if overheads.paillier.is_some() {
        check_hidden_uploads(PAILLIER, scenario, checker);
        check_paillier(scenario, checker);
    }
}

/// Refuses what reads single uploads, which `key` hides from the server.
fn check_hidden_uploads(key: &str, scenario: &Scenario, checker: &mut Checker<'_>) {
    let name = key.rsplit('.').next().unwrap_or_default();
    if let ClientSelection::Oort(_) = scenario.training.client_selection {
        let message = format!("`oort` reads the loss of each client, which `{name}` hides");
        checker.contradiction("training.client_selection", key, message);
    }
    if scenario.audit.is_some() {
        let message =
            format!("the audit reads single uploads, which `{name}` hides from the server");
        checker.contradiction("audit", key, message);
    }
    if checker.method.runs_at_server {
        let message = format!(
            "this method's server trains on the ratings of each user, which `{name}` hides"
        );
        checker.fault(key, message);
    }
}

fn check_secure_aggregation(scenario: &Scenario, checker: &mut Checker<'_>) {
    let mut uplinks = scenario.codec.uplinks();
    if uplinks.any(|choice| *choice != CodecChoice::Named(CodecName::DenseF32)) {
        let message = "`secure_aggregation` adds masks to the same entries of all clients on one scale, so that \
                       nothing may be left out by what a client has, and no row or block has a scale of its own: it \
                       needs `codec.uplink = \"dense-f32\"`";
        checker.contradiction("codec.uplink", SECURE_AGGREGATION, message);
    }
    let mode = &scenario.training.mode;
    if !matches!(mode, Mode::Synchronous | Mode::OverSelection(_)) {
        let message = format!(
            "`secure_aggregation` needs a cohort whose masks cancel in one sum, and in the mode `{}` the server uses \
             uploads one by one",
            mode.key()
        );
        checker.contradiction("training.mode", SECURE_AGGREGATION, message);
    }
}

fn check_paillier(scenario: &Scenario, checker: &mut Checker<'_>) {
    let codec = &scenario.codec;
    if (codec.uplinks().chain(codec.downlinks()))
        .any(|choice| matches!(choice, CodecChoice::Composed(_)))
    {
        let message = "`paillier` encrypts every value by itself, so that a codec that codes values together saves \
                       nothing: it needs `dense-f32` or `rows-f32`, or `sparse-f32` for uploads";
        checker.contradiction("codec", PAILLIER, message);
    }
    let mut downlinks = codec.downlinks();
    if downlinks.any(|choice| *choice == CodecChoice::Named(CodecName::SparseF32)) {
        let message = "a server that has ciphertexts alone cannot leave out values that are 0";
        checker.contradiction("codec.downlink", PAILLIER, message);
    }
}
