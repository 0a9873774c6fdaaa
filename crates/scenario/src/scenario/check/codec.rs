//! Rules for codecs that concern more than one key.

use super::super::spec::{
    CodecChoice, CodecSpec, CompositionSpec, FirstDownload, PositionsSpec, RoundingSpec, ScaleSpec,
    SelectSpec, ValuesSpec,
};
use super::super::traffic::Traffic;
use super::Checker;
use fedrecsim_core::units::Direction;

/// A key of a composition that has no effect, and why, as the end of a sentence without a full
/// stop.
type WithoutEffect = (&'static str, &'static str);

impl Checker<'_> {
    /// Checks all codecs, for a method that exchanges this, if that can be told.
    pub(super) fn codecs(&mut self, spec: &CodecSpec, traffic: Option<&Traffic>) {
        for contradiction in traffic
            .map(|traffic| traffic.contradictions(spec))
            .unwrap_or_default()
        {
            let path: Vec<&str> = contradiction.path.iter().map(String::as_str).collect();
            self.fault(&path, contradiction.message);
        }
        let sends_changes =
            |choice: &CodecChoice| matches!(choice, CodecChoice::Composed(spec) if spec.delta);
        let mut downlinks = spec
            .downlinks_of_blocks()
            .map(|(_, choice)| choice)
            .chain([&spec.downlink]);
        if spec.first_download != FirstDownload::default() && !downlinks.any(sends_changes) {
            let message = "`first_download` belongs to downloads with `delta = true`; any other download is the same for \
                           whoever receives it";
            self.fault(&["codec", "first_download"], message);
        }
        self.codec(&spec.uplink, Direction::Up, &["codec", "uplink"]);
        self.codec(&spec.downlink, Direction::Down, &["codec", "downlink"]);
        for (name, choice) in spec.uplinks_of_blocks() {
            self.codec(choice, Direction::Up, &["codec", "blocks", name, "uplink"]);
        }
        for (name, choice) in spec.downlinks_of_blocks() {
            self.codec(
                choice,
                Direction::Down,
                &["codec", "blocks", name, "downlink"],
            );
        }
    }

    fn codec(&mut self, choice: &CodecChoice, direction: Direction, path: &[&str]) {
        let CodecChoice::Composed(spec) = choice else {
            return;
        };
        let below = |key| [path, &[key]].concat();
        if spec.select == SelectSpec::NeededRows && direction == Direction::Up {
            let message = "`needed-rows` is for downloads, of which a client needs few rows; an upload has the rows that \
                           training touched with `touched-rows`";
            self.fault(&below("select"), message);
        } else if spec.select == SelectSpec::NeededRows && spec.delta {
            let message = "`needed-rows` sends the rows as they are: with `delta = true` the server would have to know \
                           which version of each row a device has";
            self.fault(&below("delta"), message);
        }
        if spec.error_feedback && direction == Direction::Down {
            let message = "`error_feedback` is for uploads, of which a device remembers what it left out; what a \
                           download with `delta = true` leaves out is in the next one without it";
            self.fault(&below("error_feedback"), message);
        } else if spec.error_feedback && !spec.delta {
            let message = "`error_feedback` needs `delta = true`: what an upload leaves out of a change belongs to the \
                           next change, and not to the next values";
            self.fault(&below("error_feedback"), message);
        }
        for (key, because) in without_effect(spec) {
            if self.file.has(&below(key)) {
                self.warn(&below(key), format!("`{key}` has no effect: {because}"));
            }
        }
    }
}

/// Returns the keys that other keys leave without an effect, and that have another value than their
/// default.
fn without_effect(spec: &CompositionSpec) -> Vec<WithoutEffect> {
    let sends_all_as_it_is = matches!(spec.select, SelectSpec::All | SelectSpec::TouchedRows);
    let mut found = Vec::new();
    if spec.scale != ScaleSpec::Row
        && matches!(
            spec.values,
            ValuesSpec::F32 | ValuesSpec::F16 | ValuesSpec::Bf16
        )
    {
        found.push(("scale", "floating-point values have no scale"));
    }
    let has_levels = matches!(
        spec.values,
        ValuesSpec::Int8 | ValuesSpec::Int4 | ValuesSpec::Int2
    );
    if spec.rounding != RoundingSpec::Stochastic && !has_levels {
        found.push(("rounding", "it says how `int8`, `int4` and `int2` round"));
    }
    if spec.positions != PositionsSpec::Auto && spec.select == SelectSpec::All {
        found.push((
            "positions",
            "`select = \"all\"` sends every entry, so that there are no positions",
        ));
    }
    if spec.error_feedback && sends_all_as_it_is && spec.values == ValuesSpec::F32 {
        found.push((
            "error_feedback",
            "nothing is left out of an upload, since it sends every change in single precision",
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a key is said to have no effect where it has one, or the other way round.
    #[test]
    fn keys_have_no_effect_only_beside_others() {
        let keys = |spec: &CompositionSpec| {
            without_effect(spec)
                .into_iter()
                .map(|(key, _)| key)
                .collect::<Vec<_>>()
        };
        let usual = CompositionSpec::default();
        assert_eq!(keys(&usual), [""; 0]);
        let all = CompositionSpec {
            scale: ScaleSpec::Block,
            rounding: RoundingSpec::Nearest,
            positions: PositionsSpec::Rice,
            error_feedback: true,
            ..usual
        };
        assert_eq!(
            keys(&CompositionSpec {
                select: SelectSpec::All,
                ..all
            }),
            ["scale", "rounding", "positions", "error_feedback"]
        );
        assert_eq!(
            keys(&CompositionSpec {
                values: ValuesSpec::Int4,
                ..all
            }),
            [""; 0]
        );
        assert_eq!(
            keys(&CompositionSpec {
                values: ValuesSpec::Sign,
                ..all
            }),
            ["rounding"]
        );
    }
}
