"""The votes of trained teachers in rounds count with the weights of the teachers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from pate.models import LinearTeacher
from pate.run.trained_votes import TrainedVotes
from pate.votes import VoteStore
from pate.votes.moment_votes import MomentVotes

POOL = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)


def two_teachers() -> Any:
    """Returns an ensemble of two teachers with one record each, as far as `TrainedVotes` reads it."""

    def moment_votes(**moment_arguments: Any) -> MomentVotes:
        return MomentVotes(
            inputs=POOL[:2],
            labels=np.eye(2, dtype=np.bool_),
            teacher_of=np.arange(2),
            num_teachers=2,
            **moment_arguments,
        )

    return SimpleNamespace(
        dataset=SimpleNamespace(
            public=SimpleNamespace(inputs=POOL), private=SimpleNamespace(num_groups=2)
        ),
        teacher_recipe=LinearTeacher(),
        moment_votes=moment_votes,
        pool_answers=lambda: None,
    )


def test_votes_in_rounds_keep_the_weights_of_trained_teachers(tmp_path: Path) -> None:
    """Weights of teachers count in rounds as they do in one matrix of votes."""
    store = VoteStore.write(
        tmp_path / "votes.npz",
        blocks=[np.ones((2, 4, 2), dtype=np.bool_)],
        num_teachers=2,
        num_queries=4,
        num_labels=2,
    )
    votes = TrainedVotes(two_teachers(), vote_store=store)
    votes.weights = np.array([0.25, 1.0])
    votes_in_rounds = votes.in_rounds(noise_multiplier=1.0)
    assert votes_in_rounds is not None
    assert votes_in_rounds.total_weight == 1.25
