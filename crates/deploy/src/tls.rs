//! Connections that nobody else can read: TLS by rustls, with the feature `tls`.
//!
//! One thread reads a connection and another one writes it. What both share is the state of TLS, which
//! is locked while bytes are sealed or opened, and never while the socket is waited for.

use std::path::Path;

use fedrecsim_core::Result;

#[cfg(feature = "tls")]
pub(crate) use self::with_rustls::Sealed;
#[cfg(not(feature = "tls"))]
pub(crate) use self::without::Sealed;

/// What a side of sealed connections has: a certificate with its key, or one that it trusts.
#[derive(Clone)]
pub struct Keys(
    #[cfg(feature = "tls")] with_rustls::Side,
    #[cfg(not(feature = "tls"))] without::Side,
);

impl Keys {
    /// Reads the certificate of a server, with those that vouch for it, and its private key, as PEM.
    ///
    /// # Errors
    /// [`Error::Read`](fedrecsim_core::Error::Read) for files that have none or do not fit, and
    /// [`Error::Usage`](fedrecsim_core::Error::Usage) in a build without TLS.
    pub fn of_server(certificate: &Path, key: &Path) -> Result<Self> {
        Side::of_server(certificate, key).map(Self)
    }

    /// Reads the certificate that vouches for the server at `address`, as PEM.
    ///
    /// # Errors
    /// As [`Self::of_server`], and for an address that a certificate cannot be of.
    pub fn trusting(certificate: &Path, address: &str) -> Result<Self> {
        Side::trusting(certificate, address).map(Self)
    }
}

#[cfg(feature = "tls")]
use self::with_rustls::Side;
#[cfg(not(feature = "tls"))]
use self::without::Side;

#[cfg(not(feature = "tls"))]
mod without {
    use std::convert::Infallible;
    use std::io::{self, Read, Write};
    use std::net::TcpStream;
    use std::path::Path;

    use super::Keys;
    use fedrecsim_core::{Error, Result};

    pub(super) type Side = Absent;

    /// What a build without TLS has in the place of keys and of connections: nothing.
    #[derive(Clone)]
    pub(super) struct Absent(Infallible);

    #[derive(Clone)]
    pub(crate) struct Sealed(Infallible);

    impl Absent {
        pub(super) fn of_server(_: &Path, _: &Path) -> Result<Self> {
            Err(absent())
        }

        pub(super) fn trusting(_: &Path, _: &str) -> Result<Self> {
            Err(absent())
        }
    }

    fn absent() -> Error {
        Error::Usage(
            "this build has no TLS, since that takes half a minute to build; build it by \
             `cargo build --release --features tls`, on both sides"
                .to_owned(),
        )
    }

    impl Sealed {
        pub(crate) fn open(
            keys: &Keys,
            _: &mut (impl Read + ?Sized),
            _: &mut TcpStream,
        ) -> io::Result<Self> {
            match keys.0.0 {}
        }

        pub(crate) fn read(&self, _: &mut (impl Read + ?Sized), _: &mut [u8]) -> io::Result<usize> {
            match self.0 {}
        }

        pub(crate) fn write(&self, _: &mut impl Write, _: &[u8]) -> io::Result<()> {
            match self.0 {}
        }
    }
}

#[cfg(feature = "tls")]
mod with_rustls {
    use std::io::{self, Read, Write};
    use std::net::TcpStream;
    use std::path::Path;
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{
        AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection,
        RootCertStore, ServerConfig, ServerConnection,
    };

    use super::Keys;
    use fedrecsim_core::{Error, Result};

    #[derive(Clone)]
    pub(super) enum Side {
        Server(Arc<ServerConfig>),
        Client(Arc<ClientConfig>, ServerName<'static>),
    }

    impl Side {
        pub(super) fn of_server(certificate: &Path, key: &Path) -> Result<Self> {
            let chain = certificates(certificate)?;
            let own = PrivateKeyDer::from_pem_file(key).map_err(|reason| unread(key, reason))?;
            let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()
                .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, own));
            let config = config.map_err(|reason| unread(certificate, reason))?;
            Ok(Self::Server(Arc::new(config)))
        }

        pub(super) fn trusting(certificate: &Path, address: &str) -> Result<Self> {
            let mut roots = RootCertStore::empty();
            for trusted in certificates(certificate)? {
                let added = roots.add(trusted);
                added.map_err(|reason| unread(certificate, reason))?;
            }
            // The address of a host of version 6 stands in brackets.
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let host = host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned();
            let name = ServerName::try_from(host);
            let name = name.map_err(|reason| Error::Usage(format!("{address}: {reason}")))?;
            let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|reason| Error::Usage(reason.to_string()))?
                .with_root_certificates(roots)
                .with_no_client_auth();
            Ok(Self::Client(Arc::new(config), name))
        }

        fn connection(&self) -> std::result::Result<Connection, rustls::Error> {
            Ok(match self {
                Self::Server(config) => ServerConnection::new(Arc::clone(config))?.into(),
                Self::Client(config, name) => {
                    ClientConnection::new(Arc::clone(config), name.clone())?.into()
                }
            })
        }
    }

    fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let read: Vec<_> = read.map_err(|reason| unread(path, reason))?;
        match read.is_empty() {
            true => Err(unread(path, "it has no certificate in PEM")),
            false => Ok(read),
        }
    }

    fn unread(path: &Path, reason: impl ToString) -> Error {
        Error::read(path, io::Error::other(reason.to_string()))
    }

    /// The state of a sealed connection, which both of its threads have.
    #[derive(Clone)]
    pub(crate) struct Sealed(Arc<Mutex<State>>);

    struct State {
        connection: Connection,
        /// What has come and is not opened yet.
        came: Vec<u8>,
    }

    impl Sealed {
        /// Agrees on keys with the other side.
        ///
        /// # Errors
        /// [`io::ErrorKind::InvalidData`] for a side that cannot be trusted, with the reason, and those
        /// of the connection.
        pub(crate) fn open(
            keys: &Keys,
            from: &mut (impl Read + ?Sized),
            to: &mut TcpStream,
        ) -> io::Result<Self> {
            let connection = keys.0.connection().map_err(|error| in_words(&error))?;
            let came = Vec::new();
            let sealed = Self(Arc::new(Mutex::new(State { connection, came })));
            loop {
                let mut state = sealed.state();
                state.flush(to)?;
                if !state.connection.is_handshaking() {
                    drop(state);
                    return Ok(sealed);
                }
                if state.came.is_empty() {
                    let came = piece_of(from)?;
                    state.came = came;
                }
                if let Err(reason) = state.take() {
                    // The other side is told why. If it has gone, there is nothing to tell.
                    let _ = state.flush(to);
                    return Err(reason);
                }
            }
        }

        /// Reads what the other side has sealed.
        pub(crate) fn read(
            &self,
            from: &mut (impl Read + ?Sized),
            buffer: &mut [u8],
        ) -> io::Result<usize> {
            loop {
                let mut state = self.state();
                match state.connection.reader().read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                }
                if state.came.is_empty() {
                    // The other thread may write while this one waits.
                    drop(state);
                    let came = piece_of(from)?;
                    state = self.state();
                    state.came = came;
                }
                state.take()?;
            }
        }

        /// Seals bytes, and sends them.
        pub(crate) fn write(&self, to: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
            while !bytes.is_empty() {
                let mut sealed = Vec::new();
                let mut state = self.state();
                let written = state.connection.writer().write(bytes)?;
                state.seal(&mut sealed)?;
                drop(state);
                to.write_all(&sealed)?;
                bytes = &bytes[written..];
            }
            Ok(())
        }

        fn state(&self) -> MutexGuard<'_, State> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl State {
        /// Opens as much of what has come as there is room for.
        fn take(&mut self) -> io::Result<()> {
            let mut left = &self.came[..];
            self.connection.read_tls(&mut left)?;
            let taken = self.came.len() - left.len();
            self.came.drain(..taken);
            let opened = self.connection.process_new_packets();
            opened.map(drop).map_err(|error| in_words(&error))
        }

        fn seal(&mut self, to: &mut Vec<u8>) -> io::Result<()> {
            while self.connection.wants_write() {
                self.connection.write_tls(to)?;
            }
            Ok(())
        }

        fn flush(&mut self, to: &mut TcpStream) -> io::Result<()> {
            let mut sealed = Vec::new();
            self.seal(&mut sealed)?;
            to.write_all(&sealed)
        }
    }

    /// Reads what has come, some bytes at least.
    fn piece_of(from: &mut (impl Read + ?Sized)) -> io::Result<Vec<u8>> {
        let mut piece = vec![0; 1 << 14];
        let read = from.read(&mut piece)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        piece.truncate(read);
        Ok(piece)
    }

    fn in_words(error: &rustls::Error) -> io::Error {
        use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};

        let reason = match error {
            rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => {
                "the certificate of the server has run out; start it with a new one".to_owned()
            }
            rustls::Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => {
                "the certificate of the server is not valid yet; compare the clocks".to_owned()
            }
            rustls::Error::InvalidCertificate(reason) => {
                format!("the certificate of the server is not one that is trusted here: {reason:?}")
            }
            rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => {
                "it says that the certificate of this server has run out".to_owned()
            }
            rustls::Error::InvalidMessage(_) => {
                "it does not speak TLS; start both sides with certificates, or none".to_owned()
            }
            other => other.to_string(),
        };
        io::Error::new(io::ErrorKind::InvalidData, reason)
    }
}
