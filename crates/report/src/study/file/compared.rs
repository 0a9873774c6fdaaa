//! Finds the arm to which each arm of a study is compared.

use toml::{Spanned, Value};

use super::{Arm, Faults, RawArm, RawAxis, place_of};

/// Notes in each arm which one it is compared to.
///
/// `wanted` is the name of one arm, to which all others are compared, or a table of axes and
/// values: a combination is then compared to the one that has these values on these axes, and its
/// own on the others. A single arm may name one itself.
pub(super) fn pair(
    arms: &mut [Arm],
    wanted: Option<&Spanned<Value>>,
    (axes, single): (&[Spanned<RawAxis>], &[Spanned<RawArm>]),
    faults: &mut Faults,
) {
    // The arms are all there only if nothing is wrong with them.
    if !faults.0.is_empty() {
        return;
    }
    let combinations = arms.len().saturating_sub(single.len());
    let to_each: Vec<Option<usize>> = match wanted.map(|wanted| (wanted.as_ref(), wanted.span())) {
        None => vec![None; arms.len()],
        Some((Value::String(name), span)) => vec![place_of(name, &span, arms, faults); arms.len()],
        Some((Value::Table(table), span)) if !axes.is_empty() && !table.is_empty() => {
            let names: Vec<&str> = axes
                .iter()
                .map(|axis| axis.as_ref().name.as_ref().as_str())
                .collect();
            let values: Vec<usize> = axes
                .iter()
                .map(|axis| axis.as_ref().values.as_ref().len())
                .collect();
            let mut fixed = vec![None; axes.len()];
            for (axis, value) in table {
                let Some(place) = names.iter().position(|name| name == axis) else {
                    faults.at(
                        span.clone(),
                        format!("`compare_to` names the axis `{axis}`, and there is none"),
                    );
                    continue;
                };
                let value = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                let part = format!("{axis}={value}");
                let found = place_on_axis(arms, &part, place, &values);
                if found.is_none() {
                    faults.at(
                        span.clone(),
                        format!("the axis `{axis}` has no value `{value}`"),
                    );
                }
                fixed[place] = found;
            }
            let other = |arm: usize| (arm < combinations).then(|| moved(arm, &fixed, &values));
            (0..arms.len()).map(other).collect()
        }
        Some((_, span)) => {
            faults.at(
                span,
                "`compare_to` is the name of an arm or, with axes, a table of some of them and values, such as { codec = \"dense\" }",
            );
            vec![None; arms.len()]
        }
    };
    let own: Vec<Option<usize>> = single
        .iter()
        .map(|arm| arm.as_ref().compare_to.as_ref())
        .map(|name| name.and_then(|name| place_of(name.as_ref(), &name.span(), arms, faults)))
        .collect();
    for (place, arm) in arms.iter_mut().enumerate() {
        let named = place
            .checked_sub(combinations)
            .and_then(|single| own.get(single).copied().flatten());
        // An arm does not differ from itself.
        arm.compare_to = named.or(to_each[place]).filter(|other| *other != place);
    }
}

/// Returns the number, on the axis at `axis`, of the value that is called `part` in the names of
/// arms.
fn place_on_axis(arms: &[Arm], part: &str, axis: usize, values: &[usize]) -> Option<usize> {
    let stride: usize = values[axis + 1..].iter().product();
    (0..values[axis]).find(|value| {
        arms.get(value * stride)
            .is_some_and(|arm| arm.values.get(axis).is_some_and(|v| v == part))
    })
}

/// Returns the place of the combination that differs from the one at `place` by the values that are
/// fixed. The last axis changes the fastest.
fn moved(place: usize, fixed: &[Option<usize>], values: &[usize]) -> usize {
    let (mut rest, mut stride, mut moved) = (place, 1, 0);
    for (fixed, count) in fixed.iter().zip(values).rev() {
        moved += fixed.unwrap_or(rest % count) * stride;
        rest /= count;
        stride *= count;
    }
    moved
}
