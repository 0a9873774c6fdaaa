//! `[dataset]`: where ratings come from and what is done to them before training.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evaluation::CANDIDATES;
use super::{
    DelimitedSpec, Ranking, Scenario, SpeedSpec, columns, is_default, name_of, without_default,
};
use crate::Traffic;
use crate::check::Checker;
use crate::sizes::{ProblemSize, block_too_large, candidates_too_many, too_large};
use crate::{choices, keys, variants};
use fedrecsim_core::Timestamp;

keys! {
    /// The ratings and how they are split.
    pub struct DatasetSpec with required keys {
        /// Where the ratings come from.
        name: DatasetName;
        /// The generated population; only with `name = "generated"`.
        generator: Option<GeneratorSpec>;
        /// Layout of the file; only with `name = "delimited"`, and required there.
        columns: Option<DelimitedSpec>;
        /// The ratings file, which may be compressed with gzip or zstd (`ratings.csv.gz`,
        /// `ratings.csv.zst`). Required for `delimited`; a generated population has none; for the
        /// others the default is their usual place in a data folder. A relative path begins in the
        /// working directory or in a data folder.
        #[schemars(length(min = 1))]
        path: Option<PathBuf>;
        /// Users with fewer ratings are left out. The default is 10 for `lastfm-2k` (the filter of
        /// the FedRAP paper), 5 for `lastfm-2k-tags` and all ratings of a category of Amazon (that of
        /// the PFedRec paper), else 0.
        #[serde(default)]
        #[schemars(transform = without_default)]
        minimum_interactions: u32;
        /// Users and items with fewer ratings than this are left out, again and again until every one
        /// that is left has as many among those that are left (a k-core); not with
        /// `name = "generated"`. Ratings after a cut in time count as well, so a core knows of the
        /// future.
        k_core: Option<u32>, >= 2;
        /// Users with fewer different positive items are left out, after `minimum_interactions`;
        /// not with `name = "generated"`.
        minimum_positives: Option<u32>, >= 1;
        /// The lowest rating of a positive. A row with a lower one is as if it were labelled 0: the user
        /// did not want the item. Without the key every row is a positive, unless it is labelled 0; not
        /// with `name = "generated"`.
        positive_from: Option<f64>;
        /// What becomes of a pair of user and item that stands several times; not with
        /// `name = "generated"`. Without the key all rows are kept, and a warning counts them.
        repeated_pairs: Option<RepeatedPairs>;
        /// What becomes of users whom the run cannot serve: with too few positives for the split, too
        /// few items to draw negatives from, or too few candidates. They can be left out of the ratings
        /// of a file only.
        #[serde(default, skip_serializing_if = "is_default")]
        on_unusable_user: OnUnusableUser = OnUnusableUser::Refuse;
        /// A part of the users and items, to study other sizes and densities; not with
        /// `name = "generated"`. It is taken before users with few ratings are left out.
        subset: Option<SubsetSpec>;
        /// How the ratings are divided into a part to train on and a part to measure accuracy on.
        split: SplitSpec = SplitSpec::default();
        /// Training negatives.
        negatives: NegativesSpec = NegativesSpec::default();
    }
}

choices! {
    /// Where ratings come from.
    pub enum DatasetName {
        /// Made by the generator; no file.
        Generated,
        /// MovieLens 100K, `u.data`.
        #[serde(rename = "ml-100k")]
        Ml100k,
        /// MovieLens 1M, `ratings.dat` or a `ratings.csv` with an `order` column.
        #[serde(rename = "ml-1m")]
        Ml1m,
        /// MovieLens 10M, `ratings.dat`.
        #[serde(rename = "ml-10m")]
        Ml10m,
        /// MovieLens 20M, `ratings.csv`.
        #[serde(rename = "ml-20m")]
        Ml20m,
        /// MovieLens 25M, `ratings.csv`.
        #[serde(rename = "ml-25m")]
        Ml25m,
        /// MovieLens 32M, `ratings.csv`.
        #[serde(rename = "ml-32m")]
        Ml32m,
        /// MovieLens Latest Small, `ratings.csv`.
        MlLatestSmall,
        /// MovieLens Latest, `ratings.csv`.
        MlLatest,
        /// LastFM 2K (HetRec 2011), `user_artists.dat`.
        #[serde(rename = "lastfm-2k")]
        LastFm2k,
        /// LastFM 2K (HetRec 2011), who has given which artist a tag,
        /// `user_taggedartists-timestamps.dat`.
        #[serde(rename = "lastfm-2k-tags")]
        LastFm2kTags,
        /// Amazon Instant Video (2014), all ratings, `ratings_Amazon_Instant_Video.csv`.
        AmazonInstantVideo,
        /// Amazon Digital Music (2014), all ratings, `ratings_Digital_Music.csv`.
        AmazonMusic,
        /// Amazon Books (2014), all ratings, `ratings_Books.csv`.
        AmazonBooks,
        /// Amazon Beauty (2014), all ratings, `ratings_Beauty.csv`.
        AmazonBeauty,
        /// Amazon Toys and Games (2014), all ratings, `ratings_Toys_and_Games.csv`.
        AmazonToys,
        /// Amazon Baby (2014), all ratings, `ratings_Baby.csv`.
        AmazonBaby,
        /// Amazon Sports and Outdoors (2014), all ratings, `ratings_Sports_and_Outdoors.csv`.
        AmazonSports,
        /// Amazon Instant Video (2014), ratings of users and items with at least five reviews, as
        /// `fedrecsim data fetch` writes them.
        #[serde(rename = "amazon-instant-video-5core")]
        AmazonInstantVideo5Core,
        /// Amazon Digital Music (2014), ratings of users and items with at least five reviews.
        #[serde(rename = "amazon-music-5core")]
        AmazonMusic5Core,
        /// Amazon Beauty (2014), ratings of users and items with at least five reviews.
        #[serde(rename = "amazon-beauty-5core")]
        AmazonBeauty5Core,
        /// Amazon Toys and Games (2014), ratings of users and items with at least five reviews.
        #[serde(rename = "amazon-toys-5core")]
        AmazonToys5Core,
        /// Amazon Baby (2014), ratings of users and items with at least five reviews.
        #[serde(rename = "amazon-baby-5core")]
        AmazonBaby5Core,
        /// Amazon Sports and Outdoors (2014), ratings of users and items with at least five reviews.
        #[serde(rename = "amazon-sports-5core")]
        AmazonSports5Core,
        /// Amazon Digital Music (2018), all ratings, `Digital_Music.csv`.
        #[serde(rename = "amazon-2018-music")]
        Amazon2018Music,
        /// Amazon Books (2018), all ratings, `Books.csv`.
        #[serde(rename = "amazon-2018-books")]
        Amazon2018Books,
        /// Amazon All Beauty (2018), all ratings, `All_Beauty.csv`.
        #[serde(rename = "amazon-2018-beauty")]
        Amazon2018Beauty,
        /// Amazon Toys and Games (2018), all ratings, `Toys_and_Games.csv`.
        #[serde(rename = "amazon-2018-toys")]
        Amazon2018Toys,
        /// Amazon Sports and Outdoors (2018), all ratings, `Sports_and_Outdoors.csv`.
        #[serde(rename = "amazon-2018-sports")]
        Amazon2018Sports,
        /// MovieTweetings, the snapshot of 100,000 ratings, `ratings.dat`.
        #[serde(rename = "movietweetings-100k")]
        MovieTweetings100k,
        /// Gowalla, check-ins at places, `loc-gowalla_totalCheckins.txt.gz`.
        Gowalla,
        /// FilmTrust, ratings of movies without times, `ratings.txt`.
        #[serde(rename = "filmtrust")]
        FilmTrust,
        /// KuaiRec, how much of a video users watched, `big_matrix.csv`.
        #[serde(rename = "kuairec")]
        KuaiRec,
        /// Any delimited text file, as `[dataset.columns]` describes it.
        Delimited,
    }
}

impl DatasetSpec {
    /// Returns what a scenario has that says nothing of its data but the name.
    pub fn named(name: DatasetName) -> Self {
        Self {
            name,
            generator: None,
            columns: None,
            path: None,
            minimum_interactions: match name {
                // The filter of the FedRAP paper.
                DatasetName::LastFm2k => 10,
                // The filter of the PFedRec paper. Most users of Amazon have a single rating, so
                // nothing can be held out.
                DatasetName::LastFm2kTags
                | DatasetName::AmazonInstantVideo
                | DatasetName::AmazonMusic
                | DatasetName::AmazonBooks
                | DatasetName::AmazonBeauty
                | DatasetName::AmazonToys
                | DatasetName::AmazonBaby
                | DatasetName::AmazonSports
                | DatasetName::Amazon2018Music
                | DatasetName::Amazon2018Books
                | DatasetName::Amazon2018Beauty
                | DatasetName::Amazon2018Toys
                | DatasetName::Amazon2018Sports => 5,
                _ => 0,
            },
            k_core: None,
            minimum_positives: None,
            positive_from: None,
            repeated_pairs: None,
            on_unusable_user: OnUnusableUser::Refuse,
            subset: None,
            split: SplitSpec::default(),
            negatives: NegativesSpec::default(),
        }
    }

    /// Returns the number of users of a generated population. Those of a file are counted when it
    /// is read.
    pub fn generated_users(&self) -> Option<u32> {
        self.generator.as_ref().map(|generator| generator.users)
    }
}

keys! {
    /// A part of the users and items of a file. Items are chosen first, and users by the ratings
    /// that are then left to them.
    pub struct SubsetSpec {
        /// The number of users to keep; all if it is absent.
        users: Option<u32> = None, >= 1;
        /// The number of items to keep; all if it is absent.
        items: Option<u32> = None, >= 1;
        /// Which of them are kept.
        keep: Kept = Kept::MostRated;
        /// Whether only users are kept whose ratings all have a timestamp. They are chosen first.
        with_timestamps: bool = false;
        /// The number of ratings of each user to keep, the latest ones; all if it is absent. They are
        /// chosen last.
        newest_per_user: Option<u32> = None, >= 1;
    }
}

impl SubsetSpec {
    /// Returns whether nothing is left out.
    fn keeps_all(&self) -> bool {
        self.users.is_none()
            && self.items.is_none()
            && self.newest_per_user.is_none()
            && !self.with_timestamps
    }
}

choices! {
    /// The users or items of a file that a part of it keeps.
    pub enum Kept {
        /// Those with the most ratings.
        MostRated,
        /// Those with the fewest ratings.
        LeastRated,
        /// Some that are drawn at random, by the seed.
        Random,
    }
}

choices! {
    /// What becomes of rows with the same user and item.
    pub enum RepeatedPairs {
        /// Each row is a rating of its own, and a positive of its own to train on.
        Keep,
        /// The latest row stays.
        Last,
        /// The earliest row stays.
        First,
        /// The latest row stays, with the sum of the ratings and of the weights.
        Sum,
    }
}

choices! {
    /// What becomes of users whom a run cannot serve.
    #[derive(Default)]
    pub enum OnUnusableUser {
        /// The run is refused, and the first of them is named.
        #[default]
        Refuse,
        /// They are left out, with all of their ratings, and the report counts them.
        LeaveOut,
    }
}

variants! {
    /// How ratings are divided into a part to train on and a part to measure accuracy on.
    #[derive(Copy)]
    pub enum SplitSpec {
        /// The latest rating of every user is held out, to be ranked against candidates. Training
        /// then sees what other users did later.
        LeaveOneOut {
            /// Whether the last but one rating is held out for validation too.
            #[schemars(extend("default" = true))]
            validation_item: bool,
            /// What a user rated within so many days before a held-out item is left out: it is neither
            /// trained on nor weighed, and no candidate. Left out: nothing is.
            #[schemars(extend("exclusiveMinimum" = 0.0))]
            session_gap_days: Option<f64>,
        },
        /// A share of every user's ratings is drawn and held out, to be ranked against candidates.
        Holdout(HoldoutSpec),
        /// What was rated before one instant is trained on. What every user rated from then on is held
        /// out, to be ranked against the items that somebody had rated before.
        GlobalTime(GlobalTimeSpec),
        /// The column `dataset.columns.part` says of every rating whether it is for training, for validation
        /// or for the test. It is the split wherever that column is given.
        ByColumn(ByColumnSpec),
        /// One of several random equal parts of all ratings is held out, to be predicted: a run is one
        /// fold. The folds of one seed, or of one division, cover every rating once.
        KFold {
            /// Number of parts.
            #[schemars(range(min = 2, max = 1000), extend("default" = 5))]
            folds: u32,
            /// The part that is held out, from 0.
            #[schemars(extend("default" = 0))]
            fold: u32,
            /// Number of a division that is the same with every seed. Runs whose seeds follow one
            /// another then hold out one part after the other: part `fold` plus seed, modulo `folds`.
            /// Left out: the seed draws the division.
            division: Option<u32>,
        },
    }
}

keys! {
    /// Drawn ratings of every user are held out.
    #[derive(Copy)]
    pub struct HoldoutSpec {
        /// The share of a user's ratings that is tested, rounded, and at least one rating.
        share: f64 = 0.2, > 0.0, < 1.0;
        /// The share that is held out for validation too, rounded, and at least one rating if it is
        /// above 0.
        validation_share: f64 = 0.0, >= 0.0, < 1.0;
    }
}

keys! {
    /// A column says what is held out.
    #[derive(Copy)]
    pub struct ByColumnSpec {
        /// What is held out: items, or ratings.
        holds_out: HoldsOut = HoldsOut::Items;
    }
}

choices! {
    /// What the rows of a test part are for.
    pub enum HoldsOut {
        /// Their items are ranked against candidates. Those of the validation part are, too, if the column
        /// has one. An item that the user has in an earlier part as well is not held out.
        Items,
        /// Their ratings are predicted. There is no validation part.
        Ratings,
    }
}

keys! {
    /// Training ends at one instant for all users.
    #[derive(Copy)]
    pub struct GlobalTimeSpec with required keys {
        /// The instant from which ratings are tested: a date, or the share of all ratings that come
        /// before it.
        cut: Cut;
        /// The share of all ratings, those just before the cut, that is held out for validation.
        /// Training then ends before these.
        validation_share: f64 = 0.0, >= 0.0, < 1.0;
        /// The share of all ratings, those just after the cut, that is tested. Left out: all of them.
        window_share: Option<f64>, > 0.0, < 1.0;
        /// Which ratings of a user in that window are tested.
        targets: Targets = Targets::First;
        /// A user's session ends with a pause of so many days; for `targets = "first-session"`.
        session_gap_days: f64 = 1.0, > 0.0;
        /// Whether users are tested who have rated nothing before. Otherwise they are counted alone.
        new_users: bool = false;
        /// Whether items are ranked that nobody had rated before. Otherwise such a target counts as
        /// missed by every method.
        new_items: bool = false;
    }
}

choices! {
    /// The ratings of a user after a cut in time that are tested: of items that the user had not
    /// rated before.
    pub enum Targets {
        /// The first one. Of several at the same instant one is drawn.
        First,
        /// Those of the first session.
        FirstSession,
        /// All of them.
        All,
    }
}

/// An instant at which ratings are divided.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Cut {
    /// The share of all ratings that come before it.
    Share(#[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))] f64),
    /// A date, with or without a time, as in `2000-12-31 23:59:59`; UTC without an offset.
    Instant(#[serde(deserialize_with = "date_or_unknown")] Timestamp),
}

/// Reads a date. One that cannot be read is unknown, and refused with its place in the file.
fn date_or_unknown<'de, D: serde::Deserializer<'de>>(text: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(text)?;
    Ok(Timestamp::parse(&text).unwrap_or(Timestamp::UNKNOWN))
}

impl Default for SplitSpec {
    fn default() -> Self {
        Self::LEAVE_ONE_OUT
    }
}

impl SplitSpec {
    /// Holds the latest item of every user out, and the one before it for validation.
    pub const LEAVE_ONE_OUT: Self = Self::leave_one_out(true);

    /// Holds the latest item of every user out, and the one before it if `validation_item` is true.
    pub const fn leave_one_out(validation_item: bool) -> Self {
        Self::LeaveOneOut {
            validation_item,
            session_gap_days: None,
        }
    }

    /// Returns the part that a run with this seed holds out, from 0; `None` if it holds single
    /// items out.
    pub fn part(&self, seed: u64) -> Option<u32> {
        match *self {
            Self::LeaveOneOut { .. }
            | Self::Holdout(_)
            | Self::GlobalTime(_)
            | Self::ByColumn(_) => None,
            Self::KFold {
                folds,
                fold,
                division,
            } => {
                let folds = u64::from(folds.max(1));
                let later = division.map_or(0, |_| seed % folds);
                Some(((u64::from(fold) + later) % folds) as u32)
            }
        }
    }

    /// Returns whether ratings are held out, in place of items.
    pub(crate) fn holds_ratings_out(&self) -> bool {
        match self {
            Self::KFold { .. } => true,
            Self::ByColumn(spec) => spec.holds_out == HoldsOut::Ratings,
            Self::LeaveOneOut { .. } | Self::Holdout(_) | Self::GlobalTime(_) => false,
        }
    }

    /// Returns whether items are held out for validation besides the test part. Where a column says so, it
    /// is known only when the ratings are read, and there may be some.
    pub fn has_validation_items(&self) -> bool {
        match *self {
            Self::ByColumn(spec) => spec.holds_out == HoldsOut::Items,
            Self::LeaveOneOut {
                validation_item, ..
            } => validation_item,
            Self::Holdout(spec) => spec.validation_share > 0.0,
            Self::GlobalTime(spec) => spec.validation_share > 0.0,
            Self::KFold { .. } => false,
        }
    }

    /// Returns the key that would hold validation items out.
    pub fn validation_key(&self) -> &'static str {
        match self {
            Self::LeaveOneOut { .. } | Self::KFold { .. } => {
                "dataset.split.leave-one-out.validation_item"
            }
            Self::Holdout(_) => "dataset.split.holdout.validation_share",
            Self::GlobalTime(_) => "dataset.split.global-time.validation_share",
            Self::ByColumn(_) => PART,
        }
    }
}

keys! {
    /// Parameters of the generated population.
    pub struct GeneratorSpec {
        /// Number of users.
        users: u32 = 500, >= 1, <= 100_000_000;
        /// Number of items.
        items: u32 = 1000, >= 4, <= 100_000_000;
        /// Mean number of ratings of a user; the counts are lognormal.
        ratings_per_user: f64 = 40.0, >= 3.0;
        /// Standard deviation of the logarithm of that count; 0 gives every user the same count.
        ratings_log_sigma: f64 = 0.6, >= 0.0, <= 3.0;
        /// Exponent of the Zipf law of item popularity; 0 makes all items equally popular.
        popularity_exponent: f64 = 0.8, >= 0.0, <= 3.0;
        /// Dimension of the latent tastes.
        taste_dimension: u32 = 4, >= 1, <= 64;
        /// How much tastes, rather than popularity, decide what a user rates; 0 means not at all.
        taste_strength: f64 = 5.0, >= 0.0, <= 20.0;
        /// Correlation between the first of a user's tastes and the logarithm of the time that its
        /// device takes for a row visit. The ratings and the distribution of speeds stay as they are,
        /// and only who has which device changes. It takes `devices.speed.lognormal`.
        device_correlation: f64 = 0.0, >= -1.0, <= 1.0;
    }
}

keys! {
    /// Which items may serve as training negatives, and how many.
    pub struct NegativesSpec {
        /// The pool that negatives are drawn from.
        pool: NegativePool = NegativePool::NotInTrain;
        /// Negatives per positive, without replacement within one positive, redrawn every round.
        per_positive: u32 = 4, >= 1, <= 1000;
    }
}

choices! {
    /// The pool of training negatives: the switch that decides every accuracy.
    pub enum NegativePool {
        /// Items that the user never touched, the held-out ones excluded too: what the papers' code
        /// does. A client that remembers its negatives can find the held-out item by elimination.
        Unrated,
        /// Everything but the training positives: what a device can really know.
        NotInTrain,
        /// Items that the user never touched, and neither the held-out ones nor the candidates that
        /// they are ranked against (the code of CoLR and FedPEFT). No device can know these either,
        /// but elimination does not tell the held-out item from its candidates.
        Symmetric,
    }
}

/// The column that says to which part a rating belongs.
const PART: &str = "dataset.columns.part";

/// Fills in what depends on the name of the data set, and the split of a column of parts.
pub(super) fn fill(scenario: &mut Scenario, checker: &Checker<'_>) {
    let dataset = &mut scenario.dataset;
    if dataset.name == DatasetName::Generated {
        dataset.generator.get_or_insert_default();
    }
    if !checker.file.has("dataset.minimum_interactions") {
        let usual = DatasetSpec::named(dataset.name);
        dataset.minimum_interactions = usual.minimum_interactions;
    }
    let has_parts = dataset.columns.as_ref().is_some_and(|c| c.part.is_some());
    if has_parts && !checker.file.has("dataset.split") {
        dataset.split = SplitSpec::ByColumn(ByColumnSpec::default());
    }
    if let Some(separator) = dataset.columns.as_mut().and_then(|c| c.separator.as_mut()) {
        *separator = columns::separator_of(separator);
    }
}

pub(super) fn check(scenario: &Scenario, checker: &mut Checker<'_>) {
    let dataset = &scenario.dataset;
    let is_generated = dataset.name == DatasetName::Generated;
    let is_delimited = dataset.name == DatasetName::Delimited;
    let subset = dataset.subset.as_ref();
    checker.refuse_if(
        dataset.generator.is_some() && !is_generated,
        "dataset.generator",
        "`generator` belongs to `name = \"generated\"` only",
    );
    checker.refuse_if(
        dataset.columns.is_some() && !is_delimited,
        "dataset.columns",
        "`columns` belongs to `name = \"delimited\"` only",
    );
    if dataset.columns.is_none() && is_delimited {
        let message = "`name = \"delimited\"` needs the table `[dataset.columns]`";
        checker.contradiction("dataset.name", "dataset.columns", message);
    }
    checker.refuse_if(
        dataset.path.is_some() && is_generated,
        "dataset.path",
        "a generated population is not read from a file: `path` has no meaning here",
    );
    if dataset.path.is_none() && is_delimited {
        let message = "`name = \"delimited\"` needs the key `path`, the ratings file";
        checker.contradiction("dataset.name", "dataset.path", message);
    }
    checker.refuse_if(
        subset.is_some() && is_generated,
        "dataset.subset",
        "a generated population has as many users and items as `[dataset.generator]` says, and \
         no `subset`",
    );
    checker.refuse_if(
        dataset.k_core.is_some() && is_generated,
        "dataset.k_core",
        "a generated population is taken as it is: `k_core` belongs to the ratings of a file",
    );
    for (key, is_given) in [
        ("minimum_positives", dataset.minimum_positives.is_some()),
        ("positive_from", dataset.positive_from.is_some()),
        ("repeated_pairs", dataset.repeated_pairs.is_some()),
        (
            "on_unusable_user",
            dataset.on_unusable_user != OnUnusableUser::Refuse,
        ),
    ] {
        let message = format!(
            "a generated population is taken as it is: `{key}` belongs to the ratings of a file"
        );
        checker.refuse_if(
            is_given && is_generated,
            &format!("dataset.{key}"),
            &message,
        );
    }
    checker.refuse_if(
        subset.is_some_and(|subset| subset.keeps_all()),
        "dataset.subset",
        "`subset` needs `users`, `items` or `newest_per_user`: how many of them are to be kept; or \
         `with_timestamps = true`",
    );
    if let SplitSpec::KFold { folds, fold, .. } = dataset.split
        && fold >= folds
    {
        let last = folds.saturating_sub(1);
        checker.fault(
            "dataset.split.k-fold.fold",
            format!("`fold` is {fold}, but the {folds} folds are numbered from 0 to {last}"),
        );
    }
    check_parts(dataset, checker);
    check_split(dataset, checker);
    let ranks = checker
        .traffic
        .as_ref()
        .is_some_and(|of| !of.predicts_ratings);
    if dataset.split.holds_ratings_out() && ranks {
        let name = checker.method.name;
        let (split, instead) = match dataset.split {
            SplitSpec::ByColumn(_) => ("by-column", "`holds_out = \"items\"`"),
            _ => ("k-fold", "`leave-one-out`"),
        };
        checker.fault(
            "dataset.split",
            format!(
                "`{name}` ranks items and predicts no ratings, which `{split}` holds out: take \
                 {instead}, or a method that predicts ratings"
            ),
        );
    }
    if let Some(generator) = dataset.generator.as_ref().filter(|_| is_generated) {
        check_population(generator, scenario, checker);
        check_devices(generator, scenario, checker);
        check_sizes(generator, scenario, checker);
    }
    if let Some(columns) = dataset.columns.as_ref().filter(|_| is_delimited) {
        columns::check(columns, checker);
    }
    checker.idle_if(
        !checker.method.draws_negatives,
        "dataset.negatives",
        "the method draws no training negatives from this pool",
    );
}

/// Refuses users who are only tested where a user has to take part in every step.
pub(super) fn contradiction(
    traffic: &Traffic,
    split: &SplitSpec,
    found: &mut Vec<(String, String)>,
) {
    if let SplitSpec::GlobalTime(GlobalTimeSpec {
        new_users: true, ..
    }) = split
        && traffic.needs_everybody
    {
        let message = "`new_users` tests users who take part in nothing, and a device of this \
                       method scores with a table that it has brought up to date in every step: \
                       take `download = \"table\"`, or leave `new_users` out";
        found.push((
            "dataset.split.global-time.new_users".to_owned(),
            message.to_owned(),
        ));
    }
}

/// Checks that the pool of negatives has a meaning under the split.
fn check_pool(dataset: &DatasetSpec, checker: &mut Checker<'_>) {
    let pool = dataset.negatives.pool;
    if matches!(dataset.split, SplitSpec::GlobalTime(_)) && pool != NegativePool::NotInTrain {
        checker.contradiction(
            "dataset.negatives.pool",
            "dataset.split",
            format!(
                "the pool `{}` leaves out what users rate after the cut, which nobody can know: take \
                 `not-in-train`",
                name_of(&pool)
            ),
        );
    }
}

/// Checks that a column of parts and the split say the same.
fn check_parts(dataset: &DatasetSpec, checker: &mut Checker<'_>) {
    let column = dataset.columns.as_ref().and_then(|c| c.part.as_ref());
    match (column, dataset.split) {
        (None, SplitSpec::ByColumn(_)) => checker.contradiction(
            "dataset.split",
            PART,
            format!("`by-column` needs the column that says to which part a rating belongs: give `{PART}`"),
        ),
        (Some(_), split) if !matches!(split, SplitSpec::ByColumn(_)) => {
            let split = name_of(&split);
            checker.contradiction(
                "dataset.split",
                PART,
                format!(
                    "`{split}` divides the ratings by itself, and `{PART}` says to which part each belongs: leave one \
                     of them out"
                ),
            );
        }
        _ => {}
    }
}

fn check_split(dataset: &DatasetSpec, checker: &mut Checker<'_>) {
    match dataset.split {
        SplitSpec::Holdout(HoldoutSpec {
            share,
            validation_share,
        }) if share + validation_share >= 1.0 => checker.contradiction(
            "dataset.split.holdout.validation_share",
            "dataset.split.holdout.share",
            format!(
                "`share` {share} and `validation_share` {validation_share} leave nothing to train on"
            ),
        ),
        SplitSpec::GlobalTime(spec) => {
            let GlobalTimeSpec {
                cut,
                validation_share,
                window_share,
                targets,
                ..
            } = spec;
            checker.refuse_if(
                cut == Cut::Instant(Timestamp::UNKNOWN),
                "dataset.split.global-time.cut",
                "`cut` is no date: write one as in \"2000-12-31\" or \"2000-12-31 23:59:59\", or the share \
                 of ratings before it, as in 0.8",
            );
            if let Cut::Share(share) = cut {
                if validation_share >= share {
                    checker.contradiction(
                        "dataset.split.global-time.validation_share",
                        "dataset.split.global-time.cut",
                        format!(
                            "`validation_share` {validation_share} leaves nothing to train on before \
                             the cut at {share} of the ratings"
                        ),
                    );
                }
                if let Some(window) = window_share.filter(|window| share + window > 1.0 + 1e-9) {
                    checker.contradiction(
                        "dataset.split.global-time.window_share",
                        "dataset.split.global-time.cut",
                        format!(
                            "a window of {window} of the ratings does not fit behind the cut at {share}: \
                             leave `window_share` out for all that follow"
                        ),
                    );
                }
            }
            checker.idle_if(
                targets != Targets::FirstSession,
                "dataset.split.global-time.session_gap_days",
                "`targets` is not `first-session`",
            );
        }
        _ => {}
    }
    check_pool(dataset, checker);
    let goes_by_time = match dataset.split {
        SplitSpec::GlobalTime(_) => Some("`global-time` divides ratings by a clock"),
        SplitSpec::LeaveOneOut {
            session_gap_days: Some(_),
            ..
        } => Some("`session_gap_days` goes by a clock"),
        _ => None,
    };
    let has_no_clock = match dataset.name {
        DatasetName::Generated => Some("a generated population has none"),
        DatasetName::LastFm2k => Some("LastFM 2K has none: its file says how often, not when"),
        DatasetName::FilmTrust => Some("FilmTrust has none"),
        _ => None,
    };
    if let (Some(rule), Some(fact)) = (goes_by_time, has_no_clock) {
        let message = format!("{rule}, and {fact}");
        checker.contradiction("dataset.split", "dataset.name", message);
    }
}

pub(super) const USERS: &str = "dataset.generator.users";
const ITEMS: &str = "dataset.generator.items";
const RATINGS: &str = "dataset.generator.ratings_per_user";
const CORRELATION: &str = "dataset.generator.device_correlation";

/// Checks numbers that must fit into a generated population. The size of a population from a file
/// is known only when it is read.
fn check_population(generator: &GeneratorSpec, scenario: &Scenario, checker: &mut Checker<'_>) {
    let evaluation = &scenario.evaluation;
    let (users, items) = (generator.users, generator.items);
    if evaluation.users > users {
        let evaluated = evaluation.users;
        checker.contradiction(
            "evaluation.users",
            USERS,
            format!("`users` is {evaluated}, but the population (`{USERS}`) is {users}"),
        );
    }
    // A held-out item is ranked against items that its user never rated, and a rating is not.
    if let Ranking::Sampled(sampled) = evaluation.ranking
        && !scenario.dataset.split.holds_ratings_out()
        && sampled.candidates >= items
    {
        checker.contradiction(
            CANDIDATES,
            ITEMS,
            format!(
                "{} candidates (`{CANDIDATES}`) cannot be drawn for a user from {items} items \
                 (`{ITEMS}`): candidates are items that the user never rated",
                sampled.candidates
            ),
        );
    }
    if generator.ratings_per_user > f64::from(items) {
        checker.contradiction(
            RATINGS,
            ITEMS,
            format!(
                "a user cannot rate {} of {items} items: lower `ratings_per_user` or raise `items`",
                generator.ratings_per_user
            ),
        );
    }
}

/// Checks that devices differ if they are to go by tastes.
fn check_devices(generator: &GeneratorSpec, scenario: &Scenario, checker: &mut Checker<'_>) {
    if generator.device_correlation == 0.0 {
        return;
    }
    let differ = match &scenario.devices.speed {
        SpeedSpec::Lognormal(spec) => spec.log_sigma > 0.0,
        SpeedSpec::Classes(_) | SpeedSpec::Trace { .. } => false,
    };
    if !differ {
        checker.contradiction(
            CORRELATION,
            "devices.speed",
            "tastes can go with devices of lognormal speeds only: give `devices.speed.lognormal` a \
             `log_sigma` above 0",
        );
    }
}

/// Checks products of numbers that are sound by themselves, but may together be more than a run can
/// hold.
fn check_sizes(generator: &GeneratorSpec, scenario: &Scenario, checker: &mut Checker<'_>) {
    const TASTES: &str = "dataset.generator.taste_dimension";
    let GeneratorSpec {
        users,
        items,
        ratings_per_user,
        taste_dimension,
        ..
    } = *generator;
    let size = ProblemSize {
        users: users as usize,
        items: items as usize,
    };
    let method = &scenario.method;
    let blocks = (checker.method.sizes)(&method.parameters, size);
    if let Some(reason) = blocks.iter().find_map(block_too_large) {
        checker.contradiction(&format!("method.{}", method.name), ITEMS, reason);
    }
    if let Some(size) = too_large([f64::from(items), f64::from(taste_dimension)], 4) {
        checker.contradiction(
            TASTES,
            ITEMS,
            format!("{items} items with {taste_dimension} tastes each take {size}"),
        );
    }
    if let Some(size) = too_large([f64::from(users), ratings_per_user], 8) {
        checker.contradiction(
            USERS,
            RATINGS,
            format!("{users} users with {ratings_per_user} ratings each take {size}"),
        );
    }
    if let Ranking::Sampled(sampled) = scenario.evaluation.ranking
        && !scenario.dataset.split.holds_ratings_out()
    {
        let evaluated = match scenario.evaluation.users {
            0 => users,
            some => some,
        };
        if let Some(message) = candidates_too_many(evaluated.into(), sampled.candidates.into()) {
            checker.contradiction(CANDIDATES, USERS, message);
        }
    }
}
