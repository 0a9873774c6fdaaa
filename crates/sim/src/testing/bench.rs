//! A workbench where clients of a method train and score without actors, network or time.

use std::io::Cursor;

use super::Contract;
use super::breach::{Seen, ensure};
use crate::World;
use fedrecsim_core::{Error, InvitationId, Result, Round, UserId};
use fedrecsim_methods::server::{Contribution, Download, StepContext, StepReport};
use fedrecsim_methods::third_party::ArrivedRequest;
use fedrecsim_methods::{
    Client, LocalTask, Phase, ScoringContext, Scratch, Server, ThirdParty, Trained,
};
use fedrecsim_model::codec::{
    BlockCodecs, CodecMemory, EncodeContext, Frame, FrameKind, Randomness,
};
use fedrecsim_model::{Archive, ArchiveReader, Model, ModelUpdate, StateVisitor};
use fedrecsim_scenario::WeightTotals;

/// The world of a method with its server side, and the buffers of one worker.
pub(crate) struct Bench {
    pub world: World,
    pub scratch: Scratch,
    server: Box<dyn Server>,
    third_party: Option<Box<dyn ThirdParty>>,
    steps: u32,
}

/// What leaves a device in one participation.
pub(crate) struct Sent {
    /// The request to the third party, if the method asks one.
    pub request: Option<ModelUpdate>,
    /// The update.
    pub update: Trained,
}

impl Bench {
    /// Makes the bench of a method in the small world.
    pub(crate) fn new(contract: &Contract<'_>) -> Result<Self, Seen> {
        let world = contract.world(&[])?;
        let (server, third_party) = (world.method.server(), world.method.third_party());
        Ok(Self {
            world,
            scratch: Scratch::default(),
            server,
            third_party,
            steps: 0,
        })
    }

    /// Returns the phase that the server is in.
    pub(crate) fn phase(&self) -> Phase {
        self.server.phase()
    }

    /// Returns what `user` downloads, which is a model without blocks where nothing travels.
    pub(crate) fn download(&self, user: u32) -> Result<Model> {
        match self.server.download() {
            Download::PerUser(downloads) => downloads.download(UserId(user)),
            Download::Shared(model) => Ok(model),
            Download::Nothing => Ok(Model::none()),
        }
    }

    /// Returns the model that `user` scores with: the user's own download if there is one, and the
    /// server's model otherwise.
    fn model_to_score(&self, user: u32) -> Result<Model> {
        match self.server.download() {
            Download::PerUser(downloads) => downloads.download(UserId(user)),
            Download::Shared(_) | Download::Nothing => Ok(self.server.model().clone()),
        }
    }

    /// Makes the client of `user` as it is before its first participation.
    pub(crate) fn client(&self, user: u32) -> Box<dyn Client> {
        self.world.method.client(UserId(user))
    }

    /// Has `client` take part in a round.
    pub(crate) fn take_part(
        &mut self,
        client: &mut dyn Client,
        user: u32,
        round: u32,
    ) -> Result<Sent> {
        let model = self.download(user)?;
        let World {
            dataset,
            scenario,
            streams,
            method,
            ..
        } = &self.world;
        let names = (UserId(user), Round(round), InvitationId(round));
        let own = dataset.own_data(names.0);
        let phase = self.server.phase();
        let mut task = LocalTask::new(
            names,
            &model,
            own,
            *streams,
            scenario.training.divergence_limit as f32,
        );
        task.phase = phase;
        task.negatives = Some((dataset, &scenario.dataset.negatives));
        if method.exchange(phase).is_none() {
            return Ok(Sent {
                request: None,
                update: client.train(&task, &mut self.scratch)?,
            });
        }
        let asked = client.request(&task, &mut self.scratch)?.update;
        let third_party = self.third_party.as_ref().ok_or_else(|| {
            Error::Update(
                "the method describes an exchange with a third party and makes none".to_owned(),
            )
        })?;
        let arrived = ArrivedRequest {
            user: task.user,
            invitation_id: task.invitation_id,
            phase,
            update: &asked,
        };
        let reply = third_party.reply(&arrived)?.update;
        task.reply = Some(&reply);
        Ok(Sent {
            request: Some(asked),
            update: client.train(&task, &mut self.scratch)?,
        })
    }

    /// Trains `client` in a round.
    pub(crate) fn train(
        &mut self,
        client: &mut dyn Client,
        user: u32,
        round: u32,
    ) -> Result<Trained> {
        Ok(self.take_part(client, user, round)?.update)
    }

    /// Has `clients`, which are those of the first users, take part, and the server step with what
    /// they send.
    pub(crate) fn step(&mut self, clients: &mut [Box<dyn Client>]) -> Result<StepReport> {
        let (step, phase) = (self.steps, self.server.phase());
        let mut sums = self.server.accumulator();
        if self.server.needs_participants() {
            let mut sent = Vec::with_capacity(clients.len());
            for (user, client) in (0u32..).zip(clients) {
                sent.push((
                    UserId(user),
                    self.download(user)?,
                    self.take_part(client.as_mut(), user, step)?,
                ));
            }
            let invitation = InvitationId(step);
            let contributions: Vec<Contribution<'_>> = sent
                .iter()
                .map(|(user, model, sent)| Contribution {
                    phase,
                    ..Contribution::fresh(*user, invitation, &sent.update.update, model)
                })
                .collect();
            sums.absorb(&contributions)?;
            if let Some(third_party) = &mut self.third_party {
                let requests: Vec<ArrivedRequest<'_>> = sent
                    .iter()
                    .filter_map(|(user, _, sent)| {
                        Some(ArrivedRequest {
                            user: *user,
                            invitation_id: invitation,
                            phase,
                            update: sent.request.as_ref()?,
                        })
                    })
                    .collect();
                third_party.absorb(&requests)?;
            }
        }
        let World {
            policy,
            dataset,
            streams,
            scenario,
            ..
        } = &self.world;
        let normalise = |totals: &WeightTotals| policy.step_weights(totals);
        let mut context = StepContext::new(
            step,
            dataset.users_with_history() as u32,
            &normalise,
            *streams,
        );
        context.divergence_limit = scenario.training.divergence_limit as f32;
        let report = self.server.step(sums, &context)?;
        self.steps += 1;
        Ok(report)
    }

    /// Returns the scores of `items`, which must be finite.
    pub(crate) fn scores_of(
        &mut self,
        client: &dyn Client,
        user: u32,
        items: &[u32],
    ) -> Result<Vec<f32>, Seen> {
        let model = self.model_to_score(user)?;
        let World {
            dataset,
            scenario,
            streams,
            ..
        } = &self.world;
        let own = dataset.own_data(UserId(user));
        let scratch = &mut self.scratch;
        let mut context = ScoringContext::new(UserId(user), &model, own, *streams, scratch);
        context.negatives = Some((dataset, &scenario.dataset.negatives));
        let scorer = client.scorer(context)?;
        let mut scores = vec![f32::NAN; items.len()];
        scorer.score(items, &mut scores)?;
        let wrong = items
            .iter()
            .zip(&scores)
            .find(|(_, score)| !score.is_finite());
        match wrong {
            Some((item, score)) => Err(Seen(format!(
                "the score of item {item} for user {user} is {score}; it was not written, or is not finite"
            ))),
            None => Ok(scores),
        }
    }

    /// Returns the scores of all items, which must be finite.
    pub(crate) fn scores(&mut self, client: &dyn Client, user: u32) -> Result<Vec<f32>, Seen> {
        let items: Vec<u32> = (0..self.world.dataset.items() as u32).collect();
        self.scores_of(client, user, &items)
    }

    /// Returns the frame of the update that `user` has made from the model that it has.
    pub(crate) fn frame(
        &self,
        codecs: &BlockCodecs,
        update: &ModelUpdate,
        user: u32,
    ) -> Result<Frame> {
        let model = self.download(user)?;
        let randomness = Randomness::new(self.world.streams, FrameKind::Upload, Some(user), 0);
        let mut context = EncodeContext {
            base: &model,
            memory: &mut CodecMemory::default(),
            randomness,
        };
        let layout = self.world.upload_layout(self.phase(), UserId(user));
        codecs.encode(update, layout, &mut context)
    }
}

/// Returns the state that `client` shows, as the digest of a result covers it.
pub(crate) fn state(client: &mut dyn Client) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    client.visit_state(&mut StateVisitor::Digest(&mut |bytes| {
        all.extend_from_slice(bytes)
    }))?;
    Ok(all)
}

/// Saves the state of `client`, and restores it to `fresh`.
pub(crate) fn restore(client: &mut dyn Client, fresh: &mut dyn Client) -> Result<(), Seen> {
    const END: &str = "the end";
    let mut archive = Archive::default();
    client.visit_state(&mut StateVisitor::Save(&mut archive))?;
    archive.put(END);
    let mut saved = ArchiveReader::new(Box::new(Cursor::new(archive.take()?)));
    fresh.visit_state(&mut StateVisitor::Restore(&mut saved))?;
    let end = saved.take::<String>();
    ensure(end.is_ok_and(|end| end == END), || {
        "restoring reads less or more than saving writes".to_owned()
    })
}

/// Says where two scores differ first; `None` if they have the same bits.
pub(crate) fn different_scores(one: &[f32], other: &[f32]) -> Option<String> {
    let item = one
        .iter()
        .zip(other)
        .position(|(one, other)| one.to_bits() != other.to_bits())?;
    Some(format!(
        "item {item} is scored {} and {}",
        one[item], other[item]
    ))
}

/// Says in what two results of a training differ first; `None` if they have the same bits.
pub(crate) fn different_updates(one: &Trained, other: &Trained) -> Option<String> {
    let same_losses = one.loss.to_bits() == other.loss.to_bits();
    match () {
        () if !same_losses => Some(format!("the loss is {} and {}", one.loss, other.loss)),
        () if one.work != other.work => {
            Some(format!("the work is {:?} and {:?}", one.work, other.work))
        }
        () if one.update != other.update => {
            Some("the updates have other rows, values or scalars".to_owned())
        }
        () => None,
    }
}

/// Says where two states differ first; `None` if they have the same bytes.
pub(crate) fn different_states(one: &[u8], other: &[u8]) -> Option<String> {
    if one.len() != other.len() {
        return Some(format!(
            "the private state has {} and {} bytes",
            one.len(),
            other.len()
        ));
    }
    let byte = one
        .iter()
        .zip(other)
        .position(|(one, other)| one != other)?;
    Some(format!(
        "the private state differs from byte {byte} of {} on",
        one.len()
    ))
}
