//! Holds what methods with an item table and a perceptron share: both as blocks of a model,
//! samples, updates and scores.

use super::minibatch::draw_samples;
use super::{LocalTask, Scratch};
use fedrecsim_core::error::Result;
use fedrecsim_model::model::blocks::{Model, ModelUpdate};
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::neural::{Layer, Perceptron, PerceptronBuffers};
use fedrecsim_model::model::table::{Table, TableShape, TableUpdate};

/// Returns the shapes of a network's blocks, which are W1, b1, W2, b2 and so on, in the order of
/// its parameters.
fn shapes(network: &Perceptron) -> impl Iterator<Item = (String, TableShape)> {
    network.layers().iter().enumerate().flat_map(
        |(
            number,
            Layer {
                inputs, outputs, ..
            },
        )| {
            let weights = TableShape {
                rows: *outputs,
                dimension: *inputs,
            };
            let bias = TableShape {
                rows: 1,
                dimension: *outputs,
            };
            [
                (format!("W{}", number + 1), weights),
                (format!("b{}", number + 1), bias),
            ]
        },
    )
}

/// Returns the layout of an item table of this name and shape, followed by the blocks of a network.
pub(super) fn layout(items: &'static str, shape: TableShape, network: &Perceptron) -> Layout {
    let weights = shapes(network).map(|(name, shape)| BlockLayout::weights(name, shape));
    Layout::new(
        [BlockLayout::item_table(items, shape)]
            .into_iter()
            .chain(weights)
            .collect(),
    )
}

/// Splits flat parameters into the tables of the network's blocks.
pub(super) fn tables(network: &Perceptron, parameters: &[f32]) -> Vec<Table> {
    cut(shapes(network).map(|(_, shape)| shape), parameters)
}

/// Splits flat parameters into tables of these shapes.
pub(super) fn cut(shapes: impl Iterator<Item = TableShape>, parameters: &[f32]) -> Vec<Table> {
    let mut rest = parameters;
    let table = |shape: TableShape| {
        let (values, others) = rest.split_at(shape.values());
        rest = others;
        Table::new(shape, values.to_vec())
    };
    shapes.map(table).collect()
}

/// Makes a model of this layout from flat values, which have those of one block after the other.
///
/// # Panics
/// If there are fewer values than the layout has, which is a defect of the method.
pub(super) fn model(layout: Layout, values: &[f32]) -> Model {
    let tables = cut(layout.blocks().iter().map(|block| block.shape), values);
    model_of(layout, tables)
}

/// Makes a model from tables that were made for this layout.
///
/// # Panics
/// If a table has another shape than its block, which is a defect of the method.
pub(super) fn model_of(layout: Layout, tables: Vec<Table>) -> Model {
    Model::of_tables(layout, tables)
        .unwrap_or_else(|fault| panic!("a model does not fit its own layout: {fault}"))
}

/// Returns the flat parameters of the network whose blocks begin at `first`.
pub fn parameters(model: &Model, first: usize) -> Vec<f32> {
    let blocks = first..model.blocks().len();
    blocks
        .flat_map(|block| model.table(block).as_slice().iter().copied())
        .collect()
}

/// Draws the training samples of a participation, collects their distinct items in
/// `scratch.round_rows`, and returns the items' rows of the downloaded table, one after the other.
pub(super) fn draw_rows(task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Vec<f32>> {
    let Scratch {
        samples,
        round_rows,
        ..
    } = scratch;
    draw_samples(task, samples)?;
    let table = task.model.table(0);
    round_rows.collect(
        &samples.samples.items,
        &samples.samples.labels,
        table.shape().rows,
    );
    let mut rows = Vec::new();
    table.append_rows(round_rows.rows(), &mut rows);
    Ok(rows)
}

/// Makes the update of an item table of this shape, of which `items` are listed with the values of
/// their rows, and of the whole network.
pub(super) fn update(
    network: &Perceptron,
    (shape, items, rows): (TableShape, &[u32], &[f32]),
    parameters: &[f32],
) -> Result<ModelUpdate> {
    let mut blocks = vec![TableUpdate::listed(shape, items.to_vec(), rows, 1.0)?];
    blocks.extend(tables(network, parameters).iter().map(TableUpdate::whole));
    Ok(ModelUpdate::of_blocks(blocks))
}

/// Writes to `scores` the network's output for the row of each of `items`. `common` are the
/// features that all items share.
pub(super) fn score(
    network: &Perceptron,
    parameters: &[f32],
    common: &[f32],
    table: &Table,
    items: &[u32],
    scores: &mut [f32],
) {
    let mut buffers = PerceptronBuffers::default();
    buffers
        .inputs_mut()
        .reset(items.len(), table.shape().dimension);
    for (sample, item) in items.iter().enumerate() {
        buffers
            .inputs_mut()
            .set_sample(sample, table.row(*item as usize));
    }
    network.forward(parameters, common, &mut buffers);
    let (outputs, _) = buffers.outputs_and_gradient();
    for (sample, score) in scores.iter_mut().enumerate() {
        outputs.read_sample(sample, std::slice::from_mut(score));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a network's parameters arrive in another order than they were sent in.
    #[test]
    fn parameters_survive_the_way_through_blocks() {
        let network = Perceptron::new(2, &[3, 4, 1]);
        let flat: Vec<f32> = (0..network.parameters())
            .map(|value| value as f32)
            .collect();
        let items = Table::zeros(TableShape {
            rows: 5,
            dimension: 3,
        });
        let layout = layout("V", items.shape(), &network);
        let model = model_of(
            layout.clone(),
            [vec![items], tables(&network, &flat)].concat(),
        );
        assert_eq!(parameters(&model, 1), flat);
        assert_eq!(
            layout.to_string(),
            "V (5 x 3), W1 (4 x 5), b1 (1 x 4), W2 (1 x 4), b2 (1 x 1)"
        );
    }
}
