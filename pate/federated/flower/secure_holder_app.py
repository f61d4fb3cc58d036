"""The ClientApp of a holder whose numbers are only ever added up with those of others, by Flower's SecAgg+."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pate.federated.answer import answer, votes_path
from pate.federated.flower.holder_app import Plans, answers_sums
from pate.federated.flower.messages import holder_name
from pate.federated.holder_sum import HolderSum
from pate.federated.request import Request
from pate.federated.roll import Roll
from pate.federated.rounds.holder import answer_question
from pate.federated.rounds.limbs import Limbs
from pate.federated.rounds.question import OPENING, Question
from pate.federated.rounds.sum_answer import SumAnswer
from pate.federated.sum_terms import MODULUS, SumTerms
from pate.validation import InvalidValue, require

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp


def secure_holder_app(plans: Plans, own: HolderSum | Roll, *, shares: int | None = None) -> ClientApp:
    """An app that takes part in a secure sum for each request, or for each question of rounds.

    Flower's masks are those of `flwr.client.mod.secaggplus_mod` (the older workflow; the message API has none). Before
    them stands a check that the server keeps to the terms that were agreed: with a lower threshold, or another range,
    this holder takes no part.

    Args:
        plans: what the holder teaches with.
        own: the terms, and the share of the noise; of rounds the roll, which says the terms.
        shares: of rounds, see `SumTerms.shares`.
    """
    from flwr.client.mod import secaggplus_mod
    from flwr.clientapp import ClientApp

    terms = Limbs.terms_of(own, shares) if isinstance(own, Roll) else own.terms

    def agreed(message: Message, context: Context, call_next: Any) -> Message:
        _require_agreed(terms, message)
        answered: Message = call_next(message, context)
        return answered

    app = ClientApp(mods=[agreed, secaggplus_mod])
    if isinstance(own, Roll):
        answers_sums(app, plans, {OPENING})

    def masked(message: Message, context: Context) -> Message:
        return _masked(plans, own, message, context)

    app.train()(masked)
    return app


def _require_agreed(terms: SumTerms, message: Message) -> None:
    """Raises where the server sets a sum up on other terms."""
    from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

    said = message.content.config_records.get(RECORD_KEY_CONFIGS)
    if said is None or said.get(Key.STAGE) != Stage.SETUP:
        return
    wanted = {
        Key.SAMPLE_NUMBER: terms.num_holders,
        Key.SHARE_NUMBER: terms.num_shares,
        Key.THRESHOLD: terms.threshold,
        Key.CLIPPING_RANGE: float(terms.most),
        Key.TARGET_RANGE: 2 * terms.most,
        Key.MOD_RANGE: MODULUS,
        Key.MAX_WEIGHT: 1.0,
    }
    for name, value in wanted.items():
        require(said.get(name) == value, str(name), said.get(name), f"{value}, as was agreed")


def _masked(plans: Plans, own: HolderSum | Roll, message: Message, context: Context) -> Message:
    """What this holder adds, before it is masked; in the log of the holder why there is none."""
    from flwr.app import Message
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
    from flwr.compat.common import recorddict_compat as compat

    name = holder_name(context)
    try:
        config = compat.recorddict_to_fitins(message.content, keep_input=True).config
        if isinstance(own, Roll):
            numbers = _digits(plans, own, name, Question.from_bytes(bytes(config["question"])))
        else:
            numbers = _counts(plans, own, name, Request.from_bytes(bytes(config["request"])))
    except Exception as error:  # its words may hold anything
        logging.getLogger(__name__).exception("holder=%s: no part in the sum", name)
        raise InvalidValue(f"holder={name}: its app failed ({type(error).__name__})") from None
    result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([numbers]), 1, {"holder": name})
    return Message(compat.fitres_to_recorddict(result, keep_input=False), reply_to=message)


def _counts(plans: Plans, own: HolderSum, name: str, request: Request) -> NDArray[np.float64]:
    plan, folder = plans(name)
    answer(plan, request, folder)
    return own.numbers(plan, request, votes_path(request, folder), folder)


def _digits(plans: Plans, roll: Roll, name: str, question: Question) -> NDArray[np.float64]:
    plan, folder = plans(name)
    limbs = Limbs.of(question, roll)
    total = SumAnswer.from_bytes(answer_question(plan, question, folder), question).total
    return limbs.terms.require_sendable(limbs.split(total))
