//! Downloads a file, and goes on where a download broke off.
//!
//! What has arrived is kept under a hidden name beside the file, together with what the server
//! calls this version of it (`ETag` or `Last-Modified`). Another attempt asks for the rest, on the
//! condition that the file is still that version; a server that has another one, or knows no parts
//! of files, sends the whole.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::http::header::{CONTENT_RANGE, ETAG, HeaderName, LAST_MODIFIED};
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};

use crate::cli::output_file::remove_if_there;
use crate::{Error, Result};

/// The attempts in a row that may end without a new byte.
const FRUITLESS_MAX: u32 = 3;

/// A user's options without a network.
const WITHOUT_NETWORK: &str = ". Without a network, let another machine download the file, and give it with `--archive FILE`; \
     a copy of it elsewhere is named with `--from URL`";

/// A user's options if the provider does not give the file.
const FROM_ELSEWHERE: &str = "; a copy of the file elsewhere is named with `--from URL`";

/// Is told how many bytes have arrived, and of how many, where that is known.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, Option<u64>);

/// What has arrived of a file.
struct Partial {
    /// The bytes.
    path: PathBuf,
    /// The file with the version that they are of.
    version: PathBuf,
}

/// Downloads the file at the address `url` to `path`. It has that name only when all of it is
/// there.
///
/// # Errors
/// [`Error::Fetch`] if the server cannot be reached, refuses, or cuts the connection again and
/// again, and [`Error::Write`] if the file cannot be written.
pub(crate) fn download(url: &str, path: &Path, progress: Progress) -> Result<()> {
    let partial = Partial::of(path);
    let agent = agent(url);
    let (mut most, mut fruitless) = (partial.length(), 0);
    loop {
        let Some((length, reason)) = attempt(&agent, url, &partial, progress)? else {
            return partial.publish(path);
        };
        fruitless = if length > most { 0 } else { fruitless + 1 };
        most = most.max(length);
        if fruitless == FRUITLESS_MAX {
            let kept = partial.length();
            let reason = format!(
                "the connection broke {FRUITLESS_MAX} times without a new byte ({reason}); {kept} bytes are kept, and \
                 the same command goes on with them"
            );
            return Err(Error::fetch(url, reason));
        }
    }
}

/// The most bytes of a text that [`text`] returns.
const TEXT_BYTES_MAX: u64 = 1 << 16;

/// Returns the short text at the address `url`.
///
/// # Errors
/// [`Error::Fetch`] if the server cannot be reached or refuses, and for what is no text or a long
/// one.
pub(crate) fn text(url: &str) -> Result<String> {
    let response = agent(url).get(url).call();
    let response = response.map_err(|reason| unreachable(url, &reason, ""))?;
    match response.status() {
        StatusCode::OK => {
            let body = response.into_body().into_with_config();
            let text = body.limit(TEXT_BYTES_MAX).read_to_string();
            text.map_err(|reason| Error::fetch(url, reason))
        }
        status => Err(refused(url, status, "")),
    }
}

/// Returns a client that follows redirects, but not from https to http.
fn agent(url: &str) -> Agent {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let config = Agent::config_builder()
        .https_only(url.starts_with("https://"))
        .http_status_as_error(false)
        .user_agent(concat!("fedrecsim/", env!("CARGO_PKG_VERSION")))
        // A provider may be slow, but one that says nothing for so long has been lost.
        .timeout_connect(seconds(30))
        .timeout_recv_response(seconds(60))
        .timeout_per_read(seconds(60))
        .build();
    config.into()
}

/// Asks for what is missing of the file, and appends what arrives. Returns how many bytes were there
/// when the connection broke, and why it did; `None` if all of the file has arrived.
fn attempt(
    agent: &Agent,
    url: &str,
    partial: &Partial,
    progress: Progress,
) -> Result<Option<(u64, String)>> {
    let mut request = agent.get(url).header("Accept-Encoding", "identity");
    let version = partial.version();
    let have = version.as_ref().map_or(0, |_| partial.length());
    if let (Some(version), 1..) = (version, have) {
        request = request.header("Range", format!("bytes={have}-"));
        request = request.header("If-Range", version);
    }
    let response = request.call();
    let response = response.map_err(|reason| unreachable(url, &reason, WITHOUT_NETWORK))?;
    let (mut file, start) = match response.status() {
        StatusCode::OK => (partial.begin(version_of(&response))?, 0),
        StatusCode::PARTIAL_CONTENT if range_start(&response) == Some(have) => {
            (partial.append()?, have)
        }
        StatusCode::RANGE_NOT_SATISFIABLE if have > 0 && whole_length(&response) == Some(have) => {
            return Ok(None);
        }
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if have > 0 => {
            partial.discard()?;
            let reason = "the server sent another part of the file";
            return Ok(Some((0, reason.to_owned())));
        }
        status => return Err(refused(url, status, FROM_ELSEWHERE)),
    };
    let rest = response.body().content_length();
    let expected = rest.map(|length| start + length);
    let mut body = response.into_body().into_reader();
    let mut buffer = vec![0; 1 << 16];
    let mut length = start;
    let reason = loop {
        progress(length, expected);
        match body.read(&mut buffer) {
            Ok(0) if expected.is_none_or(|expected| expected == length) => {
                return Ok(None);
            }
            Ok(0) => break "it ended too early".to_owned(),
            Ok(read) => {
                file.write_all(&buffer[..read])
                    .map_err(|reason| Error::write(&partial.path, reason))?;
                length += read as u64;
            }
            Err(reason) if reason.kind() == io::ErrorKind::Interrupted => {}
            Err(reason) => break reason.to_string(),
        }
    };
    Ok(Some((length, reason)))
}

/// Returns the error of a server that gave no answer, with what else can be done.
fn unreachable(url: &str, reason: &ureq::Error, remedy: &str) -> Error {
    let reason = match reason {
        ureq::Error::HostNotFound => "there is no such host, or no network".to_owned(),
        other => other.to_string(),
    };
    Error::fetch(url, reason + remedy)
}

/// Returns the error of a server whose answer gives nothing, with what else can be done.
fn refused(url: &str, status: StatusCode, remedy: &str) -> Error {
    let meaning = status.canonical_reason().unwrap_or("no reason");
    let code = status.as_u16();
    Error::fetch(
        url,
        format!("the server answers {code} ({meaning}){remedy}"),
    )
}

fn header(response: &Response<Body>, name: HeaderName) -> Option<&str> {
    response.headers().get(name)?.to_str().ok()
}

/// Returns what the server calls this version of the file. A weak tag does not say that all bytes
/// are the same.
fn version_of(response: &Response<Body>) -> Option<String> {
    let tag = header(response, ETAG).filter(|tag| !tag.starts_with("W/"));
    tag.or_else(|| header(response, LAST_MODIFIED))
        .map(str::to_owned)
}

/// Returns the first byte of the part that was sent (`bytes 5-9/10`).
fn range_start(response: &Response<Body>) -> Option<u64> {
    let (start, _) = header(response, CONTENT_RANGE)?
        .strip_prefix("bytes ")?
        .split_once('-')?;
    start.trim().parse().ok()
}

/// Returns the length of the whole file from an answer without any part of it (`bytes */10`).
fn whole_length(response: &Response<Body>) -> Option<u64> {
    header(response, CONTENT_RANGE)?
        .strip_prefix("bytes */")?
        .trim()
        .parse()
        .ok()
}

impl Partial {
    fn of(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = |kind: &str| path.with_file_name(format!(".fedrecsim-{name}.{kind}"));
        Self {
            path: beside("partial"),
            version: beside("version"),
        }
    }

    /// Returns the number of bytes that are there.
    fn length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |found| found.len())
    }

    /// Returns the version that they are of, if it is known.
    fn version(&self) -> Option<String> {
        // Bytes that a link leads to are another file's.
        if self.path.is_symlink() {
            return None;
        }
        fs::read_to_string(&self.version)
            .ok()
            .filter(|version| !version.is_empty())
    }

    /// Begins anew.
    fn begin(&self, version: Option<String>) -> Result<File> {
        // The version goes first, so that no bytes are ever taken for those of another one.
        self.discard()?;
        let unwritten = |reason| Error::write(&self.path, reason);
        let file = File::create_new(&self.path).map_err(unwritten)?;
        fs::write(&self.version, version.unwrap_or_default()).map_err(unwritten)?;
        Ok(file)
    }

    /// Goes on at the end.
    fn append(&self) -> Result<File> {
        File::options()
            .append(true)
            .open(&self.path)
            .map_err(|reason| Error::write(&self.path, reason))
    }

    /// Removes what is there.
    fn discard(&self) -> Result<()> {
        [&self.version, &self.path]
            .into_iter()
            .try_for_each(|path| remove_if_there(path))
    }

    /// Gives the file its name.
    fn publish(&self, path: &Path) -> Result<()> {
        fs::rename(&self.path, path).map_err(|reason| Error::write(path, reason))?;
        // A version that is left over belongs to no bytes, and does no harm.
        let _ = fs::remove_file(&self.version);
        Ok(())
    }
}
