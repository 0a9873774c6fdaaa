//! What devices upload: their statistics at the end of a period, and then what they report of how well
//! the package of its beginning fits what they took in it.

use ndarray::Array2;

use super::columns::StepColumns;
use super::features::Features;
use super::history::History;
use super::learned::{FEATURES, GRID, LEAST, dot, share_of_counts};
use super::package::Package;
use super::statistics;
use crate::prelude::*;
use fedrecsim_model::Layout;

/// The number of items, the best of a first ranking, among which a device tells those it took.
const POOL: usize = 100;

/// Returns the layout of reports on mixtures: one number for each place of the grid, and 1 for the
/// device.
pub(super) fn mixture_layout() -> Layout {
    let shape = TableShape::new(1, GRID + 1);
    Layout::new(vec![BlockLayout::weights("mixture", shape).statistic()])
}

/// Returns the layout of terms of a Newton step: the loss, its gradient and the upper triangle of its
/// Hessian.
pub(super) fn newton_layout() -> Layout {
    let shape = TableShape::new(1, 1 + FEATURES + FEATURES * (FEATURES + 1) / 2);
    Layout::new(vec![BlockLayout::weights("newton", shape).statistic()])
}

/// Makes the upload of a device that has this history, and has taken `targets` (ascending) in the
/// period.
pub(super) fn statistics_upload(
    task: &LocalTask<'_>,
    (package, columns): (&Package<'_>, &StepColumns),
    history: &History,
    targets: Vec<u32>,
) -> Result<Trained> {
    let basis = history.items.iter().map(|item| package.basis(*item));
    let basis: Vec<Vec<f64>> = basis.collect();
    let counts = statistics::counts(history).into_iter().map(Vec::from);
    let layout = statistics::layout(package.items(), package.rank(), columns.count());
    let mut blocks = Vec::with_capacity(layout.blocks().len());
    let of_history = [
        Vec::from_iter(counts),
        statistics::pairs(history, &basis),
        statistics::steps(history, columns),
    ];
    for (block, rows) in layout.blocks().iter().zip(of_history) {
        blocks.push(listed(task, block.shape, (&history.items, rows))?);
    }
    let each = 1.0 / targets.len() as f64;
    let rows = targets.iter().map(|_| vec![each]).collect();
    blocks.push(listed(
        task,
        TableShape::new(package.items(), 1),
        (&targets, rows),
    )?);
    let (count, rank) = (history.items.len() as u64, package.rank() as u64);
    let work = Work {
        row_visits: task.own.items.len() as u64 + 3 * count,
        multiply_adds: count * (2 * rank + statistics::STEP_WINDOW as u64),
    };
    Ok(Trained::new(ModelUpdate::of_blocks(blocks), 0.0, work))
}

/// Makes an update of these rows, in ascending order.
fn listed(
    task: &LocalTask<'_>,
    shape: TableShape,
    (items, rows): (&[u32], Vec<Vec<f64>>),
) -> Result<TableUpdate> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|at| items[*at]);
    let values = order.iter().flat_map(|at| &rows[*at]);
    let values: Vec<f32> = values.map(|value| *value as f32).collect();
    task.check_values("the statistics of a period", &values)?;
    let items = order.iter().map(|at| items[*at]).collect();
    TableUpdate::listed(shape, items, &values, 1.0)
}

/// Makes an upload of one row of numbers.
fn whole(task: &LocalTask<'_>, values: &[f64], loss: f64) -> Result<Trained> {
    let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
    task.check_values("what a device reports of its last period", &values)?;
    let table = Table::new(TableShape::new(1, values.len()), values);
    let package = Package::of(task.model);
    let work = Work {
        row_visits: package.items() as u64,
        multiply_adds: 4 * (package.items() * package.rank()) as u64,
    };
    let update = ModelUpdate::of_blocks(vec![TableUpdate::whole(table)]);
    Ok(Trained::new(update, loss, work))
}

/// Makes the report on mixtures: at each place of the grid the mean, over what the user took, of the
/// part that counts have in its likelihood.
pub(super) fn mixture_upload(
    task: &LocalTask<'_>,
    fitting: Option<(Features, Vec<u32>)>,
) -> Result<Trained> {
    let mut report = [0.0; GRID + 1];
    if let Some((features, targets)) = fitting {
        let package = Package::of(task.model);
        let least = LEAST / package.items() as f64;
        for (at, report) in report[..GRID].iter_mut().enumerate() {
            let by_count = share_of_counts(at as f64);
            let part = |item: &u32| {
                let [all, _] = package.shares(*item as usize);
                let counts = by_count * (all + least);
                let neighbours = (1.0 - by_count) * (features.together[*item as usize] + least);
                counts / (counts + neighbours)
            };
            *report = targets.iter().map(part).sum::<f64>() / targets.len() as f64;
        }
        report[GRID] = 1.0;
    }
    whole(task, &report, 0.0)
}

/// Makes the terms of a Newton step of |y| ln sum_J exp(theta . X_j) - sum_J y_j theta . X_j, where J
/// are the best items of a first ranking and y is spread over what the user took.
pub(super) fn newton_upload(
    task: &LocalTask<'_>,
    fitting: Option<(Features, Vec<u32>)>,
) -> Result<Trained> {
    let mut terms = vec![0.0; newton_layout().values()];
    let Some((features, targets)) = fitting else {
        return whole(task, &terms, 0.0);
    };
    let package = Package::of(task.model);
    let pool = pool(&features, &package);
    let taken = |item: &usize| match targets.binary_search(&(*item as u32)) {
        Ok(_) => 1.0 / targets.len() as f64,
        Err(_) => 0.0,
    };
    let taken: Vec<f64> = pool.iter().map(taken).collect();
    let mass: f64 = taken.iter().sum();
    if mass == 0.0 {
        return whole(task, &terms, 0.0);
    }
    let rows: Vec<[f64; FEATURES]> = pool
        .iter()
        .map(|item| features.row(&package, *item))
        .collect();
    let scores: Vec<f64> = rows
        .iter()
        .map(|row| dot(&package.coefficients.weights, row))
        .collect();
    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let likely: Vec<f64> = scores
        .iter()
        .map(|score| math::exp(score - highest))
        .collect();
    let total: f64 = likely.iter().sum();
    let (loss, of_pool) = terms.split_at_mut(1);
    let (gradient, curvature) = of_pool.split_at_mut(FEATURES);
    loss[0] = mass * (math::ln(total) + highest) - dot(&taken, &scores);
    let mut moments = Array2::<f64>::zeros((FEATURES, FEATURES));
    let mut mean = [0.0; FEATURES];
    for ((row, likely), taken) in rows.iter().zip(&likely).zip(&taken) {
        let share = likely / total;
        for (a, of_a) in row.iter().enumerate() {
            mean[a] += share * of_a;
            gradient[a] += (mass * share - taken) * of_a;
            for (b, of_b) in row.iter().enumerate().skip(a) {
                moments[(a, b)] += share * of_a * of_b;
            }
        }
    }
    let pairs = (0..FEATURES).flat_map(|a| (a..FEATURES).map(move |b| (a, b)));
    for ((a, b), value) in pairs.zip(curvature) {
        *value = mass * (moments[(a, b)] - mean[a] * mean[b]);
    }
    let loss = loss[0] / mass;
    whole(task, &terms, loss)
}

/// Returns the [`POOL`] items with the largest X_0 + X_1 / 2, and those that tie with the last.
fn pool(features: &Features, package: &Package<'_>) -> Vec<usize> {
    let items = 0..package.items();
    let value = |item: usize| {
        let row = features.row(package, item);
        (item, row[0] + 0.5 * row[1])
    };
    let ranked: Vec<(usize, f64)> = items
        .filter(|item| features.may_be_taken[*item])
        .map(value)
        .collect();
    let mut values: Vec<f64> = ranked.iter().map(|(_, value)| *value).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    let least = values.get(POOL - 1).copied().unwrap_or(f64::NEG_INFINITY);
    let kept = ranked.into_iter().filter(|(_, value)| *value >= least);
    kept.map(|(item, _)| item).collect()
}
