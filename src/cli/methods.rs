//! `methods`: what can be named in a scenario's `[method.NAME]`.

use serde_json::Value;

use crate::method::registry::METHODS;

/// Every method with its source and parameters, as text.
pub fn methods() -> String {
    let mut text = String::new();
    for entry in METHODS {
        text.push_str(&format!("{}\n  {}\n", entry.name, entry.summary));
        text.push_str(&super::wrapped(&format!("source: {}", entry.source), "  ", 100));
        let schema = Value::from((entry.schema)());
        let parameters = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        for (name, parameter) in parameters {
            let default = match parameter.get("default") {
                None | Some(Value::Null) => String::new(),
                Some(default) => format!(" = {default}"),
            };
            text.push_str(&format!("    {name}{default}\n"));
            if let Some(description) = parameter.get("description").and_then(Value::as_str) {
                text.push_str(&super::wrapped(&description.replace('\n', " "), "        # ", 100));
            }
        }
        text.push('\n');
    }
    text
}
