"""Flags of pre-training -> its records, their sizes and vocabulary."""

import dataclasses
import os
from typing import NamedTuple

from absl import flags

from bert_tf.config import BertConfig
from bert_tf.workflows import pretraining_kinds
from tfrecords.io import records
from tfrecords.text import vocab


def define_records(values: flags.FlagValues) -> None:
    """Adds the flags that name records and the sizes of their examples."""
    flags.DEFINE_string(
        "input_file",
        None,
        "Records to train on: a folder that make_pretraining_records wrote, or "
        "TFRecord files of the original as comma-separated globs. Several "
        "folders with a comma between: see --phases.",
        flag_values=values,
    )
    flags.DEFINE_list(
        "phases",
        None,
        "With several folders in --input_file: which of them to read first, by "
        "the length of its examples, and for which share of the optimizer "
        "steps. Default for two folders: the shorter for 0.9 of the steps, the "
        "longer for 0.1, as in the paper, that is 128:0.9,512:0.1.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "eval_input_file",
        None,
        "Records to evaluate on, at every checkpoint and at the end.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_seq_length",
        None,
        "Tokens in an example; default: what the records' manifest says.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        None,
        "Masked places in an example; default: what the manifest says.",
        flag_values=values,
    )


def define_objective(values: flags.FlagValues) -> None:
    """Adds the flag of what the model learns."""
    flags.DEFINE_enum(
        "objective",
        None,
        ["masked_lm", "left_to_right"],
        "masked_lm, with pairs where the records have them; or left_to_right: "
        "each token reads what stands before it and predicts the next one, as "
        "in section 5.1 of the paper, of records of --pairs=none "
        "--masking_time=dynamic. Default: as the bert_config.json has it.",
        flag_values=values,
    )


def with_objective(values: flags.FlagValues, config: BertConfig) -> BertConfig:
    """Returns the config of a model that learns --objective.

    Raises:
      ValueError: if the model is, or was trained, for the other one.
    """
    wanted = {None: config.is_causal, "left_to_right": True}
    is_causal = wanted.get(values.objective, False)
    if is_causal < config.is_causal or (
        is_causal > config.is_causal and not values.do_train
    ):
        own = "left_to_right" if config.is_causal else "masked_lm"
        raise ValueError(
            f"--objective={values.objective}, but the model is for {own} by "
            "its bert_config.json. Leave the flag away, or take another "
            "config."
        )
    return dataclasses.replace(config, is_causal=is_causal)


def define_steps(values: flags.FlagValues) -> None:
    """Adds the flags of how long to train and to evaluate."""
    flags.DEFINE_integer(
        "num_train_steps",
        100000,
        "Optimizer steps at the end of the run.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_warmup_steps",
        10000,
        "Optimizer steps until the peak of the learning rate.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_eval_steps",
        0,
        "Evaluation batches to stop after; 0 for all.",
        lower_bound=0,
        flag_values=values,
    )


def find_sizes(
    values: flags.FlagValues, found: records.Records
) -> dict[str, int]:
    """Returns the sizes of examples, from flags or else from the manifest."""
    sizes = dict(found.manifest.sizes) if found.manifest else {}
    for name in ("max_seq_length", "max_predictions_per_seq"):
        if values[name].value is not None:
            sizes[name] = values[name].value
        if name not in sizes:
            raise ValueError(
                f"These records have no manifest, so --{name} is needed: the "
                "value they were made with."
            )
    return sizes


class PhaseRecords(NamedTuple):
    """What one phase of a pre-training reads."""

    records: records.Records
    sizes: dict[str, int]
    num_steps: int


def _folders(values: flags.FlagValues) -> list[str]:
    """Returns the paths of the phases' records, in the order of the flag."""
    paths = [path for path in values.input_file.split(",") if path]
    others = [path for path in paths if not os.path.isdir(path)]
    if len(others) == len(paths):
        return [values.input_file]
    if others:
        raise ValueError(
            f"--input_file={values.input_file}: no folder at "
            f"{', '.join(others)}, unlike the rest. Give folders that "
            "make_pretraining_records wrote, or TFRecord files alone."
        )
    return paths


def first_records(values: flags.FlagValues) -> records.Records:
    """Returns records that know the vocabulary that all were made with."""
    paths = _folders(values) if values.input_file else [values.eval_input_file]
    return records.Records.open(paths[0])


def open_phases(
    values: flags.FlagValues, config, sha256: str | None
) -> list[PhaseRecords]:
    """Opens what `--input_file` and `--phases` name, in the order of training.

    Args:
      values: with `num_train_steps` and the flags of `define_records`.
      config: BertConfig that has to fit.
      sha256: of the vocabulary that all must share, if it is known.

    Raises:
      ValueError: if the flags do not fit the records or each other.
    """
    total = values.num_train_steps
    opened = []
    for path in _folders(values):
        sizes = find_sizes(values, records.Records.open(path))
        found = open_records(path, sizes, config, sha256)
        opened.append(PhaseRecords(found, sizes, total))
    if len(opened) == 1 and not values.phases:
        return opened
    by_length = {phase.sizes["max_seq_length"]: phase for phase in opened}
    shares = _shares(values, sorted(by_length), len(opened))
    ends, done = [], 0.0
    for share in shares.values():
        done += share
        ends.append(round(done * total))
    phases = [
        by_length[length]._replace(num_steps=end - begin)
        for length, begin, end in zip(shares, [0, *ends], ends, strict=False)
    ]
    for (length, share), phase in zip(shares.items(), phases, strict=True):
        if phase.num_steps < 1:
            raise ValueError(
                f"--phases={length}:{share:g} of --num_train_steps={total} is "
                "no step. Make one of the two larger."
            )
    return phases


def _shares(values, lengths: list[int], num_folders: int) -> dict[int, float]:
    """Returns the length of each phase's examples, and its share of steps."""
    flag = f"--phases={','.join(values.phases or ())}"
    if len(lengths) < num_folders:
        raise ValueError(
            f"--input_file has {num_folders} folders, but examples of "
            f"{lengths} tokens only; each phase needs a length of its own."
        )
    if not values.phases:
        if len(lengths) == 2:
            return dict(zip(lengths, (0.9, 0.1), strict=True))
        raise ValueError(
            f"--input_file has {num_folders} folders, of {lengths} tokens; "
            "say with --phases=LENGTH:SHARE,... how long to read each."
        )
    try:
        pairs = [word.split(":") for word in values.phases]
        shares = {int(length): float(share) for length, share in pairs}
    except ValueError:
        raise ValueError(
            f"{flag} should be like 128:0.9,512:0.1: lengths, and shares of "
            "the optimizer steps."
        ) from None
    if sorted(shares) != lengths or len(shares) != len(pairs):
        raise ValueError(
            f"{flag}: the records of --input_file have examples of {lengths} "
            "tokens. Name each length once."
        )
    # Of nan neither is true.
    is_one = abs(sum(shares.values()) - 1) <= 1e-6
    if not (min(shares.values()) > 0 and is_one):
        raise ValueError(f"{flag}: the shares should be above 0, and 1 in all.")
    return shares


def vocabulary_digest(
    values: flags.FlagValues, vocab_file: str | None
) -> str | None:
    """Returns the sha256 of the vocabulary that all records must share.

    Args:
      values: with the flags of `define_records`.
      vocab_file: that of the flags or of the model to begin with; with None,
        the one that the training records were made with counts.
    """
    if vocab_file:
        return vocab.digest(vocab_file)
    manifest = first_records(values).manifest
    return manifest.vocabulary["sha256"] if manifest else None


def open_records(path, sizes, config, sha256) -> records.Records:
    """Opens records and checks that the model can read them."""
    found = records.Records.open(path)
    found.check(
        pretraining_kinds.schema_of(found, on_disk=True),
        sizes,
        vocab_sha256=sha256,
    )
    made_with = found.manifest.vocabulary["size"] if found.manifest else 0
    if made_with > config.vocab_size:
        raise ValueError(
            f"{path} was made with a vocabulary of {made_with} entries; the "
            f"model has only vocab_size={config.vocab_size}. Make the records "
            "with the vocabulary of the model."
        )
    if sizes["max_seq_length"] > config.max_position_embeddings:
        raise ValueError(
            f"{path} has examples of {sizes['max_seq_length']} tokens; the "
            "model reads at most max_position_embeddings="
            f"{config.max_position_embeddings}. Make them shorter."
        )
    return found


def digest(found: records.Records) -> str | list[str]:
    """Returns what tells records from others; of bare files their paths."""
    return found.manifest.digest if found.manifest else found.paths


def vocabulary_size(
    values: flags.FlagValues, vocab_file: str | None
) -> int | None:
    """Returns the entries of a vocabulary file, or of the records'."""
    if vocab_file:
        return len(vocab.read(vocab_file))
    manifest = first_records(values).manifest
    return manifest.vocabulary["size"] if manifest else None
