"""The address of the page, and what is missing; see tests/run_scripts."""

import os
import socket
import sys

import pytest

from bert_tf.prediction import explorer
from run_scripts.explore import page


def test_a_port_in_use_is_one_clear_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # Before anything is loaded: there is no model.
        with pytest.raises(ValueError) as error:
            page.main(["explore", f"--model={tmp_path}", f"--port={port}"])
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


class Gradio:
    """Stands in for the module: its themes are not looked at."""

    class themes:
        Default = dict


class Page:
    """Stands in for gradio.Blocks."""

    def launch(self, **settings):
        self.settings = settings


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_other_hosts_need_a_flag_and_cause_a_warning(monkeypatch, caplog, host):
    shown = Page()
    monkeypatch.setattr("os.environ", {"no_proxy": "other"})
    monkeypatch.setattr(explorer, "_import_gradio", lambda: Gradio)
    monkeypatch.setattr(explorer, "make_page", lambda *_: shown)
    monkeypatch.setattr("bert_tf.loading.load", lambda path: (None, None))
    monkeypatch.setattr("bert_tf.prediction.views.Views", lambda *_: None)

    def wait(event):
        raise KeyboardInterrupt

    monkeypatch.setattr("threading.Event.wait", wait)
    port = _free_port()
    with (
        caplog.at_level("INFO", logger="absl"),
        pytest.raises(KeyboardInterrupt),
    ):
        explorer.explore("model", host, port)
    assert shown.settings["share"] is False
    assert shown.settings["server_name"] == host
    assert f"open http://{host}:{port}" in caplog.text
    assert os.environ["no_proxy"] == f"other,127.0.0.1,localhost,{host}"
    assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
    is_open = host == "0.0.0.0"
    assert ("everybody in the network" in caplog.text) == is_open
