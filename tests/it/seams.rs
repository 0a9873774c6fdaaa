use std::sync::Arc;

use fedrecsim_methods::prelude::*;
use fedrecsim_model::ValueType;
use fedrecsim_model::codec::BlockCodecs;
use fedrecsim_sim::privacy::{Mechanism, Protection};
use fedrecsim_sim::{self as sim, Outcome, RunControl, World};

use self::sixteen_bits::SixteenBits;
use crate::farthest_rows::FarthestRows;
use crate::support::{assert_balanced, small_with, world};

mod sixteen_bits;

fn lossy_world(method: &str, overrides: &[&str]) -> World {
    let mut world = world(small_with(method, overrides));
    (world.uplink, world.downlink) = (
        BlockCodecs::every(SixteenBits),
        BlockCodecs::every(SixteenBits),
    );
    world
}

fn run_in(world: World, threads: usize) -> Outcome {
    sim::run(world, &RunControl::with_threads(threads), &mut ()).unwrap()
}

/// A method whose clients send back what they received.
#[derive(Clone, Debug)]
struct Echo {
    shape: TableShape,
}

impl Method for Echo {
    fn initial(&self) -> Model {
        let mut next = 0.0f32;
        // These values have more bits than the codec keeps.
        Model::of_table(
            "V",
            Table::from_fn(self.shape, || {
                next += 1.0;
                1.0 / next
            }),
        )
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(self.clone())
    }
}

impl Client for Echo {
    fn train(&mut self, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<Trained> {
        let table = task.model.table(0);
        assert!(
            table
                .as_slice()
                .iter()
                .all(|value| value.to_bits() & 0xffff == 0),
            "it trains on what was not sent"
        );
        Ok(Trained::new(
            ModelUpdate::of_table(TableUpdate::nothing(self.shape, ValueType::F32)),
            0.0,
            Work::of_row_visits(1),
        ))
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        let table = context.model.table(0);
        assert!(
            table
                .as_slice()
                .iter()
                .all(|value| value.to_bits() & 0xffff == 0),
            "it scores what was not sent"
        );
        Ok(Box::new(|items: &[u32], scores: &mut [f32]| {
            items
                .iter()
                .zip(scores)
                .for_each(|(item, score)| *score = *item as f32);
        }))
    }

    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}

/// If this fails, the server takes what its own downloads lost for something that clients have
/// learned. If nobody changes anything, the model must stay the same in all modes, bit for bit.
#[test]
fn a_downlink_that_loses_something_does_not_damage_the_servers_model() {
    for mode in [
        "\"synchronous\"",
        "{ over-selection = { factor = 1.5, deadline_s = 5.0 } }",
        "{ semi-synchronous = { deadline_s = 0.03 } }",
        "{ fedbuff = { concurrency = 12, buffer = 4 } }",
        "{ fedasync = { concurrency = 5 } }",
    ] {
        let mode = format!("training.mode={mode}");
        let overrides = ["network.preset=\"wifi-2020\"", "training.rounds=5", &mode];
        let mut world = lossy_world("fedmf", &overrides);
        let echo = Echo {
            shape: world.method.initial().table(0).shape(),
        };
        let initial = echo.initial();
        world.method = Box::new(echo);
        let outcome = run_in(world, 2);
        assert!(
            outcome.rounds.iter().any(|round| round.aggregated > 0),
            "{mode}"
        );
        let error = |(one, other): (&f32, &f32)| (one - other).abs() / other;
        let pairs = outcome
            .model
            .table(0)
            .as_slice()
            .iter()
            .zip(initial.table(0).as_slice());
        let largest = pairs.map(error).fold(0.0, f32::max);
        assert!(largest < 1e-6, "{mode}: the model has moved by {largest:e}");
    }
}

/// If this fails, a program's own codec does not reach the run, or its bytes are not those of its
/// frames.
#[test]
fn a_codec_that_leaves_rows_out_sends_fewer_bytes() {
    let run = |codec: Option<FarthestRows>, threads| {
        let mut world = world(small_with("fedmf", &["codec.uplink=\"rows-f32\""]));
        if let Some(codec) = codec {
            world.uplink = BlockCodecs::every(codec);
        }
        run_in(world, threads)
    };
    let (all, fewer) = (run(None, 2), run(Some(FarthestRows { share: 0.25 }), 1));
    assert_balanced(&fewer);
    let sent = |outcome: &Outcome| outcome.bytes.up.sent as f64;
    assert!(sent(&fewer) < 0.5 * sent(&all), "{}", sent(&fewer));
    assert!(sent(&fewer) > 0.2 * sent(&all), "{}", sent(&fewer));
    let again = run(Some(FarthestRows { share: 0.25 }), 3);
    assert_eq!(fewer.digest, again.digest);
}

/// A mechanism that adds the same number to every value that leaves a device.
#[derive(Debug)]
struct Shift;

impl Mechanism for Shift {
    fn protect(&self, update: &mut ModelUpdate, _protection: &Protection<'_>) -> Result<()> {
        for block in &mut update.blocks {
            let shifted: Vec<u8> = floats(&block.values)
                .flat_map(|value| (value + 100.0).to_le_bytes())
                .collect();
            block.values = shifted.into();
        }
        Ok(())
    }
}

/// If this fails, what a mechanism of privacy adds reaches the device's own parameters, or does not
/// reach the server.
#[test]
fn noise_is_added_behind_training_and_in_front_of_the_codec() {
    let overrides = ["training.rounds=1", "codec.uplink=\"rows-f32\""];
    let plain = run_in(world(small_with("pfedrec", &overrides)), 2);
    let mut shifted = world(small_with("pfedrec", &overrides));
    shifted.privacy = Some(Arc::new(Shift));
    let shifted = run_in(shifted, 2);
    assert_eq!(
        plain.rounds[0].accuracy, shifted.rounds[0].accuracy,
        "a client is scored with its own table"
    );
    let moved = |outcome: &Outcome| {
        outcome
            .model
            .table(0)
            .as_slice()
            .iter()
            .fold(0.0f32, |most, v| most.max(*v))
    };
    assert!(
        moved(&shifted) > moved(&plain) + 50.0,
        "the server has not seen the noise"
    );
}

parameters! {
    /// Popularity as a server learns it from the ratings that users send.
    pub struct CountedAtTheServer {}
}

impl Central for CountedAtTheServer {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "counted-at-the-server";
    const SUMMARY: &str = "popularity from what users send";
    const SOURCE: &str = "this test";
    const DRAWS_NEGATIVES: bool = false;

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        vec![item_table("counts", size.items, 1)]
    }

    fn pass(&self, pass: Pass<'_, ()>) -> Result<StepReport> {
        let mut counts = Table::zeros(pass.model.table(0).shape());
        for item in pass.ratings.iter().flat_map(|user| &user.items) {
            counts.row_mut(*item as usize)[0] += 1.0;
        }
        pass.model.set_table(0, Arc::new(counts))?;
        Ok(StepReport {
            row_visits: 1_000_000,
            ..StepReport::default()
        })
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        let counts = context.model.table(0);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            let of = |(item, score): (&u32, &mut f32)| *score = counts.row(*item as usize)[0];
            items.iter().zip(scores).for_each(of);
        }))
    }
}

const COUNTED: Entry = Entry::at_server::<CountedAtTheServer>();

/// If this fails, a method that runs at the server learns from other ratings than those that users
/// sent, or is charged bytes or time for ratings that it has already.
#[test]
fn a_server_learns_from_ratings_that_were_sent_once_and_steps_at_its_own_speed() {
    let mut scenario = small_with(
        "random",
        &["network.rtt_ms=10", "codec.uplink=\"rows-f32\""],
    );
    scenario.server.ns_per_row_visit = 5.0;
    let dataset = fedrecsim_data::dataset::load(
        &scenario.dataset,
        &[],
        fedrecsim_core::Streams::new(scenario.seed),
    )
    .unwrap();
    scenario.method.name = COUNTED.name.to_owned();
    let world = World::with_methods(scenario, Arc::new(dataset), &[COUNTED]).unwrap();
    let outcome = run_in(world, 2);
    assert_balanced(&outcome);
    for (round, record) in (1..).zip(&outcome.rounds) {
        let accuracy = record.accuracy.as_ref().unwrap();
        assert_eq!(
            accuracy.test, outcome.baselines["popularity"].test,
            "round {round}"
        );
        assert_eq!(
            record.bytes.down.sent, 0,
            "round {round}: nobody downloads anything"
        );
        assert_eq!(
            record.bytes.up.sent > 0,
            round == 1,
            "round {round}: ratings travel once"
        );
        assert_eq!(
            record.work,
            Default::default(),
            "round {round}: devices have no work"
        );
        if round > 1 {
            assert!(
                (record.duration_s - 0.005).abs() < 1e-9,
                "a million row visits of 5 ns: {}",
                record.duration_s
            );
        }
    }
}
