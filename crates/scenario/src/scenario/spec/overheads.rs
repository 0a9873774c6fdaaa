//! Bytes that the simulator does not make, and counts as if they travelled with the frames.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
