"""Model folder -> a page in the browser that asks the model.

Gradio draws the text boxes and calls the functions of `views`. The page loads
nothing from other hosts, and nothing is sent to them.
"""

import errno
import functools
import html
import os
import socket
import threading
from collections.abc import Callable

from absl import logging

from bert_tf import loading
from bert_tf.prediction import attention_maps, marked_text, views
from tfrecords import libraries

_LOOPBACK = ("127.0.0.1", "localhost")


def explore(model: str, host: str, port: int) -> None:
    """Shows the page until a signal stops the process.

    Args:
      model: path of a model, as for `bert_tf.load`.
      host: address to listen on.
      port: port to listen on.

    Raises:
      ValueError: if Gradio is not installed, the address is in use or wrong,
        or there is no model with a vocabulary.
    """
    check_address(host, port)
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    # Gradio asks its own server whether it answers: not through a proxy.
    for name in ("NO_PROXY", "no_proxy"):
        known = os.environ.get(name, "")
        names = (known, *_LOOPBACK, host)
        os.environ[name] = ",".join(filter(None, names))
    gradio = _import_gradio()
    page = make_page(views.Views(*loading.load(model)), model)
    check_address(host, port)  # Loading takes a while.
    if host not in _LOOPBACK:
        logging.warning(
            "--host=%s: everybody in the network can use this page, without a "
            "password",
            host,
        )
    page.launch(
        server_name=host,
        server_port=port,
        share=False,
        ssr_mode=False,
        quiet=True,
        footer_links=[],
        theme=gradio.themes.Default(
            primary_hue="blue",
            font=["system-ui", "sans-serif"],
            font_mono=["ui-monospace", "monospace"],
        ),
        prevent_thread_lock=True,
    )
    logging.info("open http://%s:%d  (Ctrl-C ends)", host, port)
    threading.Event().wait()  # The server's threads end with the process.


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
        import matplotlib  # noqa: F401  For the images of attention.
    return gradio


def make_page(found, source: str):
    """Returns the page, a gradio.Blocks.

    Args:
      found: `views.Views` of the model.
      source: where the model is from, to be shown.
    """
    gradio = _import_gradio()
    config = found.model.config
    with gradio.Blocks(title="bert-explore", analytics_enabled=False) as page:
        gradio.HTML(
            f"<h2>{type(found.model).__name__}</h2>"
            f"<p>{html.escape(source)}: {config.num_hidden_layers} layers, "
            f"hidden size {config.hidden_size}, "
            f"{config.num_attention_heads} heads</p>"
        )
        if found.untrained:
            gradio.HTML(marked_text.warn(found.untrained), elem_id="untrained")
        for view in found.find():
            with gradio.Tab(view.title):
                _add_view(gradio, view)
        with gradio.Tab("Attention"):
            _add_attention(gradio, found)
    return page


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
        with gradio.Column():
            result = gradio.HTML(elem_id=f"{view.name}-result")
    button.click(functools.partial(show, view.function), boxes, result)


def show(function: Callable[..., str], *texts: str) -> str:
    """Returns the HTML of a view, or the message of its error."""
    try:
        return marked_text.boxed(function(*texts))
    except ValueError as error:
        return marked_text.warn(str(error))


def _add_attention(gradio, found) -> None:
    """Adds the tab that draws the attention of each layer and head."""
    config = found.model.config
    attention = gradio.State()
    with gradio.Row(equal_height=True):
        first = gradio.Textbox(
            "The cat sat by the door.",
            label="Text",
            scale=4,
            elem_id="attention-0",
        )
        second = gradio.Textbox(
            label="Second text", scale=4, elem_id="attention-1"
        )
        layer, head = (
            gradio.Dropdown(
                list(range(size)),
                value=0,
                label=name,
                min_width=80,
                elem_id=f"attention-{name.lower()}",
            )
            for name, size in (
                ("Layer", config.num_hidden_layers),
                ("Head", config.num_attention_heads),
            )
        )
        button = gradio.Button(
            "Draw", variant="primary", min_width=80, elem_id="attention-run"
        )
    with gradio.Row():
        large = gradio.HTML(elem_id="attention-head")
        grid = gradio.HTML(elem_id="attention-all")

    def draw(text, other, layer, head):
        try:
            result, note = found.attend(text, other)
        except ValueError as error:
            return None, marked_text.warn(str(error)), ""
        return (
            result,
            attention_maps.draw_head(result, layer, head),
            note + attention_maps.draw_all(result),
        )

    button.click(draw, [first, second, layer, head], [attention, large, grid])
    for chosen in (layer, head):
        chosen.change(_draw_head, [attention, layer, head], large)


def _draw_head(attention, layer: int, head: int) -> str:
    """Returns the drawing of another head; "" before the first text."""
    if attention is None:
        return ""
    return attention_maps.draw_head(attention, layer, head)
