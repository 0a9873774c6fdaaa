//! A connection of a process with devices: does what the server asks for.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::connection::{Reader, Writer};
use super::message::{Head, Made, Message, To, to};
use super::room::Place;
use fedrecsim_core::legs::Peer;
use fedrecsim_core::{Error, InvitationId, Result, Step, UserId};
use fedrecsim_methods::Phase;
use fedrecsim_model::codec::{Frame, FrameParts};
use fedrecsim_sim::deployment::{
    AskPeers, Devices, Invite, Message as Request, Peers, Sent, Trained,
};

/// How a connection ended.
pub(crate) enum Ended {
    /// The run is over.
    Over,
    /// The server does not want this process, or it cannot take part.
    Refused(Error),
    /// The connection broke.
    Broken(io::Error),
}

/// The trainings that wait for a reply, each with the way to it, and `None` for those whose
/// participation is over: they are not to wait any more.
type Waiting = BTreeMap<To, Option<Sender<Bytes>>>;

/// The way from trainings to the server.
struct Up {
    writer: Writer,
    waiting: Mutex<Waiting>,
    /// Whether a training takes as long as the scenario's device needs, where this host is faster.
    pace: bool,
    /// Becomes true when the connection has ended.
    has_ended: watch::Sender<bool>,
}

impl AskPeers for Up {
    fn ask(
        &self,
        participant: (UserId, InvitationId),
        peer: Peer,
        request: Request<'_>,
    ) -> Result<Frame> {
        let (reply, replied) = channel();
        let to = to(participant);
        if !self.begins_to_wait(to, reply) {
            return Err(Error::Interrupted);
        }
        if *self.has_ended.borrow() {
            // The end of the connection woke those who waited then. This training began to wait later.
            return Err(Error::Interrupted);
        }
        let sent = Sent {
            frame: request.frame.clone(),
            work: request.work,
            // The server counts the time of making the request as time on the request's way.
            took_ns: 0,
        };
        let head = Head::Request {
            to,
            peer,
            made: made(&sent),
        };
        self.writer.send(Message::with(head, sent.frame.bytes));
        frame(replied.recv().map_err(|_| Error::Interrupted)?)
    }
}

impl Up {
    /// Waits until the scenario's device would have finished a training, or the connection ends.
    async fn wait_for_end_of(&self, trained: &mut Trained, began: Instant) {
        let spent = began.elapsed().saturating_sub(trained.waited);
        let length = Duration::from_nanos(trained.virtual_length.as_nanos());
        let mut end = self.has_ended.subscribe();
        let ended = end.wait_for(|has_ended| *has_ended);
        // If this fails, the time is over.
        let _ = tokio::time::timeout(length.saturating_sub(spent), ended).await;
        trained.sent.took_ns = spent.max(length).as_nanos() as u64;
    }

    /// Has a training wait for a reply, and returns whether its participation is not over.
    fn begins_to_wait(&self, to: To, reply: Sender<Bytes>) -> bool {
        let mut waiting = self.waiting();
        let is_over = matches!(waiting.get(&to), Some(None));
        if !is_over {
            waiting.insert(to, Some(reply));
        }
        !is_over
    }

    /// Returns the way to a training that waits for a reply. It does not wait then.
    fn way_to(&self, to: To) -> Option<Sender<Bytes>> {
        let mut waiting = self.waiting();
        waiting.get(&to)?.as_ref()?;
        waiting.remove(&to)?
    }

    /// Has a participation not wait, and not begin to.
    fn is_over(&self, to: To) {
        let mut waiting = self.waiting();
        waiting.insert(to, None);
    }

    /// Has no training wait any more, since the connection has ended.
    fn ends(&self) {
        self.has_ended.send_replace(true);
        self.waiting().clear();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn participant(to: To) -> (UserId, InvitationId) {
    (UserId(to.user), InvitationId(to.invitation))
}

/// Returns a frame of the server. What its bytes are for is booked there.
fn frame(bytes: Bytes) -> Result<Frame> {
    let parts = FrameParts {
        values: bytes.len() as u64,
        ..FrameParts::default()
    };
    Frame::of_saved(bytes, parts)
}

fn made(sent: &Sent) -> Made {
    let parts = sent.frame.parts;
    Made {
        row_visits: sent.work.row_visits,
        multiply_adds: sent.work.multiply_adds,
        took_ns: sent.took_ns,
        // A frame is shorter than its message may be.
        header: parts.header as u32,
        index: parts.index as u32,
    }
}

/// Does what the server asks for, until the connection ends. Then it waits for the trainings that
/// are under way, so that every device is idle when it connects again.
pub(crate) async fn take_part(
    devices: Rc<Devices>,
    pace: bool,
    (mut reader, writer): (Reader, Writer),
) -> Ended {
    let (heard, mut inbox) = unbounded_channel();
    let up = Arc::new(Up {
        writer: writer.clone(),
        waiting: Mutex::default(),
        pace,
        has_ended: watch::Sender::new(false),
    });
    let listened = thread::Builder::new().name("listener".to_owned()).spawn({
        let up = Arc::clone(&up);
        move || {
            let ended = listen(&mut reader, &up, &heard);
            // A question that came last waits for the trainings, and one of them for a reply.
            up.ends();
            ended
        }
    });
    let listened = match listened {
        Ok(listened) => listened,
        Err(reason) => return Ended::Broken(reason),
    };
    let mut trainings = Trainings::new();
    let obeyed = obey(&devices, &mut inbox, &up, &mut trainings).await;
    // Nothing is done any more for what comes.
    up.ends();
    for training in trainings.into_values() {
        let _ = training.await;
    }
    writer.cut();
    let ended = listened.join().unwrap_or(Ended::Over);
    obeyed.map_or_else(Ended::Refused, |()| ended)
}

/// What the server has said, with the place that it takes until it is done.
type Heard = (Message, Place);

/// Passes on what the server says until nothing comes any more, and returns why.
fn listen(reader: &mut Reader, up: &Up, heard: &UnboundedSender<Heard>) -> Ended {
    loop {
        let message = match reader.next() {
            Ok(message) => message,
            Err(error) => return Ended::Broken(error),
        };
        match message.head {
            // A training waits for it on a thread of its own.
            Head::Reply { to } => {
                if let Some(way) = up.way_to(to) {
                    up.writer.send(Message::new(Head::Received { to }));
                    let _ = way.send(message.payload);
                }
            }
            head => {
                if let Head::Cancel { to } = head {
                    // A training that has not asked yet is not to wait later: a question waits for it.
                    up.is_over(to);
                }
                let place = match up.writer.room().take(message.payload.len()) {
                    Ok(place) => place,
                    Err(error) => return Ended::Broken(error),
                };
                if heard.send((message, place)).is_err() || head == Head::Bye {
                    return Ended::Over;
                }
            }
        }
    }
}

type Trainings = BTreeMap<To, JoinHandle<()>>;

/// So many trainings are kept before those that are over are looked for.
const SOME: usize = 64;

/// Obeys the server until nothing comes any more. Then some trainings may be under way.
///
/// # Errors
/// Devices that cannot begin as the server wants, and defects of the simulator.
async fn obey(
    devices: &Rc<Devices>,
    inbox: &mut UnboundedReceiver<Heard>,
    up: &Arc<Up>,
    trainings: &mut Trainings,
) -> Result<()> {
    let mut most = SOME;
    while let Some((message, place)) = inbox.recv().await {
        if trainings.len() >= most {
            // To look through all of them for each message would take longer than they do.
            trainings.retain(|_, training| !training.is_finished());
            most = 2 * trainings.len() + SOME;
        }
        match message.head {
            Head::Invite {
                to,
                step,
                number,
                phase,
            } => {
                let Ok(frame) = frame(message.payload) else {
                    continue;
                };
                let invite = Invite {
                    participant: participant(to),
                    step: Step(step),
                    number,
                    phase: Phase(phase),
                    frame,
                };
                let (training, up) = (
                    train(Rc::clone(devices), invite, Arc::clone(up)),
                    Arc::clone(up),
                );
                let training = async move {
                    training.await;
                    up.waiting().remove(&to);
                    drop(place);
                };
                trainings.insert(to, tokio::task::spawn_local(training));
            }
            Head::Taken { to } => devices.taken(participant(to))?,
            Head::Cancel { to } => {
                let training = trainings.get(&to);
                if training.is_none_or(JoinHandle::is_finished) {
                    // The end of a training takes its entry away. Where none is under way, nothing else would.
                    up.waiting().remove(&to);
                }
                devices.cancel(participant(to))?;
            }
            Head::Question => {
                let answer = devices.answer(message.payload).await;
                up.writer.send(Message::with(Head::Answer, answer));
                if let Some(error) = devices.unfit() {
                    // The server is to have the answer before the connection ends.
                    up.writer.wait_until(up.writer.say_bye());
                    return Err(error);
                }
            }
            Head::Bye => break,
            _ => {}
        }
    }
    Ok(())
}

async fn train(devices: Rc<Devices>, invite: Invite, up: Arc<Up>) {
    let (to, began) = (to(invite.participant), Instant::now());
    if !invite.frame.bytes.is_empty() {
        up.writer.send(Message::new(Head::Received { to }));
    }
    let message = match devices.train(invite, Arc::clone(&up) as Peers).await {
        Ok(None) => return,
        Ok(Some(mut trained)) => {
            if up.pace {
                up.wait_for_end_of(&mut trained, began).await;
            }
            let (made, loss) = (made(&trained.sent), trained.loss);
            Message::with(Head::Upload { to, made, loss }, trained.sent.frame.bytes)
        }
        Err(error) => {
            let kind = error.kind();
            Message::with(Head::Failed { to, kind }, error.to_string().into_bytes())
        }
    };
    up.writer.send(message);
}
