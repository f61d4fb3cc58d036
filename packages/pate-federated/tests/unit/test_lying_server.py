"""Whatever a lying server sends, the numbers of a holder in a secure sum leave it under masks or not at all."""

import copy
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pate.aggregators import GaussianVotes
from pate.errors import InvalidValue
from pate_federated import Question, Roll
from pate_federated.distributed_votes import DistributedVotes
from pate_federated.holder import answer_request
from pate_federated.holder_sum import HolderSum
from pate_federated.question import LENGTHS
from pate_federated.sum_terms import SumTerms
from pate_federated.vote_file import VoteFile
from small_federation.exchange import SmallHolders, small_request
from tests.e2e.small_run import NUM_TEACHERS, seeded_plan
from tests.refusals import refused_parameter

flwr = pytest.importorskip("flwr.app", reason="Flower is not installed: the extra flower")
flower = pytest.importorskip("pate_federated.flower")

ROLL_OF_HOLDERS = Roll.numbered(num_holders=4, teachers_each=NUM_TEACHERS // 4, max_absent=1)
NODES = {101: "1", 102: "2", 103: "3", 104: "4"}
SETUP, SHARE_KEYS, COLLECT, UNMASK = STAGES = (
    "setup",
    "share_keys",
    "collect_masked_vectors",
    "unmask",
)
CONFIGS = "secaggplus_configs"
FIRST = 101
TYPES = [
    *(f"{kind}{action}" for kind in ("train", "evaluate", "query") for action in ("", ".default", ".votes", ".sums")),
    "train.anything", "train.train", "evaluate.x", "query.question", "system", "system.default",
    "get_properties", "get_parameters", "fit", "reconnect", "Train", "train.", ".train", " train", "train.a.b", "",
]  # fmt: skip


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the folders of four holders, which have trained their teachers."""
    folder = tmp_path_factory.mktemp("learned")
    for holder in ROLL_OF_HOLDERS.holders:
        plan, home = small_holders_in(folder)(holder)
        answer_request(plan, request=small_request(), folder=home)
    return folder


@pytest.fixture
def homes_folder(learned: Path, tmp_path: Path) -> Path:
    """Returns a copy of the holders' folders, which a test may change."""
    return Path(shutil.copytree(learned, tmp_path / "homes"))


def small_holders_in(folder: Path) -> SmallHolders:
    """Returns the plans of four holders, whose folders lie in `folder`."""
    return SmallHolders(folder, num_holders=4, plan=seeded_plan(GaussianVotes(noise_std=1.0)))


@pytest.fixture(autouse=True)
def _as_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the identifiers that Flower 1.42 needs in a process to make a message."""
    task_identity_class = pytest.importorskip("flwr.supercore.task_identity").TaskIdentity
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(task_identity_class, name, 1)


class Link:
    """A link that carries messages to holders in this process, as Flower's grid does, and records messages and answers.

    Args:
        homes_folder: the folder with a folder for each holder.
        own_roll: the roll of rounds that the holders agreed on; None for the terms of a sum of counts.
        spoil: a function that may change a message on its way.
    """

    run = SimpleNamespace(run_id=1)

    def __init__(
        self,
        homes_folder: Path,
        own_roll: Roll | None = None,
        spoil: Callable[[Any], None] = lambda message: None,
    ) -> None:
        self.app = flower.secure_holder_app(
            plans=small_holders_in(homes_folder),
            own=own_roll or HolderSum(terms=SumTerms.of_counts(ROLL_OF_HOLDERS)),
        )
        self.spoil = spoil
        self.sent: dict[tuple[str, int], Any] = {}
        self.answers: list[Any] = []
        self.contexts = {
            node: flwr.Context(
                run_id=1,
                node_id=node,
                node_config={"holder": name},
                state=flwr.RecordDict(),
                run_config={},
            )
            for node, name in NODES.items()
        }

    def get_node_ids(self) -> list[int]:
        return list(NODES)

    def send_and_receive(self, messages: list[Any], timeout: float | None = None) -> list[Any]:
        return [self.deliver(message) for message in messages]

    def deliver(self, message: Any) -> Any:
        """Sends a copy of a message to its holder, and returns the answer; an exception becomes an error message."""
        message = copy.deepcopy(message)
        self.spoil(message)
        node = message.metadata.dst_node_id
        if CONFIGS in message.content.config_records:
            self.sent[str(secure_sum_stage_of(message)), node] = copy.deepcopy(message)
        try:
            reply = self.app(message, self.contexts[node])
        except Exception as error:
            return flwr.Message(
                flwr.Error(code=0, reason=f"{type(error).__name__}: {error}"),
                reply_to=with_message_type(message, message_type="train"),
            )
        self.answers.append(reply)
        return reply

    def run_sum(self) -> tuple[np.ndarray, tuple[str, ...]]:
        """Runs `flower.secure_sum`, which uses Flower's workflow SecAgg+, with the messages of this link.

        Returns the sum, and the names of the holders whose numbers are in it.
        """
        context = flwr.Context(
            run_id=1, node_id=0, node_config={}, state=flwr.RecordDict(), run_config={}
        )
        payload = {"request": small_request().to_bytes()}
        grid: Any = self
        return flower.secure_sum(
            grid,
            context,
            roll=ROLL_OF_HOLDERS,
            payload=payload,
            terms=SumTerms.of_counts(ROLL_OF_HOLDERS),
            seconds=60,
            connect_seconds=1,
        )

    def until(self, stage: str) -> Any:
        """Runs an honest sum up to a stage, and returns that stage's message to holder 1 before it is delivered."""

        def stop(undelivered_message: Any) -> None:
            is_to_first = undelivered_message.metadata.dst_node_id == FIRST
            if is_to_first and secure_sum_stage_of(undelivered_message) == stage:
                raise StoppedError(undelivered_message)

        self.spoil = stop
        with pytest.raises(StoppedError) as stopped:
            self.run_sum()
        self.spoil = lambda message: None
        return stopped.value.args[0]


class StoppedError(Exception):
    """Stops a secure sum, and has the message that would be sent next."""


def secure_sum_stage_of(message: Any) -> Any:
    """Returns the stage of secure aggregation that a message states."""
    return message.content.config_records[CONFIGS].get("stage")


def with_message_type(message: Any, *, message_type: str) -> Any:
    """Returns a copy of a message with another type, also with one that Flower's own check would refuse."""
    other = copy.deepcopy(message)
    other.metadata.__dict__["_message_type"] = message_type
    return other


def is_answered(link: Link, message: Any) -> bool:
    """Returns whether holder 1 answers a message, and restores the holder's context; fails on numbers without masks."""
    before = link.contexts[FIRST]
    link.contexts[FIRST] = copy.deepcopy(link.contexts[FIRST])
    reply = link.deliver(message)
    link.contexts[FIRST] = before
    assert reply.has_error() or not has_unmasked_numbers(reply)
    return not reply.has_error()


def has_unmasked_numbers(reply: Any) -> bool:
    """Returns whether an answer has the holder's numbers without masks."""
    return any(len(arrays) for arrays in reply.content.array_records.values())


def summed_counts(homes_folder: Path, holder_names: str) -> np.ndarray:
    """Returns the summed counts of holders, `[num_queries, num_labels]`; each letter of `holder_names` is one."""
    counts = []
    for name in holder_names:
        path = homes_folder / name / small_request().digest[:16] / "votes.npz"
        counts += [block.sum(axis=0, dtype=np.int64) for block in VoteFile.open(path).bits()]
    return np.asarray(sum(counts))


def drop_out_at(node: int, stage: str) -> Callable[[Any], None]:
    """Returns a function that changes the message of a stage to a node so that its holder drops out."""

    def alter(message: Any) -> None:
        if message.metadata.dst_node_id == node and secure_sum_stage_of(message) == stage:
            message.content.config_records[CONFIGS]["stage"] = "lost"

    return alter


def test_secure_sum_equals_the_sum_of_counts(homes_folder: Path) -> None:
    """The secure sum of four honest holders is the sum of their counts, and no answer has counts without masks."""
    link = Link(homes_folder)
    total, holders = link.run_sum()
    assert sorted(holders) == ["1", "2", "3", "4"]
    np.testing.assert_array_equal(total, summed_counts(homes_folder, holder_names="1234"))
    assert len(link.answers) == 16 and not any(
        has_unmasked_numbers(reply) for reply in link.answers
    )


def test_sum_without_an_absent_holder_covers_the_others(homes_folder: Path) -> None:
    """If a holder drops out before it sends its masked counts, the sum is that of the other three."""
    total, holders = Link(homes_folder, spoil=drop_out_at(node=103, stage=COLLECT)).run_sum()
    assert sorted(holders) == ["1", "2", "4"]
    np.testing.assert_array_equal(total, summed_counts(homes_folder, holder_names="124"))


@pytest.mark.parametrize("stage", STAGES)
def test_only_one_type_of_message_is_answered(stage: str, homes_folder: Path) -> None:
    """At each stage, a holder answers an honest message only if its type is `train`."""
    link = Link(homes_folder)
    message = link.until(stage=stage)
    assert [
        kind
        for kind in TYPES
        if is_answered(link, message=with_message_type(message, message_type=kind))
    ] == ["train"]


@pytest.mark.parametrize("kind", TYPES)
def test_message_outside_the_protocol_discloses_no_holder(kind: str, homes_folder: Path) -> None:
    """A message that names no stage of secure aggregation is refused, whatever its type.

    Otherwise `train.default` could return counts without masks.
    """
    link = Link(homes_folder)
    message = with_message_type(link.until(stage=COLLECT), message_type=kind)
    del message.content.config_records[CONFIGS]
    assert not is_answered(link, message)
    message.content.config_records["pate"] = flwr.ConfigRecord(
        {"request": small_request().to_bytes()}
    )
    assert not is_answered(link, message)
    message.content.config_records[CONFIGS] = flwr.ConfigRecord({})
    assert not is_answered(link, message)


def test_each_stage_is_answered_once_and_in_order(homes_folder: Path) -> None:
    """If the messages of a whole sum are sent again, a holder answers only the setup.

    The same holds if those messages are sent before each stage of a new sum, with one exception: before the last stage,
    the holder also answers the earlier request to unmask. At the other stages, the earlier messages have other keys.
    """
    link = Link(homes_folder)
    link.run_sum()
    sent = {stage: link.sent[stage, FIRST] for stage in STAGES}
    assert [stage for stage in STAGES if is_answered(link, message=sent[stage])] == [SETUP]
    for ready in STAGES:
        link_of_new_sum = Link(homes_folder)
        link_of_new_sum.until(stage=ready)
        answered = {stage for stage in STAGES if is_answered(link_of_new_sum, message=sent[stage])}
        assert answered == ({SETUP, UNMASK} if ready == UNMASK else {SETUP})


_WRONG_VALUES_OF_SETUP: dict[str, tuple[Any, ...]] = {
    "threshold": (2, 1, 3.0, None),
    "share_num": (3,),
    "sample_num": (3, "4", [4], True),
    "clipping_range": (1.0, float("nan"), float("inf")),
    "target_range": (1,),
    "mod_range": (2**16,),
    "max_weight": (1000.0, 1, None),
    "more": (1,),
    "stage": ("other", ["setup"], 0, None),
}
_KEYS = [b"a", b"b"]
_ALL = [101, 102, 103, 104]
WRONG_FIELDS_OF_STAGES: dict[str, list[dict[str, Any]]] = {
    SETUP: [{name: value} for name, values in _WRONG_VALUES_OF_SETUP.items() for value in values],
    SHARE_KEYS: [
        {"102": None, "103": None},
        {"101": None},
        {"105": _KEYS},
        *({name: _KEYS, "104": None} for name in ("0102", "+2", "\u0661")),
        {"102": [b"a"]},
        {"more": 1},
    ],
    COLLECT: [
        *(
            {"srcs": nodes, "ctxts": 3}
            for nodes in ([102, 102, 102], [101, 102, 103], [102, 103, 109])
        ),
        {"srcs": [102], "ctxts": 1},
        {"srcs": [], "ctxts": 0},
        *({name: None} for name in ("srcs", "ctxts")),
        {"more": 1},
    ],
    UNMASK: [
        *({"active_nids": [102, 103, 104], "dead_nids": dead} for dead in ([101], [])),
        *({"active_nids": [101, 102, 103], "dead_nids": dead} for dead in ([104, 104], [105])),
        *({"active_nids": _ALL, "dead_nids": dead} for dead in ([102], _ALL)),
        {"active_nids": [101], "dead_nids": [102, 103, 104]},
        {"active_nids": [101, 102], "dead_nids": []},
        *({"active_nids": nodes} for nodes in ([101, 101, 101], [101.0, 102.0, 103.0], None)),
        {"dead_nids": None},
        {"more": 1},
    ],
}
"""What a server may say of a stage in place of the truth.

None leaves a name out, and a number for `ctxts` is the number of ciphertexts.
"""


@pytest.mark.parametrize("stage", STAGES)
def test_stage_with_wrong_fields_is_refused(stage: str, homes_folder: Path) -> None:
    """A holder refuses a message with a changed, additional or missing field, and then answers the honest one."""
    link = Link(homes_folder)
    message = link.until(stage=stage)
    for change in WRONG_FIELDS_OF_STAGES[stage]:
        altered_message = copy.deepcopy(message)
        payload = altered_message.content.config_records[CONFIGS]
        for name, value in change.items():
            if value is None:
                del payload[name]
            else:
                payload[name] = [payload["ctxts"][0]] * value if name == "ctxts" else value
        assert not is_answered(link, message=altered_message), change
    assert is_answered(link, message)


def test_extra_records_in_a_message_are_refused(homes_folder: Path) -> None:
    """At each stage, a message with an additional record, or to another node, is refused.

    So is a request for masked counts with another content.
    """
    for stage in STAGES:
        link = Link(homes_folder)
        message = link.until(stage=stage)
        for record in (flwr.ArrayRecord(), flwr.ConfigRecord({}), flwr.MetricRecord({})):
            altered_message = copy.deepcopy(message)
            altered_message.content["more"] = record
            assert not is_answered(link, message=altered_message)
        altered_message = copy.deepcopy(message)
        altered_message.metadata.dst_node_id = 102
        link.contexts[102] = link.contexts[FIRST]
        assert link.deliver(altered_message).has_error()
        if stage == COLLECT:
            for payload in ({}, {"request": "text"}, {"question": b"x"}, {"more": 1}):
                altered_message = copy.deepcopy(message)
                config = altered_message.content.config_records["fitins.config"]
                altered_message.content.config_records["fitins.config"] = flwr.ConfigRecord(
                    {**config, **payload} if "more" in payload else payload
                )
                assert not is_answered(link, message=altered_message)


def test_each_key_masks_one_vector_under_concurrent_requests(homes_folder: Path) -> None:
    """If eight threads ask a holder for its masked counts at once, one of them gets an answer.

    Two vectors under the same mask would disclose their difference.
    """
    link = Link(homes_folder)
    message = link.until(stage=COLLECT)
    context = link.contexts[FIRST]

    def collect(_: int) -> bool:
        try:
            return link.app(copy.deepcopy(message), copy.deepcopy(context)).has_content()
        except InvalidValue:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(collect, range(8))) == 1


def test_the_sum_of_a_question_is_opened_over_one_set_of_holders(homes_folder: Path) -> None:
    """A sum of four holders may be repeated, but not without one of them.

    The difference of the two sums would be the counts of that holder.
    """
    Link(homes_folder).run_sum()
    np.testing.assert_array_equal(
        Link(homes_folder).run_sum()[0], summed_counts(homes_folder, holder_names="1234")
    )
    link = Link(homes_folder, spoil=drop_out_at(node=103, stage=COLLECT))
    with refused_parameter("holders present", rule_words="at least 3"):
        link.run_sum()


def test_holder_with_contradictory_status_stays_masked() -> None:
    """Terms of a sum are refused if a server could collect both secrets of a holder.

    If two of four holders may be absent, the shares of two open a secret, and each half of the holders could open
    another secret. Too many colluders are refused, too.
    """
    with refused_parameter("max_absent", value=2, rule_words="at most 1"):
        SumTerms(num_holders=4, max_absent=2, largest_number=9)
    noise = DistributedVotes(noise_std=4.0, num_holders=5, max_dropouts=1, max_colluders=3)
    with refused_parameter("aggregator.max_colluders", value=3, rule_words="less than 3"):
        SumTerms.of_noise(noise, roll=Roll.numbered(num_holders=5, teachers_each=3, max_absent=1))


def test_only_the_opening_is_answered_without_masks(homes_folder: Path) -> None:
    """In rounds, a holder of secure sums answers only the opening question without masks.

    The holder answers it in messages of type `query.sums`, where a question for lengths is refused. In messages of
    other types, no question is answered.
    """
    link = Link(homes_folder, own_roll=ROLL_OF_HOLDERS)
    opening = Question.of_opening(small_request())
    queries_digest = opening.asked
    lengths = Question(kind=LENGTHS, asked=queries_digest, num_labels=opening.num_labels)
    payload = {}
    for question in (opening, lengths):
        for kind in TYPES:
            message = flwr.Message(
                flower.message_content({"question": question.to_bytes()}),
                dst_node_id=FIRST,
                message_type="query.sums",
            )
            reply = link.deliver(with_message_type(message, message_type=kind))
            contribution = flower.contribution_of(reply)
            if contribution is not None:
                payload[question.kind, kind] = contribution.votes is not None
    assert payload == {("opening", "query.sums"): True, ("lengths", "query.sums"): False}
