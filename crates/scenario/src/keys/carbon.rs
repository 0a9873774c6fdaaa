//! `[carbon]`: what the electricity of devices and server emits.

use std::path::PathBuf;

use super::Scenario;
use crate::check::Checker;
use crate::keys;

keys! {
    /// The carbon dioxide that electricity stands for, where the scenario states energy; not
    /// reported if absent.
    pub struct CarbonSpec {
        /// Grams for a kilowatt-hour, everywhere and at any time.
        g_per_kwh: Option<f64> = None, >= 0.0, <= 1e6;
        /// A file with the grams by time zone and hour of the day, as it is or below a data folder:
        /// `utc_offset,hour,g_per_kwh`, with all 24 local hours of each time zone. Users have the
        /// time zones of `availability.pattern.daily`; without it all are at offset 0.
        #[schemars(length(min = 1))]
        path: Option<PathBuf> = None;
        /// The time zone of the server, as hours ahead of offset 0, for such a file.
        server_utc_offset: f64 = 0.0, >= -24.0, <= 24.0;
    }
}

pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let CarbonSpec {
        g_per_kwh, path, ..
    } = &scenario.carbon;
    checker.refuse_if(
        g_per_kwh.is_some() && path.is_some(),
        "carbon.g_per_kwh",
        "`carbon.path` has the grams of every hour: leave out one of the two",
    );
    checker.refuse_if(
        checker.file.has("carbon") && g_per_kwh.is_none() && path.is_none(),
        "carbon",
        "it says no carbon intensity: give `g_per_kwh`, or the file `path`",
    );
    checker.idle_if(
        path.is_none(),
        "carbon.server_utc_offset",
        "the carbon intensity is the same everywhere",
    );
    checker.idle_if(
        !scenario.devices.states_energy() && scenario.server.power_w.is_none(),
        "carbon",
        "neither `devices` nor `server` states any energy",
    );
}
