"""bert-explore in a real headless browser, with a model of each kind.

It needs the extra `explore`, Selenium and Chromium: `make test-explore`.
"""

import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import time

import exports
import pytest
import run_processes

import bert_tf
from bert_tf.contrib.apps import attributions

REASON = "needs {}, which `make test-explore` installs"
pytest.importorskip("gradio", reason=REASON.format("Gradio"))
webdriver = pytest.importorskip(
    "selenium.webdriver", reason=REASON.format("Selenium")
)
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not BROWSER or not DRIVER:
    pytest.skip(REASON.format("Chromium"), allow_module_level=True)

pytestmark = pytest.mark.slow
SECONDS = 120  # Waited for a page or a result, on a busy machine.
LAYERS, HEADS = 2, 2
HOSTILE = "<script>window.harm = 1</script><img src=x onerror=harm()> cat"
TAGS = ["O", "B-PER", "I-PER"]
# Task -> titles of the tabs.
TABS = {
    "pretraining": ["Fill the mask", "Score", "Compare", "Attention"],
    "classification": ["Classify", "Compare", "Attention"],
    "spans": ["Answer", "Compare", "Attention"],
    "tagging": ["Entities", "Compare", "Attention"],
}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Task -> (folder of its model, port of its page)."""
    root, found = tmp_path_factory.mktemp("explore"), {}
    for task in TABS:
        model = exports.make_model(task, num_hidden_layers=LAYERS)
        more = {"labels": TAGS} if task == "tagging" else {}
        if task == "spans":
            more = {"doc_stride": 4, "max_query_length": 4}
        exports.save_model(model, task, root / task, **more)
        found[task] = (root / task, free_port())
    deadline = time.monotonic() + SECONDS
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(
                run_processes.training(
                    [f"--model={folder}", f"--port={port}"],
                    root / f"{task}.log",
                    script="run_scripts.explore",
                )
            )
            for task, (folder, port) in found.items()
        ]
        for process, (_, port) in zip(processes, found.values(), strict=True):
            address = f"open http://127.0.0.1:{port}"
            while address not in process.printed():
                assert process.code() is None, process.printed()
                assert time.monotonic() < deadline, process.printed()
                time.sleep(0.2)
        yield found
        for process in processes:
            process.send(signal.SIGTERM)
        for process in processes:
            assert process.wait(SECONDS) == 75  # Stopped by a signal.
            assert "Traceback" not in process.printed(), process.printed()


class Browser:
    """A page in a headless Chromium."""

    def __init__(self, driver, port):
        self.driver = driver
        self.host = f"http://127.0.0.1:{port}/"
        driver.get(self.host)
        self.until(lambda: self.find("button[role=tab]"))

    def find(self, css):
        return self.driver.find_elements("css selector", css)

    def until(self, condition):
        """Returns the first result of `condition` that is not empty."""
        deadline = time.monotonic() + SECONDS
        while not (result := condition()):
            assert time.monotonic() < deadline, "no result"
            time.sleep(0.1)
        return result

    def tabs(self):
        """Title -> tab."""
        return {x.text: x for x in self.find("button[role=tab]") if x.text}

    def type(self, name, text):
        boxes = f"#{name} textarea, #{name} input"
        (box,) = self.until(functools.partial(self.find, boxes))
        self.until(box.is_displayed)
        box.clear()
        box.send_keys(text)

    def ask(self, name, *texts):
        """Returns the element of the result of a tab."""
        # So that the result of the question before is not read.
        self.driver.execute_script(
            "document.querySelectorAll('.result').forEach(x => x.remove())"
        )
        for i, text in enumerate(texts):
            self.type(f"{name}-{i}", text)
        self.find(f"#{name}-run")[0].click()
        results = functools.partial(self.find, f"#{name}-result .result")
        return self.until(results)[0]

    def addresses(self):
        """Returns what the page has requested so far."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
            if message["method"] == "Network.webSocketCreated":
                found.append(message["params"]["url"])
        return found


@pytest.fixture(scope="module")
def driver():
    """A headless Chromium that logs its requests and its console."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for word in ("headless=new", "window-size=1280,800", "no-first-run"):
        options.add_argument(f"--{word}")
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    logs = {"performance": "ALL", "browser": "ALL"}
    options.set_capability("goog:loggingPrefs", logs)
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def browse(pages, driver):
    """Task -> its page; at the end nothing has left the machine."""
    opened = []

    def browse(task):
        opened.append(Browser(driver, pages[task][1]))
        return opened[-1]

    yield browse
    own = (opened[-1].host, "data:", "blob:")
    addresses = opened[-1].addresses()
    assert len(addresses) > 10
    assert [x for x in addresses if not x.startswith(own)] == []
    assert driver.get_log("browser") == []
    driver.get("about:blank")
    driver.get_log("performance")


def predictor(pages, task, **settings):
    return bert_tf.Predictor(pages[task][0], **settings)


def bars(result):
    """Returns the names and numbers of the bars."""
    rows = result.find_elements("css selector", ".bar")
    return [tuple(row.text.splitlines()) for row in rows]


def formatted(values):
    ordered = sorted(values, key=lambda x: -x[1])
    return [(name, f"{value:.4f}") for name, value in ordered]


@pytest.mark.parametrize("task", TABS)
def test_tabs_are_those_of_the_task(browse, task):
    page = browse(task)
    assert list(page.tabs()) == TABS[task]


def test_masks_are_filled(browse, pages, eagerly):
    page, text = browse("pretraining"), "the [MASK] sat on the mat"
    result = page.ask("fill", text)
    filled = predictor(pages, "pretraining")(text)
    assert filled.text in result.text
    (candidates,) = filled.masks
    assert bars(result) == formatted(
        (x.token, x.probability) for x in candidates
    )
    assert "has no [MASK]" in page.ask("fill", "the cat").text


def marks(result):
    return [
        (x.text, x.get_attribute("title"))
        for x in result.find_elements("css selector", "mark")
    ]


def test_words_have_attributions(browse, pages, eagerly):
    page = browse("classification")
    explain = attributions.Explainer(predictor(pages, "classification"))
    for texts in (("the old cat, naïve, sat", ""), ("the cat", "on stone")):
        result = page.ask("classify", *texts)
        found = explain(texts if texts[1] else texts[0])
        assert bars(result) == formatted(found.answer.probabilities.items())
        assert [
            (text, title.partition(" (")[0]) for text, title in marks(result)
        ] == [
            (word.text, f"{100 * word.value:+.1f} points")
            for word in found.words
        ]
        assert f"{found.output:.1%} in all" in result.text
    alert = page.ask("classify", "  ", "")
    assert alert.text == "The text is empty. Type one."
    assert "tokens were cut" in page.ask("classify", "cat " * 30, "").text


def test_hostile_text_is_only_text(browse):
    page = browse("classification")
    result = page.ask("classify", HOSTILE, "")
    assert HOSTILE in result.text
    assert page.driver.execute_script("return window.harm") is None
    assert not result.find_elements("css selector", "script, img")


def test_an_answer_is_marked_in_a_long_passage(browse, pages, eagerly):
    page = browse("spans")
    texts = ("who sat", "the cat sat on the mat. " * 5 + "a ship")
    result = page.ask("answer", *texts)
    answer = predictor(pages, "spans")(texts)
    assert answer.start >= 0
    title = f"probability {answer.probability:.4f}"
    assert marks(result) == [(answer.text, title)]
    assert texts[1] in result.text
    assert bars(result) == formatted(
        (x.text, x.probability) for x in answer.nbest[:5]
    )


@pytest.mark.parametrize("task", ["classification", "pretraining"])
def test_attention_of_each_head_is_drawn(browse, task):
    page = browse(task)
    page.tabs()["Attention"].click()
    result = page.ask("attend", "the old cat sat", HOSTILE)
    frame = result.find_element("css selector", "iframe")
    assert frame.size["width"] > 700
    page.driver.switch_to.frame(frame)
    try:
        heads = page.until(lambda: page.find("#heads button"))
        assert [x.get_attribute("title") for x in heads] == [
            f"layer {i}, head {j}" for i in range(LAYERS) for j in range(HEADS)
        ]
        heads[-1].click()
        assert page.find("#name")[0].text == f"Layer {LAYERS - 1}, head 1"
        words = [x.text for x in page.find("#words span")]
        assert words[:6] == ["[CLS]", "the", "old", "cat", "sat", "[SEP]"]
        # A page of its own origin, and without the script of a text.
        assert page.driver.execute_script("return origin") == "null"
        assert not page.driver.execute_script("return window.harm")
    finally:
        page.driver.switch_to.default_content()
