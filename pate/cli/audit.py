"""pate-audit: what a release of somebody's vote file would really cost."""

from __future__ import annotations

import json
import math
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pate.accounting import Accountant, Adjacency
from pate.cli.app import run_app
from pate.config import build, build_aggregator
from pate.pricing.audit import Finding, Settings, findings, printable
from pate.report.rounding import format_delta, round_up
from pate.validation import InvalidValue, require_choice, require_probability
from pate.votes.vote_files import ImportedVotes

_DIGITS = 4
_PARAMETERS = ("noise_std", "screening_std", "threshold_share", "vote_clip", "max_size")


def main() -> None:
    """The entry point."""
    run_app(audit, "audit")


def audit(config: DictConfig) -> None:
    """Reads the votes, prices every release that can be made of them, and prints the prices beside the claims."""
    require_choice("format", config.format, ("text", "json"))
    adjacency = Adjacency.parse(config.adjacency)
    if OmegaConf.is_missing(config, "votes"):
        raise InvalidValue("votes=???: expected the path of an .npy or .npz file")
    settings = _settings(config)
    votes = ImportedVotes.read(config.votes, layout=config.layout, num_teachers=config.num_teachers)
    found = findings(votes, settings)
    make = settings.accountant()
    if config.format == "json":
        print(json.dumps(_to_json(found, votes, settings, adjacency, make.name), allow_nan=False))  # noqa: T201 - the command's product
    else:
        _print(found, votes, settings, make.name)


def _settings(config: DictConfig) -> Settings:
    allowed = list(config.allowed_targets)

    def accountant() -> Accountant:
        made: Accountant = build(config.accountant, allowed_targets=allowed)
        return made

    given = config.aggregator
    return Settings(
        given=None if given is None else build_aggregator(given, adjacency=config.adjacency, allowed_targets=allowed),
        parameters={name: config[name] for name in _PARAMETERS if config[name] is not None},
        target_delta=require_probability("target_delta", config.target_delta),
        accountant=accountant,
    )


def _to_json(
    found: tuple[Finding, ...], votes: ImportedVotes, settings: Settings, adjacency: Adjacency, accountant: str
) -> dict[str, Any]:
    """The first finding at the top, all of them below."""
    first = found[0]
    num_queries, num_labels = votes.counts.shape
    return {
        "epsilon": printable(first.epsilon[adjacency]),
        "delta": settings.target_delta,
        "adjacency": str(adjacency),
        "accountant": accountant,
        "paper_epsilon": printable(first.claimed),
        "aggregator": first.name,
        "layout": votes.layout,
        "num_teachers": votes.num_teachers,
        "num_queries": num_queries,
        "num_labels": num_labels,
        "assumed": settings.assumed,
        "findings": [
            {
                "aggregator": each.name,
                "epsilon": {name: printable(value) for name, value in each.epsilon.items()},
                "paper_epsilon": printable(each.claimed),
                "claim": each.claim,
            }
            for each in found
        ],
    }


def _print(found: tuple[Finding, ...], votes: ImportedVotes, settings: Settings, accountant: str) -> None:
    console = Console()
    num_queries, num_labels = votes.counts.shape
    what = f"{votes.layout}: {votes.num_teachers} teachers, {num_queries} queries, {num_labels} labels"
    console.print(Text(what, style="bold"), soft_wrap=True)
    if votes.max_votes is not None and votes.layout == "teacher_votes":
        console.print(f"a teacher votes for up to {votes.max_votes} labels of a query", style="dim")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("release", no_wrap=True)
    for name in (*Adjacency, "claimed elsewhere"):
        table.add_column(str(name), justify="right")
    table.add_column("the claim, not a bound", style="dim")
    for each in found:
        bounds = [_epsilon(each.epsilon[name]) for name in Adjacency]
        claimed = "-" if each.claimed is None else f"{each.claimed:.2f}"
        table.add_row(each.name, *bounds, Text(claimed, style="yellow"), each.claim)
    console.print(table)
    given = ", ".join(f"{name}={value}" for name, value in settings.parameters.items())
    ending = f", for {given}" if given else ""
    bound = f"epsilon at delta = {format_delta(settings.target_delta)} by {accountant}, rounded up{ending}"
    console.print(bound, style="dim", soft_wrap=True)
    if assumed := ", ".join(f"{name}={value:g}" for name, value in settings.assumed.items()):
        console.print(f"assumed where a release has it, as nothing was said: {assumed}", style="yellow", soft_wrap=True)


def _epsilon(epsilon: float) -> str:
    return round_up(epsilon, _DIGITS) if math.isfinite(epsilon) else "infinite"


if __name__ == "__main__":
    main()
