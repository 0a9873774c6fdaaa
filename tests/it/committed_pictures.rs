use crate::fedrap_curricula::picture;
use crate::support::repository;

/// If this fails, the committed picture of FedRAP's curricula shows others than those that the code trains with.
#[test]
fn the_curricula_of_the_reports_are_those_of_the_code() {
    let committed = std::fs::read_to_string(repository("reports/papers/fedrap-figure-4.svg")).unwrap();
    assert!(committed == picture().unwrap(), "draw it again with the command in examples/fedrap_curricula.rs");
}
