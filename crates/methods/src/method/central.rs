//! Implements methods that run at the server: users send their ratings once, and the server works
//! on them from then on.
//!
//! The ratings travel as frames, so that their bytes and the time that they take are booked like
//! those of every upload. A step is one pass of the server over all ratings, which takes virtual
//! time at the server's speed.
//!
//! A method says how its server trains and how its devices score ([`CentralMethod`]), and is a
//! [`Method`] by that.

use std::fmt::Debug;

use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_model::model::blocks::{Model, ModelUpdate};
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{RowSet, TableShape, TableUpdate, extend_bytes, floats};

use super::server::{
    Accumulator, Contribution, Download, Server, StepContext, StepReport, downcast,
};
use super::user_vector::collect_last_ratings;
use super::{Client, LocalTask, LocalUpdate, Method, Phase, Scorer, ScoringContext, Scratch};

/// Names the block in which users send their ratings.
const RATINGS: &str = "ratings";

/// Describes a method at the server by its trainer and by how its devices score. Users upload their
/// ratings, and download nothing.
pub(crate) trait CentralMethod: Send + Sync + Debug {
    /// How a device scores.
    type Scoring: CentralScoring;

    /// Returns the number of items of the catalogue.
    fn items(&self) -> usize;

    /// Makes the trainer as it is before the first pass.
    fn trainer(&self) -> Box<dyn CentralTrainer>;

    /// Returns how a device scores.
    fn scoring(&self) -> Self::Scoring;
}

impl<M: CentralMethod> Method for M {
    fn initial(&self) -> Model {
        self.trainer().model().clone()
    }

    fn download_layout(&self, _phase: Phase) -> Layout {
        Layout::none()
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        ratings_layout(self.items())
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(CentralClient::new(self.scoring()))
    }

    fn server(&self) -> Box<dyn Server> {
        Box::new(CentralServer::new(self.trainer()))
    }
}

/// Makes the scorer of a device of a central method. A function that writes the scores of items,
/// given what a client may use to score, does so without any preparation.
pub trait CentralScoring: Clone + Send + 'static {
    /// Makes the scorer of the user that `context` describes.
    ///
    /// # Errors
    /// Those of [`Client::scorer`].
    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>>;
}

impl<S> CentralScoring for S
where
    S: Fn(&ScoringContext<'_>, &[u32], &mut [f32]) + Clone + Send + 'static,
{
    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let context = *context;
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            self(&context, items, scores)
        }))
    }
}

/// Is a function that writes the scores of items, given what a client may use to score.
pub(crate) type ScoreFunction = fn(&ScoringContext<'_>, &[u32], &mut [f32]);

/// Trains a central method on the ratings of all users.
pub trait CentralTrainer: Send {
    /// Returns the present model. It must hold everything that scoring needs, users' parameters
    /// included.
    fn model(&self) -> &Model;

    /// Replaces the model, which has the layout of [`Self::model`].
    ///
    /// # Errors
    /// [`Error::Update`](fedrecsim_core::error::Error::Update) for a model of another layout.
    fn set_model(&mut self, model: Model) -> Result<()>;

    /// Makes one pass over `ratings`, which are in the order of users.
    ///
    /// # Errors
    /// Divergence, and whatever else the method finds wrong.
    fn pass(&mut self, ratings: &[UserRatings], step: &StepContext<'_>) -> Result<StepReport>;

    /// Visits the state besides the model, such as the moments of an optimiser.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}

/// Holds the ratings that one user has sent.
#[derive(Clone, Debug, PartialEq)]
pub struct UserRatings {
    /// The user.
    pub user: UserId,
    /// The items that the user has rated, ascending, each once.
    pub items: Vec<u32>,
    /// The rating of each item, which is the last one if the user has rated the item more than
    /// once.
    pub ratings: Vec<f32>,
}

/// Returns the layout of what users of a central method upload: a rating for each item that they
/// have rated.
pub fn ratings_layout(items: usize) -> Layout {
    Layout::new(vec![
        BlockLayout::item_table(
            RATINGS,
            TableShape {
                rows: items,
                dimension: 1,
            },
        )
        .statistic(),
    ])
}

/// Implements the server side of a central method.
pub struct CentralServer {
    trainer: Box<dyn CentralTrainer>,
    ratings: Vec<UserRatings>,
}

impl CentralServer {
    /// Makes a server that has no ratings yet.
    pub fn new(trainer: Box<dyn CentralTrainer>) -> Self {
        Self {
            trainer,
            ratings: Vec::new(),
        }
    }
}

impl Server for CentralServer {
    fn model(&self) -> &Model {
        self.trainer.model()
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.trainer.set_model(model)
    }

    fn download(&self) -> Download {
        Download::Nothing
    }

    fn needs_participants(&self) -> bool {
        self.ratings.is_empty()
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Gathered::default())
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let Gathered(sent) = *downcast::<Gathered>(sums)?;
        self.ratings.extend(sent);
        self.trainer.pass(&self.ratings, step)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        let plain =
            |ratings: &UserRatings| (ratings.user, ratings.items.clone(), ratings.ratings.clone());
        let mut ratings: Vec<(UserId, Vec<u32>, Vec<f32>)> =
            self.ratings.iter().map(plain).collect();
        state.plain(&mut ratings)?;
        let restored = ratings
            .into_iter()
            .map(|(user, items, ratings)| UserRatings {
                user,
                items,
                ratings,
            });
        self.ratings = restored.collect();
        self.trainer.visit_state(state)
    }
}

/// Holds the ratings that have arrived, in the order of users.
#[derive(Default)]
struct Gathered(Vec<UserRatings>);

impl Accumulator for Gathered {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let sent = &contribution.update.blocks[0];
            // A dense codec sends zeros for the items that were not rated.
            let rated = sent
                .iter()
                .map(|(row, bytes)| (row as u32, floats(bytes).next().unwrap_or(0.0)));
            let (items, ratings) = rated.filter(|(_, rating)| *rating != 0.0).unzip();
            self.0.push(UserRatings {
                user: contribution.user,
                items,
                ratings,
            });
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        self.0.extend(downcast::<Self>(other)?.0);
        self.0.sort_by_key(|ratings| ratings.user);
        Ok(())
    }
}

/// Implements the device of a user of a central method. It sends its ratings when it is invited,
/// and keeps no state.
#[derive(Clone, Debug)]
pub struct CentralClient<S> {
    scoring: S,
}

impl<S: CentralScoring> CentralClient<S> {
    /// Makes a client that scores like this.
    pub fn new(scoring: S) -> Self {
        Self { scoring }
    }
}

impl<S: CentralScoring> Client for CentralClient<S> {
    fn train(&mut self, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<LocalUpdate> {
        let shape = TableShape {
            rows: task.items(),
            dimension: 1,
        };
        let (mut items, mut ratings): (Vec<u32>, Vec<f32>) = (Vec::new(), Vec::new());
        collect_last_ratings(&task.own, &mut items, &mut ratings);
        let mut values = Vec::with_capacity(4 * ratings.len());
        extend_bytes(&mut values, &ratings);
        let update = TableUpdate::of_rows(shape, RowSet::Listed(items), values.into());
        Ok(LocalUpdate::new(ModelUpdate::of_table(update), 0.0, 0))
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        self.scoring.scorer(context, scratch)
    }

    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}
