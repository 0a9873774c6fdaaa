//! Rules for the overheads of encryption, which not every codec, mode and method can have.

use super::super::exchanged::Exchanged;
use super::super::modes::{ClientSelection, Mode};
use super::super::spec::{CodecChoice, CodecName, CodecSpec, OverheadsSpec, TrainingSpec};
use super::Checker;

const SECURE_AGGREGATION: &[&str] = &["overheads", "secure_aggregation"];
const PAILLIER: &[&str] = &["overheads", "paillier"];

/// What stands beside the overheads in a scenario.
pub(super) struct Beside<'a> {
    pub codec: &'a CodecSpec,
    pub training: &'a TrainingSpec,
    pub has_audit: bool,
    /// What the method exchanges, if that can be told.
    pub exchanged: Option<&'a Exchanged>,
}

impl Checker<'_> {
    /// Checks that what would be encrypted can be.
    pub(super) fn overheads(&mut self, overheads: &OverheadsSpec, beside: &Beside<'_>) {
        if overheads.secure_aggregation.is_some() {
            self.secure_aggregation(beside);
            if overheads.paillier.is_some() {
                self.fault(PAILLIER, "`paillier` and `secure_aggregation` hide the same uploads; choose one of them");
            }
        }
        if overheads.paillier.is_some() {
            self.paillier(beside.codec);
        }
    }

    fn secure_aggregation(&mut self, beside: &Beside<'_>) {
        let Beside { codec, training, has_audit, exchanged } = *beside;
        let uplinks = codec.uplinks_of_blocks().map(|(_, choice)| choice).chain([&codec.uplink]);
        if uplinks.into_iter().any(|choice| *choice != CodecChoice::Named(CodecName::DenseF32)) {
            let message = "`secure_aggregation` adds masks to the same entries of all clients on one scale, so that nothing \
                           may be left out by what a client has, and no row or block has a scale of its own: it needs \
                           `codec.uplink = \"dense-f32\"`";
            self.contradiction(&["codec", "uplink"], SECURE_AGGREGATION, message);
        }
        if !matches!(training.mode, Mode::Synchronous | Mode::OverSelection(_)) {
            let mode = training.mode.key();
            let message = format!(
                "`secure_aggregation` needs a cohort whose masks cancel in one sum, and in the mode `{mode}` the server \
                 uses uploads one by one"
            );
            self.contradiction(&["training", "mode"], SECURE_AGGREGATION, message);
        }
        if matches!(training.client_selection, ClientSelection::Oort(_)) {
            let message = "`oort` reads the loss of each client, which `secure_aggregation` hides";
            self.contradiction(&["training", "client_selection"], SECURE_AGGREGATION, message);
        }
        if has_audit {
            let message = "the audit reads single uploads, which `secure_aggregation` hides from the server";
            self.contradiction(&["audit"], SECURE_AGGREGATION, message);
        }
        if exchanged.is_some_and(|exchanged| exchanged.has_personal_downloads) {
            let message = "this method's server works with each client apart, and `secure_aggregation` leaves it nothing but \
                           the sum";
            self.fault(SECURE_AGGREGATION, message);
        }
    }

    fn paillier(&mut self, codec: &CodecSpec) {
        let of_blocks = codec.uplinks_of_blocks().chain(codec.downlinks_of_blocks()).map(|(_, choice)| choice);
        if of_blocks.chain([&codec.uplink, &codec.downlink]).any(|choice| matches!(choice, CodecChoice::Composed(_))) {
            let message = "`paillier` encrypts every value by itself, so that a codec that codes values together saves \
                           nothing: it needs `dense-f32`, `rows-f32` or `sparse-f32` in both directions";
            self.contradiction(&["codec"], PAILLIER, message);
        }
    }
}
