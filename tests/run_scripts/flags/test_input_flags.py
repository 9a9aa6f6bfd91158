"""Facts of what predict reads, by its flags."""

import pytest
from absl import flags

from run_scripts.flags import input_flags

PAIR = {"text_a": 1, "text_b": 1}
CHOICE = {"context": 1, "endings": 2}


@pytest.fixture
def values():
    """Words of a command -> flags."""

    def parse(*words):
        values = flags.FlagValues()
        input_flags.define(values)
        values(["predict", *words])
        return values

    return parse


@pytest.mark.parametrize(
    ("ranks", "words", "expected"),
    [
        (PAIR, [], "text"),
        (PAIR, ["--input_file=rows.jsonl"], "jsonl"),
        (PAIR, ["--input_file=rows.jsonl", "--input_format=text"], "text"),
        (PAIR, ["--text_a_column=0"], "tsv"),
        (CHOICE, [], "jsonl"),
        (CHOICE, ["--columns=context=0,endings=1"], "tsv"),
        ({"words": 2}, [], "text"),
    ],
)
def test_formats_are_told_apart(values, ranks, words, expected):
    parsed = values(*words)
    columns = input_flags.find_columns(parsed, ranks)
    assert input_flags.find_format(parsed, ranks, bool(columns)) == expected


def test_both_kinds_of_column_flags_name_inputs(values):
    parsed = values("--text_a_column=first", "--columns=text_b=second")
    assert input_flags.find_columns(parsed, PAIR) == [
        ("text_a", "first"),
        ("text_b", "second"),
    ]
    parsed = values("--columns=endings=a,context=b,endings=c=d")
    assert input_flags.find_columns(parsed, CHOICE) == [
        ("endings", "a"),
        ("context", "b"),
        ("endings", "c=d"),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--columns=3"], "columns=3: expected .* such as context=0"),
        (["--columns=mood=3"], "Inputs of this model: context, endings"),
        (["--columns=context=1,context=2"], "a column of 'context' already"),
    ],
)
def test_columns_of_no_input_are_refused(values, words, message):
    with pytest.raises(ValueError, match=message):
        input_flags.find_columns(values(*words), CHOICE)


def test_formats_that_do_not_fit_are_refused(values):
    with pytest.raises(ValueError, match="needs context, endings. Use jsonl"):
        input_flags.find_format(values("--input_format=text"), CHOICE, False)
    with pytest.raises(ValueError, match="=tsv without columns. A TSV needs"):
        input_flags.find_format(values("--input_format=tsv"), PAIR, False)
    with pytest.raises(ValueError, match="=jsonl with columns"):
        input_flags.find_format(values("--input_format=jsonl"), PAIR, True)


def test_a_tsv_must_give_every_input(values):
    with pytest.raises(ValueError, match="context=0: .*for 'endings', which"):
        input_flags.find_columns(values("--columns=context=0"), CHOICE)
