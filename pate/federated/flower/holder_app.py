"""The ClientApp of a holder: a request comes in, votes go out, records stay."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pate.federated.answer import answer
from pate.federated.contribution import Contribution
from pate.federated.flower.messages import ACTION, answer_content, holder_name, request_of
from pate.federated.request import Request
from pate.run.stages.holder import HolderPlan
from pate.validation import InvalidValue

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

Plans = Callable[[str], tuple[HolderPlan, Path]]
"""From a holder's name its plan and its own folder, of mode 0700."""


def holder_app(plans: Plans) -> ClientApp:
    """An app that answers each request with the votes of a holder's teachers.

    What fails at the holder is said without a word of its records, files or settings: of an exception the class alone.
    The holder's own log has the rest.

    Args:
        plans: what the holder teaches with. Nothing of it comes from the server: a request says what is asked and in
            which form, and no more.
    """
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    app = ClientApp()
    _, action = ACTION.split(".")

    def votes(message: Message, context: Context) -> Message:
        return Message(answer_content(_answered(plans, message, context)), reply_to=message)

    app.query(action)(votes)
    return app


def _answered(plans: Plans, message: Message, context: Context) -> Contribution:
    name = holder_name(context)
    try:
        request: Request = request_of(message)
    except InvalidValue as error:
        return Contribution(name, problem=str(error))
    try:
        plan, folder = plans(name)
        return Contribution(name, answer(plan, request, folder))
    except Exception as error:  # its words may hold anything
        logging.getLogger(__name__).exception("holder=%s: no votes", name)
        return Contribution(name, problem=f"its app failed ({type(error).__name__})")
