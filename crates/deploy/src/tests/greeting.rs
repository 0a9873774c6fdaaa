//! Greetings: who is refused, and how long one may take.

use super::*;

pub(super) fn greeted(
    reader: &mut Reader,
    writer: &connection::Writer,
    users: Range<u32>,
) -> Message {
    let scenario = |offer: &Message| *blake3::hash(&offer.payload).as_bytes();
    greeted_with(reader, writer, users, scenario)
}

/// Greets the server with a digest of the scenario that it offers.
pub(super) fn greeted_with(
    reader: &mut Reader,
    writer: &connection::Writer,
    users: Range<u32>,
    scenario: impl Fn(&Message) -> Digest,
) -> Message {
    writer.send(Message::new(Head::Hello {
        protocol: PROTOCOL,
        token: Digest::default(),
        build: BUILD,
    }));
    let offer = reader.next().unwrap();
    writer.send(Message::new(Head::Join {
        scenario: scenario(&offer),
        data: DATA,
        first: users.start,
        end: users.end,
        run: 0,
    }));
    reader.next().unwrap()
}

/// If this fails, a process takes part that computes something else, or that has users of another
/// one.
#[test]
fn a_process_that_does_not_fit_is_refused_with_the_reason() {
    let refusal = |result: Result<()>| match result {
        Err(Error::Usage(message)) => message,
        other => panic!("{other:?}"),
    };
    let (_, heard) = served("training.rounds=1", |address| {
        let other_world = |text: &str| world(text).map(|(world, _)| (world, [1; 32]));
        let joining = |build, world| Joining {
            users: 0..10,
            token: Digest::default(),
            insecure: false,
            build,
            threads: 1,
            interrupted: Arc::new(AtomicBool::default()),
            world,
            keep: None,
            attempts: 0,
            retry: RETRY,
            silence: SILENCE,
            keys: None,
        };
        let other_build = refusal(join(&joining([8; 32], &world), address));
        assert!(other_build.contains("another build"), "{other_build}");
        let token = [1; 32];
        let other_token = Joining {
            token,
            ..joining([8; 32], &world)
        };
        let other_token = refusal(join(&other_token, address));
        assert!(other_token.contains("--token-file"), "{other_token}");
        let scenario_of = |offer: &Message| *blake3::hash(&offer.payload).as_bytes();
        let stream = TcpStream::connect(address).unwrap();
        let (mut reader, writer) =
            connection::open(stream, None, LARGEST_GREETING, SILENCE).unwrap();
        let other_scenario = greeted_with(&mut reader, &writer, 0..10, |offer| {
            scenario_of(offer).map(|byte| !byte)
        });
        let other_scenario = String::from_utf8_lossy(&other_scenario.payload).into_owned();
        assert!(
            other_scenario.contains("another scenario"),
            "{other_scenario}"
        );
        let other_data = refusal(join(&joining(BUILD, &other_world), address));
        assert!(other_data.contains("other ratings"), "{other_data}");
        let beyond = refusal(device_process(address, 20..31));
        assert!(beyond.contains("the users are 0..29"), "{beyond}");
        let stream = TcpStream::connect(address).unwrap();
        let (mut reader, writer) =
            connection::open(stream, None, LARGEST_GREETING, SILENCE).unwrap();
        assert_eq!(greeted(&mut reader, &writer, 0..10).head, Head::Welcome);
        let overlapping = refusal(device_process(address, 5..15));
        assert!(
            overlapping.contains("another process has the users 0..9"),
            "{overlapping}"
        );
        // A process with the same users takes its place.
        thread::scope(|scope| {
            scope.spawn(move || device_process(address, 0..10).unwrap());
            scope.spawn(move || device_process(address, 10..30).unwrap());
        });
        while reader.next().is_ok() {}
    });
    assert!(!heard.waited_for.is_empty());
    // Each of the six is told once, and so is the one whose place was taken.
    let told = heard.cut_off.len();
    assert_eq!(told, 7, "{:?}", heard.cut_off);
}

/// If this fails, a peer that was refused keeps its connection, and with it threads of the server.
#[test]
fn a_peer_that_is_refused_is_hung_up_on() {
    served("training.rounds=1", |address| {
        let open = || {
            let stream = TcpStream::connect(address).unwrap();
            connection::open(stream, None, LARGEST_GREETING, SILENCE).unwrap()
        };
        let ((mut first, to_first), (mut other, to_other)) = (open(), open());
        assert_eq!(greeted(&mut first, &to_first, 0..10).head, Head::Welcome);
        let refusal = greeted(&mut other, &to_other, 5..15);
        assert_eq!(refusal.head, Head::Refusal);
        // Otherwise the server would go on with signs of life.
        assert!(other.next().is_err());
        thread::scope(|scope| {
            for users in [0..10, 10..30] {
                scope.spawn(move || device_process(address, users).unwrap());
            }
        });
    });
}

/// If this fails, somebody who has not named the certificate of the server looks for the fault in the
/// address, after a minute.
#[test]
fn a_process_in_the_clear_is_told_that_the_server_speaks_tls() {
    let _deadline = deadline();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; LENGTH_BYTES]).unwrap();
            // An alert: a message that could not be decoded ends the connection.
            stream.write_all(&[0x15, 3, 3, 0, 2, 2, 50]).unwrap();
            let _ = stream.shutdown(Shutdown::Write);
            while matches!(stream.read(&mut [0; 99]), Ok(1..)) {}
        });
        let attempts = 0;
        let joining = Joining {
            attempts,
            ..joining(0..30, None)
        };
        let refusal = join(&joining, address).unwrap_err().to_string();
        assert!(refusal.contains("--tls-trust"), "{refusal}");
    });
}

/// If this fails, a token goes over a network in the clear without anybody having said so.
#[test]
fn a_token_is_not_sent_in_the_clear_to_another_machine() {
    let joining = Joining {
        token: [1; 32],
        attempts: 0,
        ..joining(0..30, None)
    };
    // This address is kept for documents. The refusal comes before anything is sent there.
    let refusal = join(&joining, "192.0.2.1:9").unwrap_err().to_string();
    assert!(refusal.contains("--insecure"), "{refusal}");
}

/// If this fails, a peer that sends a byte now and then keeps a thread of the other side for ever.
#[test]
fn a_greeting_has_to_be_over_in_time() {
    let _deadline = deadline();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let silence = Duration::from_millis(20);
    let (mut reader, writer) = connection::open(stream, None, LARGEST_GREETING, silence).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            slow.write_all(&LARGEST_GREETING.to_le_bytes()).unwrap();
            while slow.write_all(&[0]).is_ok() {}
        });
        let kind = reader.next().unwrap_err().kind();
        // The other side would wait for ever with its bytes unread. It ends once nobody has the socket.
        writer.cut();
        drop((reader, writer));
        // A read that gives up by itself says that it would block.
        let in_time = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
        assert!(in_time.contains(&kind), "{kind:?}");
    });
}

/// If this fails, a process that reads its ratings for longer than the greeting may take is cut off.
#[test]
fn a_peer_that_has_said_who_it_is_may_take_its_time() {
    let _deadline = deadline();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let silence = Duration::from_millis(20);
    let (mut reader, _writer) = connection::open(stream, None, LARGEST_GREETING, silence).unwrap();
    // The time is over once this has failed.
    while reader.next().unwrap_err().kind() != io::ErrorKind::TimedOut {}
    reader.is_known().unwrap();
    let welcome = Message::new(Head::Welcome);
    peer.write_all(&welcome.beginning().unwrap()).unwrap();
    assert_eq!(reader.next().unwrap(), welcome);
}

/// If this fails, a process finds out in the middle of a run that the server does not take its
/// uploads.
#[test]
fn a_server_that_takes_too_short_messages_is_refused_at_the_greeting() {
    let _deadline = deadline();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (stream, _) = listener.accept().unwrap();
            let (mut reader, writer) =
                connection::open(stream, None, LARGEST_GREETING, SILENCE).unwrap();
            reader.next().unwrap();
            let offer = Head::Offer {
                largest: 1000,
                pace: false,
                keeps: false,
            };
            writer.send(Message::with(offer, "training.rounds=1"));
            while reader.next().is_ok() {}
        });
        let refusal = device_process(address, 0..30).unwrap_err().to_string();
        assert!(refusal.contains("1000 bytes at most"), "{refusal}");
    });
}
