//! Finds the arm that each arm of a study is compared to.

use std::collections::HashMap;

use toml::{Table, Value};

use super::{Arm, Faults, RawStudy, place_of};

/// Notes in each arm which one it is compared to.
///
/// `compare_to` is the name of one arm for all others, or a table of axes and values. With a table,
/// a combination is compared to the arm that has these values on these axes and its own values on
/// the other axes. A single arm may name one itself.
pub(super) fn pair(arms: &mut [Arm], study: &RawStudy, faults: &mut Faults) {
    // The arms are all there only if nothing is wrong with them.
    if !faults.all.is_empty() {
        return;
    }
    let wanted = study.compare_to.as_ref();
    let mut to_each = vec![None; arms.len()];
    match wanted.map(|wanted| (wanted.as_ref(), wanted.span())) {
        None => {}
        Some((Value::String(name), span)) => to_each.fill(place_of(name, &span, arms, faults)),
        Some((Value::Table(table), span)) if !study.axes.is_empty() && !table.is_empty() => {
            let fixed = fixed(table, arms, study, |message| faults.at(span.clone(), message));
            // A single arm has no values.
            let combined = (0..arms.len()).filter(|place| !arms[*place].values.is_empty());
            let places: HashMap<&[String], usize> = combined
                .map(|place| (&arms[place].values[..], place))
                .collect();
            for (arm, to) in arms.iter().zip(&mut to_each) {
                let own = arm.values.iter().zip(&fixed);
                let values: Vec<String> = own
                    .map(|(own, fixed)| fixed.as_ref().unwrap_or(own).clone())
                    .collect();
                *to = places.get(&values[..]).copied();
            }
        }
        Some((_, span)) => faults.at(
            span,
            "`compare_to` is the name of an arm or, with axes, a table of some of them and values, such as { codec = \"dense\" }",
        ),
    }
    let combinations = arms.len().saturating_sub(study.arms.len());
    for (place, single) in (combinations..).zip(&study.arms) {
        if let Some(name) = &single.as_ref().compare_to {
            let named = place_of(name.as_ref(), &name.span(), arms, faults);
            to_each[place] = named.or(to_each[place]);
        }
    }
    for (place, (arm, to)) in arms.iter_mut().zip(to_each).enumerate() {
        // An arm does not differ from itself.
        arm.compare_to = to.filter(|other| *other != place);
    }
}

/// Returns, for each axis, the value on it that arms are compared to, if the table names one.
fn fixed(
    table: &Table,
    arms: &[Arm],
    study: &RawStudy,
    mut refuse: impl FnMut(String),
) -> Vec<Option<String>> {
    let mut fixed = vec![None; study.axes.len()];
    let names = study.axes.iter().map(|axis| axis.as_ref().name.as_ref());
    for (axis, value) in table {
        let Some(place) = names.clone().position(|name| name == axis) else {
            refuse(format!(
                "`compare_to` names the axis `{axis}`, and there is none"
            ));
            continue;
        };
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let part = format!("{axis}={value}");
        if !arms.iter().any(|arm| arm.values.get(place) == Some(&part)) {
            refuse(format!("the axis `{axis}` has no value `{value}`"));
        }
        fixed[place] = Some(part);
    }
    fixed
}
