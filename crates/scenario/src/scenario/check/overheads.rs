//! Rules for the overheads of encryption, which not every codec, mode and method can have.

use super::super::modes::{ClientSelection, Mode};
use super::super::spec::{CodecChoice, CodecName, CodecSpec, OverheadsSpec, TrainingSpec};
use super::super::traffic::Traffic;
use super::Checker;

const SECURE_AGGREGATION: &[&str] = &["overheads", "secure_aggregation"];
const PAILLIER: &[&str] = &["overheads", "paillier"];

/// What stands beside the overheads in a scenario.
pub(super) struct Beside<'a> {
    pub codec: &'a CodecSpec,
    pub training: &'a TrainingSpec,
    /// Whether the method trains at the server, on the ratings that users send.
    pub runs_at_server: bool,
    pub has_audit: bool,
    /// What the method exchanges, if that can be told.
    pub traffic: Option<&'a Traffic>,
}

impl Checker<'_> {
    /// Checks that what would be encrypted can be.
    pub(super) fn overheads(&mut self, overheads: &OverheadsSpec, beside: &Beside<'_>) {
        if overheads.secure_aggregation.is_some() {
            self.secure_aggregation(beside);
            if overheads.paillier.is_some() {
                self.fault(
                    PAILLIER,
                    "`paillier` and `secure_aggregation` hide the same uploads; choose one of them",
                );
            }
        }
        if overheads.paillier.is_some() {
            self.paillier(beside.codec);
        }
        for (is_used, key) in [
            (overheads.secure_aggregation.is_some(), SECURE_AGGREGATION),
            (overheads.paillier.is_some(), PAILLIER),
        ] {
            if is_used {
                self.hidden_uploads(key, beside);
            }
        }
    }

    /// Refuses what reads single uploads, which `key` hides from the server.
    fn hidden_uploads(&mut self, key: &[&str], beside: &Beside<'_>) {
        let Beside {
            training,
            runs_at_server,
            has_audit,
            traffic,
            ..
        } = *beside;
        let name = key.last().copied().unwrap_or_default();
        if matches!(training.client_selection, ClientSelection::Oort(_)) {
            let message = format!("`oort` reads the loss of each client, which `{name}` hides");
            self.contradiction(&["training", "client_selection"], key, message);
        }
        if has_audit {
            let message =
                format!("the audit reads single uploads, which `{name}` hides from the server");
            self.contradiction(&["audit"], key, message);
        }
        if runs_at_server {
            self.fault(
                key,
                format!(
                    "this method's server trains on the ratings of each user, which `{name}` hides"
                ),
            );
        } else if traffic.is_some_and(|traffic| traffic.has_personal_downloads) {
            let message = format!(
                "this method's server works with each client apart, and `{name}` hides single uploads"
            );
            self.fault(key, message);
        }
    }

    fn secure_aggregation(&mut self, beside: &Beside<'_>) {
        let Beside {
            codec,
            training,
            traffic,
            runs_at_server,
            ..
        } = *beside;
        let uplinks = codec
            .uplinks_of_blocks()
            .map(|(_, choice)| choice)
            .chain([&codec.uplink]);
        if uplinks
            .into_iter()
            .any(|choice| *choice != CodecChoice::Named(CodecName::DenseF32))
        {
            let message = "`secure_aggregation` adds masks to the same entries of all clients on one scale, so that \
                           nothing may be left out by what a client has, and no row or block has a scale of its own: it \
                           needs `codec.uplink = \"dense-f32\"`";
            self.contradiction(&["codec", "uplink"], SECURE_AGGREGATION, message);
        }
        if !matches!(training.mode, Mode::Synchronous | Mode::OverSelection(_)) {
            let mode = training.mode.key();
            let message = format!(
                "`secure_aggregation` needs a cohort whose masks cancel in one sum, and in the mode `{mode}` the \
                 server uses uploads one by one"
            );
            self.contradiction(&["training", "mode"], SECURE_AGGREGATION, message);
        }
        let is_told_apart = traffic.is_some_and(|traffic| traffic.has_personal_downloads);
        if let (Some(message), false, false) = (
            traffic.and_then(Traffic::without_hidden_uploads),
            is_told_apart,
            runs_at_server,
        ) {
            self.fault(SECURE_AGGREGATION, message);
        }
    }

    fn paillier(&mut self, codec: &CodecSpec) {
        let of_blocks = codec
            .uplinks_of_blocks()
            .chain(codec.downlinks_of_blocks())
            .map(|(_, choice)| choice);
        if of_blocks
            .chain([&codec.uplink, &codec.downlink])
            .any(|choice| matches!(choice, CodecChoice::Composed(_)))
        {
            let message = "`paillier` encrypts every value by itself, so that a codec that codes values together saves \
                           nothing: it needs `dense-f32` or `rows-f32`, or `sparse-f32` for uploads";
            self.contradiction(&["codec"], PAILLIER, message);
        }
        let mut downlinks = codec
            .downlinks_of_blocks()
            .map(|(_, choice)| choice)
            .chain([&codec.downlink]);
        if downlinks.any(|choice| *choice == CodecChoice::Named(CodecName::SparseF32)) {
            let message = "a server that has ciphertexts alone cannot leave out values that are 0";
            self.contradiction(&["codec", "downlink"], PAILLIER, message);
        }
    }
}
