"""An answer: one from Predictor, SavedModel, predict, C and predict.py.

Every kind of `kinds.CLASSES` with answers keeps these promises; a new one needs
its texts in `exports.TEXTS` and here, and a row in `RECORDS`.
"""

import contextlib
import functools
import json
import logging
from typing import Any, NamedTuple

import c_loader
import exports
import numpy as np
import pytest

import bert_tf
from bert_tf.contrib.runtimes import config, tokenizer
from bert_tf.serving import kinds, predictions, row_outputs, text_rows
from bert_tf.serving.answers.kind import parse
from bert_tf.serving.word_kind import WordKind
from run_scripts import predict as predict_script

NAMES = [name for name in kinds.CLASSES if kinds.by_name(name).has_answers]
# Those whose export no other quick test needs.
_SLOW = ("regression", "multiple_choice", "sentence_embedding", "token_vectors")
_SLOW += ("pseudo_log_likelihood", "ranking")
EVERY_KIND = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in _SLOW))
        for name in NAMES
    ],
)
# predict reads it from a byte that is not UTF-8.
INVALID = "caf\ufffd the cat"
LONG = "the captain looked at the sea and was ready for the day. " * 3
_PAIRS = [
    {"text_a": ""},
    {"text_a": "a", "text_b": ""},
    {"text_a": "", "text_b": "the cat"},
    {"text_a": INVALID, "text_b": LONG},
    {"text_a": "the [SEP] cat", "text_b": "[CLS]sat[SEP]" * 9},
]
_TEXTS = [{"text": ""}, {"text": INVALID}, {"text": LONG}]
_TEXTS += [{"text": "the cat[SEP]sat [sep] [UNK] [PAD] [CLS]"}]
_OF_WORDS = [*_TEXTS, {"words": ["a"]}, {"words": LONG.split()}]
# Texts in addition to those of `exports`: empty, long, not UTF-8.
TEXTS = {
    "classification": _PAIRS,
    "multi_label": _PAIRS,
    "regression": _PAIRS,
    "question_answering": [
        {"question": "", "context": "The cat."},
        {"question": LONG, "context": "Caf\u00e9, na\u00efve!"},
        {"question": INVALID, "context": INVALID},
        {"question": "[SEP]", "context": "The cat[SEP]sat [CLS] on bread."},
    ],
    "tagging": _OF_WORDS,
    "token_vectors": _OF_WORDS,
    "multiple_choice": [
        {"context": "", "endings": ["a", LONG, INVALID]},
        {"context": INVALID, "endings": ["sat"]},
    ],
    "ranking": [
        {"query": "", "passages": ["a", LONG, INVALID]},
        {"query": LONG, "passages": ["sat", "the cat sat"]},
    ],
    "fill_mask": [
        *_TEXTS,
        {"text": f"[MASK] {INVALID} [MASK]"},
        {"text": f"[MASK] {LONG} [MASK]"},
    ],
    "pseudo_log_likelihood": _TEXTS,
    "sentence_embedding": _TEXTS,
}
EXACT = "a " * (exports.MAX_SEQ_LENGTH - 2)
_CUT = [EXACT, EXACT + "a the cat", "\u00e9" * 12]  # Bytes are not tokens.
_CUT_PAIRS = [*_CUT, ("a " * 6, "a " * 7), ("a " * 7, "a " * 7)]
# Kind -> texts as long as a row and longer ones, and how many are cut.
CUT = {
    "classification": (_CUT_PAIRS, 2),
    "multi_label": (_CUT_PAIRS, 2),
    "regression": (_CUT_PAIRS, 2),
    "sentence_embedding": (_CUT, 2),  # A prompt is one more token.
    "pseudo_log_likelihood": (_CUT, 1),
    "fill_mask": ([EXACT, EXACT + "[MASK]", "[MASK]"], 1),
    "multiple_choice": (
        [
            ("a " * 6, ["a", "a " * 7]),
            ("a " * 6, ["a " * 8, "a"]),
            (EXACT * 2, ["a"]),
        ],
        2,
    ),
    "ranking": (
        [
            ("a " * 6, ["a", "a " * 7]),
            ("a " * 6, ["a " * 8, "a"]),
            (EXACT * 2, ["a"]),
        ],
        2,
    ),
    # Read in windows.
    "question_answering": ([("a", EXACT * 3)], 0),
    "tagging": ([EXACT * 3], 0),
    "token_vectors": ([EXACT * 3], 0),
}


def _of_label(answer):
    label, probability, probabilities = answer
    assert probability == probabilities[label] == max(probabilities.values())
    assert list(probabilities) == exports.LABELS
    return {"label": label, "probabilities": probabilities.values()}


def _of_labels(answer):
    labels, probabilities = answer
    assert list(probabilities) == exports.LABELS
    thresholds = dict(zip(probabilities, exports.THRESHOLDS, strict=True))
    assert list(labels) == [
        x for x, p in probabilities.items() if p >= thresholds[x]
    ]
    return {"labels": list(labels), "probabilities": probabilities.values()}


def _of_vector(answer):
    assert answer.dtype == np.float32
    return {"embedding": answer}


def _of_answer(answer):
    names = ("answer", "start", "end", "probability")
    found = dict(zip(names, answer, strict=False))
    if answer.nbest:
        found["nbest"] = [_of_answer(x) for x in answer.nbest]
    return found


def _of_tags(answer):
    return {"words": [tag._asdict() for tag in answer.words]}


def _of_vectors(answer):
    words = zip(answer.words, answer.vectors, strict=True)
    return {"words": [x._asdict() | {"vector": y} for x, y in words]}


def _of_masks(answer):
    names = ("token", "probability", "filled")
    masks = [
        [dict(zip(names, x, strict=True)) for x in mask]
        for mask in answer.masks
    ]
    return {"filled": answer.text, "masks": masks}


def _of_ranking(answer):
    passages, scores, order = answer
    assert list(scores) == sorted(scores, reverse=True)
    assert sorted(order) == list(range(len(passages)))
    return {"ranked": passages, "scores": scores, "order": order}


def _of_likelihood(answer):
    assert answer.score == pytest.approx(sum(answer.log_probabilities), 1e-5)
    return answer._asdict()


# Kind -> what the JSON of an answer of a Predictor should be.
RECORDS = {
    "classification": _of_label,
    "multi_label": _of_labels,
    "regression": lambda x: {"score": x.score},
    "question_answering": _of_answer,
    "tagging": _of_tags,
    "token_vectors": _of_vectors,
    "multiple_choice": lambda x: {
        "choice": x.index,
        "ending": x.text,
        "probabilities": x.probabilities,
    },
    "ranking": _of_ranking,
    "fill_mask": _of_masks,
    "pseudo_log_likelihood": _of_likelihood,
    "sentence_embedding": _of_vector,
}


def record_of(line: dict) -> dict:
    """Returns a line of predict; of given words, as an object for each."""
    columns = {"tags": "tag", "probabilities": "probability"}
    columns |= {"vectors": "vector"}
    words = line.get("words")
    if not words or not isinstance(words[0], str):
        return line
    rows = [{"word": word} for word in words]
    for name in columns.keys() & line.keys():
        for row, value in zip(rows, line[name], strict=True):
            row[columns[name]] = value
    return {"words": rows}


def check(found, expected, tolerance=1e-5, where=""):
    """Asserts that two answers are alike, in the keys of the smaller."""
    if isinstance(expected, dict):
        one, other = sorted((found.keys(), expected.keys()), key=len)
        assert one <= other, f"{where}: {found} and {expected}"
        for key in one:
            check(found[key], expected[key], tolerance, f"{where}/{key}")
    elif isinstance(expected, str | int):
        assert found == expected, where
    elif isinstance(expected, float | np.floating):
        assert found == pytest.approx(expected, tolerance, tolerance), where
    else:
        found, expected = list(found), list(expected)
        assert len(found) == len(expected), where
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            check(one, other, tolerance, f"{where}/{i}")


class Asked(NamedTuple):
    """A kind, its Predictor, the fields of texts, and their answers."""

    kind: type
    predictor: bert_tf.Predictor
    rows: list[dict[str, Any]]
    answers: list[dict[str, Any]]

    def of_signatures(self):
        """Yields a signature with strings, its rows, and their answers."""
        for signature, ranks in self.kind.inputs.items():
            pairs = [
                pair
                for pair in zip(self.rows, self.answers, strict=True)
                if pair[0].keys() <= ranks.keys()
            ]
            yield signature, *map(list, zip(*pairs, strict=True))


@pytest.fixture(scope="module")
def asked(made_once):
    """Kind -> Asked."""

    @functools.cache
    def ask(name):
        predictor = bert_tf.Predictor(
            exports.model_folder(made_once, name),
            kind=name,
            **exports.SETTINGS.get(name, {}),
        )
        rows = [*exports.TEXTS[name], *TEXTS[name]]
        answers = [*map(RECORDS[name], predictor(exports.inputs(rows)))]
        return Asked(kinds.by_name(name), predictor, rows, answers)

    return ask


def encode(rows) -> list[bytes]:
    """Returns a line of JSON for each row, with a byte that is not UTF-8."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    return [x.encode().replace("\ufffd".encode(), b"\xff") for x in lines]


@pytest.fixture
def predict(exported, tmp_path, monkeypatch):
    """Kind, lines, flags, message of an error -> the lines of `predict`."""

    def run(name, lines, *words, error=None):
        export = exported(name)
        monkeypatch.setattr(predictions, "load", lambda *_: export.loaded)
        (tmp_path / "rows.jsonl").write_bytes(b"".join(lines))
        answers = tmp_path / "answers.jsonl"
        argv = [
            *("predict", f"--export_dir={export.path}", *words),
            f"--input_file={tmp_path / 'rows.jsonl'}",
            f"--output_file={answers}",
        ]
        with (
            pytest.raises(ValueError, match=error)
            if error
            else contextlib.nullcontext()
        ):
            predict_script.main(argv)
        found = answers.read_text("utf-8").splitlines()
        return [json.loads(line) for line in found]

    return run


def test_all_kinds_have_texts():
    assert set(NAMES) == set(TEXTS) == set(CUT) == set(RECORDS)
    assert set(NAMES) | {"encoder"} == set(exports.TEXTS)


@EVERY_KIND
def test_predict_with_the_saved_model_has_the_answers_of_python(
    asked, predict, name
):
    for signature, rows, answers in asked(name).of_signatures():
        lines = predict(name, encode(rows), f"--signature={signature}")
        for i, (line, row) in enumerate(zip(lines, rows, strict=True)):
            assert line["line"] == i + 1
            if "words" not in line:  # Those of an answer have tags.
                assert line == line | row
            check(record_of(line), answers[i], where=str(row))


@EVERY_KIND
def test_an_answer_does_not_depend_on_other_rows_or_their_order(
    asked, predict, name
):
    found = asked(name)
    inputs, record = exports.inputs(found.rows), RECORDS[name]
    for value, expected in zip(inputs, found.answers, strict=True):
        check(record(found.predictor(value)), expected)
    column = np.empty(len(inputs), object)  # As of pandas.
    column[:] = inputs[::-1]
    before, found.predictor.batch_size = found.predictor.batch_size, 3
    answers = found.predictor(column)
    found.predictor.batch_size = before
    check(map(record, answers), found.answers[::-1])
    for signature, rows, answers in found.of_signatures():
        words = f"--signature={signature}", "--batch_size=2"
        lines = predict(name, encode(rows[::-1]), *words)
        check(map(record_of, lines), answers[::-1])


@EVERY_KIND
def test_a_bad_line_is_named_and_the_others_are_answered(asked, predict, name):
    _, rows, answers = next(asked(name).of_signatures())
    lines = encode(rows)
    lines.insert(1, b'{"text": 3, \n')
    error = f"1 of {len(lines)} rows have no answer; the first: .*jsonl:2 is"
    first, bad, *others = predict(name, lines, error=error)
    assert bad.keys() == {"line", "error"} and bad["line"] == 2
    assert "rows.jsonl:2 is not JSON" in bad["error"]
    check([first, *others], answers)


@EVERY_KIND
def test_nothing_has_no_answers(asked, exported, predict, name):
    found = asked(name)
    assert len(found.predictor([])) == 0
    for signature, ranks in found.kind.inputs.items():
        assert predict(name, [], f"--signature={signature}") == []
        outputs = exported(name).loaded.signatures[signature](
            **row_outputs.make_inputs([], ranks)
        )
        assert {len(value) for value in outputs.values()} == {0}


@EVERY_KIND
def test_texts_that_are_cut_are_counted(asked, predict, caplog, name):
    found = asked(name)
    texts, num_cut = CUT[name]
    message = (
        f"{num_cut} of {len(texts)} texts have more than max_seq_length=16 "
        "tokens and are cut"
    )
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="absl"):
        answers = found.predictor(texts)
        predict(name, encode(parse(found.kind, x, "it") for x in texts))
    said = [x for x in caplog.messages if "cut" in x]
    assert said == [message] * 2 * bool(num_cut)
    if CUT[name][0][:3] == _CUT:  # The first two differ in what is cut.
        first, second = map(RECORDS[name], answers[:2])
        check(second, first)
    elif issubclass(found.kind, WordKind):
        assert len(answers[0].words) == len(texts[0].split())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_c_loader_gives_the_outputs_of_python(exported, c_program, name):
    _, path, loaded = exported(name)
    for signature, ranks in kinds.by_name(name).inputs.items():
        rows = [
            text_rows.Row(i, row)
            for i, row in enumerate(exports.TEXTS[name])
            if row.keys() <= ranks.keys()
        ]
        inputs = row_outputs.make_inputs(rows, ranks)
        c_loader.check(
            c_program,
            path,
            {n: x.numpy() for n, x in inputs.items()},
            loaded.signatures[signature](**inputs),
            signature,
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", config.MODULES)
@pytest.mark.parametrize(
    "kind", [name for name in NAMES if name in tokenizer.FIELDS]
)
def test_predict_py_has_the_answers_of_python(made_once, asked, kind, name):
    shipped = exports.ship(made_once, kind, name)
    found = asked(kind)
    # It does not replace what is not UTF-8.
    lines = b"".join(encode(found.rows)).decode(errors="replace")
    process = shipped.run(lines.encode() + b"{]\n")
    assert process.returncode == 1
    assert "error: 1 of " in process.stderr.decode()
    *lines, bad = map(json.loads, process.stdout.decode().splitlines())
    assert bad.keys() == {"error"}
    check(lines, found.answers, tolerance=2e-5)
    assert shipped.run(b"").stdout == b""
