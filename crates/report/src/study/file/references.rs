//! Reads published values, which stand beside those of arms.

use serde::{Deserialize, Serialize};
use toml::{Spanned, Table, Value};

use super::{Arm, Faults, check_metric, place_of};
use crate::rounds::is_sparsity;

/// A value that somebody else has published for an arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The arm, by its place among the arms.
    pub arm: usize,
    /// The metric, or the column of how sparse the shared table is, such as
    /// `c_above_1e-2_averaged`.
    pub figure: String,
    /// The value.
    pub value: f64,
    /// Its standard deviation over repetitions, if that was published, too.
    #[serde(default)]
    pub standard_deviation: Option<f64>,
    /// Where it was published.
    pub source: Option<String>,
}

/// A published table: figures, and the values of each arm in their order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReferences {
    source: Option<String>,
    figures: Vec<Spanned<String>>,
    arms: Spanned<Table>,
}

const A_VALUE: &str = "a published value is a number, \"0.41 ± 0.02\" with its standard deviation, or \"-\" if there is \
                       none";

/// Returns the values of a published table, and notes what is wrong with them.
pub(super) fn read(
    written: Spanned<RawReferences>,
    arms: &[Arm],
    faults: &mut Faults,
) -> Vec<Reference> {
    let RawReferences {
        source,
        figures,
        arms: of_arms,
    } = written.into_inner();
    for figure in figures
        .iter()
        .filter(|figure| !is_sparsity(figure.as_ref()))
    {
        check_metric(figure, faults);
    }
    let span = of_arms.span();
    let mut all = Vec::new();
    for (name, values) in of_arms.as_ref() {
        let listed = values
            .as_array()
            .map_or_else(|| std::slice::from_ref(values), Vec::as_slice);
        if listed.len() != figures.len() {
            let message = format!(
                "arm `{name}` has {} published values, and there are {} figures",
                listed.len(),
                figures.len()
            );
            faults.at(span.clone(), message);
        }
        let Some(arm) = place_of(name, &span, arms, faults) else {
            continue;
        };
        for (figure, written) in figures.iter().zip(listed) {
            if written.as_str() == Some("-") {
                continue;
            }
            let Some((value, standard_deviation)) = value_of(written) else {
                faults.at(span.clone(), format!("arm `{name}`: {A_VALUE}"));
                continue;
            };
            all.push(Reference {
                arm,
                figure: figure.as_ref().clone(),
                value,
                standard_deviation,
                source: source.clone(),
            });
        }
    }
    all
}

/// Returns a value and its standard deviation.
fn value_of(written: &Value) -> Option<(f64, Option<f64>)> {
    let finite = |number: &f64| number.is_finite();
    let number = |text: &str| text.trim().parse().ok().filter(finite);
    if let Some(text) = written.as_str() {
        let (value, deviation) = text.split_once('±')?;
        let deviation = number(deviation).filter(|deviation| *deviation >= 0.0)?;
        return Some((number(value)?, Some(deviation)));
    }
    let number = written
        .as_float()
        .or_else(|| Some(written.as_integer()? as f64));
    Some((number.filter(finite)?, None))
}
