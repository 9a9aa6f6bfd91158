r"""Command -> its result, with gs:// on an emulator of Google Cloud Storage.

    python -m tools.gcs_emulator -- python -m run_scripts.run_pretraining \
        --output_dir=gs://bucket/run ...

TensorFlow's client of gs:// has its addresses built in. So the command runs in
Linux namespaces of its own: it sees another /etc/hosts, and no network but that
to the emulator, which keeps objects in memory until the command ends.
"""

import argparse
import datetime
import http.server
import itertools
import json
import os
import pathlib
import re
import shlex
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from typing import NamedTuple

_HOSTS = ("www.googleapis.com", "storage.googleapis.com")
_PAGE_SIZE = 10  # Google's is 1000; with 10, lists have several pages.
# Without a server, connections are refused: there are no credentials.
_METADATA = "metadata.google.internal"
_IN_NAMESPACE = (
    'ip link set lo up && mount --bind "$1" /etc/hosts && shift && exec "$@"'
)


class _Object(NamedTuple):
    data: bytes
    generation: int
    updated: str


class Store:
    """Buckets of objects.

    Args:
      buckets: their names.
    """

    def __init__(self, buckets):
        self.lock = threading.Lock()
        self.buckets = {name: {} for name in buckets}
        self.uploads = {}  # Session -> bucket, name, bytes so far.
        self._generations = itertools.count(1)

    def put(self, bucket: str, name: str, data: bytes) -> dict:
        """Writes an object; returns its description."""
        now = datetime.datetime.now(datetime.timezone.utc)
        updated = now.isoformat(timespec="milliseconds")[:23] + "Z"
        found = _Object(data, next(self._generations), updated)
        self.buckets[bucket][name] = found
        return describe(name, found)

    def list(self, bucket: str, query: dict) -> dict:
        """Returns a page of names, as the JSON of Google's API."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        entries = set()
        for name in filter(
            lambda n: n.startswith(prefix), self.buckets[bucket]
        ):
            head, found, _ = name.removeprefix(prefix).partition(
                delimiter or "\0"
            )
            entries.add(prefix + head + found)
        after = query.get("pageToken", "")
        size = min(int(query.get("maxResults", _PAGE_SIZE)), _PAGE_SIZE)
        left = sorted(entry for entry in entries if entry > after)
        answer = {}
        for entry in left[:size]:
            if delimiter and entry.removeprefix(prefix).endswith(delimiter):
                answer.setdefault("prefixes", []).append(entry)
            else:
                found = describe(entry, self.buckets[bucket][entry])
                answer.setdefault("items", []).append(found)
        if left[size:]:
            answer["nextPageToken"] = left[size - 1]
        return answer


def describe(name: str, found: _Object) -> dict:
    """Returns the JSON for an object; numbers are text, as Google's are."""
    return {
        "name": name,
        "size": str(len(found.data)),
        "generation": str(found.generation),
        "updated": found.updated,
    }


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # A client was killed.
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers the requests that TensorFlow makes."""

    protocol_version = "HTTP/1.1"

    def log_message(self, text, *arguments):
        if self.server.log:
            host = self.headers["Host"].partition(".")[0]
            line = f"{host} {text % arguments}"
            print(line, file=self.server.log, flush=True)

    def _answer(self, code, body=b"", **headers):
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self):
        length = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(length)
        parts = []  # Comes with a length too, which does not count.
        while size := int(self.rfile.readline() or b"-1", 16):
            if size < 0:
                raise ConnectionError("the client was killed")
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _handle(self):
        body = self._body()
        path, _, query = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        parts = [urllib.parse.unquote(part) for part in path[1:].split("/")]
        if self.headers["Host"].startswith("storage."):
            method, parts = self._media, [parts[0], "/".join(parts[1:])]
        elif parts[0] == "session":
            method, parts = self._resume, [parts[1], body]
        elif parts[0] == "upload":
            method, parts = self._upload, [parts[4], query, body]
        else:
            method, parts = self._api, [parts[3], parts[5:], query]
        with self.server.store.lock:
            try:
                method(*parts)
            except KeyError:
                self._answer(404)

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815

    def _media(self, bucket, name):
        data = self.server.store.buckets[bucket][name].data
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"] or "")
        if not asked:
            return self._answer(200, data)
        begin, end = int(asked[1]), int(asked[2]) + 1
        if begin >= len(data):
            return self._answer(416)
        return self._answer(206, data[begin:end])

    def _api(self, bucket, parts, query):
        store = self.server.store
        objects = store.buckets[bucket]
        if not parts and self.path.partition("?")[0].endswith("/o"):
            return self._answer(200, store.list(bucket, query))
        if not parts:
            return self._answer(200, {"name": bucket, "location": "HERE"})
        found = objects[parts[0]]
        if self.command == "DELETE":
            del objects[parts[0]]
            return self._answer(204)
        if parts[1:2] == ["rewriteTo"]:
            resource = store.put(parts[3], parts[5], found.data)
            return self._answer(200, {"done": True, "resource": resource})
        if query.get("alt") == "media":
            return self._media(bucket, parts[0])
        return self._answer(200, describe(parts[0], found))

    def _upload(self, bucket, query, body):
        store, name = self.server.store, query["name"]
        if (
            query.get("ifGenerationMatch") == "0"
            and name in store.buckets[bucket]
        ):
            return self._answer(412)
        if query["uploadType"] == "media":
            return self._answer(200, store.put(bucket, name, body))
        session = str(len(store.uploads))
        store.buckets[bucket]  # KeyError if it is missing.
        store.uploads[session] = [bucket, name, b""]
        return self._answer(
            200, Location=f"https://{_HOSTS[0]}/session/{session}"
        )

    def _resume(self, session, body):
        store = self.server.store
        bucket, name, before = store.uploads[session]
        part = self.headers["Content-Range"] or f"bytes 0-/{len(body)}"
        begin, size = re.fullmatch(
            r"bytes (?:(\d+)-\d*|\*)/(\d+)", part
        ).groups()
        if begin is not None:
            before = before[: int(begin)] + body
            store.uploads[session][2] = before
        if len(before) == int(size):
            return self._answer(200, store.put(bucket, name, before))
        got = {"Range": f"bytes=0-{len(before) - 1}"} if before else {}
        return self._answer(308, **got)


def serve(folder: pathlib.Path, buckets, log) -> None:
    """Answers requests to port 443 in a thread, with the keys in a folder."""
    server = _Server(("127.0.0.1", 443), _Handler)
    server.store, server.log = Store(buckets), log
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()


def make_files(folder: pathlib.Path) -> None:
    """Makes a certificate, its key and a table of hosts."""
    names = ",".join(f"DNS:{host}" for host in _HOSTS)
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=emulator "
        f"-addext subjectAltName={names} -keyout key.pem -out certificate.pem"
    )
    subprocess.run(
        shlex.split(command), cwd=folder, check=True, capture_output=True
    )
    names = ("localhost", os.uname().nodename, *_HOSTS, _METADATA)
    (folder / "hosts").write_text(f"127.0.0.1 {' '.join(names)}\n")


def main() -> int:
    """Returns the exit code of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--buckets", default="bucket", help="separated by commas"
    )
    parser.add_argument("--log", default=os.devnull, help="file for requests")
    parser.add_argument("--inside", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if not options.inside:
        with tempfile.TemporaryDirectory() as name:
            make_files(pathlib.Path(name))
            unshare = ["unshare", "--net", "--mount", "--fork", "--kill-child"]
            if os.getuid():
                unshare.append("--map-root-user")
            inside = ["sh", "-c", _IN_NAMESPACE, "sh", f"{name}/hosts"]
            inside += [sys.executable, "-m", "tools.gcs_emulator"]
            inside += [f"--inside={name}", *sys.argv[1:]]
            return subprocess.run([*unshare, *inside]).returncode
    with open(options.log, "a", encoding="utf-8") as log:
        serve(options.inside, options.buckets.split(","), log)
        environment = os.environ | {
            "CURL_CA_BUNDLE": str(options.inside / "certificate.pem"),
            "NO_GCE_CHECK": "true",
        }
        return subprocess.run(options.command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
