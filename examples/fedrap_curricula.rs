//! Draws Figure 4 of the FedRAP paper, the curricula lambda(a, v) of v = 0.1 over 100 rounds, from
//! the code that trains with them.
//!
//! ```sh
//! cargo run --release --example fedrap_curricula > reports/papers/fedrap-figure-4.svg
//! ```

use fedrecsim_core::Result;
use fedrecsim_methods::fedrap::Curriculum;
use fedrecsim_report::{Axis, Chart, Series, Stroke, Unit, arm, plot};

/// The v1 of the figure.
const V: f64 = 0.1;

/// The rounds of the figure.
const ROUNDS: u32 = 100;

/// The curricula by the names of the paper.
const CURRICULA: [(&str, Curriculum); 5] = [
    ("tanh: tanh(a / 10) v", Curriculum::Tanh),
    ("fixed: v", Curriculum::Fixed),
    ("sin: sin(a / 10) v, at least 0", Curriculum::Sin),
    ("square: v and 0 in turn", Curriculum::Square),
    ("frac: v / (a + 1)", Curriculum::Frac),
];

/// Returns the picture as SVG.
///
/// # Errors
/// Those of the library that draws.
pub fn picture() -> Result<String> {
    let line = |(number, (name, curriculum)): (usize, (&str, Curriculum))| {
        let factor = |round| V * f64::from(curriculum.factor(round));
        let own = arm(number);
        // Others come to v as well, and would hide it.
        let stroke = match curriculum {
            Curriculum::Fixed => Stroke::Dash,
            _ => own.stroke,
        };
        Series {
            group: "curriculum".to_owned(),
            name: name.to_owned(),
            stroke,
            x: vec![(1..=ROUNDS).map(f64::from).collect()],
            y: (0..ROUNDS).map(factor).collect(),
            ..own
        }
    };
    let chart = Chart {
        across: vec![Axis::new("rounds", "communication round", Unit::Count)],
        up: Axis::new("", "lambda(a, v)", Unit::Number),
        series: CURRICULA.into_iter().enumerate().map(line).collect(),
        ..Chart::default()
    };
    let title = format!("FedRAP, Figure 4: the curricula for v = {V} over {ROUNDS} rounds");
    let subtitle = "lambda (and mu likewise) in round a, as objective = \"paper\" trains with it; the published code has \
         v in every round. The sine is kept from below 0, where it would turn a penalty into a reward";
    plot::draw("fedrap-figure-4.svg", &chart, 0, (&title, subtitle))
}

fn main() -> Result<()> {
    print!("{}", picture()?);
    Ok(())
}
