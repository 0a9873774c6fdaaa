//! `[codec]`: how tables become bytes, with a codec for each direction and others for single blocks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Scenario, is_default};
use crate::check::Checker;
use crate::traffic::{Traffic, TrafficBlock};
use crate::{choices, keys, suggest, variants};
use fedrecsim_core::Direction;

keys! {
    /// How tables become bytes, per direction.
    pub struct CodecSpec {
        /// The codec of what clients send to the server.
        uplink: CodecChoice = CodecChoice::Named(CodecName::RowsF32);
        /// The codec of what the server sends to clients.
        downlink: CodecChoice = CodecChoice::Named(CodecName::DenseF32);
        /// What a device downloads that has no version of the model, if `downlink` sends
        /// differences (`delta = true`).
        #[serde(skip_serializing_if = "is_default")]
        first_download: FirstDownload = FirstDownload::Values;
        /// Codecs for single blocks of the method, such as `[codec.blocks.C]`, in place of those of
        /// the direction.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        blocks: BTreeMap<String, BlockCodecSpec> = BTreeMap::new();
    }
}

impl CodecSpec {
    /// Returns the codec of all blocks that have no codec of their own.
    pub fn of_every_block(&self, direction: Direction) -> &CodecChoice {
        match direction {
            Direction::Up => &self.uplink,
            Direction::Down => &self.downlink,
        }
    }

    /// Returns the codecs of single blocks, with their names.
    pub fn of_single_blocks(
        &self,
        direction: Direction,
    ) -> impl Iterator<Item = (&str, &CodecChoice)> {
        self.blocks.iter().filter_map(move |(name, block)| {
            let own = match direction {
                Direction::Up => &block.uplink,
                Direction::Down => &block.downlink,
            };
            Some((name.as_str(), own.as_ref()?))
        })
    }

    /// Returns the codecs of a direction, with the name of the block where it is of one alone.
    fn choices(&self, direction: Direction) -> impl Iterator<Item = (Option<&str>, &CodecChoice)> {
        let of_blocks = self.of_single_blocks(direction);
        let of_blocks = of_blocks.map(|(name, choice)| (Some(name), choice));
        std::iter::once((None, self.of_every_block(direction))).chain(of_blocks)
    }

    /// Returns whether some codec of a direction is as `is_so` says.
    pub(super) fn any(&self, direction: Direction, is_so: impl Fn(&CodecChoice) -> bool) -> bool {
        self.choices(direction).any(|(_, choice)| is_so(choice))
    }

    fn uplink_of(&self, block: &str) -> &CodecChoice {
        let own = self.blocks.get(block).and_then(|own| own.uplink.as_ref());
        own.unwrap_or(&self.uplink)
    }

    /// Returns whether an upload of the block lists the rows that training touched, so that it says
    /// by itself which rows these are.
    pub fn lists_touched_rows_of(&self, block: &str) -> bool {
        self.uplink_of(block).lists_touched_rows()
    }

    /// Returns whether clients download only the rows that they ask for, of some block at least.
    pub fn downloads_needed_rows(&self) -> bool {
        self.any(Direction::Down, CodecChoice::selects_needed_rows)
    }
}

/// Returns the key of a codec, of a block if one is named.
fn key_of(direction: Direction, block: Option<&str>) -> String {
    let name = match direction {
        Direction::Up => "uplink",
        Direction::Down => "downlink",
    };
    match block {
        Some(block) => format!("codec.blocks.{block}.{name}"),
        None => format!("codec.{name}"),
    }
}

choices! {
    /// What a device downloads that has no version of the model.
    #[derive(Default)]
    pub enum FirstDownload {
        /// The newest version, in single precision.
        #[default]
        Values,
        /// The seed of the initial model, which the device draws itself, and all differences since
        /// then, if that is shorter than the newest version.
        Seed,
    }
}

keys! {
    /// The codecs of one block. A direction that is not given keeps its own.
    pub struct BlockCodecSpec {
        /// The codec of what clients send to the server.
        uplink: Option<CodecChoice> = None;
        /// The codec of what the server sends to clients.
        downlink: Option<CodecChoice> = None;
    }
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
    fn sends_differences(&self) -> bool {
        matches!(self, Self::Composed(spec) if spec.delta)
    }

    fn selects_needed_rows(&self) -> bool {
        matches!(self, Self::Composed(spec) if spec.select == SelectSpec::NeededRows)
    }

    pub(super) fn lists_touched_rows(&self) -> bool {
        match self {
            Self::Named(name) => *name == CodecName::RowsF32,
            Self::Composed(spec) => matches!(
                spec.select,
                SelectSpec::TouchedRows | SelectSpec::LowRank(_)
            ),
        }
    }

    /// Returns whether every row of a table has to be known in order to encode a change of some.
    fn takes_the_whole_table(&self) -> bool {
        match self {
            Self::Named(name) => *name != CodecName::RowsF32,
            Self::Composed(spec) => matches!(spec.select, SelectSpec::All | SelectSpec::NeededRows),
        }
    }
}

choices! {
    /// The codecs that have a name.
    pub enum CodecName {
        /// Every value of the table.
        DenseF32,
        /// The rows that training touched, and the one factor that scales all others.
        RowsF32,
        /// The non-zero values, as a bitmap or an index list, whichever is smaller.
        SparseF32,
    }
}

keys! {
    /// A codec that is composed of what is sent, how values are represented, and how positions and
    /// symbols are coded.
    #[derive(Copy)]
    pub struct CompositionSpec {
        /// Which entries of a block are sent.
        select: SelectSpec = SelectSpec::TouchedRows;
        /// Whether differences from the table that the receiver has are selected and sent, in place
        /// of the values. What is not sent is then unchanged; otherwise it is 0. Statistics, which
        /// have no table to differ from, are sent as they are in both cases.
        delta: bool = false;
        /// How values are represented.
        values: ValuesSpec = ValuesSpec::F32;
        /// What has a scale of its own, where values are represented as multiples of one (`int8`,
        /// `int4`, `int2`, `sign`, `dead-zone`). A scale takes two bytes.
        scale: ScaleSpec = ScaleSpec::Row;
        /// What becomes of a value between two steps (`int8`, `int4`, `int2`).
        rounding: RoundingSpec = RoundingSpec::Stochastic;
        /// The code of the positions of what is sent.
        positions: PositionsSpec = PositionsSpec::Auto;
        /// What is done to the bytes of the values to make them fewer.
        entropy: EntropySpec = EntropySpec::None;
        /// Whether the device remembers what it left out of an upload and adds it to its next one.
        /// It belongs to uploads with `delta = true`.
        error_feedback: bool = false;
    }
}

variants! {
    /// Which entries of a block are sent.
    #[derive(Copy)]
    pub enum SelectSpec {
        /// Every value of the block.
        All,
        /// The rows that training touched; of a download, those that are not 0.
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
        /// The products of each row that training touched with this many orthonormal vectors, which are
        /// drawn for each frame and named by a seed. The receiver gets the projection of the row on
        /// their span.
        LowRank(#[schemars(range(min = 1, max = 4096))] u32),
    }

    /// How values are represented.
    #[derive(Copy)]
    pub enum ValuesSpec {
        /// Single precision, as they are.
        F32,
        /// Half precision.
        F16,
        /// The upper half of the bits of single precision, rounded.
        Bf16,
        /// 255 steps from -127 to 127; the largest magnitude becomes 127.
        Int8,
        /// 15 steps from -7 to 7; the largest magnitude becomes 7.
        Int4,
        /// 3 steps from -1 to 1; the largest magnitude becomes 1.
        Int2,
        /// The sign, with the mean magnitude.
        Sign,
        /// Steps without a limit, with a wider one around 0.
        DeadZone(DeadZoneSpec),
        /// The centres of this many clusters at most, in single precision, and the number of its
        /// centre for each row; for each value, where `select` picks single values. The clusters are
        /// found anew for each frame, by k-means of ten rounds.
        Centroids(#[schemars(range(min = 2, max = 256))] u32),
    }
}

keys! {
    /// Steps of the same width on both sides of a zone that becomes 0.
    #[derive(Copy)]
    pub struct DeadZoneSpec {
        /// The step, as a multiple of the root of the mean square of what shares a scale.
        step: f64 = 1.0, > 0.0, <= 1000.0;
        /// The reach of the zone on each side of 0, in steps.
        zone: f64 = 1.0, >= 0.0, <= 1000.0;
    }
}

choices! {
    /// What has a scale of its own.
    pub enum ScaleSpec {
        /// Every row that is sent.
        Row,
        /// The block.
        Block,
    }

    /// What becomes of a value between two steps.
    pub enum RoundingSpec {
        /// The value becomes either step at random, so that it is kept on average.
        Stochastic,
        /// The value becomes the nearer step.
        Nearest,
    }

    /// The code of positions.
    pub enum PositionsSpec {
        /// The shortest one, for each frame anew.
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
    pub enum EntropySpec {
        /// Nothing.
        None,
        /// Each symbol takes as many bits as its frequency is worth, by an asymmetric numeral
        /// system with a table that is sent along. Of values of several bytes, each byte is a
        /// symbol, and has a table with the others of its place.
        Ans,
        /// They are compressed by zstd at level 3, those of values of several bytes by place.
        Zstd,
        /// Whichever of these is the shortest, for each frame anew.
        Auto,
    }
}

pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let spec = &scenario.codec;
    checker.refuse_if(
        spec.first_download != FirstDownload::Values
            && !spec.any(Direction::Down, CodecChoice::sends_differences),
        "codec.first_download",
        "`first_download` belongs to downloads with `delta = true`; any other download is the \
         same for all devices",
    );
    for direction in [Direction::Up, Direction::Down] {
        for (block, choice) in spec.choices(direction) {
            if let CodecChoice::Composed(composition) = choice {
                let key = key_of(direction, block);
                check_composition(composition, direction == Direction::Up, &key, checker);
            }
        }
    }
}

fn check_composition(
    spec: &CompositionSpec,
    is_upload: bool,
    key: &str,
    checker: &mut Checker<'_>,
) {
    use ValuesSpec::{Bf16, Centroids, F16, F32, Int2, Int4, Int8};
    let key_of = |name: &str| format!("{key}.{name}");
    let sends_needed_rows = spec.select == SelectSpec::NeededRows;
    checker.refuse_if(
        sends_needed_rows && is_upload,
        &key_of("select"),
        "`needed-rows` is for downloads; take `touched-rows` for uploads",
    );
    checker.refuse_if(
        sends_needed_rows && spec.delta && !is_upload,
        &key_of("delta"),
        "`needed-rows` excludes `delta = true`: the server would have to know the version of \
         each row on a device",
    );
    checker.refuse_if(
        spec.error_feedback && !is_upload,
        &key_of("error_feedback"),
        "`error_feedback` is for uploads; what a download with `delta = true` leaves out is in \
         the next one without it",
    );
    checker.refuse_if(
        spec.error_feedback && is_upload && !spec.delta,
        &key_of("error_feedback"),
        "`error_feedback` needs `delta = true`: what is left out of a change belongs to the next \
         change, not to the next values",
    );
    checker.idle_if(
        matches!(spec.values, F32 | F16 | Bf16 | Centroids(_)),
        &key_of("scale"),
        "floating-point values and centroids have no scale",
    );
    checker.idle_if(
        !matches!(spec.values, Int8 | Int4 | Int2),
        &key_of("rounding"),
        "it says how `int8`, `int4` and `int2` round",
    );
    checker.idle_if(
        spec.select == SelectSpec::All,
        &key_of("positions"),
        "`select = \"all\"` sends every entry, so that there are no positions",
    );
    checker.idle_if(
        matches!(spec.select, SelectSpec::All | SelectSpec::TouchedRows) && spec.values == F32,
        &key_of("error_feedback"),
        "an upload leaves nothing out, since it sends every change in single precision",
    );
}

impl Traffic {
    /// Adds the codecs that ask for what cannot be done for this method, each with what is wrong.
    pub(super) fn refuse_codecs(&self, spec: &CodecSpec, found: &mut Vec<(String, String)>) {
        let names = suggest::once(self.blocks.iter().map(|block| block.name.as_str()));
        for name in spec
            .blocks
            .keys()
            .filter(|name| !names.contains(&name.as_str()))
        {
            let known = match &names[..] {
                [] => "none".to_owned(),
                names => suggest::list(names),
            };
            let message = format!("the method has no block `{name}` that travels; it has {known}");
            found.push((format!("codec.blocks.{name}"), message));
        }
        for direction in [Direction::Up, Direction::Down] {
            for (block, choice) in spec.choices(direction) {
                if block.is_some_and(|block| !names.contains(&block)) {
                    continue;
                }
                let key = key_of(direction, block);
                let unfit = block.and_then(|block| self.unfit_codec(block, direction, choice));
                found.extend(unfit.map(|message| (key.clone(), message)));
                if direction == Direction::Up {
                    continue;
                }
                if self.has_personal_downloads && choice.sends_differences() {
                    let message = "this method makes a download per user, so `delta = true` \
                                   would have the server keep versions for each user";
                    found.push((format!("{key}.delta"), message.to_owned()));
                }
                if self.sends_chosen_rows && choice.sends_differences() {
                    let message = "this method sends other rows in each step, so `delta = true` \
                                   would have devices set those of the step before to zero";
                    found.push((format!("{key}.delta"), message.to_owned()));
                }
                if choice.selects_needed_rows()
                    && let Some(message) = self.without_needed_rows(spec, block)
                {
                    found.push((format!("{key}.select"), message));
                }
            }
        }
    }

    /// Returns why the block `name` cannot be sent by a codec of its own.
    fn unfit_codec(
        &self,
        name: &str,
        direction: Direction,
        choice: &CodecChoice,
    ) -> Option<String> {
        let is_uploaded = direction == Direction::Up;
        let travels =
            |block: &&TrafficBlock| block.name == name && block.is_uploaded == is_uploaded;
        let mut travelling = self.blocks.iter().filter(travels).peekable();
        if travelling.peek().is_none() {
            let way = if is_uploaded { "to" } else { "from" };
            return Some(format!(
                "the block `{name}` does not travel {way} the server"
            ));
        }
        let is_composed = matches!(choice, CodecChoice::Composed(_));
        (is_composed && travelling.any(|block| !block.has_floats)).then(|| {
            format!(
                "the block `{name}` has no floating-point values, so it needs a codec with a name"
            )
        })
    }

    /// Returns why clients cannot download the needed rows alone of the block `name`, or of all
    /// blocks without a codec of their own.
    fn without_needed_rows(&self, spec: &CodecSpec, name: Option<&str>) -> Option<String> {
        let is_meant = |block: &&TrafficBlock| match name {
            Some(name) => block.name == name,
            None => (spec.blocks.get(&block.name)).is_none_or(|own| own.downlink.is_none()),
        };
        let tables = (self.blocks.iter())
            .filter(|block| !block.is_uploaded && block.has_floats && block.has_item_rows);
        let sent: Vec<&TrafficBlock> = tables.filter(is_meant).collect();
        let message = if sent.is_empty() {
            "`needed-rows` needs an item table in the download; this method has none"
        } else if self.has_personal_downloads {
            "this method makes a download per user, so no rows can be asked for"
        } else if !self.trains_on_sampled_rows {
            "`needed-rows` sends the rows of training items and drawn negatives, but clients of \
             this method read or keep others too"
        } else {
            let mut names = sent.iter().map(|block| &block.name);
            let whole = names.find(|name| spec.uplink_of(name).takes_the_whole_table())?;
            return Some(format!(
                "a client that downloads the rows that it needs cannot send the whole table `{whole}`: take `rows-f32` \
                 or a `select` other than `all` for the uplink"
            ));
        };
        Some(message.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::UploadUse;

    /// If this fails, a run has another codec than its file says, without a word.
    #[test]
    fn codecs_that_the_method_has_no_use_for_are_contradictions() {
        let block = |name: &str, is_uploaded, has_floats| TrafficBlock {
            name: name.to_owned(),
            is_uploaded,
            has_floats,
            has_item_rows: true,
        };
        let method = Traffic {
            blocks: vec![
                block("C", true, true),
                block("C", false, true),
                block("counts", true, false),
            ],
            has_personal_downloads: true,
            sends_chosen_rows: false,
            trains_on_sampled_rows: false,
            keeps_personal_tables: false,
            needs_everybody: false,
            upload_use: UploadUse::Sum,
            predicts_ratings: false,
            makes_noisy_sums: false,
            least_steps: 0,
        };
        let composed = |delta| {
            CodecChoice::Composed(CompositionSpec {
                delta,
                ..CompositionSpec::default()
            })
        };
        let of = |name: &str, own: BlockCodecSpec| CodecSpec {
            blocks: [(name.to_owned(), own)].into(),
            ..CodecSpec::default()
        };
        let up = |choice| BlockCodecSpec {
            uplink: Some(choice),
            downlink: None,
        };
        let down = |choice| BlockCodecSpec {
            uplink: None,
            downlink: Some(choice),
        };
        let named = CodecChoice::Named(CodecName::DenseF32);
        let messages = |spec: CodecSpec| {
            let mut found = Vec::new();
            method.refuse_codecs(&spec, &mut found);
            found
                .into_iter()
                .map(|(key, message)| format!("{key}: {message}"))
                .collect::<Vec<_>>()
        };
        for sound in [
            of("C", up(composed(true))),
            of("counts", up(named.clone())),
            CodecSpec::default(),
        ] {
            assert_eq!(messages(sound), [""; 0]);
        }
        for (spec, expected) in [
            (
                of("D", up(composed(false))),
                "codec.blocks.D: the method has no block `D` that travels; it has `C`, `counts`",
            ),
            (
                of("counts", down(named)),
                "codec.blocks.counts.downlink: the block `counts` does not travel from the server",
            ),
            (
                of("counts", up(composed(false))),
                "codec.blocks.counts.uplink: the block `counts` has no floating-point values",
            ),
            (
                CodecSpec {
                    downlink: composed(true),
                    ..CodecSpec::default()
                },
                "codec.downlink.delta: this method",
            ),
            (
                of("C", down(composed(true))),
                "codec.blocks.C.downlink.delta: this method",
            ),
        ] {
            let found = messages(spec);
            assert!(
                found.len() == 1 && found[0].starts_with(expected),
                "{found:?}"
            );
        }
    }
}
