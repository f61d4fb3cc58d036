"""The server's side of Flower's SecAgg+, on terms under which a sum of whole numbers comes out exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pate.federated.flower.asking import nodes_of
from pate.federated.roll import Roll
from pate.federated.summed_release import MODULUS, SumTerms
from pate.validation import InvalidValue, require

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid


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

    Args:
        grid: of the run.
        context: of the run.
        roll: who is expected.
        said: what is asked, by name.
        terms: of the sum, as every holder has them.
        seconds: for each of the protocol's four steps.
        connect_seconds: how long to wait for as many nodes as there are holders.

    Raises:
        InvalidValue: too few holders took part, one twice, or a stranger. Then there is no sum.
    """
    from flwr.server import LegacyContext, ServerConfig
    from flwr.server.workflow import SecAggPlusWorkflow

    nodes = nodes_of(grid, terms.num_holders, seconds=connect_seconds)
    require(len(nodes) == terms.num_holders, "nodes", len(nodes), f"{terms.num_holders}, one for each holder")
    strategy = _strategy(grid, nodes, said)
    legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=1), strategy=strategy)
    _prepare(legacy)
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
    _require_names(strategy.holders, roll)
    return terms.exact_sum(strategy.average, len(strategy.holders)), strategy.holders


def _strategy(grid: Grid, nodes: Iterable[int], given: Mapping[str, bytes]) -> Any:
    """What the older workflow asks: whom to ask what, and where the average goes."""
    from flwr.common import FitIns, Parameters, parameters_to_ndarrays
    from flwr.server.compat.grid_client_proxy import GridClientProxy
    from flwr.server.strategy import FedAvg

    class Summing(FedAvg):  # type: ignore[misc]  # Flower is optional, so its classes are Any
        average: NDArray[np.float64] | None = None
        holders: tuple[str, ...] = ()

        def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[Any]:
            said = FitIns(Parameters([], ""), dict(given))
            return [(GridClientProxy(node, grid, grid.run.run_id), said) for node in nodes]

        def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> tuple[None, dict[str, Any]]:
            self.holders = tuple(str(result.metrics.get("holder")) for _, result in results)
            self.average = parameters_to_ndarrays(results[0][1].parameters)[0]
            return None, {}

    return Summing()


def _prepare(legacy: Any) -> None:
    """The records in which the workflow looks for its round and for parameters."""
    from flwr.app import ArrayRecord, ConfigRecord
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key

    legacy.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    legacy.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord()


def _require_names(holders: tuple[str, ...], roll: Roll) -> None:
    strangers = [name for name in holders if name not in roll.holders]
    require(
        not strangers, "holder", "one that is not on the roll", "holders on the roll; their sum cannot be taken apart"
    )
    twice = len(set(holders)) < len(holders)
    require(not twice, "holder", "one twice", "each holder once; their sum cannot be taken apart")
