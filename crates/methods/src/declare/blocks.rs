//! Describes the blocks of a method: their shape, where they live, how they start and how they move.

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::Array2;

use super::learn::adapter::Adapter;
use super::learn::contrast::Contrast;
use crate::rule::ServerRule;
use fedrecsim_core::{PortableDraws, Stream, math};
use fedrecsim_model::algebra::thin_qr;
use fedrecsim_model::blocks::BlockValues;
use fedrecsim_model::neural::{Layer, Perceptron};
use fedrecsim_model::{BlockKind, BlockLayout, SharedTable, Table, TableShape};

/// Describes one block. It is shared unless it says otherwise: part of the server's model, of
/// downloads and of uploads.
#[derive(Clone)]
pub struct Block {
    /// Its name, kind, shape and type of values.
    pub(crate) layout: BlockLayout,
    pub(crate) place: Place,
    pub(crate) start: Start,
    pub(crate) draw: Draw,
    pub(crate) sends_gradient: bool,
    pub(crate) rate: f64,
    pub(crate) decay: f64,
    pub(crate) turn: u8,
    pub(crate) is_kept: bool,
    /// How a device goes on from its own version; `None` if it starts from what it downloads.
    pub(crate) goes_on: Option<GoesOn>,
    pub(crate) is_optional: bool,
    pub(crate) is_of_own_items: bool,
    /// The table that all rows are pulled to, and the weight of their distance.
    pub(crate) pull: Option<(&'static str, f64)>,
    /// What draws rows of one label together.
    pub(crate) contrast: Option<Contrast>,
    pub(crate) rule: ServerRule,
}

/// Says where a block lives and how it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub in_model: bool,
    pub is_downloaded: bool,
    pub is_uploaded: bool,
}

impl Place {
    pub(crate) const SHARED: Self = Self {
        in_model: true,
        is_downloaded: true,
        is_uploaded: true,
    };

    pub(crate) const PRIVATE: Self = Self {
        in_model: false,
        is_downloaded: false,
        is_uploaded: false,
    };

    pub(crate) fn is_private(self) -> bool {
        self == Self::PRIVATE
    }
}

/// Says which stream the start of a private block is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    /// From a stream of the user's own.
    PerUser,
    /// From one stream for all users, so that they start alike.
    Alike,
    /// From the stream of the shared blocks, after the blocks declared before. All users start
    /// alike.
    WithShared,
}

/// Says what a device makes of its own version of an item table once it has received the table.
#[derive(Clone, Debug)]
pub(crate) enum GoesOn {
    /// This share of its own, and the rest of what it has received.
    Share(f32),
    /// Rows of its own that have moved towards the received ones.
    Adapted(Adapter),
}

/// Makes the values that a block starts with.
#[derive(Clone)]
pub struct Start(Arc<MakeValues>);

type MakeValues = dyn Fn(&mut Stream, &BlockLayout) -> BlockValues + Send + Sync;

impl Start {
    /// Starts with the table that `draw` makes, given a stream and the shape.
    pub fn table(draw: impl Fn(&mut Stream, TableShape) -> Table + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |stream, block| {
            BlockValues::Table(Arc::new(draw(stream, block.shape)))
        }))
    }

    /// Starts with these bytes, in a block whose values are not of single precision.
    pub(crate) fn raw(bytes: Vec<u8>) -> Self {
        Self(Arc::new(move |_, _| BlockValues::Raw(bytes.clone().into())))
    }

    pub(crate) fn values(&self, stream: &mut Stream, block: &BlockLayout) -> BlockValues {
        (self.0)(stream, block)
    }

    /// Returns the table that a block starts with.
    ///
    /// # Panics
    /// If the block has no values of single precision, which is a defect of the method.
    pub(crate) fn table_of(&self, stream: &mut Stream, block: &BlockLayout) -> SharedTable {
        match self.values(stream, block) {
            BlockValues::Table(table) => table,
            BlockValues::Raw(_) => panic!("the private block {} has no floats", block.name),
        }
    }
}

/// Starts every value with a draw of `value`.
pub fn each(value: impl Fn(&mut Stream) -> f32 + Send + Sync + 'static) -> Start {
    Start::table(move |stream, shape| Table::from_fn(shape, || value(stream)))
}

/// Starts with draws from N(0, deviation^2).
pub fn normal(deviation: f64) -> Start {
    each(move |stream| (deviation * stream.standard_normal()) as f32)
}

/// Starts with draws from U(-reach, reach).
pub fn uniform(reach: f64) -> Start {
    each(move |stream| stream.uniform_within(reach) as f32)
}

/// Starts with this value everywhere.
pub fn constant(value: f32) -> Start {
    each(move |_| value)
}

/// Starts with orthonormal columns, at most as many as rows.
pub(crate) fn orthonormal() -> Start {
    Start::table(|stream, shape| {
        let columns = orthonormal_columns(stream, shape.rows, shape.dimension);
        Table::from_array(&columns.mapv(|value| value as f32))
    })
}

/// Returns the orthonormal columns of a matrix of normal draws, at most as many as rows.
pub(crate) fn orthonormal_columns(stream: &mut Stream, rows: usize, columns: usize) -> Array2<f64> {
    let drawn = Array2::from_shape_simple_fn((rows, columns), || stream.standard_normal());
    // There are at least as many rows as columns, and all draws are finite, so that this cannot
    // fail.
    let found = thin_qr(&drawn.view()).unwrap_or_else(|error| unreachable!("{error}"));
    found.q
}

/// Describes an item table with `columns` values for each of `items` items, which starts at zero.
pub fn item_table(name: impl Into<Cow<'static, str>>, items: usize, columns: u32) -> Block {
    Block::of(BlockLayout::item_table(
        name,
        TableShape::new(items, columns as usize),
    ))
}

/// Describes dense weights, such as a layer of a network, which start at zero.
pub fn weights(name: impl Into<Cow<'static, str>>, rows: usize, dimension: usize) -> Block {
    Block::of(BlockLayout::weights(name, TableShape::new(rows, dimension)))
}

/// Describes a vector, which starts at zero.
pub fn vector(name: &'static str, values: u32) -> Block {
    weights(name, 1, values as usize)
}

/// Describes the blocks of a network, W1, b1, W2, b2 and so on. The weights start uniformly after
/// Xavier (Glorot and Bengio, AISTATS 2010), and the biases at zero.
pub fn perceptron(network: &Perceptron) -> Vec<Block> {
    let layers = (1..).zip(&network.layers);
    layers
        .flat_map(|(number, of)| layer(["W", "b"].map(|name| format!("{name}{number}")), of))
        .collect()
}

/// Describes the blocks of a private network, which starts alike for all users: weights and biases
/// within one over the root of a layer's inputs.
pub(crate) fn private_perceptron(network: &Perceptron) -> impl Iterator<Item = Block> + use<> {
    let inputs: Vec<usize> = network.layers.iter().map(|layer| layer.inputs).collect();
    let blocks = perceptron(network).into_iter().enumerate();
    blocks.map(move |(at, block)| {
        let start = uniform(1.0 / math::sqrt(inputs[at / 2] as f64));
        block.private().alike().start(start)
    })
}

/// Describes the blocks of these names for the weights and the bias of a layer, which start as those
/// of a [`perceptron`].
pub(crate) fn layer([of_weights, of_bias]: [String; 2], layer: &Layer) -> [Block; 2] {
    let reach = (6.0 / (layer.inputs + layer.outputs) as f64).sqrt();
    let block = weights(of_weights, layer.outputs, layer.inputs);
    let bias = weights(of_bias, 1, layer.outputs);
    [block.start(uniform(reach)), bias]
}

impl Block {
    pub(crate) fn of(layout: BlockLayout) -> Self {
        Self {
            layout,
            place: Place::SHARED,
            start: constant(0.0),
            draw: Draw::PerUser,
            sends_gradient: false,
            rate: 1.0,
            decay: 0.0,
            turn: 0,
            is_kept: false,
            goes_on: None,
            is_optional: false,
            is_of_own_items: false,
            pull: None,
            contrast: None,
            rule: ServerRule::MEAN,
        }
    }

    /// Keeps the block on the device. Every user draws a start of its own.
    pub fn private(mut self) -> Self {
        self.place = Place::PRIVATE;
        self
    }

    /// Starts a private block alike for all users.
    pub fn alike(self) -> Self {
        let draw = Draw::Alike;
        Self { draw, ..self }
    }

    /// Starts a private block alike for all users, from the stream of the shared blocks.
    pub(crate) fn alike_with_shared(self) -> Self {
        let draw = Draw::WithShared;
        Self { draw, ..self }
    }

    /// Sends the block to clients, who send nothing back for it.
    pub fn download_only(mut self) -> Self {
        self.place.is_uploaded = false;
        self
    }

    /// Has clients send the block, as a statistic that is no part of the model.
    pub fn upload_only(mut self) -> Self {
        self.place = Place::PRIVATE;
        self.place.is_uploaded = true;
        self.as_gradient()
    }

    /// Keeps the block at the server.
    pub fn server_only(mut self) -> Self {
        (self.place.is_downloaded, self.place.is_uploaded) = (false, false);
        self
    }

    /// Has the block travel without being a part of the server's model, which makes it anew.
    pub fn made_by_server(mut self) -> Self {
        self.place.in_model = false;
        self
    }

    /// Has clients send gradients of the block, or other sums, in place of what they made of it.
    /// Rows that they leave out are zero.
    pub fn as_gradient(mut self) -> Self {
        self.sends_gradient = true;
        self
    }

    /// Starts with these values.
    pub fn start(self, start: Start) -> Self {
        Self { start, ..self }
    }

    /// Sets the learning rate of the block on the device.
    ///
    /// A batch's gradient is a mean over its samples, so a row moves by the share of its item in
    /// the batch. The server takes the mean over all clients, and few have touched the row. The
    /// rate of a shared item table is therefore about the number of items times the rate of a
    /// private vector.
    pub fn rate(self, rate: f64) -> Self {
        Self { rate, ..self }
    }

    /// Has clients keep what they have made of a shared item table and score with it, which is dual
    /// personalisation (Zhang et al., IJCAI 2023). In each batch it is stepped after the other
    /// blocks. The server averages it as before.
    pub fn kept_by_client(mut self, is_kept: bool) -> Self {
        (self.is_kept, self.turn) = (is_kept, u8::from(is_kept));
        self
    }

    /// Has clients keep what they have made of a shared item table, score with it, go on from it in
    /// the next participation, and send it whole. A client that receives the table goes on from
    /// `share` times its own and the rest of what it has received. The server need not send it.
    pub fn goes_on_from_own(self, share: f64) -> Self {
        self.goes_on_by(GoesOn::Share(share as f32))
    }

    /// Is as [`Self::goes_on_from_own`], but a client that receives the table moves the rows of its
    /// own towards it, as far as a private network says.
    pub(crate) fn goes_on_adapted(self, by: Adapter) -> Self {
        self.goes_on_by(GoesOn::Adapted(by))
    }

    fn goes_on_by(mut self, goes_on: GoesOn) -> Self {
        (self.is_kept, self.goes_on) = (true, Some(goes_on));
        self.optional()
    }

    /// Lets the server leave the block, and those that are declared after it, out of a download.
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Has devices read and train no other rows of an item table than those of their users' items,
    /// where they have all blocks in one slice ([`Own::flat`](super::Own::flat)).
    pub(crate) fn of_own_items(mut self) -> Self {
        self.is_of_own_items = true;
        self
    }

    /// Pulls every row of a shared item table that a network reads towards that of another table,
    /// which devices receive: this weight times the mean squared distance over all values is added
    /// to the loss of a batch. The table is sent whole.
    pub(crate) fn pulled_to(self, table: &'static str, weight: f64) -> Self {
        let pull = Some((table, weight));
        Self { pull, ..self }
    }

    /// Adds a contrast of all rows of a shared item table to the loss of a batch. Whoever has
    /// received labels trains every row. Products are trained as networks are then.
    pub(crate) fn contrasted(self, by: Contrast) -> Self {
        let contrast = Some(by);
        Self { contrast, ..self }
    }

    /// Sets the turn of the block in a batch. Blocks of one turn, which is 0 unless it is set, are
    /// stepped at once, after those of lower turns and from the values that these have then.
    pub fn turn(self, turn: u8) -> Self {
        Self { turn, ..self }
    }

    /// Sets the weight decay: in each step a value loses its rate times this times itself.
    pub fn decay(self, decay: f64) -> Self {
        Self { decay, ..self }
    }

    /// Sets what the server does with the uploads of the block, in place of [`ServerRule::MEAN`].
    pub fn rule(self, rule: ServerRule) -> Self {
        Self { rule, ..self }
    }

    /// Returns the layout of what clients send for the block.
    pub(crate) fn sent(&self) -> BlockLayout {
        match self.sends_gradient {
            true => self.layout.clone().statistic(),
            false => self.layout.clone(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.layout.name
    }

    /// Returns whether the block is a private item table, unless it has no rows.
    pub(crate) fn is_personal_table(&self) -> bool {
        self.place.is_private() && self.is_item_table() && self.layout.shape.rows > 0
    }

    pub(crate) fn is_item_table(&self) -> bool {
        self.layout.kind == BlockKind::ItemTable
    }
}
