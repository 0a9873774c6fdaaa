//! Makes the downloads of MetaMF, each of which is for one user.
//!
//! What costs is to read the weights of the item table's head, which take 27 MB with 1,682 items. They are read once for
//! sixteen users together. Which users are asked for is not known before, but everybody is asked for in ascending order
//! where all take part or are scored; so whoever comes right after a user who was asked for is generated with the next
//! fifteen.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::hypernetwork::{GROUP, Generated, HyperNetwork};
use crate::error::Result;
use crate::ids::UserId;
use crate::method::network;
use crate::method::server::PersonalDownloads;
use crate::model::blocks::Model;
use crate::model::layout::Layout;
use crate::model::table::Table;

/// The most users whose tables are kept until they are asked for, and the number of users that are remembered as asked
/// for. Each of sixteen threads can have a group of its own.
const KEPT: usize = 16 * GROUP;

/// Makes downloads from the networks of one step.
#[derive(Debug)]
pub(super) struct Downloads {
    networks: Arc<HyperNetwork>,
    layout: Layout,
    recent: Mutex<Recent>,
}

/// Remembers who was asked for, and holds what was generated for those who come next.
#[derive(Debug, Default)]
struct Recent {
    asked: VecDeque<u32>,
    made: VecDeque<(u32, Generated)>,
}

impl Recent {
    /// Notes that `user` is asked for. Returns what was generated for it, or whether it follows another one.
    fn ask(&mut self, user: u32) -> Result<Generated, bool> {
        let follows = user.checked_sub(1).is_some_and(|before| self.asked.contains(&before));
        push(&mut self.asked, user);
        match self.made.iter().position(|(made, _)| *made == user).and_then(|place| self.made.remove(place)) {
            Some((_, generated)) => Ok(generated),
            None => Err(follows),
        }
    }
}

fn push<T>(kept: &mut VecDeque<T>, one: T) {
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back(one);
}

impl Downloads {
    pub fn new(networks: Arc<HyperNetwork>, layout: Layout) -> Self {
        Self { networks, layout, recent: Mutex::default() }
    }

    /// Returns what the networks generate for `user`. It does not depend on who was asked for before.
    fn generated(&self, user: u32) -> Generated {
        // A thread that panics leaves nothing half written here.
        let recent = || self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = recent().ask(user);
        match asked {
            Ok(generated) => generated,
            Err(false) => self.networks.generate_one(user),
            Err(true) => {
                let end = (user as usize + GROUP).min(self.networks.shape().users) as u32;
                let mut of_group = Vec::with_capacity(GROUP);
                self.networks.generate(&Vec::from_iter(user..end), |user, generated| of_group.push((user, generated)));
                let mut of_group = of_group.into_iter();
                let first = of_group.next();
                let mut recent = recent();
                of_group.for_each(|made| push(&mut recent.made, made));
                first.map_or_else(|| self.networks.generate_one(user), |(_, generated)| generated)
            }
        }
    }
}

impl PersonalDownloads for Downloads {
    fn download(&self, user: UserId) -> Result<Model> {
        let items = self.networks.shape().item_table();
        let generated = self.generated(user.0);
        let mut tables = vec![Table::new(items, generated.items)];
        tables.extend(network::tables(self.networks.prediction_network(), &generated.network));
        Model::of_tables(self.layout.clone(), tables)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::hypernetwork::HyperShape;
    use super::*;
    use crate::rng::{Purpose, Streams};

    /// If this fails, what a user downloads depends on who downloads before, or on how many tables are kept.
    #[test]
    fn a_download_is_the_same_in_every_order() {
        let shape = HyperShape { users: 600, items: 5, dimension: 4, memory: 3, hidden: 6, item_factors: 2 };
        let mut stream = Streams::new(3).stream(Purpose::GlobalInit, 0, 0);
        let networks = Arc::new(HyperNetwork::new(shape, &mut stream));
        let downloads = Downloads::new(Arc::clone(&networks), Layout::new(Vec::new()));
        let ascending = 0..600u32;
        let scattered = (0..600).map(|user| user * 7 % 600);
        let in_pairs = (0..300).flat_map(|user| [user, user + 300]);
        for user in ascending.chain(scattered).chain(in_pairs).chain([599, 599, 0]) {
            assert_eq!(downloads.generated(user), networks.generate_one(user), "user {user}");
        }
        assert!(downloads.recent.lock().unwrap().made.len() <= KEPT);
    }
}
