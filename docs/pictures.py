"""Code of pages and a quickstart run -> pictures of them, and their age.

`docs/figures.py` draws the pictures. Beside each it notes a digest of the code
that it shows: `make docs` fails if that has changed since, without a browser.
"""

import ast
import contextlib
import hashlib
import io
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "figures"
DIGESTS = FOLDER / "data" / "digests.json"
_PAGE = "bert_tf/contrib/apps/page"
_REPORT = "bert_tf/contrib/apps/report"
# Picture -> what it shows.
SOURCES = {
    "explore.png": [f"{_PAGE}/{x}.py" for x in ("explorer", "views")]
    + [f"{_PAGE}/marked_text.py"],
    "quickstart.png": ["run_scripts/quickstart/page.py"]
    + [f"{_REPORT}/{x}.py" for x in ("figures", "page")],
    "report.png": [f"{_REPORT}/{x}.py" for x in ("figures", "page", "verdict")],
} | {
    f"{name}.svg": ["docs/figures.py"]
    for name in ("attention_masks", "learning_curves", "masking")
    + ("packed_row", "rooms")
}
_TEXT = "Parameters to pass to the fit method of the underlying classifier."
_SECONDS = 120  # Waited for a page.


def digest(name: str) -> str:
    """Returns the digest of the code of a picture, in hexadecimal.

    It is that of names, constants and structure: comments, docstrings and the
    form of the code change nothing that is seen.
    """
    found = hashlib.sha256()
    for path in SOURCES[name]:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and _is_text(body[0]):
                del body[0]
        for node in ast.walk(tree):
            fields = [
                repr(value)
                for _, value in ast.iter_fields(node)
                if not isinstance(value, list | ast.AST)
            ]
            line = " ".join([type(node).__name__, *fields])
            found.update(f"{line}\n".encode())
    return found.hexdigest()[:16]


def _is_text(node: ast.AST) -> bool:
    """Returns whether a statement is a docstring."""
    value = getattr(node, "value", None)
    return isinstance(node, ast.Expr) and isinstance(value, ast.Constant)


def note(name: str) -> None:
    """Writes the digest of a picture that was just drawn."""
    digests = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    digests[name] = digest(name)
    text = json.dumps(dict(sorted(digests.items())), indent=2)
    DIGESTS.write_text(text + "\n", encoding="utf-8")


def check() -> None:
    """Raises ValueError if the code of a picture has changed since."""
    digests = json.loads(DIGESTS.read_text(encoding="utf-8"))
    old = [name for name in SOURCES if digests.get(name) != digest(name)]
    if old:
        raise ValueError(
            f"docs/figures has {', '.join(old)} of earlier code. Draw again: "
            "python docs/figures.py, and for a .png with "
            "--quickstart_dir=runs/quickstart (make quickstart)."
        )


def photograph(quickstart_dir: str) -> None:
    """Draws the pages; needs Chromium, Selenium, Gradio."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    # GitHub shows about 900 pixels; with half of them more, letters are sharp.
    scale = "force-device-scale-factor=1.5"
    for word in ("headless=new", "hide-scrollbars", "no-sandbox", scale):
        options.add_argument(f"--{word}")
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory())
        )
        (folder / "runs").mkdir()
        (folder / "runs" / "quickstart").symlink_to(
            os.path.abspath(quickstart_dir)
        )
        driver = webdriver.Chrome(options, service)
        stack.callback(driver.quit)

        def start(script, *flags):
            command = [sys.executable, "-m", f"run_scripts.{script}", *flags]
            paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
            return subprocess.Popen(command, cwd=folder, env=os.environ | paths)

        def save(name, height):
            driver.set_window_size(900, height)
            time.sleep(1)
            save_small(driver.get_screenshot_as_png(), name)

        driver.get((folder / "runs" / "quickstart" / "page.html").as_uri())
        save("quickstart.png", 1400)

        run = "runs/quickstart/fine_tuned"
        flags = f"--run_dirs={run}", "--output_file=report.html"
        assert start("report", *flags).wait() == 0
        driver.get((folder / "report.html").as_uri())
        save("report.png", 1200)

        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        page = start("explore", f"--model={run}", f"--port={port}")
        stack.callback(page.wait)
        stack.callback(page.terminate)

        def wait_for(css):
            """Returns the first element that is shown."""
            end = time.monotonic() + _SECONDS
            while True:
                for element in driver.find_elements("css selector", css):
                    if element.is_displayed():
                        return element
                assert time.monotonic() < end, f"no {css}"
                time.sleep(0.2)

        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            assert page.poll() is None, "no page"
            time.sleep(0.2)
        driver.get(f"http://127.0.0.1:{port}/")
        box = wait_for("[id$='-0'] textarea")
        box.clear()
        box.send_keys(_TEXT)
        wait_for("[id$='-run']").click()
        wait_for(".result")
        save("explore.png", 680)


def save_small(png: bytes, name: str) -> None:
    """Writes a picture with 64 colors, a third of the bytes; notes its code."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        colors = image.convert("RGB").quantize(64)
        colors.save(FOLDER / name, optimize=True)
    note(name)
