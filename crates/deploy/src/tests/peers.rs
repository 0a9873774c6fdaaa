//! Peers that are not as they should be: one that comes back with what is over, and one that takes
//! too little.

use super::*;

/// Reads a message with its length.
pub(super) fn whole_message(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut whole = vec![0; LENGTH_BYTES];
    from.read_exact(&mut whole)?;
    let length = u32::from_le_bytes([whole[0], whole[1], whole[2], whole[3]]);
    whole.resize(LENGTH_BYTES + length as usize, 0);
    from.read_exact(&mut whole[LENGTH_BYTES..])?;
    Ok(whole)
}

/// Is a process with these users. Its first connection ends where the first upload would go up, and
/// the second one brings that twice.
fn with_a_late_upload(address: SocketAddr, users: Range<u32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let detour = listener.local_addr().unwrap();
    let over = AtomicBool::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut late = None;
            for connection in 0.. {
                let (mut device, _) = listener.accept().unwrap();
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let mut server = TcpStream::connect(address).unwrap();
                let (from, to) = (server.try_clone().unwrap(), device.try_clone().unwrap());
                let down = thread::spawn(move || pass(from, to, usize::MAX));
                while let Ok(message) = whole_message(&mut device) {
                    let head = Message::read(message[LENGTH_BYTES..].to_vec().into()).unwrap();
                    if connection == 0 && matches!(head.head, Head::Upload { .. }) {
                        late = Some(message);
                        break;
                    }
                    // The server may have hung up.
                    let _ = server.write_all(&message);
                    if matches!(head.head, Head::Join { .. }) {
                        let late = late.take().unwrap_or_default().repeat(2);
                        let _ = server.write_all(&late);
                    }
                }
                let _ = server.shutdown(Shutdown::Both);
                let _ = device.shutdown(Shutdown::Both);
                down.join().unwrap();
            }
        });
        device_process(detour, users).unwrap();
        over.store(true, Ordering::Relaxed);
        TcpStream::connect(detour).unwrap();
    });
}

/// If this fails, an update counts that was lost with its connection, or one that comes twice.
#[test]
fn an_upload_of_a_participation_that_was_lost_changes_nothing() {
    let (outcome, heard) = served("training.rounds=4", |address| {
        thread::scope(|scope| {
            scope.spawn(move || device_process(address, 0..20).unwrap());
            with_a_late_upload(address, 20..30);
        });
    });
    assert!(outcome.stopped_by.is_none());
    for round in &outcome.rounds {
        assert_eq!(round.aggregated + round.lost, round.invited, "{round:?}");
    }
    assert!(outcome.rounds[0].lost > 0);
    let aggregated: u32 = outcome.rounds.iter().map(|round| round.aggregated).sum();
    let came = heard.arrivals.matches("\"uploaded\"").count();
    assert_eq!(came, aggregated as usize + 2, "the late one came twice");
    check_replay("training.rounds=4", &outcome, &heard);
}

/// If this fails, a process finds out in the middle of a run that the server does not take its
/// uploads.
#[test]
fn a_server_that_takes_too_short_messages_is_refused_at_the_greeting() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (stream, _) = listener.accept().unwrap();
            let (mut reader, writer) = connection::open(stream, LARGEST_GREETING, SILENCE).unwrap();
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
