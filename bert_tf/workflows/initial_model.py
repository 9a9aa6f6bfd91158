"""ModelSource, folder of a run -> its Checkpoint, config and tokenizer.

Flags, records and the model on disk must agree.
"""

import types
from collections.abc import Mapping

import keras
from absl import logging

from bert_tf.checkpoint import checksums
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.checkpoint.contents import Contents
from bert_tf.config import BertConfig
from bert_tf.training import run_folder
from bert_tf.workflows.configs import ModelSource
from tfrecords.io import stored_folders
from tfrecords.options import quoted, some
from tfrecords.text import vocab
from tfrecords.text.tokenizer import BertTokenizer


def open_model(
    source: ModelSource, folder: run_folder.RunFolder, do_train: bool
) -> Checkpoint | None:
    """Returns the model that a run starts from, or evaluates, if any.

    To train, it is that of `init_checkpoint`; for a run that resumes, its own
    newest checkpoint, whose config and vocabulary count. Otherwise it is the
    model trained in `folder`, or `init_checkpoint` if there is none.

    Raises:
      ValueError: as in `Checkpoint.open`; if `folder` contains a run that
        started from another one; or if there is no model to evaluate.
    """
    if do_train:
        # Check before writing anything: the folder may contain another run.
        folder.check_setting("init_checkpoint", name_of(source))
        if folder.newest_step():
            # Not best/, which is replaced if it is damaged.
            return Checkpoint.open(folder.newest_model(), check_weights=False)
    else:
        # A damaged model must not be silently replaced by another.
        try:
            trained = folder.model()
        except checksums.DamagedError:
            raise
        except ValueError:
            if not source.init_checkpoint:
                raise
        else:
            return Checkpoint.open(trained)
    if not source.init_checkpoint:
        return None
    return open_initial(source)


def open_initial(source: ModelSource) -> Checkpoint:
    """Returns the model of `init_checkpoint`."""
    return Checkpoint.open(
        source.init_checkpoint,
        accept_tokenizer_differences=source.accept_tokenizer_differences,
    )


def name_of(source: ModelSource) -> str | None:
    """Returns `init_checkpoint` as it was given, also if it is in a store."""
    name = source.init_checkpoint
    return name and stored_folders.address(name)


def load_initial_weights(source: Checkpoint, model: keras.Model) -> None:
    """Assigns the weights of a source; warns of those that it lacks.

    Args:
      source: the model to start from.
      model: as for `Checkpoint.assign_to`.
    """
    if missing := source.assign_to(model):
        logging.warning(
            "%s has no %s; these weights are newly initialized",
            source.path(),
            some(missing),
        )


def identity(
    model: Checkpoint | None, source: ModelSource, folder: run_folder.RunFolder
) -> dict[str, str]:
    """Returns the entry of run.json on the weights that a run begins with.

    A run that resumes does not read them again: its entry stays. One that has
    no checkpoint yet begins again, with a warning if they have changed.
    """
    if not source.init_checkpoint or model is None:
        return {}
    before = folder.settings().get("init_checkpoint_sha256")
    if folder.newest_step():
        return {"init_checkpoint_sha256": before} if before else {}
    sha256 = model.sha256()
    if before not in (None, sha256):
        logging.warning(
            "%s has changed since this run was started; it has no checkpoint "
            "yet, and begins again with the new weights",
            source.init_checkpoint,
        )
    return {"init_checkpoint_sha256": sha256}


def choose_vocabulary(
    source: ModelSource,
    model: Checkpoint | None,
    records: Mapping[str, object] = types.MappingProxyType({}),
) -> tuple[vocab.Vocabulary | None, dict[str, bool]]:
    """Returns the vocabulary in use, and its rules for text.

    Args:
      source: reads `vocab_file` and `vocab.RULES`.
      model: model whose vocabulary and rules are the defaults.
      records: rules of existing records, as in their manifest; {} if unknown.

    Raises:
      ValueError: if `source`, records and model contradict each other.
    """
    rules = choose_rules(source, records, model)
    given, own = None, model and model.vocabulary_file()
    if source.vocab_file:
        given = vocab.Vocabulary.open(source.vocab_file)
        if own:
            _check_vocabulary(given, own)
    return given or own, rules


def _check_vocabulary(given: vocab.Vocabulary, own: vocab.Vocabulary) -> None:
    """Raises ValueError unless only [unused] entries of the model's differ."""
    # Entries, since a converted vocabulary always ends with a newline.
    old, new = own.entries(), given.entries()
    replaced, others = vocab.list_changes(old, new)
    if others:
        number = others[0]
        entries = [
            quoted(x[number]) if number < len(x) else "none" for x in (new, old)
        ]
        raise ValueError(
            f"--vocab_file={given.path} is not the vocabulary that the model "
            f"was trained with, {own.path}: {len(others)} entries differ, the "
            f"first is {entries[0]} instead of {entries[1]} on line "
            f"{number + 1}. "
            "Only [unused] entries may be replaced. Omit the flag to use the "
            "model's, and make records of another vocabulary again with it."
        )
    if replaced:
        number = replaced[0]
        logging.warning(
            "--vocab_file=%s replaces %d [unused] entries of the model, such "
            "as %s by %s. Their embeddings are those of the model, which has "
            "hardly trained them.",
            given.path,
            len(replaced),
            old[number],
            quoted(new[number]),
        )


def choose_rules(
    flags: vocab.VocabularyOptions,
    records: Mapping[str, object],
    model: Checkpoint | None = None,
) -> dict[str, bool]:
    """Returns `vocab.rules_of` what flags, records and model agree on.

    Args:
      flags: `vocab.RULES` that are flags, each None unless given.
      records: rules of existing records, as in their manifest; {} if unknown.
      model: model on disk, if any.

    Raises:
      ValueError: if two of them differ; for `split_special_tokens`, the model's
        is only a default.
    """
    own = rules_of_model(model) if model else {}
    records = vocab.all_rules_of(records)
    path = model.path() if model else ""
    rules = {"do_lower_case": True}
    for name in vocab.RULES:
        known = [
            (getattr(flags, name, None), f"--{name}=", "omit the flag"),
            (
                records.get(name),
                f"the records were made with {name}=",
                "make them again",
            ),
            (
                own.get(name),
                f"{path} was trained with {name}=",
                f"correct {name} in {path}",
            ),
        ]
        known = [entry for entry in known if entry[0] is not None]
        if not known:
            continue
        value = rules[name] = known[0][0]
        why = "was only inferred from the vocabulary"
        is_free = model and model.is_case_inferred
        if name == vocab.SPLIT:  # A training follows its records.
            why, is_free = f"is {own.get(name)}", True
        if is_free and own.get(name) not in (None, value):
            logging.warning(
                "using %s=%s; that of %s %s", name, value, path, why
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


def rules_of_model(model: Contents) -> dict[str, bool]:
    """Returns the rules that a model specifies, {} if it has none.

    What it leaves out has the original's value, unless the case was inferred.
    """
    if model.is_case_inferred:
        return model.rules()
    return vocab.all_rules_of(
        model.metadata | {"do_lower_case": model.do_lower_case}
    )


def choose_config(
    source: ModelSource, vocab_size: int | None, model: Checkpoint | None
) -> BertConfig:
    """Returns the BertConfig of a ModelSource.

    Args:
      source: reads `bert_config_file` and `bert_config_name`.
      vocab_size: size of the vocabulary in use, if known.
      model: model to start from, if any; its config is the default.

    Raises:
      ValueError: if there is no config, or its `vocab_size` is too small for
        the vocabulary.
    """
    if source.bert_config_file and source.bert_config_name:
        raise ValueError(
            f"--bert_config_file={source.bert_config_file} and "
            f"--bert_config_name={source.bert_config_name}: give only one."
        )
    if source.bert_config_file:
        config = BertConfig.from_json_file(source.bert_config_file)
    elif source.bert_config_name:
        sizes = {"vocab_size": vocab_size} if vocab_size else {}
        config = BertConfig.from_name(source.bert_config_name, **sizes)
    elif model:
        config = model.config
    else:
        raise ValueError(
            "No model sizes: give --bert_config_file=bert_config.json, or "
            "--bert_config_name such as base."
        )
    if model and model.config.hidden_act != config.hidden_act:
        logging.warning(
            "using hidden_act %s; the weights were trained with %s",
            config.hidden_act,
            model.config.hidden_act,
        )
    if vocab_size and vocab_size > config.vocab_size:
        raise ValueError(
            f"The vocabulary has {vocab_size} tokens, the model only "
            f"vocab_size={config.vocab_size}. Use the vocabulary of the model, "
            "or increase vocab_size in its config."
        )
    return config


def make_tokenizer(
    source: ModelSource, model: Checkpoint | None
) -> tuple[BertTokenizer, vocab.Vocabulary]:
    """Returns the tokenizer of a run, and its vocabulary.

    Arguments are those of `choose_vocabulary`.

    Raises:
      ValueError: if there is no vocabulary, or if flags contradict the model.
    """
    vocabulary, rules = choose_vocabulary(source, model)
    if not vocabulary:
        raise ValueError(
            "No vocabulary: give --vocab_file=vocab.txt, or an "
            "--init_checkpoint with a vocabulary."
        )
    return BertTokenizer(vocabulary, **rules), vocabulary


def check_length(max_seq_length: int, bert_config: BertConfig) -> None:
    """Raises ValueError if examples exceed `max_position_embeddings`."""
    # run_classifier.py: main.
    if max_seq_length > bert_config.max_position_embeddings:
        raise ValueError(
            f"--max_seq_length={max_seq_length} exceeds the model's "
            "max_position_embeddings="
            f"{bert_config.max_position_embeddings}. Lower it."
        )
