//! Invitations to take part.

use std::sync::Arc;

use super::consultation::ReplySource;
use super::download::Download;
pub(crate) use super::download::Participant;
use fedrecsim_core::{InvitationId, PortableDraws, Purpose, SimTime, Step, Streams, UserId};

/// An invitation to take part, the same for everybody who is invited with it.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// The step whose model is downloaded.
    pub step: Step,
    /// The number of the invitation.
    pub id: InvitationId,
    /// The model, encoded.
    pub download: Arc<Download>,
    /// When it is sent. Devices train on what is known then; zero where time is real, or in another
    /// process, where nothing becomes known later.
    pub sent: SimTime,
}

impl Invitation {
    /// Returns `cohort` in the order in which it takes part. That decides who waits in line and
    /// whose upload is among the first, and a user's number must not decide it.
    pub(crate) fn line_of(&self, cohort: &[UserId], streams: Streams) -> Vec<UserId> {
        let mut line = cohort.to_vec();
        let mut stream = streams.stream(Purpose::Line, 0, u64::from(self.id.0));
        stream.shuffle_portably(&mut line);
        line
    }
}

/// An invitation on its user's device. A training depends on this and on the user's device alone.
#[derive(Clone)]
pub struct Invited {
    pub user: UserId,
    pub invitation: Invitation,
    /// Where the third party's reply comes from, if the method has a third party.
    pub reply_source: Option<ReplySource>,
    /// Whether the user keeps a copy of its parameters from before the training, since its
    /// participation may end early, or it may be scored meanwhile.
    pub keep: bool,
}

impl Invited {
    /// Returns an invitation without a third party, to a user who keeps no copy.
    pub fn alone(user: UserId, step: Step, id: InvitationId, download: &Arc<Download>) -> Self {
        Self {
            user,
            invitation: Invitation {
                step,
                id,
                download: Arc::clone(download),
                sent: SimTime::ZERO,
            },
            reply_source: None,
            keep: false,
        }
    }
}
