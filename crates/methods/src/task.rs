//! Describes what a client is given, which is a participation to train or items to score, and what
//! it returns.

use super::Scratch;
use fedrecsim_core::work::Work;
use fedrecsim_core::{Error, InvitationId, Purpose, Result, Round, Step, Stream, Streams, UserId};
use fedrecsim_data::dataset::negatives::{NegativeSampler, Samples};
use fedrecsim_data::dataset::{Dataset, OwnData};
use fedrecsim_model::kernel::score::{ScaledSum, score_sums};
use fedrecsim_model::magnitude::largest_magnitude;
use fedrecsim_model::table::SharedTable;
use fedrecsim_model::{Model, ModelUpdate, Table};
use fedrecsim_scenario::NegativesSpec;

/// Numbers the phases of a method, from 0. What travels, and what a client does with it, may differ
/// from phase to phase. Most methods have one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Phase(pub u8);

/// Describes one participation to the client.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LocalTask<'a> {
    /// The user.
    pub user: UserId,
    /// The round, for what changes from round to round.
    pub round: Round,
    /// The number of steps that the server has made before, for what changes from step to step. A
    /// round has `training.steps_per_round` steps.
    pub step: Step,
    /// The number of the invitation, which names the random streams of this participation.
    pub invitation_id: InvitationId,
    /// The phase that the server is in.
    pub phase: Phase,
    /// The model as decoded from the download. It has no blocks in a phase without a download.
    pub model: &'a Model,
    /// What the third party has replied, in a method that has one and once the reply is there.
    pub reply: Option<&'a ModelUpdate>,
    /// The user's own data, which is what the device knows of ratings.
    pub own: OwnData<'a>,
    /// The run's randomness.
    pub streams: Streams,
    /// The largest magnitude that a parameter may have.
    pub divergence_limit: f32,
    /// The data and the client's rule for drawing negatives. Without them it trains on the samples
    /// that its memory holds, such as those of a recording of the authors' code.
    pub negatives: Option<(&'a Dataset, &'a NegativesSpec)>,
    /// Whether the negatives are those of all participations of the user, which it draws once.
    pub(crate) draws_once: bool,
}

impl<'a> LocalTask<'a> {
    /// Describes the participation of a user in a round that an invitation asks for, in the first
    /// phase and without negatives.
    pub fn new(
        (user, round, invitation_id): (UserId, Round, InvitationId),
        model: &'a Model,
        own: OwnData<'a>,
        streams: Streams,
        divergence_limit: f32,
    ) -> Self {
        Self {
            user,
            round,
            step: Step(round.0),
            invitation_id,
            phase: Phase::default(),
            model,
            reply: None,
            own,
            streams,
            divergence_limit,
            negatives: None,
            draws_once: false,
        }
    }

    /// Returns the number of items of the catalogue, or 0 where samples are given.
    pub(crate) fn items(&self) -> usize {
        self.negatives.map_or(0, |(dataset, _)| dataset.items())
    }

    /// Draws the training samples of this participation into `scratch`: every positive of the user,
    /// each followed by its negatives.
    ///
    /// # Errors
    /// [`Error::Dataset`] if there are too few items to draw negatives from.
    pub fn draw_samples(&self, scratch: &mut SampleScratch) -> Result<()> {
        let Some(negatives) = self.negatives else {
            return Ok(());
        };
        let names_stream = match self.draws_once {
            true => InvitationId(u32::MAX),
            false => self.invitation_id,
        };
        scratch.draw(negatives, self.streams, self.user, names_stream)
    }

    /// Draws the training samples into `scratch`, and returns their distinct items, ascending.
    ///
    /// # Errors
    /// As [`Self::draw_samples`].
    pub fn sampled_rows(&self, scratch: &mut SampleScratch) -> Result<Vec<u32>> {
        self.draw_samples(scratch)?;
        let mut rows = scratch.samples.items.clone();
        rows.sort_unstable();
        rows.dedup();
        Ok(rows)
    }

    /// Returns this participation's randomness for `purpose`.
    pub(crate) fn stream(&self, purpose: Purpose) -> Stream {
        self.streams.stream(
            purpose,
            u64::from(self.user.0),
            u64::from(self.invitation_id.0),
        )
    }

    /// Returns this participation's randomness of a name that the method chooses, such as
    /// `fedrecon/user-vector`.
    pub(crate) fn named_stream(&self, name: &str) -> Stream {
        self.streams.named(
            name,
            u64::from(self.user.0),
            u64::from(self.invitation_id.0),
        )
    }

    /// Refuses a parameter of these values by [`Self::check_magnitude`].
    ///
    /// # Errors
    /// As [`Self::check_magnitude`].
    pub(crate) fn check_values(&self, parameter: &'static str, values: &[f32]) -> Result<()> {
        self.check_magnitude(parameter, largest_magnitude(values))
    }

    /// Refuses a parameter whose largest magnitude is above the limit or NaN.
    ///
    /// # Errors
    /// [`Error::Diverged`], naming the round, the user and the parameter.
    pub fn check_magnitude(&self, parameter: &'static str, largest: f32) -> Result<()> {
        if largest <= self.divergence_limit {
            return Ok(());
        }
        let (round, user, limit) = (self.round, self.user, self.divergence_limit);
        Err(Error::Diverged {
            round,
            user: Some(user.into()),
            parameter: parameter.into(),
            value: largest,
            limit,
        })
    }
}

/// Holds training samples and the memory for drawing them. Nothing passes from one client to the
/// next.
#[derive(Debug, Default)]
pub struct SampleScratch {
    /// The samples that were drawn last.
    pub samples: Samples,
    sampler: Option<NegativeSampler>,
}

impl SampleScratch {
    /// Draws the samples of `user`. `invitation_id` names the stream of the negatives.
    fn draw(
        &mut self,
        (dataset, spec): (&Dataset, &NegativesSpec),
        streams: Streams,
        user: UserId,
        invitation_id: InvitationId,
    ) -> Result<()> {
        // A thread serves one run after another, and a sampler can only be reused for data of the
        // same size.
        let sampler = match &mut self.sampler {
            Some(sampler) if sampler.fits(dataset.items(), spec) => sampler,
            other => other.insert(NegativeSampler::new(dataset.items(), spec)),
        };
        sampler.draw(dataset, streams, user, invitation_id, &mut self.samples)
    }
}

/// Holds what a participation yields.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trained {
    /// What leaves the device.
    pub update: ModelUpdate,
    /// The mean local loss, as the method defines it, for reports.
    pub loss: f64,
    /// The work of the training, which takes virtual time at the device's speed.
    pub work: Work,
}

impl Trained {
    /// Describes an update and the work of the training.
    pub fn new(update: ModelUpdate, loss: f64, work: Work) -> Self {
        Self { update, loss, work }
    }
}

/// Holds what a client may use to score items.
#[derive(Debug)]
#[non_exhaustive]
pub struct ScoringContext<'a> {
    /// The user.
    pub user: UserId,
    /// The model as this device can decode it from a download.
    pub model: &'a Model,
    /// The user's own data.
    pub own: OwnData<'a>,
    /// The run's randomness.
    pub streams: Streams,
    /// The data and the rule for drawing negatives that rebuild private state.
    pub negatives: Option<(&'a Dataset, &'a NegativesSpec)>,
    /// The buffers of the thread.
    pub scratch: &'a mut Scratch,
}

impl<'a> ScoringContext<'a> {
    /// Describes what `user` may use, without negatives.
    pub fn new(
        user: UserId,
        model: &'a Model,
        own: OwnData<'a>,
        streams: Streams,
        scratch: &'a mut Scratch,
    ) -> Self {
        Self {
            user,
            model,
            own,
            streams,
            negatives: None,
            scratch,
        }
    }

    /// Draws training samples into the buffers, so that a method can rebuild private state before it
    /// scores: every positive of the user, each followed by its negatives. The samples are the same
    /// at every scoring, and differ from those of all participations.
    ///
    /// # Errors
    /// [`Error::Dataset`] if there are too few items to draw negatives from, and [`Error::Usage`]
    /// without a specification of negatives.
    pub(crate) fn draw_samples(&mut self) -> Result<()> {
        let negatives = self.negatives.ok_or_else(|| {
            Error::Usage("scoring draws negatives, and none have been specified".to_owned())
        })?;
        let samples = &mut self.scratch.samples;
        samples.draw(negatives, self.streams, self.user, InvitationId(u32::MAX))
    }

    /// Returns the randomness of a name that the method chooses. It is the same at every scoring,
    /// so that an item's score does not depend on how often it was asked for.
    pub(crate) fn named_stream(&self, name: &str) -> Stream {
        self.streams.named(name, u64::from(self.user.0), u64::MAX)
    }
}

/// A scorer, or what the method found wrong when it was to make one.
pub type Scoring<'a> = Result<Box<dyn Scorer + 'a>>;

/// Scores items for one user. [`Client::scorer`](super::Client::scorer) makes it, and may have
/// rebuilt private state for it.
pub trait Scorer {
    /// Writes the score of each of `items` (ascending, distinct) to `scores`. A higher score is
    /// better, and the score of an item does not depend on the other items.
    ///
    /// # Errors
    /// An error of the method. Most methods find it when they make the scorer.
    fn score(&self, items: &[u32], scores: &mut [f32]) -> Result<()>;

    /// Returns the products that the scores are, if they are nothing else. Then the whole catalogue
    /// can be scored for many users at once.
    fn products(&self) -> Option<&Products> {
        None
    }
}

/// Scores items by the scalar products of a user's vector with the rows of an item table, plus
/// biases.
#[derive(Clone, Debug)]
pub struct Products {
    /// The user's vector.
    pub vector: Vec<f32>,
    /// The number that every score has in addition.
    pub bias: f32,
    /// The item table, which users may share.
    pub table: SharedTable,
    /// A factor, and a table of one column. A score has the factor times the item's value in
    /// addition.
    pub item_bias: Option<(f32, SharedTable)>,
}

impl Products {
    /// Scores without biases.
    pub fn new(vector: Vec<f32>, table: &SharedTable) -> Self {
        Self {
            vector,
            bias: 0.0,
            table: SharedTable::clone(table),
            item_bias: None,
        }
    }
}

impl Scorer for Products {
    fn score(&self, items: &[u32], scores: &mut [f32]) -> Result<()> {
        score_items(&self.vector, self.bias, &self.table, items, scores);
        if let Some((factor, biases)) = &self.item_bias {
            for (item, score) in items.iter().zip(scores) {
                *score += factor * biases.row(*item as usize)[0];
            }
        }
        Ok(())
    }

    fn products(&self) -> Option<&Products> {
        Some(self)
    }
}

/// Writes to `scores` the scalar product of `vector` with the row of each of `items`, plus `bias`.
pub(crate) fn score_items(
    vector: &[f32],
    bias: f32,
    table: &Table,
    items: &[u32],
    scores: &mut [f32],
) {
    let rows = items.iter().map(|item| table.row(*item as usize).into());
    let rows: Vec<ScaledSum<'_>> = rows.collect();
    score_sums(vector, bias, &rows, scores);
}

/// Makes every function that scores, and cannot fail, a scorer.
impl<F: Fn(&[u32], &mut [f32])> Scorer for F {
    fn score(&self, items: &[u32], scores: &mut [f32]) -> Result<()> {
        self(items, scores);
        Ok(())
    }
}
