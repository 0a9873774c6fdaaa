//! The world of a run: what never changes and every actor may read, such as the scenario, the
//! ratings and the method.
//!
//! Actors and workers share one [`World`]. What does change (tables, private parameters, the clock,
//! the books) is in the actors.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::joins::Joins;
use super::metric_set::MetricSet;
use super::overheads::Overheads;
use super::phases::PhaseLayouts;
use super::protection;
use super::start::{Learned, Start};
use crate::privacy::{self, Circumstances, Mechanism, PrivacyClaim, Sampling, SumNoise};
use fedrecsim_core::legs::{Leg, Route};
use fedrecsim_core::metric::Popularity;
use fedrecsim_core::{Bytes, Direction, Error, Result, SimTime, Streams, UserId, memory};
use fedrecsim_data::dataset::{Candidates, Dataset, negatives};
use fedrecsim_data::population::{Population, Traces};
use fedrecsim_methods::declare::controlled;
use fedrecsim_methods::registry::{self, Runnable};
use fedrecsim_methods::server::Download;
use fedrecsim_methods::{Class, Classes, Entry, Exchange, Method, Phase, Placement, Problem};
use fedrecsim_model::codec::{BlockCodecs, FrameParts};
use fedrecsim_model::{BlockKind, Layout, ValueType};
use fedrecsim_scenario::{
    ClientSelection, FaultSpec, FaultUsers, NegativePool, Participants, Policy, Scenario, Users,
    too_few_users,
};

/// Everything about a run that does not change.
#[derive(Debug)]
pub struct World {
    /// The checked scenario.
    pub scenario: Scenario,
    /// The split ratings.
    pub dataset: Arc<Dataset>,
    /// The items against which held-out items are ranked, of those that are there from the start.
    pub candidates: Candidates,
    /// The metrics, with what they need.
    pub(crate) metric_set: MetricSet,
    /// The popularity of items, once somebody has asked for it.
    popularity: OnceLock<Popularity>,
    /// How the server runs its steps: the policy of the scenario's mode, or one that a program has
    /// given.
    pub policy: Policy,
    /// The users or items that come in the course of the run, if any do.
    pub(crate) joins: Option<Joins>,
    /// The method.
    pub method: Box<dyn Method>,
    /// Whether the method runs at the devices, at the server, or needs no training.
    pub placement: Placement,
    /// Whether there is anything to train. Without training, nobody takes part in any step.
    pub trains: bool,
    /// Whether the method draws negatives as the scenario says.
    pub draws_negatives: bool,
    /// What travels in each phase of the method.
    layouts: Vec<PhaseLayouts>,
    /// The classes of users, between which that differs.
    classes: Classes,
    /// The users' devices and links.
    pub population: Population,
    /// The users who have something to train on and take no part, since their device has no room for
    /// the table, ascending.
    pub excluded: Vec<UserId>,
    /// The run's randomness.
    pub streams: Streams,
    /// The randomness of what nobody has trained, which is that of the run that this one starts from.
    pub(crate) starts: Streams,
    /// The parameters that the run starts from, if they are those of another run.
    pub start: Option<Start>,
    /// The codecs of uploads.
    pub uplink: BlockCodecs,
    /// The codecs of downloads.
    pub downlink: BlockCodecs,
    /// What travels with frames beside their bytes.
    pub(crate) overheads: Overheads,
    /// The mechanism that protects an update between training and encoding, if there is one.
    pub privacy: Option<Arc<dyn Mechanism>>,
    /// The noise that the server adds to the sum of a step's updates, if it does.
    pub sum_noise: Option<SumNoise>,
    /// The privacy claim, if there is a protection.
    pub(crate) claim: Option<PrivacyClaim>,
}

impl World {
    /// Makes the world of `scenario` over `dataset`, with one of the methods of this crate and
    /// without traces.
    ///
    /// # Errors
    /// As [`Self::with_traces`].
    pub fn new(scenario: Scenario, dataset: Arc<Dataset>) -> Result<Self> {
        Self::with_methods(scenario, dataset, registry::METHODS)
    }

    /// Makes the world as [`Self::new`] does, with the one of `methods` that the scenario names.
    ///
    /// # Errors
    /// As [`registry::check`] and [`Self::with_traces`].
    pub fn with_methods(
        scenario: Scenario,
        dataset: Arc<Dataset>,
        methods: &[Entry],
    ) -> Result<Self> {
        let runnable = registry::check(scenario, methods)?;
        Self::with_traces(runnable, dataset, &Traces::default())
    }

    /// Makes the world of a scenario that was checked against a list of methods, with the traces
    /// that it names.
    ///
    /// # Errors
    /// An error if the data have too few users, candidates, evaluated users or negatives for the
    /// scenario, or lack the users that a rule of faults names; if a table is beyond `MAX_ENTRIES`;
    /// and if a trace was not read.
    pub fn with_traces(runnable: Runnable, dataset: Arc<Dataset>, traces: &Traces) -> Result<Self> {
        Self::with_start(runnable, dataset, traces, None)
    }

    /// Makes the world as [`Self::with_traces`] does, and has it start from the parameters that the
    /// scenario names.
    ///
    /// # Errors
    /// As [`Self::with_traces`], and [`Error::Usage`] for parameters that are missing or do not fit.
    pub fn with_start(
        runnable: Runnable,
        dataset: Arc<Dataset>,
        traces: &Traces,
        start: Option<Start>,
    ) -> Result<Self> {
        let (scenario, entry) = runnable.into_parts();
        if start.is_none() && scenario.training.start.is_some() {
            return Err(Error::Usage(
                "training.start names parameters, and they were not read: see `Start::load`"
                    .to_owned(),
            ));
        }
        let streams = Streams::new(scenario.seed);
        let starts = start
            .as_ref()
            .map_or(streams, |start| Streams::new(start.learned.seed));
        let metric_set = MetricSet::new(&scenario.evaluation, &dataset)?;
        let Entry {
            placement,
            draws_negatives,
            ..
        } = entry;
        let joins = scenario.joins.as_ref();
        let whole = joins.map(|_| Arc::clone(&dataset));
        let mut dataset = dataset;
        let mut joins = joins
            .map(|spec| Joins::new(spec, placement, &mut dataset, streams))
            .transpose()?;
        let candidates = Candidates::draw(&dataset, &scenario.evaluation, streams)?;
        let pool = scenario.dataset.negatives.pool;
        if draws_negatives && pool == NegativePool::Symmetric {
            dataset = Arc::new(dataset.with_known_candidates(&candidates));
        }
        if let Some((joins, whole)) = joins.as_mut().zip(whole) {
            if joins.items() > 0 {
                let all = Candidates::draw(&whole, &scenario.evaluation, streams)?;
                joins.candidates = Some(all);
            }
            joins.know(&whole, &dataset, &candidates)?;
        }
        let problem = Problem::new(&dataset, streams, placement)
            .with_negatives(&scenario.dataset.negatives)
            .with_starts(starts);
        let method = memory::caught(|| registry::build(&[entry], &scenario.method, &problem))??;
        let method = controlled(method, scenario.training.aggregation);
        let trains = placement.trains();
        check_ratings(&scenario, &dataset, method.predicts_ratings(), trains)?;
        if trains {
            protection::check_delta(&scenario, dataset.users_with_history())?;
        }
        let reports_utility =
            matches!(scenario.training.client_selection, ClientSelection::Oort(_));
        let (uplink, downlink) = (
            BlockCodecs::new(Direction::Up, &scenario.codec),
            BlockCodecs::new(Direction::Down, &scenario.codec),
        );
        let layouts = PhaseLayouts::of(&*method, reports_utility, &downlink);
        check_third_party(&scenario, &layouts, placement)?;
        if draws_negatives {
            negatives::check(&dataset, &scenario.dataset.negatives)?;
        }
        let mut numbered = Scenario {
            faults: with_numbers(&scenario.faults, &dataset)?,
            ..scenario.clone()
        };
        numbered
            .faults
            .extend(joins.as_ref().and_then(Joins::outage));
        let population = Population::new(&numbered, dataset.users(), traces, streams)?;
        let classes = method.classes();
        let users = dataset.users_with_history();
        let (mut table, mut excluded) = (Bytes::ZERO, Vec::new());
        for class in classes.all() {
            let place = usize::from(class.0);
            let downloads = layouts
                .iter()
                .map(|layouts| layouts.downloads[place].bytes());
            let largest = Bytes::new(downloads.max().unwrap_or(0) as u64);
            let too_small = population.too_small_for(largest, users).into_iter();
            excluded.extend(too_small.filter(|user| classes.of(*user) == class));
            table = table.max(largest);
        }
        excluded.sort_unstable();
        if trains && excluded.len() == users {
            return Err(Error::Usage(format!(
                "no device has the memory for the table of {table} that it would download; see [devices]"
            )));
        }
        let policy = Policy::of(&scenario.training.mode);
        let privacy = privacy::of_devices(&scenario.privacy, &scenario.codec);
        let sum_noise = protection::sum_noise(&scenario, users);
        let world = Self {
            scenario,
            dataset,
            candidates,
            metric_set,
            popularity: OnceLock::new(),
            policy: policy.clone(),
            joins,
            method,
            placement,
            trains,
            draws_negatives,
            layouts,
            classes,
            population,
            excluded,
            streams,
            starts,
            start: None,
            uplink,
            downlink,
            overheads: Overheads::default(),
            privacy,
            sum_noise,
            claim: None,
        }
        .under(policy)?;
        if let Some(start) = &start {
            start.check(&world.learned())?;
        }
        Ok(Self { start, ..world })
    }

    /// Returns what somebody should know of a run that starts from the parameters of another.
    pub fn remarks_on_start(&self) -> Vec<String> {
        let start = self.start.iter();
        let remarks = start.map(|start| start.remarks(&self.learned(), self.claim.is_some()));
        remarks.flatten().collect()
    }

    /// Describes the parameters of the run.
    pub(crate) fn learned(&self) -> Learned {
        let (dataset, layout) = (&self.dataset, self.method.initial().layout().clone());
        let users = [dataset.users(), dataset.users_with_history()];
        let mut blocks = layout.blocks().iter();
        let has_rows = blocks
            .any(|block| block.kind == BlockKind::Weights && users.contains(&block.shape.rows));
        let is_personal = || matches!(self.method.server().download(), Download::PerUser(_));
        let by_number = has_rows && self.placement == Placement::Central || is_personal();
        Learned::of(
            &self.scenario,
            dataset,
            (&layout, by_number),
            self.starts.seed(),
        )
    }

    /// Returns the world with `policy` in place of that of the scenario's mode.
    ///
    /// # Errors
    /// [`Error::Usage`] for a policy that [`Policy::check`] refuses, or that asks for more users
    /// than there are.
    pub fn with_policy(self, policy: Policy) -> Result<Self> {
        policy
            .check()
            .map_err(|reason| Error::Usage(format!("the policy `{}`: {reason}", policy.name)))?;
        if self.scenario.overheads.secure_aggregation.is_some() && !policy.has_cohorts() {
            let message = "secure aggregation needs a cohort whose masks cancel in one sum";
            return Err(Error::Usage(format!(
                "the policy `{}` has no cohorts: {message}",
                policy.name
            )));
        }
        protection::check_policy(&self.scenario, &policy)?;
        self.under(policy)
    }

    /// Returns the world with `policy`, and what follows from it, if there are enough users.
    fn under(self, policy: Policy) -> Result<Self> {
        let (scenario, users) = (&self.scenario, self.dataset.users_with_history());
        check_users(scenario, &policy, users, self.excluded.len())?;
        let invited = policy.invited(scenario.training.needed(users as u32), users as u32);
        Ok(Self {
            overheads: Overheads::new(&scenario.overheads, invited),
            claim: self.claim_under(&policy),
            policy,
            ..self
        })
    }

    /// Returns what may be claimed of a run under `policy`; `None` if nothing is done to protect
    /// uploads. What `[privacy]` does goes before what the method does by itself.
    fn claim_under(&self, policy: &Policy) -> Option<PrivacyClaim> {
        let (scenario, users) = (&self.scenario, self.dataset.users_with_history());
        let is_any = |is_so: &dyn Fn(&Layout) -> bool| self.upload_layouts().any(is_so);
        let lists_rows = is_any(&|layout| {
            layout.blocks().iter().any(|block| {
                block.kind == BlockKind::ItemTable
                    && scenario.codec.lists_touched_rows_of(&block.name)
            })
        });
        let selection = scenario.training.client_selection;
        let is_uniform = selection == ClientSelection::Uniform
            && policy.waits_for_everybody()
            && self.everybody_can_take_part()
            && self.population.faults.is_empty();
        let sampling = match scenario.training.participation {
            Participants::Poisson(probability) if is_uniform => Sampling::Poisson(probability),
            Participants::Share(_) | Participants::Cohort(_) if is_uniform => {
                Sampling::FixedCohort(
                    f64::from(scenario.training.needed(users as u32)) / users as f64,
                )
            }
            _ => Sampling::Known,
        };
        let circumstances = Circumstances {
            lists_rows,
            has_weights: is_any(&|layout| layout.weighted || layout.reports_utility),
            has_other_values: is_any(&|layout| {
                let mut blocks = layout.blocks().iter();
                blocks.any(|block| block.value_type != ValueType::F32)
            }),
            has_third_party: self.has_third_party(),
            selects_by_data: matches!(
                selection,
                ClientSelection::ByDataSize | ClientSelection::Oort(_)
            ),
            sampling,
        };
        PrivacyClaim::of(&scenario.privacy, &circumstances).or_else(|| {
            let noise = self.method.own_noise()?;
            Some(PrivacyClaim::of_own_noise(noise, users, &circumstances))
        })
    }

    /// Returns whether the server makes a step of noise alone where nobody was drawn, since a step
    /// that is left out would tell that nobody was.
    pub(crate) fn steps_on_noise(&self) -> bool {
        self.trains
            && self
                .sum_noise
                .is_some_and(|noise| noise.divisor().is_some())
    }

    /// Returns the bytes that travel with the frame of an upload, which has these parts, and in it.
    pub fn upload_size(&self, parts: FrameParts) -> Bytes {
        Bytes::new(self.overheads.added_to(Route::UPLOAD, parts).total())
    }

    /// Returns whether a participation may end early, or may outlast its round, for other reasons
    /// than its own dropout.
    pub(crate) fn may_end_early(&self) -> bool {
        !self.policy.waits_for_everybody()
            || !self.population.availability.is_always()
            || !self.population.faults.is_empty()
    }

    /// Returns whether every user with history can take part at any time.
    pub(crate) fn everybody_can_take_part(&self) -> bool {
        self.excluded.is_empty() && self.population.availability.is_always()
    }

    /// Returns whether `user` is in no mean over all, since it comes in the course of the run, or an item
    /// that it has held out does.
    pub(crate) fn is_apart(&self, user: UserId) -> bool {
        let joins = self.joins.as_ref();
        joins.is_some_and(|joins| joins.is_apart(user))
    }

    /// Returns the ratings as devices know them at `now`. Only what they train on and score with may
    /// differ from [`Self::dataset`].
    pub(crate) fn known_at(&self, now: SimTime) -> &Dataset {
        let joins = self.joins.as_ref();
        let known = joins.and_then(|joins| joins.known_at(now));
        known.map_or(&*self.dataset, |(_, known)| known)
    }

    /// Returns whether `user` has something to train on, and its device the memory for it.
    pub(crate) fn can_take_part(&self, user: UserId) -> bool {
        let has_history = user.index() < self.dataset.users_with_history();
        has_history && self.excluded.binary_search(&user).is_err()
    }

    /// Returns the ratings that tell which items are candidates, where devices have `known`. New users are
    /// scored with few of their ratings, and none of the others becomes a candidate.
    pub(crate) fn catalogue<'a>(&'a self, known: &'a Dataset) -> &'a Dataset {
        match &self.joins {
            Some(joins) if joins.items() > 0 => known,
            _ => &self.dataset,
        }
    }

    /// Returns the candidates among the items that are there in this catalogue.
    pub(crate) fn candidates_among(&self, catalogue: &Dataset) -> &Candidates {
        let joins = self.joins.as_ref();
        let all = joins.and_then(|joins| joins.candidates.as_ref());
        let all = all.filter(|_| catalogue.absent_items().is_empty());
        all.unwrap_or(&self.candidates)
    }

    /// Returns how popular items are.
    pub(crate) fn popularity(&self) -> &Popularity {
        let dataset = &self.dataset;
        let joins = self.joins.as_ref();
        let newcomers = joins.map_or(0, Joins::users) as usize;
        let users = (dataset.users() - newcomers) as u32;
        self.popularity.get_or_init(|| {
            Popularity::new(&dataset.popularity(), dataset.raters().to_vec(), users)
        })
    }

    /// Returns the places in the list of evaluated users of those with these numbers.
    pub fn places_of(&self, users: &Range<u32>) -> Range<usize> {
        let evaluated = self.candidates.evaluated_users();
        let place = |first: u32| evaluated.partition_point(|user| user.0 < first);
        place(users.start)..place(users.end)
    }

    /// Returns whether candidates are everything that a user has not rated, and ranks among them are
    /// wanted.
    pub(crate) fn candidates_are_catalogue(&self) -> bool {
        self.metric_set.among_candidates && self.candidates.are_all()
    }

    /// Returns whether held-out items are ranked among everything that a user has not rated.
    pub(crate) fn ranks_in_catalogue(&self) -> bool {
        self.metric_set.in_catalogue || self.candidates_are_catalogue()
    }

    /// Returns the number of the method's phases.
    pub(crate) fn phases(&self) -> usize {
        self.layouts.len()
    }

    /// Returns what all participants of `phase` download who share a download. It has the blocks that
    /// others download.
    ///
    /// # Panics
    /// If the method has no such phase, which is a defect of its server side.
    pub(crate) fn shared_layout(&self, phase: Phase) -> &Layout {
        &self.layouts[usize::from(phase.0)].downloads[0]
    }

    /// Returns what participants download, phase by phase and class by class.
    pub(crate) fn download_layouts(&self) -> impl Iterator<Item = &Layout> + Clone {
        self.layouts.iter().flat_map(|layouts| &layouts.downloads)
    }

    /// Returns what each class downloads in `phase`, and the classes.
    ///
    /// # Panics
    /// As [`Self::shared_layout`].
    pub(crate) fn layouts_of_classes(&self, phase: Phase) -> (&[Layout], &Classes) {
        (&self.layouts[usize::from(phase.0)].downloads, &self.classes)
    }

    /// Returns the class of `user`.
    pub(crate) fn class_of(&self, user: UserId) -> Class {
        self.classes.of(user)
    }

    /// Returns the phase whose sequence of downloads `phase` goes on with: the first one in which the
    /// same is downloaded, so that a device which has a version needs no more than what has changed.
    pub(crate) fn download_sequence(&self, phase: Phase) -> Phase {
        let layout = self.shared_layout(phase);
        let mut phases = (0..phase.0).map(Phase);
        phases
            .find(|earlier| self.shared_layout(*earlier) == layout)
            .unwrap_or(phase)
    }

    /// Returns what `user` uploads if it takes part in `phase`, which includes what the choice of
    /// cohorts needs to know.
    ///
    /// # Panics
    /// As [`Self::shared_layout`].
    pub fn upload_layout(&self, phase: Phase, user: UserId) -> &Layout {
        let class = self.class_of(user);
        &self.layouts[usize::from(phase.0)].uploads[usize::from(class.0)]
    }

    /// Returns what participants upload, phase by phase and class by class.
    pub(crate) fn upload_layouts(&self) -> impl Iterator<Item = &Layout> + Clone {
        self.layouts.iter().flat_map(|layouts| &layouts.uploads)
    }

    /// Returns what a participant of `phase` exchanges with a third party, if anything.
    ///
    /// # Panics
    /// As [`Self::shared_layout`].
    pub(crate) fn exchange(&self, phase: Phase) -> Option<&Exchange> {
        self.layouts[usize::from(phase.0)].exchange.as_ref()
    }

    /// Returns whether participants of some phase ask a third party.
    pub(crate) fn has_third_party(&self) -> bool {
        self.layouts
            .iter()
            .any(|layouts| layouts.exchange.is_some())
    }

    /// Returns whether participants of some phase ask the server for the rows that they download.
    pub(crate) fn downloads_asked_rows(&self) -> bool {
        self.layouts
            .iter()
            .any(|layouts| layouts.legs.contains(&Leg::Transfer(Route::ASKED_ROWS)))
    }

    /// Returns the legs of a participation in `phase`, in their order.
    ///
    /// # Panics
    /// As [`Self::shared_layout`].
    pub(crate) fn legs(&self, phase: Phase) -> &[Leg] {
        &self.layouts[usize::from(phase.0)].legs
    }

    /// Returns whether frames may be damaged on their way, so that each must be checked when it
    /// arrives.
    pub(crate) fn checks_frames_on_arrival(&self) -> bool {
        !self.population.faults.is_empty()
    }
}

/// Checks that a method with a third party says so in its entry. Scenarios are checked by that.
fn check_third_party(
    scenario: &Scenario,
    layouts: &[PhaseLayouts],
    placement: Placement,
) -> Result<()> {
    let has_exchange = layouts.iter().any(|layouts| layouts.exchange.is_some());
    if has_exchange != (placement == Placement::Assisted) {
        let name = &scenario.method.name;
        let message = "has a third party if its `placement` is `Assisted`, and only then";
        return Err(Error::Usage(format!("the method {name} {message}")));
    }
    Ok(())
}

/// Checks that a method that predicts ratings has some to learn from, and that held-out ratings are
/// predicted.
fn check_ratings(
    scenario: &Scenario,
    dataset: &Dataset,
    predicts: bool,
    trains: bool,
) -> Result<()> {
    let name = &scenario.method.name;
    if !predicts && !dataset.holds_items_out() {
        return Err(Error::Dataset(format!(
            "`{name}` ranks items and predicts no ratings, but the split holds ratings out (dataset.split): take \
             `leave-one-out`, or a method that predicts ratings"
        )));
    }
    if predicts && trains && dataset.rating_scale().is_none() {
        return Err(Error::Dataset(format!(
            "`{name}` learns ratings, but the data set is implicit: it has no ratings, or all of them are alike"
        )));
    }
    Ok(())
}

/// Checks that there are enough users for the policy; `excluded` of them take no part.
fn check_users(scenario: &Scenario, policy: &Policy, users: usize, excluded: usize) -> Result<()> {
    let words = format!("there are {users} users");
    // Data sets with 2^32 users or more are refused on reading.
    let users = Users {
        all: users as u32,
        able: (users - excluded) as u32,
        words: &words,
    };
    match too_few_users(&scenario.training, policy, Some(users)).first() {
        Some((key, _, message)) => Err(Error::Usage(format!("{key}: {message}"))),
        None => Ok(()),
    }
}
/// Returns fault rules with the numbers of the users whom they name.
///
/// # Errors
/// [`Error::Usage`] for a user who is not there.
fn with_numbers(rules: &[FaultSpec], dataset: &Dataset) -> Result<Vec<FaultSpec>> {
    let with_number = |(place, rule): (usize, &FaultSpec)| {
        let mut rule = rule.clone();
        if let Some(FaultUsers::Names(names)) = &rule.users {
            let number = |name: &String| dataset.user_named(name).map(|user| user.0);
            let numbers: Result<_> = names.iter().map(number).collect();
            let of_rule = |error: Error| error.within(format!("faults[{place}].users.names"));
            rule.users = Some(FaultUsers::Numbers(numbers.map_err(of_rule)?));
        }
        Ok(rule)
    };
    rules.iter().enumerate().map(with_number).collect()
}
