#![allow(clippy::unwrap_used)]
use ndarray::{Array2, array};

use super::autoencoder::{Autoencoder, products_of};
use super::*;
use crate::declare::Declared;
use crate::server::Download;
use crate::tests::{holding, problem_of, score, with_step};
use fedrecsim_core::math::gradient::gradient_check;
use fedrecsim_core::{InvitationId, Round};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_data::dataset::negatives::Samples;

fn close<'a>(found: impl IntoIterator<Item = &'a f64>, expected: &[f64]) {
    let found: Vec<f64> = found.into_iter().copied().collect();
    assert_eq!(found.len(), expected.len());
    let mut pairs = found.iter().zip(expected);
    let is_close = pairs.all(|(one, other)| (one - other).abs() < 1e-6);
    assert!(is_close, "{found:?} for {expected:?}");
}

fn table(matrix: &Array2<f64>) -> Table {
    autoencoder::singles(matrix)
}

/// Returns the encoder and the decoder of the specification's example.
fn of_example() -> Autoencoder {
    Autoencoder {
        encoder: array![[0.5, 0.5, 0.1]],
        decoder: array![[1.0, 0.0], [-1.0, 0.2]],
    }
}

/// If this fails, the server narrows rows to something else, or its autoencoders learn otherwise
/// than by full batches.
#[test]
fn an_autoencoder_takes_its_first_step_as_in_the_example() {
    let mut coder = of_example();
    let rows = array![[0.7, -0.1], [0.1, 0.5], [-0.8, -0.1]];
    close(&coder.encoded(&rows), &[0.4, 0.4, -0.35]);
    let decoded = coder.decoded(&array![[0.4], [0.2], [-0.6]], 1.0);
    close(&decoded, &[0.4, -0.2, 0.2, 0.0, -0.6, 0.8]);
    let products = products_of(&rows);
    close([&coder.slopes(&products).0], &[0.2175]);
    coder.learn(&rows, 1, 0.01);
    close(&coder.encoder, &[0.49, 0.49, 0.09]);
    close(&coder.decoder, &[1.01, -0.01, -0.99, 0.21]);
    assert!((coder.slopes(&products).0 - 0.2095).abs() < 5e-5);
}

/// If this fails, an autoencoder learns in another direction than down its error.
#[test]
fn slopes_of_an_autoencoder_are_those_of_differences() {
    let value = |at: usize| (at * 7 % 11) as f64 / 8.0 - 0.5;
    let rows = Array2::from_shape_fn((5, 3), |(row, column)| value(3 * row + column + 1));
    let values: Vec<f64> = (0..17).map(value).collect();
    let coder = |values: &[f64]| {
        let part = |rows, columns, values: &[f64]| {
            Array2::from_shape_vec((rows, columns), values.to_vec()).unwrap()
        };
        Autoencoder {
            encoder: part(2, 4, &values[..8]),
            decoder: part(3, 3, &values[8..]),
        }
    };
    let error = |values: &[f64]| {
        let coder = coder(values);
        let missed = coder.decoded(&coder.encoded(&rows), 1.0) - &rows;
        (&missed * &missed).sum() / 15.0
    };
    let (found, slopes) = coder(&values).slopes(&products_of(&rows));
    assert!((found - error(&values)).abs() < 1e-12);
    let gradient: Vec<f64> = slopes.iter().flatten().copied().collect();
    gradient_check(1e-6, &values, &gradient, error).unwrap();
}

/// If this fails, the server averages narrow tables as they are, or users of a class receive another
/// table than the server's in their width.
#[test]
fn three_users_of_two_classes_are_averaged_as_in_the_example() {
    let parameters = AdaFedRecParameters {
        latent_dimension: 2,
        devices: Devices::Mixed,
        autoencoder_steps: 0,
        ..AdaFedRecParameters::default()
    };
    let declared: Declared<AdaFedRec> = Declared::new(parameters.clone(), &problem_of(9, 3));
    let mut model = declared.initial();
    let coder = of_example();
    for (name, matrix) in [
        ("E to medium", &coder.encoder),
        ("E from medium", &coder.decoder),
    ] {
        let at = model.layout().position(name).unwrap();
        model.set_table(at, table(matrix).into()).unwrap();
    }
    let method = AdaFedRec {
        parameters,
        classes: Classes::new([Class(0), Class(1)]),
    };
    let mut server = CodingServer::new(method, model);
    let Download::PerUser(downloads) = server.download() else {
        panic!("each class has a download of its own");
    };
    let mut sums = server.accumulator();
    let sent = [
        array![[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]],
        array![[0.4], [0.2], [-0.6]],
    ];
    for (user, matrix) in (0..).map(UserId).zip(&sent) {
        let received = downloads.download(user).unwrap();
        let mut blocks = ModelUpdate::whole(&received).blocks;
        blocks[0] = TableUpdate::whole(table(matrix));
        let update = ModelUpdate::of_blocks(blocks);
        // Sums of one process meet those of another.
        let mut other = server.accumulator();
        let contribution = Contribution::fresh(user, InvitationId(0), &update, &received);
        other.absorb(&[contribution]).unwrap();
        sums.merge(other).unwrap();
    }
    let of_first_layer = |server: &CodingServer| server.model().table(1).as_slice().to_vec();
    let before = of_first_layer(&server);
    with_step(0, |step| server.step(sums, step)).unwrap();
    let mean = autoencoder::doubles(server.model().table(0));
    close(&mean, &[0.7, -0.1, 0.1, 0.5, -0.8, -0.1]);
    assert_ne!(of_first_layer(&server), before, "W1 is coded as well");
    let Download::PerUser(downloads) = server.download() else {
        panic!("each class has a download of its own");
    };
    let download = downloads.download(UserId(1)).unwrap();
    close(&autoencoder::doubles(download.table(0)), &[0.4, 0.4, -0.35]);
    let whole = downloads.download(UserId(0)).unwrap();
    assert_eq!(whole.table(0), server.model().table(0));
}

/// If this fails, a step without uploads changes the table, or autoencoders forget what they have
/// learned.
#[test]
fn autoencoders_go_on_from_round_to_round() {
    let parameters = AdaFedRecParameters::default();
    let method: Declared<AdaFedRec> = Declared::new(parameters, &problem_of(9, 5));
    let mut server = method.server();
    let of = |server: &dyn Server| {
        let model = server.model();
        ["E", "E to small"].map(|name| model.named(name).unwrap().as_slice().to_vec())
    };
    let mut before = of(&*server);
    for step in 0..2 {
        let nothing = server.accumulator();
        with_step(step, |step| server.step(nothing, step)).unwrap();
        let now = of(&*server);
        assert!(now[0] == before[0] && now[1] != before[1]);
        before = now;
    }
}

/// If this fails, a frame of some class has other values than the published method sends.
#[test]
fn each_class_exchanges_as_many_values_as_published() {
    let method: Declared<AdaFedRec> =
        Declared::new(AdaFedRecParameters::default(), &problem_of(943, 1682));
    let (phase, classes) = (Phase::default(), method.classes());
    let bytes: Vec<usize> = classes
        .all()
        .map(|class| method.download_layout(phase, class).bytes())
        .collect();
    assert_eq!(bytes, [32, 16, 8].map(|d| 4 * (1682 * d + 16 * d + 89)));
    assert_eq!(bytes, [217_700, 109_028, 54_692]);
    for class in classes.all() {
        let [down, up] = [Method::download_layout, Method::upload_layout];
        assert_eq!(down(&method, phase, class), up(&method, phase, class));
    }
    let Download::PerUser(downloads) = method.server().download() else {
        panic!("each class has a download of its own");
    };
    for user in (0..20).map(UserId) {
        let download = downloads.download(user).unwrap();
        let class = classes.of(user);
        assert_eq!(download.layout(), &method.download_layout(phase, class));
        let client = method.client(user);
        let vector = client.personal_vector().unwrap().unwrap().values;
        assert_eq!(vector.len(), 32 >> class.0);
    }
}

/// If this fails, users change their devices from run to run, some kind of device is drawn less than
/// others, or all users have a kind that was not asked for.
#[test]
fn a_seed_draws_the_same_device_for_a_user_again() {
    let drawn = |users: usize, seed: u64, devices: Devices| -> Vec<Class> {
        let parameters = AdaFedRecParameters {
            devices,
            ..AdaFedRecParameters::default()
        };
        let size = ProblemSize { users, items: 3 };
        let problem = Problem::of_size(size, Streams::new(seed));
        let classes = AdaFedRec::new(parameters, &problem).classes();
        (0..users as u32)
            .map(|user| classes.of(UserId(user)))
            .collect()
    };
    let mixed = drawn(900, 1, Devices::Mixed);
    assert_eq!(mixed, drawn(900, 1, Devices::Mixed));
    assert_eq!(mixed[..90], drawn(90, 1, Devices::Mixed), "more users come");
    assert_ne!(mixed, drawn(900, 2, Devices::Mixed));
    for class in (0..3).map(Class) {
        let count = mixed.iter().filter(|drawn| **drawn == class).count();
        assert!((250..350).contains(&count), "{count} of {class:?}");
    }
    assert_eq!(drawn(4, 1, Devices::Small), [Class(2); 4]);
}

/// Trains user 0 on the same samples in each of `rounds`, on what it has sent in the round before,
/// and returns its scores.
fn trained(parameters: AdaFedRecParameters, rounds: u32) -> Vec<f32> {
    let method: Declared<AdaFedRec> = Declared::new(parameters, &problem_of(9, 4));
    let Download::PerUser(downloads) = method.server().download() else {
        panic!("each class has a download of its own");
    };
    let mut client = method.client(UserId(0));
    let mut model = downloads.download(UserId(0)).unwrap();
    for round in 0..rounds {
        let names = (UserId(0), Round(round), InvitationId(round));
        let own = OwnData::new(&[0, 2]);
        let task = LocalTask::new(names, &model, own, Streams::new(3), 1e6);
        let samples = Samples {
            items: vec![0, 3, 2, 1],
            labels: vec![1.0, 0.0, 1.0, 0.0],
        };
        let trained = client.train(&task, &mut holding(samples)).unwrap();
        let layout = model.layout().clone();
        model = trained.update.apply(&layout, &model).unwrap();
    }
    let mut scratch = Scratch::default();
    let own = OwnData::new(&[0, 2]);
    let context = ScoringContext::new(UserId(0), &model, own, Streams::new(3), &mut scratch);
    score(&*client, context, &[0, 1, 2, 3])
}

/// If this fails, a device's Adam starts anew in every round, or goes on where it should not.
#[test]
fn moments_go_on_from_round_to_round_unless_they_are_reset() {
    for devices in [Devices::Large, Devices::Small] {
        let with = |local_epochs, moments| AdaFedRecParameters {
            devices,
            local_epochs,
            moments,
            ..AdaFedRecParameters::default()
        };
        let at_once = trained(with(6, Moments::Reset), 1);
        assert_eq!(trained(with(2, Moments::Kept), 3), at_once);
        assert_ne!(trained(with(2, Moments::Reset), 3), at_once);
    }
}
