"""--teacher -> Teacher: a task with its losses, and initial weights."""

import dataclasses
import math
import re
from collections.abc import Mapping

import keras
import tensorflow as tf
from absl import logging

from bert_tf.checkpoint import contents, model_folders, tensor_files
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.config import POLICIES, BertConfig
from bert_tf.tasks.distillation import DistilledTask
from bert_tf.tasks.task import Task
from bert_tf.workflows.configs import TeacherOptions
from tfrecords.text import vocab
from tfrecords.text.tokenizer import BertTokenizer

_PRETRAINING = "pretraining"
_NEXT_SENTENCE = "next_sentence"
_LAYER = re.compile(r"encoder/layer_(\d+)/")


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A model that a student learns from.

    Attributes:
      model: from `load`.
      config: how the student learns from it.
      relation_heads: see `relation_heads`.
    """

    model: keras.Model
    config: TeacherOptions
    relation_heads: int

    def settings(self) -> dict:
        """Returns the entries of run.json, besides those of the options."""
        return {
            "teacher_sha256": tensor_files.digest_of(self._weights()),
            # Their order has no effect.
            "distillation_losses": sorted(set(self.config.distillation_losses)),
        }

    def _weights(self) -> dict[str, keras.Variable]:
        """Returns name -> weight, without those that are newly initialized."""
        weights = model_folders.weight_names(self.model)
        untrained = self.model.untrained
        return {n: x for n, x in weights.items() if n not in untrained}

    def with_losses(self, task: Task) -> Task:
        """Returns a task with the losses of the teacher."""
        config = self.config
        return DistilledTask(
            task,
            self.model,
            losses=config.distillation_losses,
            weight=config.distillation_weight,
            temperature=config.temperature,
            relation_heads=self.relation_heads,
            relation_layer=self.model.config.num_hidden_layers - 1,
        )

    def copy_layers(self, student: keras.Model) -> None:
        """Copies `init_from_teacher_layers`, embeddings, pooler and head.

        Without that option, nothing. Weights that the teacher lacks, such as
        the head of another task, stay as they are.

        Raises:
          ValueError: if the student has another number of layers, the teacher
            lacks one of them, or their sizes or the places of LayerNorm differ.
        """
        if not self.config.init_from_teacher_layers:
            return
        layers = [int(word) for word in self.config.init_from_teacher_layers]
        flag = f"--init_from_teacher_layers={','.join(map(str, layers))}"
        num_layers = student.config.num_hidden_layers
        last = self.model.config.num_hidden_layers - 1
        if len(layers) != num_layers or max(layers) > last:
            raise ValueError(
                f"{flag} should be {num_layers} numbers, one for each layer of "
                f"the student, from 0 to {last}, the last layer of the teacher."
            )
        if self.model.config.norm_first != student.config.norm_first:
            raise ValueError(
                f"{flag}: the teacher has norm_first="
                f"{self.model.config.norm_first} in its bert_config.json, the "
                f"student {student.config.norm_first}; such layers compute "
                "something else. Use the teacher's, or omit the flag."
            )
        weights = self._weights()
        own = model_folders.weight_names(student)
        copied = {
            name: weights[_source(name, layers)]
            for name in own
            if _source(name, layers) in weights
        }
        _check_shapes(own, copied, flag)
        for name, weight in copied.items():
            own[name].assign(weight.numpy())
        logging.info("%s  weights copied %d of %d", flag, len(copied), len(own))


def load(
    task: Task,
    config: TeacherOptions,
    student: BertConfig,
    strategy: tf.distribute.Strategy,
    *,
    max_seq_length: int,
    vocabulary: vocab.Vocabulary | None,
    rules: Mapping[str, bool],
    vocabulary_sha256: str | None = None,
) -> Teacher:
    """Returns the model of --teacher, which has to be given.

    The classes of its head are brought into the order of the task's labels.

    Args:
      task: task of the student, prepared.
      config: the teacher, and what to learn from it; `precision` of the run.
      student: config of the student.
      strategy: strategy of the run; each replica has a copy of the teacher.
      max_seq_length: tokens in the longest examples.
      vocabulary: vocabulary of the student, if known.
      rules: those of the student's tokenizer, see `vocab.rules_of`.
      vocabulary_sha256: digest of the vocabulary, if it is not known.

    Raises:
      ValueError: as in `Checkpoint.open`, or if task, labels, vocabulary or
        sizes of the teacher do not fit the student.
    """
    path, accepts = config.teacher, config.accept_tokenizer_differences
    dtype = POLICIES[config.precision or "float32"]
    try:
        given = Checkpoint.open(path, accept_tokenizer_differences=accepts)
        tokenizer = given.tokenizer()
        with strategy.scope():
            model = given.build(dtype=dtype)
    except ValueError as error:
        raise ValueError(f"--teacher: {error}") from error
    _check_vocabulary(tokenizer, path, vocabulary, vocabulary_sha256)
    own, others = map(vocab.all_rules_of, (rules, tokenizer.rules))
    if not given.is_case_inferred:
        for name, value in others.items():
            # The teacher reads the student's tokens.
            if own[name] != value and name != vocab.SPLIT:
                raise ValueError(
                    f"--teacher={path} was trained with {name}={value}, the "
                    f"student has {own[name]}. Use the same for both."
                )
    _check_sizes(model.config, path, student, max_seq_length)
    losses = config.distillation_losses
    if _task_of(task) == "multiple_choice" and set(losses) != {"soft_targets"}:
        raise ValueError(
            f"--distillation_losses={','.join(losses)}: choice models "
            "learn only soft_targets. Omit the others."
        )
    if "soft_targets" in losses:
        _check_task(model, task, path)
        _check_classes(model, student, task, path)
    model.trainable = False
    logging.info(
        "teacher %s  task %s  layers %d  hidden_size %d  losses %s",
        path,
        model.metadata["task"],
        model.config.num_hidden_layers,
        model.config.hidden_size,
        ", ".join(losses),
    )
    return Teacher(model, config, relation_heads(model.config, student))


def relation_heads(teacher: BertConfig, student: BertConfig) -> int:
    """Returns the number of parts of each vector that relations compare.

    The teacher's attention heads, as in MiniLMv2, or the next smaller number
    that divides the hidden sizes of both models.
    """
    common = math.gcd(teacher.hidden_size, student.hidden_size)
    numbers = range(teacher.num_attention_heads, 0, -1)
    return next(number for number in numbers if common % number == 0)


def _check_vocabulary(
    tokenizer: BertTokenizer | None,
    path: str,
    vocabulary: vocab.Vocabulary | None,
    sha256: str | None,
) -> None:
    """Raises ValueError if the teacher has another vocabulary, or none."""
    if tokenizer is None:
        raise ValueError(
            f"--teacher={path} has no vocabulary to compare with the student's."
            " Put the vocab.txt that it was trained with into its folder."
        )
    if vocabulary:
        is_same = tokenizer.vocab == vocabulary.entries()
    else:
        is_same = sha256 in (None, tokenizer.sha256)
    if not is_same:
        name = vocabulary.path if vocabulary else "that of the records"
        raise ValueError(
            f"--teacher={path} has another vocabulary than {name}: the same "
            "ids are other words. Use a teacher with the student's vocabulary, "
            "or train the student with the teacher's."
        )


def _check_sizes(
    teacher: BertConfig, path: str, student: BertConfig, max_seq_length: int
) -> None:
    """Raises ValueError if the teacher cannot read the student's batches."""
    if teacher.is_causal != student.is_causal:
        raise ValueError(
            f"--teacher={path} has is_causal={teacher.is_causal}, the student "
            f"{student.is_causal}: they do not see the same tokens. Use a "
            "teacher of the same kind."
        )
    if teacher.max_position_embeddings < max_seq_length:
        raise ValueError(
            f"--teacher={path} has max_position_embeddings="
            f"{teacher.max_position_embeddings}; examples have up to "
            f"{max_seq_length} tokens. Lower --max_seq_length."
        )
    for name in ("vocab_size", "type_vocab_size"):
        if 0 < getattr(teacher, name) < getattr(student, name):
            raise ValueError(
                f"--teacher={path} has {name}={getattr(teacher, name)}, the "
                f"student {getattr(student, name)}: the teacher cannot read "
                "all of its ids. Use the teacher's in the student's config."
            )


def _task_of(task: Task) -> str:
    """Returns the task as in model.json."""
    return task.metadata().get("task", _PRETRAINING)


def _check_task(model: keras.Model, task: Task, path: str) -> None:
    """Raises ValueError if the teacher's head is not of the task."""
    expected, found = _task_of(task), model.metadata["task"]
    if found != expected:
        raise ValueError(
            f"--teacher={path} is a model for {found}, the student learns "
            f"{expected}. For soft_targets, fine-tune the teacher on the same "
            "task first."
        )
    unused: tuple[str, ...] = ()
    pairs = model.metadata.get("pairs", _NEXT_SENTENCE)
    if expected != _PRETRAINING:
        if not contents.reads_pooler(expected, model.config):
            unused = (contents.POOLER,)
    elif task.pairs == "none":
        unused = (contents.POOLER, f"{_NEXT_SENTENCE}/")
    elif pairs != task.pairs:
        raise ValueError(
            f"--teacher={path} was trained with pairs={pairs}, the records "
            f"have pairs={task.pairs}. Use records of the teacher's kind, or "
            "of pairs=none."
        )
    untrained = contents.read_untrained(model.metadata, model.config)
    untrained = [name for name in untrained if not name.startswith(unused)]
    if untrained:
        raise ValueError(
            f"--teacher={path} has weights that were never trained: "
            f"{', '.join(sorted(untrained)[:3])}. Its predictions would be "
            "random; use a teacher with a trained head."
            + " Or make records of pairs=none."
            * (expected == _PRETRAINING)
        )


def _check_classes(
    model: keras.Model, student: BertConfig, task: Task, path: str
) -> None:
    """Brings the classes of the teacher's head into the order of the task's."""
    is_pretraining = _task_of(task) == _PRETRAINING
    if is_pretraining and model.config.vocab_size != student.vocab_size:
        raise ValueError(
            f"--teacher={path} has vocab_size={model.config.vocab_size}, the "
            f"student {student.vocab_size}: it predicts other ids. Use the "
            "teacher's vocab_size in the student's config."
        )
    labels = list(task.metadata().get("labels") or ())
    own = list(model.metadata.get("labels") or ())
    if own == labels:
        return
    if sorted(own) != sorted(labels):
        raise ValueError(
            f"--teacher={path} has the labels {', '.join(own)}; the student's "
            f"are {', '.join(labels)}. Use a teacher of the same labels, or "
            "rename its own: bert_tf.load(path, labels=[...]), bert_tf.save."
        )
    logging.info("labels of %s: %s, reordered", path, ", ".join(own))
    order = [own.index(label) for label in labels]
    for weight in (model.head.dense.kernel, model.head.dense.bias):
        weight.assign(weight.numpy()[..., order])


def _source(name: str, layers: list[int]) -> str:
    """Returns the name of the teacher's weight for one of the student."""
    return _LAYER.sub(lambda m: f"encoder/layer_{layers[int(m[1])]}/", name)


def _check_shapes(own: Mapping, copied: Mapping, flag: str) -> None:
    for name, weight in copied.items():
        if tuple(weight.shape) != tuple(own[name].shape):
            raise ValueError(
                f"{flag}: {name} is {tuple(weight.shape)} in the teacher and "
                f"{tuple(own[name].shape)} in the student. Use the sizes of "
                "the teacher's bert_config.json, except the number of layers."
            )
