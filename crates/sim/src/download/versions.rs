//! The versions of a download whose changes travel (`delta = true` on the downlink).
//!
//! The server keeps a bit-exact copy of the newest version that clients hold. The next version is
//! this one plus the change from it to the server's model, as the codec represents that change. So
//! the next change has what the codec left out of this one, and client and server hold the same
//! bits.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::Received;
use super::tables::{changed_rows, encode_with, has_the_bits_of_model};
use crate::outcome::VersionsCost;
use crate::world::World;
use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_methods::server;
use fedrecsim_methods::task::Phase;
use fedrecsim_model::archive::damaged;
use fedrecsim_model::codec::{
    self, Beginning, BlockCodecs, CodecMemory, EncodeContext, Frame, FrameKind, FrameParts,
    Randomness,
};
use fedrecsim_model::state::{restore_model, save_model};
use fedrecsim_model::table::VALUE_BYTES;
use fedrecsim_model::{
    Archive, ArchiveReader, BlockLayout, Layout, Model, ModelUpdate, SharedTable, TableUpdate,
};
use fedrecsim_scenario::{CodecName, FirstDownload};

/// A version of what the participants of a phase download.
#[derive(Debug)]
pub(crate) struct Version {
    number: u32,
    layout: Layout,
    /// The version that receivers hold, with the server's own model of it.
    received: Received,
    /// Where the changes begin.
    root: Root,
    /// The changes that lead to this version, oldest first.
    changes: Vec<(u32, Frame)>,
    /// The number of bytes of the values that are not 0, once somebody has counted them.
    nonzero_bytes: OnceLock<usize>,
    /// The whole version in single precision. It is made when somebody needs it.
    whole: OnceLock<Frame>,
}

/// The version that the oldest change is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Root {
    /// The version of this number, which clients have received.
    Version(u32),
    /// Every device draws it from the seed.
    Seed(u64),
}

/// The versions of what one phase downloads, and later ones that download the same, with the version that each user is known to have.
#[derive(Debug)]
pub(crate) struct Versions {
    phase: Phase,
    newest: Option<Arc<Version>>,
    /// For each user one more than the number of its version; 0 if it is not known to have one.
    acknowledged: Vec<u32>,
    cost: VersionsCost,
}

/// The frames that bring a user to a version: what it begins with, changes, and the whole version
/// if that is sent.
type Way<'v> = (Beginning, &'v [(u32, Frame)], Option<&'v Frame>);

/// Users with the versions that they have, ascending.
pub(crate) type HeldVersions = Vec<(UserId, u32)>;

impl Versions {
    /// Begins the sequence of a phase.
    pub(crate) fn new(phase: Phase, world: &World) -> Self {
        let users = world.dataset.users();
        let cost = VersionsCost {
            acknowledgement_bytes: 4 * users as u64,
            ..VersionsCost::default()
        };
        Self {
            phase,
            newest: None,
            acknowledged: vec![0; users],
            cost,
        }
    }

    /// Returns the phase.
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns what the sequence has cost the server so far.
    pub(crate) fn cost(&self) -> VersionsCost {
        self.cost
    }

    /// Notes that `user` has the version of this number.
    pub(crate) fn acknowledge(&mut self, user: UserId, number: u32) {
        let known = &mut self.acknowledged[user.0 as usize];
        *known = (*known).max(number + 1);
    }

    /// Notes that `users` have no version any more.
    pub(crate) fn forget(&mut self, users: &Range<u32>) {
        let users = users.start as usize..users.end as usize;
        for known in self.acknowledged.get_mut(users).into_iter().flatten() {
            *known = 0;
        }
    }

    /// Returns those of `users` (ascending) who have a version.
    pub(crate) fn held_by(&self, users: impl Iterator<Item = UserId>) -> HeldVersions {
        let version = |user: UserId| self.acknowledged[user.0 as usize].checked_sub(1);
        users
            .filter_map(|user| Some((user, version(user)?)))
            .collect()
    }

    /// Returns the version of this number, which says `intended`. It is made if it is newer than
    /// the newest one.
    ///
    /// # Errors
    /// [`Error::Unrepresentable`] if the codec cannot represent a value, and [`Error::Frame`] for a
    /// defect of the codec.
    pub(crate) fn advance(
        &mut self,
        number: u32,
        intended: Model,
        world: &World,
    ) -> Result<Arc<Version>> {
        if let Some(newest) = self
            .newest
            .as_ref()
            .filter(|newest| newest.number == number)
        {
            return Ok(Arc::clone(newest));
        }
        let before = match self.newest.take() {
            Some(newest) => Some(newest),
            None => Version::of_seed(self.phase, world)?.map(Arc::new),
        };
        let next = match before {
            Some(before)
                if before.number == number
                    && has_the_bits_of_model(&before.received.model, &intended) =>
            {
                before
            }
            Some(before) => Arc::new(before.next(number, intended, world)?),
            None => Arc::new(Version::first(
                number,
                intended,
                world.shared_layout(self.phase).clone(),
            )),
        };
        self.cost.model_bytes = self.cost.model_bytes.max(next.layout.bytes() as u64);
        self.cost.differences_bytes = self.cost.differences_bytes.max(next.changes_bytes());
        self.newest = Some(Arc::clone(&next));
        Ok(next)
    }

    /// Appends the sequence to `archive`.
    pub(crate) fn save(&self, archive: &mut Archive) {
        archive.put(&(&self.acknowledged, self.cost, self.newest.is_some()));
        if let Some(newest) = &self.newest {
            newest.save(archive);
            archive.put(&(newest.root, newest.changes.len()));
            for (number, frame) in &newest.changes {
                archive.put(&(number, frame.parts));
                archive.put_shared_bytes(&frame.bytes);
            }
        }
    }

    /// Reads what [`Self::save`] appended for a phase.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(crate) fn restore(
        phase: Phase,
        archive: &mut ArchiveReader,
        world: &World,
    ) -> Result<Self> {
        let mut versions = Self::new(phase, world);
        let has_version;
        (versions.acknowledged, versions.cost, has_version) = archive.take()?;
        if versions.acknowledged.len() != world.dataset.users() {
            return Err(damaged("the versions of other users"));
        }
        if has_version {
            let mut newest = Version::restore(archive, world.shared_layout(phase))?;
            let count: usize;
            (newest.root, count) = archive.take()?;
            for _ in 0..count {
                let (number, parts): (u32, FrameParts) = archive.take()?;
                newest.changes.push((
                    number,
                    Frame::of_saved(archive.take_shared_bytes()?, parts)?,
                ));
            }
            versions.newest = Some(Arc::new(newest));
        }
        Ok(versions)
    }
}

impl Version {
    /// Returns the first version, which no change leads to.
    pub(crate) fn first(number: u32, model: Model, layout: Layout) -> Self {
        let received = Received {
            model,
            intended: None,
            frame_bytes: 0,
        };
        let root = Root::Version(number);
        Self {
            number,
            layout,
            received,
            root,
            changes: Vec::new(),
            nonzero_bytes: OnceLock::new(),
            whole: OnceLock::new(),
        }
    }

    /// Returns the version that every device draws from the seed; `None` if the scenario does not
    /// say so, or if the method begins with another phase.
    fn of_seed(phase: Phase, world: &World) -> Result<Option<Self>> {
        let server = world.method.server();
        if world.scenario.codec.first_download == FirstDownload::Values || server.phase() != phase {
            return Ok(None);
        }
        let server::Download::Shared(model) = server.download() else {
            return Ok(None);
        };
        let version = Self::first(0, model, world.shared_layout(phase).clone());
        Ok(Some(Self {
            root: Root::Seed(world.starts.seed()),
            ..version
        }))
    }

    /// Returns the version that follows this one and comes as close to `intended` as the codec
    /// allows.
    fn next(&self, number: u32, intended: Model, world: &World) -> Result<Self> {
        let (layout, base, codecs) = (self.layout.clone(), &self.received.model, &world.downlink);
        let update = |block: &BlockLayout, table: &SharedTable| match base.named(&block.name) {
            Some(before) => changed_rows(table, before),
            None => TableUpdate::whole(table.clone()),
        };
        let randomness = Randomness::new(world.streams, FrameKind::Download, None, number);
        let frame = encode_with(update, &intended, (&layout, codecs), base, randomness)?;
        let model = codecs
            .decode(&frame.bytes, &layout, base)?
            .apply(&layout, base)?;
        let intended = (!has_the_bits_of_model(&model, &intended)).then_some(intended);
        let received = Received {
            model,
            intended,
            frame_bytes: 0,
        };
        let (mut root, mut changes) = (self.root, self.changes.clone());
        changes.push((number, frame));
        // Changes that take more than the whole version are of no use to anybody.
        let mut excess = changes
            .iter()
            .map(|(_, frame)| frame.bytes.len())
            .sum::<usize>();
        let useless = changes.iter().take_while(|(_, frame)| {
            let is_useless = excess > layout.bytes();
            excess -= frame.bytes.len();
            is_useless
        });
        let useless = useless.count();
        if let Some((number, _)) = changes.drain(..useless).next_back() {
            root = Root::Version(number);
        }
        Ok(Self {
            root,
            changes,
            received,
            ..Self::first(number, Model::none(), layout)
        })
    }

    /// Returns the version that a device draws from the seed.
    ///
    /// # Errors
    /// [`Error::Frame`] if there is none in `phase`.
    pub(crate) fn drawn(phase: Phase, world: &World) -> Result<Model> {
        let drawn = Self::of_seed(phase, world)?;
        let absent = || Error::Frame("there is no version that follows from the seed".to_owned());
        Ok(drawn.ok_or_else(absent)?.received.model)
    }

    /// Returns the model that receivers hold.
    pub(crate) fn model(&self) -> &Model {
        &self.received.model
    }

    /// Returns the number of the version.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns what a user with the version `held` receives.
    ///
    /// # Errors
    /// As [`Self::frame`].
    pub(crate) fn received(&self, held: Option<u32>) -> Result<Received> {
        let Received {
            model, intended, ..
        } = self.received.clone();
        Ok(Received {
            model,
            intended,
            frame_bytes: self.parts(held)?.total(),
        })
    }

    /// Returns the bytes of all changes that are kept.
    fn changes_bytes(&self) -> u64 {
        self.changes
            .iter()
            .map(|(_, frame)| frame.bytes.len() as u64)
            .sum()
    }

    /// Returns the frame that upgrades a user from version `held` to this one.
    ///
    /// # Errors
    /// Those of encoding the whole version.
    pub(crate) fn frame(&self, held: Option<u32>) -> Result<Frame> {
        let (beginning, frames) = self.way_from(held)?;
        Ok(codec::bundle(beginning, frames))
    }

    /// Returns the bytes by purpose of [`Self::frame`].
    ///
    /// # Errors
    /// As [`Self::frame`].
    pub(crate) fn parts(&self, held: Option<u32>) -> Result<FrameParts> {
        let (beginning, frames) = self.way_from(held)?;
        Ok(codec::bundle_parts(beginning, frames))
    }

    /// Returns what upgrades a user from version `held`: the changes since then, or the whole
    /// version, whichever is shorter.
    fn way_from(
        &self,
        held: Option<u32>,
    ) -> Result<(Beginning, impl Iterator<Item = (u32, &Frame)> + Clone)> {
        let (beginning, changes, whole) = self.shortest_way_from(held)?;
        let whole = whole.map(|frame| (self.number, frame));
        Ok((
            beginning,
            whole
                .into_iter()
                .chain(changes.iter().map(|(number, frame)| (*number, frame))),
        ))
    }

    /// Returns what [`Self::way_from`] returns, as the changes or the whole version.
    fn shortest_way_from(&self, held: Option<u32>) -> Result<Way<'_>> {
        let (root, seed) = match self.root {
            Root::Version(number) => (number, None),
            Root::Seed(seed) => (0, Some(seed)),
        };
        let behind = |held: u32| {
            &self.changes[self.changes.partition_point(|(number, _)| *number <= held)..]
        };
        let changes = match (held, seed) {
            (Some(held), _) if root <= held => Some((Beginning::Held, behind(held))),
            (_, Some(seed)) => Some((Beginning::Seed(seed), &self.changes[..])),
            _ => None,
        };
        let Some((beginning, changes)) = changes else {
            return Ok((Beginning::Whole, &[], Some(self.whole()?)));
        };
        let length: usize = changes.iter().map(|(_, frame)| frame.bytes.len()).sum();
        // The values that are not 0 are in every whole frame, so that most comparisons need none.
        if length <= self.nonzero_bytes() {
            return Ok((beginning, changes, None));
        }
        let whole = self.whole()?;
        Ok(match length <= whole.bytes.len() {
            true => (beginning, changes, None),
            false => (Beginning::Whole, &[], Some(whole)),
        })
    }

    /// Returns the bytes of the values that are not 0.
    fn nonzero_bytes(&self) -> usize {
        let nonzero = |table: &[f32]| table.iter().filter(|value| value.to_bits() != 0).count();
        *self.nonzero_bytes.get_or_init(|| {
            VALUE_BYTES
                * self
                    .received
                    .model
                    .tables()
                    .map(|(_, table)| nonzero(table.as_slice()))
                    .sum::<usize>()
        })
    }

    /// Returns the frame of the whole version.
    fn whole(&self) -> Result<&Frame> {
        if let Some(frame) = self.whole.get() {
            return Ok(frame);
        }
        let update = ModelUpdate::whole(&self.received.model);
        let randomness = Randomness::new(
            fedrecsim_core::Streams::new(0),
            FrameKind::Download,
            None,
            self.number,
        );
        let mut context = EncodeContext {
            base: &Model::none(),
            memory: &mut CodecMemory::default(),
            randomness,
        };
        let frame =
            BlockCodecs::every(CodecName::SparseF32).encode(&update, &self.layout, &mut context)?;
        Ok(self.whole.get_or_init(|| frame))
    }

    /// Appends the version without its changes, which a user who has received it does not need.
    pub(crate) fn save(&self, archive: &mut Archive) {
        archive.put(&(self.number, self.received.intended.is_some()));
        save_model(archive, &self.received.model);
        if let Some(intended) = &self.received.intended {
            save_model(archive, intended);
        }
    }

    /// Reads what [`Self::save`] appended.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(crate) fn restore(archive: &mut ArchiveReader, layout: &Layout) -> Result<Self> {
        let (number, has_intended): (u32, bool) = archive.take()?;
        let model = restore_model(archive, layout)?;
        let intended = if has_intended {
            Some(restore_model(archive, layout)?)
        } else {
            None
        };
        let mut version = Self::first(number, model, layout.clone());
        version.received.intended = intended;
        Ok(version)
    }
}
