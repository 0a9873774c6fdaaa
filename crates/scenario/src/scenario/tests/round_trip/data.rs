//! Draws what scenarios say of their data.

use proptest::prelude::*;

use super::super::*;

fn column() -> impl Strategy<Value = ColumnRef> {
    prop_oneof![
        (1u32..100).prop_map(ColumnRef::Position),
        "[a-z\"\\\\ é]{1,8}".prop_map(ColumnRef::Name)
    ]
}

fn source() -> impl Strategy<Value = SourceSpec> {
    let generated = (2u32..5000, 200u32..5000, 3.0..100.0, 0.0..3.0, 0.0..20.0).prop_map(
        |(users, items, ratings_per_user, popularity_exponent, taste_strength)| {
            let shape = GeneratorSpec {
                popularity_exponent,
                taste_strength,
                ..GeneratorSpec::default()
            };
            SourceSpec::Generated {
                generator: GeneratorSpec {
                    users,
                    items,
                    ratings_per_user,
                    ..shape
                },
            }
        },
    );
    let delimited = (
        "[,;|\t:#\"']{1,3}",
        column(),
        column(),
        proptest::option::of(column()),
    )
        .prop_filter("columns differ", |(_, user, item, time)| {
            user != item && time.as_ref() != Some(user) && time.as_ref() != Some(item)
        })
        .prop_map(|(separator, user, item, timestamp)| SourceSpec::Delimited {
            columns: DelimitedSpec {
                separator,
                header: true,
                user,
                item,
                rating: None,
                rating_range: None,
                label: None,
                weight: None,
                timestamp,
            },
        });
    let public = (0..PublicDataset::ALL.len()).prop_map(|place| SourceSpec::Public {
        name: PublicDataset::ALL[place],
    });
    prop_oneof![generated, delimited, public]
}

fn split() -> impl Strategy<Value = SplitSpec> {
    prop_oneof![
        // A run that is judged by its validation item needs one.
        Just(SplitSpec::LeaveOneOut {
            validation_item: true
        }),
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
    let rest = (proptest::option::of(subset), split());
    (
        source(),
        "[a-z/ \"\\\\é.]{1,12}",
        any::<bool>(),
        any::<u32>(),
        any::<bool>(),
        1u32..1000,
        rest,
    )
        .prop_map(
            |(
                source,
                path,
                has_path,
                minimum_interactions,
                unrated,
                per_positive,
                (subset, split),
            )| {
                let keep = |random| {
                    if random {
                        Kept::Random
                    } else {
                        Kept::LeastRated
                    }
                };
                let subset = subset.map(|(users, items, random)| SubsetSpec {
                    users: Some(users),
                    items,
                    keep: keep(random),
                });
                let subset = subset.filter(|_| !matches!(source, SourceSpec::Generated { .. }));
                let path = match &source {
                    SourceSpec::Generated { .. } => None,
                    SourceSpec::Delimited { .. } => Some(path.into()),
                    _ => has_path.then(|| path.into()),
                };
                let pool = if unrated {
                    NegativePool::Unrated
                } else {
                    NegativePool::NotInTrain
                };
                let negatives = NegativesSpec { pool, per_positive };
                // These columns include no ratings that could be held out.
                let split = match &source {
                    SourceSpec::Delimited { .. } => SplitSpec::LeaveOneOut {
                        validation_item: true,
                    },
                    _ => split,
                };
                DatasetSpec {
                    source,
                    path,
                    minimum_interactions,
                    subset,
                    split,
                    negatives,
                }
            },
        )
}
