//! Users as messages name them.

use std::fmt;

use crate::ids::UserId;

/// A user in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The user.
    pub id: UserId,
    /// The name in the ratings file, if it is known.
    pub name: Option<Box<str>>,
}

impl From<UserId> for Who {
    fn from(id: UserId) -> Self {
        Self { id, name: None }
    }
}

/// The alternate form, for the place beside a bar or in a list, does not say where the name stands.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) if f.alternate() => write!(f, "{} {name:?}", self.id),
            Some(name) => write!(f, "{} ({name:?} in the ratings file)", self.id),
            None => self.id.fmt(f),
        }
    }
}
