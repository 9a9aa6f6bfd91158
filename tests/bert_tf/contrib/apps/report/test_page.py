"""page.py: what a page has, that it loads nothing, and that text is escaped."""

import html.parser

import numpy as np
import pytest

from bert_tf.contrib.apps.report import page, run_data
from tfrecords.io import records, shards

EVIL = '<script>alert("x")</script>&amp;'
CLASSES = {
    "bad": {"precision": 0.5, "recall": 1.0, "f1": 2 / 3, "support": 30},
    EVIL: {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 2},
}
ROW = {
    "source": "a.csv:7",
    "text_a": f"{EVIL} so dull",
    "label": EVIL,
    "predicted": "bad",
    "probabilities": [0.9, 0.1],
}


def run_of(name="first", **changes):
    values = dict(
        name=name,
        results={
            "task_name": "reviews",
            "step": 4,
            "best_metric": "accuracy",
            "dev": {"loss": 0.25, "accuracy": 0.75},
            "majority_baseline": {"dev": {"accuracy": 0.9375}},
            "classes": {"dev": CLASSES},
            "confusion_matrix": {"dev": [[30, 0], [2, 0]]},
        },
        labels=list(CLASSES),
        rows={"dev": [ROW]},
        train_log={1: {"loss": 2.0}, 2: {"loss": 1.0}},
        dev_logs={"dev": {2: {"loss": 0.5, "accuracy": 0.75}}},
        settings={"learning_rate": 2e-5, "sizes": {"max_seq_length": 16}},
        model={"hidden_size": 16},
        source=None,
        manifests={},
        lengths=np.zeros(0, int),
        sessions=[
            {"seconds": 100.0, "peak_memory_gb": 1.5},
            {"seconds": 25.0, "peak_memory_gb": 2.25},
        ],
    )
    return run_data.RunData(**values | changes)


class Page(html.parser.HTMLParser):
    """Texts and titles of a page; it fails at a tag that is not closed."""

    def __init__(self, content):
        super().__init__()
        self.open, self.texts, self.tags, self.links = [], [], [], []
        self.feed(content)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [x for x in attributes if x[0] in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def test_a_page_is_closed_escaped_and_loads_nothing():
    content = page.make([run_of()], ["try <b>this</b>"])
    found = Page(content)
    assert "script" not in found.tags and not found.links
    assert "http" not in content.replace("http-equiv", "")
    assert f"{EVIL} so dull" in found.text
    assert "try <b>this</b>" in found.text


@pytest.mark.parametrize(
    "part",
    [
        "dev accuracy (chooses the best model) 0.75 0.9375",
        "first: 2:05 in 2 processes, at most 2.25 GB of memory",
        "label precision recall F1 support bad 0.5 1 0.6667 30",
        f"so that scores mean little: {EVIL}.",
        f"a.csv:7 {EVIL} so dull {EVIL} bad 0.9",
        "learning_rate 2e-05",
        "model: hidden_size 16",
    ],
)
def test_a_page_of_one_run_has_its_numbers(part):
    assert part in Page(page.make([run_of()])).text


def test_runs_are_side_by_side():
    results = run_of().results
    other = run_of(
        "second", results=results | {"dev": {"loss": 0.5, "accuracy": None}}
    )
    text = Page(page.make([run_of(), other])).text
    assert text.startswith("reviews, run first, second")
    assert "split metric first second baseline" in text
    assert "(chooses the best model) 0.75 undefined 0.9375" in text
    assert "label rows F1, first F1, second bad 30 0.6667 0.6667" in text
    assert "Most wrong rows of dev of second" in text
    assert "cannot be compared" not in text


@pytest.mark.parametrize(
    ("changes", "is_comparable"),
    [
        ({"rows": {"dev": [ROW | {"source": "b.csv:7"}]}}, True),
        ({"rows": {"dev": [ROW | {"text_a": "other"}]}}, False),
        ({"rows": {"dev": [ROW | {"text_b": "other"}]}}, False),
        ({"rows": {"dev": [ROW | {"label": "bad"}]}}, False),
        ({"rows": {"dev": [ROW | {"predicted": EVIL}]}}, True),
        ({"rows": {}}, True),  # Unknown.
    ],
)
def test_runs_on_other_rows_are_not_compared(changes, is_comparable):
    text = Page(page.make([run_of(), run_of("second", **changes)])).text
    is_warned = "evaluated on different rows of dev, so their" in text
    assert is_warned != is_comparable


@pytest.mark.parametrize("cut", ["truncated_rows", "truncated_texts"])
def test_records_have_rows_those_cut_and_the_digest_of_their_file(cut):
    manifest = records.Manifest(
        schema_name="classification",
        sizes={"max_seq_length": 16},
        flags={"source": "a.csv", "source_sha256": "f00d"},
        vocabulary={},
        statistics={"rows": 9, "skipped_rows": 4, cut: 3},
        shards=[
            shards.ShardInfo(str(i), n, 0, "") for i, n in ((0, 7), (1, 2))
        ],
    )
    text = Page(page.make([run_of(manifests={"train": manifest})])).text
    assert "split rows cut file sha256 train 9 3 a.csv f00d" in text


@pytest.mark.parametrize(
    ("baseline", "is_shown"), [(0.5, True), (0.75, False), (0.9, False)]
)
def test_labels_are_doubted_by_a_model_above_the_baseline(baseline, is_shown):
    rows = [
        ROW | {"label": label, "predicted": "bad", "probabilities": [x, 1 - x]}
        for label, x in (("bad", 0.8), ("bad", 0.8), (EVIL, 0.9), (EVIL, 0.1))
    ]
    run = run_of(rows={"dev": rows})
    run.results["majority_baseline"] = {"dev": {"accuracy": baseline}}
    assert ("probably wrong" in page.make([run])) == is_shown


def test_what_is_unknown_is_left_out():
    run = run_of(
        rows={},
        labels=[],
        sessions=[],
        train_log={},
        dev_logs={},
        results={
            "task_name": "SQuAD",
            "best_metric": "f1",
            "dev": {"f1": 50.0},
            "majority_baseline": {},
        },
    )
    text = Page(page.make([run])).text
    assert "dev F1 (chooses the best model) 50 " in text
    for title in ("Training", "Classes", "Confusion", "Most wrong", "Labels"):
        assert title not in text
    assert "records of this run are not where it had them, so" in text
