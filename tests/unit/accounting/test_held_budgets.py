"""Sessions hold a budget that exists once: no copies, no forks, and threads take turns."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from pate.accounting.target_charging import TargetCharging, not_prior, revise
from pate.mechanisms import ConditionalRelease, SparseVector
from pate.validation import InvalidValue

EPSILON, HITS, THREADS = 0.1, 50, 16


def charging(target_hits: int = HITS) -> TargetCharging:
    return TargetCharging.of_targets([not_prior(EPSILON), revise(EPSILON)], target_hits, target_delta=1e-6)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


HOLDERS: dict[str, Callable[[], Any]] = {
    "TargetCharging": charging,
    "ConditionalRelease": lambda: ConditionalRelease(charging()),
    "SparseVectorSession": lambda: SparseVector(epsilon=1.0, item_hits=1, failure_prob=1e-9).start(10),
}
ASKED: dict[str, list[Callable[[Any], Any]]] = {
    "TargetCharging": [
        lambda session: session.charge(True),
        lambda session: session.charge_batch(np.ones(2, bool)),
        lambda session: session.require_open(),
        lambda session: session.state,
    ],
    "ConditionalRelease": [
        lambda stored: stored.release(lambda rng: 1, bool, epsilon=EPSILON, rng=rng()),
        lambda stored: stored.revise(0, bool),
    ],
    "SparseVectorSession": [lambda session: session.ask(np.ones(10, bool), threshold=0, rng=rng())],
}


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Threads take over from each other after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-7)
    yield
    sys.setswitchinterval(before)


def at_once(act: Callable[[], Any], calls: int) -> list[Any]:
    """What many threads got that began together; None where a call was refused."""
    ready = threading.Barrier(THREADS)

    def work(_: int) -> list[Any]:
        ready.wait()
        results = []
        for _ in range(calls):
            try:
                results.append(act())
            except InvalidValue:
                results.append(None)
        return results

    with ThreadPoolExecutor(THREADS) as pool:
        return [result for results in pool.map(work, range(THREADS)) for result in results]


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_session_is_not_copied(name: str, way: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidValue, match=rf"^session={name}: expected one that is neither copied nor sent elsewhere"):
        way(HOLDERS[name]())


@pytest.mark.parametrize("name", HOLDERS)
def test_a_forked_process_gets_no_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = HOLDERS[name]()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for ask in ASKED[name]:
        with pytest.raises(InvalidValue, match=rf"^process=-1: expected \d+, which holds this \w*{name[-6:]}"):
            ask(holder)


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_turn_is_refused_and_does_not_wait() -> None:
    """The lock is then held by a thread that the child does not have."""
    session = charging()
    with ThreadPoolExecutor(1) as pool, session._turn():
        child = pool.submit(_refused_in_a_fork, session).result(timeout=30)
    assert child == 7


def _refused_in_a_fork(session: TargetCharging) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            session.charge(True)
        except InvalidValue:
            code = 7
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_threads_cannot_charge_more_hits_than_there_are(eager_switches: None) -> None:
    session = charging(1000)
    results = at_once(lambda: session.charge(True), calls=100)
    assert sum(result is not None for result in results) == session.hits[0] == session.num_calls == 1000


def test_threads_publish_no_more_outcomes_than_were_paid_for(eager_switches: None) -> None:
    stored = ConditionalRelease(charging())
    generator = rng()
    ask = lambda: stored.release(lambda rng: rng.integers(9), lambda y: True, epsilon=EPSILON, rng=generator)  # noqa: E731
    published = [result for result in at_once(ask, calls=20) if result is not None]
    assert len(published) == HITS
    assert sorted(result.key for result in published) == list(range(HITS))


def test_an_outcome_is_published_once_whoever_asks(eager_switches: None) -> None:
    stored = ConditionalRelease(charging())
    keys = [stored.release(lambda rng: 5, lambda y: False, epsilon=EPSILON, rng=rng()).key for _ in range(20)]
    results = at_once(lambda: [_revised(stored, key) for key in keys], calls=1)
    assert sum(result is not None for found in results for result in found) == len(keys)


def _revised(stored: ConditionalRelease, key: int) -> Any:
    try:
        return stored.revise(key, lambda y: True).outcome
    except InvalidValue:
        return None


def test_an_item_is_part_of_no_more_sums_than_it_has_hits(eager_switches: None) -> None:
    """Each thread brings a generator whose numbers take their time, as a large session's do."""
    mechanism = SparseVector(epsilon=1000.0, item_hits=3, failure_prob=1e-9)
    session = mechanism.start(200_000)
    bits = np.ones(200_000, dtype=bool)
    answers = at_once(lambda: session.ask(bits, threshold=100_000, rng=rng()), calls=1)
    assert sum(answer is not None for answer in answers) == 3
