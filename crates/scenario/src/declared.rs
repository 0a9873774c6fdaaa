//! Declares keys, one line each.

/// Declares tables of keys: of each key its documentation, name, type, default and bounds.
///
/// ```
/// fedrecsim_scenario::keys! {
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
/// A table `with required keys` has no defaults as a whole: a key without `= default` has to be
/// written. The defaults of the others stand in the schema, which completes a scenario before it is
/// read.
///
/// The crate that uses it needs `serde` (with `derive`) and `schemars` among its dependencies.
#[macro_export]
macro_rules! keys {
    ($(
        $(#[$about:meta])*
        $visibility:vis struct $name:ident {$(
            $(#[$doc:meta])*
            $key:ident: $type:ty = $default:expr
            $(, > $above:expr)? $(, >= $least:expr)? $(, < $below:expr)? $(, <= $most:expr)?;
        )*}
    )+) => {$(
        $crate::keys! { @table [#[serde(default)] $(#[$about])*] $visibility $name {$(
            [$(#[$doc])*] $key: $type $(, > $above)? $(, >= $least)? $(, < $below)? $(, <= $most)?;
        )*} }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default),* }
            }
        }
    )+};
    ($(
        $(#[$about:meta])*
        $visibility:vis struct $name:ident with required keys {$(
            $(#[$doc:meta])*
            $key:ident: $type:ty $(= $default:expr)?
            $(, > $above:expr)? $(, >= $least:expr)? $(, < $below:expr)? $(, <= $most:expr)?;
        )*}
    )+) => {$(
        $crate::keys! { @table [$(#[$about])*] $visibility $name {$(
            [$(#[$doc])* $(#[schemars(extend("default" = $default))])?] $key: $type
            $(, > $above)? $(, >= $least)? $(, < $below)? $(, <= $most)?;
        )*} }
    )+};
    (@table [$($about:tt)*] $visibility:vis $name:ident {$(
        [$($doc:tt)*] $key:ident: $type:ty
        $(, > $above:expr)? $(, >= $least:expr)? $(, < $below:expr)? $(, <= $most:expr)?;
    )*}) => {
        #[derive(Clone, Debug, PartialEq)]
        #[derive(::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        $($about)*
        $visibility struct $name {$(
            $($doc)*
            $(#[schemars(extend("exclusiveMinimum" = $above))])?
            $(#[schemars(extend("minimum" = $least))])?
            $(#[schemars(extend("exclusiveMaximum" = $below))])?
            $(#[schemars(extend("maximum" = $most))])?
            pub $key: $type,
        )*}
    };
}

/// Declares the values that a key chooses from, which are written in kebab case in scenario files.
///
/// `choices! { /// Doc. pub enum Kind { /// One. First, ... } }` writes the enum with the derives
/// that keys need. Choices with keys of their own are [`variants!`](crate::variants!).
#[macro_export]
macro_rules! choices {
    ($($(#[$about:meta])* $visibility:vis enum $name:ident { $($variants:tt)* })+) => {
        $crate::variants! {
            $($(#[$about])* #[derive(Copy, Eq)] $visibility enum $name { $($variants)* })+
        }
    };
}

/// Declares a choice as [`choices!`](crate::choices!) does, whose variants may have values, or keys
/// of their own.
#[macro_export]
macro_rules! variants {
    ($($(#[$about:meta])* $visibility:vis enum $name:ident { $($variants:tt)* })+) => {$(
        #[derive(Clone, Debug, PartialEq)]
        #[derive(::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        $(#[$about])*
        $visibility enum $name { $($variants)* }
    )+};
}
