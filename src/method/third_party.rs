//! A method's third party: a peer that answers what clients must not ask the server.
//!
//! Before a client trains it sends the third party a request, and receives a reply that it trains with. The third party
//! answers from what it knew when the user was invited, so that a participation's inputs are fixed by then; what arrives
//! at it during a step of the server it takes in when the step is over. FedPerGNN, for one, finds the users who share an
//! item with a client in this way (Wu et al., Nature Communications 2022, section "Methods").

use crate::error::Result;
use crate::ids::{InvitationId, UserId};
use crate::model::blocks::ModelUpdate;
use crate::model::layout::Layout;
use crate::model::state::StateVisitor;
use crate::work::Work;

/// What travels between clients and a third party in a phase of a method. Requests and replies are lists of rows, and
/// are encoded as such whatever codecs the scenario names.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What a client sends. Rows that a request leaves out are not sent.
    pub request: Layout,
    /// What it receives.
    pub reply: Layout,
}

/// What a client asks the third party, made by [`Client::request`](super::Client::request).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LocalRequest {
    /// What leaves the device, of the layout [`Exchange::request`].
    pub update: ModelUpdate,
    /// What making it took.
    pub work: Work,
}

impl LocalRequest {
    /// Describes a request that took so much work.
    pub fn new(update: ModelUpdate, work: Work) -> Self {
        Self { update, work }
    }
}

/// What a third party answers, made by [`ThirdParty::reply`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// What leaves the third party, of the layout [`Exchange::reply`].
    pub update: ModelUpdate,
    /// What making it took; the third party is as fast as the server.
    pub work: Work,
}

impl Reply {
    /// Describes a reply that took so much work.
    pub fn new(update: ModelUpdate, work: Work) -> Self {
        Self { update, work }
    }
}

/// A request that has arrived at the third party.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ArrivedRequest<'a> {
    /// The sender.
    pub user: UserId,
    /// The invitation that it belongs to.
    pub invitation_id: InvitationId,
    /// What it says.
    pub update: &'a ModelUpdate,
}

impl<'a> ArrivedRequest<'a> {
    /// Describes the request that `user` made for an invitation.
    pub fn new(user: UserId, invitation_id: InvitationId, update: &'a ModelUpdate) -> Self {
        Self { user, invitation_id, update }
    }
}

/// The third party of a method.
pub trait ThirdParty: CloneThirdParty + Send + Sync {
    /// Answers a request of `user`, from what was taken in so far.
    ///
    /// # Errors
    /// Whatever the method finds wrong with the request.
    fn reply(&self, user: UserId, request: &ModelUpdate) -> Result<Reply>;

    /// Takes in the requests that have arrived since the last step of the server, in the order of (user, invitation).
    ///
    /// # Errors
    /// Whatever the method finds wrong with one of them.
    fn absorb(&mut self, requests: &[ArrivedRequest<'_>]) -> Result<()>;

    /// Visits everything that the third party keeps, in a fixed order, for checkpoints.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()>;
}

/// Copies of third parties, for participations that were invited before a step and are answered after it. Every third
/// party that is `Clone` has it.
pub trait CloneThirdParty {
    /// Returns a copy.
    fn snapshot(&self) -> Box<dyn ThirdParty>;
}

impl<P: ThirdParty + Clone + 'static> CloneThirdParty for P {
    fn snapshot(&self) -> Box<dyn ThirdParty> {
        Box::new(self.clone())
    }
}
