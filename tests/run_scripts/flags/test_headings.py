"""--help lists each flag once, under a heading that says what it is for."""

import re

from absl import flags

from run_scripts.flags import common_flags, headings
from tfrecords.text.vocab import VocabularyOptions

DOC = """This -> that.

    python -m run_scripts.script --vocab_file=vocab.txt \\
      --speed=2

In other cases, too:

    python -m run_scripts.script --nothing=1 --seats=3

More text, with --do_lower_case.
"""
RULES = ["strip_accents", "tokenize_chinese_chars"]


def make_flags():
    values = common_flags.make_flags(VocabularyOptions)
    for name in ("wheels", "speed", "seed", "seats"):
        flags.DEFINE_integer(name, 1, f"The {name}.", flag_values=values)
    flags.DEFINE_float(
        "learning_rate", None, "Rate. Default: 5e-5.", flag_values=values
    )
    return values


def test_commands_give_the_flags_to_set_first():
    grouped = headings.by_heading(make_flags(), DOC)
    names = {x: [flag.name for flag in grouped[x]] for x in grouped}
    assert list(names.items()) == [
        (headings.FIRST, ["vocab_file", "speed", "seats", "learning_rate"]),
        ("Vocabulary and length", ["do_lower_case", *RULES]),
        ("Training", ["seed"]),
        ("Stores", ["cache_dir"]),
        (headings.OTHER, ["wheels"]),
    ]


def test_a_required_flag_is_among_the_first_without_a_command():
    values = make_flags()
    common_flags.require(values, "vocab_file")
    grouped = headings.by_heading(values, "This -> that.")
    names = [flag.name for flag in grouped[headings.FIRST]]
    assert names == ["vocab_file", "learning_rate"]


def test_help_has_the_flags_under_headings_without_names_of_classes():
    text = headings.help_text(make_flags(), DOC)
    assert text.startswith(DOC)
    found = re.findall(r"^([A-Z][\w ]+):$", text, re.MULTILINE)
    assert found == [
        *(headings.FIRST, "Vocabulary and length", "Training", "Stores"),
        *(headings.OTHER, "Files of flags"),
    ]
    names = re.findall(r"^ *--(?:\[no\])?(\w+):", text, re.MULTILINE)
    assert names == [
        *("learning_rate", "seats", "speed", "vocab_file", "do_lower_case"),
        *(*RULES, "seed", "cache_dir", "wheels", "flagfile", "undefok"),
    ]
    assert "VocabularyOptions" not in text


def test_help_begins_with_a_table_of_the_flags_to_set_first():
    values = make_flags()
    values["speed"].default = None
    common_flags.require(values, "speed")
    table = headings.help_text(values, DOC).partition("\n\nSet these")[0]
    assert table.splitlines()[-5:] == [
        "flag             default   in full below, with all others",
        "--vocab_file               WordPiece vocabulary, one entry per line, "
        "as ...",
        "--speed          required  The speed",
        "--seats          1         The seats",
        "--learning_rate  5e-5      Rate",
    ]
