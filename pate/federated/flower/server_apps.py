"""The ServerApps of the aggregator: all votes, one secure sum, or sums round after round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.common import FitIns, Parameters, parameters_to_ndarrays
from flwr.server import LegacyContext, ServerConfig
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.serverapp import Grid, ServerApp
from numpy.typing import NDArray

from pate.federated.collection import FederatedRelease
from pate.federated.flower.messages import ACTION, SUMS, ask, content, nodes_of
from pate.federated.gathering import Gathered, gathered
from pate.federated.question import OPENING, Question
from pate.federated.roll import Roll
from pate.federated.rounds_release import RoundsOfHolders
from pate.federated.secure_sum import MODULUS, Limbs, SumTerms
from pate.federated.summed_release import SummedRelease
from pate.run.progress import Monitor
from pate.validation import InvalidValue, require


class _Summing(FedAvg):  # type: ignore[misc]  # Flower is optional, so its classes are Any
    """Asks the same of all nodes, and keeps the average and the names in it."""

    average: NDArray[np.float64] | None = None
    holders: tuple[str, ...] = ()

    def __init__(self, grid: Grid, nodes: list[int], said: Mapping[str, bytes]) -> None:
        super().__init__()
        self.asked = [(GridClientProxy(node, grid, grid.run.run_id), dict(said)) for node in nodes]

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[Any]:
        return [(proxy, FitIns(Parameters([], ""), said)) for proxy, said in self.asked]

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> tuple[None, dict[str, Any]]:
        self.holders = tuple(str(result.metrics.get("holder")) for _, result in results)
        self.average = parameters_to_ndarrays(results[0][1].parameters)[0]
        return None, {}


def secure_sum(
    grid: Grid,
    context: Context,
    roll: Roll,
    said: Mapping[str, bytes],
    terms: SumTerms,
    *,
    seconds: float,
    connect_seconds: float,
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The sum of what holders send, of its shape, and who is in it; no holder's own numbers are seen.

    What is asked is `said`, by name. Holders have `seconds` for each of the protocol's four steps. Raises
    `InvalidValue` where too few took part, one twice, or a stranger: then there is no sum.
    """
    nodes = nodes_of(grid, terms.num_holders, seconds=connect_seconds)
    require(len(nodes) == terms.num_holders, "nodes", len(nodes), f"{terms.num_holders}, one for each holder")
    strategy = _Summing(grid, nodes, said)
    legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=1), strategy=strategy)
    legacy.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    legacy.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord()
    workflow = SecAggPlusWorkflow(
        terms.num_shares,
        terms.threshold,
        max_weight=1.0,
        clipping_range=float(terms.most),
        quantization_range=2 * terms.most,
        modulus_range=MODULUS,
        timeout=seconds,
    )
    workflow(grid, legacy)
    if strategy.average is None:
        raise InvalidValue(f"holders present: expected at least {terms.least}; with fewer no sum can be opened")
    holders, apart = strategy.holders, "their sum cannot be taken apart"
    known = set(holders) <= roll.holders.keys()
    require(known, "holder", "one that is not on the roll", f"holders on the roll; {apart}")
    require(len(set(holders)) == len(holders), "holder", "one twice", f"each holder once; {apart}")
    return terms.exact_sum(strategy.average, len(holders)), holders


Release = TypeVar("Release", FederatedRelease, SummedRelease, RoundsOfHolders)


def _app(
    release: Release | Callable[[Context], Release], serve: Callable[[Grid, Context, Release], object]
) -> ServerApp:
    """An app that serves a release, or the one that a function makes from the run's configuration."""
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        serve(grid, context, release(context) if callable(release) else release)

    app.main()(main)
    return app


def release_app(
    release: FederatedRelease | Callable[[Context], FederatedRelease],
    *,
    seconds: float = 3600.0,
    connect_seconds: float = 60.0,
    monitor: Monitor | None = None,
) -> ServerApp:
    """An app that collects the votes of all holders once and releases them, at one charge.

    Args:
        release: what is asked and released, or a function that makes it from the run's configuration.
        seconds: how long holders have for their answer. Whoever is later is absent.
        connect_seconds: how long to wait for as many nodes as there are holders.
        monitor: told of progress, and who was refused.
    """
    wait = {"seconds": seconds, "connect_seconds": connect_seconds}

    def serve(grid: Grid, _: Context, made: FederatedRelease) -> None:
        asked = content(request=made.request.to_bytes())
        made.run(lambda: ask(grid, made.roll, asked, ACTION, group="votes", **wait), monitor)

    return _app(release, serve)


def summed_app(
    release: SummedRelease | Callable[[Context], SummedRelease],
    *,
    seconds: float = 3600.0,
    connect_seconds: float = 60.0,
    monitor: Monitor | None = None,
) -> ServerApp:
    """An app that has a secure sum made once and releases it, at one charge; otherwise as `release_app`.

    Holders have `seconds` for each of the protocol's four steps; training is in the third.
    """
    wait = {"seconds": seconds, "connect_seconds": connect_seconds}

    def serve(grid: Grid, context: Context, made: SummedRelease) -> None:
        said = {"request": made.request.to_bytes()}
        made.run(lambda: secure_sum(grid, context, made.roll, said, made.terms, **wait), monitor)

    return _app(release, serve)


def rounds_app(
    release: RoundsOfHolders | Callable[[Context], RoundsOfHolders],
    *,
    secure: bool = False,
    shares: int | None = None,
    seconds: float = 3600.0,
    connect_seconds: float = 60.0,
    monitor: Monitor | None = None,
) -> ServerApp:
    """An app that releases centered votes in rounds; a server that is started again goes on with the next round.

    Args:
        release: what is asked and released, or a function that makes it from the run's configuration.
        secure: whether sums are added up by SecAgg+, so that the server sees no holder's own; holders run
            `secure_holder_app` then.
        shares: of secure sums, see `SumTerms.shares`.
        seconds: how long holders have for one answer, and for each of the four steps of a secure sum.
        connect_seconds: how long to wait for as many nodes as there are holders.
        monitor: told of progress, and who was absent in which round.
    """
    wait = {"seconds": seconds, "connect_seconds": connect_seconds}

    def serve(grid: Grid, context: Context, made: RoundsOfHolders) -> None:
        if secure:
            Limbs.terms_of(made.roll, shares)  # refuses a roll that no secure sum has room for, before anybody learns

        def plain(question: Question) -> Gathered:
            asked = content(question=question.to_bytes())
            return gathered(made.roll, question, ask(grid, made.roll, asked, SUMS, group=question.kind, **wait))

        def masked(question: Question) -> Gathered:
            if question.kind == OPENING:
                return plain(question)
            limbs = Limbs.of(question, made.roll, shares)
            said = {"question": question.to_bytes()}
            total, holders = secure_sum(grid, context, made.roll, said, limbs.terms, **wait)
            joined = limbs.joined(total)
            question.require_possible(joined, made.roll.num_teachers)
            return Gathered(joined, holders)

        made.run(masked if secure else plain, monitor)

    return _app(release, serve)
