import json
import math
import re

import pytest

from tfrecords.io import json_files


def test_an_error_names_a_file_that_is_not_json(tmp_path):
    path = tmp_path / "state.json"
    for content in (b"{", b'{"a": "\xff"}', b"\x00"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="state.json is not JSON"):
            json_files.read(str(path))


@pytest.mark.parametrize(
    ("content", "expected", "message"),
    [
        (b"[1, 2]", dict, r": the content is \[1, 2\]; it should be an object"),
        (b"null", dict, ": the content is None; it should be an object"),
        (b"{}", list, ": the content is {}; it should be a list"),
        (b"[" * 10_000 + b"]" * 10_000, list, "nested deeper than Python"),
        (b'{"a":' * 10_000, dict, "nested deeper than Python"),
        (b"9" * 5000, object, r"is not JSON \(Exceeds the limit"),
        (b"{\n\n,", dict, r"\(Expecting .*: line 3 column 1 "),
        (
            b'{"a" 1}',
            dict,
            r"""\(Exp.*, column 6\): '{"a" 1}'. Correct it,""",
        ),
        (b"\xef\xbb\xbf{}\n\xff", dict, r"\(line 2: byte 0xff is not UTF-8"),
    ],
)
def test_json_of_another_kind_names_the_file(
    tmp_path, content, expected, message
):
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path}.*{message}"):
        json_files.read(str(path), expected)


def test_numbers_that_are_not_finite_are_read(tmp_path):
    path = str(tmp_path / "eval_results.json")
    json_files.write(path, {"dev": {"loss": math.nan, "f1": -math.inf}})
    scores = json_files.read(path, {"dev": {"loss": float, "f1": float}})["dev"]
    assert math.isnan(scores["loss"]) and scores["f1"] == -math.inf


KIND = {
    "name": str,
    "steps?": range(1, 10),
    "is_on?": bool,
    "rate?": float,
    "any?": object,
    "rows?": [{"id": int, "labels?": [str]}],
    "dev*?": {"loss?": float, "*": json_files.Finite},
}


@pytest.mark.parametrize(
    "more",
    [
        {"steps": None, "rows": None, "other": {"steps": "x"}},
        {"steps": 9, "is_on": False, "rate": 1, "any": [None], "rows": []},
        {"dev_a": {"loss": math.nan, "f1": 1, "x": 0.5}, "dev_b": None},
        {"rate": 0.5, "rows": [{"id": -1, "labels": ["a", ""]}, {"id": 0}]},
    ],
)
def test_values_of_the_right_kind_pass(more):
    json_files.check({"name": "x"} | more, KIND, "a.json")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"dev": {"f1": math.inf}}, "dev.f1 is inf; it should be a finite num"),
        ({"dev": {"f1": math.nan}}, "dev.f1 is nan; it should be a finite num"),
        ({"dev_a": {"f1": None}}, "dev_a.f1 is missing or null; it should"),
        ({"dev_a": {"loss": "x"}}, "dev_a.loss is 'x'; it should be a number"),
        (
            {"name": None},
            "name is missing or null; it should be a string. Co",
        ),
        ({"name": "\ud800"}, "name is '\\ud800', which is not valid text: a s"),
        ({"steps": 10}, "steps is 10; it should be an integer from 1 to 9."),
        ({"steps": 1.0}, "steps is 1.0; it should be an integer from 1 to 9."),
        ({"steps": True}, "steps is True; it should be an integer from 1 to"),
        ({"is_on": 0}, "is_on is 0; it should be true or false."),
        ({"rate": True}, "rate is True; it should be a number."),
        ({"rate": "1"}, "rate is '1'; it should be a number."),
        ({"rows": {}}, "rows is {}; it should be a list."),
        ({"rows": [3]}, "rows[0] is 3; it should be an object, {...}."),
        ({"rows": [{"id": 1}, {}]}, "rows[1].id is missing or null; it should"),
        (
            {"rows": [{"id": 1, "labels": [0]}]},
            "rows[0].labels[0] is 0; it should be a string.",
        ),
    ],
)
def test_a_value_of_another_kind_is_named(more, message):
    text = json.dumps({"name": "x"} | more)
    with pytest.raises(ValueError, match=re.escape(f"a.json: {message}")):
        json_files.parse(text, "a.json", KIND)


@pytest.mark.parametrize(
    "found",
    [
        *([0, 0.5], [0.0, 0.5], [1e-50, 0.5], [-0.1, 0.5], [2, 0.5], [True, 1]),
        *(["0.5", "0.5"], [None, 0.5], [[0.5], [0.5]], [math.nan, 0.5]),
        *([math.inf, 0.5], [10**400, 0.5], [], [0.5], [0.5] * 3),
        *(0.5, "0.5", True, None, {"bad": 0.5}),
    ],
)
def test_thresholds_are_a_probability_for_each_label(found):
    for right in ([0.5, 1], [1e-37, 1.0]):
        json_files.check_thresholds({"thresholds": right}, 2, "model.json")
    json_files.check_thresholds({}, 2, "model.json")
    message = r"^m.json: thresholds is .*; it should be a list of 2 numbers abo"
    with pytest.raises(ValueError, match=message) as raised:
        json_files.check_thresholds({"thresholds": found}, 2, "m.json")
    assert "\n" not in str(raised.value)
    # Without the labels, any number of them.
    if found != [0.5] * 3 and found != [0.5]:
        with pytest.raises(ValueError, match="a list of one or more numbers"):
            json_files.check_thresholds({"thresholds": found}, 0, "m.json")
