//! Offers one file, and its checksum if there is one, over HTTP on this machine, and fails as it is
//! told to.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The path of the checksum.
pub(crate) const CHECKSUM: &str = "/checksum";

/// What the server does with a request; once all are used up, it answers as [`Reply::Properly`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    /// Sends what is asked for: the file, or a part of it.
    Properly,
    /// The same, but the connection breaks when this many bytes of the file, counted from its
    /// beginning, were sent.
    CutAt(usize),
    /// Sends the whole file even if a part was asked for.
    WithoutParts,
    /// Leads to another address.
    Redirect(&'static str),
    /// Refuses with this line of status.
    Refuse(&'static str),
}

#[derive(Debug, Default)]
struct State {
    file: Vec<u8>,
    checksum: Option<String>,
    tag: String,
    replies: VecDeque<Reply>,
    requests: Vec<String>,
    is_over: bool,
}

/// The server, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Begins to offer `file`.
    pub(crate) fn offering(file: &[u8], replies: &[Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let replies = replies.iter().copied().collect();
        let state = State {
            file: file.to_vec(),
            tag: "\"one\"".to_owned(),
            replies,
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        let address = listener.local_addr().unwrap();
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut state = shared.lock().unwrap();
                if state.is_over {
                    break;
                }
                // A client that goes away is the business of the test.
                let _ = answer(&stream.unwrap(), &mut state);
            }
        });
        Self {
            address,
            state,
            thread: Some(thread),
        }
    }

    /// Returns the address of the folder with the file.
    pub(crate) fn address(&self) -> String {
        format!("http://{}/data", self.address)
    }

    /// Offers `text` at [`CHECKSUM`] from now on, which nothing of what the server is told to do
    /// concerns.
    pub(crate) fn offer_checksum(&self, text: &str) {
        self.state.lock().unwrap().checksum = Some(text.to_owned());
    }

    /// Returns the lines of all requests so far that say what was asked for, and forgets them.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }

    /// Puts another file in place of the one that is offered.
    pub(crate) fn replace(&self, file: &[u8]) {
        let mut state = self.state.lock().unwrap();
        state.file = file.to_vec();
        state.tag = "\"other\"".to_owned();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(mut state) = self.state.lock() {
            state.is_over = true;
        }
        // The thread waits for a connection, and sees that it is over.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Reads one request and answers it; the connection ends with the answer.
fn answer(mut stream: &TcpStream, state: &mut State) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let headers: Vec<String> = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    let header = |name: &str| {
        let of_line = |line: &String| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        };
        headers.iter().find_map(of_line)
    };
    let start = header("range").and_then(|range| {
        range
            .strip_prefix("bytes=")?
            .strip_suffix('-')?
            .parse()
            .ok()
    });
    let path = first.split(' ').nth(1).unwrap_or_default();
    state.requests.push(start.map_or_else(
        || path.to_owned(),
        |start: usize| format!("{path} from {start}"),
    ));
    if path == CHECKSUM {
        return match &state.checksum {
            Some(text) => {
                let length = text.len();
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
                )
            }
            None => write!(
                stream,
                "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            ),
        };
    }
    let start = start.filter(|_| header("if-range").is_none_or(|tag| tag == state.tag));
    let reply = state.replies.pop_front().unwrap_or(Reply::Properly);
    let start = if matches!(reply, Reply::WithoutParts) {
        None
    } else {
        start
    };
    let whole = state.file.len();
    let head = match (&reply, start) {
        (Reply::Redirect(to), _) => format!("302 Found\r\nLocation: {to}\r\nContent-Length: 0"),
        (Reply::Refuse(status), _) => format!("{status}\r\nContent-Length: 0"),
        (_, Some(start)) if start >= whole => {
            format!(
                "416 Range Not Satisfiable\r\nContent-Range: bytes */{whole}\r\nContent-Length: 0"
            )
        }
        (_, Some(start)) => format!(
            "206 Partial Content\r\nContent-Range: bytes {start}-{}/{whole}\r\nContent-Length: {}",
            whole - 1,
            whole - start
        ),
        (_, None) => format!("200 OK\r\nContent-Length: {whole}"),
    };
    let end = match reply {
        Reply::CutAt(end) => end.min(whole),
        Reply::Redirect(_) | Reply::Refuse(_) => 0,
        Reply::Properly | Reply::WithoutParts => whole,
    };
    write!(
        stream,
        "HTTP/1.1 {head}\r\nETag: {}\r\nConnection: close\r\n\r\n",
        state.tag
    )?;
    stream.write_all(&state.file[start.unwrap_or(0).min(end)..end])
}
