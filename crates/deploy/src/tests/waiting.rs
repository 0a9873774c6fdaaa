//! Who waits for a peer that does not answer, and for how long.

use super::ways::*;
use super::*;
use crate::accept::Coming;
use crate::connections::Connections;

/// Is the server of a process whose devices ask for rows, up to its invitations to these users.
fn inviting(listener: &TcpListener, users: &[u32]) -> (Reader, connection::Writer) {
    let (stream, _) = listener.accept().unwrap();
    let (mut reader, writer) = connection::open(stream, None, LARGEST_GREETING, SILENCE).unwrap();
    reader.next().unwrap();
    let offer = Head::Offer {
        largest: LARGEST_GREETING,
        pace: false,
        keeps: false,
    };
    let needed = "codec.downlink={ select = \"needed-rows\" }";
    writer.send(Message::with(offer, needed));
    reader.next().unwrap();
    writer.send(Message::new(Head::Welcome));
    for user in users {
        writer.send(Message::new(Head::Invite {
            to: first_of(*user),
            step: 0,
            number: 0,
            phase: 0,
        }));
    }
    (reader, writer)
}

/// Returns the first participation of a user.
fn first_of(user: u32) -> To {
    let invitation = 0;
    To { user, invitation }
}

/// If this fails, a process whose server goes away stays for ever: its last question waits for its
/// trainings, and one of these for a reply.
#[test]
fn a_training_that_waits_for_a_reply_ends_with_the_connection() {
    let _deadline = deadline();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || unlucky(address, 0..30));
        let (mut reader, writer) = inviting(&listener, &[3]);
        assert!(matches!(reader.next().unwrap().head, Head::Request { .. }));
        writer.send(Message::new(Head::Question));
        drop(writer);
        while reader.next().is_ok() {}
    });
}

/// If this fails, a training that is cancelled before it asks for rows waits for them for ever, and
/// the next evaluation waits for the training.
#[test]
fn a_training_that_is_cancelled_before_it_asks_does_not_wait() {
    let _deadline = deadline();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || unlucky(address, 0..30));
        let (mut reader, writer) = inviting(&listener, &[3, 4]);
        // The only thread is taken by one of them, and the other one has not begun.
        let Head::Request { to, .. } = reader.next().unwrap().head else {
            panic!("nothing is asked for");
        };
        let other = first_of(7 - to.user);
        writer.send(Message::new(Head::Cancel { to: other }));
        // No rows are this short, so that its training fails, and the other one begins.
        writer.send(Message::new(Head::Reply { to }));
        writer.send(Message::new(Head::Question));
        loop {
            match reader.next().unwrap().head {
                Head::Answer => break,
                Head::Request { to, .. } => panic!("{to:?} waits for ever"),
                _ => {}
            }
        }
        drop(writer);
        while reader.next().is_ok() {}
    });
}

/// If this fails, a peer that takes nothing keeps the others from knowing that the run is over.
#[test]
fn all_are_told_of_the_end_before_one_is_waited_for() {
    let _deadline = deadline();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = || {
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let hour = Duration::from_secs(3600);
        let (_, writer) = connection::open(stream, None, LARGEST_GREETING, hour).unwrap();
        (peer, writer)
    };
    let ((deaf, first), (mut told, second)) = (open(), open());
    // A socket has no room for 64 MiB, so that the writer waits for the peer.
    first.send(Message::with(Head::Question, vec![0; 1 << 26]));
    thread::scope(|scope| {
        scope.spawn(move || {
            let connections = Connections::new(2, 1, ANSWER_WITHIN);
            for (user, writer) in (0..).zip([first, second]) {
                let (users, run) = (user..user + 1, 1);
                let coming = Coming { users, run };
                connections.join(&coming, u64::from(user), writer).unwrap();
            }
            connections.say_bye();
        });
        told.set_read_timeout(Some(SILENCE)).unwrap();
        let mut is_told = false;
        while let Ok(whole) = whole_message(&mut told) {
            is_told |= head(&whole) == Head::Bye;
        }
        // The server goes on once this has ended.
        drop(deaf);
        assert!(is_told);
    });
}

/// Is a process with the users 10..30 that keeps what it knows, and never answers the question of this
/// number.
fn silent_at(question: usize, address: SocketAddr) {
    let asked = AtomicUsize::default();
    let process = |address, users| drop(device_process(address, users));
    on_a_way(address, 10..30, process, |_, device, server| {
        let was_asked = AtomicBool::default();
        carry_while(&device, &server, |whole, to| {
            let is_question = head(whole) == Head::Question;
            // It is the first one of each later connection.
            let is_again =
                asked.load(Ordering::Relaxed) >= question && !was_asked.load(Ordering::Relaxed);
            if is_question {
                asked.fetch_add(1, Ordering::Relaxed);
                was_asked.store(true, Ordering::Relaxed);
            }
            let is_it = asked.load(Ordering::Relaxed) == question || is_again;
            is_question && is_it || to.write_all(whole).is_ok()
        });
    });
}

/// If this fails, a process that gives signs of life and does not answer holds the run up for ever, or
/// nobody learns why it came to nothing.
#[test]
fn a_process_that_never_answers_is_cut_off_and_ends_the_run_at_last() {
    let kept = Kept {
        answer_within: Some(Duration::from_millis(500)),
        ..Kept::default()
    };
    // The questions are: begin, the baselines, and an evaluation after each round.
    let (outcome, heard) = served_keeping("training.rounds=3", kept, |address| {
        thread::scope(|scope| {
            scope.spawn(move || device_process(address, 0..10));
            silent_at(3, address);
        });
    });
    let stopped_by = outcome.unwrap().stopped_by.unwrap().to_string();
    assert!(
        stopped_by.contains("10..29 was asked 10 times") && stopped_by.contains("--resume"),
        "{stopped_by}"
    );
    let owes = |reason: &String| reason == "it has owed an answer for 500ms";
    assert!(heard.cut_off.iter().any(owes), "{:?}", heard.cut_off);
}
