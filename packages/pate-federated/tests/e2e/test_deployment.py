"""Three holders and a server run as processes with TLS between them, and some processes are killed."""

import os
import shutil
import signal
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from small_federation.deployment import Deployment, connected
from small_federation.stages import deployed_plan
from tests.e2e.small_run import charges_beside, release_bytes_of_run, run_until_released

pytest.importorskip("flwr", reason="Flower is not installed: the extra flower")
pytest.importorskip(
    "cryptography", reason="certificates for the test need it; it comes with Flower"
)

NUM_HOLDERS = 3
SUBMISSIONS = 6


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Starts a server and three holders as processes, and ends them after the module's tests."""
    with Deployment(tmp_path_factory.mktemp("federation"), NUM_HOLDERS, seconds=60) as running:
        yield running


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Returns the bytes of the release that `train` makes of the same plan in one process."""
    return run_until_released(
        deployed_plan(NUM_HOLDERS), folder=tmp_path_factory.mktemp("train") / "train"
    )


def send(federation: Deployment, server_folder: Path) -> None:
    """Submits the app with `flwr run`; fails unless the command succeeds."""
    sent = federation.run(server_folder)
    assert sent.returncode == 0, sent.stderr


def finished(
    federation: Deployment, server_folder: Path, seconds: float, *, seen: bool = False
) -> bool:
    """Waits for the release, and returns whether it is complete.

    Returns False after `seconds`, or as soon as the server's app was seen running and has ended without a release.

    Args:
        federation: the running processes.
        server_folder: the folder of the server, which has the release.
        seconds: the longest time to wait.
        seen: whether the server's app was already seen running.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if (server_folder / "release" / "manifest.json").exists():
            return True
        running = bool(federation.process_numbers_of_apps(federation.link_process))
        if seen and not running:
            time.sleep(1)
            return (server_folder / "release" / "manifest.json").exists()
        seen |= running
        time.sleep(0.5)
    return False


def test_deployment_releases_the_same_bytes_as_pate_train(
    federation: Deployment, expected: bytes
) -> None:
    """Three holders and a server in processes of their own make the same release as `train`, with one charge."""
    server_folder = federation.folder / "whole"
    send(federation, server_folder)
    done = finished(federation, server_folder, seconds=240)
    assert done, federation.log(process_name="link")[-3000:]
    assert release_bytes_of_run(server_folder / "release") == expected
    assert len(charges_beside(server_folder / "release")) == 1


def test_connections_are_encrypted_under_the_authority_of_the_federation(
    federation: Deployment,
) -> None:
    """A client that trusts the federation's authority gets TLS 1.2 or 1.3.

    A client with the system's authorities refuses the certificate.
    """
    tls_context = ssl.create_default_context(cafile=str(federation.folder / "ca.pem"))
    with (
        connected(federation.port) as plain,
        tls_context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        assert secured.version() in ("TLSv1.2", "TLSv1.3")
    with connected(federation.port) as plain, pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")


@pytest.mark.parametrize("victim", ["holder", "server"])
def test_a_killed_app_ends_with_the_same_and_one_charge(
    victim: str, federation: Deployment, expected: bytes
) -> None:
    """If a holder's or the server's app is killed and started again until it finishes, the release is that of `train`.

    The ledger has one charge. A start in between may be refused.
    """
    server_folder = federation.folder / f"killed-{victim}"
    shutil.rmtree(federation.folder / "holders", ignore_errors=True)
    send(federation, server_folder)
    victim_process = federation.link_process if victim == "server" else federation.node_processes[1]
    until = time.monotonic() + 60
    while not federation.process_numbers_of_apps(victim_process) and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(2)
    for number in federation.process_numbers_of_apps(victim_process):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    done = finished(
        federation, server_folder, seconds=2 * federation.seconds + 60, seen=victim == "server"
    )
    for _ in range(SUBMISSIONS):
        if done:
            break
        assert len(charges_beside(server_folder / "release")) <= 1
        federation.run(server_folder)
        done = finished(federation, server_folder, seconds=2 * federation.seconds + 60)
    assert done, federation.log(process_name="link")[-3000:]
    assert release_bytes_of_run(server_folder / "release") == expected
    assert len(charges_beside(server_folder / "release")) == 1
