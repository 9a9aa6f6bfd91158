"""Requests to the page -> only those of the page itself, and without files.

A browser lets every web page send requests to this machine, and a foreign name
can be made to point to it (DNS rebinding). So the name that a request asks for
must be known, and a page of another origin is refused before Gradio, which
would allow it to read the answer.
"""

import ipaddress
import socket
import urllib.parse
from collections.abc import Collection

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Of a request; texts are much shorter.
MAX_BYTES = 4 << 20
# Parts of the paths at which Gradio takes files.
_FILES = ("upload", "process_recording")


def hosts_of(host: str, allowed: Collection[str]) -> set[str]:
    """Returns the names by which the page may be asked for.

    Args:
      host: address to listen on.
      allowed: further names, from --allowed_hosts.
    """
    names = {*LOOPBACK, *filter(None, (host, *allowed))}
    if host not in LOOPBACK:
        names |= {socket.gethostname(), socket.getfqdn()}
    return {name.lower() for name in names}


def check_allowed(allowed: Collection[str]) -> None:
    """Raises ValueError for an entry that is no name or address of a host."""
    for name in allowed:
        is_name = bool(name) and name.lower() == _name_of(f"//{name}")
        if not is_name and not _is_address(name):
            raise ValueError(
                f"--allowed_hosts has {name!r}; give names or addresses of "
                "hosts alone, without a port and http://, such as box.example."
            )


class Guard:
    """An ASGI application around the page.

    Args:
      app: the application of the page.
      host: address that it listens on. If it is not of this machine alone, the
        page may also be asked for by any IP address: no name leads there.
      allowed: further names; pages of these may also ask.
    """

    def __init__(self, app, host: str, allowed: Collection[str] = ()):
        self.app = app
        self.hosts = hosts_of(host, allowed)
        self.allowed = {name.lower() for name in filter(None, allowed)}
        self.is_open = host not in LOOPBACK

    async def __call__(self, scope, receive, send) -> None:
        """Answers a request; a refused one has status 403 and its reason."""
        refusal = ""
        if scope["type"] in ("http", "websocket"):
            refusal = self.refusal(scope)
        if not refusal:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            plain = [(b"content-type", b"text/plain; charset=utf-8")]
            start = {"type": "http.response.start", "status": 403}
            body = {"type": "http.response.body", "body": refusal.encode()}
            await send(start | {"headers": plain})
            await send(body)

    def refusal(self, scope) -> str:
        """Returns why a request is refused, "" if it is not."""
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        host = headers.get("host", "")
        if not self._is_known(host):
            return f"Host {host!r} is not among --allowed_hosts.\n"
        origin = headers.get("origin")
        if origin is not None and not self._is_own(origin, host):
            return f"Origin {origin!r} is not this page.\n"
        parts = scope["path"].split("/")
        kind = headers.get("content-type", "").lower()
        if set(parts) & set(_FILES) or kind.startswith("multipart/"):
            return "This page takes no files.\n"
        length = headers.get("content-length", "0")
        is_short = length.isdecimal() and int(length) <= MAX_BYTES
        if not is_short or "transfer-encoding" in headers:
            return f"A request may have {MAX_BYTES} bytes at most.\n"
        return ""

    def _is_known(self, host: str) -> bool:
        name = _name_of(f"//{host}")
        if name in self.hosts:
            return True
        return self.is_open and _is_address(name)

    def _is_own(self, origin: str, host: str) -> bool:
        """Returns whether an origin is the page, or a page of `allowed`."""
        # "null", the origin of a sandboxed frame, has no name.
        if _name_of(origin) in self.allowed:
            return True
        return origin.partition("://")[2].lower() == host.lower()


def _name_of(address: str) -> str:
    """Returns the name in an address, without port; "" if it is malformed."""
    try:
        return urllib.parse.urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
