//! Devices of users as a file lists them.

use std::io::BufRead;
use std::path::Path;

use super::columns::{self, Row, Users};
use fedrecsim_core::{Result, UserId};

/// The devices of a trace, by user.
#[derive(Debug, PartialEq)]
pub(super) struct DeviceTrace {
    devices: Vec<TracedDevice>,
}

/// A device as a class, or a line of the file, describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TracedDevice {
    pub ns_per_row_visit: f64,
    pub memory_mb: Option<f64>,
    pub ns_per_multiply_add: Option<f64>,
    /// Milliseconds that every participation takes.
    pub fixed_ms: Option<f64>,
}

impl DeviceTrace {
    /// Reads `text`, whose faults are reported under `path`.
    pub(super) fn parse((text, run): (impl BufRead, &Users<'_>), path: &Path) -> Result<Self> {
        let names = [
            "user",
            "ns_per_row_visit",
            "memory_mb",
            "ns_per_multiply_add",
            "fixed_ms_per_participation",
        ];
        let parse = |row: &Row<'_>| {
            let not_negative = |column| {
                row.has(column)
                    .then(|| row.not_negative(column, 1e9))
                    .transpose()
            };
            Ok(TracedDevice {
                ns_per_row_visit: row.positive(1, 1e12)?,
                memory_mb: row.has(2).then(|| row.positive(2, 1e9)).transpose()?,
                ns_per_multiply_add: not_negative(3)?,
                fixed_ms: not_negative(4)?,
            })
        };
        let devices = columns::read_users(
            (text, run),
            path,
            names,
            2,
            parse,
            |lines| match lines[..] {
                [(first, _), (second, _), ..] => {
                    let fault =
                        format!("stands here for the second time; the first is line {first}");
                    Err((second, fault))
                }
                _ => Ok(lines[0].1),
            },
        )?;
        Ok(Self { devices })
    }

    /// Feeds the trace to `sink`, as little-endian bytes in a fixed order.
    pub(super) fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        for device in &self.devices {
            sink(&device.ns_per_row_visit.to_bits().to_le_bytes());
            for number in [
                device.memory_mb,
                device.ns_per_multiply_add,
                device.fixed_ms,
            ] {
                sink(&number.map_or(u64::MAX, f64::to_bits).to_le_bytes());
            }
        }
    }

    /// Returns the device of `user`.
    pub(super) fn of(&self, user: UserId) -> TracedDevice {
        self.devices[user.index() % self.devices.len()]
    }
}
