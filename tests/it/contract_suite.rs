use std::io::Cursor;
use std::sync::Arc;

use fedrecsim::codec;
use fedrecsim::dataset;
use fedrecsim::dataset::negatives::{NegativeSampler, Samples};
use fedrecsim::ids::{InvitationId, Round, UserId};
use fedrecsim::method::registry::vocabulary_of;
use fedrecsim::method::{Client, LocalTask, LocalUpdate, Scratch};
use fedrecsim::model::archive::{Archive, ArchiveReader};
use fedrecsim::model::table::SharedTable;
use fedrecsim::rng::{PortableDraws, Purpose, Streams};
use fedrecsim::scenario::{CodecName, Scenario, unchecked_rules};
use fedrecsim::sim::{self, RunControl, World};

use crate::support::{Workshop, assert_balanced, assert_finite, methods, parse, run, small_with, world};

/// Every method at its defaults. One that is added to the registry is tested with no line more.
fn every_method() -> impl Iterator<Item = (&'static str, Scenario)> {
    methods().into_iter().map(|entry| (entry.name, small_with(entry.name, &[])))
}

/// If this fails, scenario files are checked against less than their schema says.
#[test]
fn every_rule_of_the_methods_schemas_is_checked() {
    assert_eq!(unchecked_rules(&vocabulary_of(&methods())), Vec::<String>::new());
}

#[test]
fn every_method_runs_finitely_balances_and_repeats_its_digest() {
    for (name, scenario) in every_method() {
        let outcome = run(scenario.clone(), 1);
        assert_eq!(outcome.rounds.len(), 3, "{name}");
        assert_finite(&outcome);
        assert_balanced(&outcome);
        assert_eq!(run(scenario, 3).digest, outcome.digest, "{name}");
    }
}

/// If this fails, a method depends on every download arriving or on one way of travelling.
#[test]
fn every_method_runs_in_every_world() {
    let worlds: [&[&str]; 4] = [
        &["network.preset=\"mobile-pessimistic\"", "network.dropout=0.4", "devices.preset=\"phone-lognormal\""],
        &["codec.uplink=\"rows-f32\"", "codec.downlink=\"sparse-f32\"", "training.participation={ cohort = 3 }"],
        &["codec.uplink=\"sparse-f32\"", "codec.downlink=\"rows-f32\"", "dataset.negatives.pool=\"unrated\""],
        &["dataset.validation_item=false", "evaluation.ranking=\"full-catalogue\"", "evaluation.users=5"],
    ];
    for entry in methods() {
        for overrides in worlds {
            let outcome = run(small_with(entry.name, overrides), 2);
            assert_finite(&outcome);
            assert_balanced(&outcome);
        }
    }
}

/// Ratings with an obvious answer, as on a checkerboard: even users rate even items, odd users odd ones. Everybody
/// has rated 16 of the 20 items of its colour, at random; 40 items, 60 users.
fn checkerboard() -> String {
    let mut stream = Streams::new(5).stream(Purpose::GeneratedRatings, 0, 0);
    let mut text = String::new();
    for user in 0..60 {
        let mut items: Vec<u32> = (0..20).map(|item| 2 * item + user % 2).collect();
        stream.shuffle_portably(&mut items);
        items[..16].iter().for_each(|item| text += &format!("{user} {item}\n"));
    }
    text
}

/// If this fails, a method runs without learning: it cannot tell the colours of a checkerboard. (The pool is
/// `unrated`: with what a device can know, FedRAP stays at chance here as elsewhere.)
#[test]
fn every_method_with_user_parameters_learns_a_checkerboard_and_no_other_does() {
    let workshop = Workshop::new();
    workshop.write("checkerboard.txt", &checkerboard());
    let text = r#"
method = "random"
training.rounds = 30
[dataset]
name = "delimited"
path = "checkerboard.txt"
columns = { separator = " ", user = 1, item = 2 }
negatives = { pool = "unrated" }
[evaluation]
ranking = "full-catalogue"
every_rounds = 30
"#;
    for (name, _) in every_method() {
        let scenario = parse(text, &[&format!("method=\"{name}\"")]);
        let folder = [workshop.path("")];
        let dataset = dataset::load(&scenario.dataset, &folder, Streams::new(scenario.seed)).unwrap();
        let world = World::with_methods(scenario, dataset.into(), &methods()).unwrap();
        // Popularity, random and the item mean score alike for users of both colours.
        let learns = world.trains && name != "item-mean";
        let outcome = sim::run(world, &RunControl::with_threads(2), Box::new(())).unwrap();
        // Of the 24 items that a user has not rated, the five of its colour come first if it knows its colour; at
        // random one in five of the held-out ones is among the first five.
        let hr = outcome.rounds.last().unwrap().accuracy.as_ref().unwrap().test["hr@5"];
        assert!(if learns { hr > 0.6 } else { hr < 0.35 }, "{name}: HR@5 {hr}");
    }
}

/// One user of a world, for tests that call a method without actors.
struct Bench {
    world: World,
    scratch: Scratch,
    global: SharedTable,
}

impl Bench {
    fn new(scenario: Scenario) -> Self {
        let world = world(scenario);
        let global = Arc::new(world.method.initial_table());
        Self { world, scratch: Scratch::default(), global }
    }

    fn client(&self, user: u32) -> Box<dyn Client> {
        self.world.method.client(UserId(user))
    }

    fn train(&mut self, client: &mut dyn Client, user: u32, round: u32) -> LocalUpdate {
        let World { dataset, scenario, streams, .. } = &self.world;
        let mut samples = Samples::default();
        let mut sampler = NegativeSampler::new(dataset.items(), &scenario.dataset.negatives);
        sampler.draw(dataset, *streams, UserId(user), InvitationId(round), &mut samples).unwrap();
        let task = LocalTask {
            user: UserId(user),
            round: Round(round),
            invitation_id: InvitationId(round),
            global: &self.global,
            samples: &samples,
            streams: *streams,
            divergence_limit: scenario.training.divergence_limit,
        };
        client.train(&task, &mut self.scratch).unwrap()
    }

    fn scores(&self, client: &dyn Client) -> Vec<u32> {
        let items: Vec<u32> = (0..self.world.dataset.items() as u32).collect();
        let mut scores = vec![f32::NAN; items.len()];
        client.score(&self.global, &items, &mut scores);
        assert!(scores.iter().all(|score| score.is_finite()), "a score that nobody wrote, or a wrong one");
        scores.into_iter().map(f32::to_bits).collect()
    }
}

fn private_bytes(client: &dyn Client) -> Vec<u8> {
    let mut all = Vec::new();
    client.visit_private(&mut |bytes| all.extend_from_slice(bytes));
    all
}

/// If this fails, evaluation before a user's first round panics or reads garbage.
#[test]
fn every_method_scores_a_user_that_never_took_part() {
    for (name, scenario) in every_method() {
        let bench = Bench::new(scenario);
        let scores = bench.scores(bench.client(0).as_ref());
        assert_eq!(scores, bench.scores(bench.client(0).as_ref()), "{name}: a fresh client is not what it was");
    }
}

/// If this fails, a run that is resumed trains or scores with other private parameters than those that were saved.
#[test]
fn every_method_saves_and_restores_a_client_to_the_bit() {
    for (name, scenario) in every_method() {
        let mut bench = Bench::new(scenario);
        let mut client = bench.client(1);
        let rounds = if bench.world.trains { 2 } else { 0 };
        (0..rounds).for_each(|round| drop(bench.train(client.as_mut(), 1, round)));
        let mut archive = Archive::default();
        client.save(&mut archive);
        archive.put(&"the end");
        let mut saved = ArchiveReader::new(Box::new(Cursor::new(archive.take().unwrap())));
        let mut restored = bench.client(1);
        restored.restore(&mut saved).unwrap();
        assert_eq!(saved.take::<String>().unwrap(), "the end", "{name} reads less or more than it saves");
        assert_eq!(private_bytes(client.as_ref()), private_bytes(restored.as_ref()), "{name}");
        assert_eq!(bench.scores(client.as_ref()), bench.scores(restored.as_ref()), "{name}");
        if rounds > 0 {
            assert_ne!(
                private_bytes(client.as_ref()),
                private_bytes(bench.client(1).as_ref()),
                "{name}: nothing to save"
            );
            let (one, other) = (bench.train(client.as_mut(), 1, 2), bench.train(restored.as_mut(), 1, 2));
            assert_eq!((one.table, one.loss.to_bits()), (other.table, other.loss.to_bits()), "{name}");
            assert_eq!(private_bytes(client.as_ref()), private_bytes(restored.as_ref()), "{name}");
        }
    }
}

/// If this fails, the items' order or company in a list reaches their scores, and with it the sampled ranking.
#[test]
fn every_method_scores_an_item_alike_in_any_company() {
    for (name, scenario) in every_method() {
        let mut bench = Bench::new(scenario);
        let mut client = bench.client(1);
        if bench.world.trains {
            bench.train(client.as_mut(), 1, 0);
        }
        let all = bench.scores(client.as_ref());
        for items in [&[0u32][..], &[7, 80, 149], &[3, 4, 5, 6]] {
            let mut scores = vec![0.0; items.len()];
            client.score(&bench.global, items, &mut scores);
            for (item, score) in items.iter().zip(scores) {
                assert_eq!(score.to_bits(), all[*item as usize], "{name}, item {item}");
            }
        }
    }
}

/// If this fails, a participation that drops out during training leaves a trace on the device.
#[test]
fn every_methods_snapshot_is_the_state_before_training() {
    for (name, scenario) in every_method() {
        let mut bench = Bench::new(scenario);
        if !bench.world.trains {
            continue;
        }
        let mut client = bench.client(2);
        bench.train(client.as_mut(), 2, 0);
        let (scores, private) = (bench.scores(client.as_ref()), private_bytes(client.as_ref()));
        let mut snapshot = client.snapshot();
        let update = bench.train(client.as_mut(), 2, 1);
        assert_ne!(private_bytes(client.as_ref()), private, "{name}: training changes no private parameter");
        assert_eq!(bench.scores(snapshot.as_ref()), scores, "{name}");
        assert_eq!(private_bytes(snapshot.as_ref()), private, "{name}");
        // What comes after must not depend on whether the state went through a snapshot.
        let again = bench.train(snapshot.as_mut(), 2, 1);
        assert_eq!(again.table, update.table, "{name}");
        assert_eq!(again.loss.to_bits(), update.loss.to_bits(), "{name}");
        assert_eq!(private_bytes(snapshot.as_ref()), private_bytes(client.as_ref()), "{name}");
    }
}

/// If this fails, a client that lets go of its own copy of what it sent scores, or digests, something else.
#[test]
fn every_method_is_the_same_with_its_values_in_the_frame() {
    for (name, scenario) in every_method() {
        let mut bench = Bench::new(scenario);
        if !bench.world.trains {
            continue;
        }
        let mut client = bench.client(3);
        let update = bench.train(client.as_mut(), 3, 0);
        let (scores, private) = (bench.scores(client.as_ref()), private_bytes(client.as_ref()));
        let frame = codec::of(CodecName::RowsF32).encode(&update.table, &bench.global);
        let values = frame.values().unwrap();
        assert_eq!(values, update.table.values, "{name}");
        client.share_values(values);
        assert_eq!(bench.scores(client.as_ref()), scores, "{name}");
        assert_eq!(private_bytes(client.as_ref()), private, "{name}");
    }
}

/// If this fails, buffers of a worker thread carry something from one user to the next.
#[test]
fn every_method_trains_alike_with_used_and_with_fresh_buffers() {
    for (name, scenario) in every_method() {
        let mut bench = Bench::new(scenario);
        if !bench.world.trains {
            continue;
        }
        for user in 0..5 {
            bench.train(bench.client(user).as_mut(), user, 0);
        }
        let used = bench.train(bench.client(9).as_mut(), 9, 0);
        bench.scratch = Scratch::default();
        let fresh = bench.train(bench.client(9).as_mut(), 9, 0);
        assert_eq!(used.table, fresh.table, "{name}");
        assert_eq!(used.work, fresh.work, "{name}");
    }
}

/// If this fails, a method changes rows of the shared table that the user has no sample of, other than by the one
/// factor that the update states, and a rows codec would lose that.
#[test]
fn every_methods_update_has_the_shape_of_the_shared_table() {
    for (name, scenario) in every_method() {
        let mut bench = Bench::new(scenario);
        if !bench.world.trains {
            assert!(private_bytes(bench.client(0).as_ref()).is_empty(), "{name}");
            continue;
        }
        let update = bench.train(bench.client(4).as_mut(), 4, 0);
        assert_eq!(update.table.shape, bench.world.method.shape(), "{name}");
        assert_eq!(bench.global.shape(), bench.world.method.shape(), "{name}");
        assert!(update.loss.is_finite() && update.work.row_visits > 0, "{name}");
        let table = update.table.apply(&bench.global).unwrap();
        assert_ne!(table, *bench.global, "{name}: nothing was learned");
    }
}
