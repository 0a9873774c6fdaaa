//! Tests that a worker thread carries nothing but memory from one training to the next.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::sim::small;

/// Returns the upload of user 3 of the small world, where `overrides` replace keys of the scenario.
fn upload(overrides: &[&str]) -> Vec<u8> {
    let world = small::world(overrides);
    let download = Arc::new(OutgoingDownload::first(&world).unwrap());
    let (user, step) = (UserId(3), Step(0));
    let mut assignment = Assignment {
        user,
        step,
        invitation_id: InvitationId(0),
        device: None,
        download,
        reply_source: None,
        asked_rows: None,
    };
    let frame = assignment.run(&world).unwrap().frame;
    let origin = UploadOrigin {
        user,
        invitation_id: InvitationId(0),
        download: &assignment.download,
    };
    frame.bytes(&origin, &world).unwrap().to_vec()
}

#[test]
fn a_thread_serves_one_data_set_after_another() {
    // If buffers were kept, one world would draw negatives that it does not have, or miss some that
    // it has.
    let worlds: [&[&str]; 4] = [
        &[],
        &["dataset.generator.items=3000"],
        &["dataset.negatives.per_positive=2"],
        &["dataset.negatives.pool=\"unrated\""],
    ];
    let apart = worlds.map(|overrides| {
        std::thread::scope(|scope| scope.spawn(|| upload(overrides)).join().unwrap())
    });
    let in_turn = worlds.map(upload);
    assert!(apart == in_turn);
    assert!(
        apart.windows(2).all(|pair| pair[0] != pair[1]),
        "they must differ for this test to mean anything"
    );
}
