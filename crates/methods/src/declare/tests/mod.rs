//! Compares what follows from declarations with plain computations in double precision.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::own::Plan;
use super::*;
use crate::fcf::Fcf;
use crate::fedncf::FedNcf;
use crate::fedrecon::FedRecon;
use crate::registry::METHODS;
use crate::tests::{holding, problem_of};
use crate::{LocalTask, Method, choices, parameters, row_counts};
use fedrecsim_core::math::gradient::gradient_check;
use fedrecsim_core::{InvitationId, PortableDraws, Purpose, Round, Streams, UserId};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_data::dataset::negatives::Samples;
use fedrecsim_model::neural::Perceptron;
use fedrecsim_model::{Table, TableShape};

mod networks;
mod products;
mod reconstruction;

/// Returns the model that blocks start with.
pub(crate) fn start_of(blocks: Vec<Block>, streams: Streams) -> Model {
    Plan::new(blocks, streams).1
}

const USER: UserId = UserId(6);
const ITEMS: usize = 40;
const K: u32 = 5;

/// A method whose blocks, rates and turns a test chooses.
#[derive(Clone, Debug)]
struct Chosen {
    score: Score,
    loss: Loss,
    training: Training,
    table_turn: u8,
    decay: f64,
    rates: [f64; 4],
}

parameters! {
    /// The parameters of a method that has none.
    struct Nothing {}
}

impl Declare for Chosen {
    type Parameters = Nothing;
    type Memory = ();

    const NAME: &str = "chosen";
    const SUMMARY: &str = "";
    const SOURCE: &str = "";

    fn new(_parameters: Nothing, _problem: &Problem) -> Self {
        unreachable!("tests make it")
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let [u, b, v, c] = self.rates;
        let blocks = vec![
            item_table("V", size.items, K).rate(v).turn(self.table_turn),
            item_table("c", size.items, 1).rate(c),
            vector("u", K).private().rate(u),
            vector("b", 1).private().rate(b),
        ];
        let decayed = blocks.into_iter().map(|block| {
            let block = block.decay(self.decay);
            block.start(uniform(1.0))
        });
        decayed.collect()
    }

    fn score(&self) -> Score {
        self.score.clone()
    }

    fn loss(&self) -> Loss {
        self.loss
    }

    fn training(&self) -> Training {
        self.training
    }
}

fn chosen(loss: Loss, score: Score) -> Chosen {
    Chosen {
        score,
        loss,
        training: Training::of(2, 1000),
        table_turn: 0,
        decay: 0.0,
        rates: [0.3, 0.2, 0.9, 0.4],
    }
}

/// Holds the parameters of a plain implementation: u, b, V and c.
#[derive(Clone, Debug)]
struct Plain {
    u: Vec<f64>,
    b: f64,
    rows: Vec<Vec<f64>>,
    c: Vec<f64>,
    loss: f64,
}

impl Plain {
    fn score(&self, item: u32) -> f64 {
        let row = &self.rows[item as usize];
        self.b + self.c[item as usize] + self.u.iter().zip(row).map(|(u, v)| u * v).sum::<f64>()
    }

    /// Returns the loss of groups, each a positive and its negatives, and its number of terms.
    fn loss(&self, loss: Loss, groups: &[Vec<u32>]) -> (f64, usize) {
        let softplus = |x: f64| x.exp().ln_1p();
        let of_group = |group: &Vec<u32>| {
            let scores: Vec<f64> = group.iter().map(|item| self.score(*item)).collect();
            let negatives = &scores[1..];
            match loss {
                Loss::BinaryCrossEntropy => {
                    softplus(-scores[0]) + negatives.iter().map(|s| softplus(*s)).sum::<f64>()
                }
                Loss::Squared => {
                    let squares = negatives.iter().map(|s| s * s).sum::<f64>();
                    ((scores[0] - 1.0).powi(2) + squares) / 2.0
                }
                Loss::Pairwise => negatives.iter().map(|s| softplus(s - scores[0])).sum(),
                Loss::Softmax => scores
                    .iter()
                    .map(|s| (s - scores[0]).exp())
                    .sum::<f64>()
                    .ln(),
            }
        };
        let terms = groups.iter().map(|group| match loss {
            Loss::Pairwise => group.len() - 1,
            Loss::Softmax => 1,
            _ => group.len(),
        });
        (groups.iter().map(of_group).sum(), terms.sum())
    }

    /// Makes one step against the slopes by central differences of the mean loss.
    fn step(&mut self, method: &Chosen, groups: &[Vec<u32>], moves: [bool; 4]) {
        let before = self.clone();
        let mean = |at: &Self| {
            let (loss, terms) = at.loss(method.loss, groups);
            loss / terms as f64
        };
        let slope = |place: &dyn Fn(&mut Self) -> &mut f64| {
            let moved = |by: f64| {
                let mut other = before.clone();
                *place(&mut other) += by;
                mean(&other)
            };
            (moved(1e-5) - moved(-1e-5)) / 2e-5
        };
        let decayed =
            |rate: f64, value: f64, slope: f64| value - rate * (slope + method.decay * value);
        let rate = |block: usize| {
            if moves[block] {
                method.rates[block]
            } else {
                0.0
            }
        };
        for i in 0..K as usize {
            self.u[i] = decayed(rate(0), before.u[i], slope(&|at| &mut at.u[i]));
        }
        self.b = decayed(rate(1), before.b, slope(&|at| &mut at.b));
        for item in 0..ITEMS {
            for i in 0..K as usize {
                let slope = slope(&|at| &mut at.rows[item][i]);
                self.rows[item][i] = decayed(rate(2), before.rows[item][i], slope);
            }
            let slope = slope(&|at| &mut at.c[item]);
            self.c[item] = decayed(rate(3), before.c[item], slope);
        }
    }
}

/// If this fails, a scenario is checked by other blocks, or another use of them, than a run has.
#[test]
fn what_a_declaration_says_of_the_exchange_is_what_the_method_does() {
    let problem = problem_of(8, 64);
    let mut parameters = vec![serde_json::json!({})];
    for key in [
        "dual_personalization",
        "equal_weights",
        "sends_counts",
        "bias",
    ] {
        parameters.push(serde_json::json!({ key: true }));
    }
    let mut compared = 0;
    for entry in METHODS.iter().filter(|entry| entry.placement.trains()) {
        for parameters in &parameters {
            let (told, built) = (
                (entry.traffic)(parameters),
                (entry.build)(parameters, &problem),
            );
            let (Some(told), Ok(method)) = (told, built) else {
                continue;
            };
            let found = super::super::traffic::found_out(&*method);
            assert_eq!(
                format!("{told:?}"),
                format!("{found:?}"),
                "{} {parameters}",
                entry.name
            );
            compared += 1;
        }
    }
    assert!(compared >= 9, "{compared}");
}

/// If this fails, a user starts elsewhere than the method declares: with what another user has
/// drawn, or with the same as all where it draws its own.
#[test]
fn private_blocks_start_per_user_or_alike() {
    let problem = problem_of(3, 20);
    let vector_of = |method: &dyn Method, user: u32| {
        let mut bytes = Vec::new();
        let mut client = method.client(UserId(user));
        let mut sink = |part: &[u8]| bytes.extend_from_slice(part);
        client
            .visit_state(&mut StateVisitor::Digest(&mut sink))
            .unwrap();
        bytes[..4].to_vec()
    };
    let made = |name: &str| {
        let entry = METHODS.iter().find(|entry| entry.name == name).unwrap();
        (entry.build)(&serde_json::json!({}), &problem).unwrap()
    };
    let (own, alike) = (made("fedmf"), made("pfedrec"));
    assert_ne!(vector_of(&*own, 1), vector_of(&*own, 2));
    assert_eq!(vector_of(&*own, 1), vector_of(&*own, 1));
    assert_eq!(vector_of(&*alike, 1), vector_of(&*alike, 2));
}

/// If this fails, rows start with another length than the one that the scenario states.
#[test]
fn rows_start_with_the_stated_length() {
    let parameters = Fcf {
        initial_length: 0.3,
        latent_dimension: 4,
        ..Fcf::default()
    };
    let start = Declared::<Fcf>::new(parameters, &problem_of(3, 2000)).initial();
    let values = start.table(0).as_slice().iter();
    let squares: f64 = values.map(|value| f64::from(*value).powi(2)).sum();
    let length = (squares / 2000.0).sqrt();
    assert!((length / 0.3 - 1.0).abs() < 0.05, "{length}");
}

parameters! {
    /// Shows what the macro writes.
    struct Shown {
        /// A number.
        number: u32 = 3, >= 1, <= 9;
        /// A share.
        share: f64 = 0.5, > 0.0, < 1.0;
        /// A choice.
        kind: Kind = Kind::FirstKind;
        /// A number that may be left out.
        optional: Option<f64> = None, > 0.0;
    }
}

choices! {
    /// Kinds.
    enum Kind {
        /// The first.
        FirstKind,
        /// The second.
        SecondKind,
    }
}

/// If this fails, keys have other defaults, names or bounds than their declaration says.
#[test]
fn keys_are_declared_in_one_line() {
    let schema = schemars::schema_for!(Shown).to_value();
    let of = |key: &str, field: &str| schema["properties"][key][field].clone();
    assert_eq!(of("number", "minimum"), 1);
    assert_eq!(of("number", "maximum"), 9);
    assert_eq!(of("number", "default"), 3);
    assert_eq!(of("share", "exclusiveMinimum"), 0.0);
    assert_eq!(of("share", "exclusiveMaximum"), 1.0);
    assert_eq!(of("optional", "exclusiveMinimum"), 0.0);
    assert_eq!(of("number", "description"), "A number.");
    let read: Shown = serde_json::from_value(serde_json::json!({ "kind": "second-kind" })).unwrap();
    assert_eq!((read.kind, read.number), (Kind::SecondKind, 3));
    assert!(serde_json::from_value::<Shown>(serde_json::json!({ "other": 1 })).is_err());
}

/// If this fails, what uploads say of themselves has another shape than the server expects.
#[test]
fn uploads_say_what_the_method_declares() {
    let shape = TableShape::new(4, 1);
    for (counts, blocks) in [
        (Counts::Nothing, 0),
        (Counts::Rows, 1),
        (Counts::RowsAndSender, 2),
    ] {
        let layouts = row_counts::said_layouts(counts, 4);
        let said = row_counts::said_of(counts, 4, &[1, 3]).unwrap();
        assert_eq!((layouts.len(), said.len()), (blocks, blocks));
        if let [counts, ..] = &said[..] {
            let whole = counts.apply(Some(&Table::zeros(shape))).unwrap();
            assert_eq!(whole.as_slice(), [0.0, 1.0, 0.0, 1.0]);
        }
    }
}

/// If this fails, pairs are weighted by another slope than that of their loss, or a divergence
/// goes unnoticed.
#[test]
fn the_slope_is_that_of_the_loss() {
    for d in [-40.0, -3.0, -0.25, 0.0, 0.5, 2.0, 30.0f32] {
        let (loss, slope) = score::pairwise(d);
        let by_definition = |at: &[f64]| libm::log1p(libm::exp(-at[0]));
        assert!((loss - by_definition(&[f64::from(d)])).abs() < 1e-9, "{d}");
        gradient_check(1e-4, &[f64::from(d)], &[f64::from(slope)], by_definition)
            .unwrap_or_else(|wrong| panic!("{d}: {wrong}"));
    }
    let (loss, slope) = score::pairwise(f32::NAN);
    assert!(loss.is_nan() && slope.is_nan());
    assert_eq!(score::pairwise(f32::NEG_INFINITY), (f64::INFINITY, -1.0));
}
