//! Whom a round waits for.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::method::registry::vocabulary;
use crate::rng::Streams;
use crate::{dataset, scenario};

fn server(overrides: &[&str]) -> ServerActor {
    let small = "method = \"fedmf\"\n[dataset]\nname = \"generated\"\n[dataset.generator]\nusers = 21\nitems = 150\n\
                 ratings_per_user = 10\n[training]\nrounds = 1\n[evaluation]\ncandidates = 20\n";
    let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
    let scenario = scenario::parse(small, "small.toml", &overrides, &vocabulary()).unwrap();
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed)).unwrap();
    let world = Arc::new(World::new(scenario, Arc::new(dataset)).unwrap());
    ServerActor::new(world, Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap()))
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
}
