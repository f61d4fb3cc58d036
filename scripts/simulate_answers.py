"""Simulates experts on WordNet-40 and writes their answers: python scripts/simulate_answers.py FOLDER [--table].

Nothing here is a language model. The public model is a logistic model of 100 labeled public rows. An expert is this
model after one Newton step on the private records in its "prompt", each counted `weight` times, as models follow
examples more closely than their number warrants. The prompts hold different private groups.

FOLDER gets answers.npz and public.npz for `pate-release votes= public_answers=`, bits.npz (the experts' answers as
bits), and queries.npz for `pate-student queries=`. `--table` prints the table of
docs/how-to/answers-of-language-models.md as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from pate.accounting import Budget, ExactAccountant
from pate.aggregators import CenteredVotes, MemoryRecord
from pate.aggregators.centered_release import CenteredRelease
from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.data import Dataset, WordNet40
from pate.files.archives import write_member, write_rows
from pate.files.arrays import write_arrays
from pate.models.low_rank import LowRankStudent
from pate.report.metrics import average_precisions, micro_f1
from pate.votes import ExpertAnswers, PublicAnswers
from pate.votes.shrinkage import shrink_singular_values

EPSILONS = (0.25, 1.0, 8.0)
DELTA = 1e-6
NUM_SEEDS = 3
_PRIOR_PRECISION = 1.0  # of every weight of the public model
_BLOCK_EXPERTS = 200
_MAX_STEPS = 30


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """The sizes of a simulation.

    Attributes:
        num_experts: the number of prompts.
        num_examples: the private records in a prompt, each of another group.
        num_queries: the number of public rows that are asked, the first ones.
        num_labeled: the number of public rows with labels that the public model learns, those after the queries.
        weight: the times that an example counts.
        seed: the seed of the prompts.
    """

    num_experts: int = 2000
    num_examples: int = 16
    num_queries: int = 600
    num_labeled: int = 100
    weight: float = 8.0
    seed: int = 0


class LogisticPrior:
    """A logistic model of a few public rows, with the covariance of its weights by Laplace's approximation.

    Attributes:
        weights: `[num_features, num_labels]`, the last feature being 1.
        covariances: `[num_labels, num_features, num_features]`.
    """

    def __init__(self, inputs: NDArray[np.floating], labels: BoolArray) -> None:
        features = with_constant(inputs)
        prior = np.zeros((features.shape[1], labels.shape[1]))
        prior[-1] = logit((labels.sum(axis=0) + 0.5) / (len(labels) + 1))
        self.weights = prior.copy()
        ridge = _PRIOR_PRECISION * np.eye(features.shape[1])
        covariances = []
        for label in range(labels.shape[1]):
            for _ in range(_MAX_STEPS):
                shares = expit(features @ self.weights[:, label])
                pull = _PRIOR_PRECISION * (prior[:, label] - self.weights[:, label])
                gradient = features.T @ (labels[:, label] - shares) + pull
                hessian = (features.T * (shares * (1 - shares))) @ features + ridge
                self.weights[:, label] += np.linalg.solve(hessian, gradient)
            covariances.append(np.linalg.inv(hessian))
        self.covariances = np.array(covariances)

    def answers_after(
        self,
        examples: NDArray[np.floating],
        labels: BoolArray,
        queries: FloatArray,
        weight: float,
    ) -> FloatArray:
        """Returns the log-odds of experts, `[num_experts, num_queries, num_labels]`, after a Newton step on examples.

        Args:
            examples: `[num_experts, num_examples, num_inputs]`.
            labels: `[num_experts, num_examples, num_labels]`.
            queries: `[num_queries, num_features]`.
            weight: the times that an example counts.
        """
        features = with_constant(examples)  # [E, k, F]
        log_odds = np.empty((len(examples), len(queries), labels.shape[2]))
        for label, covariance in enumerate(self.covariances):
            shares = expit(features @ self.weights[:, label])  # [E, k]
            errors = labels[:, :, label] - shares
            roots = np.sqrt(shares * (1 - shares))
            moved = features @ covariance  # [E, k, F]
            products = moved @ features.transpose(0, 2, 1)  # [E, k, k]
            # (P + w U'U)^-1 = C - C U' (1/w + U C U')^-1 U C, for the covariance C = P^-1 and the rows U of examples
            inner = roots[:, :, None] * products * roots[:, None] + np.eye(errors.shape[1]) / weight
            right = roots * np.einsum("eij,ej->ei", products, errors)
            taken_off = roots * np.linalg.solve(inner, right[:, :, None])[:, :, 0]
            steps = weight * np.einsum("ekf,ek->ef", moved, errors - taken_off)
            log_odds[:, :, label] = (steps + self.weights[:, label]) @ queries.T
        return log_odds


def with_constant(inputs: NDArray[np.floating]) -> FloatArray:
    """Returns inputs with a last feature of 1."""
    ones = np.ones((*inputs.shape[:-1], 1))
    return np.concatenate([inputs, ones], axis=-1, dtype=np.float64)


def write_simulation(folder: Path, simulation: Simulation, data: Dataset) -> None:
    """Writes the files of a simulation into a folder, which is made.

    Args:
        folder: the folder.
        simulation: the sizes.
        data: the records: prompts from the private ones, queries and the public model from the public ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    num_queries = simulation.num_queries
    labeled = slice(num_queries, num_queries + simulation.num_labeled)
    prior = LogisticPrior(data.public.inputs[labeled], data.public.labels[labeled])
    queries = with_constant(data.public.inputs[:num_queries])
    names = {
        "record_ids": data.public.record_ids[:num_queries],
        "label_names": np.array(data.label_names),
    }
    write_arrays(folder / "public.npz", answers=queries @ prior.weights, **names)
    write_arrays(
        folder / "queries.npz",
        inputs=data.public.inputs,
        ids=data.public.record_ids,
        label_names=np.array(data.label_names),
    )
    group_ids, first_rows = np.unique(data.private.group_ids, return_index=True)
    num_examples = simulation.num_experts * simulation.num_examples
    dealt = np.random.default_rng(simulation.seed).permutation(len(group_ids))[:num_examples]
    dealt = dealt.reshape(simulation.num_experts, simulation.num_examples)
    rows = first_rows[dealt]

    def blocks() -> Iterator[Float32Array]:
        for first in range(0, len(rows), _BLOCK_EXPERTS):
            block = rows[first : first + _BLOCK_EXPERTS]
            yield prior.answers_after(
                examples=data.private.inputs[block],
                labels=data.private.labels[block],
                queries=queries,
                weight=simulation.weight,
            ).astype(np.float32)

    shape = (len(rows), num_queries, len(data.label_names))
    with (
        zipfile.ZipFile(folder / "answers.npz", "w") as archive,
        zipfile.ZipFile(folder / "bits.npz", "w") as bit_archive,
    ):
        for each in (archive, bit_archive):
            for name, array in {**names, "groups": group_ids[dealt]}.items():
                write_member(each, array_name=name, array=array)
        write_rows(
            archive, array_name="answers", array_shape=shape, dtype_text="<f4", row_blocks=blocks()
        )
        bits = (block > 0 for block in blocks())
        write_rows(
            bit_archive, array_name="answers", array_shape=shape, dtype_text="|b1", row_blocks=bits
        )


@dataclass(frozen=True)
class Judge:
    """Scores of answers to the queries, and of a student on test records, as mean average precision/micro-F1."""

    data: Dataset
    num_queries: int

    def scores(self, probabilities: FloatArray, labels: BoolArray) -> tuple[float, float]:
        """Returns the scores of probabilities and labels of the queries."""
        truth = self.data.public.labels[: self.num_queries]
        precisions = average_precisions(probabilities, true_labels=truth)
        return float(np.nanmean(precisions)), micro_f1(labels, true_labels=truth)

    def scores_of_student(self, release: CenteredRelease) -> tuple[float, float]:
        """Returns the scores on test records of a student that learns from a release and the public inputs."""
        inputs = self.data.public.inputs
        training = release.training_set(inputs[: self.num_queries])
        model = LowRankStudent().learn(training, pool=inputs[self.num_queries :], seed=0)
        test = self.data.test
        probabilities = model.predict_proba(test.inputs)
        precision = float(np.nanmean(average_precisions(probabilities, true_labels=test.labels)))
        return precision, micro_f1(model.predict(test.inputs), true_labels=test.labels)


def most_expected(probabilities: FloatArray) -> BoolArray:
    """Returns labels: each label for as many of its most likely queries as it is expected for."""
    order = np.argsort(-probabilities, axis=0, kind="stable")
    is_chosen = np.arange(len(probabilities))[:, None] < np.rint(probabilities.sum(axis=0))
    labels = np.zeros(probabilities.shape, dtype=np.bool_)
    np.put_along_axis(labels, order, is_chosen, axis=0)
    return labels


def table(folder: Path, simulation: Simulation, data: Dataset) -> dict[str, Any]:
    """Returns the table of the page, as docs/results.json has it.

    Args:
        folder: the folder of `write_simulation`.
        simulation: the sizes.
        data: the records.
    """
    public = PublicAnswers.read(folder / "public.npz")
    judge = Judge(data, simulation.num_queries)
    votes = {
        name: ExpertAnswers([folder / f"{name}.npz"], public=public) for name in ("answers", "bits")
    }
    mean = np.mean([block.mean(axis=0) for block in votes["answers"].confidences()], axis=0)
    first = next(votes["answers"].confidences())[:20]
    whole_answers = (
        ("the public model", [public.probabilities]),
        ("one expert, no privacy", list(first)),
        ("the mean of all experts, no privacy", [mean]),
    )
    rows = []
    for name, several in whole_answers:
        cell = _cell([judge.scores(one, most_expected(one)) for one in several])
        rows.append([name, "queries", *[cell] * len(EPSILONS)])
    for kind, words in (("answers", "log-odds"), ("bits", "bits")):
        for center, suffix in ((public, "with"), (None, "without")):
            releases = [_releases(votes[kind], center, epsilon) for epsilon in EPSILONS]
            of_queries = [_cell([_scores(judge, one) for one in each]) for each in releases]
            of_students = [
                _cell([judge.scores_of_student(one) for one in each]) for each in releases
            ]
            name = f"{words}, {suffix} public answers"
            rows.append([name, "queries", *of_queries])
            rows.append([name, "a student", *of_students])
    return {
        "about": f"{simulation}, {NUM_SEEDS} seeds of noise, mean average precision/micro-F1",
        "columns": ["answers", "scored on", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)],
        "rows": rows,
    }


def _releases(
    votes: ExpertAnswers, public: PublicAnswers | None, epsilon: float
) -> list[CenteredRelease]:
    """Returns releases at an epsilon, one for each seed; without public answers the clip has the factor of `around`."""
    budget = Budget(epsilon=epsilon, delta=DELTA, accountant=ExactAccountant)
    unsolved = CenteredVotes(noise_multiplier=1.0, rounds=1)
    if public is None:
        unsolved = CenteredVotes(
            noise_multiplier=1.0, rounds=1, clip_factor=unsolved.recipe.answer_clip
        )
    else:
        unsolved = unsolved.around(public.probabilities)
    aggregator = unsolved.fitted(budget, votes.shape)
    releases = []
    for seed in range(NUM_SEEDS):
        release = aggregator.release(votes, np.random.default_rng(seed), MemoryRecord())
        assert isinstance(release, CenteredRelease)
        releases.append(release)
    return releases


def _scores(judge: Judge, release: CenteredRelease) -> tuple[float, float]:
    difference = release.scores - release.center
    low_rank = shrink_singular_values(difference, noise_std=release.noise_std)
    return judge.scores(release.center + low_rank, release.labels)


def _cell(scores: Sequence[tuple[float, float]]) -> str:
    means = np.mean(scores, axis=0)
    return "/".join(f"{mean:.3f}".removeprefix("0") for mean in means)


def main(arguments: Sequence[str]) -> int:
    """Writes the files of a simulation, and prints the table if it is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", action="store_true", help="also prints the table as JSON")
    parser.add_argument("--experts", type=int, default=Simulation.num_experts)
    parser.add_argument("--examples", type=int, default=Simulation.num_examples)
    parser.add_argument("--queries", type=int, default=Simulation.num_queries)
    parser.add_argument("--weight", type=float, default=Simulation.weight)
    parser.add_argument("--seed", type=int, default=Simulation.seed)
    words = parser.parse_args(arguments)
    simulation = Simulation(
        num_experts=words.experts,
        num_examples=words.examples,
        num_queries=words.queries,
        weight=words.weight,
        seed=words.seed,
    )
    data = WordNet40().load()
    write_simulation(words.folder, simulation, data)
    if words.table:
        sys.stdout.write(json.dumps(table(words.folder, simulation, data), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
