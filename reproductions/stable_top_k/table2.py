"""Table 2 of Zhu and Wang (2022) on the votes of a finished or half-finished run: epsilon at equal student accuracy.

For each aggregator the command finds the most noise whose students, one per seed, are on average as accurate as asked.
Then it prices that release: as the aggregator's paper accounts (not a bound), sound for add/remove, and sound for
replace-one. It finds the noise for each adjacency by itself, since thresholds depend on it. Students see the leading
directions of the public pool. Accuracies are measured against true labels: no epsilon covers them, nor the choice of
the noise.

  pate-train experiment=synth_faces_800 seed=0 output_dir=outputs/faces
  python -m reproductions.stable_top_k.table2 outputs/faces
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

from pate.accounting import Adjacency
from pate.config import build
from pate.data import Dataset, Split
from pate.files.atomic import write_text
from pate.report import format_epsilon
from pate.student import LinearStudent
from pate.validation import InvalidValue, require_count, require_probability
from pate.votes import VoteStore
from pate.votes.public_pca import PublicPCA
from reproductions.command import csv_text, followed, run
from reproductions.stable_top_k.equal_accuracy import Aligned, aligned, families, within_reach
from reproductions.stable_top_k.students import StudentExperiment

ADJACENCIES = (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)


def main(arguments: list[str] | None = None) -> None:
    """Prints the table and saves it as table2.csv in the run's folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a folder of pate-train with votes.npz in it")
    parser.add_argument("--accuracy", type=float, help="of the students; none: by --share")
    parser.add_argument("--share", type=float, default=0.8, help="of the way from the prior to what all reach")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--directions", type=int, default=128, help="of the public pool that students see")
    run(lambda: _table(parser.parse_args(arguments)))


def _table(chosen: argparse.Namespace) -> None:
    require_count("seeds", chosen.seeds, minimum=2)
    require_probability("share", chosen.share)
    experiment, name = _experiment(chosen)
    compared = families()
    prior, reach = experiment.prior_accuracy(), within_reach(experiment, compared)
    accuracy = chosen.accuracy or prior + chosen.share * (reach - prior)
    pairs = [(family, adjacency) for family in compared for adjacency in ADJACENCIES]
    found = list(followed((aligned(f, experiment, accuracy, a) for f, a in pairs), total=len(pairs)))
    votes, delta = experiment.votes, experiment.target_delta
    console = Console(width=140)
    title = f"{name}: {votes.num_teachers} teachers, {votes.num_queries} queries, delta {delta:g}"
    console.print(_printed(found, title))
    console.print(f"students' accuracy: asked {accuracy:.4f}; prior {prior:.4f}, all without noise {reach:.4f}")
    console.print("no epsilon covers accuracies, nor noise chosen by them; the paper's column is no bound")
    write_text(chosen.run / "table2.csv", csv_text(found))


def _experiment(chosen: argparse.Namespace) -> tuple[StudentExperiment, str]:
    """The run's votes and data, and what to call them."""
    settings = chosen.run / "run.json"
    if not settings.is_file():
        raise InvalidValue(f"run={chosen.run}: expected a folder of pate-train, with run.json and votes.npz in it")
    plan = json.loads(settings.read_text())
    votes = VoteStore.open(chosen.run / "votes.npz", num_teachers=plan["teacher"]["num_teachers"])
    data: Dataset = build(OmegaConf.create(plan["data"]), "data", allowed_targets=plan["allowed_targets"]).load()
    public = np.asarray(data.public.inputs).reshape(len(data.public), -1)
    directions = PublicPCA.of(public, min(chosen.directions, *public.shape))
    axes = directions.projection / np.linalg.norm(directions.projection, axis=0)  # of length 1: not whitened

    def seen(split: Split) -> NDArray[np.float32]:
        rows = np.asarray(split.inputs).reshape(len(split), -1)
        return np.asarray((rows - directions.center) @ axes, np.float32)

    test = Split(seen(data.test), data.test.labels, data.test.record_ids, data.test.group_ids)
    queries = seen(data.public.take(slice(0, votes.num_queries)))
    delta = float(plan["target_delta"])
    label = f"{data.name}{'' if data.real else ' (synthetic)'}"
    return StudentExperiment(votes, queries, test, LinearStudent(), range(chosen.seeds), delta), label


def _printed(found: list[Aligned], title: str) -> Table:
    """One row a family: its accuracy under add/remove, its noise and its three prices."""
    table = Table("aggregator", "student accuracy", "noise", "as the paper", "add/remove", "replace-one", title=title)
    for first, second in zip(found[::2], found[1::2], strict=True):
        mean, std = np.mean(first.accuracies), np.std(first.accuracies, ddof=1)
        if first.noise is None or second.noise is None:
            table.add_row(first.name, f"{mean:.4f} ± {std:.4f}", "none is small enough", "-", "-", "-")
            continue
        noise = f"{first.noise:.1f} / {second.noise:.1f} {first.unit}"
        paper = "-" if first.paper_epsilon is None else f"{first.paper_epsilon:.2f}"
        prices = [format_epsilon(row.epsilon) for row in (first, second)]
        table.add_row(first.name, f"{mean:.4f} ± {std:.4f}", noise, paper, *prices)
    return table


if __name__ == "__main__":
    main()
