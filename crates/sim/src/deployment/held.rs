//! The versions of the model that devices hold, where the server sends them changes.
//!
//! The server sends changes since the version that it believes a device to have. The device may have
//! a newer one, if its last upload was lost, and skips the changes that led to that.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::download::{Download, Version};
use crate::world::World;
use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_methods::Phase;
use fedrecsim_model::archive::damaged;
use fedrecsim_model::codec::{self, Beginning, BlockCodecs, Frame};
use fedrecsim_model::{Archive, ArchiveReader, Model};
use fedrecsim_scenario::CodecName;

/// The version that each user holds of each sequence of downloads. Users who hold the same one
/// share its memory.
#[derive(Default)]
pub(super) struct Held {
    of_users: BTreeMap<(Phase, UserId), Arc<Version>>,
    newest: BTreeMap<Phase, Arc<Version>>,
}

impl Held {
    /// Appends the versions and who holds them. One that several users hold is written once.
    pub(super) fn save(&self, archive: &mut Archive) {
        let versions: BTreeMap<(Phase, u32), &Arc<Version>> = self
            .of_users
            .iter()
            .map(|((phase, _), version)| ((*phase, version.number()), version))
            .collect();
        archive.put(&(versions.len() as u64));
        for ((phase, _), version) in versions {
            archive.put(&phase.0);
            version.save(archive);
        }
        let holders = self.of_users.iter();
        let holders = holders.map(|((phase, user), version)| (phase.0, *user, version.number()));
        archive.put(&holders.collect::<Vec<_>>());
    }

    /// Reads what [`Self::save`] appended, of the users in `own`.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(super) fn restore(
        &mut self,
        archive: &mut ArchiveReader,
        own: &Range<u32>,
        world: &World,
    ) -> Result<()> {
        let count: u64 = archive.take()?;
        let mut versions = BTreeMap::new();
        for _ in 0..count {
            let phase: u8 = archive.take()?;
            if usize::from(phase) >= world.phases() {
                return Err(damaged(
                    "a version of a phase that the method does not have",
                ));
            }
            let layout = world.shared_layout(Phase(phase));
            let version = Arc::new(Version::restore(archive, layout)?);
            versions.insert((phase, version.number()), version);
        }
        let holders: Vec<(u8, UserId, u32)> = archive.take()?;
        for (phase, user, number) in holders {
            let version = versions.get(&(phase, number));
            let version = version.ok_or_else(|| damaged("a version that is not there"))?;
            if own.contains(&user.0) {
                self.of_users
                    .insert((Phase(phase), user), Arc::clone(version));
            }
        }
        Ok(())
    }

    /// Has these users hold nothing.
    pub(super) fn forget(&mut self, users: &Range<u32>) {
        self.of_users
            .retain(|(_, holder), _| !users.contains(&holder.0));
    }

    /// Takes in the changes that `user` has received, and returns the download that they lead to.
    ///
    /// # Errors
    /// [`Error::Frame`] for a frame that is no bundle of changes, or one that the user cannot use.
    pub(super) fn download(
        &mut self,
        user: UserId,
        (number, phase): (u32, Phase),
        frame: &Frame,
        world: &World,
    ) -> Result<Arc<Download>> {
        let sequence = world.download_sequence(phase);
        let (beginning, changes) = codec::unbundle(&frame.bytes)?;
        let newest = self.newest.get(&sequence);
        let version = match newest.filter(|newest| newest.number() == number) {
            // The server's versions of one number are equal, and a receiver of any bundle gets there.
            Some(newest) => Arc::clone(newest),
            None => {
                let held = self.of_users.get(&(sequence, user));
                let held = held.map(|version| (version.number(), version.model()));
                let model = upgraded(held, beginning, &changes, sequence, world)?;
                let layout = world.shared_layout(sequence).clone();
                Arc::new(Version::first(number, model, layout))
            }
        };
        self.newest.insert(sequence, Arc::clone(&version));
        self.of_users.insert((sequence, user), Arc::clone(&version));
        Ok(Arc::new(Download::of_bundle(
            version,
            phase,
            frame.clone(),
            world,
        )))
    }
}

/// Applies changes to the version that a device holds, or to what they begin with.
fn upgraded(
    held: Option<(u32, &Model)>,
    beginning: Beginning,
    changes: &[(u32, bytes::Bytes)],
    phase: Phase,
    world: &World,
) -> Result<Model> {
    let layout = world.shared_layout(phase);
    let (mut model, skipped, first) = match (beginning, held) {
        (Beginning::Held, Some((number, model))) => {
            let known = changes.partition_point(|(change, _)| *change <= number);
            (model.clone(), known, None)
        }
        (Beginning::Held, None) => {
            let reason = "changes to a version that the device does not have";
            return Err(Error::Frame(reason.to_owned()));
        }
        (Beginning::Seed(_), _) => (Version::drawn(phase, world)?, 0, None),
        (Beginning::Whole, _) => (
            Model::none(),
            0,
            Some(BlockCodecs::every(CodecName::SparseF32)),
        ),
    };
    let mut first = first.as_ref();
    for (_, frame) in &changes[skipped..] {
        let codecs = first.take().unwrap_or(&world.downlink);
        model = codecs
            .decode(frame, layout, &model)?
            .apply(layout, &model)?;
    }
    Ok(model)
}
