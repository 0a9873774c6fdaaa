//! What a method exchanges, as far as scenario files have to know it, and what that says about
//! their codecs.

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use super::keys::{Aggregation, CodecChoice, CodecSpec, Scenario, Trust};

/// A block that travels in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficBlock {
    /// The name of the block.
    pub name: String,
    /// Whether it travels to the server, or from it.
    pub is_uploaded: bool,
    /// Whether the values are of single precision. Only those can be changed by a codec.
    pub has_floats: bool,
    /// Whether each row belongs to an item.
    pub has_item_rows: bool,
}

/// What a method exchanges with the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The blocks of all phases. A block may be named several times.
    pub blocks: Vec<TrafficBlock>,
    /// Whether each user has a download of its own.
    pub has_personal_downloads: bool,
    /// Whether training reads no other rows of downloaded item tables than those of the
    /// participation's samples.
    pub trains_on_sampled_rows: bool,
    /// Whether each user keeps an item table of its own to score with.
    pub keeps_personal_tables: bool,
    /// What the server uses of the uploads.
    pub upload_use: UploadUse,
    /// Whether the server makes sums of what it works out from each upload, such as gradients that
    /// it back-propagates, and adds noise to these sums by itself.
    pub makes_noisy_sums: bool,
}

/// What a server uses of the uploads of a step, which says what may be hidden from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UploadUse {
    /// The sum of their values, in which all of them count alike, so that noise on one of them is
    /// noise on the sum.
    Sum,
    /// Their sum, to which noise cannot be added: each is multiplied by a weight that it says of
    /// itself, or has values that are no floating-point numbers.
    WeightedSum,
    /// More than that, such as how many users have sent each row, the median of values, or
    /// something of each user.
    #[default]
    Each,
}

/// Tells what a method with these parameters exchanges, if that can be told.
type Tell = dyn Fn(&Json) -> Option<Traffic> + Send + Sync;

/// Tells what a method with checked parameters exchanges; `None` if that cannot be told before the
/// data are read.
#[derive(Clone)]
pub struct TrafficOf(Arc<Tell>);

impl TrafficOf {
    /// Tells it by a function.
    pub fn new(tell: impl Fn(&Json) -> Option<Traffic> + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Tells what a method with these parameters exchanges.
    pub fn tell(&self, parameters: &Json) -> Option<Traffic> {
        (self.0)(parameters)
    }
}

impl fmt::Debug for TrafficOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrafficOf")
    }
}

impl Traffic {
    /// Returns what is exchanged under this aggregation: nothing if every device trains alone.
    #[must_use]
    pub fn under(self, aggregation: Aggregation) -> Self {
        match aggregation {
            Aggregation::Method | Aggregation::Mean => self,
            Aggregation::None => Self {
                keeps_personal_tables: self.keeps_personal_tables,
                ..Self::default()
            },
        }
    }

    /// Returns the keys of `scenario` that ask for what this method cannot do, each with what is
    /// wrong, as a sentence without a full stop.
    pub fn contradictions(&self, scenario: &Scenario) -> Vec<(String, String)> {
        let mut found = self.contradictions_of_codecs(&scenario.codec);
        let overheads = &scenario.overheads;
        for (name, is_on) in [
            ("secure_aggregation", overheads.secure_aggregation.is_some()),
            ("paillier", overheads.paillier.is_some()),
        ] {
            let is_summed = name == "secure_aggregation";
            let message = if self.has_personal_downloads {
                Some(format!(
                    "this method's server works with each client apart, and `{name}` hides single uploads"
                ))
            } else {
                let message = self.without_hidden_uploads().filter(|_| is_summed);
                message.map(str::to_owned)
            };
            found.extend(
                message
                    .filter(|_| is_on)
                    .map(|message| (format!("overheads.{name}"), message)),
            );
        }
        let gaussian = scenario.privacy.gaussian;
        if gaussian.is_some_and(|gaussian| gaussian.trust == Trust::Central)
            && let Some(message) = self.without_noisy_sums()
        {
            found.push(("privacy.gaussian.trust".to_owned(), message.to_owned()));
        }
        found
    }

    fn contradictions_of_codecs(&self, spec: &CodecSpec) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for name in spec.blocks.keys().filter(|name| !self.has_block(name)) {
            let message = format!(
                "the method has no block `{name}` that travels; it has {}",
                self.names()
            );
            found.push((format!("codec.blocks.{name}"), message));
        }
        let up = spec
            .uplinks_of_blocks()
            .map(|of_block| (of_block, true, "uplink"));
        let down = spec
            .downlinks_of_blocks()
            .map(|of_block| (of_block, false, "downlink"));
        for ((name, choice), is_uploaded, key) in up.chain(down) {
            let mut travelling = self
                .blocks
                .iter()
                .filter(|block| block.name == name && block.is_uploaded == is_uploaded)
                .peekable();
            let message = if self.has_block(name) && travelling.peek().is_none() {
                let way = if is_uploaded { "to" } else { "from" };
                format!("the block `{name}` does not travel {way} the server")
            } else if matches!(choice, CodecChoice::Composed(_))
                && travelling.any(|block| !block.has_floats)
            {
                format!(
                    "the block `{name}` has values that are no floating-point numbers, which only a codec with a name sends"
                )
            } else {
                continue;
            };
            found.push((format!("codec.blocks.{name}.{key}"), message));
        }
        let of_blocks = spec
            .downlinks_of_blocks()
            .map(|(name, choice)| (Some(name), choice));
        for (name, choice) in std::iter::once((None, &spec.downlink)).chain(of_blocks) {
            let key = match name {
                Some(name) => format!("codec.blocks.{name}.downlink"),
                None => "codec.downlink".to_owned(),
            };
            if self.has_personal_downloads && choice.sends_differences() {
                let message = "each user of this method has a download of its own, so that `delta = true` would have the \
                               server keep versions for each user";
                found.push((format!("{key}.delta"), message.to_owned()));
            }
            if choice.selects_needed_rows()
                && let Some(message) = self.without_needed_rows(spec, name)
            {
                found.push((format!("{key}.select"), message));
            }
        }
        found
    }

    fn has_block(&self, name: &str) -> bool {
        self.blocks.iter().any(|block| block.name == name)
    }

    /// Returns why clients cannot download the needed rows alone of the block `name`, or of all
    /// blocks without a codec of their own; `None` if they can, or if there is no such block, which
    /// is told elsewhere.
    fn without_needed_rows(&self, spec: &CodecSpec, name: Option<&str>) -> Option<String> {
        if name.is_some_and(|name| !self.has_block(name)) {
            return None;
        }
        let is_meant = |block: &TrafficBlock| match name {
            Some(name) => block.name == name,
            None => (spec.blocks.get(&block.name)).is_none_or(|own| own.downlink.is_none()),
        };
        let sent: Vec<&str> = self
            .blocks
            .iter()
            .filter(|block| !block.is_uploaded && block.has_floats && block.has_item_rows)
            .filter(|block| is_meant(block))
            .map(|block| block.name.as_str())
            .collect();
        let whole = sent
            .iter()
            .find(|block| spec.uplink_of(block).takes_the_whole_table());
        let message = if sent.is_empty() {
            "`needed-rows` is for downloads of tables with a row for each item, of which there is none here"
        } else if self.has_personal_downloads {
            "each user of this method has a download of its own, of which nobody asks for rows"
        } else if !self.trains_on_sampled_rows {
            "`needed-rows` sends the rows of a client's training items and of the negatives drawn for it, but clients \
             of this method read or keep others too"
        } else {
            return whole.map(|block| {
                format!(
                    "a client that downloads the rows that it needs cannot send the whole table `{block}`: take \
                     `rows-f32` or a `select` other than `all` for the uplink"
                )
            });
        };
        Some(message.to_owned())
    }

    /// Returns why the server of this method cannot be the one that adds noise to sums of uploads,
    /// if it cannot.
    fn without_noisy_sums(&self) -> Option<&'static str> {
        let has_noisy_sums = self.upload_use == UploadUse::Sum || self.makes_noisy_sums;
        (!has_noisy_sums && !self.blocks.is_empty()).then_some(
            "the server of this method uses more of the uploads than their sum (who has sent which row, a weight of each \
             upload, or something of each user), which noise on the sum does not protect: take `trust = \"local\"`, or \
             `sends_counts = true` or `equal_weights = true` where the method has it",
        )
    }

    /// Returns why the server of this method cannot do with uploads that secure aggregation hides
    /// from it, if it cannot.
    fn without_hidden_uploads(&self) -> Option<&'static str> {
        (self.upload_use == UploadUse::Each && !self.blocks.is_empty()).then_some(
            "the server of this method uses more of the uploads than their sum (who has sent which row, or something of each \
             user), which `secure_aggregation` hides: take `sends_counts = true` where the method has it",
        )
    }

    /// Returns the names of all blocks, each once.
    fn names(&self) -> String {
        let mut names: Vec<String> = Vec::new();
        for block in &self.blocks {
            let name = format!("`{}`", block.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::{BlockCodecSpec, CodecName, CompositionSpec};
    use super::*;

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
            trains_on_sampled_rows: false,
            keeps_personal_tables: false,
            upload_use: UploadUse::Sum,
            makes_noisy_sums: false,
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
            let found = method.contradictions_of_codecs(&spec);
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
                "codec.blocks.counts.uplink: the block `counts` has values",
            ),
            (
                CodecSpec {
                    downlink: composed(true),
                    ..CodecSpec::default()
                },
                "codec.downlink.delta: each user",
            ),
            (
                of("C", down(composed(true))),
                "codec.blocks.C.downlink.delta: each user",
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
