//! Trains a product with biases on any loss of groups of a positive and its negatives.

use std::ops::Range;
use std::sync::Arc;

use super::super::score::{Loss, Product, Training};
use super::super::{Block, Own, table_of};
use super::{draw_rows, keep, listed_update};
use crate::{LocalTask, Scratch, Trained};
use fedrecsim_core::work::Work;
use fedrecsim_core::{Purpose, Result};
use fedrecsim_model::ModelUpdate;
use fedrecsim_model::neural::dense::{add_scaled, dot};

/// Returns the ranges of samples that begin with a positive and go on with its negatives.
fn groups_of(samples: &[(u32, bool)]) -> Vec<Range<usize>> {
    let positives = samples.iter().enumerate().filter(|(_, sample)| sample.1);
    let starts: Vec<usize> = positives.map(|(place, _)| place).collect();
    let ends = starts.iter().skip(1).copied().chain([samples.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(start, end)| *start..end)
        .collect()
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
    let downloaded = table_of(task.model, table);
    let mut rows = draw_rows(task, downloaded, scratch)?;
    let round_rows = &scratch.round_rows;
    let (listed, samples) = (&round_rows.rows, &round_rows.samples);
    let k = downloaded.shape().dimension;
    let mut user = own.get(vector).to_vec();
    let mut b = bias.map_or(0.0, |name| own.get(name)[0]);
    let mut item_biases = match item_bias {
        Some(name) => table_of(task.model, name).gathered(listed),
        None => vec![0.0; listed.len()],
    };
    let mut groups = groups_of(samples);
    let of_group = groups.iter().map(Range::len).max().unwrap_or(1);
    let batches = Training {
        batch_size: (training.batch_size / of_group).max(1),
        ..*training
    };
    let blocks = [Some(vector), Some(table), bias, item_bias];
    let plan = Arc::clone(&own.plan);
    let blocks = blocks.map(|name| name.map(|name| plan.block(name)));
    let mut turns: Vec<u8> = blocks.iter().flatten().map(|block| block.turn).collect();
    turns.sort_unstable();
    turns.dedup();
    let row = |row: u32| row as usize * k..(row as usize + 1) * k;
    let (mut scores, mut slopes, mut work) = (Vec::new(), Vec::new(), Work::default());
    let mut gradients: Vec<(u32, f32)> = Vec::new();
    let mut order = task.stream(Purpose::Shuffle);
    let mean = batches.run(&mut groups, &mut order, |groups| {
        let mut mean = 0.0;
        for turn in &turns {
            let (mut total, mut terms) = (0.0, 0);
            gradients.clear();
            for group in groups {
                let items = samples[group.clone()].iter().map(|(item, _)| *item);
                let score =
                    |item: u32| dot(&user, &rows[row(item)]) + b + item_biases[item as usize];
                scores.clear();
                scores.extend(items.clone().map(score));
                let (of_group, count) = loss.of_group(&scores, &mut slopes);
                (total, terms) = (total + of_group, terms + count);
                gradients.extend(items.zip(slopes.iter().copied()));
            }
            let share = 1.0 / terms.max(1) as f32;
            // How a gradient moves a block in this turn, and how the block decays.
            let step = |block: Option<&Block>| match block.filter(|block| block.turn == *turn) {
                Some(block) => {
                    let rate = block.rate as f32;
                    (-rate * share, 1.0 - rate * block.decay as f32)
                }
                None => (0.0, 1.0),
            };
            let before = user.clone();
            let [of_user, of_rows, of_bias, of_item_bias] = blocks.map(step);
            user.iter_mut().for_each(|value| *value *= of_user.1);
            b *= of_bias.1;
            for (item, slope) in &gradients {
                add_scaled(of_user.0 * slope, &rows[row(*item)], &mut user);
                b += of_bias.0 * slope;
            }
            for (item, slope) in &gradients {
                let values = &mut rows[row(*item)];
                if of_rows.1 != 1.0 {
                    values.iter_mut().for_each(|value| *value *= of_rows.1);
                }
                add_scaled(of_rows.0 * slope, &before, values);
                let bias = &mut item_biases[*item as usize];
                *bias = of_item_bias.1 * *bias + of_item_bias.0 * slope;
            }
            work.row_visits += gradients.len() as u64;
            mean = total as f32;
        }
        mean
    });
    keep(own, task, vector, &user)?;
    let mut blocks = vec![listed_update(task, table, listed, &rows)?];
    if let Some(name) = bias {
        keep(own, task, name, &[b])?;
    }
    if let Some(name) = item_bias {
        blocks.push(listed_update(task, name, listed, &item_biases)?);
    }
    let update = ModelUpdate::of_blocks(blocks).weighing(samples.len() as f32);
    Ok(Trained::new(update, mean, work))
}
