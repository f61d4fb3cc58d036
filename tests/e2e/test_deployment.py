"""Three holders and a server as processes of their own, with TLS between them; some are killed."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Iterator

import pytest

from pate.aggregators import StableTopK
from tests.e2e.deployment import Deployment
from tests.e2e.federated_kills import attempt, charges, finished
from tests.e2e.federated_run import federated_plan
from tests.e2e.small_run import release_of, released

pytest.importorskip("flwr", reason="Flower is not installed: the extra flower")
pytest.importorskip("cryptography", reason="certificates for the test need it; it comes with Flower")

HOLDERS = 3


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("federation"), HOLDERS, seconds=60) as running:
        yield running


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    plan = federated_plan(StableTopK(selection_scale=2.0, test_std=1.0), HOLDERS)
    return release_of(plan, tmp_path_factory.mktemp("train") / "train")


def test_a_deployment_releases_what_train_does(federation: Deployment, expected: bytes) -> None:
    folder = federation.folder / "whole"
    sent = federation.run(folder)
    assert sent.returncode == 0, sent.stderr
    assert finished(federation, folder, 240), federation.log("link")[-3000:]
    assert released(folder / "release") == expected
    assert charges(folder) == 1


def test_connections_are_encrypted_under_the_authority_of_the_federation(federation: Deployment) -> None:
    known = ssl.create_default_context(cafile=str(federation.folder / "ca.pem"))
    with (
        socket.create_connection(("127.0.0.1", federation.port), timeout=10) as plain,
        known.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        assert secured.version() in ("TLSv1.2", "TLSv1.3")
    stranger = ssl.create_default_context()
    with (
        socket.create_connection(("127.0.0.1", federation.port), timeout=10) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        stranger.wrap_socket(plain, server_hostname="localhost")


@pytest.mark.parametrize("victim", ["holder's app", "server's app"])
def test_what_is_killed_ends_with_the_same_release_and_one_charge(
    victim: str, federation: Deployment, expected: bytes
) -> None:
    folder = federation.folder / f"killed-{victim.split(chr(39))[0]}"
    attempt(federation, folder, random.Random(3), victim, 20.0)
    assert released(folder / "release") == expected
    assert charges(folder) == 1
