//! The download that the server sends to the users whom it has invited.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::world::World;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::Streams;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_methods::method::server::Download;
use fedrecsim_methods::method::task::Phase;
use fedrecsim_model::codec::{BlockCodecs, Frame, FrameParts, Randomness};
use fedrecsim_model::model::archive::{Archive, ArchiveReader, damaged};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::layout::Layout;
use fedrecsim_model::model::state::{restore_model, save_model};

mod personal;
mod rows;
mod sent;
mod tables;
mod versions;

use personal::Personal;
pub use rows::AskedRows;
use tables::{encode, has_the_bits_of_model};
pub use versions::{HeldVersions, Version, Versions};

/// The download for all users who are invited between two steps of the server.
///
/// Most methods send the same frame to all users. It is encoded once, and decoded once by whoever
/// receives it first; decoding is a pure function of the bytes, so receivers may share its result.
/// What they train on is what the frame says, which a lossy codec may have changed. Downloads of
/// single users are made, encoded and decoded when they are needed, and only those of a small
/// cohort are kept.
#[derive(Debug)]
pub struct OutgoingDownload {
    number: u32,
    phase: Phase,
    layout: Layout,
    codecs: BlockCodecs,
    streams: Streams,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// No frame travels.
    Nothing(Received),
    /// The frame that all receive or, in a run that was resumed, that of a single user.
    Held {
        frame: Frame,
        /// What the server meant to send; `None` if the codec is lossless, since the frame then
        /// says the same.
        intended: Option<Model>,
        received: OnceLock<std::result::Result<Received, String>>,
        is_shared: bool,
    },
    /// Each user receives a frame of its own.
    PerUser(Personal),
    /// Each user receives the changes since the version that it has.
    Version(Arc<Version>, WaysToVersion),
}

/// The frames that bring users to a version.
#[derive(Debug)]
enum WaysToVersion {
    /// They follow from the versions that the users have.
    Held(HeldVersions),
    /// The frame of a single user, in a run that was resumed.
    Frame(Frame),
}

/// The format in which a frame is to be read.
#[derive(Clone, Debug)]
pub struct FrameFormat {
    /// The codecs.
    pub codecs: BlockCodecs,
    /// The layout of the frame.
    pub layout: Layout,
}

impl FrameFormat {
    /// Returns whether `frame` can be read.
    pub(crate) fn reads(&self, frame: &Bytes) -> bool {
        if self.codecs.sends_changes() {
            return versions::reads(self, frame).is_ok();
        }
        self.codecs
            .decode(frame, &self.layout, &Model::none())
            .is_ok()
    }
}

/// A download as its receiver decodes it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// The model that the frame says.
    pub model: Model,
    /// The model that the server meant to send, if the frame says another one.
    pub intended: Option<Model>,
    /// The size of the frame in bytes.
    pub frame_bytes: u64,
}

impl Received {
    /// Returns what a user has received where no frame travels.
    fn nothing() -> Self {
        Self {
            model: Model::none(),
            intended: None,
            frame_bytes: 0,
        }
    }
}

impl OutgoingDownload {
    /// Encodes what participants of `phase` are to download. `number` is that of the model's
    /// version.
    ///
    /// # Errors
    /// [`Error::Update`] for a download of another layout than the method announces.
    pub fn encode(number: u32, phase: Phase, download: Download, world: &World) -> Result<Self> {
        let _stage = enter(Stage::Encode);
        let (layout, codecs) = (world.download_layout(phase).clone(), world.downlink.clone());
        let streams = world.streams;
        let content = match download {
            _ if layout.is_empty() => Content::Nothing(Received::nothing()),
            Download::Nothing => {
                let phase = phase.0;
                return Err(Error::Update(format!(
                    "there is no download in phase {phase}, which announces one"
                )));
            }
            Download::Shared(intended) => {
                let frame = encode(
                    &intended,
                    &layout,
                    &codecs,
                    Randomness::of_download(streams, None, number),
                )?;
                // The model is kept only where it is needed, since the server changes its tables in
                // place if it alone has them.
                let intended = (!codecs.is_lossless()).then_some(intended);
                Content::Held {
                    frame,
                    intended,
                    received: OnceLock::new(),
                    is_shared: true,
                }
            }
            Download::PerUser(personal) => Content::PerUser(Personal::new(personal)),
        };
        Ok(Self {
            number,
            phase,
            layout,
            codecs,
            streams,
            content,
        })
    }

    /// Returns what the participants of the first step of `world` download.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub(super) fn first(world: &World) -> Result<Self> {
        let server = world.method.server();
        let (phase, download) = (server.phase(), server.download());
        match download {
            Download::Shared(model) if world.downlink.sends_changes() => {
                let version = Versions::new(phase, world).advance(0, model, world)?;
                Ok(Self::of_version(version, phase, HeldVersions::new(), world))
            }
            download => Self::encode(0, phase, download, world),
        }
    }

    /// Makes the download that brings users to a version. `held` are the versions that they have.
    pub(crate) fn of_version(
        version: Arc<Version>,
        phase: Phase,
        held: HeldVersions,
        world: &World,
    ) -> Self {
        let (layout, codecs) = (world.download_layout(phase).clone(), world.downlink.clone());
        let (number, content) = (
            version.number(),
            Content::Version(version, WaysToVersion::Held(held)),
        );
        Self {
            number,
            phase,
            layout,
            codecs,
            streams: world.streams,
            content,
        }
    }

    /// Returns the number of the model's version that the download says. It tells downloads apart,
    /// even if they say the same.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns a number that is the same for users who receive the same frame, and differs between
    /// frames.
    pub(crate) fn number_for(&self, user: UserId) -> u64 {
        let is_personal = matches!(
            self.content,
            Content::PerUser(_)
                | Content::Held {
                    is_shared: false,
                    ..
                }
        );
        u64::from(self.number) << 32
            | if is_personal {
                u64::from(user.0) + 1
            } else {
                0
            }
    }

    /// Returns the phase in which its receivers take part.
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns whether all receive the same model.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(
            self.content,
            Content::Held {
                is_shared: true,
                ..
            } | Content::Version(..)
        )
    }

    /// Returns whether it has to be kept, since it cannot be made again of the server's state.
    pub(crate) fn has_to_be_kept(&self) -> bool {
        matches!(
            self.content,
            Content::Held {
                is_shared: true,
                ..
            }
        )
    }

    /// Returns the frame that travels to `user`. Every call for a user returns the same frame.
    ///
    /// # Errors
    /// Those of the method, where it makes a download for each user.
    pub(crate) fn frame(&self, user: UserId) -> Result<Frame> {
        match &self.content {
            Content::Nothing(_) => Ok(Frame::none()),
            Content::Held { frame, .. } | Content::Version(_, WaysToVersion::Frame(frame)) => {
                Ok(frame.clone())
            }
            Content::Version(version, WaysToVersion::Held(held)) => {
                version.frame(version_of(user, held))
            }
            Content::PerUser(personal) => self.frame_of_one(personal, user),
        }
    }

    /// Returns the bytes of [`Self::frame`] by purpose.
    ///
    /// # Errors
    /// As [`Self::frame`].
    pub(crate) fn parts(&self, user: UserId) -> Result<FrameParts> {
        match &self.content {
            Content::Held { frame, .. } => Ok(frame.parts),
            Content::Version(version, WaysToVersion::Held(held)) => {
                version.parts(version_of(user, held))
            }
            Content::Version(_, WaysToVersion::Frame(frame)) => Ok(frame.parts),
            Content::Nothing(_) | Content::PerUser(_) => Ok(self.frame(user)?.parts),
        }
    }

    /// Returns the format in which its frames are to be read.
    pub(crate) fn format(&self) -> FrameFormat {
        FrameFormat {
            codecs: self.codecs.clone(),
            layout: self.layout.clone(),
        }
    }

    /// Returns what `user` receives.
    ///
    /// # Errors
    /// [`Error::Frame`] if the frame does not decode, and those of the method, where it makes a
    /// download for each user.
    pub(crate) fn received(&self, user: UserId) -> Result<Cow<'_, Received>> {
        match &self.content {
            Content::Nothing(received) => Ok(Cow::Borrowed(received)),
            Content::Version(version, WaysToVersion::Held(held)) => {
                version.received(version_of(user, held)).map(Cow::Owned)
            }
            Content::Version(version, WaysToVersion::Frame(frame)) => {
                let received = version.received(Some(version.number()))?;
                Ok(Cow::Owned(Received {
                    frame_bytes: frame.bytes.len() as u64,
                    ..received
                }))
            }
            Content::Held {
                frame,
                intended,
                received,
                ..
            } => {
                let decode = || {
                    self.decode(&frame.bytes, intended.as_ref())
                        .map_err(|error| error.to_string())
                };
                let received = received.get_or_init(decode).as_ref();
                received
                    .map(Cow::Borrowed)
                    .map_err(|reason| Error::Frame(reason.clone()))
            }
            Content::PerUser(personal) => self.received_by_one(personal, user).map(Cow::Owned),
        }
    }

    /// Returns the model that the server means to send to `user`.
    fn intended(&self, user: UserId) -> Result<Cow<'_, Model>> {
        if let Content::Held {
            intended: Some(intended),
            ..
        } = &self.content
        {
            return Ok(Cow::Borrowed(intended));
        }
        Ok(match self.received(user)? {
            Cow::Borrowed(received) => Cow::Borrowed(&received.model),
            Cow::Owned(received) => Cow::Owned(received.model),
        })
    }

    fn decode(&self, frame: &Bytes, intended: Option<&Model>) -> Result<Received> {
        let _stage = enter(Stage::Decode);
        let update = self.codecs.decode(frame, &self.layout, &Model::none())?;
        let model = update.apply(&self.layout, &Model::none())?;
        let intended = intended
            .filter(|intended| !has_the_bits_of_model(&model, intended))
            .cloned();
        Ok(Received {
            model,
            intended,
            frame_bytes: frame.len() as u64,
        })
    }

    /// Appends the number, the phase and the kind of the download, for [`head_of`], and returns the
    /// kind.
    fn put_head(&self, archive: &mut Archive) -> u8 {
        let kind = match &self.content {
            Content::Nothing(_) => 0u8,
            Content::Held {
                is_shared: true, ..
            } => 1,
            Content::Held {
                is_shared: false, ..
            }
            | Content::PerUser(_) => 2,
            Content::Version(..) => 3,
        };
        archive.put(&(self.number, self.phase.0, kind));
        kind
    }

    /// Appends the frame that travels to `user`, and what the server meant by it. A frame that many
    /// share is written once.
    ///
    /// # Errors
    /// As [`Self::frame`].
    pub(crate) fn save(&self, user: UserId, archive: &mut Archive) -> Result<()> {
        let kind = self.put_head(archive);
        if kind == 0 {
            return Ok(());
        }
        let frame = self.frame(user)?;
        archive.put(&frame.parts);
        archive.put_shared_bytes(&frame.bytes);
        if let Content::Version(version, _) = &self.content {
            version.save(archive);
            return Ok(());
        }
        let intended = match &self.content {
            _ if self.codecs.is_lossless() => None,
            Content::PerUser(personal) => Some(personal.intended(user)?),
            Content::Held { intended, .. } => intended.clone(),
            Content::Nothing(_) | Content::Version(..) => None,
        };
        if let Some(intended) = intended {
            save_model(archive, &intended);
        }
        Ok(())
    }
}

/// Reads the number, the phase and the kind of a download.
///
/// # Errors
/// [`Error::Checkpoint`] if the method has no such phase.
fn head_of(archive: &mut ArchiveReader, world: &World) -> Result<(u32, Phase, u8)> {
    let (number, phase, kind): (u32, u8, u8) = archive.take()?;
    if usize::from(phase) >= world.phases() {
        return Err(damaged(format!(
            "a download of phase {phase}, which the method does not have"
        )));
    }
    Ok((number, Phase(phase), kind))
}

/// The downloads of a checkpoint that is being read. Users who shared a download share it again.
#[derive(Debug, Default)]
pub(crate) struct RestoredDownloads {
    shared: BTreeMap<u32, Arc<OutgoingDownload>>,
    versions: BTreeMap<u32, Arc<Version>>,
}

impl RestoredDownloads {
    /// Reads what [`OutgoingDownload::save`] appended for one user.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if the archive holds no download of this world, or two that differ and
    /// have one number.
    pub(crate) fn take(
        &mut self,
        archive: &mut ArchiveReader,
        world: &World,
    ) -> Result<Arc<OutgoingDownload>> {
        let (number, phase, kind) = head_of(archive, world)?;
        let layout = world.download_layout(phase).clone();
        let content = match kind {
            0 => Content::Nothing(Received::nothing()),
            3 => {
                let parts: FrameParts = archive.take()?;
                let frame = Frame::of_saved(archive.take_shared_bytes()?, parts)?;
                let version = Version::restore(archive, &layout)?;
                let version = self
                    .versions
                    .entry(version.number())
                    .or_insert_with(|| Arc::new(version));
                Content::Version(Arc::clone(version), WaysToVersion::Frame(frame))
            }
            4.. => return Err(damaged(format!("a download of kind {kind}"))),
            1 | 2 => {
                let parts: FrameParts = archive.take()?;
                let frame = Frame::of_saved(archive.take_shared_bytes()?, parts)?;
                let is_lossless = world.downlink.is_lossless();
                let intended = if is_lossless {
                    None
                } else {
                    Some(restore_model(archive, &layout)?)
                };
                Content::Held {
                    frame,
                    intended,
                    received: OnceLock::new(),
                    is_shared: kind == 1,
                }
            }
        };
        let (codecs, streams) = (world.downlink.clone(), world.streams);
        let restored = Arc::new(OutgoingDownload {
            number,
            phase,
            layout,
            codecs,
            streams,
            content,
        });
        // A user's own download is kept as a frame from here on, and shared with no other user.
        if kind >= 2 {
            return Ok(restored);
        }
        let known = self
            .shared
            .entry(number)
            .or_insert_with(|| Arc::clone(&restored));
        match (&known.content, &restored.content) {
            (Content::Held { frame: one, .. }, Content::Held { frame: other, .. })
                if one == other => {}
            (Content::Nothing(_), Content::Nothing(_)) => {}
            _ => return Err(damaged("two downloads of one step")),
        }
        Ok(Arc::clone(known))
    }
}

/// Returns the version that `user` has, if it has one.
fn version_of(user: UserId, held: &[(UserId, u32)]) -> Option<u32> {
    held.binary_search_by_key(&user, |(user, _)| *user)
        .ok()
        .map(|place| held[place].1)
}

#[cfg(test)]
mod tests;
