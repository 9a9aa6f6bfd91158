"""The address of the page, and what is missing; see tests/run_scripts."""

import os
import socket
import sys

import pytest

from bert_tf.contrib.apps.page import explorer, marked_text
from run_scripts import explore


def test_a_port_in_use_is_one_clear_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # Before anything is loaded: there is no model.
        with pytest.raises(ValueError) as error:
            explore.main(["explore", f"--model={tmp_path}", f"--port={port}"])
    assert str(error.value) == (
        f"--host=127.0.0.1 --port={port} is in use. Give another port, such as "
        f"--port={port + 1}."
    )
    explorer.check_address("127.0.0.1", port)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_refused(host):
    with pytest.raises(ValueError, match=f"--host={host} .*Give another"):
        explorer.check_address(host, 7860)


def test_without_gradio_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("os.environ", dict(os.environ))
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(ValueError, match=r"pip install 'bert_tf\[explore\]'"):
        explorer.explore(str(tmp_path), "127.0.0.1", _free_port())


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_other_hosts_need_a_flag_and_cause_a_warning(monkeypatch, caplog, host):
    served = []
    monkeypatch.setattr("os.environ", {})
    monkeypatch.setattr(explorer, "_import_gradio", lambda: None)
    monkeypatch.setattr(explorer, "make_page", lambda *_: "page")
    monkeypatch.setattr(explorer, "make_app", lambda _, page, *__: page)
    monkeypatch.setattr(explorer, "serve", lambda *x: served.append(x))
    monkeypatch.setattr(
        "bert_tf.checkpoint.keras_models.load", lambda *_, **__: (None, None)
    )
    monkeypatch.setattr(
        "bert_tf.contrib.apps.page.views.Views", lambda *_: None
    )

    def wait(event):
        raise KeyboardInterrupt

    monkeypatch.setattr("threading.Event.wait", wait)
    port = _free_port()
    words = "--model=model", f"--host={host}", f"--port={port}"
    with (
        caplog.at_level("INFO", logger="absl"),
        pytest.raises(KeyboardInterrupt),
    ):
        hosts = "--allowed_hosts=box.example,10.0.0.7"
        explore.main(["explore", *words, hosts])
    ((guard, *address),) = served
    assert (guard.app, guard.is_open) == ("page", host == "0.0.0.0")
    assert {"box.example", "10.0.0.7", "localhost", host} <= guard.hosts
    assert address == [host, port]
    assert f"open http://{host}:{port}" in caplog.text
    assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert os.environ["GRADIO_RUN_HISTORY"] == "False"
    assert ("everybody in the network" in caplog.text) == guard.is_open


@pytest.mark.parametrize(
    ("source", "name"),
    [
        *(("runs/sst-2", "sst-2"), ("runs/sst-2/", "sst-2")),
        *(("runs/sst-2/best", "sst-2"), ("best", "parent")),
        *(("runs/sst-2/checkpoints/70", "sst-2"), (".", "parent")),
        *(("gs://bucket/runs/a/best/", "a"), ("uncased_L-2", "uncased_L-2")),
    ],
)
def test_the_name_of_a_page_is_that_of_the_run(
    monkeypatch, tmp_path, source, name
):
    (tmp_path / "parent").mkdir()
    monkeypatch.chdir(tmp_path / "parent")
    assert explorer.name_of(source) == name


def test_a_text_that_is_null_is_empty():
    shown = explorer.show(lambda *x: "&lt;&gt;".join(x), None, 1)
    assert shown == marked_text.boxed("&lt;&gt;1")
