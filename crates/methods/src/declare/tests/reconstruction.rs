//! FedRecon, which trains user vectors and item rows on two parts of the samples.

use super::*;

/// Trains FedRecon on thirty items; the first half are positives.
fn reconstruct(method: &FedRecon) -> (Trained, Model) {
    let size = ProblemSize {
        users: 1,
        items: 30,
    };
    let streams = Streams::new(4);
    let (plan, model) = Plan::new(method.blocks(size), streams);
    let mut own: Own<()> = Arc::new(plan).own(USER, &model);
    let items: Vec<u32> = (0..30).collect();
    let labels = items
        .iter()
        .map(|item| f32::from(u8::from(*item < 15)))
        .collect();
    let samples = Samples { items, labels };
    let names = (USER, Round(0), InvitationId(0));
    let task = LocalTask::new(names, &model, OwnData::new(&[]), streams, 1e6);
    (
        method
            .train(&mut own, &task, &mut holding(samples))
            .unwrap(),
        model,
    )
}

/// If this fails, FedRecon trains item rows on the half that reconstructs, weighs by other samples
/// than those of the query, or counts its work wrongly.
#[test]
fn reconstruction_splits_the_samples() {
    let method = FedRecon {
        latent_dimension: 5,
        reconstruction_epochs: 60,
        batch_size: 8,
        learning_rate_user: 0.5,
        learning_rate_items: 0.5,
        ..FedRecon::default()
    };
    let moved = |(trained, model): &(Trained, Model)| {
        let after = trained.update.blocks[0]
            .apply(Some(model.table(0)))
            .unwrap();
        (0..30)
            .filter(|row| after.row(*row) != model.table(0).row(*row))
            .count()
    };
    let weight = |(trained, _): &(Trained, Model)| trained.update.scalars.weight;
    let halves = reconstruct(&method);
    assert_eq!((weight(&halves), moved(&halves)), (Some(15.0), 15));
    assert_eq!(halves.0.work.row_visits, 60 * 15 + 15);
    let whole = reconstruct(&FedRecon {
        splits_samples: false,
        ..method
    });
    assert_eq!((weight(&whole), moved(&whole)), (Some(30.0), 30));
    assert_eq!(whole.0.work.row_visits, 60 * 30 + 30);
    assert!(
        whole.0.loss < 0.6,
        "the vector was made from the same samples: {}",
        whole.0.loss
    );
}

/// If this fails, FedRecon does not follow the gradient of its loss, tears a positive from its
/// negatives, or trains rows on the half that reconstructs.
#[test]
fn reconstruction_by_groups_follows_the_gradient() {
    let (rate_u, rate_v) = (0.5, 0.9);
    for (loss, splits_samples) in [Loss::Softmax, Loss::Pairwise, Loss::Squared]
        .into_iter()
        .flat_map(|loss| [(loss, true), (loss, false)])
    {
        let method = FedRecon {
            latent_dimension: K,
            reconstruction_epochs: 3,
            learning_rate_user: rate_u,
            learning_rate_items: rate_v,
            loss,
            splits_samples,
            ..FedRecon::default()
        };
        let size = ProblemSize {
            users: 1,
            items: ITEMS,
        };
        let streams = Streams::new(4);
        let (plan, model) = Plan::new(method.blocks(size), streams);
        let mut own: Own<()> = Arc::new(plan).own(USER, &model);
        let mut groups: Vec<Vec<u32>> = (0..5)
            .map(|n| vec![n * 7, n + 1, 7 + 5 * n, 39 - n])
            .collect();
        let items: Vec<u32> = groups.concat();
        let labels = (0..items.len()).map(|at| f32::from(u8::from(at % 4 == 0)));
        let labels = labels.collect();
        let names = (USER, Round(2), InvitationId(5));
        let task = LocalTask::new(names, &model, OwnData::new(&[]), streams, 1e6);
        let mut scratch = holding(Samples { items, labels });
        let trained = method.train(&mut own, &task, &mut scratch).unwrap();

        let mut order = task.named_stream("fedrecon/participation");
        order.shuffle_portably(&mut groups);
        let (support, query) = match splits_samples {
            true => groups.split_at(2),
            false => (&groups[..], &groups[..]),
        };
        let row = |row| {
            model
                .table(0)
                .row(row)
                .iter()
                .map(|value| f64::from(*value))
        };
        let mut plain = Plain {
            u: (0..K).map(|_| order.uniform_within(0.05)).collect(),
            b: 0.0,
            rows: (0..ITEMS).map(|at| row(at).collect()).collect(),
            c: vec![0.0; ITEMS],
            loss: 0.0,
        };
        let rates = Chosen {
            rates: [rate_u, 0.0, rate_v, 0.0],
            ..chosen(loss, Score::dot("u", "V"))
        };
        for _ in 0..3 {
            plain.step(&rates, support, [true, false, false, false]);
        }
        let expected = plain.loss(loss, query).0 / query.len() as f64;
        assert!((trained.loss - expected).abs() < 1e-5, "{loss:?}");
        plain.step(&rates, query, [false, false, true, false]);
        let after = trained.update.blocks[0].apply(Some(model.table(0)));
        let after = after.unwrap();
        for (at, expected) in plain.rows.iter().enumerate() {
            for (found, expected) in after.row(at).iter().zip(expected) {
                let off = f64::from(*found) - expected;
                assert!(off.abs() < 1e-5, "{loss:?}, item {at}: off by {off}");
            }
        }
        let weight = trained.update.scalars.weight;
        assert_eq!(weight, Some(4.0 * query.len() as f32));
        let visits = 3 * support.len() + query.len();
        assert_eq!(trained.work.row_visits, 4 * visits as u64);
    }
}
