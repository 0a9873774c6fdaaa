//! Ways between processes over MPI.
//!
//! One thread of the process talks to MPI, from its start to its end. It sends parcels, and
//! receives those that are expected, while the other threads train. While it waits for other
//! processes it looks for what they have sent again and again, and sleeps in between, since the
//! cores belong to the trainings. A parcel is a message with its lengths, and one for each of its
//! parts, which are sent and received without copies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::mpi::Threading;
use ::mpi::request::multiple_scope;
use ::mpi::topology::SimpleCommunicator;
use ::mpi::traits::{Communicator, Destination, MatchedReceiveVec, Source};
use bytes::Bytes;

use super::{Crew, Link, Other, Parcel, Place};
use fedrecsim_core::{Error, Result, memory};
use fedrecsim_sim::Stop;

/// The most bytes of a message of MPI, whose counts have 31 bits. Longer ones are sent in pieces.
const PIECE: usize = 1 << 30;

/// The time that process 0 waits for an answer once it was told to stop. Every rank that is alive
/// answers in it; MPI ends the processes of a group soon after it has told them to stop, since one
/// of them is lost.
const PATIENCE: Duration = Duration::from_millis(500);

/// The time between two looks at whether the processes were told to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long the thread polls for an awaited parcel without a pause, and the longest pause after
/// that.
const BUSY: Duration = Duration::from_micros(50);
const PAUSE: Duration = Duration::from_micros(200);

/// The pause where nobody waits, as the process has other work. Each look takes a core from a
/// training for a moment, so that four times as many of them make a round of FedRAP on two ranks
/// five per cent longer.
const PAUSE_AT_WORK: Duration = Duration::from_millis(1);

/// A task of the thread.
enum Order {
    /// Send a parcel.
    Send(i32, Parcel),
    /// Take in the parcels of a process up to the last one of an answer.
    Receive(i32, Sender<Parcel>),
}

/// The processes that mpirun has started with this one.
pub struct Group {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    lost: Arc<AtomicBool>,
}

impl Group {
    /// Joins the processes that were started together.
    ///
    /// # Errors
    /// [`Error::Usage`] if MPI does not start.
    pub fn join(interrupted: Arc<AtomicBool>) -> Result<(Place, Self)> {
        let (orders, inbox) = channel();
        let (tell, told) = channel();
        let is_awaited = Arc::new(AtomicBool::new(false));
        let talking = Arc::clone(&is_awaited);
        let thread = std::thread::Builder::new()
            .name("mpi".to_owned())
            .spawn(move || talk(inbox, &tell, &talking))
            .map_err(|reason| memory::no_threads("the thread of MPI", reason))?;
        let started = told.recv().ok().flatten();
        let (rank, ranks) =
            started.ok_or_else(|| Error::Usage("MPI does not start in this process".to_owned()))?;
        let lost = Arc::new(AtomicBool::new(false));
        let link = |other: i32| -> Box<dyn Link> {
            // Process 0 alone gives others up. They wait until it ends, as it has a report to
            // write.
            let interrupted = (rank == 0).then(|| Arc::clone(&interrupted));
            let (lost, is_awaited) = (Arc::clone(&lost), Arc::clone(&is_awaited));
            Box::new(Way {
                other,
                orders: orders.clone(),
                expected: None,
                interrupted,
                is_awaited,
                lost,
            })
        };
        let place = match (rank, ranks) {
            (_, 1) => Place::Alone,
            (0, _) => Place::Zero(Crew::assembling((1..ranks).map(link).collect())),
            _ => Place::Other(Other {
                rank: rank as u32,
                ranks: ranks as u32,
                link: link(0),
            }),
        };
        Ok((
            place,
            Self {
                orders: Some(orders),
                thread: Some(thread),
                lost,
            },
        ))
    }
}

impl Group {
    /// Ends MPI, which waits until every other process does so.
    pub fn leave(mut self) {
        // If a process is lost, the thread may wait for it forever, and so would the end of MPI.
        if self.lost.load(Ordering::Relaxed) {
            return;
        }
        // The thread ends when nobody can order anything any more.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The thread waits for orders until the process ends, so that the end of MPI is not begun
        // without the others.
        std::mem::forget(self.orders.take());
    }
}

/// A way to another process.
struct Way {
    other: i32,
    orders: Sender<Order>,
    /// Where the parcels of the next answer come, if it is expected.
    expected: Option<Receiver<Parcel>>,
    /// Says that the processes were told to stop, after which this one does not wait for long.
    interrupted: Option<Arc<AtomicBool>>,
    /// Whether this process waits for a parcel and does nothing else.
    is_awaited: Arc<AtomicBool>,
    /// Whether a process is lost, so that MPI can no longer be talked to.
    lost: Arc<AtomicBool>,
}

impl Way {
    /// Gives an order.
    fn order(&self, order: Order) -> Result<()> {
        if self.lost.load(Ordering::Relaxed) {
            return Err(self.has_ended());
        }
        self.orders.send(order).map_err(|_| self.has_ended())
    }

    fn has_ended(&self) -> Error {
        Stop::process_lost(self.other as u32, "MPI has ended")
    }

    /// Waits for the next parcel.
    fn wait(&self, expected: &Receiver<Parcel>) -> Result<Parcel> {
        let mut told_to_stop = None;
        loop {
            match expected.recv_timeout(LOOK_EVERY) {
                Ok(parcel) => return Ok(parcel),
                Err(RecvTimeoutError::Disconnected) => return Err(self.has_ended()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self
                .interrupted
                .as_ref()
                .is_some_and(|interrupted| interrupted.load(Ordering::Relaxed))
                && told_to_stop.get_or_insert_with(Instant::now).elapsed() > PATIENCE
            {
                self.lost.store(true, Ordering::Relaxed);
                let reason = "the processes of the run were told to stop, and it has not answered since; it may be busy";
                return Err(Stop::process_lost(self.other as u32, reason));
            }
        }
    }
}

impl Link for Way {
    fn send(&mut self, parcel: Parcel) -> Result<()> {
        self.order(Order::Send(self.other, parcel))
    }

    fn expect(&mut self) {
        if self.expected.is_none() {
            let (arrived, expected) = channel();
            // If this fails, the thread that waits for the parcel gets the error.
            let _ = self.order(Order::Receive(self.other, arrived));
            self.expected = Some(expected);
        }
    }

    fn receive(&mut self) -> Result<Parcel> {
        self.expect();
        let expected = self.expected.take().ok_or_else(|| self.has_ended())?;
        self.is_awaited.store(true, Ordering::Relaxed);
        let parcel = self.wait(&expected);
        self.is_awaited.store(false, Ordering::Relaxed);
        let parcel = parcel?;
        self.expected = (!parcel.is_last).then_some(expected);
        Ok(parcel)
    }
}

/// Starts MPI, tells the number of this process and of all, and carries out orders until there can
/// be no more.
fn talk(orders: Receiver<Order>, tell: &Sender<Option<(i32, i32)>>, is_awaited: &AtomicBool) {
    let Some((universe, _)) = ::mpi::initialize_with_threading(Threading::Funneled) else {
        let _ = tell.send(None);
        return;
    };
    let world = universe.world();
    let _ = tell.send(Some((world.rank(), world.size())));
    Talk {
        world,
        orders,
        is_awaited,
        outgoing: Vec::new(),
        expected: Vec::new(),
    }
    .carry_out();
}

/// Holds what the thread has still to send and to receive.
struct Talk<'a> {
    world: SimpleCommunicator,
    orders: Receiver<Order>,
    /// Whether the process waits for a parcel and does nothing else.
    is_awaited: &'a AtomicBool,
    /// The parcels that wait to be sent.
    outgoing: Vec<(i32, Parcel)>,
    /// The processes that owe an answer, and the receiver of each one's parcels.
    expected: Vec<(i32, Sender<Parcel>)>,
}

impl Talk<'_> {
    /// Carries out orders until there can be no more.
    fn carry_out(mut self) {
        let mut began = Instant::now();
        loop {
            if self.expected.is_empty() && self.outgoing.is_empty() {
                match self.orders.recv() {
                    Ok(order) => self.take(order),
                    Err(_) => return,
                }
                began = Instant::now();
            }
            loop {
                match self.orders.try_recv() {
                    Ok(order) => self.take(order),
                    Err(TryRecvError::Empty) => break,
                    // All ways are gone, so that nobody waits for the parcels that are still
                    // expected.
                    Err(TryRecvError::Disconnected) if self.outgoing.is_empty() => return,
                    Err(TryRecvError::Disconnected) => break,
                }
            }
            if self.send_all() | self.receive_all() {
                began = Instant::now();
                continue;
            }
            // A pause ends as soon as an order is given.
            match self.pause(began) {
                Duration::ZERO => self.rest(began),
                pause => self
                    .orders
                    .recv_timeout(pause)
                    .into_iter()
                    .for_each(|order| self.take(order)),
            }
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Send(to, parcel) => self.outgoing.push((to, parcel)),
            Order::Receive(from, parcels) => self.expected.push((from, parcels)),
        }
    }

    /// Sends what waits to be sent, and returns whether there was anything.
    fn send_all(&mut self) -> bool {
        let outgoing = std::mem::take(&mut self.outgoing);
        let heads: Vec<Vec<u8>> = outgoing.iter().map(|(_, parcel)| head_of(parcel)).collect();
        multiple_scope(3 * outgoing.len(), |scope, requests| {
            for ((to, parcel), head) in outgoing.iter().zip(&heads) {
                let process = self.world.process_at_rank(*to);
                requests.add(process.immediate_send(scope, &head[..]));
                let parts = std::iter::once(&parcel.bytes[..])
                    .chain(parcel.attached.iter().map(|part| &part[..]));
                for piece in parts.flat_map(|part| part.chunks(PIECE)) {
                    requests.add(process.immediate_send(scope, piece));
                }
            }
            let (began, mut sent) = (Instant::now(), Vec::new());
            while requests.incomplete() > 0 && !requests.test_all(&mut sent) {
                self.rest(began);
            }
        });
        !outgoing.is_empty()
    }

    /// Takes in the expected parcels that have come, and returns whether there were any.
    fn receive_all(&mut self) -> bool {
        let mut expected = std::mem::take(&mut self.expected);
        let mut has_come = false;
        expected.retain(|(from, parcels)| {
            while let Some(head) = self.come(*from) {
                has_come = true;
                let parcel = self.receive(*from, &head);
                let is_last = parcel.is_last;
                // This fails only if the receiver has given up, and then nobody needs the parcel.
                let _ = parcels.send(parcel);
                if is_last {
                    return false;
                }
            }
            true
        });
        self.expected = expected;
        has_come
    }

    /// Receives what belongs to the head of a parcel.
    fn receive(&self, from: i32, head: &[u8]) -> Parcel {
        let (is_last, lengths) = opened(head);
        let (own, lengths) = lengths.split_at(lengths.len().min(1));
        let bytes = self.parts(from, own);
        // Attachments have one piece of memory, since many pieces of different lengths would take
        // more.
        let mut attached = Bytes::from(self.parts(from, lengths));
        Parcel {
            bytes,
            attached: lengths
                .iter()
                .map(|length| attached.split_to(*length))
                .collect(),
            is_last,
        }
    }

    /// Receives the next parts of a parcel, which are so long, one after another.
    fn parts(&self, from: i32, lengths: &[usize]) -> Vec<u8> {
        let mut parts = vec![0; lengths.iter().sum()];
        let mut rest = &mut parts[..];
        for length in lengths {
            let (part, after) = rest.split_at_mut(*length);
            rest = after;
            for piece in part.chunks_mut(PIECE) {
                let began = Instant::now();
                let found = loop {
                    match self.world.process_at_rank(from).immediate_matched_probe() {
                        Some((found, _)) => break found,
                        None => self.rest(began),
                    }
                };
                found.matched_receive_into(piece);
            }
        }
        parts
    }

    /// Returns the next message from a process, if it has come.
    fn come(&self, from: i32) -> Option<Vec<u8>> {
        self.world
            .process_at_rank(from)
            .immediate_matched_probe()
            .map(|found| found.matched_receive_vec().0)
    }

    /// Returns how long to wait until the next look, which is the longer the longer the thread has
    /// waited since `began`.
    fn pause(&self, began: Instant) -> Duration {
        match began.elapsed() {
            _ if !self.is_awaited.load(Ordering::Relaxed) => PAUSE_AT_WORK,
            waited if waited < 20 * BUSY => Duration::ZERO,
            waited => PAUSE.min(waited / 50),
        }
    }

    /// Waits a little.
    fn rest(&self, began: Instant) {
        match self.pause(began) {
            Duration::ZERO if began.elapsed() < BUSY => std::hint::spin_loop(),
            Duration::ZERO => std::thread::yield_now(),
            pause => std::thread::sleep(pause),
        }
    }
}

/// Returns what precedes a parcel: whether it is the last one, and the lengths of its parts.
fn head_of(parcel: &Parcel) -> Vec<u8> {
    let lengths = std::iter::once(parcel.bytes.len()).chain(parcel.attached.iter().map(Bytes::len));
    let lengths = lengths.flat_map(|length| (length as u64).to_le_bytes());
    std::iter::once(u8::from(parcel.is_last))
        .chain(lengths)
        .collect()
}

/// Returns what [`head_of`] has been told.
fn opened(head: &[u8]) -> (bool, Vec<usize>) {
    let (is_last, lengths) = head.split_first().unwrap_or((&1, &[]));
    let lengths = lengths
        .as_chunks::<{ size_of::<u64>() }>()
        .0
        .iter()
        .map(|length| u64::from_le_bytes(*length) as usize);
    (*is_last != 0, lengths.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a process waits for messages that nobody sends.
    #[test]
    fn the_head_of_a_parcel_tells_what_follows() {
        let attached = vec![Bytes::from(vec![1; 700]), Bytes::new()];
        for is_last in [false, true] {
            let parcel = Parcel {
                bytes: vec![2; 300],
                attached: attached.clone(),
                is_last,
            };
            assert_eq!(opened(&head_of(&parcel)), (is_last, vec![300, 700, 0]));
        }
    }
}
