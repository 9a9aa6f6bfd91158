"""Facts of the flags that say what is exported."""

import pytest
from absl import flags

from bert_tf.export import kinds as export_kinds
from run_scripts.flags import export_flags


def parse(*words):
    values = flags.FlagValues()
    export_flags.define(values, ["one", "two"])
    values(["export", *words])
    return values


def test_kinds_are_those_of_the_models():
    assert parse().kind == "auto"
    assert parse("--kind=two").kind == "two"
    with pytest.raises(flags.Error, match="auto|one|two"):
        parse("--kind=three")


def test_what_a_model_says_is_not_overruled_by_defaults():
    values = parse()
    for name in (
        "doc_stride",
        "max_query_length",
        "n_best_size",
        "max_answer_length",
        "version_2_with_negative",
        "null_score_diff_threshold",
    ):
        assert values[name].value is None, name
    values = parse("--version_2_with_negative", "--n_best_size=3")
    assert values.version_2_with_negative is True
    assert values.n_best_size == 3


def test_flags_of_other_kinds_are_refused():
    for word, kind in (
        ("--top_k=3", "fill_mask"),
        ("--layers=-2", "sentence_embedding"),
        ("--doc_stride=8", "tagging"),
        ("--noversion_2_with_negative", "question_answering"),
    ):
        export_flags.check_kind(parse(word), kind)
        with pytest.raises(
            ValueError, match=f"{kind}.* and this export is of kind 'encoder'"
        ):
            export_flags.check_kind(parse(word), "encoder")


def test_every_flag_is_of_all_kinds_or_of_some():
    known = set(export_flags._KINDS) | {"kind"}
    # absl adds some of its own.
    assert set(parse()) - set(flags.FlagValues()) == known
    for kinds in export_flags._KINDS.values():
        assert set(kinds) <= set(export_kinds.NEEDED)


def test_numbers_that_mean_nothing_are_refused():
    for word in ("--n_best_size=0", "--doc_stride=0", "--pooling=max"):
        with pytest.raises(flags.Error):
            parse(word)
