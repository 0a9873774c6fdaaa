//! Lists the public data sets that a scenario can name: whose they are, where they can be had, what
//! their files are called and how they are laid out. None of them may be redistributed, so none is
//! part of this project.

use std::io::BufRead;
use std::path::Path;

use super::compressed;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_scenario::scenario::{ColumnRef, DelimitedSpec, PublicDataset, SourceSpec};

/// A known public data set.
#[derive(Debug)]
pub struct KnownDataset {
    /// The data set.
    pub id: PublicDataset,
    /// The name by which scenarios and commands call it.
    pub name: &'static str,
    /// The data set's name in prose.
    pub title: &'static str,
    /// What it holds, in numbers of its provider.
    pub holds: &'static str,
    /// Usual places of the ratings file below a data folder, tried in this order.
    pub usual_files: &'static [&'static str],
    /// What its provider offers.
    pub archive: Archive,
    /// What the licence allows, in one line.
    pub licence: &'static str,
    /// The work to cite.
    pub citation: &'static str,
    /// Whether an item's first appearance stands for the time of its ratings.
    pub(super) ordered_by_item: bool,
    /// Returns the layout of a ratings file of this data set.
    pub layout: fn(&Path) -> Result<DelimitedSpec>,
}

/// A file that the provider of a data set offers.
#[derive(Debug)]
pub struct Archive {
    /// Its address.
    pub url: &'static str,
    /// Its length in words.
    pub length: &'static str,
    /// Its SHA-256, in hexadecimal, where it is known.
    pub sha256: Option<&'static str>,
    /// The address of the checksum that the provider offers beside the file, an MD5 or a SHA-256;
    /// `None` where none is offered, or none is needed since the SHA-256 is known.
    pub checksum_url: Option<&'static str>,
    /// What it is.
    pub content: Content,
}

/// What a provider's file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A zip archive with the ratings file and others.
    Zip,
    /// The ratings file itself.
    Ratings,
    /// Reviews, one JSON object in a line, compressed with gzip. The ratings are a part of them.
    Reviews,
}

impl Archive {
    /// Returns the name of the file.
    pub fn file_name(&self) -> &'static str {
        self.url.rsplit('/').next().unwrap_or(self.url)
    }
}

impl KnownDataset {
    /// Returns where `fedrecsim data fetch` puts the ratings file below a data folder.
    pub fn fetched_file(&self) -> &'static str {
        self.usual_files[0]
    }
}

/// A public data set that nobody but its user can fetch.
#[derive(Debug)]
pub struct ByHand {
    /// The name by which commands call it.
    pub name: &'static str,
    /// The data set's name in prose.
    pub title: &'static str,
    /// What it holds, in numbers of its provider.
    pub holds: &'static str,
    /// The page of its provider.
    pub page: &'static str,
    /// What the licence allows, in one line.
    pub licence: &'static str,
    /// The work to cite.
    pub citation: &'static str,
    /// How it is fetched and read.
    pub steps: &'static str,
}

const MOVIELENS_LICENCE: &str =
    "free for research, not for redistribution or commercial use (see its README)";
const MOVIELENS_CITATION: &str = "F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and \
                                  Context. ACM TiiS 5, 4, Article 19. https://doi.org/10.1145/2827872";
const LASTFM_LICENCE: &str =
    "free for non-commercial research, not for redistribution (see its readme)";
const LASTFM_CITATION: &str = "Ivan Cantador, Peter Brusilovsky and Tsvi Kuflik. 2011. Second Workshop on Information \
                               Heterogeneity and Fusion in Recommender Systems (HetRec 2011). RecSys '11. \
                               https://doi.org/10.1145/2043932.2044016";
const LASTFM_ARCHIVE: Archive = Archive {
    url: "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip",
    length: "2.6 MB",
    sha256: Some("6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c"),
    checksum_url: None,
    content: Content::Zip,
};
const AMAZON_LICENCE: &str =
    "none is stated; its provider offers it for research and asks to be cited";
const AMAZON_CITATION: &str = "Ruining He and Julian McAuley. 2016. Ups and Downs: Modeling the Visual Evolution of \
                               Fashion Trends with One-Class Collaborative Filtering. WWW '16. \
                               https://doi.org/10.1145/2872427.2883037";

/// Returns the entry of a data set of MovieLens whose `ratings.csv` has a header.
const fn movielens_csv(
    id: PublicDataset,
    [name, title, holds]: [&'static str; 3],
    usual_files: &'static [&'static str],
    archive: Archive,
) -> KnownDataset {
    KnownDataset {
        id,
        name,
        title,
        holds,
        usual_files,
        archive,
        licence: MOVIELENS_LICENCE,
        citation: MOVIELENS_CITATION,
        ordered_by_item: false,
        layout: |_| {
            Ok(DelimitedSpec {
                rating_range: Some(HALF_STARS),
                ..by_name("userId", "movieId", "timestamp")
            })
        },
    }
}

/// The lowest and the highest rating of most of these data sets.
const STARS: [f64; 2] = [1.0, 5.0];

/// The lowest and the highest rating of MovieLens 20M and larger, which have half stars.
const HALF_STARS: [f64; 2] = [0.5, 5.0];

/// The public data sets, in the order of their lists.
///
/// The checksums of MovieLens 100K, MovieLens 1M and LastFM-2K were taken from archives that this
/// project was tested with; those of the larger ones of MovieLens are the same in several
/// independent records of them.
pub static DATASETS: [KnownDataset; 9] = [
    KnownDataset {
        id: PublicDataset::Ml100k,
        name: "ml-100k",
        title: "MovieLens 100K",
        holds: "100,000 ratings by 943 users of 1,682 movies",
        usual_files: &["ml-100k/u.data", "u.data"],
        archive: Archive {
            url: "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
            length: "4.9 MB",
            sha256: Some("50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229"),
            checksum_url: None,
            content: Content::Zip,
        },
        licence: MOVIELENS_LICENCE,
        citation: MOVIELENS_CITATION,
        ordered_by_item: false,
        layout: |_| Ok(by_position("\t", false, Some(4))),
    },
    KnownDataset {
        id: PublicDataset::Ml1m,
        name: "ml-1m",
        title: "MovieLens 1M",
        holds: "1,000,209 ratings by 6,040 users of 3,706 movies",
        usual_files: &[
            "ml-1m/ratings.dat",
            "ml-1m/ratings.csv",
            "ratings.dat",
            "ratings.csv",
        ],
        archive: Archive {
            url: "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
            length: "5.9 MB",
            sha256: Some("a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20"),
            checksum_url: None,
            content: Content::Zip,
        },
        licence: MOVIELENS_LICENCE,
        citation: MOVIELENS_CITATION,
        ordered_by_item: false,
        layout: ml_1m_layout,
    },
    movielens_csv(
        PublicDataset::Ml20m,
        [
            "ml-20m",
            "MovieLens 20M",
            "20,000,263 ratings by 138,493 users of 26,744 movies",
        ],
        &["ml-20m/ratings.csv"],
        Archive {
            url: "https://files.grouplens.org/datasets/movielens/ml-20m.zip",
            length: "199 MB",
            sha256: Some("96f243c338a8665f6bcc89c53edf6ee39162a846940de6b7c8c48aeada765ff3"),
            checksum_url: None,
            content: Content::Zip,
        },
    ),
    movielens_csv(
        PublicDataset::Ml25m,
        [
            "ml-25m",
            "MovieLens 25M",
            "25,000,095 ratings by 162,541 users of 59,047 movies",
        ],
        &["ml-25m/ratings.csv"],
        Archive {
            url: "https://files.grouplens.org/datasets/movielens/ml-25m.zip",
            length: "262 MB",
            sha256: Some("8b21cfb7eb1706b4ec0aac894368d90acf26ebdfb6aced3ebd4ad5bd1eb9c6aa"),
            checksum_url: None,
            content: Content::Zip,
        },
    ),
    movielens_csv(
        PublicDataset::Ml32m,
        [
            "ml-32m",
            "MovieLens 32M",
            "32,000,204 ratings by 200,948 users of 84,432 movies",
        ],
        &["ml-32m/ratings.csv"],
        Archive {
            url: "https://files.grouplens.org/datasets/movielens/ml-32m.zip",
            length: "239 MB",
            sha256: Some("e4a68655d7386b8f95f2f2424b2ff975dfdd15ffd59e0d864a14dca43e99d6ee"),
            checksum_url: None,
            content: Content::Zip,
        },
    ),
    KnownDataset {
        id: PublicDataset::LastFm2k,
        name: "lastfm-2k",
        title: "LastFM-2K (HetRec 2011)",
        holds: "how often 1,892 users played 17,632 artists, in 92,834 pairs",
        usual_files: &[
            "lastfm-2k/user_artists.dat",
            "hetrec2011-lastfm-2k/user_artists.dat",
            "user_artists.dat",
        ],
        archive: LASTFM_ARCHIVE,
        licence: LASTFM_LICENCE,
        citation: LASTFM_CITATION,
        ordered_by_item: true,
        // The third column counts plays, which are a weight and not a rating.
        layout: |_| {
            let plays = Some(ColumnRef::Position(3));
            Ok(DelimitedSpec {
                rating: None,
                rating_range: None,
                weight: plays,
                ..by_position("\t", true, None)
            })
        },
    },
    KnownDataset {
        id: PublicDataset::LastFm2kTags,
        name: "lastfm-2k-tags",
        title: "LastFM-2K (HetRec 2011), tags",
        holds: "which of 1,892 users gave which artist a tag, and when, 186,479 times",
        usual_files: &[
            "lastfm-2k-tags/user_taggedartists-timestamps.dat",
            "lastfm-2k/user_taggedartists-timestamps.dat",
            "hetrec2011-lastfm-2k/user_taggedartists-timestamps.dat",
            "user_taggedartists-timestamps.dat",
        ],
        archive: LASTFM_ARCHIVE,
        licence: LASTFM_LICENCE,
        citation: LASTFM_CITATION,
        ordered_by_item: false,
        // The third column is the tag. A user may give an artist several.
        layout: |_| {
            Ok(DelimitedSpec {
                rating: None,
                rating_range: None,
                ..by_position("\t", true, Some(4))
            })
        },
    },
    KnownDataset {
        id: PublicDataset::AmazonInstantVideo,
        name: "amazon-instant-video",
        title: "Amazon Instant Video (2014)",
        holds: "583,933 ratings, most of them by users who gave a single one",
        usual_files: &[
            "amazon-instant-video/ratings_Amazon_Instant_Video.csv",
            "ratings_Amazon_Instant_Video.csv",
        ],
        archive: Archive {
            url: "https://snap.stanford.edu/data/amazon/productGraph/categoryFiles/ratings_Amazon_Instant_Video.csv",
            length: "about 24 MB",
            sha256: None,
            checksum_url: None,
            content: Content::Ratings,
        },
        licence: AMAZON_LICENCE,
        citation: AMAZON_CITATION,
        ordered_by_item: false,
        layout: |_| Ok(by_position(",", false, Some(4))),
    },
    KnownDataset {
        id: PublicDataset::AmazonInstantVideo5Core,
        name: "amazon-instant-video-5core",
        title: "Amazon Instant Video (2014), 5-core",
        holds: "37,126 ratings by 5,130 users of 1,685 items, each with at least five of them",
        usual_files: &["amazon-instant-video-5core/ratings.csv"],
        archive: Archive {
            url: "https://snap.stanford.edu/data/amazon/productGraph/categoryFiles/\
                  reviews_Amazon_Instant_Video_5.json.gz",
            length: "about 9.5 MB",
            sha256: None,
            checksum_url: None,
            content: Content::Reviews,
        },
        licence: AMAZON_LICENCE,
        citation: AMAZON_CITATION,
        ordered_by_item: false,
        layout: |_| Ok(by_name("user", "item", "timestamp")),
    },
];

/// The public data sets that have to be fetched by hand.
pub static BY_HAND: [ByHand; 1] = [ByHand {
    name: "tenrec-qb-article",
    title: "Tenrec, QB-article",
    holds: "348,736 clicks of 24,516 users on 7,355 articles",
    page: "https://tenrec0.github.io/",
    licence: "for research, after its terms were agreed to; not for redistribution",
    citation: "Guanghu Yuan et al. 2022. Tenrec: A Large-scale Multipurpose Benchmark Dataset for Recommender Systems. \
               NeurIPS 2022. https://arxiv.org/abs/2210.10629",
    steps: "Agree to the terms on the page, which then has the archive; unpack QB-article.csv from it, and name that \
            file in a scenario with dataset.name = \"delimited\", dataset.path, dataset.minimum_interactions = 10 (the \
            filter of the FedRAP paper) and [dataset.columns] separator = \",\", header = true, user = \"user_id\", item \
            = \"item_id\". It has no times: the rows of a user stand in their order",
}];

/// Returns the entry of a source that is a known public data set.
pub fn known(source: &SourceSpec) -> Option<&'static KnownDataset> {
    match source {
        SourceSpec::Public { name: id } => DATASETS.iter().find(|set| set.id == *id),
        SourceSpec::Generated { .. } | SourceSpec::Delimited { .. } => None,
    }
}

/// Returns a layout with user, item and a rating of one to five stars in the first three columns.
pub(super) fn by_position(separator: &str, header: bool, timestamp: Option<u32>) -> DelimitedSpec {
    DelimitedSpec {
        separator: separator.into(),
        header,
        user: ColumnRef::Position(1),
        item: ColumnRef::Position(2),
        rating: Some(ColumnRef::Position(3)),
        rating_range: Some(STARS),
        label: None,
        weight: None,
        timestamp: timestamp.map(ColumnRef::Position),
    }
}

/// Returns the layout of a csv with a header, in which ratings are called `rating` and are of one
/// to five stars.
fn by_name(user: &str, item: &str, timestamp: &str) -> DelimitedSpec {
    let name = |column: &str| ColumnRef::Name(column.into());
    DelimitedSpec {
        separator: ",".into(),
        header: true,
        user: name(user),
        item: name(item),
        rating: Some(name("rating")),
        rating_range: Some(STARS),
        label: None,
        weight: None,
        timestamp: Some(name(timestamp)),
    }
}

/// Returns the layout of `ratings.dat` as published, or of a `ratings.csv` of the same rows, told
/// apart by the first line.
///
/// The csv's `timestamp` column is filled in for some users only; its `order` column is
/// chronological for all.
fn ml_1m_layout(path: &Path) -> Result<DelimitedSpec> {
    let mut first_line = Vec::new();
    let read = compressed::open(path)?.read_until(b'\n', &mut first_line);
    read.map_err(|error| Error::read(path, error))?;
    let is_dat = path.extension().is_some_and(|extension| extension == "dat");
    if is_dat || first_line.windows(2).any(|pair| pair == b"::") {
        return Ok(by_position("::", false, Some(4)));
    }
    Ok(by_name("user", "movie", "order"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a file that was unpacked without a folder of its own is silently read as any
    /// of several data sets.
    #[test]
    fn no_file_is_found_for_two_data_sets() {
        let mut all: Vec<&str> = DATASETS
            .iter()
            .flat_map(|set| set.usual_files)
            .copied()
            .collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(
            all.len(),
            count,
            "one of {all:?} is a usual file of two data sets"
        );
    }

    /// If this fails, a data set that scenarios can name is in no list, or what is fetched is not
    /// found afterwards.
    #[test]
    fn every_public_data_set_has_one_entry_with_a_folder_of_its_own() {
        assert_eq!(DATASETS.each_ref().map(|set| set.id), PublicDataset::ALL);
        for set in &DATASETS {
            assert_eq!(set.fetched_file().split('/').next(), Some(set.name));
            assert_eq!(set.fetched_file().split('/').count(), 2);
            assert!(set.archive.url.starts_with("https://"), "{}", set.name);
            assert!(
                set.archive.sha256.is_none_or(|digits| digits.len() == 64),
                "{}",
                set.name
            );
        }
    }
}
