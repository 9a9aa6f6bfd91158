"""Fields of options -> flags, and values out of bounds."""

import dataclasses
import math

import pytest
from absl import flags

from run_scripts.flags import common_flags
from tfrecords.options import (
    REQUIRED,
    Options,
    is_address,
    option,
    quoted,
    shortened,
    to_index,
    to_number,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example(Options):
    folder: str = option(REQUIRED, "Where.")
    count: int | None = option(None, "How many.", at_least=1)
    share: float = option(0.5, "How much.", at_least=0.0, at_most=1.0)
    kind: str = option("a", "Which.", choices=("a", "b"))
    names: tuple[str, ...] = option(("x",), "Whose.")
    is_on: bool = option(False, "Whether.")
    parts: tuple[str, ...] | None = option(None, "Which parts.")
    text_file: str | None = option(None, "A file.", reads=True)


def parse(*words, **defaults):
    values = flags.FlagValues()
    common_flags.define(values, Example, **defaults)
    common_flags.parse(values, ["script", *words], "Doc.")
    return common_flags.config(Example, values)


def test_each_field_becomes_a_flag():
    assert parse("--folder=f") == Example(folder="f")
    assert parse(
        *["--folder=f", "--count=3", "--share=0.25", "--kind=b"],
        *["--names=y,z", "--is_on"],
    ) == Example(
        folder="f", count=3, share=0.25, kind="b", names=("y", "z"), is_on=True
    )
    assert parse("--folder=f", share=0.1).share == 0.1
    with pytest.raises(flags.Error, match="folder"):
        parse()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"count": 0}, "--count=0 should be at least 1"),
        ({"share": 1.5}, "--share=1.5 should be at most 1.0"),
        ({"share": float("nan")}, "--share=nan should be at least 0.0"),
        ({"kind": "c"}, "--kind=c: choose one of a, b"),
        ({"names": "x"}, "--names='x' should be a tuple, such as .'x',"),
    ],
)
def test_invalid_values_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        Example(folder="f", **changes)
    with pytest.raises(TypeError, match="folder"):
        Example()


@pytest.mark.parametrize("word", ["--count=1_0", "--share=0.\u0665"])
def test_a_flag_has_no_number_that_only_python_reads(word):
    with pytest.raises(flags.Error, match="have digits from 0 to 9, and no _"):
        parse("--folder=f", word)


def test_bounds_are_allowed():
    for changes in ({"count": 1}, {"share": 0.0}, {"share": 1.0}):
        assert vars(Example(folder="f", **changes)).items() >= changes.items()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outputs(Options):
    disk: str | None = option(None, "Where.", on_disk=True)
    store: str | None = option(None, "Where.")
    rate: float = option(0.5, "How much.")
    count: int = option(1, "How many.")


@pytest.mark.parametrize(
    "address", ["gs://b/x", "gs:/b/x", "file:///x", "S3://b", "./a://b"]
)
def test_an_output_on_a_disk_is_no_address(address):
    with pytest.raises(ValueError, match="--disk=.* is not a path on a disk"):
        Outputs(disk=address)
    assert is_address(Outputs(store=address).store)


@pytest.mark.parametrize("path", ["a:b", "a/b:/c", "./gs:/b", "/a", "-", "c:"])
def test_a_path_may_have_a_colon(path):
    assert not is_address(Outputs(disk=path).disk)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs(Options):
    paths: tuple[str, ...] = option(REQUIRED, "Which.")


@pytest.mark.parametrize("paths", [(), ("",), ("a", "", "b"), (" ",)])
def test_a_required_list_has_no_empty_entry(paths):
    with pytest.raises(ValueError, match="--paths=.* has an empty entry. Give"):
        Inputs(paths=paths)


def test_quoted_values_are_shortened():
    assert quoted("a" * 98) == f"'{'a' * 98}'"
    assert quoted("a" * 10**6) == f"'{'a' * 99}..."
    assert quoted(["a" * 99] * 9) == f"['{'a' * 98}..."
    deep = []
    for _ in range(10**5):
        deep = [deep]
    assert quoted(deep) == "[[[[[[[...]]]]]]]"
    assert shortened("a" * 100) == "a" * 100
    assert shortened("a" * 101) == "a" * 100 + "..."


@pytest.mark.parametrize("rate", [math.nan, math.inf, -math.inf])
def test_numbers_are_finite(rate):
    with pytest.raises(ValueError, match="--rate=.* should be a finite number"):
        Outputs(rate=rate)
    with pytest.raises(ValueError, match="--count=.* should be at most"):
        Outputs(count=10**30)


def test_an_empty_list_does_not_switch_its_option_off():
    with pytest.raises(ValueError, match="--parts is empty. Give a value"):
        parse("--folder=f", "--parts=")


def test_a_tilde_is_named(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    for path in ("~/a.txt", "b,~/a.txt"):
        with pytest.raises(ValueError) as raised:
            parse("--folder=f", f"--text_file={path}")
        assert str(raised.value) == (
            "--text_file=~/a.txt: no shell has replaced the ~, and nothing "
            "here does. Give /home/ann/a.txt, or ./~/a.txt if this is its name."
        )
    for path in ("./~/a", "a~", "~$a.txt"):
        assert parse("--folder=f", f"--text_file={path}").text_file == path


def test_a_loop_of_links_is_named(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for path in (tmp_path / "a", tmp_path / "b" / "text"):
        with pytest.raises(ValueError, match=f"={path} is a loop of symbolic"):
            parse("--folder=f", f"--text_file={path}")


def test_numbers_are_those_that_others_read_too():
    for value in ("5", " 5 ", "5\xa0", "+5.", "0.5e1", 5, 5.0):
        assert to_number(value) == 5
    for value in (
        *("1_0", "\u0665", "1e400", "nan", "inf", "0x5", "", "1,5", "true"),
        *(None, True, 10**400, float("nan"), ["5"], "9" * 5000),
    ):
        assert math.isnan(to_number(value))


def test_an_index_has_the_digits_from_0_to_9():
    assert [to_index(x) for x in ("0", "12", "007")] == [0, 12, 7]
    for word in ("", "-1", "+1", " 1", "1_0", "\u0661", "\u00b2", "9" * 5000):
        assert to_index(word) is None
