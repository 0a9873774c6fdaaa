//! What travels in each phase of a method.

use fedrecsim_core::legs::{Downloads, Leg};
use fedrecsim_methods::{Class, Exchange, Method, Phase};
use fedrecsim_model::Layout;
use fedrecsim_model::codec::BlockCodecs;

/// The frames that travel in a phase of a method, and the order of a participation's legs.
#[derive(Clone, Debug)]
pub(super) struct PhaseLayouts {
    /// The downloads of each class of users.
    pub downloads: Vec<Layout>,
    /// The uploads of each class.
    pub uploads: Vec<Layout>,
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
        let classes: Vec<Class> = method.classes().all().collect();
        let layouts = |phase| {
            let upload = |class: &Class| {
                let mut layout = method.upload_layout(phase, *class);
                layout.reports_utility = reports_utility;
                layout
            };
            let download = |class: &Class| method.download_layout(phase, *class);
            let downloads: Vec<Layout> = classes.iter().map(download).collect();
            let exchange = method.exchange(phase);
            // The blocks of all classes have the same kinds.
            let (first, mut blocks) = (&downloads[0], downloads[0].blocks().iter());
            let kind = if first.is_empty() {
                Downloads::Nothing
            } else if blocks.any(|block| downlink.sends_needed_rows_of(block)) {
                Downloads::AskedRows
            } else {
                Downloads::Model
            };
            let legs = Leg::of_participation(kind, exchange.is_some());
            Self {
                uploads: classes.iter().map(upload).collect(),
                downloads,
                exchange,
                legs,
            }
        };
        (0..method.phases()).map(Phase).map(layouts).collect()
    }
}
