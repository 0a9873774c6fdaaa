//! What the parameters of a method are.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use fedrecsim_scenario::ParameterFault;

/// The parameters of a method, which [`parameters!`](crate::parameters!) declares. They are the
/// table `[method.NAME]` of scenario files.
pub trait Parameters: Clone + Default + Serialize + DeserializeOwned + JsonSchema {}

impl<P: Clone + Default + Serialize + DeserializeOwned + JsonSchema> Parameters for P {}

/// Warns of keys that other keys leave without an effect. A rule names a key and says whether it is
/// switched off, and why. A key at its default is passed over.
pub(crate) fn without_effect<P: Parameters>(
    parameters: &P,
    rules: &[(&str, bool, &str)],
) -> Vec<ParameterFault> {
    let values = |parameters: &P| serde_json::to_value(parameters).unwrap_or_default();
    let (found, usual) = (values(parameters), values(&P::default()));
    let is_told = |(key, is_off, _): &&(&str, bool, &str)| *is_off && found[key] != usual[key];
    let fault =
        |(key, _, because): &(&str, bool, &str)| ParameterFault::without_effect(key, because);
    rules.iter().filter(is_told).map(fault).collect()
}
