//! What travels in each phase of a method.

use fedrecsim_core::legs::{Downloads, Leg};
use fedrecsim_methods::{Exchange, Method, Phase};
use fedrecsim_model::Layout;
use fedrecsim_model::codec::BlockCodecs;

/// The frames that travel in a phase of a method, and the order of a participation's legs.
#[derive(Clone, Debug)]
pub(super) struct PhaseLayouts {
    pub download: Layout,
    pub upload: Layout,
    pub exchange: Option<Exchange>,
    pub legs: Vec<Leg>,
}

impl PhaseLayouts {
    /// Asks `method` for the layouts of all its phases. If `reports_utility`, uploads report their
    /// loss. `downlink` says whether participants ask for rows.
    pub(super) fn of(
        method: &dyn Method,
        reports_utility: bool,
        downlink: &BlockCodecs,
    ) -> Vec<Self> {
        let layouts = |phase| {
            let mut upload = method.upload_layout(phase);
            upload.reports_utility = reports_utility;
            let (download, exchange) = (method.download_layout(phase), method.exchange(phase));
            let mut blocks = download.blocks().iter();
            let downloads = if download.is_empty() {
                Downloads::Nothing
            } else if blocks.any(|block| downlink.sends_needed_rows_of(block)) {
                Downloads::AskedRows
            } else {
                Downloads::Model
            };
            let legs = Leg::of_participation(downloads, exchange.is_some());
            Self {
                download,
                upload,
                exchange,
                legs,
            }
        };
        (0..method.phases()).map(Phase).map(layouts).collect()
    }
}
