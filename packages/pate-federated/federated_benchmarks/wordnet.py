"""WordNet-40 dealt to 40 holders of 10 teachers, with Flower's simulation, against the release of vote files.

`python -m federated_benchmarks.wordnet FOLDER --way votes` asks for votes, `--way sum` for a secure sum of counts, and
`--way noise` for one that carries the holders' noise. The first two have to give the bytes of the release of files.
`--way rounds` and `--way secure_rounds` ask for centered votes in rounds, at epsilon 3.6, and have to give those of
`pate-train`.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.flower_simulation import simulate
from pate.accounting import ExactAccountant
from pate.aggregators import CenteredVotes, GaussianVotes
from pate.data import WordNet40
from pate.models import LinearTeacher, LowRankStudent, SequentialEngine
from pate.run.plan import Plan
from pate.run.train import train
from pate.run.votes_release import ReleasePlan
from pate_federated import Request, Roll, RoundsOfHolders
from pate_federated.collection import FederatedRelease
from pate_federated.distributed_votes import DistributedVotes
from pate_federated.flower import holder_app, release_app, rounds_app, secure_holder_app, summed_app
from pate_federated.holder_sum import HolderSum
from pate_federated.summed_release import SummedRelease
from pate_federated.vote_casting import HolderPlan
from small_federation.stages import cast_votes, release
from tests.e2e.small_run import SilentMonitor

HOLDERS = 40
TEACHERS = 10
QUERIES = 600
ABSENT = 4
SEED = 1


@dataclass(frozen=True)
class WordNetHolders:
    """A function that returns the plan of each of 40 holders, with one fortieth of the private groups each."""

    folder: Path

    def plan(self, name: str) -> HolderPlan:
        return HolderPlan(
            load_dataset=WordNet40().load,
            teacher=LinearTeacher(device="cpu"),
            num_teachers=TEACHERS,
            engine=SequentialEngine(),
            holder=name,
            holders=HOLDERS,
            num_queries=QUERIES,
            seed=SEED,
            settings={"name": "wordnet", "holder": name},
        )

    def __call__(self, name: str) -> tuple[HolderPlan, Path]:
        side_of_holder = self.folder / name
        side_of_holder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.plan(name), side_of_holder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--way", choices=("votes", "sum", "noise", "rounds", "secure_rounds"), default="votes"
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True)
    if arguments.way.endswith("rounds"):
        print(json.dumps(in_rounds(arguments.folder, secure=arguments.way == "secure_rounds")))  # noqa: T201 - the product
        return
    dataset = WordNet40().load()
    started = time.monotonic()
    request = Request(
        inputs=np.asarray(dataset.public.inputs[:QUERIES], dtype=np.float32),
        record_ids=dataset.published_ids[:QUERIES],
        label_names=dataset.label_names,
    )
    roll = Roll.numbered(HOLDERS, teachers_each=TEACHERS, max_absent=ABSENT)
    holders = WordNetHolders(arguments.folder / "holders")
    noise = DistributedVotes(noise_std=100.0, num_holders=HOLDERS, max_dropouts=ABSENT)
    aggregator = noise if arguments.way == "noise" else GaussianVotes(noise_std=100.0)
    plan = ReleasePlan(aggregator=aggregator, target_delta=1e-6, allow_useless=True, seed=SEED)
    inbox = arguments.folder / "inbox"
    output_dir = arguments.folder / "release"
    if arguments.way == "votes":
        release_of_votes = FederatedRelease(
            plan=plan, roll=roll, request=request, inbox=inbox, output_dir=output_dir
        )
        simulate(
            release_app(release_of_votes, seconds=3000),
            client_app=holder_app(holders),
            num_nodes=HOLDERS,
        )
    else:
        summed_release = SummedRelease(
            plan=plan,
            roll=roll,
            request=request,
            inbox=inbox,
            output_dir=output_dir,
            dataset="wordnet",
            real=True,
        )
        side_of_holder = HolderSum(summed_release.terms, summed_release.noise)
        simulate(
            summed_app(summed_release, seconds=3000),
            client_app=secure_holder_app(holders, own=side_of_holder),
            num_nodes=HOLDERS,
        )
    figures = {"way": arguments.way, "seconds": round(time.monotonic() - started)}
    released = arguments.folder / "release" / "release" / "release.npz"
    if arguments.way != "noise":
        files = arguments.folder / "files"
        files.mkdir()
        paths = [
            cast_votes(holders.plan(str(number)), vote_folder=files)
            for number in range(1, HOLDERS + 1)
        ]
        release(plan, vote_paths=paths, output_folder=arguments.folder / "apart")
        release_of_stages = arguments.folder / "apart" / "release" / "release.npz"
        figures["same"] = released.read_bytes() == release_of_stages.read_bytes()
    figures["answered"] = int(np.load(released)["answered"].sum())
    print(json.dumps(figures))  # noqa: T201 - the script's product


def in_rounds(folder: Path, *, secure: bool) -> dict[str, Any]:
    """Returns the time of twenty rounds over Flower, and whether the same rounds in one process give the same bytes."""
    dataset = WordNet40().load()
    aggregator = CenteredVotes(noise_multiplier=1.0)
    student = LowRankStudent()
    target_delta = 1e-6
    target_epsilon = 3.6
    rounds = RoundsOfHolders(
        plan=ReleasePlan(
            aggregator=aggregator,
            target_delta=target_delta,
            target_epsilon=target_epsilon,
            seed=SEED,
            accountant=ExactAccountant,
            student=student,
        ),
        roll=Roll.numbered(HOLDERS, teachers_each=TEACHERS, max_absent=ABSENT),
        pool=np.asarray(dataset.public.inputs, dtype=np.float32),
        record_ids=dataset.published_ids,
        label_names=dataset.label_names,
        num_queries=QUERIES,
        inbox=folder / "inbox",
        output_dir=folder / "release",
    )
    holders = WordNetHolders(folder / "holders")
    started = time.monotonic()
    app = secure_holder_app(holders, own=rounds.roll) if secure else holder_app(holders)
    simulate(rounds_app(rounds, secure=secure, seconds=3000), client_app=app, num_nodes=HOLDERS)
    seconds = round(time.monotonic() - started)
    plan = Plan(
        load_dataset=WordNet40().load,
        teacher=LinearTeacher(device="cpu"),
        num_teachers=HOLDERS * TEACHERS,
        engine=SequentialEngine(),
        num_queries=QUERIES,
        holders=HOLDERS,
        settings={"name": "wordnet"},
        aggregator=aggregator,
        target_delta=target_delta,
        target_epsilon=target_epsilon,
        seed=SEED,
        accountant=ExactAccountant,
        student=student,
    )
    with suppress(KeyboardInterrupt):  # before the student
        train(plan, folder / "train", SilentMonitor(stop_at="training the student"))
    files = [folder / name / "release" / "release.npz" for name in ("release", "train")]
    sizes = [path.stat().st_size for path in (folder / "holders" / "1").glob("*/moments-*.npz")]
    return {
        "secure": secure,
        "seconds": seconds,
        "same": files[0].read_bytes() == files[1].read_bytes(),
        "answer_bytes": max(sizes),
        "rounds": len(sizes),
    }


if __name__ == "__main__":
    main()
