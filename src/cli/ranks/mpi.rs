//! Ways between processes over MPI.
//!
//! One thread of the process talks to MPI, from its start to its end, and does one thing at a time: every process waits for
//! one other at a time. While it waits it looks for the message again and again, and sleeps in between, since the cores
//! belong to the trainings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, MatchedReceiveVec, Source};

use super::{Other, Place};
use crate::error::{Error, Result};
use crate::sim::{Crew, Link};

/// The most bytes of a message of MPI, whose counts have 31 bits. Longer ones are sent in pieces.
const PIECE: usize = 1 << 30;

/// The time that process 0 waits for an answer once it was told to stop. Whoever is there answers in it; MPI ends the
/// processes of a group soon after it has told them to stop, since one of them is lost.
const PATIENCE: Duration = Duration::from_millis(500);

/// The time between two looks at whether the processes were told to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The time for which a process looks for a message without a pause, and the longest pause after that.
const BUSY: Duration = Duration::from_micros(50);
const PAUSE: Duration = Duration::from_micros(200);

/// What the thread is to do.
enum Order {
    Send { to: i32, message: Vec<u8>, done: Sender<()> },
    Receive { from: i32, message: Sender<Vec<u8>> },
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
        let thread = std::thread::Builder::new()
            .name("mpi".to_owned())
            .spawn(move || talk(&inbox, &tell))
            .map_err(|reason| Error::Usage(format!("cannot start the thread of MPI: {reason}")))?;
        let started = told.recv().ok().flatten();
        let (rank, ranks) = started.ok_or_else(|| Error::Usage("MPI does not start in this process".to_owned()))?;
        let lost = Arc::new(AtomicBool::new(false));
        let link = |other: i32| -> Box<dyn Link> {
            // Process 0 alone gives others up. They wait until it ends, as it has a report to write.
            let interrupted = (rank == 0).then(|| Arc::clone(&interrupted));
            Box::new(Way { other, orders: orders.clone(), interrupted, lost: Arc::clone(&lost) })
        };
        let place = match (rank, ranks) {
            (_, 1) => Place::Alone,
            (0, _) => Place::Zero(Crew::assembling((1..ranks).map(link).collect())),
            _ => Place::Other(Other { rank: rank as u32, ranks: ranks as u32, link: link(0) }),
        };
        Ok((place, Self { orders: Some(orders), thread: Some(thread), lost }))
    }
}

impl Group {
    /// Ends MPI, which waits until every other process does so.
    pub fn leave(mut self) {
        // If a process is lost, the thread may wait for it for ever, and so would the end of MPI.
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
        // The thread waits for orders until the process ends, so that the end of MPI is not begun without the others.
        std::mem::forget(self.orders.take());
    }
}

/// A way to another process.
struct Way {
    other: i32,
    orders: Sender<Order>,
    /// Says that the processes were told to stop, after which this one does not wait for long.
    interrupted: Option<Arc<AtomicBool>>,
    /// Whether a process is lost, so that MPI can no longer be talked to.
    lost: Arc<AtomicBool>,
}

impl Way {
    /// Gives an order, and waits for its end.
    fn order<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Result<T> {
        let (tell, told) = channel();
        let has_ended = || Error::rank_lost(self.other as u32, "MPI has ended");
        if self.lost.load(Ordering::Relaxed) {
            return Err(has_ended());
        }
        self.orders.send(order(tell)).map_err(|_| has_ended())?;
        let mut told_to_stop = None;
        loop {
            match told.recv_timeout(LOOK_EVERY) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Disconnected) => return Err(has_ended()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.interrupted.as_ref().is_some_and(|interrupted| interrupted.load(Ordering::Relaxed))
                && told_to_stop.get_or_insert_with(Instant::now).elapsed() > PATIENCE
            {
                self.lost.store(true, Ordering::Relaxed);
                let reason =
                    "the processes of the run were told to stop, and it has not answered since; it may be busy";
                return Err(Error::rank_lost(self.other as u32, reason));
            }
        }
    }
}

impl Link for Way {
    fn send(&mut self, message: Vec<u8>) -> Result<()> {
        self.order(|done| Order::Send { to: self.other, message, done })
    }

    fn receive(&mut self) -> Result<Vec<u8>> {
        self.order(|message| Order::Receive { from: self.other, message })
    }
}

/// Starts MPI, tells the number of this process and of all, and carries out orders until there can be no more.
fn talk(orders: &Receiver<Order>, tell: &Sender<Option<(i32, i32)>>) {
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        let _ = tell.send(None);
        return;
    };
    let world = universe.world();
    let _ = tell.send(Some((world.rank(), world.size())));
    for order in orders {
        // Whoever has given the order waits for its end, or has given up, and then nobody has to know.
        match order {
            Order::Send { to, message, done } => {
                send(&world, to, &message);
                let _ = done.send(());
            }
            Order::Receive { from, message } => {
                let _ = message.send(receive(&world, from));
            }
        }
    }
}

fn send(world: &SimpleCommunicator, to: i32, message: &[u8]) {
    let process = world.process_at_rank(to);
    process.send(&(message.len() as u64).to_le_bytes()[..]);
    message.chunks(PIECE).for_each(|piece| process.send(piece));
}

/// Returns the next message from a process.
fn receive(world: &SimpleCommunicator, from: i32) -> Vec<u8> {
    let mut length = [0; size_of::<u64>()];
    let head = receive_piece(world, from);
    length.copy_from_slice(&head[..size_of::<u64>()]);
    let length = u64::from_le_bytes(length) as usize;
    let mut message = Vec::new();
    while message.len() < length {
        let mut piece = receive_piece(world, from);
        if message.is_empty() { message = piece } else { message.append(&mut piece) }
    }
    message
}

fn receive_piece(world: &SimpleCommunicator, from: i32) -> Vec<u8> {
    let (process, began) = (world.process_at_rank(from), Instant::now());
    loop {
        if let Some(found) = process.immediate_matched_probe() {
            return found.matched_receive_vec().0;
        }
        let waited = began.elapsed();
        match waited {
            waited if waited < BUSY => std::hint::spin_loop(),
            waited if waited < 20 * BUSY => std::thread::yield_now(),
            waited => std::thread::sleep(PAUSE.min(waited / 50)),
        }
    }
}
