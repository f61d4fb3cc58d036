"""The public start of the student of rounds: the weights at which its descent begins.

Without a start the student of rounds begins with the prevalence of each label, and its predictions do not depend on the
inputs. Public data may teach more: public rows with labels, or the published student of an earlier release. A start
costs no privacy: it is a function of public values, as are the clip and the student of a round
(docs/proofs/vote_rounds.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from pate.array_types import FloatArray
from pate.votes.noisy_moments import NoisyMoments
from pate.votes.recipe import Recipe
from pate.votes.round_votes import RoundVotes
from pate.votes.source import CenterableVotes


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class PublicStart:
    """The weights at which a student's descent starts, and the variance of the error of each weight.

    Attributes:
        weights: `[num_features - 1, num_labels]`, the weights of all features but the constant; public.
        variances: `[num_features - 1, num_labels]`, > 0, the posterior variance of each weight: the expected square of
            the change that the descent still has to make, if private records follow the start; public.
        feature_label_moments: the noisy moments of earlier releases, in the same features. At the end the student then
            learns from these moments and its own together (`MomentStudent`). None for a start that no release made.
    """

    weights: FloatArray
    variances: FloatArray
    feature_label_moments: NoisyMoments | None = None


class StartSource(ABC):
    """A public source of the start of a descent."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """A text that differs between sources with different starts; it is part of the identity of a release."""

    @property
    def direction_ratio(self) -> float:
        """The factor by which the noise is divided where the number of directions for the student is chosen."""
        return 1.0

    @property
    def least_directions(self) -> int:
        """The number of directions of the pool that the start needs, even if noise allows fewer; a public number."""
        return 0

    def votes_in_rounds(
        self, votes: CenterableVotes, *, noise_multiplier: float, recipe: Recipe
    ) -> RoundVotes | None:
        """Returns the votes in rounds for a student that begins at this start; None if the teachers vote once.

        Such a student uses as many directions as it would with `direction_ratio` times less noise, and at least
        `least_directions`. A kernel is added if noise allows more than `kernel_from` times as many directions as there
        are linear features. This number is multiplied by the same ratio, so a kernel is added in about the same cases
        as without a start.

        Args:
            votes: the private votes.
            noise_multiplier: standard deviation over sensitivity, for all rounds together.
            recipe: the tuned constants.
        """
        kernel_from = recipe.kernel_from * self.direction_ratio
        return votes.in_rounds(
            noise_multiplier=noise_multiplier / self.direction_ratio,
            least_directions=self.least_directions,
            recipe=replace(recipe, kernel_from=kernel_from),
        )

    @abstractmethod
    def public_start(self, votes: RoundVotes) -> PublicStart:
        """Returns the start in the features of votes in rounds; reads public values alone.

        Args:
            votes: the votes, of which only the public features and their variances are read.
        """
