//! The carbon intensity of the electricity of devices and server.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::availability::Daily;
use crate::records::malformed;
use fedrecsim_core::{Error, Result, SimTime, UserId};
use fedrecsim_scenario::CarbonSpec;

const HOUR_NS: u64 = 3_600_000_000_000;
const HOURS: usize = 24;
const J_PER_KWH: f64 = 3.6e6;

/// The grams of CO2 for a kilowatt-hour, by time zone and local hour of the day.
#[derive(Debug, PartialEq)]
pub(super) struct CarbonTrace {
    /// Each time zone, as hours ahead of offset 0, with its hours.
    zones: Vec<(f64, [f64; HOURS])>,
}

/// A line of the file.
#[derive(Deserialize)]
struct Line {
    utc_offset: f64,
    hour: u8,
    g_per_kwh: f64,
}

impl CarbonTrace {
    /// Reads `text`, whose faults are reported under `path`.
    ///
    /// # Errors
    /// [`Error::MalformedLine`] for a line that has another form, an hour that stands there twice, and a
    /// time zone with missing hours.
    pub(super) fn parse(text: impl BufRead, path: &Path) -> Result<Self> {
        let mut zones: Vec<(f64, [Option<f64>; HOURS])> = Vec::new();
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .from_reader(text);
        let mut last = 1;
        for row in reader.deserialize() {
            let Line {
                utc_offset,
                hour,
                g_per_kwh,
            } = row.map_err(|reason: csv::Error| {
                let line = reason.position().map_or(last, csv::Position::line);
                malformed(path, line, reason.to_string())
            })?;
            last += 1;
            let refuse = |message: String| Err(malformed(path, last, message));
            if !(-24.0..=24.0).contains(&utc_offset) {
                return refuse(format!(
                    "expected a time zone from -24 to 24, found {utc_offset}"
                ));
            }
            if !(0.0..=1e6).contains(&g_per_kwh) {
                return refuse(format!("expected grams from 0 to 1e6, found {g_per_kwh}"));
            }
            let place = match zones.iter().position(|(zone, _)| *zone == utc_offset) {
                Some(place) => place,
                None => {
                    zones.push((utc_offset, [None; HOURS]));
                    zones.len() - 1
                }
            };
            match zones[place].1.get_mut(usize::from(hour)) {
                None => return refuse(format!("expected an hour from 0 to 23, found {hour}")),
                Some(Some(_)) => {
                    return refuse(format!(
                        "hour {hour} of time zone {utc_offset} stands here for the second time"
                    ));
                }
                Some(grams) => *grams = Some(g_per_kwh),
            }
        }
        let whole = |(zone, hours): &(f64, [Option<f64>; HOURS])| {
            if let Some(missing) = hours.iter().position(Option::is_none) {
                let message = format!("time zone {zone} has no line for hour {missing}");
                return Err(malformed(path, last, message));
            }
            Ok((*zone, hours.map(Option::unwrap_or_default)))
        };
        let zones = zones.iter().map(whole).collect::<Result<Vec<_>>>()?;
        match zones.is_empty() {
            true => Err(Error::read(path, "the file has no line below its header")),
            false => Ok(Self { zones }),
        }
    }

    /// Returns the hours of a time zone.
    fn zone(&self, offset: f64, path: &Path) -> Result<[f64; HOURS]> {
        let found = self.zones.iter().find(|(zone, _)| *zone == offset);
        found.map(|(_, hours)| *hours).ok_or_else(|| {
            let known: Vec<String> = self
                .zones
                .iter()
                .map(|(zone, _)| zone.to_string())
                .collect();
            let known = known.join(", ");
            Error::Usage(format!(
                "carbon.path: {} has no time zone {offset}, which the run needs; it has {known}",
                path.display()
            ))
        })
    }

    /// Feeds the trace to `sink`, as little-endian bytes in a fixed order.
    pub(super) fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        for (zone, hours) in &self.zones {
            for number in [zone].into_iter().chain(hours) {
                sink(&number.to_bits().to_le_bytes());
            }
        }
    }
}

/// What the electricity of devices and server emits.
#[derive(Clone, Debug)]
pub enum Carbon {
    /// The same grams for a kilowatt-hour everywhere and at any time.
    Everywhere(f64),
    /// Grams by local hour.
    ByHour(Arc<ByHour>),
}

/// Grams by local hour, for the time zones of a run.
#[derive(Debug)]
pub struct ByHour {
    zones: Vec<(f64, [f64; HOURS])>,
    /// The users' time zones; all are at offset 0 without them.
    daily: Option<Daily>,
    server: (f64, [f64; HOURS]),
}

impl Carbon {
    /// Returns what `spec` says; `None` if it says nothing. The users' time zones are those of `daily`.
    ///
    /// # Errors
    /// [`Error::Usage`] for a file that was not read, or lacks a time zone of the run.
    pub(super) fn new(
        spec: &CarbonSpec,
        trace: Option<Arc<CarbonTrace>>,
        (daily, offsets): (Option<Daily>, Vec<f64>),
    ) -> Result<Option<Self>> {
        if let Some(path) = &spec.path {
            let trace = super::was_read(trace, path)?;
            let of = |offset: &f64| Ok((*offset, trace.zone(*offset, path)?));
            return Ok(Some(Self::ByHour(Arc::new(ByHour {
                zones: offsets.iter().map(of).collect::<Result<_>>()?,
                daily,
                server: of(&spec.server_utc_offset)?,
            }))));
        }
        Ok(spec.g_per_kwh.map(Self::Everywhere))
    }

    /// Returns the grams that a device of `user` emits with `joules` at an instant.
    pub fn of_device(&self, user: UserId, at: SimTime, joules: f64) -> f64 {
        let g_per_kwh = match self {
            Self::Everywhere(grams) => *grams,
            Self::ByHour(by_hour) => {
                let daily = by_hour.daily.as_ref();
                let zone = daily.map_or(0.0, |daily| daily.zone(user).0);
                let known = by_hour.zones.iter().find(|(offset, _)| *offset == zone);
                // Every time zone of the run was looked up when it began.
                known.map_or(0.0, |hours| at_local_hour(hours, at.as_nanos()))
            }
        };
        joules / J_PER_KWH * g_per_kwh
    }

    /// Returns the grams that a server of this power emits between two instants.
    pub fn of_server(&self, power_w: f64, (from, until): (SimTime, SimTime)) -> f64 {
        let grams = |nanoseconds: u64, g_per_kwh: f64| {
            power_w * (nanoseconds as f64 / 1e9) / J_PER_KWH * g_per_kwh
        };
        let (mut now, end) = (from.as_nanos(), until.as_nanos());
        match self {
            Self::Everywhere(g_per_kwh) => grams(end - now, *g_per_kwh),
            Self::ByHour(by_hour) => {
                let mut sum = 0.0;
                // Local hours begin within an hour of offset 0 where the offset is no whole number.
                let ahead_ns = (by_hour.server.0 * HOUR_NS as f64) as i64;
                let ahead_ns = ahead_ns.rem_euclid(HOUR_NS as i64) as u64;
                while now < end {
                    let into_hour = (now % HOUR_NS + ahead_ns) % HOUR_NS;
                    let next = now.saturating_add(HOUR_NS - into_hour).min(end);
                    sum += grams(next - now, at_local_hour(&by_hour.server, now));
                    now = next;
                }
                sum
            }
        }
    }
}

/// Returns the grams at an instant. Virtual time 0 is midnight at offset 0.
fn at_local_hour((offset, hours): &(f64, [f64; HOURS]), nanoseconds: u64) -> f64 {
    let since_midnight = nanoseconds % (HOURS as u64 * HOUR_NS);
    let local = since_midnight as f64 / HOUR_NS as f64 + offset + 2.0 * HOURS as f64;
    hours[local as usize % HOURS]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Returns a file of two time zones, whose grams are 100 a local hour, and 10 more in the second.
    fn file() -> String {
        let lines = [(0.0, 0), (5.5, 10)].map(|(offset, more)| {
            let line = |hour: u32| format!("{offset},{hour},{}\n", 100 * hour + more);
            (0..24).map(line).collect::<String>()
        });
        format!("utc_offset,hour,g_per_kwh\n{}", lines.concat())
    }

    fn parse(text: &str) -> Result<CarbonTrace> {
        CarbonTrace::parse(text.as_bytes(), Path::new("carbon.csv"))
    }

    fn carbon(server_utc_offset: f64) -> Result<Option<Carbon>> {
        let spec = CarbonSpec {
            path: Some("carbon.csv".into()),
            server_utc_offset,
            ..CarbonSpec::default()
        };
        let trace = Some(Arc::new(parse(&file())?));
        Carbon::new(&spec, trace, (None, vec![0.0]))
    }

    /// If this fails, electricity of the night is counted as that of the day, or in another time zone.
    #[test]
    fn grams_are_those_of_the_local_hour() {
        let hour = |hours: f64| SimTime::from_nanos((hours * HOUR_NS as f64) as u64);
        let of_device = |at| {
            let carbon = carbon(5.5).unwrap().unwrap();
            carbon.of_device(UserId(0), hour(at), J_PER_KWH).round()
        };
        assert_eq!([0.5, 7.0, 31.9].map(of_device), [0.0, 700.0, 700.0]);
        // From 1:15 to 3:45 at offset 0, the server's clock shows 6:45 to 9:15. Its hours change at half past.
        let carbon = carbon(5.5).unwrap().unwrap();
        let grams = carbon.of_server(1000.0, (hour(1.25), hour(3.75)));
        assert!(
            (grams - (0.25 * 610.0 + 710.0 + 810.0 + 0.25 * 910.0)).abs() < 1e-6,
            "{grams}"
        );
    }

    /// If this fails, a file with a fault is read as another one.
    #[test]
    fn faults_are_named_with_their_line() {
        let without = |line: &str| file().replace(line, "");
        for (text, expected) in [
            (without("0,7,700\n"), "time zone 0 has no line for hour 7"),
            (
                file() + "0,7,1\n",
                "carbon.csv:50: hour 7 of time zone 0 stands here for the second time",
            ),
            (
                file() + "1,24,1\n",
                "expected an hour from 0 to 23, found 24",
            ),
            (file() + "1,x,1\n", "carbon.csv:50"),
            (file() + "99,0,1\n", "expected a time zone"),
            (file() + "1,0,-1\n", "expected grams"),
            ("utc_offset,hour\n0,1\n".to_owned(), "g_per_kwh"),
            (
                "utc_offset,hour,g_per_kwh\n".to_owned(),
                "no line below its header",
            ),
        ] {
            let fault = parse(&text).unwrap_err().to_string();
            assert!(fault.contains(expected), "{fault}");
        }
        let fault = carbon(3.0).unwrap_err().to_string();
        assert!(
            fault.contains("no time zone 3, which the run needs; it has 0, 5.5"),
            "{fault}"
        );
    }
}
