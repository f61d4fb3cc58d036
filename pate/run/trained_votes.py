"""The votes of trained teachers: bits from a file, and confidences that the teachers compute when they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.votes import VoteStore
from pate.votes.moment_votes import MomentVotes
from pate.votes.public_pca import PublicPCA, affordable_directions
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.source import TeacherVotes, VotesInRounds

if TYPE_CHECKING:
    from pate.run.ensemble import Ensemble

# The number of public rows that trained teachers answer for votes in rounds, the first ones of the pool.
NUM_ASKED = 2048


class TrainedVotes(TeacherVotes):
    """The votes of trained teachers: bits are read from a file, confidences are computed by the teachers each time."""

    def __init__(self, ensemble: Ensemble, vote_store: VoteStore) -> None:
        self.ensemble = ensemble
        self.store = vote_store
        self.num_teachers = vote_store.num_teachers
        self.num_queries = vote_store.num_queries
        self.num_labels = vote_store.num_labels
        self.num_groups = ensemble.dataset.private.num_groups
        # The number of records is private. The number of groups is public, and groups are independent.
        self.records_per_teacher = self.num_groups / vote_store.num_teachers

    def bits(self) -> Iterator[BoolArray]:
        """Yields the votes of the teachers in order, in blocks of `[num_block_teachers, num_queries, num_labels]`."""
        return self.store.blocks()

    def confidences(self) -> Iterator[Float32Array]:
        """Yields the confidences of the teachers in order, in blocks `[num_block_teachers, num_queries, num_labels]`.

        A confidence of at least 0.5 is a vote.
        """
        return self.ensemble.confidences()

    def label_shares(self) -> FloatArray:
        """Returns the share of each teacher's records that have each label, `[num_teachers, num_labels]`."""
        return self.ensemble.label_shares()

    def known_shares(self) -> FloatArray | None:
        """Returns the share of each teacher's records for which each label is known, `[num_teachers, num_labels]`.

        The result is None if all labels of all private records are known.
        """
        return self.ensemble.known_shares()

    def in_rounds(
        self,
        *,
        noise_multiplier: float,
        least_directions: int = 0,
        recipe: Recipe = DEFAULT_RECIPE,
    ) -> MomentVotes | None:
        """Returns the votes of these teachers as moments, which can be released in rounds; None if that is impossible.

        A moment is a mean over a teacher's records: the error of a student in a label, times a feature. Features are
        coordinates along the first principal directions of the public inputs. Moments are impossible if teachers of
        this kind cannot vote in rounds, or if the inputs are images: students of images are not linear.

        Args:
            noise_multiplier: the standard deviation of the noise over the sensitivity, for all rounds together. With
                more noise there are fewer directions.
            least_directions: the number of directions that are used whatever the noise, if the inputs vary along as
                many.
            recipe: the tuned constants of the aggregator.
        """
        ensemble = self.ensemble
        public = ensemble.dataset.public.inputs
        if not issubclass(ensemble.teacher_recipe.gives, VotesInRounds) or len(public.shape) != 2:
            return None
        num_directions = affordable_directions(
            noise_multiplier=noise_multiplier,
            noise_share=recipe.noise_share_in_rounds,
            num_teachers=self.num_teachers,
            num_records=self.num_groups,
            num_labels=self.num_labels,
        )
        num_directions = max(num_directions, least_directions)
        moment_votes: MomentVotes = self.cached(
            ("moments", num_directions, recipe),
            compute=partial(self._moments, num_directions=num_directions, recipe=recipe),
        )
        return moment_votes

    def _moments(self, *, num_directions: int, recipe: Recipe) -> MomentVotes:
        """Returns the votes as moments along the first principal directions of the public pool.

        Args:
            num_directions: the largest number of directions.
            recipe: the tuned constants of releases in rounds.
        """
        public_inputs = self.ensemble.dataset.public.inputs
        public_pca = PublicPCA.fit(
            np.asarray(public_inputs),
            max_directions=num_directions,
            ridge=recipe.ridge_in_rounds,
            recipe=recipe,
        )
        moments = self.ensemble.moment_votes(
            public_pca=public_pca,
            public_inputs=public_inputs[: max(recipe.public_rows, self.num_queries)],
            records_per_teacher=self.records_per_teacher,
            ask_teachers=partial(
                self.ensemble.pool_answers, public_pca, public_inputs=public_inputs[:NUM_ASKED]
            ),
        )
        moments.weights = self.weights
        return moments
