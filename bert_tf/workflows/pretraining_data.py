"""Folders of pre-training records -> data of each phase, held-out data."""

import os
from typing import NamedTuple

from bert_tf.config import BertConfig
from bert_tf.tasks import pretraining
from bert_tf.workflows.configs import PretrainingConfig
from tfrecords.io import records as records_lib
from tfrecords.text import vocab


class PretrainingData(NamedTuple):
    """Records to train or to evaluate on.

    Attributes:
      records: opened, and checked against the model.
      sizes: number for each dimension of their examples.
      task: that a model learns from them; its schema is that of a batch.
      num_steps: optimizer steps on them; 0 if held out.
    """

    records: records_lib.Records
    sizes: dict[str, int]
    task: pretraining.PretrainingTask
    num_steps: int = 0

    @property
    def digest(self) -> str | list[str]:
        """Identifies the records; of files without a manifest, their paths."""
        manifest = self.records.manifest
        return manifest.digest if manifest else self.records.paths


def _folders(config: PretrainingConfig) -> list[str]:
    """Returns the paths of the phases' records, in the order of the flag."""
    paths = [path for path in config.input_file.split(",") if path]
    missing = [path for path in paths if not os.path.isdir(path)]
    if len(missing) == len(paths):
        return [config.input_file]
    if missing:
        raise ValueError(
            f"--input_file={config.input_file}: no folder at "
            f"{', '.join(missing)}, unlike the rest. Give folders that "
            "make_pretraining_records wrote, or TFRecord files alone."
        )
    return paths


def find_vocabulary_of_records(
    config: PretrainingConfig, vocab_file: str | None
) -> tuple[int | None, str | None]:
    """Returns entries and sha256 of the vocabulary that all records share.

    Args:
      config: its `input_file` or else `eval_input_file` is read.
      vocab_file: that of the flags or of the model to begin with; with None,
        the one that the training records were made with counts.

    Returns:
      None and None if the records have no manifest that knows it.
    """
    if vocab_file:
        return len(vocab.read(vocab_file)), vocab.digest(vocab_file)
    paths = _folders(config) if config.input_file else [config.eval_input_file]
    manifest = records_lib.Records.open(paths[0]).manifest
    if not manifest:
        return None, None
    return manifest.vocabulary["size"], manifest.vocabulary["sha256"]


def open_data(
    config: PretrainingConfig,
    path: str,
    bert_config: BertConfig,
    sha256: str | None,
    num_steps: int = 0,
) -> PretrainingData:
    """Opens records and checks that the model can read them.

    Args:
      config: its sizes count more than those of the manifest.
      path: folder, or TFRecord files as comma-separated globs.
      bert_config: of the model.
      sha256: of the vocabulary that all records share, if it is known.
      num_steps: optimizer steps on them.
    """
    opened = records_lib.Records.open(path)
    manifest = opened.manifest
    sizes = dict(manifest.sizes) if manifest else {}
    for name in ("max_seq_length", "max_predictions_per_seq"):
        if getattr(config, name) is not None:
            sizes[name] = getattr(config, name)
        if name not in sizes:
            raise ValueError(
                f"These records have no manifest, so --{name} is needed: the "
                "value they were made with."
            )
    on_disk = pretraining.schema_of(opened, on_disk=True)
    opened.check(on_disk, sizes, vocab_sha256=sha256)
    made_with = manifest.vocabulary["size"] if manifest else 0
    if made_with > bert_config.vocab_size:
        raise ValueError(
            f"{path} was made with a vocabulary of {made_with} entries; the "
            f"model has only vocab_size={bert_config.vocab_size}. Make the "
            "records with the vocabulary of the model."
        )
    if sizes["max_seq_length"] > bert_config.max_position_embeddings:
        raise ValueError(
            f"{path} has examples of {sizes['max_seq_length']} tokens; the "
            "model reads at most max_position_embeddings="
            f"{bert_config.max_position_embeddings}. Make them shorter."
        )
    task = pretraining.task_of(opened, bert_config)
    return PretrainingData(opened, sizes, task, num_steps)


def open_phases(
    config: PretrainingConfig, bert_config: BertConfig, sha256: str | None
) -> list[PretrainingData]:
    """Opens what `input_file` and `phases` name, in the order of training.

    Raises:
      ValueError: if the settings do not fit the records or each other.
    """
    total = config.num_train_steps
    parts = [
        open_data(config, path, bert_config, sha256, total)
        for path in _folders(config)
    ]
    if len(parts) == 1 and not config.phases:
        return parts
    by_length = {part.sizes["max_seq_length"]: part for part in parts}
    shares = _shares(config, sorted(by_length), len(parts))
    ends, done = [0], 0.0
    for share in shares.values():
        done += share
        ends.append(round(done * total))
    ordered = []
    for i, (length, share) in enumerate(shares.items()):
        num_steps = ends[i + 1] - ends[i]
        if num_steps < 1:
            raise ValueError(
                f"--phases={length}:{share:g} of --num_train_steps={total} is "
                "no step. Make one of the two larger."
            )
        ordered.append(by_length[length]._replace(num_steps=num_steps))
    return ordered


def _shares(
    config: PretrainingConfig, lengths: list[int], num_folders: int
) -> dict[int, float]:
    """Returns the length of each phase's examples, and its share of steps."""
    flag = f"--phases={','.join(config.phases or ())}"
    if len(lengths) < num_folders:
        raise ValueError(
            f"--input_file has {num_folders} folders, but examples of "
            f"{lengths} tokens only; each phase needs a length of its own."
        )
    if not config.phases:
        if len(lengths) == 2:
            return dict(zip(lengths, (0.9, 0.1), strict=True))
        raise ValueError(
            f"--input_file has {num_folders} folders, of {lengths} tokens; "
            "say with --phases=LENGTH:SHARE,... how long to read each."
        )
    try:
        pairs = [word.split(":") for word in config.phases]
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
    # Of NaN neither is true.
    is_one = abs(sum(shares.values()) - 1) <= 1e-6
    if not (min(shares.values()) > 0 and is_one):
        raise ValueError(f"{flag}: the shares should be above 0, and 1 in all.")
    return shares
