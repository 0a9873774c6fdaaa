//! The download that the server sends to invited users.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::world::World;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Error, InvitationId, Result, Streams, UserId};
use fedrecsim_methods::task::Phase;
use fedrecsim_methods::{Class, server};
use fedrecsim_model::codec::{self, BlockCodecs, Frame, FrameKind, FrameParts, Randomness};
use fedrecsim_model::{Layout, Model};

mod personal;
mod rows;
mod saved;
mod tables;
mod versions;

pub(crate) use personal::MADE_TOGETHER;
use personal::Personal;
pub(crate) use saved::RestoredDownloads;
use tables::{encode, has_the_bits_of_model};
pub(crate) use versions::{HeldVersions, Version, Versions};

/// A participation: its user and the number of its invitation.
pub(crate) type Participant = (UserId, InvitationId);

/// The download for all users who are invited between two steps of the server.
///
/// Most methods send the same frame to all users. It is encoded once, and the first receiver
/// decodes it; decoding is a pure function of the bytes, so receivers may share its result. They
/// train on the decoded frame, which a lossy codec may have changed. Downloads of single users are
/// made, encoded and decoded when they are needed, and only those of a few groups are kept.
#[derive(Debug)]
pub struct Download {
    number: u32,
    phase: Phase,
    /// The class of its receivers, or the first one if it makes each a frame.
    class: Class,
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
        /// The model before encoding; `None` if the codec is lossless, since the frame then says
        /// the same.
        intended: Option<Model>,
        received: OnceLock<std::result::Result<Received, String>>,
        is_shared: bool,
    },
    /// Each user receives a frame of its own.
    PerUser(Personal),
    /// Each user receives the changes since the version that it has.
    Version(Arc<Version>, WaysToVersion),
}

/// The frames that upgrade users to a version.
#[derive(Debug)]
enum WaysToVersion {
    /// They follow from the versions that the users have.
    Held(HeldVersions),
    /// The frame of a single user, in a run that was resumed.
    Frame(Frame),
}

impl Content {
    fn nothing() -> Self {
        Self::Nothing(Received::nothing())
    }

    fn held(frame: Frame, intended: Option<Model>, is_shared: bool) -> Self {
        Self::Held {
            frame,
            intended,
            received: OnceLock::new(),
            is_shared,
        }
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
    /// Makes what has no blocks.
    pub(crate) fn nothing() -> Self {
        Self {
            model: Model::none(),
            intended: None,
            frame_bytes: 0,
        }
    }
}

impl Download {
    fn new(number: u32, phase: Phase, content: Content, world: &World) -> Self {
        Self {
            number,
            phase,
            class: Class::default(),
            layout: world.shared_layout(phase).clone(),
            codecs: world.downlink.clone(),
            streams: world.streams,
            content,
        }
    }

    /// Encodes what participants of `phase` are to download. `number` is that of the model's
    /// version.
    ///
    /// # Errors
    /// [`Error::Update`] for a download of another layout than the method announces.
    pub fn encode(
        number: u32,
        phase: Phase,
        download: server::Download,
        world: &World,
    ) -> Result<Self> {
        let _stage = enter(Stage::Encode);
        let (layout, codecs) = (world.shared_layout(phase), &world.downlink);
        let content = match download {
            _ if layout.is_empty() => Content::nothing(),
            server::Download::Nothing => {
                let phase = phase.0;
                return Err(Error::Update(format!(
                    "there is no download in phase {phase}, which announces one"
                )));
            }
            server::Download::Shared(intended) => {
                let randomness = Randomness::new(world.streams, FrameKind::Download, None, number);
                let frame = encode(&intended, layout, codecs, randomness)?;
                // The model is kept only where it is needed, since the server changes its tables in
                // place if it alone has them.
                Content::held(frame, (!codecs.is_lossless()).then_some(intended), true)
            }
            server::Download::PerUser(personal) => {
                Content::PerUser(Personal::new(personal, world.layouts_of_classes(phase)))
            }
        };
        Ok(Self::new(number, phase, content, world))
    }

    /// Returns what the participants of the first step of `world` download.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub(super) fn first(world: &World) -> Result<Self> {
        let server = world.method.server();
        let (phase, download) = (server.phase(), server.download());
        match download {
            server::Download::Shared(model) if world.downlink.sends_changes() => {
                let version = Versions::new(phase, world).advance(0, model, world)?;
                Ok(Self::of_version(version, phase, HeldVersions::new(), world))
            }
            download => Self::encode(0, phase, download, world),
        }
    }

    /// Makes the download of a frame that has come from the server to a user.
    pub(crate) fn arrived(
        number: u32,
        (phase, user): (Phase, UserId),
        frame: Frame,
        world: &World,
    ) -> Self {
        let content = match world.shared_layout(phase).is_empty() {
            true => Content::nothing(),
            // The receiver knows of no other one that has the same.
            false => Content::held(frame, None, false),
        };
        Self::new(number, phase, content, world).for_class(world.class_of(user), world)
    }

    /// Returns the same download for users of a class.
    ///
    /// # Panics
    /// If there is no such class.
    fn for_class(self, class: Class, world: &World) -> Self {
        let layouts = world.layouts_of_classes(self.phase).0;
        Self {
            layout: layouts[usize::from(class.0)].clone(),
            class,
            ..self
        }
    }

    /// Returns whether the receivers in `phase` are sent the changes since the version that they
    /// have.
    pub(crate) fn is_of_versions(phase: Phase, world: &World) -> bool {
        world.downlink.sends_changes() && !world.shared_layout(phase).is_empty()
    }

    /// Makes the download of a receiver that has come to `version` with this frame.
    pub(crate) fn of_bundle(
        version: Arc<Version>,
        phase: Phase,
        frame: Frame,
        world: &World,
    ) -> Self {
        let number = version.number();
        let content = Content::Version(version, WaysToVersion::Frame(frame));
        Self::new(number, phase, content, world)
    }

    /// Makes the download that upgrades users to a version from those that they hold.
    pub(crate) fn of_version(
        version: Arc<Version>,
        phase: Phase,
        held: HeldVersions,
        world: &World,
    ) -> Self {
        let number = version.number();
        let content = Content::Version(version, WaysToVersion::Held(held));
        Self::new(number, phase, content, world)
    }

    /// Returns the number of the model's version that the download says. It tells downloads apart,
    /// even if they say the same.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns a number that is the same for users who receive the same frame, and differs between
    /// frames.
    pub(crate) fn number_for(&self, user: UserId) -> u64 {
        let receiver = match self.is_personal() {
            true => u64::from(user.0) + 1,
            false => 0,
        };
        u64::from(self.number) << 32 | receiver
    }

    /// Returns the phase that its receivers take part in.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns whether each receiver has a download of its own.
    pub fn is_personal(&self) -> bool {
        matches!(
            self.content,
            Content::PerUser(_)
                | Content::Held {
                    is_shared: false,
                    ..
                }
        )
    }

    /// Returns whether all receive the same model.
    pub(crate) fn is_shared(&self) -> bool {
        !self.is_personal() && !matches!(self.content, Content::Nothing(_))
    }

    /// Returns whether it has to be kept, since it cannot be made again of the server's state.
    pub(crate) fn has_to_be_kept(&self) -> bool {
        self.is_shared() && !matches!(self.content, Content::Version(..))
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
    pub fn parts(&self, user: UserId) -> Result<FrameParts> {
        match &self.content {
            Content::Version(version, WaysToVersion::Held(held)) => {
                version.parts(version_of(user, held))
            }
            Content::PerUser(personal) => self.parts_of_one(personal, user),
            _ => Ok(self.frame(user)?.parts),
        }
    }

    /// Returns the layout of the downloads of `user`.
    fn layout_for(&self, user: UserId) -> &Layout {
        match &self.content {
            Content::PerUser(personal) => personal.layout_for(user),
            _ => &self.layout,
        }
    }

    /// Returns whether `user` can read `frame`. `rows` says how many rows it has asked for, if the
    /// frame is to have these alone.
    pub(crate) fn is_sound(&self, frame: &Bytes, user: UserId, rows: Option<usize>) -> bool {
        if self.codecs.sends_changes() {
            return codec::unbundle(frame).is_ok();
        }
        let layout = match rows {
            Some(count) => self.layout_of_rows(user, count),
            None => layout_of(self.layout_for(user), frame),
        };
        self.codecs.decode(frame, &layout, &Model::none()).is_ok()
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
                    self.decode((&frame.bytes, &self.layout), intended.as_ref())
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
        Ok(match self.received(user)? {
            Cow::Borrowed(received) => {
                Cow::Borrowed(received.intended.as_ref().unwrap_or(&received.model))
            }
            Cow::Owned(received) => Cow::Owned(received.intended.unwrap_or(received.model)),
        })
    }

    fn decode(
        &self,
        (frame, whole): (&Bytes, &Layout),
        intended: Option<&Model>,
    ) -> Result<Received> {
        let _stage = enter(Stage::Decode);
        let layout = layout_of(whole, frame);
        let update = self.codecs.decode(frame, &layout, &Model::none())?;
        let model = update.apply(&layout, &Model::none())?;
        let intended = intended
            .filter(|intended| !has_the_bits_of_model(&model, intended))
            .cloned();
        Ok(Received {
            model,
            intended,
            frame_bytes: frame.len() as u64,
        })
    }
}

/// Returns the layout of `frame`, which may leave out the last blocks of a whole download.
fn layout_of(whole: &Layout, frame: &Bytes) -> Layout {
    let part = codec::blocks_in(frame).and_then(|blocks| whole.beginning(blocks));
    part.unwrap_or_else(|| whole.clone())
}

/// Returns the version that `user` has, if it has one.
fn version_of(user: UserId, held: &[(UserId, u32)]) -> Option<u32> {
    held.binary_search_by_key(&user, |(user, _)| *user)
        .ok()
        .map(|place| held[place].1)
}

#[cfg(test)]
mod tests;
