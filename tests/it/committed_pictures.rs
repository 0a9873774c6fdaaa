use crate::support::repository;
use crate::{fedrap_curricula, fedrec_by_rho};

/// If this fails, the committed picture of FedRAP's curricula shows others than those that the code
/// trains with.
#[test]
fn the_curricula_of_the_reports_are_those_of_the_code() {
    let committed =
        std::fs::read_to_string(repository("reports/papers/fedrap-figure-4.svg")).unwrap();
    assert!(
        committed == fedrap_curricula::picture().unwrap(),
        "draw it again with the command in examples/fedrap_curricula.rs"
    );
}

/// If this fails, the committed picture of FedRec's errors by rho shows others than those of the
/// table beside it.
#[test]
fn the_errors_by_rho_are_those_of_the_table() {
    for folder in ["fedrec-results-5-folds", "fedrec-results-5-folds-ml-1m"] {
        let folder = repository("reports/papers").join(folder);
        let committed = std::fs::read_to_string(folder.join("rmse-by-rho.svg")).unwrap();
        let drawn = fedrec_by_rho::picture(&folder.join("summary.csv")).unwrap();
        assert!(
            committed == drawn,
            "draw {} again with the command in examples/fedrec_by_rho.rs",
            folder.display()
        );
    }
}
