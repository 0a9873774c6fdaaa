//! How much memory a device takes after many participations, found out by a few trainings.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::rehearsal::representatives;
use crate::device::Device;
use crate::download::Download;
use crate::invitation::Invited;
use crate::world::World;
use fedrecsim_core::{InvitationId, Result, Step, UserId};
use fedrecsim_model::{Archive, StateVisitor};

/// Trains every representative `participations` times, until `time` is over, and returns the bytes
/// that a device keeps after them, as the mean over the representatives.
///
/// # Errors
/// Those of the method, which may fail for want of negatives, say.
pub(crate) fn bytes_of_a_device(world: &World, participations: u32, time: Duration) -> Result<u64> {
    if participations == 0 {
        return Ok(0);
    }
    let first = Arc::new(Download::first(world)?);
    let representatives = representatives(world);
    let users: Vec<UserId> = representatives.iter().map(|of| of.user).collect();
    let each = time / users.len().max(1) as u32;
    let mut bytes = 0;
    for (position, &user) in users.iter().enumerate() {
        let began = Instant::now();
        let neighbour = users[(position + 1) % users.len()];
        // What a device shares with others, such as the table that it downloaded, is not its own.
        let mut other = trained_once_more(world, (neighbour, 1), None, &first)?;
        let mut device = Device::new(user, world);
        let mut sizes = vec![size_of_device(&mut device, &mut other)?];
        while sizes.len() as u64 <= u64::from(participations) && began.elapsed() < each {
            // The model stays as it was at first, so that training may diverge where it would not
            // in the run.
            let Ok(trained) =
                trained_once_more(world, (user, sizes.len() as u32), Some(device), &first)
            else {
                break;
            };
            device = trained;
            sizes.push(size_of_device(&mut device, &mut other)?);
        }
        bytes += extrapolated(&sizes, participations);
    }
    Ok(bytes / users.len().max(1) as u64)
}

/// Returns the size after `participations`. `sizes` has those after the first ones. Every
/// participation adds less than the one before, so growth is taken to shrink on as it did.
fn extrapolated(sizes: &[u64], participations: u32) -> u64 {
    let last = sizes.last().copied().unwrap_or(0) as f64;
    let missing = (u64::from(participations) + 1).saturating_sub(sizes.len() as u64);
    let growth = |from: usize| {
        sizes
            .get(from + 1)
            .zip(sizes.get(from))
            .map(|(next, size)| *next as f64 - *size as f64)
    };
    let (Some(first), Some(latest)) = (growth(1), growth(sizes.len().saturating_sub(2))) else {
        // Nothing is known but the first participation, whose growth is that of a device that had
        // nothing.
        return last as u64;
    };
    let steps = sizes.len().saturating_sub(3).max(1) as f64;
    let shrinks_by = if first > 0.0 {
        (latest / first).clamp(0.0, 1.0).powf(1.0 / steps)
    } else {
        0.0
    };
    let grown = if shrinks_by < 1.0 {
        latest * shrinks_by * (1.0 - shrinks_by.powf(missing as f64)) / (1.0 - shrinks_by)
    } else {
        latest * missing as f64
    };
    (last + grown.max(0.0)) as u64
}

/// Returns a device after another training with this download.
fn trained_once_more(
    world: &World,
    (user, number): (UserId, u32),
    device: Option<Box<Device>>,
    download: &Arc<Download>,
) -> Result<Box<Device>> {
    let invited = Invited::alone(user, Step(number), InvitationId(number), download);
    let worked = invited.work_out(device, world, &AtomicBool::default());
    worked.result.map(|(device, _)| device)
}

/// Returns the bytes that a device keeps and does not share with another one. An archive has what
/// is shared only once.
fn size_of_device(device: &mut Device, other: &mut Device) -> Result<u64> {
    let mut archive = Archive::default();
    other.visit_state(&mut StateVisitor::Save(&mut archive))?;
    let before = archive.pending();
    device.visit_state(&mut StateVisitor::Save(&mut archive))?;
    Ok((archive.pending() - before) as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::small;

    /// If this fails, the memory of a long run is taken for that of its first rounds, or for one
    /// that grows forever.
    #[test]
    fn what_devices_keep_grows_on_as_it_has_grown() {
        // Every participation adds half of what the one before it has added.
        assert_eq!(extrapolated(&[0, 100, 150, 175], 4), 187);
        assert_eq!(extrapolated(&[0, 100, 150, 175], 1000), 200);
        assert_eq!(extrapolated(&[0, 10, 20, 30], 10), 100);
        assert_eq!(extrapolated(&[0, 100, 150, 175], 3), 175);
        assert_eq!(extrapolated(&[0, 100, 100, 100], 1000), 100);
        assert_eq!(
            extrapolated(&[0, 100], 1000),
            100,
            "nothing is known of how it grows"
        );
    }

    /// If this fails, the memory of devices is estimated as that of all representatives together,
    /// or of none.
    #[test]
    fn a_device_keeps_what_its_method_keeps_for_one_user() {
        let world = small::world(&["method={ fedmf = { latent_dimension = 32 } }"]);
        let bytes = bytes_of_a_device(&world, 1, Duration::ZERO).unwrap();
        // A vector of 32 numbers, and little beside it.
        assert!((128..400).contains(&bytes), "{bytes}");
        assert_eq!(bytes_of_a_device(&world, 0, Duration::ZERO).unwrap(), 0);
    }
}
