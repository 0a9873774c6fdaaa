//! Sorts users into classes, between which what travels may differ.

use std::sync::Arc;

use fedrecsim_core::UserId;

/// Numbers the classes of a method's users, from 0, such as those of large and of small devices.
/// Frames of all classes have the same blocks, whose shapes may differ. Most methods have one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(pub u8);

/// Holds the class of each user. By default all are of the first one.
#[derive(Clone, Debug, Default)]
pub struct Classes(Arc<[Class]>);

impl Classes {
    /// Sorts the first users into these classes, and all others into the first one.
    pub fn new(of_users: impl IntoIterator<Item = Class>) -> Self {
        Self(of_users.into_iter().collect())
    }

    /// Returns the class of a user.
    pub fn of(&self, user: UserId) -> Class {
        self.0.get(user.index()).copied().unwrap_or_default()
    }

    /// Lists the classes, which are those up to the last that a user has.
    pub fn all(&self) -> impl Iterator<Item = Class> + use<> {
        let last = self.0.iter().max().copied().unwrap_or_default();
        (0..=last.0).map(Class)
    }
}
