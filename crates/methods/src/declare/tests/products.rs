//! Products of rows, held against a plain version of their training.

use super::*;

/// Trains a user on five positives with three negatives each, and checks the result against plain
/// gradient descent.
fn check(mut method: Chosen) {
    let Score::Dot(Product {
        bias, item_bias, ..
    }) = method.score
    else {
        panic!("products are checked");
    };
    let uses = |name: Option<&'static str>| if name.is_some() { 1.0 } else { 0.0 };
    // What the score does not use does not move.
    method.rates[1] *= uses(bias);
    method.rates[3] *= uses(item_bias);
    let size = ProblemSize {
        users: 7,
        items: ITEMS,
    };
    let streams = Streams::new(3);
    let (plan, model) = Plan::new(method.blocks(size), streams);
    let plan = Arc::new(plan);
    let mut own: Own<()> = plan.own(USER, &model);
    let double = |values: &[f32]| {
        values
            .iter()
            .map(|value| f64::from(*value))
            .collect::<Vec<f64>>()
    };
    let mut plain = Plain {
        u: double(own.get("u")),
        b: uses(bias) * f64::from(own.get("b")[0]),
        rows: (0..ITEMS)
            .map(|row| double(model.table(0).row(row)))
            .collect(),
        c: double(model.table(1).as_slice())
            .iter()
            .map(|c| uses(item_bias) * c)
            .collect(),
        loss: 0.0,
    };
    // Item 7 is a negative of several positives, and a positive itself.
    let mut groups: Vec<Vec<u32>> = (0..5)
        .map(|n| vec![n * 7, n + 1, 7 + 5 * n, 39 - n])
        .collect();
    let items: Vec<u32> = groups.concat();
    let labels = (0..items.len())
        .map(|at| f32::from(u8::from(at % 4 == 0)))
        .collect();
    let samples = Samples { items, labels };
    let names = (USER, Round(2), InvitationId(5));
    let task = LocalTask::new(names, &model, OwnData::new(&[]), streams, 1e6);
    let trained = method
        .train(&mut own, &task, &mut holding(samples))
        .unwrap();
    let mut order = task.stream(Purpose::Shuffle);
    let batch = (method.training.batch_size / 4).max(1);
    let turns: &[[bool; 4]] = match method.table_turn {
        0 => &[[true; 4]],
        _ => &[[true, true, false, true], [false, false, true, false]],
    };
    for _ in 0..method.training.epochs {
        if groups.len() > batch {
            order.shuffle_portably(&mut groups);
        }
        for groups in groups.chunks(batch) {
            for moves in turns {
                let last = plain.loss(method.loss, groups).0;
                plain.step(&method, groups, *moves);
                if moves[2] {
                    plain.loss += last;
                }
            }
        }
    }
    let what = format!("{method:?}");
    let close = |found: &[f32], expected: &[f64]| {
        let pairs = found.iter().zip(expected);
        for (found, expected) in pairs {
            let off = (f64::from(*found) - expected).abs();
            assert!(off < 2e-4, "{found} instead of {expected}: {what}");
        }
    };
    close(own.get("u"), &plain.u);
    if bias.is_some() {
        close(own.get("b"), &[plain.b]);
    }
    let rows = trained.update.blocks[0]
        .apply(Some(model.table(0)))
        .unwrap();
    (0..ITEMS).for_each(|row| close(rows.row(row), &plain.rows[row]));
    if item_bias.is_some() {
        let biases = trained.update.blocks[1]
            .apply(Some(model.table(1)))
            .unwrap();
        close(biases.as_slice(), &plain.c);
    }
}

/// If this fails, a device does not follow the gradient of the loss that its method declares.
#[test]
fn products_are_trained_by_gradient_descent() {
    let product = || Score::dot("u", "V");
    for loss in [
        Loss::BinaryCrossEntropy,
        Loss::Squared,
        Loss::Pairwise,
        Loss::Softmax,
    ] {
        for score in [product().biased(Some("b")), product().item_biased("c")] {
            let method = chosen(loss, score);
            check(Chosen {
                table_turn: 1,
                ..method.clone()
            });
            check(method);
        }
        let method = chosen(loss, product().biased(Some("b")).item_biased("c"));
        check(Chosen {
            training: Training::of(3, 8),
            ..method
        });
    }
}

/// If this fails, weight decay leaves out rows that the kernel does not pack, or decays others.
#[test]
fn weight_decay_shrinks_every_value_of_a_product() {
    for table_turn in [0, 1] {
        let method = chosen(
            Loss::BinaryCrossEntropy,
            Score::dot("u", "V").biased(Some("b")),
        );
        check(Chosen {
            decay: 0.01,
            table_turn,
            ..method
        });
    }
}
