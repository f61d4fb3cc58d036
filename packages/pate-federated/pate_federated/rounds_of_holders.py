"""Releases of centered votes in rounds, in which the server asks the holders for one sum after the other.

The messages go over a network or by files: a function, the `Exchange`, sends a question to all holders and returns the
sum of their answers.
"""

import hashlib
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import Float32Array, FloatArray, IntArray
from pate.errors import InvalidValue
from pate.files.atomic import write_text
from pate.files.paths import make_folder
from pate.files.reading import read_text, read_value
from pate.files.strict_json import to_json
from pate.progress import Monitor
from pate.run.places import Places
from pate.run.queries import queries_digest
from pate.run.trained_votes import NUM_ASKED
from pate.run.votes_release import ReleasePlan, Terms, release_votes
from pate.threads import all_cores
from pate.validation import require, require_count
from pate.votes.clipping import ClippedSum
from pate.votes.label_shares import ShareSums
from pate.votes.public_pca import PublicPCA, affordable_directions
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.round_votes import RoundQuestion, RoundVotes
from pate.votes.source import VotesInRounds
from pate_federated.cohorts import cohort_of_heads
from pate_federated.question import LENGTHS, MOMENTS, SHARES, Question, Request, Roll
from pate_federated.sum_file import LATER, Summed, read_or_make_sum
from pate_federated.sum_of_answers import Exchange, SumOfAnswers
from pate_federated.vote_file import VoteManifest


@dataclass(frozen=True)
class Opened:
    """The content of `opening.json`: the holders that take part in a release in rounds.

    Attributes:
        name: a random name of the release, so that the sums of two inboxes are not mixed up.
        asked: the digest of the samples in the opening question.
        heads: the head of each holder's answer as JSON, by the holder's name.
    """

    name: str
    asked: str
    heads: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundsOfHolders:
    """The server's release of centered votes in rounds, for any transport of the messages.

    Rule: the opening question makes each holder train its teachers. Each later question asks the holders for one sum:
    three sums for the prevalence, if it is released, and then one sum for each round. A question depends on public
    values and on earlier releases. The ledger is charged once, for prevalence and rounds together: with the first noisy
    result, before anything depends on that result.

    Attributes:
        plan: the plan of the release, with `CenteredVotes` in rounds.
        roll: the expected holders.
        pool: float32 `[num_public, num_inputs]`, public samples. Trained teachers are asked about the first 2,048. The
            directions of the rounds are those of all samples; the first 20,000, or all queries if those are more, stand
            for the pool in the rounds.
        record_ids: `[num_public]`, the public names of the samples.
        label_names: the name of each label.
        num_queries: the number of samples that get labels, which are the first ones; None for all.
        inbox: the folder for the sums, of mode 0700; no epsilon covers the sums.
        output_dir: the folder of the release; its `release/` may be published.
    """

    plan: ReleasePlan
    roll: Roll
    pool: Float32Array
    record_ids: NDArray[Any]
    label_names: tuple[str, ...]
    num_queries: int | None = None
    inbox: Path | str
    output_dir: Path | str

    def __post_init__(self) -> None:
        require(
            self.pool.ndim == 2,
            "pool.shape",
            self.pool.shape,
            "[P, d]: rounds are for rows of numbers",
        )
        is_same = len(self.record_ids) == len(self.pool)
        require(
            is_same,
            "len(record_ids)",
            len(self.record_ids),
            f"{len(self.pool)}, one for each sample",
        )
        if self.num_queries is not None:
            count = require_count("num_queries", self.num_queries)
            require(
                count <= len(self.pool),
                "num_queries",
                count,
                f"at most {len(self.pool)}, the public samples",
            )

    @all_cores()
    def run(self, exchange: Exchange, monitor: Monitor | None = None) -> Terms:
        """Asks the holders and releases one round after the other; continues a call that was killed.

        Rounds that were charged and not finished continue at no further price.

        Args:
            exchange: sends a question to all holders and returns the sum of their answers.
            monitor: displays the progress and the absent holders; None for no display.

        Raises:
            InvalidValue: too many holders are absent, or `release_votes` refuses the release.
        """
        monitor = monitor or Monitor()
        vote_source = AskedVotes(release_in_rounds=self, ask_holders=exchange, monitor=monitor)
        ids = self.record_ids[: self.num_queries]
        cohort = cohort_of_heads(
            vote_source.heads,
            record_ids=ids,
            label_names=self.label_names,
            # the digest of the opening, whose sums no epsilon covers
            votes_digest=hashlib.sha256(to_json(vote_source.opened).encode()).hexdigest(),
            queries_digest=queries_digest(
                inputs=np.asarray(self.pool[: self.num_queries], dtype=np.float32), record_ids=ids
            ),
            places=Places.from_holders(self.roll.holders),
            num_groups=sum(head.num_groups for head in vote_source.heads),
        )
        return release_votes(
            self.plan,
            vote_source=vote_source,
            cohort=cohort,
            output_dir=self.output_dir,
            monitor=monitor,
        )


class AskedVotes(VotesInRounds, ShareSums):
    """The votes of all holders' teachers, of which the server gets only sums, by questions to the holders.

    The queries are the first samples of the pool. Each question is asked once, and its sum is written to the inbox. A
    server that was killed continues with these sums. If a sum is lost after a later question was asked, it is not asked
    for again. The second sum might be over other holders, and with the same noise the difference of both sums would
    disclose private votes.
    """

    readers = "centered_votes in rounds (aggregator.rounds=2 or more, or 200 teachers), which needs sums alone"

    def __init__(
        self, release_in_rounds: RoundsOfHolders, ask_holders: Exchange, monitor: Monitor
    ) -> None:
        """Asks the holders the opening question, about the first samples of the pool, unless the inbox has its answers.

        Args:
            release_in_rounds: the release with its folders and its roll.
            ask_holders: sends a question to all holders and returns the sum of their answers.
            monitor: displays the progress.
        """
        self.folder = make_folder(release_in_rounds.inbox)
        self.roll = release_in_rounds.roll
        self.pool = release_in_rounds.pool
        self._ask_holders = ask_holders
        self._monitor = monitor
        inputs = np.asarray(self.pool[:NUM_ASKED], dtype=np.float32)
        request = Request(
            inputs=inputs,
            record_ids=release_in_rounds.record_ids[:NUM_ASKED],
            label_names=release_in_rounds.label_names,
        )
        opening = Question.of_opening(request)
        self.opened = self._ask_or_read_opening(opening)
        self.heads = [VoteManifest.from_text(text) for text in self.opened.heads.values()]
        dataset_names = sorted({head.dataset for head in self.heads})
        if len(dataset_names) > 1:
            raise InvalidValue(
                "dataset", ", ".join(dataset_names), rule="one name for the data of all holders"
            )
        self.num_teachers = self.roll.num_teachers
        self.num_labels = opening.num_labels
        self.have_gaps = any(head.have_gaps or head.known_labels is not None for head in self.heads)
        self.num_queries = len(self.pool[: release_in_rounds.num_queries])
        num_present_teachers = sum(head.num_teachers for head in self.heads)
        self.records_per_teacher = (
            sum(head.num_groups for head in self.heads) / num_present_teachers
        )

    def _ask_or_read_opening(self, opening: Question) -> Opened:
        """Returns the holders that take part in the release, as `opening.json` in the inbox lists them.

        If there is no such file, asks the opening question and writes the file.
        """
        opening_path = self.folder / "opening.json"
        if not os.path.lexists(opening_path):
            answers = self._ask_enough_holders(question=opening)
            head_text_of_holder = {name: head.to_text() for name, head in answers.heads.items()}
            samples_digest = opening.asked
            opened = Opened(
                name=secrets.token_hex(nbytes=16), asked=samples_digest, heads=head_text_of_holder
            )
            write_text(opening_path, text=to_json(opened) + "\n")
        stored = read_value(
            Opened, opening_path, name="opening", rule="what holders vouched for", remedy=LATER
        )
        rule = "those of the release; take another inbox for others"
        require(stored.asked == opening.asked, "inbox, samples", "others", rule)
        return stored

    def _ask_enough_holders(self, question: Question) -> SumOfAnswers:
        """Asks all holders a question and returns the sum; raises `InvalidValue` if too many of them are absent."""
        answers = self._ask_holders(question)
        for line in answers.refused.values():
            self._monitor.say(line)
        self.roll.require_enough(
            present_holders=answers.holders,
            refusal_reasons=answers.refused,
            remedy="ask again: nothing is charged a second time",
        )
        return answers

    def sum_of(self, kind: str, **state: Any) -> IntArray:
        """Returns the sum of the holders' answers to a question, int64, in steps; absent holders add nothing.

        The sum of lengths is in teachers. The question is asked once: a later call reads the sum from the inbox.

        Args:
            kind: the kind of question, one of `KINDS`.
            **state: the arrays of the question, by name.
        """
        state_arrays = {name: np.asarray(value, dtype=np.float64) for name, value in state.items()}
        question = Question(
            kind=kind,
            asked=self.opened.asked,
            num_labels=self.num_labels,
            state=state_arrays,
            have_gaps=self.have_gaps and kind in (LENGTHS, SHARES),
        )
        sum_path = self.folder / f"{question.name}.npz"

        def make_sum() -> Summed:
            self._log_question(file_name=sum_path.name)
            answers = self._ask_enough_holders(question=question)
            return answers.total, answers.holders

        sum_file = read_or_make_sum(
            sum_path=sum_path, shape=question.shape, make_sum=make_sum, remedy=LATER
        )
        return sum_file["total"].astype(np.int64)

    def _log_question(self, *, file_name: str) -> None:
        """Writes the name of a question's file to the log in the inbox before the question is asked.

        Raises `InvalidValue` if the name is in the log already, followed by that of a later question.
        """
        log_path = self.folder / "asked.txt"
        rule = "the questions that were asked"
        logged_names = []
        if os.path.lexists(log_path):
            logged_names = read_text(log_path, rule=rule, remedy=LATER).split()
        if file_name in logged_names[:-1]:
            raise InvalidValue(
                "inbox",
                self.folder / file_name,
                rule=f"the sum that later questions rest on; {LATER}",
            )
        if file_name not in logged_names:
            write_text(log_path, text="\n".join([*logged_names, file_name]) + "\n")

    def share_sums(self) -> ShareSums:
        """Returns this object, which asks the holders for sums of label shares."""
        return self

    def lengths(self) -> IntArray:
        """Returns the histogram of the lengths of teachers' label shares, summed over all holders.

        Each holder answers with the number of its own teachers at each length.
        """
        return self.sum_of(kind=LENGTHS)

    def total(self, clipped_sum: ClippedSum, center: FloatArray) -> IntArray:
        """Asks the holders for the sum of their teachers' shares, each minus a center and clipped; adds up the answers.

        Args:
            clipped_sum: the clip and the grid of the sum.
            center: `[num_entries]`, which is subtracted from the shares of each teacher before the clip.
        """
        return self.sum_of(kind=SHARES, center=center, clip=clipped_sum.clip)

    def votes_around(
        self, center: FloatArray, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterable[Any]:
        """Raises `InvalidValue`: the server has no matrix of votes that could be summed at once."""
        raise self._type_error()

    def in_rounds(
        self,
        *,
        noise_multiplier: float,
        least_directions: int = 0,
        recipe: Recipe = DEFAULT_RECIPE,
    ) -> RoundVotes:
        """Returns the votes in rounds, each of which is about the errors of the student so far.

        Raises `InvalidValue` for a recipe that is not the default, since a question does not hold the recipe.
        """
        rule = "the default recipe, which all holders have"
        require(recipe == DEFAULT_RECIPE, "recipe", recipe, rule, owner="aggregator")
        num_directions = affordable_directions(
            noise_multiplier=noise_multiplier,
            num_teachers=self.num_teachers,
            num_records=max(1, round(self.records_per_teacher * self.num_teachers)),
            num_labels=self.num_labels,
            noise_share=recipe.noise_share_in_rounds,
        )
        num_directions = max(num_directions, least_directions)
        moments: RoundVotes = self.cached(
            ("moments", num_directions),
            compute=lambda: AskedMoments(self, num_directions=num_directions),
        )
        return moments


class AskedMoments(RoundVotes):
    """The votes in rounds of all holders' teachers, for whose sum the server asks the holders in each round.

    A holder that is absent in a round adds nothing.

    Formal guarantee: see docs/proofs/vote_rounds.md, "Rounds of many holders".
    """

    def __init__(self, asked_votes: AskedVotes, num_directions: int) -> None:
        """Computes the features of public inputs along the main directions of the public pool.

        Args:
            asked_votes: asks the holders for sums, and has the pool.
            num_directions: the largest number of directions; those of the largest variance are taken (`PublicPCA`).
        """
        self._votes = asked_votes
        self._public_pca = PublicPCA.fit(
            asked_votes.pool, max_directions=num_directions, ridge=DEFAULT_RECIPE.ridge_in_rounds
        )
        public_inputs = asked_votes.pool[: max(DEFAULT_RECIPE.public_rows, asked_votes.num_queries)]
        self.public_features = self._public_pca.with_constant(inputs=public_inputs).astype(
            np.float32
        )
        self.feature_variances = self._public_pca.feature_variances
        self.num_teachers = asked_votes.num_teachers
        self.num_labels = asked_votes.num_labels
        self.records_per_teacher = asked_votes.records_per_teacher

    def total(self, question: RoundQuestion) -> IntArray:
        """Asks the holders for the sum of their teachers' clipped votes, and returns the sum over holders."""
        public_pca = self._public_pca
        return self._votes.sum_of(
            kind=MOMENTS,
            records_per_teacher=self.records_per_teacher,
            weights=question.student_weights,
            label_scale=question.label_scale,
            clip=question.moment_clipping.clip,
            pool_center=public_pca.center,
            projection=public_pca.projection,
            variances=public_pca.variances,
        )
