use std::io::Cursor;

use fedrecsim::ids::{InvitationId, Round, UserId};
use fedrecsim::method::registry::vocabulary_of;
use fedrecsim::method::server::Download;
use fedrecsim::method::{Client, LocalTask, LocalUpdate, Phase, Placement, ScoringContext, Scratch, Server};
use fedrecsim::model::archive::{Archive, ArchiveReader};
use fedrecsim::model::blocks::Model;
use fedrecsim::model::state::StateVisitor;
use fedrecsim::scenario::{Scenario, unchecked_rules};
use fedrecsim::sim::World;
use fedrecsim::work::Work;

use crate::support::{assert_balanced, assert_finite, methods, run, small_with, world};

/// Returns every method at its defaults, so that one that is added to the registry is tested without any further line.
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

/// If this fails, a method works only if every download arrives, or only with one way of running rounds.
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

/// One user of a world, for tests that call a method without actors.
struct Bench {
    world: World,
    scratch: Scratch,
    server: Box<dyn Server>,
}

impl Bench {
    fn new(scenario: Scenario) -> Self {
        let world = world(scenario);
        let server = world.method.server();
        Self { world, scratch: Scratch::default(), server }
    }

    /// Returns the model that `user` has: the user's own download if there is one, and the server's model otherwise.
    fn model(&self, user: u32) -> Model {
        match self.server.download() {
            Download::PerUser(downloads) => downloads.download(UserId(user)).unwrap(),
            Download::Shared(_) | Download::Nothing => self.server.model().clone(),
        }
    }

    fn client(&self, user: u32) -> Box<dyn Client> {
        self.world.method.client(UserId(user))
    }

    fn train(&mut self, client: &mut dyn Client, user: u32, round: u32) -> LocalUpdate {
        let model = self.model(user);
        let World { dataset, scenario, streams, .. } = &self.world;
        let names = (UserId(user), Round(round), InvitationId(round));
        let samples = (&**dataset, &scenario.dataset.negatives);
        let task = LocalTask::new(names, &model, samples, *streams, scenario.training.divergence_limit);
        client.train(&task, &mut self.scratch).unwrap()
    }

    fn scores_of(&mut self, client: &dyn Client, user: u32, items: &[u32]) -> Vec<u32> {
        let model = self.model(user);
        let World { dataset, scenario, streams, .. } = &self.world;
        let own = dataset.own_data(UserId(user));
        let context = ScoringContext::new(UserId(user), &model, own, *streams)
            .with_negatives(dataset, &scenario.dataset.negatives);
        let scorer = client.scorer(&context, &mut self.scratch).unwrap();
        let mut scores = vec![f32::NAN; items.len()];
        scorer.score(items, &mut scores);
        assert!(scores.iter().all(|score| score.is_finite()), "a score that nobody wrote, or a wrong one");
        scores.into_iter().map(f32::to_bits).collect()
    }

    fn scores(&mut self, client: &dyn Client, user: u32) -> Vec<u32> {
        let items: Vec<u32> = (0..self.world.dataset.items() as u32).collect();
        self.scores_of(client, user, &items)
    }
}

fn private_bytes(client: &mut dyn Client) -> Vec<u8> {
    let mut all = Vec::new();
    client.visit_state(&mut StateVisitor::Digest(&mut |bytes| all.extend_from_slice(bytes))).unwrap();
    all
}

/// If this fails, evaluation before a user's first round panics or reads garbage.
#[test]
fn every_method_scores_a_user_that_never_took_part() {
    for (name, scenario) in every_method() {
        let mut bench = Bench::new(scenario);
        let (one, other) = (bench.client(0), bench.client(0));
        let scores = bench.scores(one.as_ref(), 0);
        assert_eq!(scores, bench.scores(other.as_ref(), 0), "{name}: a fresh client is not what it was");
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
        client.visit_state(&mut StateVisitor::Save(&mut archive)).unwrap();
        archive.put(&"the end");
        let mut saved = ArchiveReader::new(Box::new(Cursor::new(archive.take().unwrap())));
        let mut restored = bench.client(1);
        restored.visit_state(&mut StateVisitor::Restore(&mut saved)).unwrap();
        assert_eq!(saved.take::<String>().unwrap(), "the end", "{name} reads less or more than it saves");
        assert_eq!(private_bytes(client.as_mut()), private_bytes(restored.as_mut()), "{name}");
        assert_eq!(bench.scores(client.as_ref(), 1), bench.scores(restored.as_ref(), 1), "{name}");
        if rounds > 0 {
            let (one, other) = (bench.train(client.as_mut(), 1, 2), bench.train(restored.as_mut(), 1, 2));
            assert_eq!((one.update, one.loss.to_bits()), (other.update, other.loss.to_bits()), "{name}");
            assert_eq!(private_bytes(client.as_mut()), private_bytes(restored.as_mut()), "{name}");
        }
    }
}

/// If this fails, an item's score depends on the other items of the list or on their order, and with it the sampled
/// ranking.
#[test]
fn every_method_scores_an_item_alike_in_any_company() {
    for (name, scenario) in every_method() {
        let mut bench = Bench::new(scenario);
        let mut client = bench.client(1);
        if bench.world.trains {
            bench.train(client.as_mut(), 1, 0);
        }
        let all = bench.scores(client.as_ref(), 1);
        for items in [&[0u32][..], &[7, 80, 149], &[3, 4, 5, 6]] {
            for (item, score) in items.iter().zip(bench.scores_of(client.as_ref(), 1, items)) {
                assert_eq!(score, all[*item as usize], "{name}, item {item}");
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
        let (scores, private) = (bench.scores(client.as_ref(), 2), private_bytes(client.as_mut()));
        let mut snapshot = client.snapshot();
        let update = bench.train(client.as_mut(), 2, 1);
        assert_eq!(bench.scores(snapshot.as_ref(), 2), scores, "{name}");
        assert_eq!(private_bytes(snapshot.as_mut()), private, "{name}");
        // Training after this must not depend on whether the state went through a snapshot.
        let again = bench.train(snapshot.as_mut(), 2, 1);
        assert_eq!(again.update, update.update, "{name}");
        assert_eq!(again.loss.to_bits(), update.loss.to_bits(), "{name}");
        assert_eq!(private_bytes(snapshot.as_mut()), private_bytes(client.as_mut()), "{name}");
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
            let mut client = bench.client(user);
            bench.train(client.as_mut(), user, 0);
        }
        let mut client = bench.client(9);
        let used = bench.train(client.as_mut(), 9, 0);
        bench.scratch = Scratch::default();
        let mut client = bench.client(9);
        let fresh = bench.train(client.as_mut(), 9, 0);
        assert_eq!(used.update, fresh.update, "{name}");
        assert_eq!(used.work, fresh.work, "{name}");
    }
}

/// If this fails, a program that sets the model of a run trains another one.
#[test]
fn every_server_goes_on_from_the_model_that_it_is_given() {
    for (name, scenario) in every_method() {
        let given = Bench::new(small_with(name, &["seed=4"])).server.model().clone();
        let mut bench = Bench::new(scenario);
        bench.server.set_model(given.clone()).unwrap();
        assert_eq!(bench.server.model(), &given, "{name}");
    }
}

/// If this fails, a method sends something else than its layout announces, or nothing that the server could learn from.
#[test]
fn every_methods_update_has_its_layout() {
    for (name, scenario) in every_method() {
        let mut bench = Bench::new(scenario);
        let mut client = bench.client(4);
        if !bench.world.trains {
            assert!(private_bytes(client.as_mut()).is_empty(), "{name}");
            continue;
        }
        let update = bench.train(client.as_mut(), 4, 0);
        let layout = bench.world.method.upload_layout(Phase(0));
        update.update.check(&layout).unwrap_or_else(|error| panic!("{name}: {error}"));
        // Users of a central method only send what they have.
        let works = bench.world.placement == Placement::Federated;
        assert!(update.loss.is_finite() && (!works || update.work != Work::default()), "{name}");
        let model = bench.model(4);
        let sent = update.update.apply(&layout, &model).unwrap();
        assert_ne!(sent, model, "{name}: nothing was learned");
    }
}
