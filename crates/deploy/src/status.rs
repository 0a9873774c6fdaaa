//! What a server does, for those who look: `/metrics` for Prometheus, and `/` for people.
//!
//! One thread answers one request after the other. A request is short and has to come at once, so
//! that nobody who looks keeps others from it for long, and none of it reaches the run.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::accept::{each, wake};
use super::news::News;

/// The longest request that is read.
const LONGEST_REQUEST: usize = 4096;

/// The time in which a request has to come.
const PATIENCE: Duration = Duration::from_secs(1);

/// The figures of a run that is under way.
pub struct Status {
    name: String,
    planned: u32,
    figures: Mutex<Figures>,
}

#[derive(Clone, Default)]
struct Figures {
    round: u32,
    /// Updates by what became of them.
    aggregated: u64,
    late: u64,
    lost: u64,
    bytes_up: u64,
    bytes_down: u64,
    cut_off: u64,
    begun_anew: u64,
    waits_for: Option<String>,
    last_error: Option<String>,
}

impl Status {
    /// Makes the status of a run that has not begun.
    pub fn new(name: &str, planned: u32) -> Self {
        Self {
            name: name.to_owned(),
            planned,
            figures: Mutex::default(),
        }
    }

    /// Takes in what the server says.
    pub fn hear(&self, news: &News<'_>) {
        // Nothing that holds it can panic.
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        match news {
            News::WaitsFor(users) => figures.waits_for = Some((*users).to_owned()),
            News::Complete => figures.waits_for = None,
            News::Round(record, total) => {
                figures.round = record.round;
                figures.aggregated += u64::from(record.aggregated);
                figures.late += u64::from(record.late);
                figures.lost += u64::from(record.lost);
                (figures.bytes_up, figures.bytes_down) = (total.up.sent, total.down.sent);
            }
            News::Joined(_) | News::Checkpoint(_) => {}
            News::CutOff(reason) | News::Left(_, reason) => {
                figures.cut_off += 1;
                figures.last_error = Some((*reason).to_owned());
            }
            News::BeginsAnew(users) => figures.begun_anew += u64::from(users.end - users.start),
        }
    }

    fn figures(&self) -> Figures {
        let figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.clone()
    }

    /// Returns the figures in Prometheus's text format.
    fn metrics(&self) -> String {
        let figures = self.figures();
        let mut text = String::new();
        let mut put = |name: &str, kind: &str, help: &str, values: &[(&str, u64)]| {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "# HELP fedrecsim_{name} {help}\n# TYPE fedrecsim_{name} {kind}"
            );
            for (label, value) in values {
                let _ = writeln!(text, "fedrecsim_{name}{label} {value}");
            }
        };
        let updates = [
            ("{outcome=\"aggregated\"}", figures.aggregated),
            ("{outcome=\"late\"}", figures.late),
            ("{outcome=\"lost\"}", figures.lost),
        ];
        let bytes = [
            ("{direction=\"up\"}", figures.bytes_up),
            ("{direction=\"down\"}", figures.bytes_down),
        ];
        let waits = u64::from(figures.waits_for.is_some());
        put(
            "rounds_total",
            "counter",
            "Rounds that are over.",
            &[("", figures.round.into())],
        );
        put(
            "rounds_planned",
            "gauge",
            "Rounds of the whole run.",
            &[("", self.planned.into())],
        );
        put(
            "updates_total",
            "counter",
            "Updates of rounds that are over.",
            &updates,
        );
        put(
            "frame_bytes_total",
            "counter",
            "Bytes of frames that were sent.",
            &bytes,
        );
        put(
            "waits",
            "gauge",
            "Whether users are missing.",
            &[("", waits)],
        );
        put(
            "peers_cut_off_total",
            "counter",
            "Peers that were refused or cut off.",
            &[("", figures.cut_off)],
        );
        put(
            "devices_begun_anew_total",
            "counter",
            "Devices that came without what they had learned.",
            &[("", figures.begun_anew)],
        );
        text
    }

    /// Returns a page for people.
    fn page(&self) -> String {
        let (name, planned, figures) = (escaped(&self.name), self.planned, self.figures());
        let devices = match &figures.waits_for {
            Some(users) => format!("waits for the users {}", escaped(users)),
            None => "all are there".to_owned(),
        };
        let error = figures.last_error.as_deref().unwrap_or("none");
        let rows = [
            ("round", format!("{} of {planned}", figures.round)),
            ("devices", devices),
            ("devices begun anew", figures.begun_anew.to_string()),
            ("updates aggregated", figures.aggregated.to_string()),
            ("updates late", figures.late.to_string()),
            ("updates lost", figures.lost.to_string()),
            ("bytes up", figures.bytes_up.to_string()),
            ("bytes down", figures.bytes_down.to_string()),
            ("peers cut off", figures.cut_off.to_string()),
            ("last error", escaped(error)),
        ];
        let rows = rows.map(|(what, value)| format!("<tr><th>{what}<td>{value}\n"));
        format!(
            "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=5><title>{name}</title>\n\
             <h1>{name}</h1>\n<table>\n{}</table>\n<p><a href=metrics>metrics</a>\n",
            rows.concat()
        )
    }

    /// Returns the answer to a request.
    fn answer(&self, request: &[u8]) -> String {
        let line = request
            .split(|byte| *byte == b'\r')
            .next()
            .unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["GET", "/metrics", _] => response(
                "200 OK",
                "text/plain; version=0.0.4; charset=utf-8",
                &self.metrics(),
            ),
            ["GET", "/", _] => response("200 OK", "text/html; charset=utf-8", &self.page()),
            ["GET", _, _] => response("404 Not Found", PLAIN, "there are / and /metrics\n"),
            [_, _, _] => response("405 Method Not Allowed", PLAIN, "only GET is answered\n"),
            _ => response("400 Bad Request", PLAIN, "this is no request\n"),
        }
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn response(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{body}"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// A status that is answered until this is dropped.
pub struct Published {
    here: SocketAddr,
    over: Arc<AtomicBool>,
}

/// Answers requests for `status` that come to `listener`.
///
/// # Errors
/// Those of the system.
pub fn publish(status: Arc<Status>, listener: TcpListener) -> io::Result<Published> {
    let over = Arc::new(AtomicBool::default());
    let published = Published {
        here: listener.local_addr()?,
        over: Arc::clone(&over),
    };
    let answering = move || {
        each(&listener, &over, |stream| {
            // Somebody who looks and goes away is nobody's loss.
            let _ = converse(stream, &status);
        });
    };
    thread::Builder::new()
        .name("status".to_owned())
        .spawn(answering)?;
    Ok(published)
}

impl Drop for Published {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // A thread that cannot be woken ends with this process.
        let _ = wake(self.here);
    }
}

/// Reads a request up to the end of its head, and answers it.
fn converse(mut stream: TcpStream, status: &Status) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut request, mut piece) = (Vec::new(), [0; 512]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let read = stream.read(&mut piece)?;
        request.extend_from_slice(&piece[..read]);
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if request.len() > LONGEST_REQUEST {
            let long = "431 Request Header Fields Too Large";
            return stream.write_all(response(long, PLAIN, "the request is too long\n").as_bytes());
        }
    }
    stream.write_all(status.answer(&request).as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_sim::outcome::{ByDirection, Flow, RoundRecord};

    fn asked(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // The other side may have closed with bytes unread.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    /// If this fails, a scraper reads other figures than the server has, a page carries a peer's HTML,
    /// or somebody who sends too much or nothing keeps others from looking.
    #[test]
    fn figures_are_shown_to_scrapers_and_people_and_to_nobody_else() {
        let status = Arc::new(Status::new("a <b>", 9));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let published = publish(Arc::clone(&status), listener).unwrap();
        let record = RoundRecord {
            round: 3,
            aggregated: 15,
            late: 2,
            ..RoundRecord::default()
        };
        let mut total = ByDirection::<Flow>::default();
        total.up.sent = 4096;
        status.hear(&News::WaitsFor("0..9"));
        status.hear(&News::Round(&record, &total));
        status.hear(&News::CutOff("it says <nonsense>"));
        status.hear(&News::BeginsAnew(5..7));
        let _silent = TcpStream::connect(address).unwrap();
        let metrics = asked(address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        assert!(metrics.starts_with("HTTP/1.0 200 OK\r\n"), "{metrics}");
        for line in [
            "fedrecsim_rounds_total 3",
            "fedrecsim_rounds_planned 9",
            "fedrecsim_updates_total{outcome=\"aggregated\"} 15",
            "fedrecsim_updates_total{outcome=\"late\"} 2",
            "fedrecsim_frame_bytes_total{direction=\"up\"} 4096",
            "fedrecsim_waits 1",
            "fedrecsim_peers_cut_off_total 1",
            "fedrecsim_devices_begun_anew_total 2",
        ] {
            assert!(
                metrics.lines().any(|found| found == line),
                "no {line} in {metrics}"
            );
        }
        let page = asked(address, "GET / HTTP/1.0\r\n\r\n");
        assert!(
            page.contains("3 of 9") && page.contains("waits for the users 0..9"),
            "{page}"
        );
        assert!(
            page.contains("it says &lt;nonsense>") && !page.contains("<b>"),
            "{page}"
        );
        for (request, status) in [
            ("GET /etc HTTP/1.0\r\n\r\n", "404"),
            ("POST / HTTP/1.0\r\n\r\n", "405"),
            ("hello\r\n\r\n", "400"),
            // All of it is read. What is left unread may take the answer along.
            (&"x".repeat(LONGEST_REQUEST + 1), "431"),
        ] {
            let answer = asked(address, request);
            assert!(
                answer.starts_with(&format!("HTTP/1.0 {status}")),
                "{request}: {answer}"
            );
        }
        drop(published);
    }
}
