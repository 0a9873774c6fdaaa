//! Draws Figure 4 of the FedRAP paper, the curricula lambda(a, v) of v = 0.1 over 100 rounds, from
//! the code that trains with them.
//!
//! ```sh
//! cargo run --release --example fedrap_curricula > reports/papers/fedrap-figure-4.svg
//! ```

use fedrecsim_core::error::Result;
use fedrecsim_methods::method::fedrap::Curriculum;
use fedrecsim_report::report::plot::lines::{Line, Lines};

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
    let line = |(label, curriculum): (&str, Curriculum)| Line {
        label: label.to_owned(),
        points: (0..ROUNDS)
            .map(|round| {
                (
                    f64::from(round + 1),
                    V * f64::from(curriculum.factor(round)),
                )
            })
            .collect(),
        // Others come to v as well, and would hide it.
        is_dashed: curriculum == Curriculum::Fixed,
        like: None,
    };
    let picture = Lines {
        title: format!("FedRAP, Figure 4: the curricula for v = {V} over {ROUNDS} rounds"),
        subtitle:
            "lambda (and mu likewise) in round a, as objective = \"paper\" trains with it; the published code has \
                   v in every round. The sine is kept from below 0, where it would turn a penalty into a reward"
                .to_owned(),
        horizontal: "communication round".to_owned(),
        vertical: "lambda(a, v)".to_owned(),
        is_error: false,
        heading: "curriculum".to_owned(),
        lines: CURRICULA.map(line).into(),
    };
    picture.draw("fedrap-figure-4.svg")
}

fn main() -> Result<()> {
    print!("{}", picture()?);
    Ok(())
}
