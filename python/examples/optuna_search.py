"""Searches the parameters of FedMF with Optuna, by the validation part alone. The test part is looked at once, at the end.

    pip install fedrecsim optuna
    python python/examples/optuna_search.py
"""

import warnings

import fedrecsim
import optuna

SCENARIO = {
    "seed": 1,
    "method": "fedmf",
    "dataset": {"name": "generated", "generator": {"users": 200, "items": 400}},
    "training": {"rounds": 20},
    "evaluation": {"ranking": "full-catalogue"},
}

FIGURE = "ndcg@10"


def settings(trial):
    """Returns the keys that a trial sets. Rates of item tables are searched over powers of ten."""
    return {
        "method.fedmf.learning_rate_items": trial.suggest_float("learning_rate_items", 1e1, 1e6, log=True),
        "method.fedmf.latent_dimension": trial.suggest_categorical("latent_dimension", [4, 8, 16]),
    }


def objective(trial):
    """Returns the figure on the validation part. A trial that does worse than most so far stops early."""

    def follow(record):
        if record["accuracy"]:
            trial.report(record["accuracy"]["validation"][FIGURE], record["round"])
        return trial.should_prune()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fedrecsim.RunStopped)
        run = fedrecsim.run(SCENARIO, set=settings(trial), progress=False, on_round=follow)
    # Training diverged, or the trial has been stopped: its best round must not win.
    if not run.complete:
        raise optuna.TrialPruned
    return run.accuracy["validation"][FIGURE]


def search(trials):
    """Returns the study after this many trials. They are the same each time."""
    sampler = optuna.samplers.TPESampler(seed=1)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=5)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    study.optimize(objective, n_trials=trials)
    return study


if __name__ == "__main__":
    study = search(20)
    best = fedrecsim.run(SCENARIO, set=settings(optuna.trial.FixedTrial(study.best_params)))
    print(study.best_params)
    print(f"validation {study.best_value:.3f}, test {best.accuracy['test'][FIGURE]:.3f}")
