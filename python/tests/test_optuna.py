"""The example that searches with Optuna."""

from __future__ import annotations

import fedrecsim
import pytest

optuna = pytest.importorskip("optuna", reason="Optuna is not installed: pip install optuna")

import optuna_search  # noqa: E402


def test_a_search_finds_the_rate_that_learns_and_repeats_itself() -> None:
    """If this fails, the example chooses by luck, or another search comes to other trials."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study, again = optuna_search.search(10), optuna_search.search(10)
    assert [(trial.state, trial.values, trial.params) for trial in study.trials] == [
        (trial.state, trial.values, trial.params) for trial in again.trials
    ]
    chosen = optuna_search.settings(optuna.trial.FixedTrial(study.best_params))
    best = fedrecsim.run(optuna_search.SCENARIO, set=chosen, progress=False)
    assert best.accuracy["validation"][optuna_search.FIGURE] == study.best_value
    assert study.best_value > 1.5 * best.baselines["popularity"]["validation"][optuna_search.FIGURE]


def test_a_trial_that_diverges_or_is_stopped_is_none_that_wins() -> None:
    """If this fails, a rate that explodes wins by the rounds before it does."""
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=2.0))
    for params in ({"learning_rate_items": 1e6, "latent_dimension": 4}, {"learning_rate_items": 1e3, "latent_dimension": 4}):
        study.enqueue_trial(params)
    study.optimize(optuna_search.objective, n_trials=2)
    assert {trial.state for trial in study.trials} == {optuna.trial.TrialState.PRUNED}
