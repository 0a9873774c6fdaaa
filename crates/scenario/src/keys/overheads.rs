//! Bytes that the simulator does not make, and counts as if they travelled with the frames.

use super::{ClientSelection, CodecChoice, CodecName, Mode, Scenario, name_of};
use crate::check::Checker;
use crate::keys;
use crate::traffic::{Traffic, UploadUse};
use fedrecsim_core::Direction;

keys! {
    /// Adds bytes to every frame that a deployment would send and the simulator does not make. They
    /// take time on the links and energy like all others, and a run's report shows them apart from
    /// those that were measured. Nothing here changes what is learned but through time.
    #[derive(Copy)]
    pub struct OverheadsSpec {
        /// The headers of the packets that carry a frame; left out if absent.
        transport: Option<TransportSpec> = None;
        /// The keys and shares of secure aggregation, which shows the server nothing but the sum of
        /// all uploads of a round (Bonawitz et al., CCS 2017); left out if absent. It takes
        /// `codec.uplink = "dense-f32"`, since all clients must send the same entries on one scale,
        /// and rounds that wait for their cohort.
        secure_aggregation: Option<SecureAggregationSpec> = None;
        /// Paillier's encryption of every value in both directions, as in FedMF's paper (Chai et
        /// al., 2020); left out if absent. It takes codecs that send values in single precision,
        /// since each is a ciphertext of its own.
        paillier: Option<PaillierSpec> = None;
    }

    /// Packets. The defaults are those of IPv4 and TCP without options on Ethernet (RFC 791, RFC
    /// 9293).
    #[derive(Copy)]
    pub struct TransportSpec {
        /// Bytes of a frame that a packet carries.
        payload_bytes: u32 = 1460, >= 1, <= 1_000_000;
        /// Bytes of a packet's header.
        header_bytes: u32 = 40, <= 1_000_000;
    }

    /// Secure aggregation among the n clients that are invited to a round. Each sends two public
    /// keys, two shares to each of the others and one share of everybody's secret at the end. It
    /// receives the others' keys and shares. Together these are 2 n keys and 5 n - 4 shares
    /// (Bonawitz et al., CCS 2017). They are counted with the download and the upload, and the
    /// round trips of the protocol are not.
    #[derive(Copy)]
    pub struct SecureAggregationSpec {
        /// Bytes of a public key; 32 for Curve25519.
        public_key_bytes: u32 = 32, >= 1, <= 1_000_000;
        /// Bytes of a secret share.
        share_bytes: u32 = 32, >= 1, <= 1_000_000;
    }

    /// Paillier's encryption.
    #[derive(Copy)]
    pub struct PaillierSpec {
        /// Bytes of a ciphertext, which has twice the bits of the key; 256 for a key of 1024 bits.
        ciphertext_bytes: u32 = 256, >= 4, <= 1_000_000;
    }
}

pub(super) const SECURE_AGGREGATION: &str = "overheads.secure_aggregation";
const PAILLIER: &str = "overheads.paillier";

impl OverheadsSpec {
    /// Returns the names of the keys that are given and hide single uploads from the server.
    fn hiding(&self) -> impl Iterator<Item = &'static str> {
        let secure_aggregation = self.secure_aggregation.map(|_| "secure_aggregation");
        let paillier = self.paillier.map(|_| "paillier");
        secure_aggregation.into_iter().chain(paillier)
    }
}

/// Checks that what would be encrypted can be.
pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let overheads = &scenario.overheads;
    checker.refuse_if(
        overheads.hiding().count() > 1,
        PAILLIER,
        "`paillier` and `secure_aggregation` hide the same uploads; choose one of them",
    );
    for name in overheads.hiding() {
        check_hidden_uploads(name, scenario, checker);
    }
    if overheads.secure_aggregation.is_some() {
        check_secure_aggregation(scenario, checker);
    }
    if overheads.paillier.is_some() {
        check_paillier(scenario, checker);
    }
}

/// Refuses what reads single uploads, which the key `name` hides from the server.
fn check_hidden_uploads(name: &str, scenario: &Scenario, checker: &mut Checker<'_>) {
    let key = format!("overheads.{name}");
    if let ClientSelection::Oort(_) = scenario.training.client_selection {
        checker.contradiction(
            "training.client_selection",
            &key,
            format!("`oort` reads the loss of each client, which `{name}` hides"),
        );
    }
    if scenario.audit.is_some() {
        checker.contradiction(
            "audit",
            &key,
            format!("the audit reads single uploads, which `{name}` hides"),
        );
    }
    if checker.method.runs_at_server {
        checker.fault(
            &key,
            format!(
                "this method's server trains on the ratings of each user, which `{name}` hides"
            ),
        );
    }
}

/// Adds the keys that hide from the server of a method what it needs, each with what is wrong.
pub(super) fn contradictions(
    traffic: &Traffic,
    overheads: &OverheadsSpec,
    found: &mut Vec<(String, String)>,
) {
    if traffic.has_personal_downloads {
        found.extend(overheads.hiding().map(|name| {
            let message =
                format!("this method's server works with single uploads, which `{name}` hides");
            (format!("overheads.{name}"), message)
        }));
    } else if overheads.secure_aggregation.is_some()
        && traffic.upload_use == UploadUse::Each
        && !traffic.blocks.is_empty()
    {
        let message = "`secure_aggregation` hides all but the sum of the uploads, and this \
                       method's server uses more (such as who sent which row): take \
                       `sends_counts = true` where the method has it";
        found.push((SECURE_AGGREGATION.to_owned(), message.to_owned()));
    }
}

fn check_secure_aggregation(scenario: &Scenario, checker: &mut Checker<'_>) {
    let is_sparse = |choice: &CodecChoice| *choice != CodecChoice::Named(CodecName::DenseF32);
    if scenario.codec.any(Direction::Up, is_sparse) {
        checker.contradiction(
            "codec.uplink",
            SECURE_AGGREGATION,
            "`secure_aggregation` masks the same entries of all clients on one scale, so a \
             client can neither leave out nor scale anything by itself: it needs `codec.uplink = \
             \"dense-f32\"`",
        );
    }
    let mode = &scenario.training.mode;
    if !matches!(mode, Mode::Synchronous | Mode::OverSelection(_)) {
        checker.contradiction(
            "training.mode",
            SECURE_AGGREGATION,
            format!(
                "`secure_aggregation` needs a cohort whose masks cancel in one sum, and in the \
                 mode `{}` the server uses uploads one by one",
                name_of(mode)
            ),
        );
    }
}

fn check_paillier(scenario: &Scenario, checker: &mut Checker<'_>) {
    let codec = &scenario.codec;
    let is_composed = |choice: &CodecChoice| matches!(choice, CodecChoice::Composed(_));
    if codec.any(Direction::Up, is_composed) || codec.any(Direction::Down, is_composed) {
        checker.contradiction(
            "codec",
            PAILLIER,
            "`paillier` encrypts every value by itself, so coding values together saves nothing: \
             it needs `dense-f32` or `rows-f32`, or `sparse-f32` for uploads",
        );
    }
    let is_sparse = |choice: &CodecChoice| *choice == CodecChoice::Named(CodecName::SparseF32);
    if codec.any(Direction::Down, is_sparse) {
        checker.contradiction(
            "codec.downlink",
            PAILLIER,
            "a server that has ciphertexts alone cannot leave out values that are 0",
        );
    }
}
