//! Processes that lose what their devices learned, wherever the run is, and the replay of such runs.

use std::sync::mpsc::channel;

use super::failures::{carry_while, head, on_a_way};
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
    for text in [CHANGES, "method=\"metamf\"", MODES[3]] {
        // The questions are: begin, the baselines, an evaluation after each round, and digests.
        for at in [4, 5, 6] {
            for (stays, comes_anew) in [(0..10, 10..30), (10..30, 0..10)] {
                let text = format!("training.rounds=3\n{text}");
                let (what, anew) = (format!("{text} {at} {stays:?}"), comes_anew.clone());
                let killed = Killed {
                    stays,
                    comes_anew,
                    at,
                };
                let (outcome, heard) = served(&text, |address| killed.run(address, None));
                assert!(outcome.stopped_by.is_none(), "{what}");
                assert!(
                    heard.arrivals.contains("\"kind\":\"anew\""),
                    "{what}: {anew:?}"
                );
                check_replay(&text, &outcome, &heard);
            }
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
    // It is asked to begin, for the baselines, and for the evaluation of the third round.
    let killed = Killed {
        stays: 0..10,
        comes_anew: 10..30,
        at: 3,
    };
    let (outcome, heard) = served_keeping(&text, kept, |address| killed.run(address, keep));
    assert_eq!(heard.begun_anew, vec![10..30; 1]);
    check_replay(&text, &outcome.unwrap(), &heard);
}
