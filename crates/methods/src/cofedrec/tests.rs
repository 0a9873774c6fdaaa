#![allow(clippy::unwrap_used)]
//! Compares groups with the specification's examples, and trainings with PFedRec's.

use super::alike::{elbow, group_of};
use super::*;
use crate::declare::learn::contrast::{packed, unpacked};
use crate::declare::{Declared, controlled};
use crate::pfedrec::PFedRec;
use crate::server::{Download, StepWeights, WeightTotals};
use crate::tests::{holding, problem_of};
use fedrecsim_core::{InvitationId, Round};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_data::dataset::negatives::Samples;
use fedrecsim_model::blocks::BlockValues;
use fedrecsim_model::neural::contrast::add_contrast;
use fedrecsim_scenario::Aggregation;

/// Trains a client on these samples with a step size for three items.
fn train(client: &mut dyn Client, model: &Model, round: u32) -> Trained {
    let samples = Samples {
        items: vec![0, 1, 3, 1],
        labels: vec![1.0, 0.0, 1.0, 0.0],
    };
    let names = (UserId(0), Round(round), InvitationId(round));
    let task = LocalTask::new(names, model, OwnData::new(&[0, 3]), Streams::new(1), 1e9);
    client.train(&task, &mut holding(samples)).unwrap()
}

fn scores(client: &dyn Client, model: &Model) -> [f32; 4] {
    let (mut scratch, mut scores) = (Scratch::default(), [0.0; 4]);
    let own = OwnData::new(&[0, 3]);
    let context = ScoringContext::new(UserId(0), model, own, Streams::new(1), &mut scratch);
    let scorer = client.scorer(context).unwrap();
    scorer.score(&[0, 1, 2, 3], &mut scores).unwrap();
    scores
}

/// If this fails, a group has other users than those up to the elbow.
#[test]
fn groups_are_those_of_the_examples() {
    assert_eq!(elbow(&[3.0, 2.9, 2.8, 1.0, 0.5]), 2);
    assert_eq!([elbow(&[]), elbow(&[1.0]), elbow(&[1.0; 3])], [0; 3]);
    let table = |values: &[f32]| Table::new(TableShape::new(values.len() / 2, 2), values.to_vec());
    // The first row of users 0 and 2 points the same way, and user 1's the other.
    let tables = [
        [1.0, 0.0, 5.0, 5.0],
        [-1.0, 0.5, 5.0, 5.0],
        [2.0, 0.1, -5.0, 5.0],
    ];
    let tables = tables.map(|values| table(&values));
    assert_eq!(group_of(2, &tables.each_ref(), &[0]), [2, 0]);
    assert_eq!(
        group_of(1, &tables.each_ref(), &[]),
        [1],
        "nobody is more alike than itself"
    );
}

/// Returns the model of the server after a step with these tables of two columns, one of each user,
/// and what each user downloads then.
fn downloads_after<const N: usize>(
    method: &dyn Method,
    tables: &[[f32; N]],
) -> (Model, Vec<Model>) {
    let mut server = method.server();
    let download = |server: &dyn Server, user: u32| match server.download() {
        Download::PerUser(made) => made.download(UserId(user)).unwrap(),
        other => panic!("{other:?} is not of each user"),
    };
    assert_eq!(download(&*server, 0), Model::none());
    let mut sums = server.accumulator();
    for (user, values) in (0u32..).zip(tables) {
        let table = Table::new(TableShape::new(N / 2, 2), values.to_vec());
        let update = ModelUpdate::of_table(TableUpdate::whole(table));
        let received = Model::none();
        let sent = Contribution::fresh(UserId(user), InvitationId(user), &update, &received);
        sums.absorb(&[sent]).unwrap();
    }
    let normalise = |_: &WeightTotals| -> StepWeights { unreachable!("no table is weighed") };
    let users = tables.len() as u32;
    let step = StepContext::new(0, users, &normalise, Streams::new(5));
    server.step(sums, &step).unwrap();
    let downloads = (0..users).map(|user| download(&*server, user)).collect();
    (server.model().clone(), downloads)
}

/// If this fails, members of a group do not get the mean of their tables, others get it too, or
/// somebody does not learn of the clusters.
#[test]
fn a_group_gets_the_mean_of_its_tables_and_everybody_the_clusters() {
    let parameters = CoFedRecParameters {
        latent_dimension: 2,
        clusters: 2,
        ..CoFedRecParameters::default()
    };
    let bits = parameters.bits();
    let method: Declared<CoFedRec<true>> = Declared::new(parameters, &problem_of(4, 2));
    // Users 0 and 1 are alike in both items, and the others are less and less like them.
    let tables = [
        [1.0, 0.0, 0.0, 1.0],
        [3.0, 0.0, 0.0, 1.0],
        [-1.0, 1.5, 0.5, -1.0],
        [-3.0, 0.0, 0.0, -1.0],
    ];
    let (mean, downloads) = downloads_after(&method, &tables);
    let members: Vec<usize> = (0..4)
        .filter(|user| downloads[*user].named("E").is_some())
        .collect();
    assert!((1..4).contains(&members.len()), "{members:?}");
    let mean_of = |users: &[usize]| -> Vec<f32> {
        let sum = |at: usize| users.iter().map(|user| tables[*user][at]).sum::<f32>();
        (0..4).map(|at| sum(at) / users.len() as f32).collect()
    };
    for (user, download) in downloads.iter().enumerate() {
        assert_eq!(unpacked(download.raw(0), 2, bits).len(), 2);
        if members.contains(&user) {
            assert_eq!(download.table(1).as_slice(), mean_of(&members));
        }
    }
    assert_eq!(mean.table(0).as_slice(), mean_of(&[0, 1, 2, 3]));
}

/// If this fails, CGFedRec without contrast is not PFedRec whose devices are alone.
#[test]
fn without_contrast_and_groups_it_is_pfedrec_alone() {
    let problem = problem_of(3, 4);
    let pfedrec: Declared<PFedRec> = Declared::new(PFedRec::default(), &problem);
    let pfedrec = controlled(Box::new(pfedrec), Aggregation::None);
    let parameters = CoFedRecParameters {
        local_epochs: 1,
        regularization: 0.0,
        ..CoFedRecParameters::default()
    };
    let method: Declared<CoFedRec<false>> = Declared::new(parameters, &problem);
    let (mut other, mut client) = (pfedrec.client(UserId(0)), method.client(UserId(0)));
    let (start, none) = (pfedrec.initial(), Model::none());
    for round in 0..3 {
        assert_eq!(scores(&*client, &none), scores(&*other, &start));
        train(&mut *client, &none, round);
        train(&mut *other, &start, round);
    }
    assert_eq!(scores(&*client, &none), scores(&*other, &start));
}

/// If this fails, a device trains without the contrast, draws other items together than those of a
/// cluster, or goes on from another table than the one that it has received.
#[test]
fn a_device_draws_the_items_of_a_cluster_together() {
    let (labels, problem) = ([0, 0, 1, 1], problem_of(3, 4));
    let with = |regularization: f64| {
        let parameters = CoFedRecParameters {
            latent_dimension: 3,
            local_epochs: 1,
            learning_rate: 0.01,
            clusters: 2,
            regularization,
            ..CoFedRecParameters::default()
        };
        let method: Declared<CoFedRec<true>> = Declared::new(parameters.clone(), &problem);
        (method, parameters)
    };
    let values = |at: usize| ((at * 7 + 3) % 11) as f32 / 4.0 - 1.0;
    let received = Table::new(TableShape::new(4, 3), (0..12).map(values).collect());
    let (method, parameters) = with(2.0);
    let bytes = BlockValues::Raw(packed(&labels, parameters.bits()).into());
    let blocks = vec![bytes, BlockValues::Table(received.clone().into())];
    let model = Model::new(
        method.download_layout(Phase::default(), Class::default()),
        blocks,
    )
    .unwrap();
    let sent = |method: &Declared<CoFedRec<true>>, model: &Model| {
        let trained = train(&mut *method.client(UserId(0)), model, 0);
        trained.update.blocks[0].apply(None).unwrap()
    };
    let (drawn, plain) = (
        sent(&method, &model),
        sent(&with(0.0).0, &Model::of_table("E", received.clone())),
    );
    let mut gradient = vec![0.0; 12];
    add_contrast(
        (received.as_slice(), 3),
        &labels,
        [0.1, 0.5, 2.0],
        &mut gradient,
    );
    let rate = 0.01 * 4.0 * 80.0;
    for ((drawn, plain), slope) in drawn.as_slice().iter().zip(plain.as_slice()).zip(gradient) {
        assert!(
            (drawn - (plain - rate * slope)).abs() < 1e-4,
            "{drawn}, {plain}, {slope}"
        );
    }
    assert_ne!(drawn.row(2), received.row(2), "no sample has item 2");
    assert_eq!(plain.row(2), received.row(2));
}

/// If this fails, CGFedRec is not CoFedRec for who is in no group: with clusters, or without contrast.
#[test]
fn a_device_in_no_group_trains_as_in_cgfedrec_to_the_bit() {
    let problem = problem_of(3, 4);
    for regularization in [0.0, 0.005] {
        let parameters = CoFedRecParameters {
            latent_dimension: 3,
            regularization,
            ..CoFedRecParameters::default()
        };
        let bits = parameters.bits();
        let grouped: Declared<CoFedRec<true>> = Declared::new(parameters.clone(), &problem);
        let plain: Declared<CoFedRec<false>> = Declared::new(parameters, &problem);
        assert_eq!(grouped.initial(), plain.initial());
        let labels = packed(&[0, 0, 1, 59], bits);
        let shape = TableShape::new(1, labels.len());
        let layout = BlockLayout::weights(LABELS, shape).of(ValueType::Bytes);
        let labels = BlockValues::Raw(labels.into());
        let labelled = Model::new(Layout::new(vec![layout]), vec![labels]).unwrap();
        let downloads = match regularization > 0.0 {
            true => [Model::none(), labelled],
            false => [Model::none(), Model::none()],
        };
        let (mut one, mut other) = (grouped.client(UserId(0)), plain.client(UserId(0)));
        for (round, download) in (0..).zip(&downloads) {
            let sent = [&mut one, &mut other].map(|client| train(&mut **client, download, round));
            let [one, other] = sent.map(|trained| trained.update.blocks[0].values.clone());
            assert_eq!(one, other, "round {round}");
        }
        assert_eq!(scores(&*one, &downloads[1]), scores(&*other, &downloads[1]));
    }
}

/// The specification's example: two users, three items, two clusters. If this fails, clusters of
/// CGFedRec are not those of the mean table, or a device receives something else than their labels.
#[test]
fn devices_of_cgfedrec_receive_the_labels_of_the_mean_alone() {
    let mut parameters = CoFedRecParameters {
        latent_dimension: 2,
        clusters: 2,
        ..CoFedRecParameters::default()
    };
    let tables = [
        [2.0, 0.0, 0.0, 2.0, -2.0, 0.0],
        [4.0, 0.0, 2.0, 0.0, -4.0, 0.0],
    ];
    let method: Declared<CoFedRec<false>> = Declared::new(parameters.clone(), &problem_of(2, 3));
    let (mean, downloads) = downloads_after(&method, &tables);
    assert_eq!(mean.table(0).as_slice(), [3.0, 0.0, 1.0, 1.0, -3.0, 0.0]);
    for download in downloads {
        assert_eq!(download.layout().blocks().len(), 1);
        assert_eq!(download.raw(0).len(), 1, "three labels of one bit");
        let labels = unpacked(download.raw(0), 3, 1);
        assert!(
            labels[0] == labels[1] && labels[1] != labels[2],
            "{labels:?}"
        );
        let contrast = add_contrast((&tables[0], 2), &labels, [0.5, 0.5, 1.0], &mut [0.0; 6]);
        assert!((contrast - 0.2734).abs() < 1e-4, "{contrast}");
    }
    // 1,682 items in 60 clusters, as on MovieLens 100K.
    assert_eq!(
        packed_bytes(1682, CoFedRecParameters::default().bits()),
        1262
    );
    parameters.regularization = 0.0;
    let method: Declared<CoFedRec<false>> = Declared::new(parameters, &problem_of(2, 3));
    for download in downloads_after(&method, &tables).1 {
        assert_eq!(download, Model::none());
    }
}

/// If this fails, a device does not step by Adam where it is told to, or its table has the rate of
/// gradient descent, which nobody hears of.
#[test]
fn adam_has_a_rate_of_the_table_of_its_own() {
    let moved = |learning_rate_items: Option<f64>| {
        let mut parameters = CoFedRecParameters {
            latent_dimension: 3,
            local_epochs: 1,
            optimizer: Optimizer::Adam,
            learning_rate: 0.05,
            learning_rate_items,
            item_learning_rate_multiplier: 70.0,
            ..CoFedRecParameters::default()
        };
        assert_eq!(CoFedRec::<false>::resolve(&mut parameters).len(), 1);
        let method: Declared<CoFedRec<false>> = Declared::new(parameters, &problem_of(3, 4));
        let (start, mut client) = (method.initial(), method.client(UserId(0)));
        let trained = train(&mut *client, &Model::none(), 0);
        let table = trained.update.blocks[0].apply(None).unwrap();
        let pairs = table.row(0).iter().zip(start.table(0).row(0));
        pairs
            .map(|(now, before)| (now - before).abs())
            .collect::<Vec<_>>()
    };
    for (rate, expected) in [(None, 0.05), (Some(2.0), 2.0)] {
        for step in moved(rate) {
            assert!((step - expected).abs() < 1e-3, "{step}, not {expected}");
        }
    }
}
