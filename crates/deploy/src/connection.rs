//! A connection: a thread that reads messages from it, and one that writes them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::message::{Head, LENGTH_BYTES, Message};
use super::room::{OF_A_MESSAGE, ROOM, Room};
use super::timed::{Patient, Timed, Until};
use super::tls::{Keys, Sealed};

/// The number of a connection.
pub(crate) type ConnectionId = u64;

/// A peer that is silent for longer is cut off, and so is one that has not said who it is by then. Both
/// sides have to take the same.
pub const SILENCE: Duration = Duration::from_secs(30);

/// The number of heartbeats in that time, if there is nothing else to send.
const HEARTBEATS: u32 = 6;

/// A peer that is slower than this for a whole message is cut off, too.
const SLOWEST_BYTES_PER_S: u32 = 1 << 10;

/// The bytes that are taken at a time for a message, so that a length alone takes no memory.
const TAKEN_AT_ONCE: usize = 1 << 16;

/// The side of a connection that messages are given to.
#[derive(Clone)]
pub(crate) struct Writer {
    /// A queue with a bound would have memory for all that may wait.
    queue: Sender<Queued>,
    waiting: Arc<Waiting>,
    room: Arc<Room>,
    /// Why this side has cut the peer off, if it has said why.
    reason: Arc<OnceLock<String>>,
    stream: Arc<TcpStream>,
    silence: Duration,
    /// Says that nothing is written any more: the thread that writes has the other side of it.
    ended: Arc<Mutex<Receiver<()>>>,
}

/// A message that waits for its peer, with the bytes that it takes.
type Queued = (Message, usize);

/// The bytes that wait for a peer.
struct Waiting {
    now: AtomicUsize,
    /// A peer that has more of them is cut off.
    most: AtomicUsize,
}

/// The side of a connection that messages come from.
pub(crate) struct Reader<S: Patient = TcpStream> {
    stream: BufReader<Way<S>>,
    largest: Arc<AtomicU32>,
    /// How long the peer may be silent, if that has an end.
    silence: Option<Duration>,
}

/// Returns the time in which a message of so many bytes has to be over.
fn time_for(silence: Duration, bytes: usize) -> Duration {
    silence + Duration::from_secs_f64(bytes as f64 / f64::from(SLOWEST_BYTES_PER_S))
}

/// What messages come from, in the clear or sealed.
struct Way<S> {
    timed: Timed<S>,
    sealed: Option<Sealed>,
}

impl<S: Patient> Read for Way<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.sealed {
            Some(sealed) => sealed.read(&mut self.timed, buffer),
            None => self.timed.read(buffer),
        }
    }
}

/// Opens both sides of a connection, sealed with `keys` if there are some. No message that comes may be
/// longer than `largest`. A peer that is silent for `silence` is cut off.
///
/// # Errors
/// Those of the system, and [`io::ErrorKind::InvalidData`] for a peer that does not seal what it says
/// or cannot be trusted.
pub(crate) fn open(
    stream: TcpStream,
    keys: Option<&Keys>,
    largest: u32,
    silence: Duration,
) -> io::Result<(Reader, Writer)> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(silence))?;
    let (queue, queued) = channel();
    let waiting = Arc::new(Waiting {
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(ROOM),
    });
    let timed = stream.try_clone()?;
    let deadline = Some((Instant::now() + silence, silence));
    let (mut timed, mut to) = (
        Timed {
            stream: timed,
            deadline,
        },
        stream.try_clone()?,
    );
    let sealed = keys.map(|keys| Sealed::open(keys, &mut timed, &mut to));
    let sealed = sealed.transpose()?;
    let written = (to, sealed.clone(), Arc::clone(&waiting));
    let (ends, ended) = channel();
    thread::Builder::new()
        .name("connection".to_owned())
        .spawn(move || {
            let _ends = ends;
            write_all(written, &queued, silence);
        })?;
    let reader = Reader::over(Way { timed, sealed }, largest);
    let stream = Arc::new(stream);
    let ended = Arc::new(Mutex::new(ended));
    let writer = Writer {
        queue,
        waiting,
        room: Room::new(),
        reason: Arc::default(),
        stream,
        silence,
        ended,
    };
    Ok((reader, writer))
}

impl Writer {
    /// Has a message sent, and does not wait for it. A peer that does not take its messages is cut
    /// off, and so is one that is gone.
    pub(crate) fn send(&self, message: Message) {
        // A payload that others have too, such as a download for all, takes no memory of its own.
        let own = match message.payload.is_unique() {
            true => message.payload.len(),
            false => 0,
        };
        let bytes = own + OF_A_MESSAGE;
        let before = self.waiting.now.fetch_add(bytes, Ordering::Relaxed);
        let is_full = before >= self.waiting.most.load(Ordering::Relaxed);
        if is_full {
            self.cut_for("it does not take what it is sent");
        } else if self.queue.send((message, bytes)).is_err() {
            self.cut();
        }
    }

    /// Lets so many bytes more wait for the peer.
    pub(crate) fn allow(&self, more: usize) {
        let most = ROOM.saturating_add(more);
        self.waiting.most.store(most, Ordering::Relaxed);
    }

    /// Returns the room for what comes from the peer.
    pub(crate) fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// Says that the run is over, and returns until when to wait for that to be written.
    pub(crate) fn say_bye(&self) -> Instant {
        self.send(Message::new(Head::Bye));
        Instant::now() + self.silence
    }

    /// Waits until all is written or cannot be. A peer that has not taken it by then is cut off.
    pub(crate) fn wait_until(&self, deadline: Instant) {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let left = deadline.saturating_duration_since(Instant::now());
        if ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
            self.cut();
        }
    }

    /// Ends the connection for this reason, unless there was one before.
    pub(crate) fn cut_for(&self, reason: &str) {
        let _ = self.reason.set(reason.to_owned());
        self.cut();
    }

    /// Returns why this side has cut the peer off, if it has said why.
    pub(crate) fn reason(&self) -> Option<String> {
        self.reason.get().cloned()
    }

    /// Ends the connection in both directions.
    pub(crate) fn cut(&self) {
        // This fails for a connection that has ended already, and then there is nothing to do.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl<S: Patient> Reader<S> {
    /// Reads from `stream` messages of this length at most, until the deadline if there is one. After
    /// it, a read waits for the time beside it.
    pub(crate) fn new(stream: S, deadline: Option<(Instant, Duration)>, largest: u32) -> Self {
        let timed = Timed { stream, deadline };
        let sealed = None;
        Self::over(Way { timed, sealed }, largest)
    }

    fn over(way: Way<S>, largest: u32) -> Self {
        Self {
            silence: way.timed.deadline.map(|(_, silence)| silence),
            stream: BufReader::new(way),
            largest: Arc::new(AtomicU32::new(largest)),
        }
    }

    /// Lets the peer take its time for its next message, since it has said who it is. It may have
    /// ratings to read before it goes on, and gives signs of life meanwhile.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn is_known(&mut self) -> io::Result<()> {
        let timed = &mut self.stream.get_mut().timed;
        match timed.deadline.take() {
            Some((_, silence)) => timed.stream.wait_at_most(silence),
            None => Ok(()),
        }
    }

    /// Waits until the peer says something, and returns whether that is an alert of TLS: it did not
    /// understand what it was told in the clear.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn hears_tls(&mut self) -> io::Result<bool> {
        let said = self.stream.fill_buf()?;
        // As a message, this would be a long one of a kind that no server sends first.
        Ok(matches!(said, [0x15, 3, 1..=4, 0, 2, ..]))
    }

    /// Allows messages of this length from now on.
    pub(crate) fn allow(&self, largest: u32) {
        self.largest.store(largest, Ordering::Relaxed);
    }

    /// Waits for the next message. Heartbeats are taken as a sign of life and no more.
    ///
    /// # Errors
    /// Those of the system, for a peer that is silent for too long, and [`io::ErrorKind::InvalidData`]
    /// for what is no message or too long.
    pub(crate) fn next(&mut self) -> io::Result<Message> {
        loop {
            let mut length = [0; LENGTH_BYTES];
            self.stream.read_exact(&mut length)?;
            let length = u32::from_le_bytes(length);
            let largest = self.largest.load(Ordering::Relaxed);
            if length > largest {
                let reason = format!("a message of {length} bytes, where {largest} are allowed");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            let bytes = self.take_in_time(length as usize)?;
            let message = Message::read(bytes);
            let message = message.map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidData, "something that is no message")
            })?;
            if message.head != Head::Heartbeat {
                return Ok(message);
            }
        }
    }

    /// Takes a message of this length, which has to come in its time.
    fn take_in_time(&mut self, length: usize) -> io::Result<Bytes> {
        let is_there = self.stream.buffer().len() >= length;
        let timed = &mut self.stream.get_mut().timed;
        let silence = match self.silence {
            Some(silence) if !is_there && timed.deadline.is_none() => silence,
            // All of the message is there already, or a deadline holds for the whole greeting.
            _ => return self.take(length),
        };
        timed.deadline = Some((Instant::now() + time_for(silence, length), silence));
        let taken = self.take(length);
        self.is_known()?;
        taken
    }

    fn take(&mut self, length: usize) -> io::Result<Bytes> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let begin = bytes.len();
            bytes.resize(length.min(begin + TAKEN_AT_ONCE.max(begin)), 0);
            self.stream.read_exact(&mut bytes[begin..])?;
        }
        Ok(bytes.into())
    }
}

/// Writes what is queued until nobody can queue any more, or the peer is gone.
fn write_all(
    (mut stream, sealed, waiting): (TcpStream, Option<Sealed>, Arc<Waiting>),
    queued: &Receiver<Queued>,
    silence: Duration,
) {
    loop {
        let message = match queued.recv_timeout(silence / HEARTBEATS) {
            Ok((message, bytes)) => {
                waiting.now.fetch_sub(bytes, Ordering::Relaxed);
                message
            }
            Err(RecvTimeoutError::Timeout) => Message::new(Head::Heartbeat),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let beginning = message.beginning().unwrap_or_default();
        let length = beginning.len() + message.payload.len();
        let deadline = Instant::now() + time_for(silence, length);
        let mut to = Until(&mut stream, deadline);
        let mut put = |bytes: &[u8]| match &sealed {
            Some(sealed) => sealed.write(&mut to, bytes),
            None => to.write_all(bytes),
        };
        let written = put(&beginning).and_then(|()| put(&message.payload));
        if beginning.is_empty() || written.is_err() {
            break;
        }
        match message.head {
            // The reader of the other side ends the connection when it has read this.
            Head::Bye => {
                let _ = stream.shutdown(Shutdown::Write);
                return;
            }
            // A peer that was refused has no more to say.
            Head::Refusal => break,
            _ => {}
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Bytes, and how long the last read would have waited for them.
    struct Noting(&'static [u8], Arc<Mutex<Duration>>);

    impl Read for Noting {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            // Each comes alone.
            let one = buffer.len().min(1);
            self.0.read(&mut buffer[..one])
        }
    }

    impl Patient for Noting {
        fn wait_at_most(&mut self, time: Duration) -> io::Result<()> {
            *self.1.lock().unwrap() = time;
            Ok(())
        }
    }

    /// If this fails, a peer that says half of its greeting at the end of the time has it once more for
    /// the other half.
    #[test]
    fn a_read_waits_until_the_deadline_and_no_longer() {
        let hour = Duration::from_secs(3600);
        let asked = Arc::<Mutex<Duration>>::default();
        let ended = Instant::now() + hour / 2;
        let stream = Noting(&[9, 0, 0], Arc::clone(&asked));
        let mut reader = Reader::new(stream, Some((ended, hour)), 99);
        assert!(reader.next().is_err());
        let waits = *asked.lock().unwrap();
        assert!(!waits.is_zero() && waits <= hour / 2, "{waits:?}");
        reader.is_known().unwrap();
        assert_eq!(*asked.lock().unwrap(), hour);
        let over = Reader::new(Noting(&[9], asked), Some((Instant::now(), hour)), 99);
        assert_eq!({ over }.next().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    /// If this fails, a peer that takes nothing, or a little now and then, keeps the server from
    /// writing its report.
    #[test]
    fn a_peer_that_takes_nothing_is_cut_off_at_the_deadline() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let hour = Duration::from_secs(3600);
        let (_reader, writer) = open(stream, None, 9, hour).unwrap();
        // A socket has no room for 64 MiB, so that the writer waits for the peer.
        writer.send(Message::with(Head::Question, vec![0; 1 << 26]));
        assert!(writer.say_bye() > Instant::now());
        writer.wait_until(Instant::now());
        let mut taken = Vec::new();
        let _ = peer.read_to_end(&mut taken);
        assert!(taken.len() < 1 << 26);
    }
}
