//! Connections that nobody else can read.

use std::path::Path;

use super::*;

/// Returns the path of a file that was made for tests.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/tests/tls")
        .join(name)
}

/// If this fails, somebody who wants TLS and has a build without it looks for the fault elsewhere, or
/// goes on in the clear.
#[cfg(not(feature = "tls"))]
#[test]
fn a_build_without_tls_says_how_to_have_it() {
    let (certificate, key) = (file("server.pem"), file("server.key"));
    for keys in [
        Keys::of_server(&certificate, &key),
        Keys::trusting(&certificate, "127.0.0.1:7000"),
    ] {
        let refusal = keys.map(|_| ()).unwrap_err().to_string();
        assert!(refusal.contains("--features tls"), "{refusal}");
    }
}

#[cfg(feature = "tls")]
mod with_tls {
    use std::time::Instant;

    use super::super::ways::on_a_way;
    use super::*;

    fn of_server(certificate: &str) -> Option<Keys> {
        Some(Keys::of_server(&file(certificate), &file("server.key")).unwrap())
    }

    /// Is a process that trusts this certificate.
    fn process(address: SocketAddr, users: Range<u32>, trusted: &str) -> Result<()> {
        let keys = Keys::trusting(&file(trusted), &address.to_string()).unwrap();
        let joining = joining(users, None);
        let keys = Some(keys);
        join(&Joining { keys, ..joining }, address)
    }

    /// If this fails, TLS changes what is learned, or something goes over the network in the clear.
    #[test]
    fn a_sealed_run_comes_to_the_state_of_the_simulation_and_says_nothing_in_the_clear() {
        let kept = Kept {
            keys: of_server("server.pem"),
            ..Kept::default()
        };
        let (outcome, heard) = served_keeping("training.rounds=3", kept, |address| {
            thread::scope(|scope| {
                scope.spawn(move || process(address, 0..10, "server.pem").unwrap());
                let trusting = |address, users| process(address, users, "server.pem").unwrap();
                on_a_way(address, 10..30, trusting, |_, device, server| {
                    let down = (server.try_clone().unwrap(), device.try_clone().unwrap());
                    let up = thread::spawn(move || spied(device, server));
                    let said = [spied(down.0, down.1), up.join().unwrap()];
                    for text in ["training.rounds", "fedrecsim"] {
                        let is_said = |said: &Vec<u8>| {
                            said.windows(text.len()).any(|part| part == text.as_bytes())
                        };
                        // The certificate names the second one, and is sealed, too.
                        assert!(!said.iter().any(is_said), "{text}");
                    }
                });
            });
        });
        let simulated = simulated("training.rounds=3");
        assert_eq!(outcome.unwrap().state_digest, simulated.state_digest);
        assert_eq!(heard.cut_off, [""; 0]);
    }

    /// Passes on bytes, and returns them.
    fn spied(mut from: TcpStream, mut to: TcpStream) -> Vec<u8> {
        let (mut said, mut buffer) = (Vec::new(), [0; 512]);
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            said.extend_from_slice(&buffer[..count]);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
        said
    }

    /// If this fails, a process trusts whoever answers, or does not say why it does not; or somebody who
    /// speaks in the clear is let in.
    #[test]
    fn a_server_that_cannot_be_trusted_is_refused_with_the_reason() {
        for (own, trusted, expected) in [
            ("expired.pem", "expired.pem", "has run out"),
            ("server.pem", "other.pem", "not one that is trusted"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            thread::scope(|scope| {
                scope.spawn(|| {
                    let (stream, _) = listener.accept().unwrap();
                    let keys = of_server(own);
                    let opened = connection::open(stream, keys.as_ref(), 9, SILENCE);
                    assert!(opened.is_err());
                });
                let refusal = process(address, 0..30, trusted).unwrap_err().to_string();
                assert!(refusal.contains(expected), "{refusal}");
            });
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut clear = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let hello = Message::new(Head::Hello {
            protocol: PROTOCOL,
            token: Digest::default(),
            build: BUILD,
        });
        clear.write_all(&hello.beginning().unwrap()).unwrap();
        let keys = of_server("server.pem");
        let opened = connection::open(stream, keys.as_ref(), 9, SILENCE);
        let refusal = opened.map(|_| ()).unwrap_err().to_string();
        assert!(refusal.contains("does not speak TLS"), "{refusal}");
        // It is told so in the way that `join` understands.
        let told = Some((Instant::now() + SILENCE, SILENCE));
        assert!(Reader::new(clear, told, 9).hears_tls().unwrap());
    }
}
