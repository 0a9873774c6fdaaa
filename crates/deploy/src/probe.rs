//! How fast the way between two machines is: one side answers, and the other one measures.
//!
//! Both say the same greeting. A question is two lengths and as many bytes as the first one says; the
//! answer has as many as the second one says, and one more. So an answer that is short says that a
//! question has come.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::accept::{each, wake};
use super::timed::Timed;
use fedrecsim_core::{Error, Result};

/// What both sides say first.
const GREETING: &[u8; 16] = b"fedrecsim probe1";

/// The time in which both sides have to be done. A peer that says nothing is cut off then.
pub const MOST_TIME: Duration = Duration::from_secs(60);

/// The most bytes of a question or an answer.
const MOST_BYTES: u32 = 1 << 26;

/// The bytes of the first transfer. The next ones are twice as long each, up to one that takes long
/// [`ENOUGH`] to be measured.
const FIRST_BYTES: u32 = 1 << 16;

const ENOUGH: Duration = Duration::from_millis(500);

const ROUND_TRIPS: usize = 21;

/// The bytes that are sent or read at once.
const PIECE: usize = 1 << 16;

/// The time between two looks at whether the command is interrupted.
const LOOK: Duration = Duration::from_millis(200);

/// What was measured of the way to another machine.
#[derive(Debug)]
pub struct Way {
    /// The median time of a short question and its answer.
    pub round_trip: Duration,
    /// The rates to the other machine and from it.
    pub up_bits_per_s: f64,
    pub down_bits_per_s: f64,
}

/// A connection of either side.
struct Line {
    from: BufReader<Timed<TcpStream>>,
    to: TcpStream,
    deadline: Instant,
}

impl Line {
    /// Greets the other side.
    fn open(stream: TcpStream, most: Duration) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (to, deadline) = (stream.try_clone()?, Instant::now() + most);
        let from = BufReader::with_capacity(PIECE, Timed::until(stream, deadline));
        let mut line = Self { from, to, deadline };
        line.send(GREETING)?;
        let mut greeting = [0; GREETING.len()];
        line.from.read_exact(&mut greeting)?;
        match greeting == *GREETING {
            true => Ok(line),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "what answers there is no `fedrecsim calibrate --answer` of this version",
            )),
        }
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // Each write has less time than the one before, however little the peer takes.
            self.to.set_write_timeout(Some(left))?;
            let written = self.to.write(&bytes[..bytes.len().min(PIECE)])?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Sends as many bytes, of no meaning.
    fn send_so_many(&mut self, mut bytes: u64) -> io::Result<()> {
        let piece = [0; PIECE];
        while bytes > 0 {
            let now = bytes.min(PIECE as u64);
            self.send(&piece[..now as usize])?;
            bytes -= now;
        }
        Ok(())
    }

    /// Reads as many bytes.
    fn read_so_many(&mut self, bytes: u64) -> io::Result<()> {
        match io::copy(&mut (&mut self.from).take(bytes), &mut io::sink())? {
            read if read == bytes => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Asks with so many bytes for so many, and returns how long that took.
    fn ask(&mut self, up: u32, down: u32) -> io::Result<Duration> {
        let began = Instant::now();
        self.send(&[up.to_le_bytes(), down.to_le_bytes()].concat())?;
        self.send_so_many(up.into())?;
        self.read_so_many(u64::from(down) + 1)?;
        Ok(began.elapsed())
    }

    /// Answers questions until the other side has none.
    fn answer(&mut self) -> io::Result<()> {
        loop {
            let mut lengths = [[0; 4]; 2];
            self.from.read_exact(lengths.as_flattened_mut())?;
            let [up, down] = lengths.map(u32::from_le_bytes);
            if up.max(down) > MOST_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.read_so_many(up.into())?;
            self.send_so_many(u64::from(down) + 1)?;
        }
    }
}

/// Answers those who measure, one after the other so that none is in the way of another, until
/// `interrupted` is true. One that takes longer than `most` is cut off.
///
/// # Errors
/// Those of the system.
pub fn answer(listener: &TcpListener, most: Duration, interrupted: &AtomicBool) -> io::Result<()> {
    let here = listener.local_addr()?;
    let answered = Mutex::new(None);
    let answered = || answered.lock().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| {
        scope.spawn(|| {
            each(listener, interrupted, |stream| {
                *answered() = stream.try_clone().ok();
                // Somebody who goes away has measured all it wanted.
                let _ = Line::open(stream, most).and_then(|mut line| line.answer());
                *answered() = None;
            });
        });
        while !interrupted.load(Ordering::Relaxed) {
            thread::park_timeout(LOOK);
        }
        if let Some(stream) = answered().take() {
            // This fails for a connection that has ended already, and then there is nothing to do.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = wake(here);
    });
    Ok(())
}

/// Measures the way to a machine that answers at `address`, until `interrupted` is true.
///
/// # Errors
/// [`Error::Usage`] if nobody answers, or somebody else does, and [`Error::Interrupted`].
pub fn probe(
    address: impl ToSocketAddrs + Send + 'static,
    interrupted: &AtomicBool,
) -> Result<Way> {
    let (measured, measures) = channel();
    // To look up a name, to connect and to read may each take long. So a thread does that, which ends
    // with this process if nobody waits for it any more.
    thread::spawn(move || {
        let way = TcpStream::connect(address)
            .and_then(|stream| Line::open(stream, MOST_TIME))
            .and_then(|mut line| measure(&mut line));
        measured.send(way)
    });
    let way = loop {
        match measures.recv_timeout(LOOK) {
            Ok(way) => break way,
            Err(RecvTimeoutError::Timeout) if interrupted.load(Ordering::Relaxed) => {
                return Err(Error::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                break Err(io::Error::other("the thread that measured it ended"));
            }
        }
    };
    way.map_err(|reason| {
        Error::Usage(format!(
            "cannot measure the way there: {reason}; check the address, and that `fedrecsim calibrate --answer` runs \
            there"
        ))
    })
}

fn measure(line: &mut Line) -> io::Result<Way> {
    let mut round_trips = [Duration::ZERO; ROUND_TRIPS];
    for round_trip in &mut round_trips {
        *round_trip = line.ask(0, 0)?;
    }
    round_trips.sort_unstable();
    let round_trip = round_trips[ROUND_TRIPS / 2];
    let mut rate = |ask: &mut dyn FnMut(&mut Line, u32) -> io::Result<Duration>| {
        let mut bytes = FIRST_BYTES;
        loop {
            let took = ask(line, bytes)?;
            if took >= ENOUGH || bytes >= MOST_BYTES {
                // The first byte is half a round trip on its way, and so is the answer.
                let sending = took.saturating_sub(round_trip).as_secs_f64();
                return Ok::<_, io::Error>(8.0 * f64::from(bytes) / sending.max(1e-9));
            }
            bytes *= 2;
        }
    };
    Ok(Way {
        round_trip,
        up_bits_per_s: rate(&mut |line, bytes| line.ask(bytes, 0))?,
        down_bits_per_s: rate(&mut |line, bytes| line.ask(0, bytes))?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Answers at an address that `with` is told of.
    fn answered(most: Duration, with: impl FnOnce(std::net::SocketAddr)) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let over = AtomicBool::default();
        thread::scope(|scope| {
            scope.spawn(|| answer(&listener, most, &over).unwrap());
            with(address);
            over.store(true, Ordering::Relaxed);
        });
    }

    /// If this fails, one of the two rates is that of the other direction or of nothing, or a second
    /// one who measures is not answered.
    #[test]
    fn a_way_is_measured_in_both_directions_and_again() {
        answered(MOST_TIME, |address| {
            for _ in 0..2 {
                let way = probe(address, &AtomicBool::default()).unwrap();
                assert!(way.round_trip > Duration::ZERO, "{way:?}");
                // A loopback has a rate between that of a modem and a petabit per second.
                for rate in [way.up_bits_per_s, way.down_bits_per_s] {
                    assert!((1e5..1e15).contains(&rate), "{way:?}");
                }
            }
        });
    }

    /// If this fails, a peer has the side that answers read or send without end, or keeps it from
    /// others by saying nothing.
    #[test]
    fn one_who_asks_for_too_much_or_says_nothing_is_cut_off() {
        answered(MOST_TIME, |address| {
            for lengths in [[MOST_BYTES + 1, 0], [0, u32::MAX]] {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(GREETING).unwrap();
                let lengths = lengths.map(u32::to_le_bytes).concat();
                stream.write_all(&lengths).unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).unwrap();
                assert_eq!(answer, GREETING);
            }
        });
        answered(Duration::from_millis(20), |address| {
            let mut silent = TcpStream::connect(address).unwrap();
            let mut answer = Vec::new();
            silent.read_to_end(&mut answer).unwrap();
            // On a busy host, the time may be over before the greeting.
            assert!(GREETING.starts_with(&answer), "{answer:?}");
        });
    }

    /// If this fails, somebody who measures the way to another service is told a rate.
    #[test]
    fn another_service_is_refused_with_what_to_do() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(&[b'x'; GREETING.len()]).unwrap();
            });
            let refusal = probe(address, &AtomicBool::default())
                .unwrap_err()
                .to_string();
            assert!(refusal.contains("calibrate --answer"), "{refusal}");
        });
    }

    /// If this fails, a peer that takes or sends nothing keeps a command from ending that is interrupted.
    #[test]
    fn both_sides_end_when_they_are_interrupted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Nobody accepts this connection, so that the probe waits until it is interrupted.
        let ended = probe(address, &AtomicBool::new(true));
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
        let hour = Duration::from_secs(3600);
        let mut held = None;
        answered(hour, |address| {
            let silent = held.insert(TcpStream::connect(address).unwrap());
            silent.read_exact(&mut [0; GREETING.len()]).unwrap();
        });
    }
}
