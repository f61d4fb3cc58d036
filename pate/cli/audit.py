"""pate-audit: what a release of somebody's vote file would really cost."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import partial

from omegaconf import DictConfig, OmegaConf
from rich import box
from rich.table import Column, Table
from rich.text import Text

from pate.accounting import Adjacency
from pate.cli.app import run_app
from pate.config import build, build_aggregator
from pate.files.values import to_json_line
from pate.pricing.audit import ReleaseParameters, VoteAudit, audit_votes
from pate.report.console import PlainConsole
from pate.report.tables import format_claim, format_delta, round_up
from pate.validation import InvalidValue, require_choice, require_probability
from pate.votes.foreign import ImportedVotes

_DIGITS = 4


def audit(config: DictConfig) -> None:
    """Reads the votes, prices every release that can be made of them, and prints the prices beside the claims."""
    require_choice("format", config.format, ("text", "json"))
    adjacency = Adjacency.parse(config.adjacency)
    if OmegaConf.is_missing(config, "votes"):
        raise InvalidValue("votes=???: expected the path of an .npy, .npz or .csv file")
    require_probability("target_delta", config.target_delta)
    parameters = ReleaseParameters(**{item.name: config[item.name] for item in fields(ReleaseParameters)})
    allowed = list(config.allowed_targets)
    given = config.aggregator
    if given is not None:
        given = build_aggregator(given, adjacency=adjacency, allowed_targets=allowed)
    votes = ImportedVotes.read(config.votes, layout=config.layout, num_teachers=config.num_teachers)
    audited = audit_votes(
        votes,
        target_delta=config.target_delta,
        parameters=parameters,
        aggregator=given,
        accountant=partial(build, config.accountant, "accountant", allowed_targets=allowed),
        given_only=True,
        data_dependent=config.data_dependent,
    )
    if config.format == "json":
        print(to_json_line(audited.to_json(adjacency)))  # noqa: T201 - the command's product
    else:
        _print(audited, votes)


def _print(audited: VoteAudit, votes: ImportedVotes) -> None:
    console, shape = PlainConsole(), audited.shape
    what = f"{votes.layout}: {shape.num_teachers} teachers, {shape.num_queries} queries, {shape.num_labels} labels"
    console.print(Text(what, style="bold"), soft_wrap=True)
    if votes.max_votes is not None and votes.layout == "teacher_votes":
        console.print(f"a teacher votes for up to {votes.max_votes} labels of a query", style="dim")
    first = Column("release", no_wrap=True), "noise, and what else it is for"
    prices = (Column(str(name), justify="right") for name in (*Adjacency, "claimed elsewhere"))
    last = Column("the claim, not a bound", style="dim")
    table = Table(*first, *prices, last, box=box.SIMPLE_HEAD, show_edge=False)
    for each in audited.findings:
        bounds = [_epsilon(each.epsilon[name]) for name in Adjacency]
        claimed = "-" if each.paper_epsilon is None else format_claim(each.paper_epsilon)
        parameters = [
            Text(f"{name} {value:g} (assumed)", "yellow") if name in each.assumed else Text(f"{name} {value:g} (given)")
            for name, value in each.parameters.items()
        ]
        table.add_row(each.aggregator, Text("\n").join(parameters), *bounds, Text(claimed, "yellow"), each.claim)
    console.print(table)
    bound = f"epsilon at delta = {format_delta(audited.target_delta)} by {audited.accountant}, rounded up"
    console.print(bound, style="dim", soft_wrap=True)
    for each in audited.findings:
        if each.data_dependent is not None:
            line = f"{each.aggregator}: epsilon {each.data_dependent}; every query is taken for answered"
            console.print(line, style="yellow", soft_wrap=True)
    if any(each.assumed for each in audited.findings):
        line = "a price for noise that is assumed is no bound for yours: say what the release was made with"
        console.print(line, style="yellow", soft_wrap=True)
    if unknown := ", ".join(f"{name}=" for name in audited.parameters.assumed):
        console.print(f"releases with other parameters are priced once these are given: {unknown}", soft_wrap=True)


def _epsilon(epsilon: float) -> str:
    if epsilon == 0:
        return "0"
    return round_up(epsilon, _DIGITS) if math.isfinite(epsilon) else "infinite"


main = partial(run_app, audit, "audit")

if __name__ == "__main__":
    main()
