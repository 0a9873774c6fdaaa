//! Whom a round waits for.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::codec;
use crate::model::table::Table;
use crate::scenario::CodecName;
use crate::sim::small;

fn server(overrides: &[&str]) -> ServerActor {
    let workers = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    ServerActor::new(small::world(overrides), Arc::new(workers))
}

/// If this fails, a round ends before its participations do, or by those of another round.
#[test]
fn a_round_is_complete_with_the_last_of_its_own_participations() {
    let mut server = server(&[]);
    let broadcast = Arc::new(Broadcast::encode(&server.global, server.world.downlink));
    server.open = Some((Round(3), broadcast, 2));
    assert_eq!(server.account_for(Round(2)), (false, false), "of an earlier round");
    assert_eq!(server.account_for(Round(3)), (true, false));
    assert_eq!(server.account_for(Round(3)), (true, true));
    server.open = None;
    assert_eq!(server.account_for(Round(3)), (false, false), "the round is over");
}

#[test]
fn a_share_of_the_users_is_rounded_to_the_nearest_number_of_them() {
    let invited = |participation: &str| {
        server(&[&format!("training.participation={participation}")]).choose_cohort(Round(0)).len()
    };
    assert_eq!(invited("\"all\""), 21);
    assert_eq!(invited("{ share = 0.5 }"), 11, "10.5 of 21");
    assert_eq!(invited("{ share = 0.49 }"), 10, "10.29 of 21");
    assert_eq!(invited("{ share = 0.001 }"), 1, "a round of nobody teaches nothing");
    assert_eq!(invited("{ share = 1.0 }"), 21);
    assert_eq!(invited("{ cohort = 20 }"), 20);
    assert_eq!(invited("{ cohort = 21 }"), 21, "as many as there are");
}

#[test]
fn the_global_table_is_the_mean_of_what_arrived_and_stays_where_nothing_did() {
    let mut server = server(&[]);
    let context = &mut Context::new();
    let before = Arc::clone(&server.global);
    server.handle(BeginRound { round: Round(0) }, context).unwrap();
    let outcome = server.handle(CloseRound, context).unwrap();
    assert_eq!(outcome.aggregated, 0);
    assert!(Arc::ptr_eq(&outcome.table, &before), "an empty round must not even pass it through the downlink's codec");
    server.handle(BeginRound { round: Round(1) }, context).unwrap();
    let shape = before.shape();
    for (user, value) in [(0, 1.0), (1, 2.0)] {
        let table = Table::from_fn(shape, || value);
        let frame = codec::of(CodecName::DenseF32).encode(&TableUpdate::whole(&table), &before).bytes;
        server.handle(UplinkArrived { user: UserId(user), round: Round(1), frame }, context).unwrap();
    }
    let outcome = server.handle(CloseRound, context).unwrap();
    assert_eq!(outcome.aggregated, 2);
    assert!(outcome.table.as_slice().iter().all(|value| *value == 1.5));
    assert!(Arc::ptr_eq(&outcome.table, &server.global), "the next round starts from it");
}
