"""ModelSource -> config, initial weights, vocabulary and tokenizer."""

import os
import types
from collections.abc import Mapping

from absl import logging

from bert_tf.checkpoint import (
    checksums,
    model_folders,
    run_models,
    vocabularies,
)
from bert_tf.config import BertConfig
from bert_tf.training import run_folder
from bert_tf.workflows.configs import ModelSource
from tfrecords.io import stored_folders
from tfrecords.options import quoted
from tfrecords.text import vocab
from tfrecords.text.tokenizer import BertTokenizer


def find_model(
    source: ModelSource, output_dir: str, do_train: bool
) -> str | None:
    """Returns the model folder to load, if any.

    For training it is `init_checkpoint`; otherwise the model trained in
    `output_dir`, or `init_checkpoint` if there is none.

    Raises:
      ValueError: as in `find_init_checkpoint`; or if there is no model to
        evaluate, or it is damaged.
    """
    if not do_train:
        try:
            return run_models.find(output_dir)
        except checksums.DamagedError:
            raise  # A damaged model must not be silently replaced by another.
        except ValueError:
            if not source.init_checkpoint:
                raise
    return find_init_checkpoint(source, output_dir, do_train)


def find_init_checkpoint(
    source: ModelSource, output_dir: str, do_train: bool
) -> str | None:
    """Returns the model folder of `init_checkpoint`, if there is one.

    A checkpoint of another format is converted into `output_dir` first.

    Raises:
      ValueError: if it cannot be read, or if `output_dir` contains a run that
        started from another one.
    """
    if not source.init_checkpoint:
        return None
    if do_train:
        # Check before writing anything: the folder may contain another run.
        run_folder.check_setting(output_dir, "init_checkpoint", name_of(source))
    from bert_tf.checkpoint import formats

    return formats.as_model_folder(
        source.init_checkpoint,
        os.path.join(output_dir, "init_checkpoint"),
        again=not run_models.newest_step(output_dir),
        accept_tokenizer_differences=source.accept_tokenizer_differences,
    )


def name_of(source: ModelSource) -> str | None:
    """Returns `init_checkpoint` as it was given, also if it is in a store."""
    name = source.init_checkpoint
    return name and stored_folders.address(name)


def find_vocabulary(
    source: ModelSource,
    model_dir: str | None,
    records: Mapping[str, object] = types.MappingProxyType({}),
) -> tuple[str | None, dict[str, bool]]:
    """Returns the path of the vocabulary in use, and its rules for text.

    Args:
      source: reads `vocab_file` and `vocab.RULES`.
      model_dir: model folder whose vocabulary and rules are the defaults.
      records: rules of existing records, as in their manifest; {} if unknown.

    Raises:
      ValueError: if `source`, records and model contradict each other.
    """
    vocab_file = source.vocab_file
    rules = find_rules(source, records, model_dir)
    own = os.path.join(model_dir or "", model_folders.VOCABULARY)
    if not model_dir or not os.path.isfile(own):
        return vocab_file, rules
    if vocab_file:
        _check_vocabulary(vocab_file, own)
    return vocab_file or own, rules


def _check_vocabulary(vocab_file: str, own: str) -> None:
    """Raises ValueError unless only [unused] entries of a model are replaced.

    Args:
      vocab_file: vocabulary to use.
      own: that of the model.
    """
    # Entries, since a converted vocabulary always ends with a newline.
    old, new = vocab.read(own), vocab.read(vocab_file)
    replaced, others = vocab.find_changes(old, new)
    if others:
        number = others[0]
        entries = [
            quoted(x[number]) if number < len(x) else "none" for x in (new, old)
        ]
        raise ValueError(
            f"--vocab_file={vocab_file} is not the vocabulary that the model "
            f"was trained with, {own}: {len(others)} entries differ, the first "
            f"is {entries[0]} instead of {entries[1]} on line {number + 1}. "
            "Only [unused] entries may be replaced. Omit the flag to use the "
            "model's, and make records of another vocabulary again with it."
        )
    if replaced:
        number = replaced[0]
        logging.warning(
            "--vocab_file=%s replaces %d [unused] entries of the model, such "
            "as %s by %s. Their embeddings are those of the model, which has "
            "hardly trained them.",
            vocab_file,
            len(replaced),
            old[number],
            quoted(new[number]),
        )


def find_rules(
    flags: vocab.VocabularyOptions,
    records: Mapping[str, object],
    model_dir: str | None = None,
) -> dict[str, bool]:
    """Returns `vocab.rules_of` what flags, records and model agree on.

    Args:
      flags: `vocab.RULES`, each None unless given.
      records: rules of existing records, as in their manifest; {} if unknown.
      model_dir: model folder, if any.

    Raises:
      ValueError: if two of them differ.
    """
    metadata = model_folders.read_metadata(model_dir) if model_dir else {}
    model = rules_of_model(metadata)
    records = vocab.all_rules_of(records)
    path = os.path.join(model_dir or "", model_folders.METADATA)
    rules = {"do_lower_case": True}
    for name in vocab.RULES:
        known = [
            (getattr(flags, name), f"--{name}=", "omit the flag"),
            (
                records.get(name),
                f"the records were made with {name}=",
                "make them again",
            ),
            (
                model.get(name),
                f"{model_dir} was trained with {name}=",
                f"correct {path}",
            ),
        ]
        known = [entry for entry in known if entry[0] is not None]
        if not known:
            continue
        value = rules[name] = known[0][0]
        is_inferred = metadata.get(vocabularies.INFERRED_CASE)
        if is_inferred and model.get(name) not in (None, value):
            logging.warning(
                "using %s=%s; that of %s was only inferred from the vocabulary",
                name,
                value,
                model_dir,
            )
            known.pop()
        # tokenization.py: validate_case_matches_checkpoint.
        different = [f"{text}{x}" for x, text, _ in known if x != value]
        if different:
            fixes = ", or ".join(fix for _, _, fix in known)
            raise ValueError(
                f"{known[0][1]}{value}, but {' and '.join(different)}. Use one "
                f"value: {fixes}."
            )
    return vocab.rules_of(rules)


def rules_of_model(metadata: Mapping[str, object]) -> dict[str, bool]:
    """Returns the rules that a model.json specifies, {} if it has none.

    What it leaves out has the original's value, unless the case was inferred.
    """
    if metadata.get(vocabularies.INFERRED_CASE):
        return vocab.rules_of(metadata)
    return vocab.all_rules_of(metadata)


def find_config(
    source: ModelSource, vocab_size: int | None, model_dir: str | None
) -> BertConfig:
    """Returns the BertConfig of a ModelSource.

    Args:
      source: reads `bert_config_file` and `bert_config_name`.
      vocab_size: size of the vocabulary in use, if known.
      model_dir: model folder of `init_checkpoint`, if any; its config is the
        default.

    Raises:
      ValueError: if there is no config, or its `vocab_size` is too small for
        the vocabulary.
    """
    if source.bert_config_file and source.bert_config_name:
        raise ValueError(
            f"--bert_config_file={source.bert_config_file} and "
            f"--bert_config_name={source.bert_config_name}: give only one."
        )
    path = source.bert_config_file
    own = model_dir and os.path.join(model_dir, model_folders.CONFIG)
    if own and not path and not source.bert_config_name:
        path = own
    if path:
        config = BertConfig.from_json_file(path)
    elif source.bert_config_name:
        sizes = {"vocab_size": vocab_size} if vocab_size else {}
        config = BertConfig.from_name(source.bert_config_name, **sizes)
    else:
        raise ValueError(
            "No model sizes: give --bert_config_file=bert_config.json, or "
            "--bert_config_name such as base."
        )
    if own:
        hidden_act = BertConfig.from_json_file(own).hidden_act
        if hidden_act != config.hidden_act:
            logging.warning(
                "using hidden_act %s; the weights were trained with %s",
                config.hidden_act,
                hidden_act,
            )
    if vocab_size and vocab_size > config.vocab_size:
        raise ValueError(
            f"The vocabulary has {vocab_size} tokens, the model only "
            f"vocab_size={config.vocab_size}. Use the vocabulary of the model, "
            "or increase vocab_size in its config."
        )
    return config


def find_tokenizer(
    config: ModelSource, model_dir: str | None = None
) -> tuple[BertTokenizer, str]:
    """Returns the tokenizer of a model, and the path of its vocabulary.

    Args:
      config: reads `vocab_file` and `vocab.RULES`.
      model_dir: model folder whose vocabulary and rules are the defaults.

    Raises:
      ValueError: if there is no vocabulary, or if `config` contradicts the
        model.
    """
    vocab_file, rules = find_vocabulary(config, model_dir)
    if not vocab_file:
        raise ValueError(
            "No vocabulary: give --vocab_file=vocab.txt, or an "
            "--init_checkpoint with a vocabulary."
        )
    return BertTokenizer(vocab_file, **rules), vocab_file


def check_length(max_seq_length: int, bert_config: BertConfig) -> None:
    """Raises ValueError if examples exceed `max_position_embeddings`."""
    # run_classifier.py: main.
    if max_seq_length > bert_config.max_position_embeddings:
        raise ValueError(
            f"--max_seq_length={max_seq_length} exceeds the model's "
            "max_position_embeddings="
            f"{bert_config.max_position_embeddings}. Lower it."
        )
