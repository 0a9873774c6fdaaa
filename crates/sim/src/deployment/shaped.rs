//! The coordinator behind the links of its scenario: what it sends, and what devices send, arrives
//! when it would in a simulation.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::{Coordinator, Event, Order, Told};
use crate::invitation::Participant;
use crate::network::ShapedLinks;
use crate::outcome::{ByDirection, Flow, Outcome, RoundRecord};
use fedrecsim_core::legs::{Peer, Route};
use fedrecsim_core::{Error, Result, SimTime};
use fedrecsim_model::codec::FrameParts;

/// A coordinator, and the links between it and the devices. It is used as a coordinator is.
pub struct Shaped {
    coordinator: Coordinator,
    /// The links; `None` if frames go on at once.
    links: Option<ShapedLinks<Held>>,
    /// What has happened and was not handled, since no round was open.
    happened: VecDeque<(SimTime, Event)>,
    round_is_over: bool,
    /// The instants for which the coordinator has set its alarm.
    alarms: BTreeSet<SimTime>,
    /// The instant for which the links have set theirs.
    wakes_at: Option<SimTime>,
}

/// What is held back on a link.
enum Held {
    Order(Order),
    Event(Event),
}

impl Shaped {
    /// Puts the links of the scenario between a coordinator and its devices, unless `shape` is
    /// false.
    pub fn new(coordinator: Coordinator, shape: bool) -> Self {
        let links = shape.then(|| ShapedLinks::new(Arc::clone(coordinator.world())));
        Self {
            coordinator,
            links,
            happened: VecDeque::new(),
            round_is_over: true,
            alarms: BTreeSet::new(),
            wakes_at: None,
        }
    }

    /// As [`Coordinator::is_over`].
    pub fn is_over(&self) -> bool {
        self.coordinator.is_over()
    }

    /// As [`Coordinator::rounds`].
    pub fn rounds(&self) -> u32 {
        self.coordinator.rounds()
    }

    /// As [`Coordinator::save`]. What is held back on the links is not part of it, since it is lost
    /// when the run goes on.
    ///
    /// # Errors
    /// As there.
    pub async fn save(&mut self, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.coordinator.save(write).await
    }

    /// As [`Coordinator::is_under_way`].
    pub fn is_under_way(&self, participant: Participant) -> bool {
        self.coordinator.is_under_way(participant)
    }

    /// Returns the participations of these users whose frames are held back. They are lost with the
    /// connection of their process, whether or not that has carried anything of them.
    pub fn on_links_of(&self, users: Range<u32>) -> Vec<Participant> {
        let links = self.links.iter();
        links
            .flat_map(|links| links.carried_for(users.clone()))
            .collect()
    }

    /// As [`Coordinator::begin_anew`]. Returns the participations of these users, which are to be lost.
    /// What is held back of them is not sent any more.
    ///
    /// # Errors
    /// As there.
    pub fn begin_anew(&mut self, users: Range<u32>, scored: bool) -> Result<Vec<Participant>> {
        let mut lost = self.coordinator.under_way();
        lost.retain(|(user, _)| users.contains(&user.0));
        if let Some(links) = &mut self.links {
            lost.iter().try_for_each(|lost| links.stop(*lost))?;
        }
        self.coordinator.begin_anew(users, scored)?;
        Ok(lost)
    }

    /// As [`Coordinator::begin_round`].
    ///
    /// # Errors
    /// As there.
    pub fn begin_round(&mut self, now: SimTime) -> Result<Vec<Order>> {
        self.round_is_over = false;
        // Orders that come behind the end of a round are nobody's, an alarm among them.
        self.wakes_at = None;
        let begun = self.coordinator.begin_round(now)?;
        let mut orders = Vec::new();
        self.round_is_over = begun.iter().any(|order| matches!(order, Order::EndRound));
        self.advance(now, &mut orders)?;
        self.pass_down(begun, &mut orders)?;
        self.go_on(orders)
    }

    /// As [`Coordinator::happened`].
    ///
    /// # Errors
    /// As there.
    pub fn happened(&mut self, now: SimTime, event: Event) -> Result<Vec<Order>> {
        self.happened.push_back((now, event));
        self.go_on(Vec::new())
    }

    /// As [`Coordinator::end_round`].
    ///
    /// # Errors
    /// As there.
    pub async fn end_round(&mut self) -> Result<(Box<RoundRecord>, ByDirection<Flow>)> {
        self.coordinator.end_round().await
    }

    /// As [`Coordinator::collect`].
    ///
    /// # Errors
    /// As there.
    pub async fn collect(&mut self, now: SimTime, stopped_by: Option<Error>) -> Result<Outcome> {
        self.coordinator.collect(now, stopped_by).await
    }

    /// As [`Coordinator::end`].
    ///
    /// # Errors
    /// As there.
    pub fn end(&mut self, now: SimTime) -> Result<()> {
        self.coordinator.end(now)
    }

    /// Handles what has happened as long as the round is open, and returns what to do.
    fn go_on(&mut self, mut orders: Vec<Order>) -> Result<Vec<Order>> {
        while let Some((now, _)) = self.happened.front() {
            let now = *now;
            self.advance(now, &mut orders)?;
            if self.round_is_over {
                break;
            }
            if let Some((_, event)) = self.happened.pop_front() {
                self.pass_up(now, event, &mut orders)?;
            }
        }
        let next = self.links.as_mut().and_then(ShapedLinks::next);
        if next != self.wakes_at {
            self.wakes_at = next;
            orders.extend(next.map(Order::WakeAt));
        }
        Ok(orders)
    }

    /// Lets frames arrive until `now`, or until the round is over.
    fn advance(&mut self, now: SimTime, orders: &mut Vec<Order>) -> Result<()> {
        while !self.round_is_over
            && let Some(links) = &mut self.links
            && let Some(arrival) = links.advance(now)?
        {
            match arrival.frame {
                Some(Held::Order(order)) => orders.push(order),
                Some(Held::Event(event)) => self.tell(arrival.at, event, orders)?,
                None => {
                    orders.push(Order::Cancel(arrival.participant));
                    let lost = Event::Of(arrival.participant, Told::Lost);
                    self.tell(arrival.at, lost, orders)?;
                }
            }
        }
        Ok(())
    }

    /// Tells the coordinator what has happened, once its frame has come over the links.
    fn pass_up(&mut self, now: SimTime, event: Event, orders: &mut Vec<Order>) -> Result<()> {
        let Some(links) = &mut self.links else {
            return self.tell(now, event, orders);
        };
        let Event::Of(participant, told) = &event else {
            self.coordinator.check_interrupted()?;
            // The alarm that rang may be one of the links, of which the coordinator knows nothing.
            let rang = self.alarms.first().is_some_and(|first| *first <= now);
            self.alarms.retain(|alarm| *alarm > now);
            return match rang {
                true => self.tell(now, event, orders),
                false => Ok(()),
            };
        };
        let participant = *participant;
        let sent = match told {
            Told::Asked(Peer::Server, sent) => Some((Route::ROW_REQUEST, sent)),
            Told::Asked(Peer::ThirdParty, sent) => Some((Route::REQUEST, sent)),
            Told::Uploaded(sent, _) => Some((Route::UPLOAD, sent)),
            Told::Lost | Told::Failed(_) => {
                links.stop(participant)?;
                None
            }
            Told::Received => None,
        };
        let sent = sent.map(|(route, sent)| (route, sent.frame.parts));
        let invitation = self.coordinator.invitation_of(participant);
        match (sent, invitation) {
            // A second frame of a user whose first one is on its way is dropped: no device sends two at once.
            (Some(_), Some(_)) if links.carry_one_of(participant.0) => Ok(()),
            (Some((route, parts)), Some(invitation)) => {
                let from = (participant.0, invitation);
                links.send(from, route, parts, Held::Event(event))
            }
            _ => self.tell(now, event, orders),
        }
    }

    fn tell(&mut self, now: SimTime, event: Event, orders: &mut Vec<Order>) -> Result<()> {
        let then = self.coordinator.happened(now, event)?;
        self.pass_down(then, orders)
    }

    /// Sends the frames of `from` over the links, and hands on the other orders.
    fn pass_down(&mut self, from: Vec<Order>, orders: &mut Vec<Order>) -> Result<()> {
        for order in from {
            let sent = match &order {
                Order::Invite(invite) if invite.frame.bytes.is_empty() => None,
                Order::Invite(invite) => Some((invite.participant, invite.frame.parts)),
                Order::Reply(participant, frame) => Some((*participant, frame.parts)),
                Order::Cancel(participant) => {
                    if let Some(links) = &mut self.links {
                        links.stop(*participant)?;
                    }
                    None
                }
                Order::WakeAt(at) => {
                    self.alarms.insert(*at);
                    None
                }
                Order::EndRound => {
                    self.round_is_over = true;
                    None
                }
                Order::Taken(_) => None,
            };
            match sent {
                Some((participant, parts)) if self.links.is_some() => {
                    self.send(participant, parts, order)?;
                }
                _ => orders.push(order),
            }
        }
        Ok(())
    }

    /// Sends the frame of an order over the links, unless its participation is over.
    fn send(&mut self, participant: Participant, parts: FrameParts, order: Order) -> Result<()> {
        let invitation = self.coordinator.invitation_of(participant);
        let route = self.coordinator.route_of(participant);
        if let (Some(links), Some(invitation), Some(route)) = (&mut self.links, invitation, route) {
            let to = (participant.0, invitation);
            links.send(to, route, parts, Held::Order(order))?;
        }
        Ok(())
    }
}
