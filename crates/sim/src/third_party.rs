//! The third party's actor, which takes requests in as they arrive, and lets the method's third
//! party absorb them when a step of the server is over.
//!
//! It sees the requests and nothing else, and the server sees none of them.

use std::sync::Arc;

use actix::prelude::*;

use super::checkpoints::Save;
use super::consultation;
use super::invitation::Participant;
use super::messages::{AbsorbRequests, AskThirdParty, ConsultThirdParty, RequestArrived};
use super::resident::{Resident, unanswered};
use super::world::World;
use fedrecsim_core::{Error, Result};
use fedrecsim_methods::third_party::ArrivedRequest;
use fedrecsim_methods::{Phase, ThirdParty};
use fedrecsim_model::{Archive, ArchiveReader, ModelUpdate, StateVisitor};

/// The third party's actor.
pub(crate) struct ThirdPartyActor {
    world: Arc<World>,
    /// The third party as participants who are invited now will ask it.
    third_party: Arc<dyn ThirdParty>,
    /// The requests that have arrived since the last step.
    arrived: Vec<(Participant, Phase, ModelUpdate)>,
}

impl ThirdPartyActor {
    /// Makes the actor for a run that begins; `None` if the method has no third party.
    ///
    /// # Errors
    /// [`Error::Update`] if the method has consultations but makes no third party.
    pub(crate) fn new(world: Arc<World>) -> Result<Option<Self>> {
        if !world.has_third_party() {
            return Ok(None);
        }
        let absent = || {
            Error::Update("the method's clients ask a third party, but it makes none".to_owned())
        };
        let third_party = world.method.third_party().ok_or_else(absent)?.into();
        Ok(Some(Self {
            world,
            third_party,
            arrived: Vec::new(),
        }))
    }

    /// Reads the third party's state from a checkpoint.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(crate) fn restore(&mut self, archive: &mut ArchiveReader) -> Result<()> {
        self.state()
            .visit_state(&mut StateVisitor::Restore(archive))
    }

    /// Returns the third party, to be changed. If an earlier participation still needs it as it
    /// was, this makes a copy first.
    fn state(&mut self) -> &mut dyn ThirdParty {
        if Arc::get_mut(&mut self.third_party).is_none() {
            self.third_party = self.third_party.snapshot().into();
        }
        // The copy that was just made has no other owner.
        Arc::get_mut(&mut self.third_party)
            .unwrap_or_else(|| unreachable!("a new copy is held once"))
    }
}

impl Actor for ThirdPartyActor {
    type Context = Context<Self>;
}

impl AskThirdParty for Resident<ThirdPartyActor> {}

impl Handler<ConsultThirdParty> for ThirdPartyActor {
    type Result = Result<Arc<dyn ThirdParty>>;

    fn handle(&mut self, _: ConsultThirdParty, _context: &mut Self::Context) -> Self::Result {
        Ok(Arc::clone(&self.third_party))
    }
}

impl Handler<RequestArrived> for ThirdPartyActor {
    type Result = Result<bool>;

    fn handle(&mut self, arrival: RequestArrived, _context: &mut Self::Context) -> Result<bool> {
        let RequestArrived {
            participant,
            phase,
            frame,
        } = arrival;
        let Some(exchange) = self.world.exchange(phase) else {
            let reason = format!("{} sends a request in a phase without any", participant.0);
            return Err(unanswered("third party", reason));
        };
        let decoded = consultation::decode(&frame, &exchange.request);
        let is_sound = decoded.is_ok();
        self.arrived
            .extend(decoded.map(|update| (participant, phase, update)));
        Ok(is_sound)
    }
}

impl Handler<AbsorbRequests> for ThirdPartyActor {
    type Result = Result<()>;

    fn handle(&mut self, _: AbsorbRequests, _context: &mut Self::Context) -> Result<()> {
        if self.arrived.is_empty() {
            return Ok(());
        }
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.sort_by_key(|(participant, ..)| *participant);
        let requests: Vec<ArrivedRequest<'_>> = arrived
            .iter()
            .map(|((user, invitation_id), phase, update)| ArrivedRequest {
                user: *user,
                invitation_id: *invitation_id,
                phase: *phase,
                update,
            })
            .collect();
        self.state().absorb(&requests)
    }
}

impl Handler<Save> for ThirdPartyActor {
    type Result = Result<Archive>;

    fn handle(&mut self, Save(mut archive): Save, _context: &mut Self::Context) -> Result<Archive> {
        // A checkpoint is made at the end of a step, when every request has been absorbed.
        self.state()
            .visit_state(&mut StateVisitor::Save(&mut archive))?;
        Ok(archive)
    }
}
