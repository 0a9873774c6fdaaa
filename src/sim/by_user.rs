//! A map from users to what some of them have.

use serde::{Deserialize, Serialize};

use crate::ids::UserId;

/// Values by user, in constant time and in the order of users. Takes a slot for every user up to the largest that it
/// ever held, so large values are better boxed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ByUser<T> {
    slots: Vec<Option<T>>,
    len: usize,
}

impl<T> Default for ByUser<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), len: 0 }
    }
}

impl<T> ByUser<T> {
    /// How many users have a value.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `user` has one.
    pub fn contains_key(&self, user: &UserId) -> bool {
        self.get(user).is_some()
    }

    /// The value of `user`.
    pub fn get(&self, user: &UserId) -> Option<&T> {
        self.slots.get(user.index())?.as_ref()
    }

    /// The value of `user`, to change.
    pub fn get_mut(&mut self, user: &UserId) -> Option<&mut T> {
        self.slots.get_mut(user.index())?.as_mut()
    }

    /// The value of `user`, made by `make` if there is none.
    pub fn get_or_insert_with(&mut self, user: UserId, make: impl FnOnce() -> T) -> &mut T {
        self.grow(user);
        let slot = &mut self.slots[user.index()];
        self.len += usize::from(slot.is_none());
        slot.get_or_insert_with(make)
    }

    /// Gives `user` a value; the one it had.
    pub fn insert(&mut self, user: UserId, value: T) -> Option<T> {
        self.grow(user);
        let before = self.slots[user.index()].replace(value);
        self.len += usize::from(before.is_none());
        before
    }

    /// Takes the value of `user`.
    pub fn remove(&mut self, user: &UserId) -> Option<T> {
        let value = self.slots.get_mut(user.index())?.take();
        self.len -= usize::from(value.is_some());
        value
    }

    /// Users with a value, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (UserId, &T)> {
        self.slots.iter().enumerate().filter_map(|(user, slot)| Some((UserId::from(user), slot.as_ref()?)))
    }

    /// Values in the order of users.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Users with a value, ascending; none is left.
    pub fn drain_keys(&mut self) -> Vec<UserId> {
        let users = self.iter().map(|(user, _)| user).collect();
        *self = Self::default();
        users
    }

    fn grow(&mut self, user: UserId) {
        if self.slots.len() <= user.index() {
            self.slots.resize_with(user.index() + 1, || None);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_an_ordered_map(operations in prop::collection::vec((0u32..12, 0u8..4, any::<u8>()), 0..60)) {
            let mut map = ByUser::default();
            let mut expected = std::collections::BTreeMap::new();
            for (user, operation, value) in operations {
                let user = UserId(user);
                match operation {
                    0 => prop_assert_eq!(map.insert(user, value), expected.insert(user, value)),
                    1 => prop_assert_eq!(map.remove(&user), expected.remove(&user)),
                    2 => prop_assert_eq!(
                        map.get_or_insert_with(user, || value), expected.entry(user).or_insert(value)
                    ),
                    _ => prop_assert_eq!(map.get_mut(&user), expected.get_mut(&user)),
                }
                prop_assert_eq!(map.len(), expected.len());
                prop_assert_eq!(map.is_empty(), expected.is_empty());
                prop_assert_eq!(map.contains_key(&user), expected.contains_key(&user));
                prop_assert!(map.iter().map(|(user, value)| (user, *value)).eq(expected.iter().map(|(u, v)| (*u, *v))));
                prop_assert!(map.values().eq(expected.values()));
            }
            prop_assert!(map.drain_keys().into_iter().eq(expected.into_keys()));
            prop_assert!(map.is_empty());
        }
    }
}
