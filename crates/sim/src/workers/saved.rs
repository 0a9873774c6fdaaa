//! The devices in a checkpoint: one after the other, with their users, and then what other
//! processes have written.

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::world::World;
use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_model::{Archive, ArchiveReader, StateVisitor};

/// A part of a checkpoint that another process has written, with the devices of its users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPart {
    /// The number of the process.
    pub rank: u32,
    /// The number of all processes.
    pub ranks: u32,
    /// The first user whose device may be in it, and the first one after them.
    pub users: (u32, u32),
    /// The digest of what is in it.
    pub digest: [u8; blake3::OUT_LEN],
}

/// Appends the device of `user`.
///
/// # Errors
/// As [`Device::visit_state`].
pub fn put_device(user: UserId, device: &mut Device, archive: &mut Archive) -> Result<()> {
    archive.put(&Some(user));
    device.visit_state(&mut StateVisitor::Save(archive))
}

/// Appends the end of the devices.
pub fn put_end(archive: &mut Archive) {
    archive.put(&None::<UserId>);
}

/// Reads devices up to their end, and gives each to `keep`.
///
/// # Errors
/// [`Error::Unrestorable`] if the archive holds something else, and those of `keep`.
pub fn take_devices(
    archive: &mut ArchiveReader,
    world: &World,
    keep: &mut dyn FnMut(UserId, Box<Device>) -> Result<()>,
) -> Result<()> {
    while let Some(user) = archive.take::<Option<UserId>>()? {
        if user.index() >= world.dataset.users() {
            return Err(Error::Unrestorable(format!(
                "it has parameters of {user}, who is not there"
            )));
        }
        let mut device = Device::new(user, world);
        device.visit_state(&mut StateVisitor::Restore(archive))?;
        keep(user, device)?;
    }
    Ok(())
}

/// Reads the devices of those `parts` that may hold some of `users`, and gives each to `keep`.
///
/// # Errors
/// As [`take_devices`], and [`Error::Unrestorable`] for a part that is not there or is another one.
pub(crate) fn take_parts(
    parts: &[SavedPart],
    users: &std::ops::Range<u32>,
    archive: &ArchiveReader,
    world: &World,
    keep: &mut dyn FnMut(UserId, Box<Device>) -> Result<()>,
) -> Result<()> {
    for SavedPart {
        rank,
        ranks,
        users: (first, end),
        digest,
    } in parts
    {
        if *first >= users.end || *end <= users.start {
            continue;
        }
        let mut part = archive.part(*rank, *ranks, digest)?;
        take_devices(&mut part, world, &mut |user, device| {
            if users.contains(&user.0) {
                keep(user, device)
            } else {
                Ok(())
            }
        })?;
    }
    Ok(())
}
