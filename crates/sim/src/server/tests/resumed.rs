//! Tests of a server that goes on from a checkpoint.

use std::io::Cursor;

use super::*;
use crate::download::RestoredDownloads;
use fedrecsim_model::ArchiveReader;

/// Returns a server at the end of its second step, with seven participations under way. They have
/// two downloads that say the same, since the first step left the table as it was.
fn after_two_steps_that_change_nothing() -> Conversation {
    let mode = "training.mode={ fedbuff = { concurrency = 8, buffer = 4, server_rate = 0.2, staleness_weight = \"constant\" } }";
    let mut talk = Conversation::with(&[mode, "codec.uplink=\"rows-f32\""]);
    let before = Table::from_fn(talk.server.table().shape(), || 3.0);
    talk.server
        .server
        .set_model(Model::of_table("V", before.clone()))
        .unwrap();
    for step in 0..2 {
        talk.begin(step);
        for _ in 0..4 {
            // The next upload is that of the user who began first.
            let open = talk
                .server
                .open
                .iter()
                .map(|(user, open)| (open.invitation.id.0, user.0));
            let (invitation_id, user) = open.min().unwrap();
            talk.upload_rows(user, invitation_id, Some(3.0));
        }
        talk.close();
        assert!(
            *talk.server.table() == before,
            "this test is void: step {step} moves the table"
        );
    }
    talk
}

/// Makes a third step and returns the bits of its table. One update of the first download and two
/// of the second leave every row as it was, and one of the third makes up for the rest, so that
/// only the rounding of the sum remains.
fn third_step(talk: &mut Conversation) -> Vec<u32> {
    talk.begin(2);
    let of_step = |talk: &Conversation, step: u32| -> Vec<(u32, u32)> {
        let open = talk
            .server
            .open
            .iter()
            .filter(|(_, open)| open.invitation.step.0 == step);
        open.map(|(user, open)| (user.0, open.invitation.id.0))
            .collect()
    };
    let (first, second, third) = (of_step(talk, 0), of_step(talk, 1), of_step(talk, 2));
    assert!(
        !first.is_empty() && second.len() >= 2 && !third.is_empty(),
        "{first:?} {second:?} {third:?}"
    );
    for (user, invitation_id) in [first[0], second[0], second[1]] {
        talk.upload_rows(user, invitation_id, None);
    }
    talk.upload_rows(third[0].0, third[0].1, Some(-57.0));
    talk.close()
        .model
        .unwrap()
        .0
        .table(0)
        .as_slice()
        .iter()
        .map(|value| value.to_bits())
        .collect()
}

/// If this fails, a run that goes on from a checkpoint takes two downloads for one because they say
/// the same. It then adds in another order than a run that was never stopped, and may differ from
/// it in the last bit.
#[test]
fn downloads_that_say_the_same_stay_apart() {
    let mut whole = after_two_steps_that_change_nothing();
    let mut archive = Archive::default();
    whole.server.save_learned(&mut archive).unwrap();
    whole.server.save(&mut archive).unwrap();
    let mut reader = ArchiveReader::new(Box::new(Cursor::new(archive.take().unwrap())));
    let (world, workers) = (
        Arc::clone(&whole.server.world),
        whole.server.workers.clone(),
    );
    let mut downloads = RestoredDownloads::default();
    let mut server = ServerActor::new(world, workers);
    server.restore_learned(&mut reader).unwrap();
    server.restore(&mut reader, &mut downloads).unwrap();
    let mut resumed = Conversation {
        server,
        now: whole.now,
        context: Context::new(),
    };
    let (resumed, whole) = (third_step(&mut resumed), third_step(&mut whole));
    assert!(
        resumed == whole,
        "{} and {}",
        f32::from_bits(resumed[0]),
        f32::from_bits(whole[0])
    );
}
