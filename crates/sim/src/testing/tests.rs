//! Pins how much work every method says that its trainings and its server's steps are, which
//! becomes virtual time.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use super::Contract;
use super::bench::Bench;
use fedrecsim_methods::registry::METHODS;

/// If this fails, a method counts more or less work than before, and its trainings take another
/// virtual time. Where the count is meant to change, it has to be counted by hand.
#[test]
fn every_method_counts_the_work_that_it_counted_before() {
    let mut text = String::new();
    for entry in METHODS {
        let contract = match entry.name {
            "metamf" => Contract::of(entry).with_parameters("{ hidden_units = 64 }"),
            _ => Contract::of(entry),
        };
        let mut bench = Bench::new(&contract).unwrap();
        let mut clients: Vec<_> = (0..3).map(|user| bench.client(user)).collect();
        if bench.world.trains && bench.world.placement != fedrecsim_methods::Placement::Central {
            let work = bench.train(clients[0].as_mut(), 0, 0).unwrap().work;
            writeln!(
                text,
                "{}: training {} row visits, {} multiply-adds",
                entry.name, work.row_visits, work.multiply_adds
            )
            .unwrap();
        }
        if bench.world.trains {
            let report = bench.step(&mut clients).unwrap();
            writeln!(
                text,
                "{}: step {} row visits, {} multiply-adds",
                entry.name, report.row_visits, report.multiply_adds
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(text);
}
