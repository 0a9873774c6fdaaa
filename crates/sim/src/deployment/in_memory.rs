//! Devices in the process of their server, which train one step after the other.

use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{AskPeers, Devices, Hosts, Invite, Message, Peers, Sent, Trained};
use crate::workers::Working;
use fedrecsim_core::legs::Peer;
use fedrecsim_core::{Error, InvitationId, Result, UserId};
use fedrecsim_model::codec::Frame;

/// The devices, for the workers that ask them.
pub(super) struct InMemory(pub Rc<Devices>);

impl Hosts for InMemory {
    fn users(&self) -> Vec<Range<u32>> {
        vec![self.0.users()]
    }

    fn ask(&self, _: usize, question: Bytes) -> Working<'_, Bytes> {
        Box::pin(async { Ok(self.0.answer(question).await) })
    }
}

/// What a device makes in a training, in its order.
pub(super) enum Makes {
    Request(Peer, Sent),
    /// The end of the training.
    Upload(Result<Option<Trained>>),
}

/// The way from a training to the replay, and back.
struct Up {
    made: UnboundedSender<Makes>,
    replies: Mutex<mpsc::Receiver<Frame>>,
}

impl AskPeers for Up {
    fn ask(&self, _: (UserId, InvitationId), peer: Peer, request: Message<'_>) -> Result<Frame> {
        let sent = Sent {
            frame: request.frame.clone(),
            work: request.work,
            took_ns: 0,
        };
        let asked = Makes::Request(peer, sent);
        self.made.send(asked).map_err(|_| Error::Interrupted)?;
        let replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        replies.recv().map_err(|_| Error::Interrupted)
    }
}

/// Begins the training of an invitation. Returns what it makes, and the way of replies to it.
pub(super) fn begin(
    devices: &Rc<Devices>,
    invite: Invite,
) -> (UnboundedReceiver<Makes>, mpsc::Sender<Frame>) {
    let (made, makes) = unbounded_channel();
    let (reply, replies) = mpsc::channel();
    let up = Up {
        made: made.clone(),
        replies: Mutex::new(replies),
    };
    let devices = Rc::clone(devices);
    actix::spawn(async move {
        let trained = devices.train(invite, Arc::new(up) as Peers).await;
        // If this fails, nobody waits for it any more.
        let _ = made.send(Makes::Upload(trained));
    });
    (makes, reply)
}
