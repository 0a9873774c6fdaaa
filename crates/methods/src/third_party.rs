//! Defines the third party of a method, a peer that answers requests that the server must not see.
//!
//! Before a client trains, it sends the third party a request, and receives a reply that it trains
//! with. The third party answers from what it knew when the user was invited, so that the inputs of
//! a participation are fixed by then. Requests that arrive during a step of the server are absorbed
//! when the step is over. FedPerGNN, for example, finds the users who share an item with a client
//! in this way (Wu et al., Nature Communications 2022, section "Methods").

use super::task::Phase;
use fedrecsim_core::work::Work;
use fedrecsim_core::{InvitationId, Result, UserId};
use fedrecsim_model::{Layout, ModelUpdate, StateVisitor};

/// Describes what travels between clients and a third party in a phase of a method. Requests and
/// replies are encoded as lists of rows; the scenario's codecs do not apply.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The layout of requests. Rows that a request leaves out are not sent.
    pub request: Layout,
    /// The layout of replies.
    pub reply: Layout,
}

/// Holds a request to the third party, which [`Client::request`](super::Client::request) makes, or
/// the reply, which [`ThirdParty::reply`] makes.
#[derive(Clone, Debug)]
pub struct Message {
    /// The update that leaves the sender, of the layout [`Exchange::request`] or
    /// [`Exchange::reply`].
    pub update: ModelUpdate,
    /// The work of making it. The third party is as fast as the server.
    pub work: Work,
}

/// Describes a request that has arrived at the third party.
#[derive(Clone, Copy, Debug)]
pub struct ArrivedRequest<'a> {
    /// The sender.
    pub user: UserId,
    /// The invitation that it belongs to.
    pub invitation_id: InvitationId,
    /// The phase that the sender takes part in, which decides the layout of the request and of its
    /// reply.
    pub phase: Phase,
    /// The request, as decoded from the frame.
    pub update: &'a ModelUpdate,
}

/// Answers the requests of a method's clients, and keeps the state that this takes.
pub trait ThirdParty: CloneThirdParty + Send + Sync {
    /// Returns the reply to a request, from what has been absorbed so far.
    ///
    /// # Errors
    /// An error of the method about the request.
    fn reply(&self, request: &ArrivedRequest<'_>) -> Result<Message>;

    /// Absorbs the requests that have arrived since the last step of the server, in the order of
    /// (user, invitation).
    ///
    /// # Errors
    /// An error of the method.
    fn absorb(&mut self, requests: &[ArrivedRequest<'_>]) -> Result<()>;

    /// Visits everything that the third party keeps, in a fixed order, for checkpoints.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()>;
}

/// Copies a third party, for participations that were invited before a step and are answered after
/// it. Every third party that is `Clone` implements it.
pub trait CloneThirdParty {
    /// Returns a copy of the third party.
    fn snapshot(&self) -> Box<dyn ThirdParty>;
}

impl<P: ThirdParty + Clone + 'static> CloneThirdParty for P {
    fn snapshot(&self) -> Box<dyn ThirdParty> {
        Box::new(self.clone())
    }
}
