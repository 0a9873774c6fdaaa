//! Dense identifiers. Users and items are renumbered from zero when a data set is read, so an
//! identifier is also an index.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the identifier as an index into arrays with one entry for each.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            /// Makes an identifier from an index. Data sets with 2^32 entities or more are refused
            /// on reading, so the cast is exact.
            fn from(index: usize) -> Self {
                debug_assert!(u32::try_from(index).is_ok());
                Self(index as u32)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

dense_id!(
    /// A user, numbered from zero in the order of first appearance in the data.
    UserId,
    "user"
);
dense_id!(
    /// An item, numbered from zero in the order of first appearance in the data.
    ItemId,
    "item"
);
dense_id!(
    /// A communication round, numbered from zero; reports count from one.
    Round,
    "round"
);
dense_id!(
    /// A step of the server, numbered from zero. A round of the report has one or more.
    Step,
    "step"
);
dense_id!(
    /// The users who were invited at the same time, numbered from zero. In synchronous modes a
    /// round has one such invitation, of the same number. In asynchronous modes a round may have
    /// many, and (user, invitation) still names one participation.
    InvitationId,
    "invitation"
);
