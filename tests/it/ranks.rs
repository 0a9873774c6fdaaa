//! Runs on several ranks, which are threads of this process: their results are those of one
//! process.

mod data;
mod failures;
mod harness;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fedrecsim_core::{Error, UserId};
use fedrecsim_methods::Entry;
use fedrecsim_ranks::Shares;
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::checkpoint::{Build, Header, Keeper, PartKeeper};
use fedrecsim_sim::outcome::UserRecord;
use fedrecsim_sim::{CheckpointStore, Outcome, Simulation, Stop};

use crate::resume::MODES;
use crate::support::{methods, run, small_with};
use harness::{Files, Way};

/// Checks that an outcome on several ranks is that of one process.
#[track_caller]
fn assert_same(one: &Outcome, other: &Outcome, what: &str) {
    assert_eq!(other.rounds, one.rounds, "{what}");
    assert_eq!(other.baselines, one.baselines, "{what}");
    assert_eq!(other.beyond_accuracy, one.beyond_accuracy, "{what}");
    assert_eq!(other.size, one.size, "{what}");
    assert_eq!(
        (&other.bytes, &other.durations),
        (&one.bytes, &one.durations),
        "{what}"
    );
    assert_eq!(other.digest, one.digest, "{what}");
    assert_eq!(other.users, one.users, "{what}");
}

/// Returns whether every method is run in this mode, and not only some.
fn has_every_method(mode: &str) -> bool {
    [
        "synchronous",
        "fedbuff on a shared link",
        "semi-synchronous",
    ]
    .contains(&mode)
}

/// If this fails, a method or a mode does not come to the same result on several machines as it
/// does on one.
#[test]
fn every_method_and_every_mode_has_the_same_digest_on_three_ranks() {
    for (mode, overrides) in MODES {
        let takes_part = |entry: &Entry| match mode {
            "synchronous" => true,
            _ => {
                entry.placement.trains()
                    && (has_every_method(mode) || ["fedrap", "fedpergnn"].contains(&entry.name))
            }
        };
        for entry in methods().into_iter().filter(takes_part) {
            let scenario = small_with(entry.name, &[&["training.rounds=3"], overrides].concat());
            let what = format!("{} {mode}", entry.name);
            assert_same(
                &run(scenario.clone(), 1),
                &Way::new(3, 1).run(&scenario),
                &what,
            );
        }
    }
}

/// If this fails, the number of ranks or of their threads reaches a result, such as where users
/// divide without a rest, or where a rank has nobody.
#[test]
fn any_number_of_ranks_and_threads_comes_to_one_digest() {
    for method in ["fedrap", "fedmf", "metamf"] {
        let scenario = small_with(method, MODES[0].1);
        let one = run(scenario.clone(), 1);
        for (ranks, threads) in [(1, 2), (2, 1), (2, 3), (3, 2), (4, 1), (7, 1), (41, 1)] {
            let what = format!("{method} on {ranks} ranks with {threads} threads");
            assert_same(&one, &Way::new(ranks, threads).run(&scenario), &what);
        }
    }
}

/// If this fails, a codec remembers on one machine what it has sent from another, or a device
/// decodes something else there.
#[test]
fn every_kind_of_download_and_upload_crosses_between_ranks() {
    let kinds: [&[&str]; 7] = [
        &[
            "codec.uplink=\"dense-f32\"",
            "codec.downlink=\"sparse-f32\"",
        ],
        &[
            "codec.uplink={ delta = true, values = \"int8\", error_feedback = true }",
            "codec.downlink={ values = \"int8\" }",
        ],
        &[
            "codec.uplink=\"rows-f32\"",
            "codec.downlink={ delta = true, values = \"int8\" }",
        ],
        &[
            "codec.uplink=\"rows-f32\"",
            "codec.downlink={ select = \"needed-rows\" }",
        ],
        &[
            "codec.uplink=\"rows-f32\"",
            "codec.downlink={ select = \"needed-rows\", values = \"int4\" }",
        ],
        &[
            "codec.uplink=\"rows-f32\"",
            "evaluation.users=7",
            "evaluation.ranking=\"full-catalogue\"",
        ],
        &[
            "codec.uplink=\"dense-f32\"",
            "dataset.generator.items=3000",
            "report.users_csv_limit=1000",
        ],
    ];
    for kind in kinds {
        for mode in [MODES[0], MODES[8]] {
            let scenario = small_with("fedmf", &[kind, mode.1].concat());
            let what = format!("{kind:?} {}", mode.0);
            assert_same(
                &run(scenario.clone(), 1),
                &Way::new(3, 1).run(&scenario),
                &what,
            );
        }
    }
}

/// If this fails, a download crosses more than once to each rank, an upload more than once, or
/// something else crosses that `docs/how-to/cluster.md` does not count.
#[test]
fn each_download_crosses_once_to_a_rank_and_each_upload_once() {
    let rounds = 6;
    let overrides = [
        "training.rounds=6",
        "codec.uplink=\"rows-f32\"",
        "codec.downlink=\"dense-f32\"",
        "dataset.generator.users=400",
        "report.users_csv_limit=1000",
    ];
    let scenario = small_with("fedmf", &overrides);
    let one = run(scenario.clone(), 1);
    let (users, down) = (one.users.as_ref().unwrap(), one.bytes.down.sent as f64);
    let participations = (users.len() * rounds) as f64;
    let download = down / participations;
    for ranks in [2u32, 4] {
        let way = Way::new(ranks, 1);
        assert_same(&one, &way.run(&scenario), "counted");
        let [_, sent, _, received] =
            [0, 1, 2, 3].map(|place| way.crossed[place].load(Ordering::Relaxed) as f64);
        let own = Shares::new(users.len(), ranks as usize).of(0);
        let elsewhere = (users.len() - own.len()) as f64 / users.len() as f64;
        // The participants of every round download the model, and so do the users who are scored
        // after the last one.
        let downloads = f64::from(ranks - 1) * (rounds as f64 + 1.0) * download;
        let told = (sent - downloads) / (participations * elsewhere);
        assert!(
            (20.0..80.0).contains(&told),
            "{ranks} ranks: {told} bytes of notes for each participation"
        );
        let is_elsewhere = |record: &&UserRecord| !own.contains(&record.user.0);
        let uploads = users
            .iter()
            .filter(is_elsewhere)
            .map(|record| record.bytes.up.sent as f64)
            .sum::<f64>();
        let answered = (received - uploads) / (participations * elsewhere);
        // Beside its frame, each training has its work and its loss, and each scoring the ranks of
        // two items.
        assert!(
            (40.0..140.0).contains(&answered),
            "{ranks} ranks: {answered} bytes beside each upload"
        );
        println!("{ranks} ranks: {told:.1} bytes of notes and {answered:.1} beside an upload");
    }
}

/// If this fails, a run that goes on with another number of ranks comes to another result, or loses
/// what a rank has saved.
#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    for (mode, overrides) in MODES {
        let others: &[&str] = if has_every_method(mode) {
            &["pfedrec", "fedpergnn", "fedgram", "mf"]
        } else {
            &[]
        };
        for &method in [&["fedmf"], others].concat().iter() {
            let scenario = small_with(method, &[&["training.rounds=4"], overrides].concat());
            let one = run(scenario.clone(), 1);
            for (before, after) in [(1, 3), (3, 1), (2, 4)] {
                let first = Way {
                    ends_after: Some(2),
                    ..Way::new(before, 1)
                };
                let stopped = first.run(&scenario).stopped_by;
                assert!(
                    matches!(
                        stopped.as_ref().and_then(Error::ended_by),
                        Some(Stop::TimeIsUp { rounds: 2 })
                    ),
                    "{stopped:?}"
                );
                assert_eq!(
                    first.files.lock().unwrap().len(),
                    before as usize,
                    "each rank writes its part"
                );
                let second = Way {
                    resumed: Some((2, before)),
                    files: Arc::clone(&first.files),
                    ..Way::new(after, 1)
                };
                let what = format!("{method} {mode}, first on {before} ranks and then on {after}");
                assert_same(&one, &second.run(&scenario), &what);
            }
        }
    }
}

/// If this fails, a query for a user on another rank returns another user's table or items, or
/// none.
#[test]
fn users_of_other_ranks_can_be_studied() {
    for method in ["fedrap", "pfedrec"] {
        let scenario = small_with(
            method,
            &["training.rounds=3", "training.participation.cohort=9"],
        );
        let see = |simulation: &Simulation| {
            let users = [0, 3, 17, 29, 39].map(UserId);
            users.map(|user| {
                (
                    simulation.personal_table(user).unwrap(),
                    simulation.items_of(user).unwrap(),
                )
            })
        };
        let (one, seen) = Way::new(1, 1).watch(&scenario, see);
        let (three, seen_on_three) = Way::new(3, 1).watch(&scenario, see);
        assert_eq!(seen, seen_on_three, "{method}");
        assert!(
            seen.iter()
                .all(|(table, items)| table.is_some() && !items.training.is_empty())
        );
        assert_same(&one, &three, method);
    }
}

/// If this fails, what a rank has trained is lost where it is too much for one message.
#[test]
fn what_is_trained_crosses_in_pieces() {
    let overrides = [
        "training.rounds=1",
        "codec.uplink=\"dense-f32\"",
        "method.fedmf.latent_dimension=32",
        "dataset.generator.users=520",
        "dataset.generator.items=400",
        "dataset.generator.ratings_per_user=100",
    ];
    let scenario = small_with("fedmf", &overrides);
    let way = Way {
        waits: true,
        ..Way::new(2, 1)
    };
    assert_same(&run(scenario.clone(), 1), &way.run(&scenario), "in pieces");
    let [asked, _, answered, _] =
        [0, 1, 2, 3].map(|place| way.crossed[place].load(Ordering::Relaxed));
    // The last message of rank 0 says that the run is over, and has no answer.
    assert!(
        answered > asked - 1,
        "{answered} messages answer {asked}, so that no answer had several pieces"
    );
}

/// Writes what so many ranks have left after so many rounds to `folder`, as the program does.
fn write_checkpoint(
    folder: &Path,
    files: &Files,
    (rounds, ranks): (u32, u32),
    scenario: &Scenario,
) {
    let files = files.lock().unwrap();
    let leave = |store: &mut dyn CheckpointStore, rank: u32| {
        store.begin(rounds).unwrap();
        store.write(&files[&(rounds, rank, ranks)]).unwrap();
        store.commit().unwrap();
    };
    for rank in 1..ranks {
        leave(&mut PartKeeper::new(folder, (rank, ranks)), rank);
    }
    let header = Header {
        build: Build::running(&fedrecsim::PROGRAM, "").unwrap(),
        other_builds: Vec::new(),
        name: scenario.name.clone(),
        scenario: scenario.to_toml().unwrap(),
        parameters: Vec::new(),
        fingerprint: String::new(),
        command: Vec::new(),
        warnings: Vec::new(),
        directory: folder.to_owned(),
        data_directories: Vec::new(),
        replaces: None,
        every: 1,
        keep: false,
        rounds: 0,
        ranks,
    };
    leave(&mut Keeper::new(folder, header, rounds + 1), 0);
}

/// If this fails, the devices of other ranks do not start from the parameters of another run, or what other
/// ranks have written of that run is left out.
#[test]
fn a_run_on_ranks_starts_from_what_others_have_left_on_any_number() {
    for method in ["fedrap", "pfedrec", "bpr-mf"] {
        let scenario = small_with(method, &["training.rounds=3"]);
        let mut digests = Vec::new();
        for ranks in [1, 3] {
            let way = Way {
                ends_after: Some(2),
                ..Way::new(ranks, 1)
            };
            way.run(&scenario);
            let folder = tempfile::tempdir().unwrap();
            write_checkpoint(folder.path(), &way.files, (2, ranks), &scenario);
            let path = folder.path().join("checkpoint-2.bin");
            let key = format!("training.start={:?}", path.display().to_string());
            let scenario = small_with(method, &["training.rounds=3", "seed=5", &key]);
            let one = run(scenario.clone(), 2);
            assert!(one.baselines.contains_key("start"), "{method}");
            for starting in [1, 2] {
                let other = Way::new(starting, 2).run(&scenario);
                assert_same(
                    &one,
                    &other,
                    &format!("{method} from {ranks} on {starting}"),
                );
            }
            digests.push(one.digest);
        }
        assert_eq!(digests[0], digests[1], "{method}");
    }
}
