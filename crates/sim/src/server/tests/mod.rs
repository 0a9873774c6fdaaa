//! Tests of what a step waits for, and what it makes of what arrives.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::Stop;
use crate::tests::small;
use crate::upload::Upload;
use crate::workers::Pool;
use fedrecsim_core::{InvitationId, SimDuration, SimTime};
use fedrecsim_model::codec::Codec;
use fedrecsim_model::{Model, SharedTable, Table, TableUpdate, ValueType};
use fedrecsim_scenario::CodecName;

mod modes;
mod resumed;
mod selection;

pub(super) fn server(overrides: &[&str]) -> ServerActor {
    ServerActor::new(small::world(overrides), Pool::start(1).unwrap())
}

impl ServerActor {
    /// Returns the table of FedMF's model.
    fn table(&self) -> SharedTable {
        Arc::clone(self.server.model().table(0))
    }
}

/// A server that a test sends messages to, with the virtual time.
struct Conversation {
    server: ServerActor,
    now: SimTime,
    context: Context<ServerActor>,
}

impl Conversation {
    fn with(overrides: &[&str]) -> Self {
        Self {
            server: server(overrides),
            now: SimTime::ZERO,
            context: Context::new(),
        }
    }

    fn news(&self, news: News) -> Happened {
        Happened {
            now: self.now,
            news,
        }
    }

    fn begin(&mut self, step: u32) -> Orders {
        let began = self.news(News::StepBegins(Step(step)));
        self.server.handle(began, &mut self.context).unwrap()
    }

    /// Uploads a table that has this value everywhere.
    fn upload(&mut self, user: u32, invitation_id: u32, value: f32) -> (Ending, Orders) {
        let table = Table::from_fn(self.server.table().shape(), || value);
        let frame =
            CodecName::DenseF32.encode(&TableUpdate::whole(table.clone()), &self.server.table());
        let arrival = UploadArrived {
            participant: (UserId(user), InvitationId(invitation_id)),
            upload: Upload::encoded(frame, 0.0),
            now: self.now,
        };
        let Receipt { ending, orders } = self.server.handle(arrival, &mut self.context).unwrap();
        (ending, orders.unwrap())
    }

    /// Uploads a frame of a rows codec, with this value everywhere or with the table as it was
    /// downloaded.
    fn upload_rows(&mut self, user: u32, invitation_id: u32, value: Option<f32>) {
        let table = self.server.table();
        let update = match value {
            Some(value) => TableUpdate::whole(Table::from_fn(table.shape(), || value)),
            None => TableUpdate::nothing(table.shape(), ValueType::F32),
        };
        let frame = CodecName::RowsF32.encode(&update, &table);
        let arrival = UploadArrived {
            participant: (UserId(user), InvitationId(invitation_id)),
            upload: Upload::encoded(frame, 0.0),
            now: self.now,
        };
        let receipt = self.server.handle(arrival, &mut self.context).unwrap();
        assert_eq!(receipt.ending, Ending::Done);
    }

    /// Rings the alarm this many seconds after the beginning of the run.
    fn ring(&mut self, seconds: f64) -> Orders {
        self.now = instant(seconds);
        let rings = self.news(News::AlarmRings);
        self.server.handle(rings, &mut self.context).unwrap()
    }

    fn lose(&mut self, user: u32, invitation_id: u32) -> Orders {
        let participant = (UserId(user), InvitationId(invitation_id));
        let lost = self.news(News::ParticipationLost(participant));
        self.server.handle(lost, &mut self.context).unwrap()
    }

    fn close(&mut self) -> StepOutcome {
        self.server
            .handle(CloseStep { ends_round: true }, &mut self.context)
            .unwrap()
    }
}

fn instant(seconds: f64) -> SimTime {
    SimTime::ZERO + SimDuration::from_secs_f64(seconds)
}

fn invited(orders: &Orders) -> Vec<u32> {
    orders
        .invitation
        .iter()
        .flat_map(|(_, cohort)| cohort)
        .map(|user| user.0)
        .collect()
}

/// If this fails, a step ends before its participations do, or it never ends.
#[test]
fn a_synchronous_step_is_complete_with_the_last_of_its_participations() {
    let mut talk = Conversation::with(&["training.participation={ cohort = 3 }"]);
    let orders = talk.begin(0);
    let cohort = invited(&orders);
    assert_eq!((cohort.len(), orders.step_due), (3, false));
    assert!(!talk.upload(cohort[1], 0, 1.0).1.step_due);
    assert!(!talk.lose(cohort[0], 0).step_due);
    let last = talk.upload(cohort[2], 0, 2.0);
    assert_eq!((last.0, last.1.step_due), (Ending::Done, true));
    let outcome = talk.close();
    assert_eq!(outcome.aggregated, 2);
    assert!(
        outcome
            .model
            .as_ref()
            .unwrap()
            .0
            .table(0)
            .as_slice()
            .iter()
            .all(|value| *value == 1.5)
    );
    assert!(
        Arc::ptr_eq(
            outcome.model.as_ref().unwrap().0.table(0),
            &talk.server.table()
        ),
        "the next step starts from it"
    );
}

#[test]
fn a_share_of_the_users_is_rounded_to_the_nearest_number_of_them() {
    let invited = |participation: &str| {
        invited(&Conversation::with(&[&format!("training.participation={participation}")]).begin(0))
            .len()
    };
    assert_eq!(invited("\"all\""), 21);
    assert_eq!(invited("{ share = 0.5 }"), 11, "10.5 of 21");
    assert_eq!(invited("{ share = 0.49 }"), 10, "10.29 of 21");
    assert_eq!(
        invited("{ share = 0.001 }"),
        1,
        "a step of nobody teaches nothing"
    );
    assert_eq!(invited("{ share = 1.0 }"), 21);
    assert_eq!(invited("{ cohort = 20 }"), 20);
    assert_eq!(invited("{ cohort = 21 }"), 21, "as many as there are");
}

#[test]
fn an_empty_step_leaves_the_model_as_it_is_and_too_many_of_them_end_the_run() {
    let limits = ["training.empty_rounds_limit=2", "training.rounds=3"];
    let mut talk =
        Conversation::with(&[&["training.participation={ cohort = 1 }"], &limits[..]].concat());
    let before = talk.server.table();
    for step in 0..2 {
        let user = invited(&talk.begin(step))[0];
        assert!(talk.lose(user, step).step_due);
        let outcome = talk.close();
        assert_eq!(outcome.aggregated, 0);
        assert!(
            Arc::ptr_eq(outcome.model.as_ref().unwrap().0.table(0), &before),
            "it must not even pass it through the downlink's codec"
        );
    }
    let began = talk.news(News::StepBegins(Step(2)));
    let ended = talk.server.handle(began, &mut talk.context).unwrap_err();
    assert!(
        matches!(
            ended.ended_by(),
            Some(Stop::NobodyFinished { steps: 2, .. })
        ),
        "{ended}"
    );
}
