//! Trains on any loss of groups of a positive and its negatives, which stay together in batches.
//!
//! [`train`] does so for a product with biases.

use std::ops::Range;
use std::sync::Arc;

use super::super::score::{Loss, Product, Training};
use super::super::{Block, Own, table_of};
use super::{draw_rows, keep, listed_update};
use crate::{LocalTask, Scratch, Trained};
use fedrecsim_core::work::Work;
use fedrecsim_core::{Purpose, Result, Stream};
use fedrecsim_model::ModelUpdate;
use fedrecsim_model::neural::dense::{add_scaled, dot};

/// Returns the ranges of samples that begin with a positive and go on with its negatives.
pub(crate) fn groups_of(samples: &[(u32, bool)]) -> Vec<Range<usize>> {
    let positives = samples.iter().enumerate().filter(|(_, sample)| sample.1);
    let starts: Vec<usize> = positives.map(|(place, _)| place).collect();
    let ends = starts.iter().skip(1).copied().chain([samples.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(start, end)| *start..end)
        .collect()
}

/// Returns each positive of the samples with each of its negatives, as their rows or items.
pub(crate) fn pairs_of(samples: &[(u32, bool)]) -> Vec<(u32, u32)> {
    let groups = groups_of(samples).into_iter();
    let pairs = groups.flat_map(|group| {
        let positive = samples[group.start].0;
        let negatives = &samples[group.start + 1..group.end];
        negatives.iter().map(move |negative| (positive, negative.0))
    });
    pairs.collect()
}

impl Training {
    /// Calls `step` for every batch of whole groups, as [`Self::run`] does, and returns the mean per
    /// group.
    pub(crate) fn run_groups(
        &self,
        groups: &mut [Range<usize>],
        order: &mut Stream,
        step: impl FnMut(&[Range<usize>]) -> f32,
    ) -> f64 {
        let of_group = groups.iter().map(Range::len).max().unwrap_or(1);
        let batches = Self {
            batch_size: (self.batch_size / of_group).max(1),
            ..*self
        };
        batches.run(groups, order, step)
    }
}

/// Says by which rate a step moves a block, and which share its decay leaves; `None` if it does
/// neither.
pub(crate) type Move = Option<(f32, f32)>;

/// Holds a product with biases while it is trained: a user's side, and the distinct rows of the
/// samples.
pub(crate) struct Factors {
    pub user: Vec<f32>,
    pub rows: Vec<f32>,
    pub bias: f32,
    /// The bias of each row, which is zero where the product has none.
    pub item_biases: Vec<f32>,
    /// The number of row visits so far.
    pub row_visits: u64,
    scores: Vec<f32>,
    slopes: Vec<f32>,
    gradients: Vec<(u32, f32)>,
}

impl Factors {
    /// Holds these factors, without biases.
    pub(crate) fn new(user: Vec<f32>, rows: Vec<f32>) -> Self {
        let biases = rows.len() / user.len().max(1);
        Self {
            user,
            rows,
            bias: 0.0,
            item_biases: vec![0.0; biases],
            row_visits: 0,
            scores: Vec::new(),
            slopes: Vec::new(),
            gradients: Vec::new(),
        }
    }

    /// Makes a step of the user's vector, the rows, the bias and the items' biases at once along the
    /// gradient of the mean loss of `groups` of `samples`, and returns the loss before it, as a sum.
    pub(crate) fn step(
        &mut self,
        loss: Loss,
        samples: &[(u32, bool)],
        groups: &[Range<usize>],
        moves: [Move; 4],
    ) -> f64 {
        let k = self.user.len();
        let row = |row: u32| row as usize * k..(row as usize + 1) * k;
        let (mut total, mut terms) = (0.0, 0);
        self.gradients.clear();
        for group in groups {
            let items = samples[group.clone()].iter().map(|(item, _)| *item);
            let score = |item: u32| {
                dot(&self.user, &self.rows[row(item)]) + self.bias + self.item_biases[item as usize]
            };
            self.scores.clear();
            self.scores.extend(items.clone().map(score));
            let (of_group, count) = loss.of_group(&self.scores, &mut self.slopes);
            (total, terms) = (total + of_group, terms + count);
            let slopes = self.slopes.iter().copied();
            self.gradients.extend(items.zip(slopes));
        }
        let share = 1.0 / terms.max(1) as f32;
        // How a gradient moves a block, and how the block decays.
        let moves = moves.map(|of| of.map_or((0.0, 1.0), |(rate, left)| (-rate * share, left)));
        let [of_user, of_rows, of_bias, of_item_bias] = moves;
        let before = self.user.clone();
        self.user.iter_mut().for_each(|value| *value *= of_user.1);
        self.bias *= of_bias.1;
        for (item, slope) in &self.gradients {
            add_scaled(of_user.0 * slope, &self.rows[row(*item)], &mut self.user);
            self.bias += of_bias.0 * slope;
        }
        for (item, slope) in &self.gradients {
            let values = &mut self.rows[row(*item)];
            if of_rows.1 != 1.0 {
                values.iter_mut().for_each(|value| *value *= of_rows.1);
            }
            add_scaled(of_rows.0 * slope, &before, values);
            let bias = &mut self.item_biases[*item as usize];
            *bias = of_item_bias.1 * *bias + of_item_bias.0 * slope;
        }
        self.row_visits += self.gradients.len() as u64;
        total
    }
}

/// Trains a private vector, the rows of a shared item table, and perhaps biases. The distinct rows
/// of a batch are those of its groups.
pub(super) fn train<S>(
    (names, loss): (&Product, Loss),
    training: &Training,
    own: &mut Own<S>,
    task: &LocalTask<'_>,
    scratch: &mut Scratch,
) -> Result<Trained> {
    let (vector, table) = (names.vector, names.table);
    let (bias, item_bias) = (names.bias, names.item_bias);
    let rows = draw_rows(task, table_of(task.model, table), scratch)?;
    let round_rows = &scratch.round_rows;
    let (listed, samples) = (&round_rows.rows, &round_rows.samples);
    let mut factors = Factors::new(own.get(vector).to_vec(), rows);
    if let Some(name) = bias {
        factors.bias = own.get(name)[0];
    }
    if let Some(name) = item_bias {
        factors.item_biases = table_of(task.model, name).gathered(listed);
    }
    let blocks = [Some(vector), Some(table), bias, item_bias];
    let plan = Arc::clone(&own.plan);
    let blocks = blocks.map(|name| name.map(|name| plan.block(name)));
    let mut turns: Vec<u8> = blocks.iter().flatten().map(|block| block.turn).collect();
    turns.sort_unstable();
    turns.dedup();
    let of_block = |block: &Block| {
        let rate = block.rate as f32;
        (rate, 1.0 - rate * block.decay as f32)
    };
    let mut order = task.stream(Purpose::Shuffle);
    let mean = training.run_groups(&mut groups_of(samples), &mut order, |groups| {
        let mut total = 0.0;
        for turn in &turns {
            let in_turn = blocks.map(|block| block.filter(|block| block.turn == *turn));
            let moves = in_turn.map(|block| block.map(of_block));
            total = factors.step(loss, samples, groups, moves);
        }
        total as f32
    });
    keep(own, task, vector, &factors.user)?;
    let mut blocks = vec![listed_update(task, table, listed, &factors.rows)?];
    if let Some(name) = bias {
        keep(own, task, name, &[factors.bias])?;
    }
    if let Some(name) = item_bias {
        blocks.push(listed_update(task, name, listed, &factors.item_biases)?);
    }
    let update = ModelUpdate::of_blocks(blocks).weighing(samples.len() as f32);
    let work = Work::of_row_visits(factors.row_visits);
    Ok(Trained::new(update, mean, work))
}
