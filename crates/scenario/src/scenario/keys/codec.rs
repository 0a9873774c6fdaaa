//! `[codec]`: how tables become bytes, with a codec for each direction and others for single blocks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::Checker;
use super::{Scenario, is_default};
use fedrecsim_core::units::Direction;

/// How tables become bytes, per direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodecSpec {
    /// The codec of what clients send to the server.
    pub uplink: CodecChoice,
    /// The codec of what the server sends to clients.
    pub downlink: CodecChoice,
    /// What a device downloads that has no version of the model, if `downlink` sends differences
    /// (`delta = true`).
    #[serde(skip_serializing_if = "is_default")]
    pub first_download: FirstDownload,
    /// Codecs for single blocks of the method, such as `[codec.blocks.C]`, in place of those of the
    /// direction.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub blocks: BTreeMap<String, BlockCodecSpec>,
}

impl Default for CodecSpec {
    fn default() -> Self {
        Self {
            uplink: CodecChoice::Named(CodecName::RowsF32),
            downlink: CodecChoice::Named(CodecName::DenseF32),
            first_download: FirstDownload::Values,
            blocks: BTreeMap::new(),
        }
    }
}

impl CodecSpec {
    /// Returns the blocks that have an uplink codec of their own, by name.
    pub fn uplinks_of_blocks(&self) -> impl Iterator<Item = (&str, &CodecChoice)> {
        self.blocks
            .iter()
            .filter_map(|(name, block)| Some((name.as_str(), block.uplink.as_ref()?)))
    }

    /// Returns the codec with which a block of this name is sent.
    pub fn uplink_of(&self, block: &str) -> &CodecChoice {
        self.blocks
            .get(block)
            .and_then(|own| own.uplink.as_ref())
            .unwrap_or(&self.uplink)
    }

    /// Returns the codec with which a block of this name is downloaded.
    pub fn downlink_of(&self, block: &str) -> &CodecChoice {
        self.blocks
            .get(block)
            .and_then(|own| own.downlink.as_ref())
            .unwrap_or(&self.downlink)
    }

    /// Returns the codecs of all uploads: that of the direction, then those of blocks.
    pub fn uplinks(&self) -> impl Iterator<Item = &CodecChoice> {
        let of_blocks = self.uplinks_of_blocks().map(|(_, choice)| choice);
        std::iter::once(&self.uplink).chain(of_blocks)
    }

    /// Returns the codecs of all downloads: that of the direction, then those of blocks.
    pub fn downlinks(&self) -> impl Iterator<Item = &CodecChoice> {
        let of_blocks = self.downlinks_of_blocks().map(|(_, choice)| choice);
        std::iter::once(&self.downlink).chain(of_blocks)
    }

    /// Returns whether clients download only the rows that they ask for, of some block at least.
    pub fn downloads_needed_rows(&self) -> bool {
        self.downlinks().any(CodecChoice::selects_needed_rows)
    }

    /// Returns the blocks that have a downlink codec of their own, by name.
    pub fn downlinks_of_blocks(&self) -> impl Iterator<Item = (&str, &CodecChoice)> {
        self.blocks
            .iter()
            .filter_map(|(name, block)| Some((name.as_str(), block.downlink.as_ref()?)))
    }
}

/// What a device downloads that has no version of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FirstDownload {
    /// The newest version, in single precision.
    #[default]
    Values,
    /// The seed from which the device draws the model that the method begins with, and all
    /// differences since then, if that is shorter than the newest version.
    Seed,
}

/// The codecs of one block. A direction that is not given keeps its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BlockCodecSpec {
    /// The codec of what clients send to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplink: Option<CodecChoice>,
    /// The codec of what the server sends to clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downlink: Option<CodecChoice>,
}

/// A codec: one that has a name, or a composition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CodecChoice {
    /// The codec is one of those that have a name.
    Named(CodecName),
    /// The codec is composed of choices.
    Composed(CompositionSpec),
}

impl CodecChoice {
    /// Returns whether this is a composition that sends differences.
    pub(in super::super) fn sends_differences(&self) -> bool {
        matches!(self, Self::Composed(spec) if spec.delta)
    }

    /// Returns whether this is a composition that selects the rows that are needed.
    pub(crate) fn selects_needed_rows(&self) -> bool {
        matches!(self, Self::Composed(spec) if spec.select == SelectSpec::NeededRows)
    }

    /// Returns whether an upload lists the rows that training touched, so that it says by itself
    /// which rows these are.
    pub fn lists_touched_rows(&self) -> bool {
        match self {
            Self::Named(name) => *name == CodecName::RowsF32,
            Self::Composed(spec) => matches!(
                spec.select,
                SelectSpec::TouchedRows | SelectSpec::LowRank(_)
            ),
        }
    }

    /// Returns whether every row of a table has to be known in order to encode a change of some.
    pub(crate) fn takes_the_whole_table(&self) -> bool {
        match self {
            Self::Named(name) => *name != CodecName::RowsF32,
            Self::Composed(spec) => matches!(spec.select, SelectSpec::All | SelectSpec::NeededRows),
        }
    }
}

/// The codecs that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CodecName {
    /// Every value of the table.
    DenseF32,
    /// The rows that training touched, and the one factor that scales all others.
    RowsF32,
    /// The non-zero values, as a bitmap or an index list, whichever is smaller.
    SparseF32,
}

impl CodecName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::DenseF32, Self::RowsF32, Self::SparseF32];
}

/// A codec that is composed of what is sent, how values are represented, and how positions and
/// symbols are coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CompositionSpec {
    /// Which entries of a block are sent.
    pub select: SelectSpec,
    /// Whether differences from the table that the receiver has are selected and sent, in place of
    /// the values. What is not sent is then unchanged; otherwise it is 0. Statistics, which have no
    /// table to differ from, are sent as they are in both cases.
    pub delta: bool,
    /// How values are represented.
    pub values: ValuesSpec,
    /// What has a scale of its own, where values are represented as multiples of one (`int8`,
    /// `int4`, `int2`, `sign`, `dead-zone`). A scale takes two bytes.
    pub scale: ScaleSpec,
    /// What becomes of a value between two steps (`int8`, `int4`, `int2`).
    pub rounding: RoundingSpec,
    /// The code of the positions of what is sent.
    pub positions: PositionsSpec,
    /// What is done to the bytes of the values to make them fewer.
    pub entropy: EntropySpec,
    /// Whether the device remembers what it left out of an upload and adds it to its next one. It
    /// belongs to uploads with `delta = true`.
    pub error_feedback: bool,
}

/// Which entries of a block are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SelectSpec {
    /// Every value of the block.
    All,
    /// The rows that training touched; of a download, those that are not 0.
    #[default]
    TouchedRows,
    /// The rows of items that the client's training needs in this participation, which it asks the
    /// server for. It belongs to downloads.
    NeededRows,
    /// The values other than 0.
    NonZeros,
    /// The values whose magnitude is at least this.
    AtLeast(#[schemars(range(min = 0))] f64),
    /// As many values of the greatest magnitude as are this share of the whole block, and not more
    /// than there are.
    TopShare(#[schemars(extend("exclusiveMinimum" = 0), range(max = 1))] f64),
    /// As many values, drawn at random, as are this share of the whole block, and not more than
    /// there are. A seed names their positions.
    RandomShare(#[schemars(extend("exclusiveMinimum" = 0), range(max = 1))] f64),
    /// The products of each row that training touched with so many orthonormal vectors, which are
    /// drawn for each frame and named by a seed. The receiver gets the projection of the row on
    /// their span.
    LowRank(#[schemars(range(min = 1, max = 4096))] u32),
}

/// How values are represented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ValuesSpec {
    /// Single precision, as they are.
    #[default]
    F32,
    /// Half precision.
    F16,
    /// The upper half of the bits of single precision, rounded.
    Bf16,
    /// 255 steps from -127 to 127, of which the largest magnitude is 127.
    Int8,
    /// 15 steps from -7 to 7, of which the largest magnitude is 7.
    Int4,
    /// 3 steps from -1 to 1, of which the largest magnitude is 1.
    Int2,
    /// The sign, with the mean magnitude.
    Sign,
    /// Steps without a limit, with a wider one around 0.
    DeadZone(DeadZoneSpec),
}

/// Steps of the same width on both sides of a zone that becomes 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DeadZoneSpec {
    /// The step, as a multiple of the root of the mean square of what shares a scale.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1000))]
    pub step: f64,
    /// The reach of the zone on each side of 0, in steps.
    #[schemars(range(min = 0, max = 1000))]
    pub zone: f64,
}

impl Default for DeadZoneSpec {
    fn default() -> Self {
        Self {
            step: 1.0,
            zone: 1.0,
        }
    }
}

/// What has a scale of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleSpec {
    /// Every row that is sent.
    #[default]
    Row,
    /// The block.
    Block,
}

/// What becomes of a value between two steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RoundingSpec {
    /// The value becomes either step at random, so that it is kept on average.
    #[default]
    Stochastic,
    /// The value becomes the nearer step.
    Nearest,
}

/// The code of positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PositionsSpec {
    /// The shortest one, for each frame anew.
    #[default]
    Auto,
    /// One bit for each entry.
    Bitmap,
    /// The gaps between entries, in LEB128.
    Gaps,
    /// The gaps in Rice's code.
    Rice,
    /// The code of Elias and Fano.
    EliasFano,
    /// The number of the choice among all choices of as many entries.
    Enumerative,
}

/// What is done to the bytes of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntropySpec {
    /// Nothing.
    #[default]
    None,
    /// Each symbol takes as many bits as its frequency is worth, by an asymmetric numeral system
    /// with a table that is sent along. Of values of several bytes, each byte is a symbol, and has
    /// a table with the others of its place.
    Ans,
    /// They are compressed by zstd at level 3, those of values of several bytes by place.
    Zstd,
    /// Whichever of these is the shortest, for each frame anew.
    Auto,
}

pub(in super::super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let spec = &scenario.codec;
    if spec.first_download != FirstDownload::default()
        && !spec.downlinks().any(CodecChoice::sends_differences)
    {
        let message = "`first_download` belongs to downloads with `delta = true`; any other download is the same for \
                       whoever receives it";
        checker.fault("codec.first_download", message);
    }
    let of_blocks = |key: &str, name: &str| format!("codec.blocks.{name}.{key}");
    check_choice(&spec.uplink, Direction::Up, "codec.uplink", checker);
    check_choice(&spec.downlink, Direction::Down, "codec.downlink", checker);
    for (name, choice) in spec.uplinks_of_blocks() {
        check_choice(choice, Direction::Up, &of_blocks("uplink", name), checker);
    }
    for (name, choice) in spec.downlinks_of_blocks() {
        let key = of_blocks("downlink", name);
        check_choice(choice, Direction::Down, &key, checker);
    }
}

fn check_choice(choice: &CodecChoice, direction: Direction, key: &str, checker: &mut Checker<'_>) {
    let CodecChoice::Composed(spec) = choice else {
        return;
    };
    let mut fault = |name: &str, message: &str| checker.fault(&format!("{key}.{name}"), message);
    if spec.select == SelectSpec::NeededRows && direction == Direction::Up {
        let message = "`needed-rows` is for downloads, of which a client needs few rows; an upload has the rows that \
                       training touched with `touched-rows`";
        fault("select", message);
    } else if spec.select == SelectSpec::NeededRows && spec.delta {
        let message = "`needed-rows` sends the rows as they are: with `delta = true` the server would have to know \
                       which version of each row a device has";
        fault("delta", message);
    }
    if spec.error_feedback && direction == Direction::Down {
        let message = "`error_feedback` is for uploads, of which a device remembers what it left out; what a \
                       download with `delta = true` leaves out is in the next one without it";
        fault("error_feedback", message);
    } else if spec.error_feedback && !spec.delta {
        let message = "`error_feedback` needs `delta = true`: what an upload leaves out of a change belongs to the \
                       next change, and not to the next values";
        fault("error_feedback", message);
    }
    for (is_off, name, because) in switched_off(spec) {
        checker.idle_if(is_off, &format!("{key}.{name}"), because);
    }
}

/// Returns the keys that other keys may leave without an effect, whether they do, and why.
fn switched_off(spec: &CompositionSpec) -> [(bool, &'static str, &'static str); 4] {
    use ValuesSpec::{Bf16, F16, F32, Int2, Int4, Int8};
    let sends_every_row = matches!(spec.select, SelectSpec::All | SelectSpec::TouchedRows);
    [
        (
            matches!(spec.values, F32 | F16 | Bf16),
            "scale",
            "floating-point values have no scale",
        ),
        (
            !matches!(spec.values, Int8 | Int4 | Int2),
            "rounding",
            "it says how `int8`, `int4` and `int2` round",
        ),
        (
            spec.select == SelectSpec::All,
            "positions",
            "`select = \"all\"` sends every entry, so that there are no positions",
        ),
        (
            sends_every_row && spec.values == F32,
            "error_feedback",
            "nothing is left out of an upload, since it sends every change in single precision",
        ),
    ]
}
