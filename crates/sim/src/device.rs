//! A user's device, and everything that it keeps from one participation to the next.

use super::world::World;
use fedrecsim_core::{Result, UserId};
use fedrecsim_methods::Client;
use fedrecsim_model::StateVisitor;
use fedrecsim_model::codec::CodecMemory;

/// A device with what it keeps: the method's private parameters, and what the uplink's codec
/// remembers. Copies, checkpoints and digests cover both.
pub struct Device {
    /// The method's private side.
    pub client: Box<dyn Client>,
    /// The memory of the uplink's codec.
    pub memory: CodecMemory,
}

impl Device {
    /// Makes the device of a user who has not taken part yet.
    pub(crate) fn new(user: UserId, world: &World) -> Box<Self> {
        Box::new(Self {
            client: world.method.client(user),
            memory: CodecMemory::default(),
        })
    }

    /// Returns a copy, which the user goes back to if its participation is cut off before the
    /// training ends.
    pub(crate) fn snapshot(&self) -> Self {
        Self {
            client: self.client.snapshot(),
            memory: self.memory.clone(),
        }
    }

    /// Visits everything that the device keeps.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    pub(crate) fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.client.visit_state(state)?;
        self.memory.visit_state(state)
    }
}

impl std::fmt::Debug for Device {
    /// Hides what is private, so that no log or error message carries it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").finish_non_exhaustive()
    }
}
