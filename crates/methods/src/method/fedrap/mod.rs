//! Implements FedRAP, additive personalisation (Li, Long, Zhou, ICLR 2024; code mtics/FedRAP
//! d6ee2ac).
//!
//! The table D (m x k) and the score function w (k) and b are private. The table C (m x k) is
//! shared: it is averaged, and a penalty makes it sparse. The logit of item j is w . (D_j + C_j) +
//! b. Items are scored with the client's own w, b and D and the newest averaged C.

use super::prelude::*;
use fedrecsim_model::model::kernel::score::{ScaledSum, score_sums};

pub mod central;
mod local;
mod moving_rows;
mod noise;
mod parameters;
#[cfg(test)]
mod tests;

use super::OwnNoise;
use parameters::Plan;
pub use parameters::{
    Curriculum, FedRapParameters, Noise, NoiseAt, Objective, Regularizer, Tables,
};

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry::of::<FedRap>();

/// Holds the settings that follow from the parameters.
#[derive(Debug)]
pub struct FedRap {
    plan: Plan,
    items: usize,
}

impl Declare for FedRap {
    type Parameters = FedRapParameters;
    type Memory = ();

    const NAME: &str = "fedrap";
    const SUMMARY: &str = "additive personalisation: averaged sparse table C plus private table D \
                           and score function";
    const SOURCE: &str = "Li, Long, Zhou, Federated Recommendation with Additive Personalization, \
                          ICLR 2024; code mtics/FedRAP d6ee2ac";

    fn resolve(parameters: &mut FedRapParameters) -> Vec<ParameterFault> {
        parameters::resolve(parameters)
    }

    fn new(mut parameters: FedRapParameters, problem: &Problem) -> Self {
        if let Some(noise) = &mut parameters.noise {
            noise.participants.get_or_insert(problem.users as u32);
        }
        Self {
            plan: Plan::new(parameters),
            items: problem.items,
        }
    }

    /// All users start with the same w, b and D. A table that is left out has no rows.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let k = self.plan.parameters.latent_dimension;
        let rule = ServerRule {
            threshold: self.plan.parameters.server_threshold,
            ..ServerRule::MEAN
        };
        let rows = |is_there: bool| if is_there { size.items } else { 0 };
        let function = uniform(1.0 / f64::from(k).sqrt());
        let own = |block: Block| block.private().alike().start(function.clone());
        let c = item_table("C", rows(self.plan.shares()), k).start(normal(1.0));
        let d = item_table("D", rows(self.plan.keeps_d()), k)
            .private()
            .alike();
        vec![
            c.rule(rule),
            own(vector("w", k)),
            own(vector("b", 1)),
            d.start(normal(1.0)),
        ]
    }

    fn own_noise(&self) -> Option<OwnNoise> {
        noise::worth(&self.plan)
    }

    fn train(
        &self,
        own: &mut Own<()>,
        task: &LocalTask<'_>,
        scratch: &mut Scratch,
    ) -> Result<Trained> {
        local::train((&self.plan, self.items), own, task, scratch)
    }

    fn scorer<'a>(
        &'a self,
        own: &'a Own<()>,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let (plan, table) = (&self.plan, table_of(context.model, "C"));
        let (w, b, (d, start)) = (own.get("w"), own.get("b")[0], own.rows("D"));
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            let row = |item: &u32| ScaledSum {
                scaled: &[],
                scale: 0.0,
                plain: match plan.shares() {
                    true => table.row(*item as usize),
                    false => &[],
                },
            };
            let mut rows: Vec<ScaledSum<'_>> = items.iter().map(row).collect();
            if plan.keeps_d() {
                d.read_rows(items, start, &mut Vec::new(), |position, d, scale| {
                    (rows[position].scaled, rows[position].scale) = (d, scale);
                });
            }
            score_sums(w, b, &rows, scores);
        }))
    }
}
