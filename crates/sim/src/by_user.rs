//! A map whose keys are users.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use fedrecsim_core::UserId;
use fedrecsim_model::kernel::prefetch;

/// A map from users to values. Finding, adding and removing a value takes constant time.
///
/// It is a sparse set (Briggs and Torczon 1993): it has four bytes for every user up to the largest
/// that it ever held, and the values side by side. So the values of a few users among a million
/// stay in the processor's caches.
#[derive(Clone, Debug)]
pub(crate) struct ByUser<T> {
    /// The position of each user's value among the entries, or [`NOWHERE`].
    places: Vec<u32>,
    entries: Vec<(UserId, T)>,
}

/// Stands for the position of a user that has no value. No entry has it, since there are fewer
/// users than numbers.
const NOWHERE: u32 = u32::MAX;

impl<T> Default for ByUser<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            entries: Vec::new(),
        }
    }
}

impl<T> ByUser<T> {
    /// Returns how many users have a value.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether no user has a value.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether `user` has a value.
    pub(crate) fn contains_key(&self, user: &UserId) -> bool {
        self.place(user).is_some()
    }

    /// Returns the value of `user`.
    pub(crate) fn get(&self, user: &UserId) -> Option<&T> {
        self.place(user).map(|place| &self.entries[place].1)
    }

    /// Returns the value of `user`, to be changed.
    pub(crate) fn get_mut(&mut self, user: &UserId) -> Option<&mut T> {
        self.place(user).map(|place| &mut self.entries[place].1)
    }

    /// Returns the value of `user`, which `make` makes if there is none.
    pub(crate) fn get_or_insert_with(&mut self, user: UserId, make: impl FnOnce() -> T) -> &mut T {
        let place = self
            .place(&user)
            .unwrap_or_else(|| self.append(user, make()));
        &mut self.entries[place].1
    }

    /// Gives `user` a value, and returns the one that it had.
    pub(crate) fn insert(&mut self, user: UserId, value: T) -> Option<T> {
        match self.get_mut(&user) {
            Some(before) => Some(std::mem::replace(before, value)),
            None => {
                self.append(user, value);
                None
            }
        }
    }

    /// Removes the value of `user`, and returns it.
    pub(crate) fn remove(&mut self, user: &UserId) -> Option<T> {
        let place = self.place(user)?;
        self.places[user.index()] = NOWHERE;
        let (_, value) = self.entries.swap_remove(place);
        if let Some((moved, _)) = self.entries.get(place) {
            self.places[moved.index()] = place as u32;
        }
        Some(value)
    }

    /// Returns the users that have a value, in ascending order.
    pub(crate) fn keys(&self) -> Vec<UserId> {
        let mut users: Vec<UserId> = self.entries.iter().map(|(user, _)| *user).collect();
        users.sort_unstable();
        users
    }

    /// Returns the users that have a value, with their values, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (UserId, &T)> {
        self.keys()
            .into_iter()
            .filter_map(|user| Some((user, self.get(&user)?)))
    }

    /// Removes all values, and returns them in the order of users.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (UserId, T)> + use<T> {
        let mut entries = std::mem::take(&mut self.entries);
        entries
            .iter()
            .for_each(|(user, _)| self.places[user.index()] = NOWHERE);
        entries.sort_unstable_by_key(|(user, _)| *user);
        entries.into_iter()
    }

    /// Returns the users that have a value, with their values, in an arbitrary order.
    pub(crate) fn entries(&self) -> &[(UserId, T)] {
        &self.entries
    }

    /// Removes all values. The memory is kept.
    pub(crate) fn clear(&mut self) {
        self.entries
            .drain(..)
            .for_each(|(user, _)| self.places[user.index()] = NOWHERE);
    }

    /// Asks the processor to bring the value of `user` into the cache, if there is one.
    pub(crate) fn prefetch(&self, user: &UserId) {
        if let Some(place) = self.place(user) {
            prefetch(&self.entries[place..=place]);
        }
    }

    fn place(&self, user: &UserId) -> Option<usize> {
        self.places
            .get(user.index())
            .filter(|place| **place != NOWHERE)
            .map(|place| *place as usize)
    }

    /// Adds a user that has no value yet, and returns its position.
    fn append(&mut self, user: UserId, value: T) -> usize {
        if self.places.len() <= user.index() {
            self.places.resize(user.index() + 1, NOWHERE);
        }
        let place = self.entries.len();
        self.places[user.index()] = place as u32;
        self.entries.push((user, value));
        place
    }
}

/// Two maps are equal if the same users have the same values, added in any order.
impl<T: PartialEq> PartialEq for ByUser<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .entries
                .iter()
                .all(|(user, value)| other.get(user) == Some(value))
    }
}

/// A map is stored as a list in the order of users, so that equal maps give equal bytes.
impl<T: Serialize> Serialize for ByUser<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_unstable_by_key(|(user, _)| *user);
        entries.serialize(serializer)
    }
}

impl<'a, T: Deserialize<'a>> Deserialize<'a> for ByUser<T> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        let mut map = Self::default();
        for (user, value) in Vec::<(UserId, T)>::deserialize(deserializer)? {
            map.insert(user, value);
        }
        Ok(map)
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
                prop_assert!(map.keys().iter().eq(expected.keys()));
            }
            let bytes = postcard::to_stdvec(&map)?;
            prop_assert_eq!(&bytes, &postcard::to_stdvec(&expected.iter().collect::<Vec<_>>())?);
            prop_assert_eq!(&postcard::from_bytes::<ByUser<u8>>(&bytes)?, &map);
            let mut entries = map.entries().to_vec();
            entries.sort_unstable();
            prop_assert!(entries.into_iter().eq(expected.clone()));
            let mut cleared = map.clone();
            cleared.clear();
            prop_assert!(cleared.is_empty() && (0..12).all(|user| !cleared.contains_key(&UserId(user))));
            prop_assert!(map.drain().eq(expected));
            prop_assert!(map.is_empty() && (0..12).all(|user| !map.contains_key(&UserId(user))));
        }
    }
}
