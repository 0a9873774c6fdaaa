//! Servers that stop and go on from their checkpoint, with processes that do so, too.

use super::*;

/// The ranges of users that processes have, before the server stops and after that.
const PROCESSES: [[Range<u32>; 3]; 2] = [[0..9, 9..10, 10..30], [0..9, 9..20, 20..30]];

/// Is processes with these users until the server says that the run is over. All keep them in one
/// folder.
fn processes(address: SocketAddr, users: [Range<u32>; 3], keep: &std::path::Path) {
    thread::scope(|scope| {
        for users in users {
            scope.spawn(|| keeping_process(address, users, Some(keep.to_owned())).unwrap());
        }
    });
}

/// Runs the scenario on a server that stops after five rounds, and on one that goes on from the
/// checkpoint after three.
fn stopped_and_resumed(text: &str) -> (Outcome, Heard) {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept {
        every: 3,
        stops_after: 5,
        ..Kept::default()
    };
    let [first, second] = PROCESSES;
    let stopped = served_keeping(text, kept.clone(), |address| {
        processes(address, first, folder.path());
    });
    assert!(stopped.0.unwrap().stopped_by.is_some());
    assert_eq!(kept.checkpoint.lock().unwrap().0, 3);
    kept.stops_after = 0;
    let (outcome, heard) = served_keeping(text, kept, |address| {
        processes(address, second, folder.path());
    });
    (outcome.unwrap(), heard)
}

/// If this fails, a server that was killed comes to another model than one that was not, since
/// devices are ahead of it or behind, or something counts twice.
#[test]
fn a_run_that_goes_on_from_its_checkpoint_comes_to_the_state_of_the_simulation() {
    for text in [
        "training.rounds=8",
        "training.rounds=8\nmethod=\"fedpergnn\"",
        "training.rounds=8\n\
         codec.uplink={ delta = true, values = \"int4\", error_feedback = true }\n\
         codec.downlink={ delta = true, values = \"int8\" }",
    ] {
        let (outcome, heard) = stopped_and_resumed(text);
        let simulated = simulated(text);
        assert_eq!(outcome.rounds.len(), 8);
        assert_eq!(outcome.state_digest, simulated.state_digest, "{text}");
        assert_eq!(outcome.bytes, simulated.bytes, "{text}");
        assert_eq!(heard.begun_anew, [], "{text}");
        check_replay(text, &outcome, &heard);
    }
}

/// If this fails, what was under way at a checkpoint is counted twice or never again, or a run that
/// went on cannot be repeated.
#[test]
fn in_every_mode_a_run_that_goes_on_is_repeated_from_what_arrived() {
    for mode in MODES {
        let text = format!("{mode}\ntraining.rounds=8");
        let (outcome, heard) = stopped_and_resumed(&text);
        assert!(outcome.stopped_by.is_none(), "{text}");
        assert_eq!(outcome.rounds.len(), 8, "{text}");
        uploads(&heard.arrivals);
        check_replay(&text, &outcome, &heard);
    }
}

/// If this fails, a process takes part whose devices the server cannot go back with, or one goes on
/// with what it learned in another run.
#[test]
fn a_process_without_its_devices_is_refused_with_the_remedy() {
    let text = "training.rounds=4";
    let [folder, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut kept = Kept {
        every: 1,
        stops_after: 2,
        ..Kept::default()
    };
    let stopped = served_keeping(text, kept.clone(), |address| {
        let refused = device_process(address, 0..30).unwrap_err().to_string();
        assert!(refused.contains("--keep"), "{refused}");
        keeping_process(address, 0..30, Some(folder.path().to_owned())).unwrap();
    });
    assert!(stopped.0.unwrap().stopped_by.is_some());
    kept.stops_after = 0;
    let (refused, _) = served_keeping(text, kept, |address| {
        let refused = keeping_process(address, 0..30, Some(other.path().to_owned()));
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("after round 2") && refused.contains("--keep"),
            "{refused}"
        );
    });
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("after round 2"), "{refused}");
}

/// If this fails, a full disk at the server or at a process costs the rounds that are over, or nobody
/// learns which file it was.
#[test]
fn a_full_disk_is_named_and_leaves_the_rounds_before() {
    let text = "training.rounds=6";
    let full_at = |kept: Kept, in_the_way: Option<&str>| {
        let folder = tempfile::tempdir().unwrap();
        if let Some(name) = in_the_way {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let (outcome, _) = served_keeping(text, kept, |address| {
            keeping_process(address, 0..30, Some(folder.path().to_owned())).unwrap();
        });
        outcome
    };
    let every = 2;
    let kept = Kept {
        every,
        ..Kept::default()
    };
    let no_room = Kept {
        room: Some(100),
        ..kept.clone()
    };
    let stopped = full_at(no_room, None).unwrap();
    let reason = stopped.stopped_by.unwrap().to_string();
    assert!(
        reason.contains("cannot write the checkpoint after round 2"),
        "{reason}"
    );
    assert_eq!(stopped.rounds.len(), 2);
    // A folder of the name of the part is in its way.
    let error = full_at(kept.clone(), Some("checkpoint-2.part-1-of-2.bin"));
    let reason = error.map(|outcome| outcome.stopped_by.unwrap().to_string());
    let reason = reason.unwrap_or_else(|error| error.to_string());
    assert!(reason.contains("the part of the users 0..29"), "{reason}");
    let arrivals = Written(Arc::default(), Some(500));
    let error = full_at(Kept { arrivals, ..kept }, None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("arrivals.jsonl") && error.contains("make room"),
        "{error}"
    );
}
