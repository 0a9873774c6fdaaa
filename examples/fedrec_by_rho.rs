//! Draws FedRec's RMSE against the number rho of virtual items for each rated one, ours and the
//! authors', from the results of `studies/fedrec-results-5-folds.toml`.
//!
//! ```sh
//! cargo run --release --example fedrec_by_rho reports/papers/fedrec-results-5-folds/summary.csv \
//!   > reports/papers/fedrec-results-5-folds/rmse-by-rho.svg
//! ```

use std::path::Path;

use fedrecsim_report::{Axis, Chart, Series, Stroke, Unit, arm, plot};
use serde::Deserialize;

/// The methods of the study and their names in the picture.
const METHODS: [(&str, &str); 3] = [
    ("pmf-batch", "PMF, batch"),
    ("pmf-stochastic", "PMF, stochastic"),
    ("svdpp-stochastic", "SVD++, stochastic"),
];

/// The ways to fill in virtual ratings and their names in the picture.
const FILLINGS: [(&str, &str); 2] = [
    ("averaging", "user averaging"),
    ("hybrid", "hybrid filling"),
];

/// The largest number of virtual items for each rated one.
const MOST: u32 = 3;

/// A row of the study's summary.
#[derive(Debug, Deserialize)]
struct Row {
    arm: String,
    /// Older summaries call it a quantity.
    #[serde(alias = "quantity")]
    figure: String,
    mean: Option<f64>,
    published: Option<f64>,
}

/// Returns the picture of this summary as SVG.
///
/// # Errors
/// Those of reading the file, of a row that is missing, and of the library that draws.
pub fn picture(summary: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let rows = csv::Reader::from_path(summary)?
        .into_deserialize()
        .collect::<Result<Vec<Row>, _>>()?;
    let data = rows
        .iter()
        .find_map(|row| row.arm.split(',').next())
        .ok_or("the summary has no rows")?
        .to_owned();
    // Our error, and the authors'.
    let errors = |method: &str, filling: &str, rho: u32| {
        let virtual_items = if rho == 0 {
            "none".to_owned()
        } else {
            format!("{filling}-{rho}")
        };
        let arm = format!("{data}, method={method}, virtual={virtual_items}");
        let found = rows
            .iter()
            .find(|row| row.arm == arm && row.figure == "rmse");
        let row = found.ok_or_else(|| format!("the summary has no RMSE of {arm}"))?;
        let mean = row.mean.ok_or_else(|| format!("{arm} has no RMSE"))?;
        Ok::<_, String>((mean, row.published))
    };
    let (mut ours, mut authors) = (Vec::new(), Vec::new());
    for (method, method_name) in METHODS {
        for (filling, filling_name) in FILLINGS {
            let found = (0..=MOST).map(|rho| Ok((f64::from(rho), errors(method, filling, rho)?)));
            let found: Vec<(f64, (f64, Option<f64>))> = found.collect::<Result<_, String>>()?;
            let label = format!("{method_name}, {filling_name}");
            let line = |name: String, points: Vec<(f64, f64)>| {
                let (x, y) = points.into_iter().unzip();
                Series {
                    group: "method and filling".to_owned(),
                    name,
                    x: vec![x],
                    y,
                    ..arm(ours.len())
                }
            };
            let published = found
                .iter()
                .filter_map(|(rho, (_, published))| Some((*rho, (*published)?)));
            authors.push(Series {
                stroke: Stroke::Dash,
                ..line(format!("the authors: {label}"), published.collect())
            });
            let points = found.iter().map(|(rho, (ours, _))| (*rho, *ours));
            ours.push(line(label, points.collect()));
        }
    }
    ours.append(&mut authors);
    let chart = Chart {
        across: vec![Axis::new(
            "",
            "virtual items for each rated one (rho)",
            Unit::Count,
        )],
        up: Axis {
            is_near: true,
            ..Axis::new("", "RMSE", Unit::Number)
        },
        series: ours,
        ..Chart::default()
    };
    let title = "FedRec: RMSE against the number of virtual items";
    let subtitle = format!(
        "{data}, mean over five folds after 100 iterations; dashed: mean of the authors' logs"
    );
    Ok(plot::draw(
        "rmse-by-rho.svg",
        &chart,
        0,
        (title, &subtitle),
    )?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let summary = std::env::args()
        .nth(1)
        .ok_or("name the summary.csv of studies/fedrec-results-5-folds.toml")?;
    print!("{}", picture(Path::new(&summary))?);
    Ok(())
}
