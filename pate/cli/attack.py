"""pate-attack: plants canaries in a rehearsal of a release, and says which price their guesses refute."""

from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from pate.attack import Attack
from pate.cli import run
from pate.cli.app import run_app
from pate.pricing import Budget
from pate.report.console import print_found
from pate.validation import require_choice

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
    with monitor.stage("reading the data"):
        dataset = run.watched_load(make("data"), monitor, make("features"), Path(_OUTPUTS))()
    found = planned.run(dataset, monitor)
    print_found(config.format, found.to_json(), "cli/attack.txt", found=found)


main = partial(run_app, attack, "attack")

if __name__ == "__main__":
    main()
