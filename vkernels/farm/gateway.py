"""The farm's door for users: JSON over HTTP, each request with a user's name and token; and a page for browsers.

Ray's token opens the whole cluster, so machines have it and users do not. They have a token each, which opens this.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from vkernels.ir.errors import Error, OptionError

from .broker import BROKER
from .head import Head
from .page import status_page
from .records import MAX_BODY, Chosen, Named, Submission, decoded
from .store import User

_log = logging.getLogger(__name__)

SOCKET_SECONDS = 30.0
JSON = "application/json"
"""What is posted must say that it is this. Forms of other web pages cannot, and a browser adds its user's token."""


class Gateway(ThreadingHTTPServer):
    """Serves a head. `port` 0: any free one. Raises `OSError` for an address that cannot be used."""

    daemon_threads = True

    def __init__(self, head: Head, host: str, port: int):
        self.head = head
        super().__init__((host, port), _Handler)

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"{self.server_address[0]!s}:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Gateway
    timeout = SOCKET_SECONDS
    server_version, sys_version = "vkernels", ""

    def do_GET(self) -> None:
        self._serve(
            {"/": self._page, "/v1/status": lambda user: self.server.head.status(), "/v1/job": self._job}, body=False
        )

    def do_POST(self) -> None:
        self._serve(
            {"/v1/submit": self._submit, "/v1/cancel": self._cancel, "/v1/stop": self._stop, "/v1/user": self._user},
            body=True,
        )

    def _serve(self, known: dict[str, Callable[[User], Any]], body: bool) -> None:
        path, _, self.query = self.path.partition("?")
        try:
            size = int(self.headers.get("Content-Length") or 0)
            user = self._authenticated()
            if user is None:
                return self._refuse(401, "this farm does not know that user and token", size)
            if not 0 <= size <= MAX_BODY:
                return self._refuse(413, f"more than {MAX_BODY} bytes", size)
            if body and self.headers.get_content_type() != JSON:
                return self._refuse(415, f"expected {JSON}", size)
            if path not in known:
                return self._refuse(404, f"there is no {path[:100]}", size)
            self.body = self.rfile.read(size) if body else b""
            self._send(200, known[path](user))
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except Error as error:
            self._send(400, {"error": str(error)})
        except ValueError as error:
            self._send(400, {"error": f"the request cannot be read: {error}"})
        except Exception:
            _log.exception("%s failed", path)
            self._send(500, {"error": "the farm failed to answer; its log says why"})

    def _authenticated(self) -> User | None:
        kind, _, value = (self.headers.get("Authorization") or "").partition(" ")
        try:
            name, colon, token = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return self.server.head.store.user(name, token) if kind == "Basic" and colon else None

    def _refuse(self, code: int, why: str, size: int) -> None:
        """Answer after reading past the body, within limits: a client that still sends would not see the answer."""
        left = min(max(0, size), MAX_BODY)
        while left and (read := len(self.rfile.read(min(left, 1 << 16)))):
            left -= read
        self._send(code, {"error": why})

    def _send(self, code: int, answer: Any) -> None:
        is_page = isinstance(answer, str)
        data = answer.encode() if is_page else json.dumps(answer).encode()
        self.send_response(code)
        if code == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="vkernels farm"')
        self.send_header("Content-Type", "text/html; charset=utf-8" if is_page else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug(format, *args)

    # What can be asked for

    def _page(self, user: User) -> str:
        return status_page(self.server.head.status())

    def _job(self, user: User) -> Any:
        return self.server.head.job(int(self.query.removeprefix("number=")))

    def _submit(self, user: User) -> Any:
        return {"number": self.server.head.submit(user, decoded(self.body, Submission, "the submission"))}

    def _cancel(self, user: User) -> Any:
        self.server.head.cancel(user, decoded(self.body, Chosen, "the request").number)
        return {}

    def _stop(self, user: User) -> Any:
        _must_be_admin(user)
        self.server.head.stop()
        return {}

    def _user(self, user: User) -> Any:
        _must_be_admin(user)
        name = decoded(self.body, Named, "the request").name
        if name == BROKER:
            raise OptionError(f"{BROKER} is the farm itself: choose another name")
        if name == user.name:
            raise OptionError(f"{name} started the farm, and would lose its rights: choose another name")
        return {"name": name, "token": self.server.head.store.add_user(name)}


def _must_be_admin(user: User) -> None:
    if not user.is_admin:
        raise OptionError(f"{user.name} may not do this: only who started the farm may")
