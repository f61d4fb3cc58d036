"""Flower apps of a holder: plain, and as part of a secure sum."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MessageType
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, RECORD_KEY_STATE, Key, Stage
from flwr.compat.common import recorddict_compat as compat
from numpy.typing import NDArray

from pate.federated.flower.messages import ACTION, SUMS, bytes_of, content, holder_name
from pate.federated.gathering import SumAnswer
from pate.federated.holder import answer, answer_question, votes_path
from pate.federated.question import KINDS, OPENING, Question, Request
from pate.federated.roll import Roll
from pate.federated.secure_sum import MODULUS, Limbs, SumTerms
from pate.federated.summed_release import HolderSum, first_note
from pate.run.stages.holder import HolderPlan
from pate.validation import InvalidValue, require

Plans = Callable[[str], tuple[HolderPlan, Path]]
"""From a holder's name its plan and its own folder, of mode 0700."""

Said = Mapping[str, Any]
"""What the server says of a stage."""

_RECORD = "pate"
_SHOWN = 40


def holder_app(plans: Plans) -> ClientApp:
    """An app that answers requests for votes, and questions of rounds with sums over a holder's teachers.

    What fails at the holder is said without a word of its records, files or settings: of an exception the class alone.
    The holder's own log has the rest.

    Args:
        plans: what the holder teaches with. Nothing of it comes from the server: a request says what is asked and in
            which form, and no more.
    """

    def votes(message: Message, plan: HolderPlan, folder: Path) -> bytes:
        return answer(plan, Request.from_bytes(bytes_of(message, "request")), folder)

    app = ClientApp()
    _answer(app, ACTION, plans, votes)
    _answer_sums(app, plans, KINDS)
    return app


def _answer_sums(app: ClientApp, plans: Plans, kinds: Collection[str]) -> None:
    """Has an app answer questions of rounds, of these kinds, so that the server sees the holder's own sum."""

    def sums(message: Message, plan: HolderPlan, folder: Path) -> bytes:
        question = Question.from_bytes(bytes_of(message, "question"))
        require(question.kind in kinds, "question.kind", question.kind, "one that is answered in a secure sum alone")
        return answer_question(plan, question, folder)

    _answer(app, SUMS, plans, sums)


def _answer(app: ClientApp, kind: str, plans: Plans, make: Callable[[Message, HolderPlan, Path], bytes]) -> None:
    """Replies with what is made, or with the class of what failed: words of an exception may hold anything."""

    def reply(message: Message, context: Context) -> Message:
        name = holder_name(context)
        said: dict[str, str | bytes] = {"holder": name}
        try:
            said["votes"] = make(message, *plans(name))
        except Exception as error:
            logging.getLogger(__name__).exception("holder=%s: no answer", name)
            said["problem"] = f"its app failed ({type(error).__name__})"
        return Message(content(**said), reply_to=message)

    app.query(kind.split(".")[1])(reply)


def secure_holder_app(plans: Plans, own: HolderSum | Roll, *, shares: int | None = None) -> ClientApp:
    """An app that takes part in a secure sum for each request, or for each question of rounds.

    Flower's masks are those of `flwr.client.mod.secaggplus_mod` (the older workflow; the message API has none). The
    four stages of a sum are answered, on the terms that were agreed, where a message has what its stage has and nothing
    else. Any other message is refused, whatever Flower would do with it; of rounds, the opening is answered too.

    Formal guarantee: numbers leave this app in a masked vector alone. Each key masks one vector. The sum of a question
    is opened over one set of holders, of at least `SumTerms.threshold` among those that share their keys. What a server
    can do that invents keys, or asks holders unequal questions, is in docs/threat-model.md.

    Args:
        plans: what the holder teaches with.
        own: the terms, and the share of the noise; of rounds the roll, which says the terms.
        shares: of rounds, see `SumTerms.shares`.
    """
    terms = Limbs.terms_of(own, shares) if isinstance(own, Roll) else own.terms
    app = ClientApp()
    if isinstance(own, Roll):
        _answer_sums(app, plans, {OPENING})

    def stage(message: Message, context: Context) -> Message:
        return _answered(plans, own, terms, message, context)

    app.train()(stage)  # which Flower calls for `train` and for `train.default`; its mod masks the first alone
    return app


def _answered(plans: Plans, own: HolderSum | Roll, terms: SumTerms, message: Message, context: Context) -> Message:
    """The answer to a stage of a sum; in the log of the holder why there is none."""
    stage = require_stage(terms, message, context.node_id)
    name, state = holder_name(context), context.state.config_records

    def added(message: Message, context: Context) -> Message:
        """Flower's mod calls this in one stage, and masks what is in the reply."""
        require(stage == Stage.COLLECT_MASKED_VECTORS, "stage", stage, "the one that masks")
        numbers, asked = _numbers(plans, own, name, message)
        state[_RECORD] = ConfigRecord({"asked": asked})
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([numbers]), 1, {"holder": name})
        return Message(compat.fitres_to_recorddict(result, keep_input=False), reply_to=message)

    try:
        answer: Message = secaggplus_mod(message, context, added)
        said = answer.content.config_records[RECORD_KEY_CONFIGS]
        bare = any(len(arrays) for arrays in answer.content.array_records.values())
        masked = stage == Stage.COLLECT_MASKED_VECTORS
        expected = (Key.MASKED_PARAMETERS in said) == masked and not bare
        require(expected, "answer", "numbers without masks", "numbers under masks, in their stage alone")
        if masked:  # of two vectors under one mask the difference has none
            key = sha256(bytes(state[RECORD_KEY_STATE]["pk1"])).hexdigest()
            new = first_note(plans(name)[1] / f"masked-{key}", "") is None
            require(new, "keys", "used", "keys that masked nothing yet")
        if stage == Stage.UNMASK:  # opened over other holders, the difference would be theirs alone
            active = repr(sorted(message.content.config_records[RECORD_KEY_CONFIGS][Key.ACTIVE_NODE_ID_LIST]))
            earlier = first_note(plans(name)[1] / f"opened-{state[_RECORD]['asked']}", active)
            rule = "those over which this question was opened"
            require(earlier in (None, active), "holders in the sum", "others", rule)
    except Exception as error:  # its words may hold anything
        logging.getLogger(__name__).exception("holder=%s: no part in the sum", name)
        raise InvalidValue(f"holder={name}: its app failed ({type(error).__name__})") from None
    return answer


def require_stage(terms: SumTerms, message: Message, node: int) -> str:
    """The stage that a message is for; raises unless it is one of a sum on these terms, with all of it and no more."""
    kind, to = message.metadata.message_type, message.metadata.dst_node_id
    require(kind == MessageType.TRAIN, "message_type", repr(kind), "train, the one that Flower masks")
    require(to == node, "dst_node_id", to, "that of this node")
    said = dict(message.content.config_records.get(RECORD_KEY_CONFIGS, {}))
    stage = said.pop(Key.STAGE, None)
    rule = f"one of {', '.join(Stage.all())}"
    require(isinstance(stage, str) and stage in Stage.all(), "stage", repr(stage), rule)
    question = {"fitins.parameters", "fitins.config"} if stage == Stage.COLLECT_MASKED_VECTORS else set()
    require(set(message.content) == {RECORD_KEY_CONFIGS} | question, "records", "others", f"those of {stage}")
    if stage == Stage.SETUP:
        _require_agreed(terms, said)
    elif stage == Stage.SHARE_KEYS:
        plain = all(name.isascii() and name.isdigit() and str(int(name)) == name for name in said) and str(node) in said
        require(plain, "holders that share keys", "others", "this one and others, each by its number")
        _require_enough(terms, "holders that share keys", len(said))
    elif stage == Stage.COLLECT_MASKED_VECTORS:
        _require_names(said, {Key.CIPHERTEXT_LIST, Key.SOURCE_LIST})
        masks = 1 + len(_nodes(said[Key.SOURCE_LIST], without=node))
        _require_enough(terms, "holders that masks are shared with", masks)
    else:  # over enough holders, each of the others in it or absent: whose two secrets are told has no mask left
        _require_names(said, {Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST})
        active, dead = (said[name] for name in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST))
        require(isinstance(active, list) and node in active, "active_nids", "others", "this holder among them")
        _require_enough(terms, "holders in the sum", len(_nodes(active)))
        _nodes([*active, *dead])
    return str(stage)


def _require_agreed(terms: SumTerms, said: Said) -> None:
    """Raises where the server sets a sum up on other terms."""
    wanted = {
        Key.SAMPLE_NUMBER: terms.num_holders,
        Key.SHARE_NUMBER: terms.num_shares,
        Key.THRESHOLD: terms.threshold,
        Key.CLIPPING_RANGE: float(terms.most),
        Key.TARGET_RANGE: 2 * terms.most,
        Key.MOD_RANGE: MODULUS,
        Key.MAX_WEIGHT: 1.0,
    }
    _require_names(said, wanted)
    for name, value in wanted.items():
        same = type(said[name]) is type(value) and said[name] == value
        require(same, str(name), repr(said[name])[:_SHOWN], f"{value}, as was agreed")


def _require_names(said: Said, wanted: Collection[str]) -> None:
    require(set(said) == set(wanted), "configuration", "others", f"{', '.join(wanted)}, and nothing else")


def _require_enough(terms: SumTerms, name: str, count: int) -> None:
    require(terms.threshold <= count <= terms.num_shares, name, count, f"{terms.threshold} to {terms.num_shares}")


def _nodes(given: Any, without: int | None = None) -> list[int]:
    """Numbers of nodes, each once."""
    good = isinstance(given, list) and all(type(node) is int and node != without for node in given)
    require(good and len(set(given)) == len(given), "nodes", "others", "a list of different holders")
    return list(given)


def _numbers(plans: Plans, own: HolderSum | Roll, name: str, message: Message) -> tuple[NDArray[np.float64], str]:
    """What this holder adds, and the digest of what was asked."""
    said = compat.recorddict_to_fitins(message.content, keep_input=True).config
    kind = "question" if isinstance(own, Roll) else "request"
    require(set(said) == {kind} and isinstance(said[kind], bytes), "configuration", "others", f"a {kind} alone")
    plan, folder = plans(name)
    if isinstance(own, Roll):
        question = Question.from_bytes(said[kind])
        limbs = Limbs.of(question, own)
        total = SumAnswer.from_bytes(answer_question(plan, question, folder), question).total
        return limbs.terms.require_sendable(limbs.split(total)), question.digest
    request = Request.from_bytes(said[kind])
    answer(plan, request, folder)
    return own.numbers(plan, request, votes_path(request, folder), folder), request.digest
