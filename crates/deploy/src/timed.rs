//! Streams with a deadline, however little their peer sends or takes at a time.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What bytes are read from, and how long a read waits for them.
pub(crate) trait Patient: Read {
    /// Has a read give up after this time.
    ///
    /// # Errors
    /// Those of the system.
    fn wait_at_most(&mut self, time: Duration) -> io::Result<()>;
}

impl Patient for TcpStream {
    fn wait_at_most(&mut self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

/// Bytes that are there already.
impl Patient for &[u8] {
    fn wait_at_most(&mut self, _: Duration) -> io::Result<()> {
        Ok(())
    }
}

/// A stream that gives nothing after its deadline, however little its peer sends at a time.
pub(crate) struct Timed<S> {
    pub stream: S,
    /// The deadline, and how long a read waits at most, also once there is no deadline.
    pub deadline: Option<(Instant, Duration)>,
}

impl<S: Patient> Timed<S> {
    /// Gives nothing after this instant.
    pub(crate) fn until(stream: S, deadline: Instant) -> Self {
        let deadline = Some((deadline, Duration::MAX));
        Self { stream, deadline }
    }
}

impl<S: Patient> Read for Timed<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some((deadline, silence)) = self.deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.wait_at_most(left.min(silence))?;
        }
        self.stream.read(buffer)
    }
}

/// A stream that takes nothing after its deadline, however little its peer takes at a time.
pub(crate) struct Until<'s>(pub &'s mut TcpStream, pub Instant);

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match Instant::now() < self.1 {
            // This takes as long as the silence at most.
            true => self.0.write(bytes),
            false => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
