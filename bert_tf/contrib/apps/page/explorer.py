"""Model folder -> web demo, a page in the browser.

Gradio draws the text boxes and calls the functions of `views`. The page loads
nothing from other hosts, and nothing is sent to them.
"""

import errno
import functools
import html
import os
import socket
import threading
import time
from collections.abc import Callable, Collection

from absl import logging

from bert_tf.checkpoint import keras_models, run_models
from bert_tf.contrib.apps.page import marked_text, page_guard, views
from tfrecords import libraries


def explore(
    model: str,
    host: str,
    port: int,
    allowed_hosts: Collection[str] = (),
    *,
    accept_tokenizer_differences: bool = False,
) -> None:
    """Shows the page until a signal stops the process.

    Args:
      model: path of a model, as for `bert_tf.load`.
      host: address to listen on.
      port: port to listen on.
      allowed_hosts: names of the page besides those of this machine, see
        `page_guard.Guard`.
      accept_tokenizer_differences: as for `bert_tf.load`.

    Raises:
      ValueError: if Gradio is not installed, the address is in use or wrong,
        or there is no model with a vocabulary.
    """
    check_address(host, port)
    page_guard.check_allowed(allowed_hosts)
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["GRADIO_RUN_HISTORY"] = "False"  # It would keep the texts.
    gradio = _import_gradio()
    loaded = keras_models.load(
        model, accept_tokenizer_differences=accept_tokenizer_differences
    )
    page = make_page(views.Views(*loaded), model)
    check_address(host, port)  # Loading takes a while.
    if host not in page_guard.LOOPBACK:
        logging.warning(
            "--host=%s: everybody in the network can use this page, without a "
            "password",
            host,
        )
    app = make_app(gradio, page, host, port)
    serve(page_guard.Guard(app, host, allowed_hosts), host, port)
    logging.info("open http://%s:%d  (Ctrl-C ends)", host, port)
    threading.Event().wait()  # The server's thread ends with the process.


def make_app(gradio, page, host: str, port: int):
    """Returns the ASGI application of a page, without a guard."""
    import fastapi

    return gradio.mount_gradio_app(
        fastapi.FastAPI(openapi_url=None),
        page,
        path="/",
        server_name=host,
        server_port=port,
        ssr_mode=False,
        show_error=False,
        footer_links=[],
        theme=gradio.themes.Default(
            primary_hue="blue",
            font=["system-ui", "sans-serif"],
            font_mono=["ui-monospace", "monospace"],
        ),
    )


def serve(app, host: str, port: int) -> threading.Thread:
    """Answers requests in a thread; returns when it has begun.

    Raises:
      ValueError: if the server cannot start.
    """
    import uvicorn

    config = uvicorn.Config(app, host=host, port=port, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise ValueError(f"--host={host} --port={port}: no server started.")
        time.sleep(0.01)
    return thread


def check_address(host: str, port: int) -> None:
    """Raises ValueError if a server cannot listen on an address."""
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        advice = f"({error.strerror or error}). Give another --host or --port."
        if error.errno == errno.EADDRINUSE:
            advice = "is in use. Give another port, such as --port="
            advice += f"{port + 1 if port < 65535 else port - 1}."
        raise ValueError(f"--host={host} --port={port} {advice}") from None


def _import_gradio():
    """Returns the module; raises ValueError if it is not installed."""
    with libraries.extra("explore", "The page"):
        import gradio
    return gradio


def make_page(found, source: str):
    """Returns the page, a gradio.Blocks.

    Args:
      found: `views.Views` of the model.
      source: where the model is from, to be shown.
    """
    gradio = _import_gradio()
    config, name = found.model.config, name_of(source)
    title = f"{name} - bert-explore"
    with gradio.Blocks(title=title, analytics_enabled=False) as page:
        gradio.HTML(
            f"<h2>{html.escape(name)}</h2><p>{type(found.model).__name__}, "
            f"{html.escape(source)}: {config.num_hidden_layers} layers, hidden "
            f"size {config.hidden_size}, {config.num_attention_heads} heads</p>"
        )
        if found.warning:
            gradio.HTML(marked_text.warn(found.warning), elem_id="untrained")
        for view in found.find():
            with gradio.Tab(view.title):
                _add_view(gradio, view)
    return page


def name_of(source: str) -> str:
    """Returns the name of a run, or of another folder of a model."""
    if "://" not in source:  # Not of a store.
        source = os.path.abspath(source)
    parts = source.replace(os.sep, "/").rstrip("/").split("/")
    if parts[-1] == run_models.BEST and len(parts) > 2:
        parts.pop()
    elif parts[-2:-1] == ["checkpoints"] and len(parts) > 3:
        del parts[-2:]
    return parts[-1]


def _add_view(gradio, view) -> None:
    """Adds text boxes, a button and the place of the result."""
    with gradio.Row():
        with gradio.Column():
            gradio.HTML(html.escape(view.help))
            boxes = [
                gradio.Textbox(
                    input.example,
                    label=input.label,
                    lines=input.lines,
                    elem_id=f"{view.name}-{i}",
                )
                for i, input in enumerate(view.inputs)
            ]
            button = gradio.Button(
                view.title, variant="primary", elem_id=f"{view.name}-run"
            )
        with gradio.Column(scale=view.width):
            result = gradio.HTML(elem_id=f"{view.name}-result")
    button.click(functools.partial(show, view.function), boxes, result)


def show(function: Callable[..., str], *texts: str | None) -> str:
    """Returns the HTML of a view, or the message of its error."""
    try:
        return marked_text.boxed(function(*map(_text, texts)))
    except ValueError as error:
        return marked_text.warn(str(error))


def _text(value) -> str:
    """Returns a text; programs may send null."""
    return "" if value is None else str(value)
