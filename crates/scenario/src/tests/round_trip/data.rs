//! Draws what scenarios say of their data.

use proptest::prelude::*;

use super::super::*;

fn column() -> impl Strategy<Value = ColumnRef> {
    prop_oneof![
        (1u32..100).prop_map(ColumnRef::Position),
        "[a-z\"\\\\ é]{1,8}".prop_map(ColumnRef::Name)
    ]
}

/// Draws where ratings come from, with a path of a file if there is one.
fn source() -> impl Strategy<Value = DatasetSpec> {
    let generated = (2u32..5000, 200u32..5000, 3.0..100.0, 0.0..3.0, 0.0..20.0).prop_map(
        |(users, items, ratings_per_user, popularity_exponent, taste_strength)| {
            let generator = GeneratorSpec {
                users,
                items,
                ratings_per_user,
                popularity_exponent,
                taste_strength,
                ..GeneratorSpec::default()
            };
            DatasetSpec {
                generator: Some(generator),
                ..DatasetSpec::named(DatasetName::Generated)
            }
        },
    );
    let path = || "[a-z/ \"\\\\é.]{1,12}";
    let delimited = (
        "[,;|\t:#\"']{1,3}",
        column(),
        column(),
        proptest::option::of(column()),
        path(),
    )
        .prop_filter("columns differ", |(_, user, item, time, _)| {
            user != item && time.as_ref() != Some(user) && time.as_ref() != Some(item)
        })
        .prop_map(|(separator, user, item, timestamp, path)| DatasetSpec {
            columns: Some(DelimitedSpec {
                separator: Some(separator),
                header: Some(true),
                user,
                item,
                rating: None,
                rating_range: None,
                label: None,
                weight: None,
                part: timestamp
                    .is_some()
                    .then(|| ColumnRef::Name("the part".to_owned())),
                timestamp,
                timestamp_format: None,
                order: None,
                on_incomplete: OnIncomplete::Skip,
            }),
            path: Some(path.into()),
            ..DatasetSpec::named(DatasetName::Delimited)
        });
    let names = [
        DatasetName::Ml100k,
        DatasetName::Ml1m,
        DatasetName::LastFm2k,
        DatasetName::AmazonInstantVideo5Core,
    ];
    let public = (
        proptest::sample::select(names.to_vec()),
        proptest::option::of(path()),
    )
        .prop_map(|(name, path)| DatasetSpec {
            path: path.map(Into::into),
            ..DatasetSpec::named(name)
        });
    prop_oneof![generated, delimited, public]
}

fn split() -> impl Strategy<Value = SplitSpec> {
    prop_oneof![
        // A run that is judged by its validation item needs one.
        Just(SplitSpec::LEAVE_ONE_OUT),
        Just(SplitSpec::Holdout(HoldoutSpec {
            validation_share: 0.1,
            ..HoldoutSpec::default()
        })),
        (2u32..1000).prop_flat_map(|folds| {
            let rest = (0..folds, proptest::option::of(any::<u32>()));
            rest.prop_map(move |(fold, division)| SplitSpec::KFold {
                folds,
                fold,
                division,
            })
        }),
    ]
}

pub(super) fn dataset() -> impl Strategy<Value = DatasetSpec> {
    let subset = (1u32..1000, proptest::option::of(1u32..1000), any::<bool>());
    (
        source(),
        any::<u32>(),
        any::<bool>(),
        1u32..1000,
        proptest::option::of(subset),
        split(),
    )
        .prop_map(
            |(source, minimum_interactions, unrated, per_positive, subset, split)| {
                let keep = |random| match random {
                    true => Kept::Random,
                    false => Kept::LeastRated,
                };
                let subset = subset.map(|(users, items, random)| SubsetSpec {
                    users: Some(users),
                    items,
                    keep: keep(random),
                    with_timestamps: random,
                    newest_per_user: random.then_some(items.unwrap_or(7)),
                });
                let pool = match unrated {
                    true => NegativePool::Unrated,
                    false => NegativePool::NotInTrain,
                };
                DatasetSpec {
                    minimum_interactions,
                    subset: subset.filter(|_| source.generator.is_none()),
                    // These columns include no ratings that could be held out.
                    split: match &source.columns {
                        Some(columns) if columns.part.is_some() => {
                            SplitSpec::ByColumn(ByColumnSpec::default())
                        }
                        Some(_) => SplitSpec::default(),
                        None => split,
                    },
                    negatives: NegativesSpec { pool, per_positive },
                    ..source
                }
            },
        )
}
