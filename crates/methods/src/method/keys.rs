//! Declares the parameters of a method, one line a key.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use fedrecsim_scenario::scenario::ParameterFault;

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

/// Declares the parameters of a method: of each key its documentation, name, type, default and
/// bounds.
///
/// ```
/// fedrecsim_methods::parameters! {
///     /// Parameters of a method.
///     pub struct Example {
///         /// Passes over the local samples per round.
///         local_epochs: u32 = 1, >= 1, <= 10_000;
///         /// Learning rate.
///         learning_rate: f64 = 0.1, > 0.0;
///     }
/// }
/// assert_eq!(Example::default().local_epochs, 1);
/// ```
///
/// That writes the struct with all derives, and its defaults:
///
/// ```
/// /// Parameters of a method.
/// #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// #[serde(deny_unknown_fields, default)]
/// pub struct Example {
///     /// Passes over the local samples per round.
///     #[schemars(extend("minimum" = 1))]
///     #[schemars(extend("maximum" = 10_000))]
///     pub local_epochs: u32,
///     /// Learning rate.
///     #[schemars(extend("exclusiveMinimum" = 0.0))]
///     pub learning_rate: f64,
/// }
///
/// impl Default for Example {
///     fn default() -> Self {
///         Self { local_epochs: 1, learning_rate: 0.1 }
///     }
/// }
/// ```
///
/// The crate that uses it needs `serde` (with `derive`) and `schemars` among its dependencies.
#[macro_export]
macro_rules! parameters {
    ($(
        $(#[$about:meta])*
        $visibility:vis struct $name:ident {$(
            $(#[$doc:meta])*
            $key:ident: $type:ty = $default:expr
            $(, > $above:expr)? $(, >= $least:expr)? $(, < $below:expr)? $(, <= $most:expr)?;
        )*}
    )+) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        #[derive(::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        $visibility struct $name {$(
            $(#[$doc])*
            $(#[schemars(extend("exclusiveMinimum" = $above))])?
            $(#[schemars(extend("minimum" = $least))])?
            $(#[schemars(extend("exclusiveMaximum" = $below))])?
            $(#[schemars(extend("maximum" = $most))])?
            pub $key: $type,
        )*}

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default),* }
            }
        }
    )+};
}

/// Declares the values that a key chooses from, which are written in kebab case in scenario files.
///
/// `choices! { /// Doc. pub enum Kind { /// One. First, ... } }` writes the enum with the derives
/// that keys need.
#[macro_export]
macro_rules! choices {
    ($($(#[$about:meta])* $visibility:vis enum $name:ident { $($variants:tt)* })+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive(::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        $visibility enum $name { $($variants)* }
    )+};
}
