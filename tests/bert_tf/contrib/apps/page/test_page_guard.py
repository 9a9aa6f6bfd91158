"""Requests that the page refuses: foreign hosts, foreign pages, files."""

import asyncio

import pytest

from bert_tf.contrib.apps.page import page_guard

OWN = "127.0.0.1:7860"


async def page(scope, receive, send):
    await send({"type": "page", "headers": []})


def ask(guard, path="/gradio_api/queue/join", kind="http", **headers):
    """Returns the type of the first message, the status, and the body."""
    sent = []

    async def send(message):
        sent.append(message)

    headers = {"host": OWN} | headers
    encoded = [
        (name.replace("_", "-").encode(), value.encode())
        for name, value in headers.items()
    ]
    scope = {"type": kind, "path": path, "headers": encoded}
    asyncio.run(guard(scope, None, send))
    names = [name for x in sent for name, _ in x.get("headers", ())]
    assert b"access-control-allow-origin" not in names
    return sent[0]["type"], sent[0].get("status"), sent[-1].get("body", b"")


@pytest.fixture
def guard():
    return page_guard.Guard(page, "127.0.0.1")


ANSWERED = ("page", None, b"")


def is_refused(answer, reason):
    kind, status, body = answer
    assert reason in body.decode()
    return (kind, status) == ("http.response.start", 403)


@pytest.mark.parametrize(
    "host",
    [OWN, "localhost:7860", "LOCALHOST", "[::1]:7860", "127.0.0.1"],
)
def test_names_of_this_machine_are_answered(guard, host):
    assert ask(guard, host=host) == ANSWERED
    assert ask(guard, host=host, origin=f"http://{host}") == ANSWERED


@pytest.mark.parametrize("origin", ["null", "http://", "x"])
def test_an_empty_allowed_name_opens_nothing(origin):
    """A sandboxed frame of any page has the origin null."""
    guard = page_guard.Guard(page, "127.0.0.1", ("box", ""))
    assert is_refused(ask(guard, host=OWN, origin=origin), "is not this page")
    assert is_refused(ask(guard, host=""), "is not among --allowed_hosts")


@pytest.mark.parametrize("name", ["", "box:80", "http://box", "box/a", "a b/"])
def test_an_allowed_name_is_a_name_alone(name):
    with pytest.raises(ValueError, match="give names or addresses of hosts al"):
        page_guard.check_allowed(["box", "10.0.0.7", "fe80::1", name])
    page_guard.check_allowed(["Box.example", "10.0.0.7", "fe80::1"])


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example:7860", "10.0.0.7:7860", "127.0.0.1.evil.example", ""),
        *("evil.example#@127.0.0.1", "[", "localhost.", "0"),
    ],
)
def test_a_foreign_host_is_refused_with_its_own_origin_too(guard, host):
    assert is_refused(ask(guard, host=host), "is not among --allowed_hosts")
    answer = ask(guard, host=host, origin=f"http://{host}")
    assert is_refused(answer, "is not among --allowed_hosts")
    message, *_ = ask(guard, kind="websocket", host=host)
    assert message == "websocket.close"


@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "null", "", "http://127.0.0.1:3000"),
        *("http://localhost:7860", "http://127.0.0.1:7860.evil.example"),
    ],
)
def test_a_foreign_page_is_refused(guard, origin):
    assert is_refused(ask(guard, origin=origin), "is not this page")


@pytest.mark.parametrize(
    "path",
    [
        *("/gradio_api/upload", "/upload", "/gradio_api/upload/"),
        "/gradio_api/process_recording",
    ],
)
def test_files_are_refused(guard, path):
    assert is_refused(ask(guard, path), "takes no files")
    answer = ask(guard, "/", content_type="Multipart/form-data; boundary=x")
    assert is_refused(answer, "takes no files")


def test_large_requests_and_those_of_unknown_size_are_refused(guard):
    most = page_guard.MAX_BYTES
    assert ask(guard, content_length=str(most)) == ANSWERED
    for headers in (
        {"content_length": str(most + 1)},
        {"content_length": "-1"},
        {"transfer_encoding": "chunked"},
    ):
        assert is_refused(ask(guard, **headers), f"{most} bytes at most")


def test_an_open_page_is_asked_for_by_address_or_allowed_name():
    guard = page_guard.Guard(page, "0.0.0.0", ["Box.example"])
    for host in ("10.0.0.7:7860", "[fe80::1]:7860", "box.example", OWN):
        assert ask(guard, host=host, origin=f"http://{host}") == ANSWERED
    # A proxy of this name asks by another one.
    assert ask(guard, origin="https://box.example") == ANSWERED
    assert is_refused(ask(guard, host="evil.example"), "--allowed_hosts")
    answer = ask(guard, host="10.0.0.7", origin="http://10.0.0.8")
    assert is_refused(answer, "is not this page")


def test_what_is_no_request_is_passed_on(guard):
    assert ask(guard, kind="lifespan", host="evil.example") == ANSWERED
