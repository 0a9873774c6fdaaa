//! Implements FedRAP, additive personalisation (Li, Long, Zhou, ICLR 2024; code mtics/FedRAP
//! d6ee2ac).
//!
//! The table D (m x k) and the score function w (k) and b are private. The table C (m x k) is
//! shared: it is averaged, and a penalty makes it sparse. The logit of item j is w . (D_j + C_j) +
//! b. Items are scored with the client's own w, b and D and the newest averaged C.

use super::prelude::*;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_model::SharedTable;
use fedrecsim_model::kernel::score::{ScaledSum, score_sums};
use fedrecsim_model::kernel::{TableRows, packed_vector, unpack_into};
use fedrecsim_model::row_table::RowTable;

pub(crate) mod central;
pub(crate) mod feddad;
mod local;
mod moving_rows;
mod noise;
mod parameters;
#[cfg(test)]
mod tests;

use super::OwnNoise;
use super::declare::learn::draw_samples;
pub(crate) use local::{Epochs, Split};
use moving_rows::MovingRows;
pub use parameters::{
    Curriculum, FedRap, FedRapParameters, Noise, NoiseAt, Objective, Regularizer, Tables,
};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedRap>();

impl Declare for FedRap {
    type Parameters = FedRapParameters;
    type Memory = ();

    const NAME: &str = "fedrap";
    const SUMMARY: &str = "additive personalisation: averaged sparse table C plus private table D \
                           and score function";
    const SOURCE: &str = "Li, Long, Zhou, Federated Recommendation with Additive Personalization, \
                          ICLR 2024; code mtics/FedRAP d6ee2ac";
    const FORMULA: &[&str] = &[
        "s_i = w · (D_i + C_i) + b",
        "L = mean BCE(s_i, y_i) − λ mean (D_i − C_i)² + μ mean |C_i|",
    ];
    const DIFFERS: &str = "`objective` chooses. The code (`published-code`, the default) takes \
                           means over a batch and the values of its rows, the subgradient of |C|, \
                           rates that decay, and an early stop. The paper (`paper`) takes sums \
                           over the samples and over whole tables (Eq. 3), a proximal step for |C| \
                           (Eq. 13), one rate, and a curriculum for λ and μ. The code computes the \
                           curriculum and never uses it. The gradient of the data term is σ(s_i) − \
                           y_i in both, whatever Eqs. 9, 12 and 15 print. The paper does not say \
                           where noise enters (`noise.at`), or whether D is averaged where there \
                           is no C (`aggregate_d`).";

    fn resolve(parameters: &mut FedRapParameters) -> Vec<ParameterFault> {
        parameters::resolve(parameters)
    }

    fn new(parameters: FedRapParameters, problem: &Problem) -> Self {
        Self::of(parameters, problem)
    }

    /// All users start with the same w, b and D. A table that is left out has no rows.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let (p, k) = (&self.parameters, self.parameters.latent_dimension);
        let rule = ServerRule {
            threshold: p.server_threshold,
            ..ServerRule::MEAN
        };
        let rows = |is_there: bool| if is_there { size.items } else { 0 };
        let table = |name, rows| item_table(name, rows, k).start(normal(1.0));
        let own = |block: Block| block.private().alike();
        let function = uniform(1.0 / f64::from(k).sqrt());
        vec![
            table("C", rows(self.shares())).rule(rule),
            own(vector("w", k).start(function.clone())),
            own(vector("b", 1).start(function)),
            own(table("D", rows(self.keeps_d()))),
        ]
    }

    fn own_noise(&self) -> Option<OwnNoise> {
        noise::worth(self)
    }

    fn train(&self, own: &mut Own, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        draw_samples(task, &mut scratch.samples)?;
        let (w, b) = (packed_vector(own.get("w")), own.get("b")[0]);
        let mut epochs = Epochs::new(self, (w, b), self.curriculum_factor(task.round.0), task);
        let trained = self.train_rows(&mut epochs, own, task, scratch)?;
        unpack_into(&epochs.w, own.get_mut("w"));
        own.get_mut("b")[0] = epochs.b;
        task.check_values("w", own.get("w"))?;
        task.check_magnitude("b", epochs.b.abs())?;
        Ok(trained)
    }

    fn scorer<'a>(&'a self, own: &'a Own, context: ScoringContext<'a>) -> Scoring<'a> {
        let shared = self.shares().then(|| table_of(context.model, "C"));
        let d = self.keeps_d().then(|| own.rows("D"));
        Ok(score_by_sums(
            (own.get("w").to_vec(), own.get("b")[0]),
            d,
            shared,
        ))
    }
}

impl FedRap {
    /// Gathers the rows of the samples that were drawn, trains them in all epochs, and writes those of
    /// D back.
    pub(crate) fn train_rows<'a>(
        &'a self,
        epochs: &mut Epochs<'a>,
        own: &mut Own,
        task: &LocalTask<'a>,
        scratch: &mut Scratch,
    ) -> Result<Trained> {
        let gathering = enter(Stage::Gather);
        let (samples, round_rows) = (&scratch.samples.samples, &mut scratch.round_rows);
        match self.packs_every_row() {
            false => round_rows.collect(&samples.items, &samples.labels, self.items),
            true => round_rows.collect_whole_catalogue(&samples.items, &samples.labels, self.items),
        }
        let rows = round_rows.rows.to_vec();
        epochs.disturb(task, &rows);
        let (table, dimension) = (task.model.table(0), self.dimension());
        let downloaded = TableRows {
            values: table.as_slice(),
            dimension,
            rows: &rows,
        };
        let (d, start) = own.rows_mut("D");
        let (packed, uploaded) = (&mut scratch.packed, std::mem::take(&mut scratch.values));
        let slots = &mut scratch.slots;
        let found = self.keeps_d().then(|| d.found(&rows, start, slots));
        let sources = (found, self.shares().then_some(downloaded));
        let mut moving = MovingRows::new((rows.len(), dimension), sources, packed, uploaded);
        drop(gathering);
        let (order, weights) = (task.stream(Purpose::Shuffle), &mut scratch.weights);
        epochs.run(order, round_rows, packed, weights, &mut moving);
        moving.move_out_at_once(packed, epochs.others_scale);
        let (values, [largest_d, mut largest_c]) = moving.finish();
        let mut update = TableUpdate::of_rows(table.shape(), RowSet::All, values.into());
        // All other rows have decayed by the same factor.
        if self.shares() && !self.packs_every_row() {
            update.rows = RowSet::Listed(rows);
            update.others_scale = epochs.others_scale;
        }
        if let Some(disturbance) = &mut epochs.disturbance {
            (update, largest_c) = disturbance.upload(update, largest_c)?;
        }
        task.check_magnitude("C", largest_c)?;
        task.check_magnitude("D", largest_d)?;
        let work = Work::of_row_visits(epochs.row_visits);
        let update = ModelUpdate::of_table(update);
        Ok(Trained::new(update, epochs.loss, work))
    }
}

/// Makes the scorer of w . (D_j + C_j) + b; a table may be left out.
pub(crate) fn score_by_sums<'a>(
    (w, b): (Vec<f32>, f32),
    d: Option<(&'a RowTable, &'a Table)>,
    shared: Option<&'a SharedTable>,
) -> Box<dyn Scorer + 'a> {
    Box::new(move |items: &[u32], scores: &mut [f32]| {
        let shared = |item: &u32| match shared {
            Some(table) => table.row(*item as usize).into(),
            None => [][..].into(),
        };
        let mut rows: Vec<ScaledSum<'_>> = items.iter().map(shared).collect();
        if let Some((d, start)) = d {
            d.read_rows(items, start, &mut Vec::new(), |position, d, scale| {
                (rows[position].scaled, rows[position].scale) = (d, scale);
            });
        }
        score_sums(&w, b, &rows, scores);
    })
}
