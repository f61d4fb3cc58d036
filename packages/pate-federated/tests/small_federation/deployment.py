"""A federation of processes on this machine: a Flower SuperLink, a SuperNode for each holder, and TLS between them."""

import datetime
import ipaddress
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

TESTS = Path(__file__).resolve().parents[1]
PACKAGE = TESTS.parent
ROOT = PACKAGE.parents[1]
APP = TESTS / "e2e" / "federated_app"


def certificates(folder: Path) -> None:
    """Writes a key and a certificate for localhost into a folder.

    The certificate is its own authority, and valid until tomorrow.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now - day, now + day
    )
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    signed = builder.sign(key, hashes.SHA256()).public_bytes(pem)
    for file in ("ca.pem", "server.pem"):
        (folder / file).write_bytes(signed)
    (folder / "server.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    )


def free_port() -> int:
    """Returns a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Deployment:
    """The processes of a federation, with holders named 1, 2, ...

    When the context is left, all of its processes are ended.
    """

    def __init__(self, folder: Path, num_holders: int, *, seconds: float) -> None:
        self.folder = folder
        self.num_holders = num_holders
        self.seconds = seconds
        self.port = free_port()
        self.home = folder / "flwr"
        self.node_processes: dict[int, subprocess.Popen[bytes]] = {}
        self.link_process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        certificates(self.folder)
        lines = f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\n'
        (self.home / "config.toml").write_text(
            f'{lines}root-certificates = "{self.folder / "ca.pem"}"\n'
        )
        options = [
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--disable-runtime-dependency-installation",
            "--database",
            str(self.folder / "link.db"),
            "--ssl-ca-certfile",
            "ca.pem",
            "--ssl-certfile",
            "server.pem",
            "--ssl-keyfile",
            "server.key",
        ]
        self.link_process = self._started("flower-superlink", *options, log="link")
        wait_for_port(self.port, process=self.link_process)
        for holder in range(1, self.num_holders + 1):
            options = [
                "--superlink",
                f"127.0.0.1:{self.port}",
                "--port",
                str(free_port()),
                "--node-config",
                f'holder="{holder}"',
                "--root-certificates",
                "ca.pem",
            ]
            self.node_processes[holder] = self._started(
                "flower-supernode", *options, log=f"node-{holder}"
            )
        return self

    def __exit__(self, *_: object) -> None:
        for process in filter(None, (*self.node_processes.values(), self.link_process)):
            with suppress(ProcessLookupError):
                # it and all that it started: they are one session
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)

    def run(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """Submits the app by `flwr run` with a folder for its release, and returns the command when it has ended."""
        config = f'folder="{folder}" holders={self.num_holders}'
        command = [self._tool("flwr"), "run", str(APP), "here", "--run-config", config]
        return subprocess.run(
            command, cwd=self.folder, env=self._environment(), capture_output=True, text=True
        )

    def process_numbers_of_apps(self, started_process: subprocess.Popen[bytes] | None) -> list[int]:
        """Returns the process numbers of the apps that a SuperLink or SuperNode runs; an empty list for None."""
        if started_process is None:
            return []
        running = list(processes())
        parent = f"--parent-pid\0{started_process.pid}\0".encode()
        sessions = {started_process.pid} | {
            session for _, session, command in running if parent in command
        }
        apps = re.compile(b"flwr-(server|client)app")
        return [
            number
            for number, session, command in running
            if session in sessions and apps.search(command)
        ]

    def log(self, process_name: str) -> str:
        """Returns the text of the log of a process, such as `link` or `node-1`."""
        return (self.folder / f"{process_name}.log").read_text(errors="replace")

    def _started(self, tool: str, *options: str, log: str) -> subprocess.Popen[bytes]:
        """Starts a tool of Flower with these options, and appends its output to a log."""
        with (self.folder / f"{log}.log").open("ab") as out:
            return subprocess.Popen(
                [self._tool(tool), *options],
                cwd=self.folder,
                env=self._environment(),
                start_new_session=True,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    @staticmethod
    def _tool(name: str) -> str:
        """Returns the path of a tool that is installed beside this Python."""
        return str(Path(sys.executable).parent / name)

    def _environment(self) -> dict[str, str]:
        """Returns the environment of the processes: no private variables, and no telemetry."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "HOME", "LANG", "TMPDIR")
        }
        folders = [str(folder) for folder in (ROOT, PACKAGE, TESTS)]
        path = os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])
        settings = {
            "SMALL_HOLDERS": str(self.num_holders),
            "SMALL_SECONDS": str(self.seconds),
            "SMALL_FOLDER": str(self.folder / "holders"),
        }
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_HOME": str(self.home), "OMP_NUM_THREADS": "1"}
        tools = str(Path(sys.executable).parent)
        return (
            environment
            | settings
            | quiet
            | {"PYTHONPATH": path, "PATH": f"{tools}{os.pathsep}{environment.get('PATH', '')}"}
        )


def processes() -> Iterator[tuple[int, int, bytes]]:
    """Yields the number, the session and the command line of each running process."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            state, *fields = (entry / "stat").read_text().rpartition(")")[2].split()
            session = int(fields[2])
            if state != "Z":
                yield int(entry.name), session, (entry / "cmdline").read_bytes()


def connected(port: int) -> socket.socket:
    """Returns an open connection to a port of this machine."""
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def wait_for_port(port: int, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    """Waits until a port accepts connections; fails if the process ends, or after `seconds`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert process.poll() is None, "the SuperLink ended"
        with suppress(OSError), connected(port):
            return
        time.sleep(0.2)
    raise AssertionError("the SuperLink does not listen")
