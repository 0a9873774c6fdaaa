"""Metrics of predictions of one's own."""

from __future__ import annotations

import math

import fedrecsim
import numpy as np
import pytest
from fedrecsim import metrics

#: Two users and four items, of which item 1 is what user 0 was trained on.
SCORES = np.array([[0.9, 0.95, 0.5, 0.1], [0.1, 0.2, 0.4, 0.3]])
HELD_OUT = [[2], [0, 2]]
EXCLUDE = [[1], []]


def test_metrics_are_those_of_a_count_by_hand() -> None:
    """If this fails, a figure of one's own cannot be compared with one of a run."""
    found = metrics.measure(
        SCORES, HELD_OUT, ["hr@1", "hr@2", "ndcg@2", "recall@2", "precision@2", "map@2", "mrr"], exclude=EXCLUDE
    )
    second = 1 / math.log2(3)
    assert found == pytest.approx(
        {
            "hr@1": 1 / 2,
            "hr@2": 1.0,
            "ndcg@2": (second + 1 / (1 + second)) / 2,
            "recall@2": (1 + 1 / 2) / 2,
            "precision@2": 1 / 2,
            "map@2": (1 / 2 + 1 / 2) / 2,
            "mrr": (1 / 2 + 1) / 2,
        }
    )
    assert metrics.hr(SCORES, HELD_OUT, k=1, exclude=EXCLUDE) == 0.5
    assert metrics.ndcg(SCORES, HELD_OUT, k=2, exclude=EXCLUDE) == pytest.approx(found["ndcg@2"])
    assert metrics.recall(SCORES, HELD_OUT, k=2, exclude=EXCLUDE) == found["recall@2"]
    assert metrics.precision(SCORES, HELD_OUT, k=2, exclude=EXCLUDE) == found["precision@2"]
    assert metrics.map(SCORES, HELD_OUT, k=2, exclude=EXCLUDE) == found["map@2"]
    assert metrics.mrr(SCORES, HELD_OUT, exclude=EXCLUDE) == found["mrr"]
    assert metrics.per_user(SCORES, HELD_OUT, "mrr", exclude=EXCLUDE).tolist() == [0.5, 1.0]


def test_lists_and_matrices_say_the_same_as_scores() -> None:
    """If this fails, the form of predictions changes their worth."""
    lists = [[0, 2, 3], [2, 3, 1, 0]]
    names = ["hr@1", "ndcg@3", "map@3", "mrr"]
    expected = metrics.measure(SCORES, HELD_OUT, names, exclude=EXCLUDE)
    assert metrics.measure(lists, HELD_OUT, names) == expected
    held_out, exclude = np.zeros((2, 4), dtype=bool), np.zeros((2, 4), dtype=bool)
    held_out[0, 2] = held_out[1, 0] = held_out[1, 2] = exclude[0, 1] = True
    assert metrics.measure(SCORES, held_out, names, exclude=exclude) == expected
    assert metrics.measure(SCORES.astype(np.float32), held_out, names, exclude=EXCLUDE) == expected
    sparse = pytest.importorskip("scipy.sparse")
    assert metrics.measure(SCORES, sparse.csr_matrix(held_out), names, exclude=sparse.coo_matrix(exclude)) == expected


def test_users_without_anything_held_out_do_not_count_and_ties_count_against_a_hit() -> None:
    """If this fails, a model that scores all alike looks good, or empty users lower a mean."""
    assert metrics.hr(SCORES, [[0], []], k=2) == 1.0
    assert np.isnan(metrics.per_user(SCORES, [[0], []])[1]) and np.isnan(metrics.hr(SCORES, [[], []]))
    assert metrics.hr(np.zeros((1, 10)), [[3]], k=9) == 0.0 and metrics.hr(np.zeros((1, 10)), [[3]], k=10) == 1.0
    assert metrics.hr([[5, 6]], [[7]], k=10) == 0.0


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: metrics.measure(SCORES, HELD_OUT, ["auc"]), "hr@K, ndcg@K, mrr, recall@K"),
        (lambda: metrics.measure(SCORES, HELD_OUT, ["rmse"]), "no metric `rmse` of ranks"),
        (lambda: metrics.measure(SCORES, HELD_OUT, "hr@1"), r"\['hr@1'\]"),
        (lambda: metrics.hr(SCORES, HELD_OUT, k=0), "hr@0"),
        (lambda: metrics.hr(SCORES, [[2]]), "for 2 users, and `held_out` has 1"),
        (lambda: metrics.hr(SCORES, [[2], [4]]), "user 1 has the item 4, and there are 4 items"),
        (lambda: metrics.hr(SCORES, [[2], [-1]]), "item -1"),
        (lambda: metrics.hr(SCORES, [[2, 2], []]), "an item twice"),
        (lambda: metrics.hr(SCORES, [[2], [1]], exclude=[[2], []]), "in `held_out` and in `exclude`"),
        (lambda: metrics.hr(SCORES * np.nan, HELD_OUT), "user 0 is NaN"),
        (lambda: metrics.hr([[1]], [[1]], exclude=[[2]]), "ranked already"),
        (lambda: metrics.hr([[0.5, 0.2]], [[1]]), "array of floats"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, told: str) -> None:
    """If this fails, a mistake becomes a figure."""
    with pytest.raises(fedrecsim.ScenarioError, match=told):
        call()


def test_the_figures_of_a_run_are_those_of_its_predictions(small) -> None:
    """If this fails, the metrics here are not those of the simulator."""
    full = {"evaluation.ranking": "full-catalogue", "evaluation.metrics": ["hr", "ndcg", "mrr"]}
    run = fedrecsim.run(small, set=full, progress=False)
    with pytest.warns(UserWarning, match="trained once more"):
        scores = run.scores()
    assert scores.shape == (len(run.users), len(run.items)) and scores.dtype == np.float32
    lists, held_out = [], []
    for user in run.users["user"].tolist():
        shown = run.recommend(user, scores.shape[1])
        lists.append([int(row["item"]) for row in shown])
        held_out.append([int(row["item"]) for row in shown if row["held_out"]])
        assert [row["score"] for row in shown[:3]] == scores[user, lists[-1][:3]].tolist()
    names = list(run.accuracy["test"])
    assert metrics.measure(lists, held_out, names) == pytest.approx(run.accuracy["test"])
    left_out = [sorted(set(range(scores.shape[1])) - set(own)) for own in lists]
    assert metrics.measure(scores, held_out, names, exclude=left_out) == pytest.approx(run.accuracy["test"])
    assert run.scores([3, 5]).tolist() == scores[[3, 5]].tolist() and run.scores(7).shape == (1, scores.shape[1])
    with pytest.raises(fedrecsim.ScenarioError, match="no user"):
        run.scores(["nobody"])
