"""The ServerApp that asks holders round after round for sums, each against what was released before."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pate.federated.flower.asking import ask
from pate.federated.flower.messages import SUMS, question_content
from pate.federated.flower.secure_sum import secure_sum
from pate.federated.rounds.gathering import Exchange, Gathered, gathered
from pate.federated.rounds.limbs import Limbs
from pate.federated.rounds.question import OPENING, Question
from pate.federated.rounds.rounds_release import RoundsOfHolders
from pate.run.progress import Monitor

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp


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
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        made = release(context) if callable(release) else release
        if secure:
            Limbs.terms_of(made.roll, shares)  # refuses a roll that no secure sum has room for, before anybody learns
        wait = {"seconds": seconds, "connect_seconds": connect_seconds}

        def plain(question: Question) -> Gathered:
            content = question_content(question)
            return gathered(made.roll, question, ask(grid, made.roll, content, SUMS, group=question.kind, **wait))

        def masked(question: Question) -> Gathered:
            if question.kind == OPENING:
                return plain(question)
            limbs = Limbs.of(question, made.roll, shares)
            said = {"question": question.to_bytes()}
            total, holders = secure_sum(grid, context, made.roll, said, limbs.terms, **wait)
            joined = limbs.joined(total)
            question.require_possible(joined, made.roll.num_teachers)
            return Gathered(joined, holders)

        exchange: Exchange = masked if secure else plain
        made.run(exchange, monitor)

    app.main()(main)
    return app
