//! A process with devices.

use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;
use std::{fs, io};

use tokio::task::LocalSet;

use super::connection::{self, Reader, Writer};
use super::hosting::{Ended, take_part};
use super::message::{Digest, Head, LARGEST_GREETING, Message, PROTOCOL};
use super::room::of_users;
use super::serve::longest_message;
use super::tls::Keys;
use fedrecsim_core::{Error, Result};
use fedrecsim_sim::World;
use fedrecsim_sim::deployment::{Devices, longest_frame};

/// Makes the world of the text of a scenario, and the digest of its ratings.
pub type MakeWorld<'m> = dyn Fn(&str) -> Result<(Arc<World>, Digest)> + 'm;

/// What a process with devices is given.
pub struct Joining<'m> {
    /// The users that it has.
    pub users: Range<u32>,
    /// The digest of the token that both sides know; zeros for none.
    pub token: Digest,
    /// Whether the token may go in the clear to another machine.
    pub insecure: bool,
    /// The digest of the program that both sides run.
    pub build: Digest,
    /// The threads that train.
    pub threads: usize,
    /// Once this is true, no more trainings are begun.
    pub interrupted: Arc<AtomicBool>,
    /// Makes the world of the scenario that the server offers, and the digest of the ratings in it.
    pub world: &'m MakeWorld<'m>,
    /// The folder where its devices are kept for a server that leaves checkpoints.
    pub keep: Option<PathBuf>,
    /// How often it tries to connect again before it gives up.
    pub attempts: u32,
    /// The time between two attempts.
    pub retry: Duration,
    /// The time after which a silent server is given up, [`SILENCE`](crate::SILENCE).
    pub silence: Duration,
    /// What vouches for the server; `None` for a connection in the clear.
    pub keys: Option<Keys>,
}

/// Joins the server at `address`, and trains until that says that the run is over. If the
/// connection breaks, it connects again, and its devices keep their state.
///
/// # Errors
/// A refusal of the server, those of making the world, an error if the server does not come back, and
/// one for a token that everybody on the way could read.
pub fn join(joining: &Joining<'_>, address: impl ToSocketAddrs) -> Result<()> {
    let addresses: Vec<_> = match address.to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(reason) => return Err(lost(&reason)),
    };
    let is_elsewhere = addresses.iter().any(|address| !address.ip().is_loopback());
    let is_secret = joining.token != Digest::default() && joining.keys.is_none();
    if is_secret && is_elsewhere && !joining.insecure {
        return Err(Error::Usage(
            "the server is on another machine, and who reads the network could join with what is sent of the token; \
            name the certificate of the server (--tls-trust), go over a tunnel to 127.0.0.1, or say --insecure"
                .to_owned(),
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|reason| lost(&reason))?;
    let mut hosted = None;
    let mut attempts = 0;
    loop {
        let greeted = TcpStream::connect(&addresses[..])
            .and_then(|stream| {
                let keys = joining.keys.as_ref();
                connection::open(stream, keys, LARGEST_GREETING, joining.silence)
            })
            .map_err(unopened)
            .and_then(|(mut reader, writer)| {
                let hosted = greet(joining, &mut reader, &writer, &mut hosted)?;
                Ok((hosted, reader, writer))
            });
        let ended = match greeted {
            Ok(((devices, pace), reader, writer)) => {
                attempts = 0;
                let taking_part = take_part(devices, pace, (reader, writer));
                LocalSet::new().block_on(&runtime, taking_part)
            }
            Err(ended) => ended,
        };
        match ended {
            Ended::Over => return Ok(()),
            Ended::Refused(error) => return Err(error),
            Ended::Broken(reason) if attempts >= joining.attempts => return Err(lost(&reason)),
            Ended::Broken(_) => {
                attempts += 1;
                thread::sleep(joining.retry);
            }
        }
    }
}

/// Returns how an attempt ended whose connection could not be opened.
fn unopened(reason: io::Error) -> Ended {
    match reason.kind() {
        // A further attempt would end in the same way.
        io::ErrorKind::InvalidData => {
            Ended::Refused(Error::Usage(format!("cannot join the server: {reason}")))
        }
        _ => Ended::Broken(reason),
    }
}

fn lost(reason: &io::Error) -> Error {
    Error::Usage(format!(
        "there is no way to the server: {reason}; check the address, and that `fedrecsim serve` runs there"
    ))
}

/// The devices, and what they were made of.
struct Hosted {
    devices: Rc<Devices>,
    /// The longest message that the server may send.
    longest: u32,
    /// The longest upload that the devices may make.
    largest_upload: u32,
    scenario: Digest,
    data: Digest,
}

/// Says who this is, and makes the devices unless they are there. They outlast a greeting that
/// fails. Returns whether they are paced, too.
fn greet(
    joining: &Joining<'_>,
    reader: &mut Reader,
    writer: &Writer,
    hosted: &mut Option<Hosted>,
) -> std::result::Result<(Rc<Devices>, bool), Ended> {
    writer.send(Message::new(Head::Hello {
        protocol: PROTOCOL,
        token: joining.token,
        build: joining.build,
    }));
    if reader.hears_tls().map_err(Ended::Broken)? {
        return Err(Ended::Refused(Error::Usage(
            "the server speaks TLS: name its certificate by --tls-trust".to_owned(),
        )));
    }
    let offer = reader.next().map_err(Ended::Broken)?;
    let Head::Offer {
        largest,
        pace,
        keeps,
    } = offer.head
    else {
        return Err(refused(&offer));
    };
    reader.is_known().map_err(Ended::Broken)?;
    if keeps && joining.keep.is_none() {
        return Err(Ended::Refused(Error::Usage(
            "the server leaves checkpoints, and goes back to them with the devices: name a folder for these with --keep"
                .to_owned(),
        )));
    }
    let hosted = match hosted {
        Some(hosted) => hosted,
        None => hosted.insert(made_of(joining, &offer).map_err(Ended::Refused)?),
    };
    if largest < hosted.largest_upload {
        return Err(Ended::Refused(Error::Usage(format!(
            "the server takes messages of {largest} bytes at most, and an upload of this scenario may have {}; start \
            it with the same build and scenario",
            hosted.largest_upload
        ))));
    }
    writer.send(Message::new(Head::Join {
        scenario: hosted.scenario,
        data: hosted.data,
        first: joining.users.start,
        end: joining.users.end,
        run: hosted.devices.run(),
    }));
    let answer = reader.next().map_err(Ended::Broken)?;
    if answer.head != Head::Welcome {
        return Err(refused(&answer));
    }
    reader.allow(hosted.longest);
    let users = joining.users.len();
    writer.room().allow(of_users(users, hosted.longest));
    writer.allow(of_users(users, largest));
    Ok((Rc::clone(&hosted.devices), pace))
}

/// Makes the devices of the scenario that the server offers.
fn made_of(joining: &Joining<'_>, offer: &Message) -> Result<Hosted> {
    let text = String::from_utf8_lossy(&offer.payload);
    let (world, data) = (joining.world)(&text)?;
    let longest = longest_message(&world);
    let largest_upload = u32::try_from(longest_frame(&world)).unwrap_or(u32::MAX);
    let flag = Arc::clone(&joining.interrupted);
    if let Some(folder) = &joining.keep {
        fs::create_dir_all(folder).map_err(|reason| Error::write(folder, reason))?;
    }
    let devices = Devices::new(world, joining.threads, flag, joining.users.clone())?;
    let devices = devices.keeping(joining.keep.clone());
    Ok(Hosted {
        devices: Rc::new(devices),
        longest,
        largest_upload,
        scenario: *blake3::hash(&offer.payload).as_bytes(),
        data,
    })
}

fn refused(message: &Message) -> Ended {
    let reason = match message.head {
        Head::Refusal => String::from_utf8_lossy(&message.payload).into_owned(),
        _ => "it says what no server says".to_owned(),
    };
    Ended::Refused(Error::Usage(format!(
        "the server refuses this process: {reason}"
    )))
}
