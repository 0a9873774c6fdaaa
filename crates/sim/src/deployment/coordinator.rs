//! The server of a run in real time: it is told what has happened, and says what to send.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use actix::Addr;

use super::arrivals::Arrivals;
use super::participation::Participation;
use super::{Event, Order, Sent, Told};
use crate::by_user::ByUser;
use crate::cast::Cast;
use crate::consultation::ReplySource;
use crate::download::RestoredDownloads;
use crate::invitation::{Invitation, Participant};
use crate::messages::{Collect, News, Orders, RequestArrived};
use crate::metrics::MetricsActor;
use crate::outcome::{
    Booking, ByDirection, Ending, Flow, Gauges, LinkEvent, LossCause, Outcome, RoundRecord,
    SplitAccuracy,
};
use crate::resident::{answer_of_metrics, unanswered};
use crate::rounds::Rounds;
use crate::stop::Stop;
use crate::upload::Upload;
use crate::workers::{Pool, Workers};
use crate::world::World;
use fedrecsim_core::legs::{Peer, Route};
use fedrecsim_core::{Error, Result, SimTime, UserId};
use fedrecsim_methods::Placement;
use fedrecsim_model::ArchiveReader;
use fedrecsim_scenario::Stragglers;

/// The server's actors, and the rounds that they are in. Its owner has the clock and the
/// connections, and tells it what has happened and when, in the order of time.
///
/// It runs on the thread that started it, which must be one of an actix system.
pub struct Coordinator {
    world: Arc<World>,
    rounds: Rounds,
    /// The instant of the last event. What came earlier and is handled later happens then.
    now: SimTime,
    metrics: Addr<MetricsActor>,
    taking_part: ByUser<Participation>,
    /// Where it writes what it is told.
    arrivals: Option<Arrivals>,
    /// What has happened in the open round.
    bookings: Vec<Booking>,
    /// The instants for which it has set its alarm.
    alarms: BTreeSet<SimTime>,
    /// Whether the alarms of a checkpoint have to be set again.
    sets_alarms_again: bool,
    /// The bytes of the file of arrivals up to the checkpoint that it goes on from.
    recorded_bytes: u64,
    baselines: BTreeMap<String, SplitAccuracy>,
    is_settled: bool,
}

/// Checks that the devices of `world` can be other processes. A server asks before it waits for them.
///
/// # Errors
/// [`Error::Usage`] for a method that does not train on devices, for newcomers, and for a mode in which devices
/// train while others are scored, if they ask for something then.
pub fn check(world: &World) -> Result<()> {
    if !matches!(world.placement, Placement::Federated | Placement::Assisted) {
        let name = &world.scenario.method.name;
        return Err(Error::Usage(format!(
            "`{name}` trains nothing on devices, so that there is nothing to deploy; `run` runs it"
        )));
    }
    if world.joins.is_some() {
        return Err(Error::Usage(
            "joins: in real time users come when their devices do, and devices know all of their ratings; `run` \
             simulates newcomers"
                .to_owned(),
        ));
    }
    let asks = world.has_third_party() || world.downloads_asked_rows();
    let policy = &world.policy;
    if asks && !policy.waits_for_everybody() && policy.stragglers == Stragglers::Late {
        // Devices are scored when none of them trains, and here one may wait for a reply then.
        let policy = &policy.name;
        return Err(Error::Usage(format!(
            "under the policy `{policy}` devices train while others are scored, which cannot be \
             deployed where they ask for rows or a third party; take a mode that waits for its \
             cohort, or cancels the rest"
        )));
    }
    Ok(())
}

impl Coordinator {
    /// Starts the actors of `world`, with threads for the server's own work. `workers` score the
    /// devices, wherever these are. If it goes on from a checkpoint, what was under way then is to
    /// be lost ([`Self::under_way`]).
    ///
    /// # Errors
    /// Those of [`check`] and of the workers, and [`Error::Unrestorable`] for something else than a
    /// checkpoint of this run.
    pub async fn start(
        world: Arc<World>,
        threads: usize,
        interrupted: Arc<AtomicBool>,
        workers: impl FnOnce(Arc<World>, Pool) -> Rc<dyn Workers>,
        mut resumed: Option<ArchiveReader>,
    ) -> Result<Self> {
        check(&world)?;
        let cast = Cast::start(&world, threads, workers, &mut resumed).await?;
        let mut coordinator = Self {
            rounds: Rounds::new(Arc::clone(&world), cast.peers, interrupted),
            world,
            now: SimTime::ZERO,
            metrics: cast.metrics,
            taking_part: ByUser::default(),
            arrivals: None,
            bookings: Vec::new(),
            alarms: BTreeSet::new(),
            sets_alarms_again: false,
            recorded_bytes: 0,
            baselines: cast.baselines,
            is_settled: cast.is_settled,
        };
        if let Some(mut archive) = resumed {
            coordinator.restore(&mut archive, cast.downloads)?;
        }
        Ok(coordinator)
    }

    /// Writes a checkpoint of the state between two rounds, in pieces.
    ///
    /// # Errors
    /// Those of `write` and of the devices' processes, and defects of the simulator.
    pub async fn save(&mut self, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let recorded = self.arrivals.as_mut().map(Arrivals::flush);
        let recorded_bytes = recorded.transpose()?.unwrap_or_default();
        let mut write = |piece: Vec<u8>| write(&piece);
        let mut archive = self.rounds.saved(&mut write).await?;
        archive.put(&(self.rounds.over(), self.now, recorded_bytes, &self.alarms));
        archive.put(&(self.taking_part.len() as u64));
        for (_, participation) in self.taking_part.iter() {
            participation.save(&mut archive)?;
        }
        write(archive.take()?)
    }

    /// Takes over what [`Self::save`] has appended.
    fn restore(
        &mut self,
        archive: &mut ArchiveReader,
        mut downloads: RestoredDownloads,
    ) -> Result<()> {
        let over: u32;
        (over, self.now, self.recorded_bytes, self.alarms) = archive.take()?;
        self.rounds.resume_after(over);
        self.sets_alarms_again = true;
        let count: u64 = archive.take()?;
        for _ in 0..count {
            let participation = Participation::restore(archive, &mut downloads, &self.world)?;
            self.taking_part
                .insert(participation.participant().0, participation);
        }
        Ok(())
    }

    /// Returns the instant of the last event.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Returns the bytes of the file of arrivals up to the checkpoint that it went on from; 0 if it
    /// did not.
    pub fn recorded_bytes(&self) -> u64 {
        self.recorded_bytes
    }

    /// Returns the participations that are under way.
    pub fn under_way(&self) -> Vec<Participant> {
        let all = self.taking_part.iter();
        all.map(|(_, participation)| participation.participant())
            .collect()
    }

    /// Writes what it is told from now on.
    pub fn record(&mut self, arrivals: Arrivals) {
        self.arrivals = Some(arrivals);
    }

    /// Returns how many rounds are over.
    pub fn rounds(&self) -> u32 {
        self.rounds.over()
    }

    /// Returns whether the run is over, since its last round is.
    pub fn is_over(&self) -> bool {
        self.is_settled || self.rounds.over() >= self.world.scenario.training.rounds
    }

    /// Returns whether this participation is under way.
    pub fn is_under_way(&self, participant: Participant) -> bool {
        self.invitation_of(participant).is_some()
    }

    /// Returns the invitation of a participation that is under way.
    pub(super) fn invitation_of(&self, participant: Participant) -> Option<&Invitation> {
        let of_user = self.taking_part.get(&participant.0);
        let participation = of_user.filter(|of_user| of_user.participant() == participant);
        participation.map(|participation| &participation.invitation)
    }

    /// Returns the route of the frame that is on its way to the device of a participation.
    pub(super) fn route_of(&self, participant: Participant) -> Option<Route> {
        self.taking_part.get(&participant.0)?.route()
    }

    pub(super) fn world(&self) -> &Arc<World> {
        &self.world
    }

    pub(super) fn check_interrupted(&self) -> Result<()> {
        self.rounds.check_interrupted()
    }

    /// Begins the next round.
    ///
    /// # Errors
    /// Everything that ends a run, and defects of the simulator.
    pub fn begin_round(&mut self, now: SimTime) -> Result<Vec<Order>> {
        let now = self.move_to(now);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.round(now)?;
        }
        self.rounds.open(now);
        let mut orders = Vec::new();
        if std::mem::take(&mut self.sets_alarms_again) {
            orders.extend(self.alarms.iter().map(|alarm| Order::WakeAt(*alarm)));
        }
        self.go_on(now, Orders::default(), &mut orders)?;
        Ok(orders)
    }

    /// Ends the round whose last step is made, has the devices scored, and returns what was counted
    /// in it with the bytes of the run so far.
    ///
    /// # Errors
    /// Those of the devices, and defects of the simulator.
    pub async fn end_round(&mut self) -> Result<(Box<RoundRecord>, ByDirection<Flow>)> {
        let bookings = std::mem::take(&mut self.bookings);
        let watched = (Gauges::default(), None);
        let booked = self.rounds.end(self.now, watched, bookings).await?;
        self.is_settled = booked.is_settled;
        Ok((Box::new(booked.record?), booked.total))
    }

    /// Moves the clock, which does not go back.
    fn move_to(&mut self, now: SimTime) -> SimTime {
        self.now = self.now.max(now);
        self.now
    }

    /// Takes note that the devices of these users begin anew, since they have lost what they had. What
    /// is under way with them has to be lost before anything else happens. `scored` says whether they
    /// had been scored after the last round by then. It happens at the instant of the last event, so that it moves no time of a
    /// round that is ending.
    ///
    /// # Errors
    /// Those of recording it.
    pub fn begin_anew(&mut self, users: Range<u32>, scored: bool) -> Result<()> {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.anew(self.now, &users, scored)?;
        }
        self.rounds.forget(users);
        Ok(())
    }

    /// Takes in what has happened to a participation, and returns what to do. What comes from one
    /// that is over changes nothing.
    ///
    /// # Errors
    /// As [`Self::begin_round`], and the error of a training that failed.
    pub fn happened(&mut self, now: SimTime, event: Event) -> Result<Vec<Order>> {
        self.rounds.check_interrupted()?;
        let now = self.move_to(now);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.event(now, &event)?;
        }
        let mut orders = Vec::new();
        let of_server = match event {
            Event::AlarmRings => {
                self.alarms.retain(|alarm| *alarm > now);
                self.rounds.tell_server(now, News::AlarmRings)?
            }
            Event::Of(participant, told) if !self.is_under_way(participant) => {
                if let Told::Asked(..) = told {
                    // Its training waits for a reply that does not come.
                    orders.push(Order::Cancel(participant));
                }
                return Ok(orders);
            }
            Event::Of((user, _), told) => self.told(now, user, told, &mut orders)?,
        };
        self.go_on(now, of_server, &mut orders)?;
        Ok(orders)
    }

    fn told(
        &mut self,
        now: SimTime,
        user: UserId,
        told: Told,
        orders: &mut Vec<Order>,
    ) -> Result<Orders> {
        let absent = || unanswered("network", format!("{user} takes no part"));
        let participation = self.taking_part.get_mut(&user).ok_or_else(absent)?;
        match told {
            Told::Received => {
                let booked = participation.received(now, &self.world);
                if booked.is_none() {
                    return self.lose(now, user);
                }
                self.book_all(now, user, booked);
                Ok(Orders::default())
            }
            Told::Asked(peer, sent) => self.asked(now, user, (peer, sent), orders),
            Told::Uploaded(sent, loss) => self.uploaded(now, user, (sent, loss), orders),
            Told::Lost => self.lose(now, user),
            Told::Failed(error) => Err(error),
        }
    }

    /// Answers a request. One that the peer cannot read loses the participation.
    fn asked(
        &mut self,
        now: SimTime,
        user: UserId,
        (peer, sent): (Peer, Sent),
        orders: &mut Vec<Order>,
    ) -> Result<Orders> {
        let Some(participation) = self.taking_part.get_mut(&user) else {
            return Ok(Orders::default());
        };
        let (participant, frame) = (participation.participant(), sent.frame.bytes.clone());
        let phase = participation.invitation.download.phase();
        let came = participation.asked(now, peer, &sent);
        let arrived = RequestArrived {
            participant,
            phase,
            frame: frame.clone(),
        };
        if came.is_none() || !self.rounds.request_arrived(peer, arrived)? {
            orders.push(Order::Cancel(participant));
            return self.lose(now, user);
        }
        let (reply, work) = match (peer, &participation.reply_source) {
            (Peer::ThirdParty, Some(source)) => {
                source.reply(participant, phase, &frame, &self.world)?
            }
            _ => {
                let download = &participation.invitation.download;
                (download.answer(&frame, participant)?, Default::default())
            }
        };
        let replied = participation.replied(now, peer, (reply.parts, work));
        let booked = came.into_iter().flatten().chain(replied).collect();
        self.book_all(now, user, Some(booked));
        orders.push(Order::Reply(participant, reply));
        Ok(Orders::default())
    }

    /// Hands an upload to the server. The device learns whether its training takes effect.
    fn uploaded(
        &mut self,
        now: SimTime,
        user: UserId,
        (sent, loss): (Sent, f64),
        orders: &mut Vec<Order>,
    ) -> Result<Orders> {
        let Some(mut participation) = self.taking_part.remove(&user) else {
            return Ok(Orders::default());
        };
        let participant = participation.participant();
        let Some(came) = participation.uploaded(now, &sent) else {
            self.taking_part.insert(user, participation);
            return self.lose(now, user);
        };
        let upload = Upload::saved(sent.frame, loss);
        let receipt = self.rounds.upload_arrived(now, participant, upload)?;
        if receipt.ending.is_arrival() {
            orders.push(Order::Taken(participant));
        } else {
            self.rounds.count_lost(LossCause::Dropout);
            orders.push(Order::Cancel(participant));
        }
        let ended = participation.ended(now, receipt.ending);
        let booked = came.into_iter().chain(ended);
        book(&mut self.bookings, now, participant, booked);
        receipt.orders
    }

    /// Ends a participation that is lost, and tells the server.
    fn lose(&mut self, now: SimTime, user: UserId) -> Result<Orders> {
        let Some(participation) = self.taking_part.remove(&user) else {
            return Ok(Orders::default());
        };
        let participant = participation.participant();
        let ended = participation.ended(now, Ending::Lost);
        book(&mut self.bookings, now, participant, ended);
        // A connection that breaks is to the server what a device is that drops out.
        self.rounds.lost(now, participant, LossCause::Dropout)
    }

    fn book_all(&mut self, now: SimTime, user: UserId, booked: Option<Vec<LinkEvent>>) {
        if let Some(participation) = self.taking_part.get(&user) {
            let participant = participation.participant();
            let booked = booked.into_iter().flatten();
            book(&mut self.bookings, now, participant, booked);
        }
    }

    /// Carries out the server's orders, and makes its steps as long as they are due. A round must be
    /// open: what comes between two rounds has to wait for the next one.
    fn go_on(
        &mut self,
        now: SimTime,
        mut of_server: Orders,
        orders: &mut Vec<Order>,
    ) -> Result<()> {
        while self.rounds.step().is_some() {
            if let Some(begun) = self.rounds.begin_step(now)? {
                of_server = begun;
            }
            for alarm in of_server.deadline.into_iter().chain(of_server.alarm) {
                self.alarms.insert(alarm);
                orders.push(Order::WakeAt(alarm));
            }
            if let Some((invitation, cohort)) = of_server.invitation.take() {
                self.invite(now, &invitation, &cohort, orders)?;
            }
            if !of_server.step_due {
                return Ok(());
            }
            for user in self.rounds.end_step()? {
                if let Some(participation) = self.taking_part.remove(&user) {
                    self.rounds.cancelled();
                    let participant = participation.participant();
                    let ended = participation.ended(now, Ending::Cancelled);
                    book(&mut self.bookings, now, participant, ended);
                    orders.push(Order::Cancel(participant));
                }
            }
            of_server = Orders::default();
        }
        orders.push(Order::EndRound);
        Ok(())
    }

    fn invite(
        &mut self,
        now: SimTime,
        invitation: &Invitation,
        cohort: &[UserId],
        orders: &mut Vec<Order>,
    ) -> Result<()> {
        self.rounds.invited(cohort.len());
        let reply_source: Option<ReplySource> = self.rounds.reply_source()?;
        for user in invitation.line_of(cohort, self.world.streams) {
            let reply_source = reply_source.clone();
            let participation = Participation::new(user, invitation.clone(), reply_source);
            let (participation, frame, began) = participation.begun(now, &self.world)?;
            let participant = participation.participant();
            book(&mut self.bookings, now, participant, began);
            self.taking_part.insert(user, participation);
            orders.push(Order::Invite(super::Invite {
                participant,
                step: invitation.step,
                number: invitation.download.number(),
                phase: invitation.download.phase(),
                frame,
            }));
        }
        Ok(())
    }

    /// Ends the file of what it was told. Devices may have begun anew until the run was collected, and
    /// that has to be in it.
    ///
    /// # Errors
    /// Those of writing.
    pub fn end(&mut self, now: SimTime) -> Result<()> {
        let now = self.move_to(now);
        let arrivals = self.arrivals.take();
        arrivals.map_or(Ok(()), |arrivals| arrivals.end(now))
    }

    /// Ends the run, and returns its outcome. `stopped_by` is what ended it before its last round.
    ///
    /// # Errors
    /// Defects of the simulator.
    pub async fn collect(&mut self, now: SimTime, stopped_by: Option<Error>) -> Result<Outcome> {
        let now = self.move_to(now);
        for (_, participation) in self.taking_part.drain() {
            let participant = participation.participant();
            let ended = participation.ended(now, Ending::Unfinished);
            book(&mut self.bookings, now, participant, ended);
        }
        self.rounds.book(std::mem::take(&mut self.bookings)).await?;
        let mut stopped_by =
            stopped_by.or_else(|| (!self.is_over()).then(|| Stop::Stopped { at: now }.into()));
        let unfinished = self.rounds.unfinished();
        let collect = |private_parameters| {
            answer_of_metrics(self.metrics.send(Collect {
                private_parameters,
                unfinished: unfinished.clone(),
            }))
        };
        let outcome = match collect(stopped_by.is_none()).await {
            // What devices keep cannot be asked any more, and the rounds are there.
            Err(error) if stopped_by.is_none() && error.leaves_a_result() => {
                stopped_by = Some(error);
                collect(false).await?
            }
            collected => collected?,
        };
        Ok(Outcome {
            baselines: std::mem::take(&mut self.baselines),
            stopped_by,
            ..outcome
        })
    }
}

fn book(
    bookings: &mut Vec<Booking>,
    at: SimTime,
    (user, invitation_id): Participant,
    events: impl IntoIterator<Item = LinkEvent>,
) {
    bookings.extend(events.into_iter().map(|event| Booking {
        at,
        invitation_id,
        user,
        event,
    }));
}
