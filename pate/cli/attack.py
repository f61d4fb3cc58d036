"""pate-attack: plants canaries in a rehearsal of a release, and says which price their guesses refute."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from omegaconf import DictConfig
from rich.text import Text

from pate.attack import Attack
from pate.attack.attack import AttackResult
from pate.cli import run
from pate.cli.app import run_app
from pate.files.values import to_json_line
from pate.pricing import Budget
from pate.report.console import PlainConsole
from pate.report.tables import format_delta, round_up
from pate.validation import require_choice, rounded_down

_DIGITS = 3
_OF_THE_ATTACK = ("num_queries", "num_teachers", "num_canaries", "num_runs", "confidence", "sabotage", "seed")
_OUTPUTS = "outputs/attack"


def attack(config: DictConfig) -> None:
    """Rehearses the configured release with canaries, guesses them, and prints the bound beside the price."""
    require_choice("format", config.format, ("text", "json"))
    make, monitor = run.maker(config), run.ConsoleMonitor()
    planned = Attack(
        aggregator=make("aggregator"),
        budget=Budget(
            target_delta=config.target_delta,
            target_epsilon=config.target_epsilon,
            accountant=partial(make, "accountant"),
        ),
        **{name: config[name] for name in _OF_THE_ATTACK},
    )
    reader = run.featured(make("data"), make("features"), Path(_OUTPUTS))
    with monitor.stage("reading the data"):
        dataset = run.watched_load(reader, monitor)()
    found = planned.run(dataset, monitor)
    if config.format == "json":
        print(to_json_line(found.to_json()))  # noqa: T201 - the command's product
    else:
        _print(found)


def _print(found: AttackResult) -> None:
    console = PlainConsole(highlight=False)
    broken = "" if found.sabotage is None else f", sabotage={found.sabotage}"
    console.print(Text(f"a rehearsal of {found.aggregator}{broken}", style="bold"), soft_wrap=True)
    planted = f"{found.num_canaries} canaries, each a {found.unit}; {found.num_guesses} guessed"
    lines = (
        f"{planted}, {found.num_correct} of them rightly",
        f"printed price:  epsilon {round_up(found.epsilon, _DIGITS)} at delta {format_delta(found.delta)}",
        f"the guesses refute every price of such a release below {rounded_down(found.lower_bound, _DIGITS)},",
        f"of any mechanism below {rounded_down(found.lower_bound_any, _DIGITS)}, at {found.confidence:.0%} confidence",
    )
    for line in lines:
        console.print(line, soft_wrap=True)
    verdict, style = ("above the printed price: it is refuted", "bold red")
    if not found.refuted:
        verdict, style = ("below the printed price: nothing speaks against it, and nothing proves it", "green")
    console.print(Text(verdict, style=style), soft_wrap=True)
    note = "no ledger was charged and no release is kept; no epsilon covers these figures, keep them to yourself"
    console.print(note, style="dim", soft_wrap=True)


main = partial(run_app, attack, "attack")

if __name__ == "__main__":
    main()
