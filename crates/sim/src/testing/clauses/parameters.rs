//! Checks of what an entry says about its parameters and blocks.

use serde_json::Value as Json;

use crate::testing::Contract;
use crate::testing::breach::{Seen, ensure};
use fedrecsim_methods::registry::vocabulary_of;
use fedrecsim_methods::sizes_of;
use fedrecsim_scenario::sizes::ProblemSize;
use fedrecsim_scenario::unchecked_rules;

/// Checks that every rule of the schema can be checked in a scenario file, that the defaults keep
/// all of them, and that values that break one are refused with the name of their key.
pub(crate) fn are_checked(contract: &Contract<'_>) -> Result<(), Seen> {
    let rules = unchecked_rules(&vocabulary_of(&[*contract.entry]));
    ensure(rules.is_empty(), || {
        format!("the schema has rules that scenario files are not checked against: {rules:?}")
    })?;
    contract.scenario(&[])?;
    is_refused(
        contract,
        "no-such-key",
        "1",
        "a key that the schema does not have",
    )?;
    let schema = contract.schema();
    let properties = schema.get("properties").and_then(Json::as_object);
    for (key, rules) in properties.into_iter().flatten() {
        for (value, rule) in forbidden(rules) {
            is_refused(contract, key, &value, rule)?;
        }
    }
    Ok(())
}

/// Checks that a scenario with this value of the key is refused, and that the message names the
/// key.
fn is_refused(contract: &Contract<'_>, key: &str, value: &str, rule: &str) -> Result<(), Seen> {
    let written = format!("method.{}.{key}={value}", contract.entry.name);
    match contract.scenario(&[&written]) {
        Ok(_) => Err(Seen(format!("`{written}` was accepted, which is {rule}"))),
        Err(Seen(message)) => ensure(message.contains(key), || {
            format!("`{written}` was refused without naming the key: {message}")
        }),
    }
}

/// Returns values, as TOML, that these rules of a property forbid, with the rule that does.
fn forbidden(rules: &Json) -> Vec<(String, &'static str)> {
    let types: Vec<&str> = match &rules["type"] {
        Json::String(name) => vec![name],
        Json::Array(names) => names.iter().filter_map(Json::as_str).collect(),
        _ => return Vec::new(),
    };
    let is_integer = types.contains(&"integer");
    if !is_integer && !types.contains(&"number") {
        let is_boolean = types == ["boolean"];
        return if is_boolean {
            vec![("\"yes\"".to_owned(), "a text and no truth value")]
        } else {
            Vec::new()
        };
    }
    let mut found = Vec::new();
    if !types.contains(&"string") {
        found.push(("\"many\"".to_owned(), "a text and no number"));
    }
    if !is_integer {
        found.extend(["nan", "inf", "-inf"].map(|value| (value.to_owned(), "not a finite number")));
    }
    let mut bound = |key: &str, beyond: fn(f64) -> f64, rule| {
        let value = rules.get(key).and_then(Json::as_f64).map(beyond);
        found.extend(
            value
                .and_then(|value| written(value, is_integer))
                .map(|value| (value, rule)),
        );
    };
    bound(
        "minimum",
        |least| least - least.abs() - 1.0,
        "below the minimum",
    );
    bound("exclusiveMinimum", |least| least, "the exclusive minimum");
    bound(
        "maximum",
        |most| most + most.abs() + 1.0,
        "above the maximum",
    );
    bound("exclusiveMaximum", |most| most, "the exclusive maximum");
    found
}

/// Returns the number as TOML writes it; `None` for an integer that TOML has no room for.
fn written(value: f64, is_integer: bool) -> Option<String> {
    match is_integer {
        false => Some(format!("{value:?}")),
        true => (value.abs() < 9e18).then(|| format!("{value:.0}")),
    }
}

/// Checks that every block of the model and of the downloads is among the sizes that the entry
/// announces, since a block that is not is made without a look at the memory that it takes.
pub(crate) fn announce_every_block(contract: &Contract<'_>) -> Result<(), Seen> {
    if !contract.entry.placement.trains() {
        return Ok(());
    }
    let world = contract.world(&[])?;
    let size = ProblemSize {
        users: world.dataset.users(),
        items: world.dataset.items(),
    };
    let announced = (contract.entry.sizes)(&world.scenario.method.parameters, size);
    let model = world.method.initial();
    let downloads = world.download_layouts().flat_map(sizes_of);
    for block in sizes_of(model.layout()).into_iter().chain(downloads) {
        let (rows, columns) = (block.rows, block.columns);
        let named = announced.iter().find(|size| size.name == block.name);
        ensure(
            named.is_some_and(|size| size.rows >= rows && size.columns >= columns),
            || {
                format!(
                    "block `{}` has {rows} rows and {columns} columns, and `sizes` announces {}",
                    block.name,
                    named.map_or("no block of this name".to_owned(), |size| format!(
                        "{} and {}",
                        size.rows, size.columns
                    ))
                )
            },
        )?;
    }
    Ok(())
}
