//! Carries out `calibrate`: how fast this machine is as a device of a scenario, and the way to another.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::args::{CalibrateArgs, InputArgs};
use super::inputs::strictness;
use super::serve::bind;
use super::task::Task;
use super::{Finished, Session};
use crate::{Error, Result};
use fedrecsim_deploy::{self as deploy, Way};
use fedrecsim_sim::deployment::{Measured, measure};

mod fit;

use fit::{Fit, fit_to, held_out_errors, median, put_together};

/// More rounds than anybody waits for. The time decides.
const ROUNDS: &str = "training.rounds=1000000";

/// The least time for a row visit that a scenario may have.
const LEAST_NS: f64 = 0.001;

/// Measures trainings of a scenario on this machine, or the way to another one, and returns a part of a
/// scenario; or answers those who measure.
///
/// # Errors
/// Those of the scenario, of a run and of a connection, and [`Error::Usage`] if nothing was measured.
pub(crate) fn calibrate(arguments: CalibrateArgs, session: &Session) -> Result<Finished> {
    session.listen()?;
    if let Some(address) = arguments.probe {
        let measured = deploy::probe(address.clone(), &session.interrupted)?;
        return Ok(way(&address, &measured).into());
    }
    if let Some(address) = arguments.answer {
        return answer(address, arguments.insecure, session);
    }
    let Some(input) = arguments.input else {
        return Err(Error::Usage("name a scenario, or --probe".to_owned()));
    };
    trainings(input, arguments.length, session)
}

/// Answers those who measure the way to this machine.
fn answer(address: SocketAddr, insecure: bool, session: &Session) -> Result<Finished> {
    let listener = bind("--answer", address, insecure)?;
    // Port 0 stands for one that the system picks.
    let address = listener.local_addr().unwrap_or(address);
    session.note(&format!(
        "answers at {address} (fedrecsim calibrate --probe {address}) until it is interrupted"
    ));
    deploy::answer(&listener, deploy::MOST_TIME, &session.interrupted)
        .map_err(|reason| Error::Usage(format!("--answer {address}: {reason}")))?;
    Ok(String::new().into())
}

/// Returns the way to another machine as a part of a scenario.
fn way(address: &str, way: &Way) -> String {
    let mbit = |bits: f64| rounded(bits / 1e6);
    format!(
        "# The way from this machine to {address} and back.\n\
         [network]\n\
         rtt_ms = {:?}\n\
         rates.lognormal.uplink_median_mbit_per_s = {:?}\n\
         rates.lognormal.downlink_median_mbit_per_s = {:?}\n",
        rounded(way.round_trip.as_secs_f64() * 1e3),
        mbit(way.up_bits_per_s),
        mbit(way.down_bits_per_s)
    )
}

/// Measures trainings of a scenario for so long, and returns the device class that they fit.
fn trainings(mut input: InputArgs, length: Duration, session: &Session) -> Result<Finished> {
    input.set.insert(0, ROUNDS.to_owned());
    let task = Task::of(&input, strictness(false), session)?;
    let inputs = task.inputs(None, session.methods)?;
    let interrupted = Arc::clone(&session.interrupted);
    let measured = measure(Arc::clone(&inputs.world), interrupted, length)?;
    let text = told(&task.scenario.name, measured).ok_or_else(|| {
        Error::Usage(
            "no round but the first has ended in this time; give --length more, or the scenario smaller rounds"
                .to_owned(),
        )
    })?;
    Ok(text.into())
}

/// Returns the device class as a part of a scenario; `None` if nothing was measured.
fn told(scenario: &str, measured: Vec<Measured>) -> Option<String> {
    let trainings = measured.len();
    let all = put_together(measured);
    let (fitted, sizes) = fit_to(all.iter())?;
    let Fit([row_visit, multiply_add, fixed]) = fitted;
    let errors = held_out_errors(&all);
    let percent = |error: f64| 100.0 * error;
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let mut text = format!(
        "# This machine as a device of {scenario}, from {trainings} trainings of {} sizes.\n",
        sizes.len()
    );
    // Writing to a text does not fail.
    let _ = match errors.is_empty() {
        true => writeln!(text, "# All are of one size, so that no error can be told."),
        false => writeln!(
            text,
            "# Error on a size that the fit has not seen: {:.1} % (median), {:.1} % (worst).",
            percent(median(errors.iter().copied())),
            percent(worst)
        ),
    };
    for size in &sizes {
        let [visits, adds, _] = size.amounts;
        let [took, told] = [size.took_ns, fitted.took_ns(size)].map(|ns| rounded(ns / 1e6));
        let _ = writeln!(
            text,
            "# {visits:.0} row visits, {adds:.0} multiply-adds: {took:?} ms measured, {told:?} ms by this fit."
        );
    }
    let _ = write!(
        text,
        "[devices]\n\
         speed.lognormal.median_ns_per_row_visit = {:?}\n\
         ns_per_multiply_add = {:?}\n\
         fixed_ms_per_participation = {:?}\n",
        rounded(row_visit.max(LEAST_NS)),
        rounded(multiply_add),
        rounded(fixed / 1e6)
    );
    Some(text)
}

/// Returns the number with four significant digits.
fn rounded(number: f64) -> f64 {
    // Text is the one way to round to decimal digits, and always reads as a number.
    format!("{number:.3e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_core::work::Work;
    use fedrecsim_methods::registry::vocabulary;
    use fedrecsim_scenario::{self as scenario, RatesSpec};

    /// If this fails, what `calibrate` writes is no part of a scenario, or means another speed there.
    #[test]
    fn what_is_told_is_read_as_the_speed_that_was_measured() {
        let training = |visits: u64| Measured {
            work: Work::of_row_visits(visits),
            took: Duration::from_nanos(2_000_000 + 15 * visits),
        };
        let text = told(
            "quickstart",
            (1..900).map(|step| training(1000 * step)).collect(),
        )
        .unwrap();
        assert!(text.contains("0.0 % (median), 0.0 % (worst)"), "{text}");
        let whole = format!(
            "method = \"popularity\"\ndataset.name = \"generated\"\ntraining.rounds = 1\n{text}"
        );
        let scenario = scenario::parse(&whole, "told.toml", &[], &vocabulary()).unwrap();
        assert_eq!(scenario.devices.fixed_ms_per_participation, 2.0);
        assert_eq!(scenario.devices.ns_per_multiply_add, 0.0);
        assert!(text.contains("median_ns_per_row_visit = 15.0"), "{text}");
        assert_eq!(told("quickstart", Vec::new()), None);
    }

    /// If this fails, what `--probe` prints is no part of a scenario, or means other links there.
    #[test]
    fn a_way_is_read_as_the_links_that_were_measured() {
        let text = way(
            "10.0.0.1:7000",
            &Way {
                round_trip: Duration::from_micros(20_500),
                up_bits_per_s: 5e6,
                down_bits_per_s: 40e6,
            },
        );
        let whole = format!(
            "method = \"fedmf\"\ndataset.name = \"generated\"\ntraining.rounds = 1\n{text}"
        );
        let scenario = scenario::parse(&whole, "told.toml", &[], &vocabulary()).unwrap();
        assert_eq!(scenario.network.rtt_ms, 20.5);
        let RatesSpec::Lognormal(rates) = &scenario.network.rates else {
            panic!("{text}");
        };
        assert_eq!(rates.uplink_median_mbit_per_s, 5.0);
        assert_eq!(rates.downlink_median_mbit_per_s, 40.0);
    }
}
