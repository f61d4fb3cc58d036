"""How long Flower's simulation takes for many holders: `python -m federated_benchmarks.scale --holders 400 FOLDER`."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.flower_simulation import simulate
from pate.aggregators import GaussianVotes
from pate.data import Dataset, Split
from pate.models import LinearTeacher, SequentialEngine
from pate.run.votes_release import ReleasePlan
from pate_federated import Request, Roll
from pate_federated.collection import FederatedRelease
from pate_federated.distributed_votes import DistributedVotes
from pate_federated.flower import holder_app, release_app, secure_holder_app, summed_app
from pate_federated.holder_sum import HolderSum
from pate_federated.summed_release import SummedRelease
from pate_federated.vote_casting import HolderPlan

LABELS = 40
RECORDS = 50


def dataset(seed: int, queries: int) -> Dataset:
    """Returns a made-up data set, for a holder's private records or for the public samples of all holders."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((RECORDS + queries + 1, 16)).astype(np.float32)
    labels = inputs @ np.random.default_rng(0).standard_normal((16, LABELS)) > 0.5
    ids = np.arange(len(inputs))

    def split(rows: slice) -> Split:
        return Split(inputs[rows], labels[rows], ids[rows], ids[rows])

    private, public, test = (
        split(slice(*ends)) for ends in ((0, RECORDS), (RECORDS, -1), (-1, None))
    )
    names = tuple(f"label_{number}" for number in range(LABELS))
    return Dataset(
        name="scale",
        real=False,
        kind="features",
        label_names=names,
        private=private,
        public=public,
        test=test,
    )


@dataclass(frozen=True)
class Holders:
    """A function that returns the plan of each holder, which has one teacher."""

    folder: Path
    queries: int

    def __call__(self, name: str) -> tuple[HolderPlan, Path]:
        side_of_holder = self.folder / name
        side_of_holder.mkdir(mode=0o700, parents=True, exist_ok=True)
        plan = HolderPlan(
            load_dataset=lambda: dataset(int(name), self.queries),
            teacher=LinearTeacher(device="cpu"),
            num_teachers=1,
            engine=SequentialEngine(),
            holder=name,
            settings={"holder": name},
        )
        return plan, side_of_holder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--holders", type=int, default=400)
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--way", choices=("votes", "sum", "noise"), default="votes")
    parser.add_argument("--shares", type=int, default=None)
    arguments = parser.parse_args()
    absent = max(1, arguments.holders // 10)
    roll = Roll.numbered(arguments.holders, teachers_each=1, max_absent=absent)
    public = dataset(seed=0, queries=arguments.queries)
    request = Request(
        inputs=public.public.inputs,
        record_ids=np.arange(arguments.queries),
        label_names=public.label_names,
    )
    noise = DistributedVotes(noise_std=20.0, num_holders=arguments.holders, max_dropouts=absent)
    aggregator = noise if arguments.way == "noise" else GaussianVotes(noise_std=20.0)
    plan = ReleasePlan(aggregator=aggregator, target_delta=1e-6, allow_useless=True, seed=1)
    inbox = arguments.folder / "inbox"
    output_dir = arguments.folder / "release"
    arguments.folder.mkdir(parents=True)
    plans = Holders(arguments.folder / "holders", arguments.queries)
    started = time.monotonic()
    if arguments.way == "votes":
        release_of_votes = FederatedRelease(
            plan=plan, roll=roll, request=request, inbox=inbox, output_dir=output_dir
        )
        simulate(
            release_app(release_of_votes, seconds=3000),
            client_app=holder_app(plans),
            num_nodes=arguments.holders,
        )
    else:
        release = SummedRelease(
            plan=plan,
            roll=roll,
            request=request,
            inbox=inbox,
            output_dir=output_dir,
            dataset="scale",
            real=False,
            shares=arguments.shares,
        )
        side_of_holder = HolderSum(release.terms, release.noise)
        simulate(
            summed_app(release, seconds=3000),
            client_app=secure_holder_app(plans, own=side_of_holder),
            num_nodes=arguments.holders,
        )
    sizes = [path.stat().st_size for path in (arguments.folder / "holders").glob("*/*/votes.npz")]
    figures = {
        "way": arguments.way,
        "holders": arguments.holders,
        "queries": arguments.queries,
        "seconds": round(time.monotonic() - started),
        "request_bytes": len(request.to_bytes()),
        "vote_bytes": int(np.mean(sizes)),
        "released": (output_dir / "manifest.json").exists(),
    }
    print(json.dumps(figures))  # noqa: T201 - the script's product


if __name__ == "__main__":
    main()
