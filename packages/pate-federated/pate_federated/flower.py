"""Apps for Flower (extra `flower`): ClientApps for holders, ServerApps for the aggregator, and their messages."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from pate.errors import InvalidValue, MissingPackage
from pate.validation import require

if find_spec("flwr") is None:
    _rule = "the package flwr: pip install 'pate-federated[flower]'"
    raise MissingPackage(__name__, rule=_rule)

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import (
    Code,
    FitIns,
    FitRes,
    Parameters,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.common.secure_aggregation.secaggplus_constants import (
    RECORD_KEY_CONFIGS,
    RECORD_KEY_STATE,
    Key,
    Stage,
)
from flwr.compat.common import recorddict_compat as compat
from flwr.server import LegacyContext, ServerConfig
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.serverapp import Grid, ServerApp
from numpy.typing import NDArray

from pate.progress import Monitor
from pate_federated.collection import FederatedRelease
from pate_federated.holder import answer, answer_question, votes_path
from pate_federated.question import KINDS, OPENING, Contribution, Question, Request, Roll, SumAnswer
from pate_federated.summed_release import (
    MODULUS,
    Gathered,
    HolderSum,
    Limbs,
    RoundsOfHolders,
    SummedRelease,
    SumTerms,
    first_note,
    gathered,
)
from pate_federated.vote_casting import HolderPlan

__all__ = [
    "holder_app",
    "holder_name",
    "release_app",
    "rounds_app",
    "secure_holder_app",
    "summed_app",
]

Plans = Callable[[str], tuple[HolderPlan, Path]]
"""From a holder's name its plan and its own folder, of mode 0700."""

Said = Mapping[str, bytes]  # what is asked, by name
# the kinds of messages that ask for votes, and for a sum in rounds
ACTION = "query.votes"
SUMS = "query.sums"
_ASKED = {ACTION: "request", SUMS: "question"}
_ANSWER = ("holder", "votes", "problem")
_PAUSE = 0.5  # seconds
_RECORD = "pate"
_SHOWN = 40


def holder_name(context: Context) -> str:
    """The name that a node was started with (`--node-config 'holder="north"'`), or its number in a simulation, from 1.

    Raises `InvalidValue` where neither is given.
    """
    node_settings = context.node_config
    if "holder" in node_settings:
        return str(node_settings["holder"])
    if "partition-id" in node_settings:
        return str(int(node_settings["partition-id"]) + 1)
    raise InvalidValue(
        "holder", rule="a name in the node's configuration, --node-config 'holder=\"NAME\"'"
    )


def content(**said: str | bytes) -> RecordDict:
    """What goes out or back: a request, a question, or an answer."""
    return RecordDict({_RECORD: ConfigRecord(dict(said))})


def contribution_of(message: Message) -> Contribution | None:
    """What came back; None where it says no name, as of an app that crashed."""
    holder, votes, problem = (
        None if message.has_error() else _field(message, name) for name in _ANSWER
    )
    if not isinstance(holder, str):
        return None
    if isinstance(votes, bytes):
        return Contribution(holder, votes)
    return Contribution(
        holder,
        problem=str(problem)[:200] if isinstance(problem, str) else "an answer without votes",
    )


def _field(message: Message, name: str) -> object:
    if not message.has_content() or _RECORD not in message.content.config_records:
        return None
    return message.content.config_records[_RECORD].get(name)


def nodes_of(grid: Grid, wanted: int, *, seconds: float) -> list[int]:
    """The nodes that are connected: waits until there are as many as wanted, for that long at most."""
    until = time.monotonic() + seconds
    while len(nodes := sorted(grid.get_node_ids())) < wanted and time.monotonic() < until:
        time.sleep(_PAUSE)
    return nodes


def ask(
    grid: Grid,
    roll: Roll,
    content: RecordDict,
    kind: str,
    *,
    group: str,
    seconds: float,
    connect_seconds: float,
) -> Iterator[Contribution]:
    """What holders answer in time to the same question; a line for each that does not."""
    nodes = nodes_of(grid, len(roll.holders), seconds=connect_seconds)
    messages = [
        Message(content, dst_node_id=node, message_type=kind, group_id=group, ttl=seconds)
        for node in nodes
    ]
    holders_heard = set()
    for reply in grid.send_and_receive(messages, timeout=seconds):
        if (contribution := contribution_of(reply)) is not None:
            holders_heard.add(contribution.holder)
            yield contribution
    for holder in roll.holders:
        if holder not in holders_heard:
            yield Contribution(holder, problem=f"no answer within {seconds:g} s")


def holder_app(plans: Plans) -> ClientApp:
    """An app that answers requests for votes, and questions of rounds with sums over a holder's teachers.

    What fails at the holder is said without a word of its records, files or settings: of an exception the class alone.
    The holder's own log has the rest.

    Args:
        plans: what the holder teaches with. Nothing of it comes from the server: a request says what is asked and in
            which form, and no more.
    """
    app = ClientApp()
    _answer(
        app,
        ACTION,
        plans,
        lambda plan, folder, asked: answer(plan, Request.from_bytes(asked), folder),
    )
    _answer(app, SUMS, plans, partial(_sum, KINDS))
    return app


def _sum(kinds: Collection[str], plan: HolderPlan, folder: Path, asked: bytes) -> bytes:
    """The answer to a question of rounds, of these kinds, so that the server sees the holder's own sum."""
    question = Question.from_bytes(asked)
    require(
        question.kind in kinds,
        "question.kind",
        question.kind,
        "one that is answered in a secure sum alone",
    )
    return answer_question(plan, question, folder)


def _answer(
    app: ClientApp, kind: str, plans: Plans, make: Callable[[HolderPlan, Path, bytes], bytes]
) -> None:
    """Replies with what is made, or with the class of what failed: words of an exception may hold anything."""

    def reply(message: Message, context: Context) -> Message:
        name = holder_name(context)
        reply: dict[str, str | bytes] = {"holder": name}
        try:
            asked = _field(message, _ASKED[kind])
            if not isinstance(asked, bytes):
                raise InvalidValue("message", rule=f"a {_ASKED[kind]}")
            reply["votes"] = make(*plans(name), asked)
        except Exception as error:
            logging.getLogger(__name__).exception("holder=%s: no answer", name)
            reply["problem"] = f"its app failed ({type(error).__name__})"
        return Message(content(**reply), reply_to=message)

    app.query(kind.split(".")[1])(reply)


def secure_holder_app(
    plans: Plans, own: HolderSum | Roll, *, shares: int | None = None
) -> ClientApp:
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
    terms = SumTerms.of_digits(own, shares) if isinstance(own, Roll) else own.terms
    app = ClientApp()
    if isinstance(own, Roll):
        _answer(app, SUMS, plans, partial(_sum, {OPENING}))
    # Flower calls it for `train` and for `train.default`; its mod masks the first alone
    app.train()(partial(_answered, plans, own, terms))
    return app


def _answered(
    plans: Plans, own: HolderSum | Roll, terms: SumTerms, message: Message, context: Context
) -> Message:
    """The answer to a stage of a sum; in the log of the holder why there is none."""
    stage = require_stage(terms, message, context.node_id)
    name = holder_name(context)
    state = context.state.config_records

    def added(message: Message, context: Context) -> Message:
        """Flower's mod calls this in one stage, and masks what is in the reply."""
        require(stage == Stage.COLLECT_MASKED_VECTORS, "stage", stage, "the one that masks")
        numbers, asked = _numbers(plans, own, name, message)
        state[_RECORD] = ConfigRecord({"asked": asked})
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([numbers]), 1, {"holder": name})
        return Message(compat.fitres_to_recorddict(result, keep_input=False), reply_to=message)

    try:
        answer: Message = secaggplus_mod(message, context, added)
        record = answer.content.config_records[RECORD_KEY_CONFIGS]
        bare = any(len(arrays) for arrays in answer.content.array_records.values())
        masked = stage == Stage.COLLECT_MASKED_VECTORS
        expected = (Key.MASKED_PARAMETERS in record) == masked and not bare
        require(
            expected, "answer", "numbers without masks", "numbers under masks, in their stage alone"
        )
        if masked:  # of two vectors under one mask the difference has none
            key = sha256(bytes(state[RECORD_KEY_STATE]["pk1"])).hexdigest()
            new = first_note(plans(name)[1] / f"masked-{key}", "") is None
            require(new, "keys", "used", "keys that masked nothing yet")
        if stage == Stage.UNMASK:  # opened over other holders, the difference would be theirs alone
            active = repr(
                sorted(message.content.config_records[RECORD_KEY_CONFIGS][Key.ACTIVE_NODE_ID_LIST])
            )
            earlier = first_note(plans(name)[1] / f"opened-{state[_RECORD]['asked']}", active)
            rule = "those over which this question was opened"
            require(earlier in (None, active), "holders in the sum", "others", rule)
    except Exception as error:  # its words may hold anything
        logging.getLogger(__name__).exception("holder=%s: no part in the sum", name)
        rule = f"an app that answers, and it failed ({type(error).__name__})"
        raise InvalidValue("holder", name, rule=rule) from None
    return answer


def require_stage(terms: SumTerms, message: Message, node: int) -> str:
    """The stage that a message is for; raises unless it is one of a sum on these terms, with all of it and no more."""
    kind = message.metadata.message_type
    to = message.metadata.dst_node_id
    require(
        kind == MessageType.TRAIN, "message_type", repr(kind), "train, the one that Flower masks"
    )
    require(to == node, "dst_node_id", to, "that of this node")
    fields_sent = dict(message.content.config_records.get(RECORD_KEY_CONFIGS, {}))
    stage = fields_sent.pop(Key.STAGE, None)
    known = Stage.all()
    require(
        isinstance(stage, str) and stage in known,
        "stage",
        repr(stage),
        f"one of {', '.join(known)}",
    )
    question = (
        {"fitins.parameters", "fitins.config"} if stage == Stage.COLLECT_MASKED_VECTORS else set()
    )
    require(
        set(message.content) == {RECORD_KEY_CONFIGS} | question,
        "records",
        "others",
        f"those of {stage}",
    )
    if stage == Stage.SETUP:
        expected_fields = {
            Key.SAMPLE_NUMBER: terms.num_holders,
            Key.SHARE_NUMBER: terms.num_shares,
            Key.MAX_WEIGHT: 1.0,
        }
        expected_fields |= {
            Key.THRESHOLD: terms.threshold,
            Key.CLIPPING_RANGE: float(terms.most),
            Key.MOD_RANGE: MODULUS,
        }
        expected_fields[Key.TARGET_RANGE] = 2 * terms.most
        _require_names(fields_sent, expected_fields)
        for name, value in expected_fields.items():
            is_same = type(fields_sent[name]) is type(value) and fields_sent[name] == value
            require(is_same, str(name), repr(fields_sent[name])[:_SHOWN], f"{value}, as was agreed")
    elif stage == Stage.SHARE_KEYS:
        plain = (
            all(
                name.isascii() and name.isdigit() and str(int(name)) == name for name in fields_sent
            )
            and str(node) in fields_sent
        )
        require(
            plain, "holders that share keys", "others", "this one and others, each by its number"
        )
        _require_enough(terms, "holders that share keys", len(fields_sent))
    elif stage == Stage.COLLECT_MASKED_VECTORS:
        _require_names(fields_sent, {Key.CIPHERTEXT_LIST, Key.SOURCE_LIST})
        masks = 1 + len(_nodes(fields_sent[Key.SOURCE_LIST], without=node))
        _require_enough(terms, "holders that masks are shared with", masks)
    # over enough holders, each of the others in it or absent: whose two secrets are told has no
    # mask left
    else:
        _require_names(fields_sent, {Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST})
        active, dead = (
            fields_sent[name] for name in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST)
        )
        require(
            isinstance(active, list) and node in active,
            "active_nids",
            "others",
            "this holder among them",
        )
        _require_enough(terms, "holders in the sum", len(_nodes(active)))
        _nodes([*active, *dead])
    return str(stage)


def _require_names(said: Mapping[str, Any], wanted: Collection[str]) -> None:
    require(
        set(said) == set(wanted),
        "configuration",
        "others",
        f"{', '.join(wanted)}, and nothing else",
    )


def _require_enough(terms: SumTerms, name: str, count: int) -> None:
    require(
        terms.threshold <= count <= terms.num_shares,
        name,
        count,
        f"{terms.threshold} to {terms.num_shares}",
    )


def _nodes(given: Any, without: int | None = None) -> list[int]:
    """Numbers of nodes, each once."""
    good = isinstance(given, list) and all(type(node) is int and node != without for node in given)
    require(
        good and len(set(given)) == len(given), "nodes", "others", "a list of different holders"
    )
    return list(given)


def _numbers(
    plans: Plans, own: HolderSum | Roll, name: str, message: Message
) -> tuple[NDArray[np.float64], str]:
    """What this holder adds, and the digest of what was asked."""
    config = compat.recorddict_to_fitins(message.content, keep_input=True).config
    kind = "question" if isinstance(own, Roll) else "request"
    require(
        set(config) == {kind} and isinstance(config[kind], bytes),
        "configuration",
        "others",
        f"a {kind} alone",
    )
    plan, folder = plans(name)
    if isinstance(own, Roll):
        question = Question.from_bytes(config[kind])
        limbs = Limbs.of(question, own)
        total = SumAnswer.from_bytes(answer_question(plan, question, folder), question).total
        return limbs.terms.require_sendable(limbs.split(total)), question.digest
    request = Request.from_bytes(config[kind])
    answer(plan, request, folder)
    return own.numbers(plan, request, votes_path(request, folder), folder), request.digest


class _Summing(FedAvg):  # type: ignore[misc]  # Flower is optional, so its classes are Any
    """Asks the same of all nodes, and keeps the average and the names in it."""

    average: NDArray[np.float64] | None = None
    holders: tuple[str, ...] = ()
    asked: Sequence[Any] = ()  # nodes, each with what it is asked

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[Any]:
        return list(self.asked)

    def aggregate_fit(
        self, server_round: int, results: Any, failures: Any
    ) -> tuple[None, dict[str, Any]]:
        self.holders = tuple(str(result.metrics.get("holder")) for _, result in results)
        self.average = parameters_to_ndarrays(results[0][1].parameters)[0]
        return None, {}


def secure_sum(
    grid: Grid,
    context: Context,
    roll: Roll,
    said: Said,
    terms: SumTerms,
    *,
    seconds: float,
    connect_seconds: float,
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The sum of what holders send, of its shape, and who is in it; no holder's own numbers are seen.

    Holders have `seconds` for each of the protocol's four steps. Raises `InvalidValue` where too few took part, one
    twice, or a stranger: then there is no sum.
    """
    nodes = nodes_of(grid, terms.num_holders, seconds=connect_seconds)
    require(
        len(nodes) == terms.num_holders,
        "nodes",
        len(nodes),
        f"{terms.num_holders}, one for each holder",
    )
    strategy = _Summing()
    empty = Parameters([], "")
    strategy.asked = [
        (GridClientProxy(node, grid, grid.run.run_id), FitIns(empty, dict(said))) for node in nodes
    ]
    legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=1), strategy=strategy)
    legacy.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({WorkflowKey.CURRENT_ROUND: 1})
    legacy.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord()
    SecAggPlusWorkflow(
        terms.num_shares,
        terms.threshold,
        max_weight=1.0,
        timeout=seconds,
        clipping_range=float(terms.most),
        quantization_range=2 * terms.most,
        modulus_range=MODULUS,
    )(grid, legacy)
    if strategy.average is None:
        raise InvalidValue(
            "holders present", rule=f"at least {terms.least}; with fewer no sum can be opened"
        )
    holders = strategy.holders
    effect = "their sum cannot be taken apart"
    known = set(holders) <= roll.holders.keys()
    require(known, "holder", "one that is not on the roll", f"holders on the roll; {effect}")
    require(len(set(holders)) == len(holders), "holder", "one twice", f"each holder once; {effect}")
    return terms.exact_sum(strategy.average, len(holders)), holders


Release = TypeVar("Release", FederatedRelease, SummedRelease, RoundsOfHolders)


def _app(
    release: Release | Callable[[Context], Release],
    serve: Callable[[Grid, Context, Release], object],
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

    def serve(grid: Grid, _: Context, made: FederatedRelease) -> None:
        message = content(request=made.request.to_bytes())
        made.run(
            lambda: ask(
                grid,
                made.roll,
                message,
                ACTION,
                group="votes",
                seconds=seconds,
                connect_seconds=connect_seconds,
            ),
            monitor,
        )

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

    def serve(grid: Grid, context: Context, made: SummedRelease) -> None:
        message = {"request": made.request.to_bytes()}
        made.run(
            lambda: secure_sum(
                grid,
                context,
                made.roll,
                message,
                made.terms,
                seconds=seconds,
                connect_seconds=connect_seconds,
            ),
            monitor,
        )

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
        connect_seconds: as for `release_app`.
        monitor: told of progress, and who was absent in which round.
    """

    def serve(grid: Grid, context: Context, made: RoundsOfHolders) -> None:
        if secure:  # refuses a roll that no secure sum has room for, before anybody learns
            SumTerms.of_digits(made.roll, shares)

        def plain(question: Question) -> Gathered:
            message = content(question=question.to_bytes())
            return gathered(
                made.roll,
                question,
                ask(
                    grid,
                    made.roll,
                    message,
                    SUMS,
                    group=question.kind,
                    seconds=seconds,
                    connect_seconds=connect_seconds,
                ),
            )

        def masked(question: Question) -> Gathered:
            if question.kind == OPENING:
                return plain(question)
            limbs = Limbs.of(question, made.roll, shares)
            message = {"question": question.to_bytes()}
            total, holders = secure_sum(
                grid,
                context,
                made.roll,
                message,
                limbs.terms,
                seconds=seconds,
                connect_seconds=connect_seconds,
            )
            joined = limbs.joined(total)
            question.require_possible(joined, made.roll.num_teachers)
            return Gathered(joined, holders)

        made.run(masked if secure else plain, monitor)

    return _app(release, serve)
