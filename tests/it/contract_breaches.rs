use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use fedrecsim_core::work::Work;
use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_methods::averager::Averager;
use fedrecsim_methods::rule::{Combine, Optimizer, ServerRule};
use fedrecsim_methods::server::{Accumulator, StepContext, StepReport};
use fedrecsim_methods::{
    Class, Client, Entry, LocalTask, Method, Phase, Scoring, ScoringContext, Scratch, Server,
    Trained, parameters, sizes_by,
};
use fedrecsim_model::{
    Layout, Model, ModelUpdate, Private, StateVisitor, Table, TableShape, TableUpdate,
};
use fedrecsim_sim::testing::{Breach, Clause, Contract, contract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The fault of a method.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    Nothing,
    /// It visits its state in the order of a hash map.
    HashOrder,
    /// It sends a private number.
    SendsPrivate,
    /// It sends a private number once it has been trained.
    SendsTrainedPrivate,
    /// Its clients leave a number out of what is saved.
    ClientForgets,
    /// Its server leaves the moments of the optimiser out of what is saved.
    ServerForgets,
    /// It scores by the number of items that it is asked for.
    ScoresByCompany,
    /// It trains on what another user has left in a buffer.
    UsedBuffers,
    /// A copy of a client shares a number with the client.
    SharedCopy,
    /// A counter of the whole process reaches what it learns.
    ProcessCounter,
    /// It leaves scores unwritten.
    UnwrittenScores,
    /// Its update changes nothing.
    LearnsNothing,
    /// It counts on taking part in every round.
    EveryRound,
    /// It counts on downloads of full precision.
    FullPrecision,
    /// It cannot train.
    Fails,
}

const FLAWS: [Flaw; 15] = [
    Flaw::Nothing,
    Flaw::HashOrder,
    Flaw::SendsPrivate,
    Flaw::SendsTrainedPrivate,
    Flaw::ClientForgets,
    Flaw::ServerForgets,
    Flaw::ScoresByCompany,
    Flaw::UsedBuffers,
    Flaw::SharedCopy,
    Flaw::ProcessCounter,
    Flaw::UnwrittenScores,
    Flaw::LearnsNothing,
    Flaw::EveryRound,
    Flaw::FullPrecision,
    Flaw::Fails,
];

/// Returns the entry of a method with one of [`FLAWS`].
fn entry<const FLAW: usize>() -> Entry {
    Entry {
        name: "flawed",
        summary: "a method with a flaw",
        source: "this test",
        schema: &|| schemars::schema_for!(Strict),
        sizes: &|value, size| sizes_by(value, |_: Strict| Layout::of_table("p", shape(size.items))),
        build: &|value, problem| {
            let Strict { rate } = parameters("flawed", value)?;
            Ok(Box::new(Flawed {
                flaw: FLAWS[FLAW],
                rate: rate as f32,
                shape: shape(problem.items),
            }))
        },
        ..Entry::BY_HAND
    }
}

/// The parameters of the method.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Strict {
    /// The relative move of a value.
    #[schemars(range(min = 0, max = 1))]
    rate: f64,
}

impl Default for Strict {
    fn default() -> Self {
        Self { rate: 0.5 }
    }
}

fn shape(items: usize) -> TableShape {
    TableShape {
        rows: items,
        dimension: 1,
    }
}

/// A method whose table p moves towards the share of users who like an item, by a private
/// eagerness.
#[derive(Clone, Debug)]
struct Flawed {
    flaw: Flaw,
    rate: f32,
    shape: TableShape,
}

impl Method for Flawed {
    fn initial(&self) -> Model {
        Model::of_table("p", Table::zeros(self.shape))
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(FlawedClient {
            method: self.clone(),
            eagerness: Private::new(0.7),
            liked: Private::new(HashMap::new()),
            participations: 0,
            shared: Arc::default(),
        })
    }

    fn server(&self) -> Box<dyn Server> {
        let rule = ServerRule {
            combine: Combine::Mean,
            optimizer: Optimizer::Momentum { beta: 0.5 },
            ..ServerRule::MEAN
        };
        let averager = Averager::with_rules(
            self.initial(),
            self.upload_layout(Phase::default(), Class::default()),
            &[rule],
        );
        Box::new(Forgetful {
            averager,
            forgets: self.flaw == Flaw::ServerForgets,
        })
    }
}

static TRAININGS: AtomicU32 = AtomicU32::new(0);

#[derive(Clone)]
struct FlawedClient {
    method: Flawed,
    eagerness: Private<f32>,
    liked: Private<HashMap<u32, f32>>,
    participations: u32,
    shared: Arc<Mutex<f32>>,
}

impl Client for FlawedClient {
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        let flaw = self.method.flaw;
        self.participations += 1;
        if flaw == Flaw::Fails {
            return Err(Error::Update("there is nothing to learn".to_owned()));
        }
        if flaw == Flaw::EveryRound && self.participations != task.round.0 + 1 {
            return Err(Error::Update(
                "this is not the round that was expected".to_owned(),
            ));
        }
        let received = task.model.table(0).as_slice();
        // Half precision has 10 bits of the 23.
        let is_rounded = received.iter().all(|value| value.to_bits() & 0x1fff == 0);
        if flaw == Flaw::FullPrecision && is_rounded && received.iter().any(|value| *value != 0.0) {
            return Err(Error::Update(
                "the download has lost its last bits".to_owned(),
            ));
        }
        task.draw_samples(&mut scratch.samples)?;
        let mut rate = self.method.rate * *self.eagerness.get();
        match flaw {
            Flaw::UsedBuffers if !scratch.slots.is_empty() => rate *= 0.5,
            Flaw::SharedCopy => {
                let mut shared = self.shared.lock().unwrap();
                *shared += 0.25;
                rate /= 1.0 + *shared;
            }
            Flaw::ProcessCounter => rate /= 2.0 + TRAININGS.fetch_add(1, Ordering::Relaxed) as f32,
            _ => {}
        }
        scratch.slots.push(1);
        let (mut rows, mut values) = (Vec::new(), Vec::new());
        for (&item, &label) in scratch
            .samples
            .samples
            .items
            .iter()
            .zip(&scratch.samples.samples.labels)
        {
            if label == 1.0 && rows.last() != Some(&item) {
                let p = received[item as usize];
                rows.push(item);
                values.push(if flaw == Flaw::LearnsNothing {
                    p
                } else {
                    p + rate * (1.0 - p)
                });
                *self.liked.get_mut().entry(item).or_default() += 0.1 * rate;
            }
        }
        if flaw == Flaw::SendsPrivate {
            values[0] = *self.eagerness.get();
        }
        *self.eagerness.get_mut() *= 0.93;
        if flaw == Flaw::SendsTrainedPrivate {
            values[0] = self.liked.get()[&rows[0]];
        }
        let visits = rows.len() as u64;
        let update = TableUpdate::listed(self.method.shape, rows, &values, 1.0)?;
        Ok(Trained::new(
            ModelUpdate::of_table(update),
            f64::from(rate),
            Work::of_row_visits(visits),
        ))
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        let (table, flaw) = (context.model.table(0), self.method.flaw);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            for (&item, score) in items.iter().zip(scores) {
                let known = self.liked.get().get(&item).copied().unwrap_or_default();
                *score = match flaw {
                    Flaw::UnwrittenScores if item == 7 => continue,
                    Flaw::ScoresByCompany => table.row(item as usize)[0] + items.len() as f32,
                    _ => table.row(item as usize)[0] + known,
                };
            }
        }))
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        if self.method.flaw != Flaw::ClientForgets {
            state.value(self.eagerness.get_mut())?;
        }
        state.plain(&mut self.participations)?;
        let mut liked: Vec<(u32, f32)> = self
            .liked
            .get()
            .iter()
            .map(|(item, value)| (*item, *value))
            .collect();
        if self.method.flaw != Flaw::HashOrder {
            liked.sort_by_key(|(item, _)| *item);
        }
        state.plain(&mut liked)?;
        *self.liked.get_mut() = liked.into_iter().collect();
        Ok(())
    }
}

/// A server with momentum, which may leave it out of what is saved.
struct Forgetful {
    averager: Averager,
    forgets: bool,
}

impl Server for Forgetful {
    fn model(&self) -> &Model {
        self.averager.model()
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.averager.set_model(model)
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        self.averager.accumulator()
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        self.averager.step(sums, step)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        if self.forgets {
            Ok(())
        } else {
            self.averager.visit_state(state)
        }
    }
}

/// If this fails, the method that the others differ from by one flaw has one itself, and the tests
/// below show nothing.
#[test]
fn the_method_without_a_flaw_keeps_the_contract() -> Result<(), Breach> {
    contract(&entry::<0>())
}

/// Checks that the method breaks `clause`, with a message that has every one of `parts`, and that
/// it does not pass the whole contract.
#[track_caller]
fn assert_broken(entry: &Entry, clause: Clause, parts: &[&str]) {
    let breach = Contract::of(entry)
        .check_clause(clause)
        .expect_err("the flaw was not found");
    assert_eq!((breach.method.as_str(), breach.clause), ("flawed", clause));
    let message = breach.to_string();
    assert_eq!(
        format!("{breach:?}"),
        message,
        "what a test prints that returns the breach"
    );
    for part in parts
        .iter()
        .chain(&[breach.promise, "method `flawed` breaks the clause"])
    {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
    assert!(contract(entry).is_err(), "the whole contract was passed");
}

#[test]
fn state_in_the_order_of_a_hash_map_is_found() {
    assert_broken(
        &entry::<1>(),
        Clause::Repeats,
        &["two runs on one thread each", "visits it in another order"],
    );
    assert_broken(
        &entry::<1>(),
        Clause::SavedState,
        &["the private state differs from byte"],
    );
}

#[test]
fn a_private_number_in_a_frame_is_found_before_and_after_training() {
    let untrained = [
        "number 0 of the private state",
        "as it was before the training",
        "of the upload under",
    ];
    assert_broken(&entry::<2>(), Clause::PrivateState, &untrained);
    assert_broken(
        &entry::<3>(),
        Clause::PrivateState,
        &["as it is after the training", "of the upload under"],
    );
}

#[test]
fn state_that_is_lost_on_resume_is_found_at_clients_and_at_the_server() {
    assert_broken(
        &entry::<4>(),
        Clause::SavedState,
        &[
            "after one more training",
            "visit_state leaves something out",
        ],
    );
    assert_broken(
        &entry::<4>(),
        Clause::Resumes,
        &[
            "goes on from the checkpoint after round 1",
            "in round 2: `loss`",
        ],
    );
    assert_broken(
        &entry::<5>(),
        Clause::Resumes,
        &[
            "goes on from the checkpoint after round",
            "differs from one",
        ],
    );
}

#[test]
fn scores_that_depend_on_the_other_items_are_found() {
    assert_broken(
        &entry::<6>(),
        Clause::ScoresAlone,
        &["item 0 is scored", "when items [0] are asked for"],
    );
}

#[test]
fn what_one_user_leaves_to_the_next_is_found() {
    assert_broken(
        &entry::<7>(),
        Clause::Buffers,
        &["with used and with new buffers the loss is"],
    );
}

#[test]
fn a_copy_that_shares_state_is_found() {
    assert_broken(
        &entry::<8>(),
        Clause::Snapshots,
        &["after the same training of a client and of its copy, the loss"],
    );
}

#[test]
fn a_result_that_depends_on_chance_is_found() {
    assert_broken(
        &entry::<9>(),
        Clause::Repeats,
        &["two runs on one thread each differ in round 1: `loss` is"],
    );
}

#[test]
fn scores_that_nobody_wrote_are_found() {
    assert_broken(
        &entry::<10>(),
        Clause::FreshClients,
        &["the score of item 7 for user 0 is NaN"],
    );
}

#[test]
fn training_that_learns_nothing_is_found() {
    assert_broken(
        &entry::<11>(),
        Clause::Uploads,
        &["the update leaves the model as it was"],
    );
}

/// If this fails, a fault of training is taken for one of scoring.
#[test]
fn training_that_fails_is_no_fault_of_the_scores() {
    let parts = ["training comes to its end", "there is nothing to learn"];
    assert_broken(&entry::<14>(), Clause::Uploads, &parts);
    let failing = entry::<14>();
    assert_eq!(contract(&failing).unwrap_err().clause, Clause::Uploads);
    for checked in [Clause::ScoresAlone, Clause::Buffers, Clause::Repeats] {
        let breach = Contract::of(&failing).check_clause(checked).unwrap_err();
        assert_eq!(breach.clause, Clause::Uploads, "{checked:?} alone");
    }
}

#[test]
fn worlds_that_a_method_cannot_live_in_are_named() {
    let parts = [
        "network.dropout=0.4",
        "this is not the round that was expected",
    ];
    assert_broken(&entry::<12>(), Clause::EveryWorld, &parts);
    assert_broken(
        &entry::<13>(),
        Clause::LossyCodecs,
        &["the download has lost its last bits"],
    );
}

#[test]
fn an_entry_that_says_too_little_is_found() {
    let unchecked = Entry {
        schema: &|| {
            let rate = serde_json::json!({ "type": "number", "default": 0.5, "multipleOf": 0.25 });
            schemars::json_schema!({ "type": "object", "properties": { "rate": rate }, "additionalProperties": false })
        },
        ..entry::<0>()
    };
    assert_broken(
        &unchecked,
        Clause::Parameters,
        &[
            "rules that scenario files are not checked against",
            "multipleOf",
        ],
    );
    let small = Entry {
        sizes: &|_, _| Vec::new(),
        ..entry::<0>()
    };
    let parts = [
        "block `p` has 150 rows and 1 columns",
        "announces no block of this name",
    ];
    assert_broken(&small, Clause::Sizes, &parts);
}
