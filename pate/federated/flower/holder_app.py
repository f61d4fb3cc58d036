"""The ClientApp of a holder: a request comes in, votes go out, records stay."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from pate.federated.answer import answer
from pate.federated.contribution import Contribution
from pate.federated.flower.messages import ACTION, SUMS, answer_content, holder_name, question_of, request_of
from pate.federated.request import Request
from pate.federated.rounds.holder import answer_question
from pate.federated.rounds.question import KINDS, Question
from pate.run.stages.holder import HolderPlan
from pate.validation import require

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

Plans = Callable[[str], tuple[HolderPlan, Path]]
"""From a holder's name its plan and its own folder, of mode 0700."""


def holder_app(plans: Plans) -> ClientApp:
    """An app that answers requests for votes, and questions of rounds with sums over a holder's teachers.

    What fails at the holder is said without a word of its records, files or settings: of an exception the class alone.
    The holder's own log has the rest.

    Args:
        plans: what the holder teaches with. Nothing of it comes from the server: a request says what is asked and in
            which form, and no more.
    """
    from flwr.clientapp import ClientApp

    app = ClientApp()
    answers_votes(app, plans)
    answers_sums(app, plans, KINDS)
    return app


def answers_votes(app: ClientApp, plans: Plans) -> None:
    """Has an app answer requests for votes."""

    def votes(message: Message, context: Context) -> Message:
        return _replied(message, context, lambda name: _votes(plans, name, request_of(message)))

    app.query(ACTION.split(".")[1])(votes)


def answers_sums(app: ClientApp, plans: Plans, kinds: Collection[str]) -> None:
    """Has an app answer questions of rounds, of these kinds, so that the server sees the holder's own sum."""

    def sums(message: Message, context: Context) -> Message:
        return _replied(message, context, lambda name: _sum(plans, name, question_of(message), kinds))

    app.query(SUMS.split(".")[1])(sums)


def _votes(plans: Plans, name: str, request: Request) -> bytes:
    plan, folder = plans(name)
    return answer(plan, request, folder)


def _sum(plans: Plans, name: str, question: Question, kinds: Collection[str]) -> bytes:
    require(question.kind in kinds, "question.kind", question.kind, "one that is answered in a secure sum alone")
    plan, folder = plans(name)
    return answer_question(plan, question, folder)


def _replied(message: Message, context: Context, make: Callable[[str], bytes]) -> Message:
    """The reply with what is made, or with the class of what failed: words of an exception may hold anything."""
    from flwr.app import Message

    name = holder_name(context)
    try:
        made = Contribution(name, make(name))
    except Exception as error:
        logging.getLogger(__name__).exception("holder=%s: no answer", name)
        made = Contribution(name, problem=f"its app failed ({type(error).__name__})")
    return Message(answer_content(made), reply_to=message)
