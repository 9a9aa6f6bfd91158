r"""Train steps -> what XLA would compile for a TPU: types, calls, bytes kept.

    python -m tools.hlo_report --size=base --batch_size=8

Lowers the step of pre-training in bfloat16 to HLO, XLA's input, for several
settings. Prints the largest number of 64-bit values in an array (TPUs emulate
64 bits), what a TPU cannot run (calls of the host, custom calls, shapes that
are not static), and the bytes that the forward pass keeps for the gradient,
beside the estimate of `run_scripts.doctor`. Exits with status 1 if a TPU could
not run a step. Nothing is executed: HLO is the same for every device, up to
the choices that XLA makes later.
"""

import argparse
import math
import re
from typing import NamedTuple

import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.tasks import pretraining
from bert_tf.training import loop, optimizers, strategies, train_step
from bert_tf.training.config import TrainingConfig
from bert_tf.workflows import estimates
from tfrecords import schema

_BYTES = {
    **{"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s16": 2, "u16": 2},
    **{"f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8},
}
_ARRAY = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\]")
_INSTRUCTION = re.compile(r"^ *(?:ROOT )?%(\S+) = (.*)$", re.M)
_OPERATION = re.compile(r"^(\(.*?\)|\S+) ([\w-]+)\((.*)$")
# What a TPU cannot run: see `foreign_calls`.
_FOREIGN = (
    *("custom-call", "infeed", "outfeed", "send", "recv"),
    *("set-dimension-size", "get-dimension-size"),
)
# Instructions that XLA fuses into their users: it keeps their operand.
_FUSED = (
    *("reshape", "transpose", "broadcast", "convert", "copy", "bitcast"),
    "get-tuple-element",
)
# Values that exist anyway, or that are made again at no cost.
_FREE = ("parameter", "constant", "iota", "tuple")
# Name -> length, packed, and fields of TrainingConfig.
CASES = {
    "128 tokens": (128, False, {}),
    "512 tokens": (512, False, {}),
    "512 tokens, packed": (512, True, {}),
    "512 tokens, remat": (512, False, {"remat": True}),
    "128 tokens, two micro-batches": (
        *(128, False),
        {"gradient_accumulation_steps": 2},
    ),
    "128 tokens, one-hot look-ups": (
        *(128, False),
        {"use_one_hot_embeddings": True},
    ),
}
_EXAMPLES_PER_ROW = 8  # Of packed rows.


class Instruction(NamedTuple):
    """An instruction of HLO."""

    shape: str  # Such as `f32[8,128]{1,0}`, or a tuple of these.
    operation: str
    operands: list[str]


class Report(NamedTuple):
    """What is found out about a step."""

    most_64_bit: int  # Number of values in the largest array of 64 bits.
    foreign: set[str]  # Operations in it that a TPU cannot run.
    is_static: bool  # Whether all shapes are static.
    kept: int  # Bytes kept for the gradient of a micro-batch.
    estimated: float  # The same, as estimated by the doctor.


class Lowered:
    """Lowers pre-training steps of a model of one size.

    Args:
      config: sizes of the model.
    """

    def __init__(self, config: BertConfig):
        self.config = config
        self.strategy = strategies.make_strategy("one_device")
        self.settings = {"output_dir": "unused", "precision": "bfloat16"}
        self.model = loop.build_model(
            pretraining.TASK,
            config,
            self.strategy,
            TrainingConfig(**self.settings),
        )
        self.optimizer = optimizers.AdamW(
            self.model.trainable_weights, lambda step: tf.constant(1e-4)
        )

    def report(
        self, batch_size: int, length: int, is_packed: bool, fields: dict
    ) -> Report:
        """Returns the report of a step.

        Args:
          batch_size: rows of the batch.
          length: tokens of a row.
          is_packed: whether rows have several examples.
          fields: of TrainingConfig.
        """
        settings = TrainingConfig(**self.settings, **fields)
        encoder = self.model.encoder
        encoder.remat = settings.remat
        encoder.embeddings.use_one_hot = settings.use_one_hot_embeddings
        predictions = math.ceil(0.15 * length)  # As in the paper.
        sizes = {
            "max_seq_length": length,
            "max_predictions_per_seq": predictions,
            "max_predictions_per_row": predictions,
            "max_examples_per_row": _EXAMPLES_PER_ROW,
        }
        name = "packed_pretraining" if is_packed else "pretraining"
        task = pretraining.PretrainingTask(schema=schema.of_batch(name))
        step = train_step.TrainStep(
            task, self.model, self.optimizer, settings, self.strategy
        )
        batch = {
            name: tf.zeros([batch_size, *schema.shape_of(f, sizes)], f.dtype)
            for name, f in task.schema.items()
        } | {"is_real_example": tf.ones(batch_size)}
        rows = batch_size // settings.gradient_accumulation_steps
        micro_batch = {name: x[:rows] for name, x in batch.items()}

        def gradients(batch):
            weights = task.loss_weights(batch)
            gradients, _, means = step.gradients(batch, 0, weights, 1.0)
            return [means.totals(), *gradients]

        update = lower(step.update, batch, tf.zeros(2))
        estimate = estimates.Step(
            config=self.config,
            task=task.name,
            batch_size=rows,
            max_seq_length=length,
            max_predictions_per_seq=predictions,
            precision=settings.precision,
            remat=settings.remat,
        )
        return Report(
            most_64_bit(update),
            foreign_calls(update),
            is_static(update),
            bytes_kept(lower(gradients, micro_batch)),
            estimates.memory(estimate)["activations"],
        )


def lower(function, *args) -> str:
    """Returns the HLO of a function."""
    function = tf.function(function, autograph=False, jit_compile=True)
    return function.experimental_get_compiler_ir(*args)(stage="hlo")


def instructions(hlo: str) -> dict[str, Instruction]:
    """Returns the instructions of the entry computation by name."""
    body = hlo.partition("\nENTRY ")[2].partition("\n}")[0]
    body = re.sub(r"/\*.*?\*/", "", body)  # Numbers of tuples' elements.
    found = {}
    for name, text in _INSTRUCTION.findall(body):
        shape, operation, rest = _OPERATION.match(text).groups()
        operands = rest.split(", metadata=")[0].split("), ")[0]
        found[name] = Instruction(
            shape, operation, re.findall(r"%([\w.-]+)", operands)
        )
    return found


def num_bytes(shape: str) -> int:
    """Returns the size of an array, or of all arrays of a tuple."""
    return sum(
        _BYTES[dtype] * math.prod(map(int, filter(None, sizes.split(","))))
        for dtype, sizes in _ARRAY.findall(shape)
    )


def most_64_bit(hlo: str) -> int:
    """Returns the number of values in the largest array of a 64-bit type."""
    sizes = [
        math.prod(map(int, filter(None, dimensions.split(","))))
        for dimensions in re.findall(r"\b[suf]64\[([\d,]*)\]", hlo)
    ]
    return max(sizes, default=0)


def foreign_calls(hlo: str) -> set[str]:
    """Returns the operations of HLO that a TPU cannot run."""
    return {name for name in _FOREIGN if re.search(rf" {name}[\w-]*\(", hlo)}


def is_static(hlo: str) -> bool:
    """Returns whether HLO has no bounded dimensions, which it writes `<=8`."""
    return "[<=" not in hlo and ",<=" not in hlo


def bytes_kept(hlo: str) -> int:
    """Returns the bytes of values of the forward pass that the gradient uses.

    Of a value that is only reshaped or cast before it is used, the smallest
    form counts.

    Args:
      hlo: of a function whose first result depends on the forward pass alone,
        and whose others are gradients.
    """
    found = instructions(hlo)
    results = next(reversed(found))
    forward = _needed(found, found[results].operands[0])
    kept = {}
    for name in _needed(found, results) - forward - {results}:
        for operand in set(found[name].operands) & forward:
            size = num_bytes(found[operand].shape)
            while found[operand].operation in _FUSED:
                operand = found[operand].operands[0]
                size = min(size, num_bytes(found[operand].shape))
            if found[operand].operation not in _FREE:
                kept[operand] = min(size, kept.get(operand, size))
    return sum(kept.values())


def _needed(found: dict[str, Instruction], result: str) -> set[str]:
    """Returns the instructions that a result depends on, and itself."""
    needed, left = set(), [result]
    while left:
        name = left.pop()
        if name not in needed:
            needed.add(name)
            left += found[name].operands
    return needed


def main() -> None:
    """Prints a line for each setting."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--size", default="base", help="size of the model")
    parser.add_argument("--batch_size", type=int, default=8, help="rows")
    flags = parser.parse_args()
    lowered = Lowered(BertConfig.from_name(flags.size, vocab_size=30522))
    runs_on_tpu = True
    for name, case in CASES.items():
        report = lowered.report(flags.batch_size, *case)
        runs_on_tpu &= report.is_static and not report.foreign
        print(
            f"{name:30}  64 bits: at most {report.most_64_bit} values  "
            f"host or custom calls: {', '.join(report.foreign) or 'none'}  "
            f"shapes: {'static' if report.is_static else 'NOT STATIC'}  "
            f"kept {report.kept / 1e9:.2f} GB, "
            f"estimate {report.estimated / 1e9:.2f} GB",
            flush=True,
        )
    raise SystemExit(not runs_on_tpu)


if __name__ == "__main__":
    main()
