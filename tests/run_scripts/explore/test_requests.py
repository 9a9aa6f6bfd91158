"""bert-explore over HTTP, without a browser: refusals, and wrong values.

It needs the extra `explore`: `make test-explore`.
"""

import contextlib
import http.client
import json
import signal
import socket

import exports
import pytest
import run_processes

pytest.importorskip("gradio", reason="needs Gradio: `make test-explore`")

pytestmark = pytest.mark.slow
SECONDS = 120


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """(port of a page, file of its log)."""
    root = tmp_path_factory.mktemp("explore")
    model = exports.make_model("classification", num_hidden_layers=2)
    folder = root / "reviews <b>" / "best"
    exports.save_model(model, "classification", folder, num_texts=1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    words = f"--model={folder}", f"--port={port}"
    with run_processes.training(
        words, root / "log", script="run_scripts.explore"
    ) as started:
        address = f"open http://127.0.0.1:{port}"
        started.wait_until(lambda: address in started.printed(), SECONDS)
        assert address in started.printed(), started.printed()
        yield port, root / "log"
        started.send(signal.SIGTERM)
        assert started.wait(SECONDS) == 75  # Stopped by a signal.
        assert "Traceback" not in started.printed()


def request(port, method, path, body=None, **headers):
    """Returns the status, headers and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {name.replace("_", "-"): x for name, x in headers.items()}
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


def ask(port, name, *values):
    """Returns what a function of the page returns for some values."""
    status, _, text = request(
        port,
        "POST",
        f"/gradio_api/run/{name}",
        json.dumps({"data": values, "session_hash": "test"}),
        Content_Type="application/json",
        Origin=f"http://127.0.0.1:{port}",
    )
    assert status == 200, text
    return json.loads(text)["data"]


def test_uploads_are_refused_from_the_page_too(page):
    port, _ = page
    for path in ("/gradio_api/upload", "/upload"):
        status, headers, text = request(
            port,
            "POST",
            path,
            b"x" * 100_000,
            Content_Type="multipart/form-data; boundary=x",
            Origin=f"http://127.0.0.1:{port}",
        )
        assert (status, text) == (403, "This page takes no files.\n")
        assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_foreign_hosts_and_pages_are_refused_without_permission(page, method):
    port, _ = page
    for host in (f"127.0.0.1:{port}", f"evil.example:{port}"):
        status, headers, _ = request(
            port,
            method,
            "/config",
            Host=host,
            Origin=f"http://evil.example:{port}",
            Access_Control_Request_Method="POST",
        )
        assert status == 403
        assert "Access-Control-Allow-Origin" not in headers


def test_the_heading_and_the_title_name_the_run(page):
    status, _, text = request(page[0], "GET", "/config")
    config = json.loads(text)
    assert status == 200 and config["title"] == "reviews <b> - bert-explore"
    shown = str(config["components"])
    assert "<h2>reviews &lt;b&gt;</h2>" in shown
    # It takes single texts.
    assert "Second text" not in shown


def test_a_wrong_text_is_a_message_and_no_stack(page):
    port, log = page
    assert "is empty" in ask(port, "partial", None)[0]
    assert "Traceback" not in log.read_text()
