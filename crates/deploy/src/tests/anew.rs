//! Processes that lose what their devices learned, wherever the run is, and the replay of such runs.

use super::ways::{carry_while, head, on_a_way, relay, unlucky};
use super::*;

/// Two processes, the second of which is killed and comes without what it learned.
struct Killed {
    stays: Range<u32>,
    comes_anew: Range<u32>,
    /// The question to the first process that is held back until the second one has come again.
    at: usize,
}

impl Killed {
    /// Is both processes until the server says that the run is over.
    fn run(self, address: SocketAddr, keep: Option<PathBuf>) {
        let Self {
            stays,
            comes_anew,
            at,
        } = self;
        let first = Mutex::new(None);
        let (comes, has_come) = channel();
        let has_come = Mutex::new(has_come);
        let asked = AtomicUsize::default();
        let kept = |address, users| keeping_process(address, users, keep.clone()).unwrap();
        let killed = |address, users: Range<u32>| {
            let attempts = 0;
            let joining = joining(users.clone(), keep.clone());
            let once = Joining {
                attempts,
                ..joining
            };
            join(&once, address).unwrap_err();
            kept(address, users);
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                on_a_way(address, comes_anew, killed, |number, device, server| {
                    if number == 0 {
                        let both = [&device, &server].map(|stream| stream.try_clone().unwrap());
                        *first.lock().unwrap() = Some(both);
                    }
                    carry_while(&device, &server, |whole, to| {
                        if number > 0 && head(whole) == Head::Welcome {
                            comes.send(()).unwrap();
                        }
                        to.write_all(whole).is_ok()
                    });
                });
            });
            on_a_way(address, stays, kept, |_, device, server| {
                carry_while(&device, &server, |whole, to| {
                    if head(whole) == Head::Question
                        && asked.fetch_add(1, Ordering::Relaxed) + 1 == at
                    {
                        for stream in first.lock().unwrap().take().unwrap() {
                            stream.shutdown(Shutdown::Both).unwrap();
                        }
                        has_come.lock().unwrap().recv().unwrap();
                    }
                    to.write_all(whole).is_ok()
                });
            });
        });
    }
}

const CHANGES: &str = "codec.downlink={ delta = true, values = \"int8\" }";

/// If this fails, a replay does not know whether devices were scored before they began anew or after
/// that, or that they did it after the last round.
#[test]
fn devices_that_begin_anew_while_others_are_asked_are_repeated() {
    // Where each user has a download of its own, one process is asked after the other.
    const OWN: &str = "method=\"metamf\"";
    for (text, stays, comes_anew) in [
        (CHANGES, 0..10, 10..30),
        (OWN, 0..10, 10..30),
        (OWN, 10..30, 0..10),
        (MODES[3], 10..30, 0..10),
    ] {
        // The questions are: begin, the baselines, an evaluation after each round, and digests.
        for at in [4, 5, 6] {
            let text = format!("training.rounds=3\n{text}");
            let what = format!("{text} {at} {stays:?}");
            let killed = Killed {
                stays: stays.clone(),
                comes_anew: comes_anew.clone(),
                at,
            };
            let (outcome, heard) = served(&text, |address| killed.run(address, None));
            assert!(outcome.stopped_by.is_none(), "{what}");
            assert!(heard.arrivals.contains("\"kind\":\"anew\""), "{what}");
            check_replay(&text, &outcome, &heard);
        }
    }
}

/// If this fails, a server goes on from a checkpoint with devices that it believes to know more, or a
/// run that did so cannot be repeated.
#[test]
fn devices_that_begin_anew_at_a_checkpoint_are_in_it_as_they_are() {
    for text in ["", CHANGES] {
        let text = format!("training.rounds=6\n{text}");
        for (stays, comes_anew) in [(0..10, 10..30), (10..30, 0..10)] {
            let folder = tempfile::tempdir().unwrap();
            let keep = Some(folder.path().to_owned());
            let mut kept = Kept {
                every: 2,
                stops_after: 3,
                ..Kept::default()
            };
            // Two evaluations come before the question for its part of the checkpoint.
            let killed = Killed {
                stays,
                comes_anew,
                at: 5,
            };
            let (stopped, _) = served_keeping(&text, kept.clone(), |address| {
                killed.run(address, keep.clone());
            });
            assert!(stopped.unwrap().stopped_by.is_some());
            assert_eq!(kept.checkpoint.lock().unwrap().0, 2);
            kept.stops_after = 0;
            let (outcome, heard) = served_keeping(&text, kept, |address| {
                keeping_process(address, 0..30, keep).unwrap();
            });
            assert!(heard.arrivals.contains("\"kind\":\"anew\""), "{text}");
            check_replay(&text, &outcome.unwrap(), &heard);
        }
    }
}

/// If this fails, a process that loses its devices after the server has gone on from a checkpoint takes
/// them from there, and the replay has them know nothing.
#[test]
fn devices_that_begin_anew_after_a_checkpoint_do_not_go_back_to_it() {
    let text = format!("training.rounds=6\n{CHANGES}");
    let folder = tempfile::tempdir().unwrap();
    let keep = Some(folder.path().to_owned());
    let mut kept = Kept {
        every: 2,
        stops_after: 3,
        ..Kept::default()
    };
    let (stopped, _) = served_keeping(&text, kept.clone(), |address| {
        keeping_process(address, 0..30, keep.clone()).unwrap();
    });
    assert!(stopped.unwrap().stopped_by.is_some());
    kept.stops_after = 0;
    // The process is asked to begin, for the baselines, and for the evaluation of the third round.
    let killed = Killed {
        stays: 0..10,
        comes_anew: 10..30,
        at: 3,
    };
    let (outcome, heard) = served_keeping(&text, kept, |address| killed.run(address, keep));
    assert_eq!(heard.begun_anew, vec![10..30; 1]);
    check_replay(&text, &outcome.unwrap(), &heard);
}

/// If this fails, a process that was killed goes on as if its devices had kept what they learned, and
/// nobody is told; or it is sent changes to a model that it has lost, which ends the run; or the run
/// cannot be repeated.
#[test]
fn a_process_that_comes_without_what_it_learned_begins_anew_and_is_named() {
    let modes = [0, 1, 3].map(|mode| format!("{}\n{CHANGES}", MODES[mode]));
    for (text, most) in [
        (String::new(), 9_000),
        (CHANGES.to_owned(), 9_000),
        (CHANGES.to_owned(), 6_000),
        (modes[0].clone(), 9_000),
        (modes[1].clone(), 9_000),
        (modes[2].clone(), 9_000),
    ] {
        let text = format!("training.rounds=8\n{text}");
        let (outcome, heard) = served(&text, |address| {
            thread::scope(|scope| {
                scope.spawn(move || device_process(address, 0..10).unwrap());
                scope.spawn(move || {
                    // Its way to the server breaks, and it does not come back.
                    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                    let detour = listener.local_addr().unwrap();
                    thread::scope(|scope| {
                        scope.spawn(move || unlucky(detour, 10..30));
                        let (device, _) = listener.accept().unwrap();
                        relay(device, address, most);
                    });
                    device_process(address, 10..30).unwrap();
                });
            });
        });
        assert!(
            outcome.stopped_by.is_none(),
            "{text}: {:?}",
            outcome.stopped_by
        );
        assert_eq!(heard.begun_anew, vec![10..30; 1], "{text}");
        check_replay(&text, &outcome, &heard);
    }
}
