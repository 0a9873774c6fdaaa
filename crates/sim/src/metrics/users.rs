//! The accounts of single users, which are kept where the scenario wants them in the report.

use super::MetricsActor;
use crate::by_user::ByUser;
use crate::evaluation::Scored;
use crate::outcome::{
    DeviceBytes, Ending, ItemRecord, LinkEvent, UserAccount, UserRecord, handled_bytes,
};
use fedrecsim_core::legs::Route;
use fedrecsim_core::{Result, UserId};
use fedrecsim_model::archive::damaged;

/// The accounts of users by user.
pub(super) type Accounts = ByUser<UserAccount>;

impl UserAccount {
    /// Books an event of the user.
    pub(super) fn book(&mut self, event: &LinkEvent) {
        match *event {
            LinkEvent::Sent(Route::DOWNLOAD | Route::ROW_REQUEST, _) | LinkEvent::WorkBegan(_) => {
                self.invited += 1
            }
            LinkEvent::Sent(..) | LinkEvent::InLine(_) | LinkEvent::Connected(_) => {}
            LinkEvent::TransferEnded { route, ending, .. } => {
                if route == Route::UPLOAD || ending != Ending::Done {
                    self.end(ending);
                }
            }
            LinkEvent::WorkEnded { ending, .. } => {
                if ending != Ending::Done {
                    self.end(ending);
                }
            }
        }
    }

    /// Books that a participation of the user ends.
    fn end(&mut self, ending: Ending) {
        *match ending {
            Ending::Done => &mut self.completed,
            Ending::Late => &mut self.late,
            Ending::Stale => &mut self.stale,
            Ending::Lost => &mut self.lost,
            Ending::Cancelled => &mut self.cancelled,
            Ending::Unfinished => &mut self.under_way,
        } += 1;
    }
}

impl MetricsActor {
    /// Books what the devices of evaluated users would download in order to score, as after the
    /// latest evaluation.
    pub(super) fn book_inference(&mut self, users: &[UserId], scored: &[Scored]) {
        let Some(accounts) = &mut self.accounts else {
            return;
        };
        for (user, scored) in users.iter().zip(scored) {
            accounts
                .get_or_insert_with(*user, UserAccount::default)
                .inference_bytes = scored.download_bytes;
        }
    }

    /// Returns the bytes of each of `users` devices.
    pub(super) fn device_bytes(&self, users: usize) -> DeviceBytes {
        DeviceBytes::of(
            self.ledger
                .clients()
                .map(|(_, bytes)| handled_bytes(&bytes))
                .collect(),
            users,
        )
    }

    /// Returns the totals of every one of `users` users, in the order of users, if they are kept.
    pub(super) fn user_records(&self, users: usize) -> Option<Vec<UserRecord>> {
        let accounts = self.accounts.as_ref()?;
        let record = |user: UserId| {
            let bytes = self.ledger.of_client(&user).unwrap_or_default();
            UserRecord {
                user,
                name: self.world.dataset.user_name(user).into_owned(),
                bytes,
                account: accounts.get(&user).copied().unwrap_or_default(),
                test: None,
            }
        };
        let mut records: Vec<_> = (0..users).map(|user| record(UserId::from(user))).collect();
        let evaluated = self.world.candidates.evaluated_users();
        // Newcomers, and those who are judged by a new item, have figures of their own, and no round that
        // all of them are judged by.
        let tests = evaluated.iter().zip(self.tests.users());
        for (user, test) in tests.filter(|(user, _)| !self.world.is_apart(**user)) {
            records[user.index()].test = Some(test);
        }
        Some(records)
    }

    /// Returns every item, in the order of items.
    pub(super) fn item_records(&self) -> Vec<ItemRecord> {
        let dataset = &self.world.dataset;
        let record = |(item, ratings): (u32, u32)| ItemRecord {
            item,
            name: dataset.item_name(item).into_owned(),
            ratings,
            popularity: f64::from(ratings) / dataset.users() as f64,
        };
        (0..).zip(dataset.popularity()).map(record).collect()
    }

    /// Takes over the accounts of a checkpoint.
    ///
    /// # Errors
    /// `Error::Unrestorable` if it has accounts and this run keeps
    /// none, or the other way round.
    pub(super) fn restore_accounts(&mut self, saved: Option<Accounts>) -> Result<()> {
        match (saved, &mut self.accounts) {
            (None, None) => Ok(()),
            (Some(saved), Some(accounts)) => {
                *accounts = saved;
                Ok(())
            }
            (Some(_), None) => Err(damaged(
                "it has accounts of users, and `report.users_csv_limit` wants none",
            )),
            (None, Some(_)) => Err(damaged(
                "it has no accounts of users, and `report.users_csv_limit` wants them",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::legs::Job;
    use fedrecsim_core::work::Work;
    use fedrecsim_model::codec::FrameParts;

    /// If this fails, a participation is counted twice or not at all, or for another fate than its
    /// own.
    #[test]
    fn every_participation_has_one_beginning_and_one_end() {
        let parts = FrameParts {
            header: 1,
            index: 0,
            values: 0,
            modelled: 0,
        };
        let moved = |route, ending| LinkEvent::TransferEnded {
            route,
            ending,
            carried: 1,
            received: true,
            took_ns: 10,
        };
        let worked = |ending| LinkEvent::WorkEnded {
            job: Job::Training,
            ending,
            work: Work::default(),
            took_ns: 5,
        };
        let mut account = UserAccount::default();
        for ending in Ending::ALL {
            for event in [
                LinkEvent::Sent(Route::DOWNLOAD, parts),
                moved(Route::DOWNLOAD, Ending::Done),
                worked(Ending::Done),
                LinkEvent::Sent(Route::UPLOAD, parts),
                moved(Route::UPLOAD, ending),
            ] {
                account.book(&event);
            }
        }
        for event in [LinkEvent::WorkBegan(Job::Training), worked(Ending::Lost)] {
            account.book(&event);
        }
        let UserAccount {
            completed,
            late,
            stale,
            lost,
            cancelled,
            under_way,
            ..
        } = account;
        assert_eq!(
            [completed, late, stale, lost, cancelled, under_way],
            [1, 1, 1, 2, 1, 1]
        );
        assert_eq!(account.invited, 7);
    }
}
