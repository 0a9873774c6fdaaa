//! Makes drawn fault rules fit the users of a scenario.

use toml::Value;

use super::rules::Draft;

impl Draft {
    /// Limits rules to the `count` users that exist; outages then concern no transfers.
    pub(super) fn mend_faults(&mut self, count: i64) {
        let names = |classes: &Value| {
            classes
                .as_array()
                .unwrap()
                .iter()
                .map(|class| class["name"].clone())
                .collect()
        };
        let classes = self
            .0
            .get("devices.speed.classes")
            .map(names)
            .map(Value::Array);
        let zones = self
            .0
            .get("availability.pattern.daily.utc_offsets")
            .cloned();
        let name = self.0.get("dataset.name").and_then(Value::as_str);
        let is_generated = name == Some("generated");
        let Some(Value::Array(rules)) = self.0.get_mut("faults") else {
            return;
        };
        for rule in rules.iter_mut().filter_map(Value::as_table_mut) {
            let effect = rule.get("effect");
            if effect.is_some_and(|effect| {
                effect.as_str() == Some("outage") || effect.get("recurring_outage").is_some()
            }) {
                ["preset", "direction", "probability"]
                    .iter()
                    .for_each(|key| drop(rule.remove(*key)));
            }
            for (key, there) in [("device_classes", &classes), ("utc_offsets", &zones)] {
                let drawn = rule.get_mut("users").and_then(|users| users.get_mut(key));
                match (drawn, there) {
                    (Some(drawn), Some(there)) => *drawn = there.clone(),
                    (Some(_), None) => drop(rule.remove("users")),
                    (None, _) => {}
                }
            }
            for key in ["numbers", "names"] {
                let drawn = rule.get_mut("users").and_then(|users| users.get_mut(key));
                for user in drawn.and_then(Value::as_array_mut).into_iter().flatten() {
                    let number = user.as_integer().unwrap().min(count - 1);
                    // The names of generated users are their numbers.
                    *user = match key {
                        "names" => Value::String(number.to_string()),
                        _ => Value::Integer(number),
                    };
                }
            }
            if !is_generated
                && rule
                    .get("users")
                    .is_some_and(|users| users.get("names").is_some())
            {
                rule.remove("users");
            }
        }
    }
}
