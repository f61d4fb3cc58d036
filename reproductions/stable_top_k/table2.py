"""Table 2 of Zhu & Wang (2022) on the votes of a run, finished or not: epsilon at equal student accuracy.

For each aggregator the command finds the most noise whose students, one per seed, are on average as accurate as asked.
Then it prices that release: as the aggregator's paper accounts (not a bound), sound for add/remove, and sound for
replace-one. It finds the noise for each adjacency by itself, since thresholds depend on it. Students see the leading
directions of the public pool. Accuracies are measured against true labels: no epsilon covers them, nor the choice of
the noise.

  python scripts/make_synth_faces.py data/faces
  pate-train experiment=synth_faces_800 seed=0 output_dir=outputs/faces
  python -m reproductions.stable_top_k.table2 outputs/faces
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

from pate.accounting import Adjacency, RdpAccountant
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.aggregators import (
    Aggregator,
    CenteredVotes,
    ClippedVotes,
    GaussianVotes,
    MemoryRecord,
    StableTopK,
)
from pate.array_types import Float32Array
from pate.config import build
from pate.data import Dataset, Split
from pate.files.atomic import write_text
from pate.models import LinearStudent, Student
from pate.report import format_epsilon
from pate.validation import InvalidValue, require_count, require_probability
from pate.votes import StoredVotes, VoteStore
from pate.votes.public_pca import PublicPCA
from reproductions.command import csv_text, run, with_progress

ADJACENCIES = (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)


def main(arguments: list[str] | None = None) -> None:
    """Prints the table and saves it as table2.csv in the run's folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="a folder of pate-train with votes.npz in it")
    parser.add_argument("--accuracy", type=float, help="of the students; none: by --share")
    parser.add_argument(
        "--share", type=float, default=0.8, help="of the way from the prior to what all reach"
    )
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument(
        "--directions", type=int, default=128, help="of the public pool that students see"
    )
    run(lambda: _table(parser.parse_args(arguments)))


def _table(chosen: argparse.Namespace) -> None:
    require_count("seeds", chosen.seeds, minimum=2)
    require_probability("share", chosen.share)
    experiment, name = _experiment(chosen)
    compared = families()
    prior, reach = experiment.prior_accuracy(), within_reach(experiment, compared)
    accuracy = chosen.accuracy or prior + chosen.share * (reach - prior)
    pairs = [(family, adjacency) for family in compared for adjacency in ADJACENCIES]
    accuracies = list(
        with_progress(
            (aligned(f, experiment, accuracy, adjacency=a) for f, a in pairs), total=len(pairs)
        )
    )
    votes, delta = experiment.votes, experiment.target_delta
    console = Console(width=140)
    title = f"{name}: {votes.num_teachers} teachers, {votes.num_queries} queries, delta {delta:g}"
    console.print(_printed(accuracies, title))
    console.print(
        f"students' accuracy: asked {accuracy:.4f}; prior {prior:.4f}, all without noise {reach:.4f}"
    )
    console.print(
        "no epsilon covers accuracies, nor noise chosen by them; the paper's column is no bound"
    )
    write_text(chosen.run / "table2.csv", csv_text(accuracies))


def _experiment(chosen: argparse.Namespace) -> tuple[StudentExperiment, str]:
    """Returns the run's votes and data, with their names."""
    settings = chosen.run / "run.json"
    if not settings.is_file():
        raise InvalidValue(
            "run", chosen.run, rule="a folder of pate-train, with run.json and votes.npz in it"
        )
    plan = json.loads(settings.read_text())
    votes = VoteStore.open(chosen.run / "votes.npz", num_teachers=plan["teacher"]["num_teachers"])
    data: Dataset = build(
        OmegaConf.create(plan["data"]), slot="data", allowed_targets=plan["allowed_targets"]
    ).load()
    public = np.asarray(data.public.inputs).reshape(len(data.public), -1)
    directions = PublicPCA.fit(public, max_directions=min(chosen.directions, *public.shape))
    # of length 1: not whitened
    axes = directions.projection / np.linalg.norm(directions.projection, axis=0)

    def seen(split: Split) -> Float32Array:
        rows = np.asarray(split.inputs).reshape(len(split), -1)
        return np.asarray((rows - directions.center) @ axes, np.float32)

    test = Split(seen(data.test), data.test.labels, data.test.record_ids, data.test.group_ids)
    queries = seen(data.public.take(slice(0, votes.num_queries)))
    delta = float(plan["target_delta"])
    label = f"{data.name}{'' if data.real else ' (synthetic)'}"
    return StudentExperiment(
        votes, queries, test, student=LinearStudent(), seeds=range(chosen.seeds), target_delta=delta
    ), label


def _printed(found: list[Aligned], title: str) -> Table:
    """Prints a row a family: its accuracy under add/remove, its noise and its three prices."""
    table = Table(
        "aggregator",
        "student accuracy",
        "noise",
        "as the paper",
        "add/remove",
        "replace-one",
        title=title,
    )
    for first, second in zip(found[::2], found[1::2], strict=True):
        mean, std = np.mean(first.accuracies), np.std(first.accuracies, ddof=1)
        if first.noise is None or second.noise is None:
            table.add_row(
                first.name, f"{mean:.4f} ± {std:.4f}", "none is small enough", "-", "-", "-"
            )
            continue
        noise = f"{first.noise:.1f} / {second.noise:.1f} {first.unit}"
        paper = "-" if first.paper_epsilon is None else f"{first.paper_epsilon:.2f}"
        prices = [format_epsilon(row.epsilon) for row in (first, second)]
        table.add_row(first.name, f"{mean:.4f} ± {std:.4f}", noise, paper, *prices)
    return table


@dataclass(frozen=True, eq=False)
class StudentExperiment:
    """A vote file and the students that learn from releases of it."""

    votes: VoteStore  # of all teachers, on disk
    queries: Float32Array  # float32 `[Q, d]`
    test: Split  # inputs and labels that students are scored on; no epsilon covers the scores
    student: Student  # the recipe
    seeds: Sequence[int]  # of noise and students
    target_delta: float  # in (0, 1)

    def accuracies(self, aggregator: Aggregator) -> tuple[float, ...]:
        """Returns the accuracy of a student of one release for each seed."""
        return tuple(self._accuracy(aggregator, seed) for seed in self.seeds)

    def prior_accuracy(self) -> float:
        """Returns the accuracy of each label's majority."""
        share = self.test.labels.mean(axis=0)
        return float(np.maximum(share, 1 - share).mean())

    def _accuracy(self, aggregator: Aggregator, seed: int) -> float:
        """Returns the accuracy of a student, which sees no public sample besides the queries."""
        release = aggregator.release(self._source, np.random.default_rng(seed), MemoryRecord())
        model = self.student.learn(
            release.training_set(self.queries), pool=self.queries[:0], seed=seed
        )
        return float((model.predict(self.test.inputs) == self.test.labels).mean())

    @cached_property
    def _source(self) -> StoredVotes:
        return StoredVotes(self.votes)


_STEPS = 7
_TEST_SHARE = 1.2  # test noise / selection noise, as in the paper's 60 / 50
_TAU = 4


@dataclass(frozen=True)
class AggregatorFamily:
    """An aggregator as a function of its noise."""

    name: str  # for the table
    # the aggregator with that noise, for that adjacency
    make: Callable[[float, Adjacency], Aggregator]
    # of a query's counts for add/remove, given L, where the paper charges a Gaussian on them; None where the aggregator
    # knows what its paper prints
    l2_squared: Callable[[int], float] | None = None
    unit: str = "votes"  # of the noise
    least: float = 0.5  # noise that changes hardly anything
    # noise that leaves hardly anything; a teacher's share of it, where the unit is votes
    most: float = 4.0

    def paper_epsilon(
        self, noise: float, *, num_queries: int, num_labels: int, target_delta: float
    ) -> float | None:
        """Returns the paper's figure, which is no bound; None where the paper prints none."""
        if self.l2_squared is None:
            aggregator = self.make(noise, Adjacency.ADD_REMOVE)
            return aggregator.paper_epsilon(num_queries=num_queries, target_delta=target_delta)
        rho = num_queries * self.l2_squared(num_labels) / (2 * noise**2)
        return zcdp_to_epsilon_classic(rho, target_delta=target_delta)


def families() -> list[AggregatorFamily]:
    """Returns the rows of Table 2 of Zhu & Wang (2022), and our best aggregator on the same votes."""
    return [
        AggregatorFamily(
            name="PATE",
            make=lambda noise, a: GaussianVotes(noise_std=noise, adjacency=a),
            l2_squared=float,
        ),
        AggregatorFamily(
            f"PATE-tau, tau {_TAU}",
            make=lambda noise, a: ClippedVotes(
                noise_std=noise, vote_clip=_TAU, norm="l2", adjacency=a
            ),
            l2_squared=lambda num_labels: min(_TAU, num_labels),
        ),
        AggregatorFamily(name="StableTopK", make=_stable("gaussian")),
        AggregatorFamily(name="StableTopK, Gumbel (ours)", make=_stable("gumbel")),
        AggregatorFamily(
            name="CenteredVotes (ours)",
            make=lambda noise, a: CenteredVotes(noise_multiplier=noise, adjacency=a),
            unit="sensitivities",
            least=0.05,
            most=100.0,
        ),
    ]


def _stable(kind: str) -> Callable[[float, Adjacency], Aggregator]:
    """Returns stable top-k with the given noise in the selection."""
    return lambda noise, adjacency: StableTopK(
        selection_noise=kind,
        selection_scale=noise,
        test_std=_TEST_SHARE * noise,
        failure_prob=1e-9,
        adjacency=adjacency,
    )


def within_reach(experiment: StudentExperiment, compared: Sequence[AggregatorFamily]) -> float:
    """Returns the accuracy that the students of all families reach with hardly any noise."""
    quiet = [family.make(family.least, Adjacency.REPLACE_ONE) for family in compared]
    return min(float(np.mean(experiment.accuracies(aggregator))) for aggregator in quiet)


@dataclass(frozen=True)
class Aligned:
    """An aggregator with as much noise as its student tolerates."""

    name: str  # of the family
    adjacency: Adjacency  # for which thresholds were set and the price is
    noise: float | None  # in the family's unit; None where no noise is small enough
    unit: str  # the family's
    accuracies: tuple[float, ...]  # of the students, one per seed
    epsilon: float  # sound, for that adjacency
    # what the paper would print; not a bound. None where it would print nothing.
    paper_epsilon: float | None


def aligned(
    family: AggregatorFamily, experiment: StudentExperiment, accuracy: float, adjacency: Adjacency
) -> Aligned:
    """Returns the most noise at which the students' mean accuracy reaches the target, by halving, to a few percent."""
    low, high = (
        family.least,
        family.most * (experiment.votes.num_teachers if family.unit == "votes" else 1),
    )
    best = experiment.accuracies(family.make(low, adjacency))
    if float(np.mean(best)) < accuracy:
        return Aligned(
            family.name,
            adjacency,
            noise=None,
            unit=family.unit,
            accuracies=best,
            epsilon=math.inf,
            paper_epsilon=None,
        )
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        accuracies = experiment.accuracies(family.make(middle, adjacency))
        if float(np.mean(accuracies)) >= accuracy:
            low, best = middle, accuracies
        else:
            high = middle
    event = family.make(low, adjacency).event_for(
        num_queries=experiment.votes.num_queries,
        num_labels=experiment.votes.num_labels,
        num_teachers=experiment.votes.num_teachers,
    )
    epsilon = RdpAccountant().compose(event).get_epsilon(experiment.target_delta)
    paper = family.paper_epsilon(
        low,
        num_queries=experiment.votes.num_queries,
        num_labels=experiment.votes.num_labels,
        target_delta=experiment.target_delta,
    )
    return Aligned(
        family.name,
        adjacency,
        noise=low,
        unit=family.unit,
        accuracies=best,
        epsilon=epsilon,
        paper_epsilon=paper,
    )


if __name__ == "__main__":
    main()
