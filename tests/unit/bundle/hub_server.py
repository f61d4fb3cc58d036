"""A stand-in for the Hugging Face Hub: a server on this machine that keeps the repositories of models in memory."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Repositories = dict[str, dict[str, bytes]]
"""The content of each file by its path, for each repository `user/name`."""


@contextmanager
def hub_server(repositories: Repositories) -> Iterator[str]:
    """Serves repositories during a `with` block, and yields the address, for HF_ENDPOINT.

    Uploads change `repositories`.
    """

    class Handler(_Handler):
        models = repositories

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """A handler that answers the requests by which huggingface_hub reads and writes a repository."""

    models: Repositories

    def do_GET(self) -> None:
        self._send_file_or_list()

    def do_HEAD(self) -> None:
        self._send_file_or_list()

    def do_POST(self) -> None:
        """Creates a repository, accepts the names of files, or stores the files of a commit."""
        request_body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path_parts = self._parts
        if path_parts == ["api", "repos", "create"]:
            repository_request = json.loads(request_body)
            owner = repository_request.get("organization") or "me"
            repository_name = f"{owner}/{repository_request['name'].split('/')[-1]}"
            self.models.setdefault(repository_name, {})
            self._send_json(
                {
                    "url": f"{self._address}/{repository_name}",
                    "id": repository_name,
                    "name": repository_name,
                }
            )
        elif path_parts[-2:-1] == ["preupload"]:
            files = json.loads(request_body)["files"]
            upload_modes = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in files
            ]
            self._send_json({"files": upload_modes})
        elif path_parts[-2:-1] == ["commit"]:
            for commit_line in request_body.decode().splitlines():
                entry = json.loads(commit_line)
                if entry["key"] == "file":
                    uploaded_file = entry["value"]
                    content = base64.b64decode(uploaded_file["content"])
                    self.models["/".join(path_parts[2:4])][uploaded_file["path"]] = content
            commit_url = f"{self._address}/{'/'.join(path_parts[2:4])}/commit/{COMMIT}"
            self._send_json({"success": True, "commitOid": COMMIT, "commitUrl": commit_url})
        else:
            # Other requests, such as the check of a model card, have nothing to complain about.
            self._send_json({"errors": [], "warnings": []})

    def _send_file_or_list(self) -> None:
        """Sends a file of a repository, or the list of the repository's files."""
        path_parts = self._parts
        if path_parts[:2] == ["api", "models"]:
            files = self.models.get("/".join(path_parts[2:4]))
            if files is None:
                self._send_not_found(error_code="RepoNotFound")
            elif path_parts[4:5] == ["tree"]:
                entries = [
                    {
                        "type": "file",
                        "path": path,
                        "size": len(content),
                        "oid": _sha1_digest(content),
                    }
                    for path, content in files.items()
                ]
                self._send_json(entries)
            else:
                siblings = [{"rfilename": path} for path in files]
                self._send_json(
                    {"id": "/".join(path_parts[2:4]), "sha": COMMIT, "siblings": siblings}
                )
        elif path_parts[2:3] == ["resolve"]:
            content = self.models.get("/".join(path_parts[:2]), {}).get("/".join(path_parts[4:]))
            if content is None:
                self._send_not_found(error_code="EntryNotFound")
            else:
                self._send(content)
        else:
            self._send_not_found(error_code="RepoNotFound")

    @property
    def _parts(self) -> list[str]:
        """Returns the parts of the requested path."""
        return self.path.split("?")[0].strip("/").split("/")

    @property
    def _address(self) -> str:
        """Returns the address of this server, as the request names it."""
        return f"http://{self.headers['Host']}"

    def _send_json(self, json_value: Any) -> None:
        """Sends a value as JSON."""
        self._send(json.dumps(json_value).encode(), content_type="application/json")

    def _send_not_found(self, error_code: str) -> None:
        """Sends the status 404 with an error code of the hub."""
        self.send_response(404)
        self.send_header("X-Error-Code", error_code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, content: bytes, content_type: str = "application/octet-stream") -> None:
        """Sends content with the headers from which the client reads size, digest and commit."""
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{_sha1_digest(content)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *_: Any) -> None:
        """Prints nothing, so that requests are answered in silence."""


def _sha1_digest(content: bytes) -> str:
    """Returns the SHA-1 digest of content in hexadecimal digits."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
