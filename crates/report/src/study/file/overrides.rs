//! Turns tables of keys and values into overrides, as `run --set` takes them.

use std::ops::Range;

use toml::{Spanned, Table, Value};

use super::{Faults, check_key};
use fedrecsim_scenario::Override;
use fedrecsim_scenario::migrate::new_name;

/// Returns the overrides of a table that may be absent.
pub(super) fn overrides_of(set: Option<&Spanned<Table>>, faults: &mut Faults) -> Vec<Override> {
    set.map_or_else(Vec::new, |set| overrides(set.as_ref(), &set.span(), faults))
}

/// Returns a table of overrides as `run --set` takes them.
pub(super) fn overrides(set: &Table, span: &Range<usize>, faults: &mut Faults) -> Vec<Override> {
    for (key, value) in set {
        check_key(key, span, faults);
        // Without quotation marks TOML makes a table of `training.rounds`, and it would replace all
        // of `[training]`.
        if let Value::Table(table) = value
            && !key.contains('.')
            && key != "method"
        {
            let inner = table.keys().next().map_or("KEY", String::as_str);
            let message = format!(
                "`{key}` would be replaced as a whole; write the key to change in quotation marks: \"{key}.{}\" = ...",
                new_name(key, inner).unwrap_or(inner)
            );
            faults.at(span.clone(), message);
        }
    }
    set.iter()
        .map(|(key, value)| faults.files.setting(key, value, span))
        .collect()
}
