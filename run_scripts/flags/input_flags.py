"""Flags of texts, columns and JSON lines -> rows of what a model takes."""

from collections.abc import Iterator, Mapping

from absl import flags

from bert_tf.workflows import text_rows

# Inputs that need not be there.
OPTIONAL = ("text_b",)


def define(values: flags.FlagValues) -> None:
    """Adds the flags that say what to read, and how."""
    flags.DEFINE_string(
        "input_file",
        "-",
        "Lines of text, a TSV or JSON lines; - is stdin.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "input_format",
        "auto",
        ["auto", "text", "tsv", "jsonl"],
        "auto: tsv if there are columns, jsonl if the file is named so or the "
        "model needs more than a text, otherwise text.",
        flag_values=values,
    )
    flags.DEFINE_list(
        "columns",
        None,
        "Columns of a TSV for inputs of the model, such as "
        "question=1,context=2; by the names in the first line, or by numbers "
        "from 0 in a file without names. Several of one input make a list: "
        "endings=4,endings=5.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "text_a_column",
        None,
        "Column of a TSV with the text, as in --columns.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "text_b_column",
        None,
        "Column with the second text, for models of pairs.",
        flag_values=values,
    )


def input_ranks(values: flags.FlagValues, signature) -> dict[str, int]:
    """Returns the inputs of a signature: 1 for a text, 2 for a list of texts.

    Raises:
      ValueError: if the flags give more texts than the model takes.
    """
    if values.text_b_column and not values.text_a_column:
        raise ValueError(
            f"--text_b_column={values.text_b_column} needs --text_a_column, "
            "the column of the first text."
        )
    specs = signature.structured_input_signature[1]
    names = sorted(specs)
    if values.text_b_column and len(names) == 1:
        raise ValueError(
            f"{values.export_dir} takes one text, {names[0]!r}; leave out "
            f"--text_b_column={values.text_b_column}."
        )
    if values.text_a_column and names[0] not in ("text", "text_a"):
        raise ValueError(
            f"--text_a_column={values.text_a_column}: this model takes "
            f"{', '.join(names)}; name their columns by --columns."
        )
    return {name: specs[name].shape.rank for name in names}


def find_columns(
    values: flags.FlagValues, ranks: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Returns input and column of a TSV, as the flags say.

    Raises:
      ValueError: if a flag names no input of the model, or one twice, or
        there are columns for some inputs and not for others.
    """
    pairs = [
        (name, column)
        for name, column in zip(
            sorted(ranks),
            [values.text_a_column, values.text_b_column],
            strict=False,
        )
        if column
    ]
    for word in values.columns or ():
        name, equals, column = word.partition("=")
        if not equals or name not in ranks:
            raise ValueError(
                f"--columns={word}: expected an input of the model and its "
                f"column, such as {min(ranks)}=0. Inputs of this model: "
                f"{', '.join(ranks)}."
            )
        if ranks[name] == 1 and name in dict(pairs):
            raise ValueError(
                f"--columns={word}: there is a column of {name!r} already, and "
                "this input is one text. Leave one out."
            )
        pairs.append((name, column))
    absent = set(ranks) - {name for name, _ in pairs} - set(OPTIONAL)
    if pairs and absent:
        raise ValueError(
            f"--columns={','.join(map('='.join, pairs))}: there is no column "
            f"for {', '.join(map(repr, sorted(absent)))}, which the model "
            "needs. Add it."
        )
    return pairs


def find_format(
    values: flags.FlagValues, ranks: Mapping[str, int], has_columns: bool
) -> str:
    """Returns text, tsv or jsonl, from the flag or as the rest demands.

    Raises:
      ValueError: if the model cannot be asked in the format of the flag.
    """
    needed = [name for name in ranks if name not in OPTIONAL]
    found = values.input_format
    if found == "auto":
        if has_columns:
            found = "tsv"
        elif values.input_file.endswith(".jsonl") or len(needed) > 1:
            found = "jsonl"
        else:
            found = "text"
    if (found == "tsv") != has_columns:
        raise ValueError(
            f"--input_format={found} with{'' if has_columns else 'out'} "
            "columns. A TSV needs --columns, or --text_a_column, and nothing "
            "else has them."
        )
    if found == "text" and len(needed) > 1:
        raise ValueError(
            f"--input_format=text gives one text a line, and this model needs "
            f"{', '.join(needed)}. Use jsonl, or tsv and --columns."
        )
    return found


def read_rows(
    values: flags.FlagValues, lines: text_rows.Lines, ranks: Mapping[str, int]
) -> Iterator[text_rows.Row | None]:
    """Returns the rows of the input, in the format that the flags say."""
    columns = find_columns(values, ranks)
    kind = find_format(values, ranks, bool(columns))
    if kind == "tsv":
        return text_rows.read_columns(lines, columns, ranks)
    if kind == "jsonl":
        return text_rows.read_objects(lines, ranks, OPTIONAL)
    name = next(name for name in ranks if name not in OPTIONAL)
    return text_rows.read_texts(lines, name, ranks[name])
