"""Apps for Flower (extra `flower`): a ClientApp for each holder, a ServerApp for the aggregator, and their messages.

Flower transports the messages. The other modules of this package decide what is asked, released and charged.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from pate.array_types import FloatArray, IntArray
from pate.errors import InvalidValue, MissingPackage
from pate.validation import require

if find_spec("flwr") is None:
    _needing_module = __name__
    _needed_package = "the package flwr: pip install 'pate-federated[flower]'"
    raise MissingPackage(_needing_module, rule=_needed_package)

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

from pate.progress import Monitor
from pate_federated.collection import FederatedRelease
from pate_federated.holder import answer_question, answer_request, votes_path
from pate_federated.holder_sum import HolderSum, write_first_note
from pate_federated.question import KINDS, OPENING, Contribution, Question, Request, Roll, SumAnswer
from pate_federated.rounds_of_holders import RoundsOfHolders
from pate_federated.sum_file import Summed
from pate_federated.sum_of_answers import SumOfAnswers, sum_of_answers
from pate_federated.sum_terms import MODULUS, Limbs, SumTerms
from pate_federated.summed_release import SummedRelease
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
"""A function from a holder's name to its plan and its own folder, of mode 0700."""

Payload = Mapping[str, bytes]  # a request or a question as bytes, by its name
# the kinds of messages: a request for votes, and a question for a sum in rounds
ACTION = "query.votes"
SUMS = "query.sums"
# The field of each kind of message that has what is asked.
_ASKED = {ACTION: "request", SUMS: "question"}
# The fields of an answer.
_ANSWER = ("holder", "votes", "problem")
# The seconds between two looks for nodes.
_PAUSE_S = 0.5
# The name of the record of a message that has all fields.
_RECORD = "pate"
# The largest number of characters that an error shows of a field.
_MAX_SHOWN = 40


def holder_name(context: Context) -> str:
    """Returns the name of a holder's node.

    This is the name with which the node was started (`--node-config 'holder="north"'`), or its number from 1 in a
    simulation. Raises `InvalidValue` for a node with neither.
    """
    node_settings = context.node_config
    if "holder" in node_settings:
        return str(node_settings["holder"])
    if "partition-id" in node_settings:
        return str(int(node_settings["partition-id"]) + 1)
    raise InvalidValue(
        "holder", rule="a name in the node's configuration, --node-config 'holder=\"NAME\"'"
    )


def message_content(fields: Mapping[str, str | bytes]) -> RecordDict:
    """Returns the content of a message, given its fields by name."""
    return RecordDict({_RECORD: ConfigRecord(dict(fields))})


def contribution_of(message: Message) -> Contribution | None:
    """Returns the answer of a holder in a message: its votes, or a problem in their place.

    Returns None for a message without a holder's name, which a crashed app sends.
    """
    holder, vote_bytes, problem = (
        None if message.has_error() else _field(message, field_name=field_name)
        for field_name in _ANSWER
    )
    if not isinstance(holder, str):
        return None
    if isinstance(vote_bytes, bytes):
        return Contribution(holder=holder, votes=vote_bytes)
    return Contribution(
        holder=holder,
        problem=str(problem)[:200] if isinstance(problem, str) else "an answer without votes",
    )


def _field(message: Message, *, field_name: str) -> object:
    """Returns the value of the field `field_name` of a message; None if the message has no such field."""
    if not message.has_content() or _RECORD not in message.content.config_records:
        return None
    return message.content.config_records[_RECORD].get(field_name)


def nodes_of(grid: Grid, num_nodes: int, *, connect_seconds: float) -> list[int]:
    """Returns the connected nodes, after waiting for `num_nodes` of them for at most `connect_seconds`."""
    until = time.monotonic() + connect_seconds
    while len(nodes := sorted(grid.get_node_ids())) < num_nodes and time.monotonic() < until:
        time.sleep(_PAUSE_S)
    return nodes


def ask(
    grid: Grid,
    roll: Roll,
    content: RecordDict,
    message_type: str,
    *,
    group_id: str,
    seconds: float,
    connect_seconds: float,
) -> Iterator[Contribution]:
    """Yields the answers of all connected nodes to one message.

    After the answers it yields a problem for each holder on the roll whose answer is late or missing.

    Args:
        grid: Flower's connection to the nodes.
        roll: the expected holders.
        content: the content of the message.
        message_type: the type of the message.
        group_id: Flower's identifier of messages that belong together.
        seconds: the time for an answer.
        connect_seconds: the time to wait for a node of each holder.
    """
    nodes = nodes_of(grid, num_nodes=len(roll.holders), connect_seconds=connect_seconds)
    messages = [
        Message(
            content, dst_node_id=node, message_type=message_type, group_id=group_id, ttl=seconds
        )
        for node in nodes
    ]
    holders_heard = set()
    for reply in grid.send_and_receive(messages, timeout=seconds):
        if (contribution := contribution_of(reply)) is not None:
            holders_heard.add(contribution.holder)
            yield contribution
    for holder in roll.holders:
        if holder not in holders_heard:
            yield Contribution(holder=holder, problem=f"no answer within {seconds:g} s")


def holder_app(plans: Plans) -> ClientApp:
    """Returns an app that answers requests with votes, and questions of rounds with sums over a holder's teachers.

    If the holder fails, the server is sent only the class of the exception. The message of an exception might disclose
    records, files or settings, and stays in the holder's log.

    Args:
        plans: returns the holder's plan and folder, given the holder's name. The server determines the queries and the
            form of the votes, and nothing else of the plan.
    """
    app = ClientApp()
    _add_reply(
        app, message_type=ACTION, find_plan_and_folder_of_holder=plans, make_answer=_vote_bytes
    )
    _add_reply(
        app,
        message_type=SUMS,
        find_plan_and_folder_of_holder=plans,
        make_answer=partial(_sum_bytes, question_kinds=KINDS),
    )
    return app


def _vote_bytes(plan: HolderPlan, folder: Path, request_bytes: bytes) -> bytes:
    """Returns the bytes of the vote file that a holder sends for a request."""
    return answer_request(plan, request=Request.from_bytes(request_bytes), folder=folder)


def _sum_bytes(
    plan: HolderPlan, folder: Path, question_bytes: bytes, *, question_kinds: Collection[str]
) -> bytes:
    """Returns the bytes of a holder's answer to a question; raises `InvalidValue` for a question of another kind.

    The server reads this holder's own sum in the answer.

    Args:
        plan: the holder's plan.
        folder: the holder's folder.
        question_bytes: the bytes of the question.
        question_kinds: those of `KINDS` that are answered.
    """
    question = Question.from_bytes(question_bytes)
    require(
        question.kind in question_kinds,
        "question.kind",
        question.kind,
        "one that is answered in a secure sum alone",
    )
    return answer_question(plan, question=question, folder=folder)


def _add_reply(
    app: ClientApp,
    message_type: str,
    find_plan_and_folder_of_holder: Plans,
    make_answer: Callable[[HolderPlan, Path, bytes], bytes],
) -> None:
    """Adds a reply to an app, for messages of a type: the bytes of `make_answer`, or the class of its exception.

    The message of an exception might disclose records, so it stays in the holder's log.

    Args:
        app: the app.
        message_type: the type of message that is answered.
        find_plan_and_folder_of_holder: returns the holder's plan and folder, given the holder's name.
        make_answer: returns the bytes of the answer, given the plan, the folder and the bytes of the message.
    """

    def reply(message: Message, node_context: Context) -> Message:
        holder = holder_name(node_context)
        reply_fields: dict[str, str | bytes] = {"holder": holder}
        try:
            asked_bytes = _field(message, field_name=_ASKED[message_type])
            if not isinstance(asked_bytes, bytes):
                raise InvalidValue("message", rule=f"a {_ASKED[message_type]}")
            plan, folder = find_plan_and_folder_of_holder(holder)
            reply_fields["votes"] = make_answer(plan, folder, asked_bytes)
        except Exception as error:
            logging.getLogger(__name__).exception("holder=%s: no answer", holder)
            reply_fields["problem"] = f"its app failed ({type(error).__name__})"
        return Message(message_content(reply_fields), reply_to=message)

    action_name = message_type.split(".")[1]
    app.query(action_name)(reply)


def secure_holder_app(
    plans: Plans, own: HolderSum | Roll, *, shares: int | None = None
) -> ClientApp:
    """Returns an app that takes part in a secure sum for each request, or for each question of rounds.

    The masks are those of `flwr.client.mod.secaggplus_mod`. This is Flower's older workflow; its message API has no
    secure sums. The app answers the four stages of a sum if the message has the agreed terms, and exactly the fields of
    its stage, and in rounds the opening question. It refuses all other messages.

    Formal guarantee: the holder's numbers leave this app only in a masked vector. Each key masks one vector. The sum
    for a request or question is opened for one set of holders. At least `SumTerms.threshold` of them share
    their keys with this holder.
    docs/threat-model.md describes attacks by a server that invents keys, or sends holders different questions.

    Args:
        plans: returns the holder's plan and folder, given the holder's name.
        own: the holder's terms and its share of the noise; for rounds the roll, from which the terms are computed.
        shares: the field `shares` of `SumTerms` for rounds; None for keys divided among all holders.
    """
    terms = (
        SumTerms.of_digits(roll=own, shares_per_key=shares) if isinstance(own, Roll) else own.terms
    )
    app = ClientApp()
    if isinstance(own, Roll):
        _add_reply(
            app,
            message_type=SUMS,
            find_plan_and_folder_of_holder=plans,
            make_answer=partial(_sum_bytes, question_kinds={OPENING}),
        )
    # Flower calls the function for `train` and for `train.default`; its mod masks the first alone
    app.train()(
        partial(
            _answer_stage,
            find_plan_and_folder_of_holder=plans,
            own_settings_or_roll=own,
            terms=terms,
        )
    )
    return app


def _answer_stage(
    message: Message,
    node_context: Context,
    *,
    find_plan_and_folder_of_holder: Plans,
    own_settings_or_roll: HolderSum | Roll,
    terms: SumTerms,
) -> Message:
    """Returns a holder's answer to one stage of a secure sum, after checking message, masks and holders in the sum.

    Raises `InvalidValue` for a refusal. If the message breaks the terms, the error names the field. Any other error
    names the class of an exception alone; the reason goes to the holder's log.

    Args:
        message: the message of the server.
        node_context: Flower's context of the holder's node.
        find_plan_and_folder_of_holder: returns the holder's plan and folder, given the holder's name.
        own_settings_or_roll: the holder's settings for its part, or the roll of a release in rounds.
        terms: the agreed terms of the sum.
    """
    stage = require_stage(terms, message=message, node_id=node_context.node_id)
    holder = holder_name(node_context)
    state = node_context.state.config_records

    def add_numbers(message: Message, node_context: Context) -> Message:
        """Returns a message with the holder's numbers, which Flower masks then.

        Raises `InvalidValue` in any stage but the one that masks.
        """
        require(stage == Stage.COLLECT_MASKED_VECTORS, "stage", stage, "the one that masks")
        numbers, digest = _numbers_of_holder(
            holder,
            find_plan_and_folder_of_holder=find_plan_and_folder_of_holder,
            own_settings_or_roll=own_settings_or_roll,
            message=message,
        )
        state[_RECORD] = ConfigRecord({"asked": digest})
        result = FitRes(
            status=Status(code=Code.OK, message=""),
            parameters=ndarrays_to_parameters([numbers]),
            num_examples=1,
            metrics={"holder": holder},
        )
        return Message(compat.fitres_to_recorddict(result, keep_input=False), reply_to=message)

    try:
        answer: Message = secaggplus_mod(message, node_context, add_numbers)
        answer_fields = answer.content.config_records[RECORD_KEY_CONFIGS]
        has_bare_arrays = any(len(arrays) for arrays in answer.content.array_records.values())
        masked = stage == Stage.COLLECT_MASKED_VECTORS
        is_masked_as_expected = (
            Key.MASKED_PARAMETERS in answer_fields
        ) == masked and not has_bare_arrays
        require(
            is_masked_as_expected,
            "answer",
            "numbers without masks",
            "numbers under masks, in their stage alone",
        )
        if masked:  # the difference of two vectors under one mask would have no mask
            key_digest = sha256(bytes(state[RECORD_KEY_STATE]["pk1"])).hexdigest()
            _, folder = find_plan_and_folder_of_holder(holder)
            is_new = (
                write_first_note(note_path=folder / f"masked-{key_digest}", note_text="") is None
            )
            require(is_new, "keys", "used", "keys that masked nothing yet")
        # two openings over different holders would disclose the sum of their difference
        if stage == Stage.UNMASK:
            active_nodes_text = repr(
                sorted(message.content.config_records[RECORD_KEY_CONFIGS][Key.ACTIVE_NODE_ID_LIST])
            )
            _, folder = find_plan_and_folder_of_holder(holder)
            earlier_active = write_first_note(
                note_path=folder / f"opened-{state[_RECORD]['asked']}", note_text=active_nodes_text
            )
            rule = "those over which this question was opened"
            require(
                earlier_active in (None, active_nodes_text), "holders in the sum", "others", rule
            )
    except Exception as error:  # the words of an exception may disclose records
        logging.getLogger(__name__).exception("holder=%s: no part in the sum", holder)
        rule = f"an app that answers, and it failed ({type(error).__name__})"
        raise InvalidValue("holder", holder, rule=rule) from None
    return answer


def require_stage(terms: SumTerms, *, message: Message, node_id: int) -> str:
    """Returns the stage of a secure sum that a message is for.

    Args:
        terms: the agreed terms of the sum.
        message: the message of the server.
        node_id: the number of the holder's node.

    Raises:
        InvalidValue: the message is of another type or for another node, has other terms, lacks a field of its stage,
            has a field of another stage, or names too few or too many holders, or one twice.
    """
    message_type = message.metadata.message_type
    receiver_id = message.metadata.dst_node_id
    require(
        message_type == MessageType.TRAIN,
        "message_type",
        repr(message_type),
        "train, the one that Flower masks",
    )
    require(receiver_id == node_id, "dst_node_id", receiver_id, "that of this node")
    fields_sent = dict(message.content.config_records.get(RECORD_KEY_CONFIGS, {}))
    stage = fields_sent.pop(Key.STAGE, None)
    stages = Stage.all()
    require(
        isinstance(stage, str) and stage in stages,
        "stage",
        repr(stage),
        f"one of {', '.join(stages)}",
    )
    records_of_question = (
        {"fitins.parameters", "fitins.config"} if stage == Stage.COLLECT_MASKED_VECTORS else set()
    )
    require(
        set(message.content) == {RECORD_KEY_CONFIGS} | records_of_question,
        "records",
        "others",
        f"those of {stage}",
    )
    if stage == Stage.SETUP:
        expected_fields = {
            Key.SAMPLE_NUMBER: terms.num_holders,
            Key.SHARE_NUMBER: terms.num_shares,
            Key.MAX_WEIGHT: 1.0,
            Key.THRESHOLD: terms.threshold,
            Key.CLIPPING_RANGE: float(terms.largest_number),
            Key.MOD_RANGE: MODULUS,
        }
        expected_fields[Key.TARGET_RANGE] = 2 * terms.largest_number
        _require_names(fields=fields_sent, field_names=expected_fields.keys())
        for name, value in expected_fields.items():
            is_same = type(fields_sent[name]) is type(value) and fields_sent[name] == value
            require(
                is_same, str(name), repr(fields_sent[name])[:_MAX_SHOWN], f"{value}, as was agreed"
            )
    elif stage == Stage.SHARE_KEYS:
        are_node_numbers = (
            all(
                name.isascii() and name.isdigit() and str(int(name)) == name for name in fields_sent
            )
            and str(node_id) in fields_sent
        )
        require(
            are_node_numbers,
            "holders that share keys",
            "others",
            "this one and others, each by its number",
        )
        _require_enough(terms, name="holders that share keys", num_holders=len(fields_sent))
    elif stage == Stage.COLLECT_MASKED_VECTORS:
        _require_names(fields=fields_sent, field_names={Key.CIPHERTEXT_LIST, Key.SOURCE_LIST})
        num_masks = 1 + len(
            _distinct_nodes(node_numbers=fields_sent[Key.SOURCE_LIST], excluded_node=node_id)
        )
        _require_enough(terms, name="holders that masks are shared with", num_holders=num_masks)
    # The last stage opens the sum over enough holders, each of which is active or absent. A holder of which both
    # secrets are disclosed would have no mask left.
    else:
        _require_names(
            fields=fields_sent, field_names={Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST}
        )
        active, dead = (
            fields_sent[name] for name in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST)
        )
        require(
            isinstance(active, list) and node_id in active,
            "active_nids",
            "others",
            "this holder among them",
        )
        num_active = len(_distinct_nodes(node_numbers=active))
        _require_enough(terms, name="holders in the sum", num_holders=num_active)
        _distinct_nodes(node_numbers=[*active, *dead])
    return str(stage)


def _require_names(fields: Mapping[str, Any], field_names: Collection[str]) -> None:
    """Raises `InvalidValue` unless the fields of a message have exactly the names in `field_names`."""
    require(
        set(fields) == set(field_names),
        "configuration",
        "others",
        f"{', '.join(field_names)}, and nothing else",
    )


def _require_enough(terms: SumTerms, name: str, num_holders: int) -> None:
    """Raises `InvalidValue` unless `num_holders` is from `terms.threshold` to `terms.num_shares`.

    So many holders are enough to open a sum, and no more than share a key.

    Args:
        terms: the terms of the sum.
        name: the name of the number in the error.
        num_holders: the number of holders in a message.
    """
    require(
        terms.threshold <= num_holders <= terms.num_shares,
        name,
        num_holders,
        f"{terms.threshold} to {terms.num_shares}",
    )


def _distinct_nodes(node_numbers: Any, excluded_node: int | None = None) -> list[int]:
    """Returns a list of nodes' numbers in a message; raises `InvalidValue` for other values.

    The list must have whole numbers alone, none twice, and not `excluded_node`.
    """
    are_nodes = isinstance(node_numbers, list) and all(
        type(node) is int and node != excluded_node for node in node_numbers
    )
    require(
        are_nodes and len(set(node_numbers)) == len(node_numbers),
        "nodes",
        "others",
        "a list of different holders",
    )
    return list(node_numbers)


def _numbers_of_holder(
    holder: str,
    *,
    find_plan_and_folder_of_holder: Plans,
    own_settings_or_roll: HolderSum | Roll,
    message: Message,
) -> tuple[FloatArray, str]:
    """Returns the numbers that a holder adds to a sum, and the digest of the request or question in the message.

    For a request they are those of `HolderSum.numbers`, for a question the digits of the sum over the holder's teachers
    (`Limbs`).

    Args:
        holder: the name of the holder.
        find_plan_and_folder_of_holder: returns the holder's plan and folder, given the holder's name.
        own_settings_or_roll: the holder's settings for its part, or the roll of a release in rounds.
        message: the message of the server.
    """
    config = compat.recorddict_to_fitins(message.content, keep_input=True).config
    kind = "question" if isinstance(own_settings_or_roll, Roll) else "request"
    require(
        set(config) == {kind} and isinstance(config[kind], bytes),
        "configuration",
        "others",
        f"a {kind} alone",
    )
    plan, folder = find_plan_and_folder_of_holder(holder)
    if isinstance(own_settings_or_roll, Roll):
        question = Question.from_bytes(config[kind])
        limbs = Limbs.of(question, roll=own_settings_or_roll)
        answer_bytes = answer_question(plan, question=question, folder=folder)
        total = SumAnswer.from_bytes(answer_bytes, question=question).total
        return limbs.terms.require_sendable(limbs.split(total)), question.digest
    request = Request.from_bytes(config[kind])
    answer_request(plan, request=request, folder=folder)
    numbers = own_settings_or_roll.numbers(
        plan, request=request, vote_path=votes_path(request, holder_folder=folder), folder=folder
    )
    return numbers, request.digest


class _Summing(FedAvg):  # type: ignore[misc]  # Flower is optional, so its classes are Any
    """A Flower strategy that sends the same message to all nodes, and stores the average of the answers.

    Attributes:
        average: the average of the holders' numbers that Flower computed; None before the answers.
        holders: the names of the holders in the average.
        instructions: the messages to the nodes.
    """

    average: FloatArray | None = None
    holders: tuple[str, ...] = ()
    instructions: Sequence[Any] = ()

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[Any]:
        return list(self.instructions)

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
    payload: Payload,
    terms: SumTerms,
    *,
    seconds: float,
    connect_seconds: float,
) -> tuple[IntArray, tuple[str, ...]]:
    """Returns the sum of the holders' numbers by SecAgg+, and the names of the holders in the sum.

    The server reads the sum, and not the numbers of a single holder.

    Args:
        grid: Flower's connection to the nodes.
        context: Flower's context of the server's run.
        roll: the expected holders.
        payload: the request or question that the nodes answer, in bytes, by its name.
        terms: the terms of the sum.
        seconds: the time for each of the four stages of the protocol.
        connect_seconds: the time to wait for a node of each holder.

    Raises:
        InvalidValue: there is not one node for each holder, too few holders took part, one took part twice, one is not
            on the roll, or the sum breaks the terms.
    """
    nodes = nodes_of(grid, num_nodes=terms.num_holders, connect_seconds=connect_seconds)
    require(
        len(nodes) == terms.num_holders,
        "nodes",
        len(nodes),
        f"{terms.num_holders}, one for each holder",
    )
    strategy = _Summing()
    no_parameters = Parameters(tensors=[], tensor_type="")
    strategy.instructions = [
        (
            GridClientProxy(node_id=node, grid=grid, run_id=grid.run.run_id),
            FitIns(parameters=no_parameters, config=dict(payload)),
        )
        for node in nodes
    ]
    legacy_context = LegacyContext(
        context=context, config=ServerConfig(num_rounds=1), strategy=strategy
    )
    legacy_context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord(
        {WorkflowKey.CURRENT_ROUND: 1}
    )
    legacy_context.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord()
    secure_sum_workflow = SecAggPlusWorkflow(
        num_shares=terms.num_shares,
        reconstruction_threshold=terms.threshold,
        max_weight=1.0,
        timeout=seconds,
        clipping_range=float(terms.largest_number),
        quantization_range=2 * terms.largest_number,
        modulus_range=MODULUS,
    )
    secure_sum_workflow(grid, legacy_context)
    if strategy.average is None:
        raise InvalidValue(
            "holders present",
            rule=f"at least {terms.fewest_holders}; with fewer no sum can be opened",
        )
    holders = strategy.holders
    effect = "their sum cannot be taken apart"
    are_on_roll = set(holders) <= roll.holders.keys()
    require(are_on_roll, "holder", "one that is not on the roll", f"holders on the roll; {effect}")
    require(len(set(holders)) == len(holders), "holder", "one twice", f"each holder once; {effect}")
    return terms.exact_sum(strategy.average, num_present=len(holders)), holders


Release = TypeVar("Release", FederatedRelease, SummedRelease, RoundsOfHolders)


def _server_app(
    release: Release | Callable[[Context], Release],
    serve: Callable[[Grid, Context, Release], object],
) -> ServerApp:
    """Returns an app of Flower's server that makes a release.

    Args:
        release: the release, or a function that returns the release for the run's context.
        serve: makes the release, given the connection, the context and the release.
    """
    app = ServerApp()

    def main(grid: Grid, run_context: Context) -> None:
        release_to_make = release(run_context) if callable(release) else release
        serve(grid, run_context, release_to_make)

    app.main()(main)
    return app


def release_app(
    release: FederatedRelease | Callable[[Context], FederatedRelease],
    *,
    seconds: float = 3600.0,
    connect_seconds: float = 60.0,
    monitor: Monitor | None = None,
) -> ServerApp:
    """Returns an app that collects the votes of all holders and releases them; it charges once.

    Args:
        release: the release, or a function that returns the release for the run's context.
        seconds: the time for an answer; later answers are ignored.
        connect_seconds: the time to wait for a node of each holder.
        monitor: displays the progress and the refused answers; None for no display.
    """

    def serve(grid: Grid, _: Context, release: FederatedRelease) -> None:
        content = message_content({"request": release.request.to_bytes()})

        def ask_holders() -> Iterator[Contribution]:
            return ask(
                grid,
                release.roll,
                content=content,
                message_type=ACTION,
                group_id="votes",
                seconds=seconds,
                connect_seconds=connect_seconds,
            )

        release.run(ask_holders, monitor=monitor)

    return _server_app(release, serve=serve)


def summed_app(
    release: SummedRelease | Callable[[Context], SummedRelease],
    *,
    seconds: float = 3600.0,
    connect_seconds: float = 60.0,
    monitor: Monitor | None = None,
) -> ServerApp:
    """Returns an app that makes one secure sum and releases it; it charges once.

    Args:
        release: the release, or a function that returns the release for the run's context.
        seconds: the time for each of the four stages of the protocol; teachers are trained in the third.
        connect_seconds: the time to wait for a node of each holder.
        monitor: displays the progress; None for no display.
    """

    def serve(grid: Grid, context: Context, release: SummedRelease) -> None:
        payload = {"request": release.request.to_bytes()}

        def make_sum() -> Summed:
            return secure_sum(
                grid,
                context,
                release.roll,
                payload=payload,
                terms=release.terms,
                seconds=seconds,
                connect_seconds=connect_seconds,
            )

        release.run(make_sum, monitor=monitor)

    return _server_app(release, serve=serve)


def rounds_app(
    release: RoundsOfHolders | Callable[[Context], RoundsOfHolders],
    *,
    secure: bool = False,
    shares: int | None = None,
    seconds: float = 3600.0,
    connect_seconds: float = 60.0,
    monitor: Monitor | None = None,
) -> ServerApp:
    """Returns an app that releases centered votes in rounds; after a restart it continues with the next round.

    Args:
        release: the release, or a function that returns the release for the run's context.
        secure: whether to make the sums by SecAgg+, so that the server reads no sum of a single holder. Holders then
            run `secure_holder_app`.
        shares: the field `shares` of `SumTerms`, if `secure`; None for keys divided among all holders.
        seconds: the time for an answer, or for each of the four stages of a secure sum.
        connect_seconds: the time to wait for a node of each holder.
        monitor: displays the progress and the absent holders of each round; None for no display.
    """

    def serve(grid: Grid, context: Context, rounds: RoundsOfHolders) -> None:
        if secure:  # refuses a roll that no secure sum has room for, before anybody learns
            SumTerms.of_digits(rounds.roll, shares_per_key=shares)

        def ask_openly(question: Question) -> SumOfAnswers:
            return sum_of_answers(
                rounds.roll,
                question=question,
                unchecked_answers=ask(
                    grid,
                    rounds.roll,
                    content=message_content({"question": question.to_bytes()}),
                    message_type=SUMS,
                    group_id=question.kind,
                    seconds=seconds,
                    connect_seconds=connect_seconds,
                ),
            )

        def ask_with_masks(question: Question) -> SumOfAnswers:
            if question.kind == OPENING:
                return ask_openly(question)
            limbs = Limbs.of(question, roll=rounds.roll, shares_per_key=shares)
            sums_of_digits, holders = secure_sum(
                grid,
                context,
                rounds.roll,
                payload={"question": question.to_bytes()},
                terms=limbs.terms,
                seconds=seconds,
                connect_seconds=connect_seconds,
            )
            total = limbs.join(digits=sums_of_digits)
            question.require_possible(total, num_teachers=rounds.roll.num_teachers)
            return SumOfAnswers(total=total, holders=holders)

        rounds.run(exchange=ask_with_masks if secure else ask_openly, monitor=monitor)

    return _server_app(release, serve=serve)
