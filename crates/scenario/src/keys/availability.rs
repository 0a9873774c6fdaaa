//! `[availability]`: when users can take part.

use std::path::PathBuf;

use serde_json::json;

use super::{Scenario, is_default, name_of, without_default};
use crate::check::Checker;
use crate::{keys, presets, variants};

keys! {
    /// When users can take part; at any time if absent.
    pub struct AvailabilitySpec {
        /// The pattern to start from; `fedrecsim presets` lists them with their sources.
        #[schemars(extend("oneOf" = presets::names("availability")))]
        preset: Option<String> = None;
        /// The pattern.
        pattern: AvailabilityPattern = AvailabilityPattern::Always;
    }
}

variants! {
    /// When users can take part.
    pub enum AvailabilityPattern {
        /// At any time.
        Always,
        /// In a window of the local day.
        Daily(DailySpec),
        /// In stays of random length with random gaps between them.
        OnOff(OnOffSpec),
        /// In the stays that a file lists, with a line for each: `user,on,off`, both in seconds.
        /// A user whose only line has nothing in these two columns is never there.
        /// Users are numbered from 0 without gaps; those beyond the last one start again with the
        /// first. A column `name` in place of `user` has names of the ratings file; every user of the run is then there.
        Trace {
            /// The file, as it is or below a data folder.
            #[schemars(length(min = 1))]
            path: PathBuf,
            /// The trace starts again after this many seconds. Without it, at its last `off`.
            #[schemars(range(min = 1e-9, max = 1e9))]
            period_s: Option<f64>,
        },
    }
}

keys! {
    /// A window of local time, every day. Virtual time 0 is midnight in the time zone with offset
    /// 0. Keys that are not given are those of the preset, or of `night-charging` without one.
    pub struct DailySpec {
        /// Length of the window, in hours; 24 is always.
        hours_on: f64 = 8.0, > 0.0, <= 24.0;
        /// The local hour when the window opens.
        starts_at_hour: f64 = 22.0, >= 0.0, < 24.0;
        /// Each user's window opens earlier or later by up to this many hours, uniformly, and every
        /// day alike.
        jitter_hours: f64 = 2.0, >= 0.0, <= 12.0;
        /// The users' time zones as hours ahead of offset 0, equally likely. Without it, the 24
        /// whole hours from -11 to 12.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(length(min = 1, max = 64), inner(range(min = -24, max = 24)))]
        #[schemars(transform = without_default)]
        utc_offsets: Vec<f64> = Vec::new();
    }
}

impl DailySpec {
    /// Returns the time zones, all equally likely.
    pub fn offsets(&self) -> Vec<f64> {
        if self.utc_offsets.is_empty() {
            (-11..=12).map(f64::from).collect()
        } else {
            self.utc_offsets.clone()
        }
    }
}

keys! {
    /// Alternation of stays and gaps, both exponential: a two-state Markov chain, stationary from
    /// the start. Without a preset it needs both means.
    #[derive(Copy)]
    pub struct OnOffSpec {
        /// Mean length of a stay, in seconds.
        #[schemars(transform = without_default)]
        mean_on_s: f64 = 0.0, >= 1.0, <= 1e9;
        /// Mean length of a gap, in seconds.
        #[schemars(transform = without_default)]
        mean_off_s: f64 = 0.0, >= 1.0, <= 1e9;
    }
}

pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let AvailabilitySpec { preset, pattern } = &scenario.availability;
    let under = presets::under("availability", &json!({ "preset": preset }));
    let of_preset = under.and_then(|keys| keys.get("pattern")).map(name_of);
    if let Some(preset) = preset
        && of_preset.is_some_and(|name| name != name_of(pattern))
    {
        checker.fault(
            "availability.pattern",
            format!("`pattern` would leave nothing of the preset `{preset}`: keep one of them"),
        );
    }
    match pattern {
        AvailabilityPattern::Always => checker.idle_if(
            true,
            "training.waiting_limit_s",
            "all users are always available, so that the server waits for nobody",
        ),
        AvailabilityPattern::Daily(daily) => {
            for key in ["starts_at_hour", "jitter_hours", "utc_offsets"] {
                checker.idle_if(
                    daily.hours_on == 24.0,
                    &format!("availability.pattern.daily.{key}"),
                    "`hours_on` is 24, so that users are always available",
                );
            }
        }
        AvailabilityPattern::OnOff(on_off) => {
            for (key, mean) in [
                ("mean_on_s", on_off.mean_on_s),
                ("mean_off_s", on_off.mean_off_s),
            ] {
                let is_written = checker
                    .file
                    .has(&format!("availability.pattern.on-off.{key}"));
                if mean == 0.0 && !is_written {
                    checker.fault(
                        "availability.pattern.on-off",
                        format!("missing key `{key}` in `on-off`"),
                    );
                }
            }
        }
        AvailabilityPattern::Trace { .. } => {}
    }
}
