"""pate-attack: runs a release with canaries and guesses them, to test whether the guesses refute the price."""

from pate.extras import require_extra

require_extra("pate-attack", "train")


from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from pate.accounting import Budget, TruncatedNegativeBinomial
from pate.auditing.attack import Attack
from pate.cli.app import command_of
from pate.cli.monitor import ConsoleMonitor
from pate.cli.run_settings import make_dataset_loader
from pate.config.build import part_maker
from pate.report.console import print_result
from pate.validation import require_choice


def attack(config: DictConfig) -> None:
    """Runs the configured release with canaries and guesses the variant of each one, as an attacker would.

    A canary is an artificial record or teacher in one of two variants, which a fair coin chooses.
    The lower bound on epsilon that follows from the guesses is printed beside the price.
    """
    require_choice("format", config.format, ("text", "json"))
    build_part = part_maker(config)
    monitor = ConsoleMonitor()
    run_count_distribution = None
    if config.tune_runs is not None:
        run_count_distribution = TruncatedNegativeBinomial.of_mean(mean=config.tune_runs)
    planned_attack = Attack(
        aggregator=build_part("aggregator"),
        budget=Budget(
            delta=config.target_delta,
            epsilon=config.target_epsilon,
            accountant=partial(build_part, "accountant"),
        ),
        run_count=run_count_distribution,
        num_queries=config.num_queries,
        num_teachers=config.num_teachers,
        num_canaries=config.num_canaries,
        num_runs=config.num_runs,
        confidence=config.confidence,
        sabotage=config.sabotage,
        seed=config.seed,
    )
    load_dataset = make_dataset_loader(
        data_reader=build_part("data"),
        monitor=monitor,
        feature_recipe=build_part("features"),
        output_dir=Path("outputs/attack"),
    )
    with monitor.stage("reading the data"):
        dataset = load_dataset()
    attack_result = planned_attack.run(dataset, monitor)
    print_result(config.format, attack_result.to_json(), "cli/attack.txt", found=attack_result)


main = command_of(attack, command="attack")


if __name__ == "__main__":
    main()
