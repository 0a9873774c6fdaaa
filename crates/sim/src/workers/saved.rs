//! The devices in a checkpoint: one after the other, with their users, and then what other
//! processes have written.

use std::collections::BTreeSet;

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

/// Takes over the device of a user.
pub type Keep<'a> = dyn FnMut(UserId, Box<Device>) -> Result<()> + 'a;

/// Makes the device of a user, as it is before its first participation.
pub(crate) type Make<'a> = dyn Fn(UserId) -> Result<Box<Device>> + 'a;

/// Reads devices up to their end, and gives each to `keep`.
///
/// # Errors
/// [`Error::Unrestorable`] if the archive holds something else, and those of `keep`.
pub fn take_devices(archive: &mut ArchiveReader, world: &World, keep: &mut Keep<'_>) -> Result<()> {
    let make = |user: UserId| match user.index() < world.dataset.users() {
        true => Ok(Device::new(user, world)),
        false => Err(Error::Unrestorable(format!(
            "it has parameters of {user}, who is not there"
        ))),
    };
    take_each(archive, &make, keep)
}

fn take_each(archive: &mut ArchiveReader, make: &Make<'_>, keep: &mut Keep<'_>) -> Result<()> {
    while let Some(user) = archive.take::<Option<UserId>>()? {
        let mut device = make(user)?;
        device.visit_state(&mut StateVisitor::Restore(archive))?;
        keep(user, device)?;
    }
    Ok(())
}

/// Reads all devices of a saved simulation into those that `make` makes, also what other processes have
/// written, and gives each to `keep`. Returns digests of the tables that devices share.
///
/// # Errors
/// As [`take_devices`].
pub(crate) fn take_all(
    archive: &mut ArchiveReader,
    make: &Make<'_>,
    keep: &mut Keep<'_>,
) -> Result<BTreeSet<[u8; blake3::OUT_LEN]>> {
    take_each(archive, make, keep)?;
    let parts: Vec<SavedPart> = archive.take()?;
    let mut shared = archive.shared_tables();
    for SavedPart {
        rank,
        ranks,
        digest,
        ..
    } in parts
    {
        let mut part = archive.part(rank, ranks, &digest)?;
        take_each(&mut part, make, keep)?;
        shared.append(&mut part.shared_tables());
    }
    Ok(shared)
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
    keep: &mut Keep<'_>,
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
