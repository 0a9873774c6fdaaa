//! Accepts connections, and greets those who come.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::connection::{self, ConnectionId, Reader, Writer};
use super::doors::{Door, Doors};
use super::message::{Digest, Head, LARGEST_GREETING, Message, PROTOCOL};
use super::room::{Place, of_users};
use super::tls::Keys;

/// Where what comes from connections goes, with the instant at which it came.
pub(crate) type Heard = UnboundedSender<(Instant, Incoming)>;

/// What comes from connections and clocks.
pub(crate) enum Incoming {
    Joined(Coming, ConnectionId, Writer, Door),
    Said(ConnectionId, Message, Place),
    /// A connection that has joined has ended, for this reason.
    Gone(ConnectionId, String),
    /// A peer was refused before it joined, for this reason.
    Refused(String),
    Alarm,
}

/// What a process has said of itself in its greeting.
pub(crate) struct Coming {
    pub users: Range<u32>,
    /// The run that its devices have been in; 0 for none.
    pub run: u64,
}

/// What the server says in a greeting, and what it compares.
pub(crate) struct Greeting {
    pub scenario: String,
    /// The digest of what processes have to know; the same for all where nothing is asked.
    pub token: Digest,
    pub build: Digest,
    pub data: Digest,
    /// The longest message from a process, and the longest to one.
    pub largest: u32,
    pub longest: u32,
    pub pace: bool,
    pub keeps: bool,
    pub silence: Duration,
    /// What connections are sealed with, if they are.
    pub keys: Option<Keys>,
}

/// The time after a connection that could not be accepted. The next one cannot be, either, while the
/// process has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// The time in which a connection to this process comes about.
const WAKING: Duration = Duration::from_secs(1);

/// Hands on connections until it is over.
pub(crate) fn each(listener: &TcpListener, over: &AtomicBool, take: impl FnMut(TcpStream)) {
    each_of(listener.incoming(), over, take, || thread::sleep(PAUSE));
}

fn each_of(
    incoming: impl Iterator<Item = io::Result<TcpStream>>,
    over: &AtomicBool,
    mut take: impl FnMut(TcpStream),
    pause: impl Fn(),
) {
    for stream in incoming {
        if over.load(Ordering::Relaxed) {
            return;
        }
        match stream {
            Ok(stream) => take(stream),
            Err(_) => pause(),
        }
    }
}

/// Wakes the thread that accepts connections at this address, so that it sees that it is over. Returns
/// whether that has come about.
pub(crate) fn wake(address: SocketAddr) -> bool {
    // Where more wait to be accepted than the system keeps, this one would wait for minutes.
    TcpStream::connect_timeout(&address, WAKING).is_ok()
}

/// Accepts connections until the run is over.
pub(crate) fn accept(
    listener: &TcpListener,
    greeting: &Arc<Greeting>,
    heard: &Heard,
    (users, over): (usize, &AtomicBool),
) {
    let mut id = 0;
    let doors = Doors::new(users);
    each(listener, over, |stream| {
        id += 1;
        let (id, greeting, heard) = (id, Arc::clone(greeting), heard.clone());
        let Ok(door) = doors.open(id, &stream) else {
            return;
        };
        // A system that gives no thread refuses the peer, whose connection closes.
        let _ = thread::Builder::new()
            .name("greeting".to_owned())
            .spawn(move || {
                let ended = match listen(stream, &greeting, (id, door), &heard) {
                    Ok(reason) => Incoming::Gone(id, reason),
                    Err(reason) => Incoming::Refused(reason),
                };
                let _ = heard.send((Instant::now(), ended));
            });
    });
}

/// Greets a peer, and passes on what it says. Returns how its connection ended.
///
/// # Errors
/// Why it was refused.
fn listen(
    stream: TcpStream,
    greeting: &Greeting,
    (id, door): (ConnectionId, Door),
    heard: &Heard,
) -> std::result::Result<String, String> {
    let in_words = |error: io::Error| error.to_string();
    let keys = greeting.keys.as_ref();
    let opened = connection::open(stream, keys, LARGEST_GREETING, greeting.silence);
    let (mut reader, writer) = opened.map_err(in_words)?;
    let coming = greet(&mut reader, &writer, greeting, &door).inspect_err(|reason| {
        writer.send(Message::with(Head::Refusal, reason.clone().into_bytes()));
    })?;
    reader.allow(greeting.largest);
    let users = coming.users.len();
    writer.room().allow(of_users(users, greeting.largest));
    writer.allow(of_users(users, greeting.longest));
    let room = Arc::clone(writer.room());
    let joined = Incoming::Joined(coming, id, writer.clone(), door);
    let _ = heard.send((Instant::now(), joined));
    let mut next = || {
        let message = reader.next()?;
        let at = Instant::now();
        let place = room.take(message.payload.len())?;
        Ok((at, message, place))
    };
    let ended = loop {
        match next() {
            Ok((_, message, _)) if message.head == Head::Bye => {
                break "the connection has ended".to_owned();
            }
            Ok((at, message, place)) => {
                drop(heard.send((at, Incoming::Said(id, message, place))));
            }
            Err(error) => break in_words(error),
        }
    };
    writer.cut();
    Ok(writer.reason().unwrap_or(ended))
}

/// Greets a peer, and returns who it is, or why it may not take part.
fn greet(
    reader: &mut Reader,
    writer: &Writer,
    greeting: &Greeting,
    door: &Door,
) -> std::result::Result<Coming, String> {
    let next = |reader: &mut Reader| reader.next().map_err(|error| error.to_string());
    match next(reader)?.head {
        Head::Hello {
            protocol,
            token,
            build,
        } if protocol == PROTOCOL => {
            // These are compared in constant time. Nothing else is told to who has no token.
            if blake3::Hash::from_bytes(token) != blake3::Hash::from_bytes(greeting.token) {
                return Err(
                    "it has another token than the server; name the same --token-file for both"
                        .to_owned(),
                );
            }
            if build != greeting.build {
                let reason =
                    "it is another build of fedrecsim than the server, and may compute other bits";
                return Err(reason.to_owned());
            }
        }
        Head::Hello { protocol, .. } => {
            return Err(format!(
                "it speaks version {protocol} of the protocol, and the server {PROTOCOL}"
            ));
        }
        _ => return Err("it did not begin with a greeting".to_owned()),
    }
    door.is_known();
    reader.is_known().map_err(|error| error.to_string())?;
    let Greeting {
        largest,
        pace,
        keeps,
        ..
    } = *greeting;
    writer.send(Message::with(
        Head::Offer {
            largest,
            pace,
            keeps,
        },
        greeting.scenario.clone().into_bytes(),
    ));
    let Head::Join {
        scenario,
        data,
        first,
        end,
        run,
    } = next(reader)?.head
    else {
        return Err("it did not join".to_owned());
    };
    if scenario != *blake3::hash(greeting.scenario.as_bytes()).as_bytes() {
        return Err("it has read another scenario than the server's".to_owned());
    }
    if data != greeting.data {
        return Err("it has read other ratings than the server".to_owned());
    }
    let users = first..end;
    Ok(Coming { users, run })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;

    use super::*;

    /// If this fails, a server without descriptors does nothing but find that out, and takes a core for
    /// it.
    #[test]
    fn after_a_connection_that_cannot_be_accepted_there_is_a_pause() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let none = || Err(io::ErrorKind::QuotaExceeded.into());
        let (taken, pauses) = (Cell::new(0), Cell::new(0));
        let count = |cell: &Cell<u32>| cell.set(cell.get() + 1);
        each_of(
            [none(), none(), Ok(stream)].into_iter(),
            &AtomicBool::default(),
            |_| count(&taken),
            || count(&pauses),
        );
        assert_eq!((taken.get(), pauses.get()), (1, 2));
    }

    /// If this fails, a server or a page of status that is over waits for minutes behind peers that
    /// nobody accepts.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_queue_that_is_full_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Each one stays in the queue, until one finds it full and gives up.
        while wake(address) {}
    }
}
