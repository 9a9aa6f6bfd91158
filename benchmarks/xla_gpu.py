r"""Our graphs as StableHLO -> errors and ms under XLA on a GPU, beside torch.

    python -m benchmarks.xla_gpu make gpu_programs  # bert_tf, 11 GB of memory.
    python -m benchmarks.xla_gpu run gpu_programs   # A GPU, with JAX.

`make` writes what TensorFlow hands to XLA for a GPU: forward passes of a
classifier, and losses and gradients of pre-training with and without dropout,
as functions of weights and inputs. `run`, in a clone, needs NumPy and JAX, but
not TensorFlow: jaxlib's XLA compiles these programs. So this is our graph under
that version of XLA, not TensorFlow's runtime. It ends within five minutes, and
uses the CPU if there is no GPU.

First come errors. Both commands draw weights and inputs from the same seed of
NumPy, and `make` keeps the largest values of each loss and gradient of
TensorFlow's own kernels on a CPU. An error is the norm of the differences over
the norm of these values, or over a thousandth of the largest such norm: the
gradient of a key's bias is zero, but for rounding.

Then come times of bfloat16 products, with float32 weights (forward passes:
bfloat16) and no optimizer, and their share of the rate of one large product. If
torch and transformers are installed, the same of theirs, with each layer
compiled and scaled dot-product attention. Masks are passed, though rows that
are timed have no padding.
"""

import argparse
import concurrent.futures
import functools
import importlib.util
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np

from benchmarks import work

KINDS = ("forward", "step", "step_dropout")
SECONDS = 285  # Of the command `run`.
NUM_VALUES = 256  # Of a tensor, to compare.
# Largest error: rounding to 24 or 8 bits, in all layers.
BOUNDS = {"float32": 1e-3, "bfloat16": 0.1}


class Program(NamedTuple):
    """A program; `is_checked` if its results are compared, else it is timed."""

    size: str
    seq_length: int
    batch_size: int
    kind: str
    precision: str
    is_checked: bool

    def __str__(self):
        return "-".join(map(str, self[:-1]))

    def setting(self, config: dict) -> work.Setting:
        """Returns the setting, with dropout only in kind "step_dropout"."""
        if self.kind != "step_dropout":
            rates = "hidden_dropout_prob", "attention_probs_dropout_prob"
            config = config | dict.fromkeys(rates, 0.0)
        is_training = self.kind != "forward"
        task = "pretraining" if is_training else "fine_tuning"
        shape = self.batch_size, self.seq_length
        return work.Setting(config, task, is_training, *shape, self.precision)


def draw_weights(entries: list) -> list[np.ndarray]:
    """Returns a float32 array for each [name, shape, dtype] of a weight."""
    arrays = []
    for i, (name, shape, _) in enumerate(entries):
        rng = np.random.default_rng([1, i])
        values = np.float32(0.02) * rng.standard_normal(shape, np.float32)
        arrays.append(values + np.float32(name.endswith("gamma")))
    return arrays


def draw_inputs(program: Program, setting: work.Setting) -> list[np.ndarray]:
    """Returns a batch in the order of its names; then [seed, step, row].

    These are the dropout key, an input since XLA could compute the masks of a
    constant when it compiles. If results are compared there is padding.
    """
    batch = work.random_batch(setting)
    if program.is_checked:
        batch["input_mask"][-1, setting.seq_length // 2 :] = 0
    return [*(batch[name] for name in sorted(batch)), np.int32([1, 0, 0])]


def all_programs() -> list[Program]:
    """Returns the programs of the command `make`."""
    return [
        Program("base", 128, 4, kind, precision, True)
        for precision, kind in itertools.product(BOUNDS, KINDS)
    ] + [
        Program(size, length, 2**14 // length, kind, "bfloat16", False)
        for size in ("base", "large")
        for length, kind in itertools.product((128, 512), KINDS)
    ]


def make(folder: pathlib.Path, programs: list[Program]) -> None:
    """Writes StableHLO, expected.npz and programs.json to a new folder."""
    import tensorflow as tf

    from bert_tf.config import BertConfig

    folder.mkdir(parents=True)
    entries, expected = [], {}
    for program in programs:
        config = BertConfig.from_name(program.size).to_dict()
        # Otherwise a GPU may round float32 to 10 bits.
        is_float32 = program.precision == "float32"
        tf.config.experimental.enable_tensor_float_32_execution(not is_float32)
        code, weights, results = lower(program, program.setting(config))
        (folder / f"{program}.stablehlo").write_bytes(code)
        entries.append([program, config, weights])
        for i, x in enumerate(results):
            last = min(NUM_VALUES, len(x)) - 1
            index = np.argpartition(-np.abs(x), last)[:NUM_VALUES]
            expected[f"{program}/{i}"] = np.stack([index, x[index]])
        print(f"{program}: {len(code)} bytes", flush=True)
    np.savez_compressed(folder / "expected.npz", **expected)
    made = {"tensorflow": tf.__version__, "programs": entries}
    (folder / "programs.json").write_text(json.dumps(made), encoding="utf-8")


def lower(program: Program, setting: work.Setting) -> tuple[bytes, list, list]:
    """Returns StableHLO, [name, shape, dtype] of the weights, and results.

    The results, flat float32 arrays, are those of TensorFlow's kernels; none
    unless they are to be compared.
    """
    import keras
    import tensorflow as tf
    from tensorflow.compiler.mlir.stablehlo import stablehlo

    from benchmarks.peers import ours
    from bert_tf import config as bert_config
    from bert_tf.model import dropout

    policy = bert_config.inference_policy(setting.precision)
    if setting.is_training:
        policy = bert_config.POLICIES[setting.precision]
    task = ours.make_task(setting)
    config = bert_config.BertConfig.from_dict(setting.config)
    model = task.build_model(config, dtype=policy)
    variables = model.trainable_variables
    names = sorted(work.random_batch(setting))

    def function(weights, inputs):
        batch = dict(zip(names, inputs[:-1], strict=True))
        mapping = list(zip(variables, weights, strict=True))
        with tf.GradientTape() as tape, keras.StatelessScope(mapping):
            if not setting.is_training:
                return tf.nest.flatten(model(batch, training=False))
            tape.watch(weights)
            key = dropout.make_key(*tf.unstack(inputs[-1]))
            losses = task.losses(task.outputs(model, batch, key), batch)
            loss = tf.add_n([mean.value() for mean in losses.values()])
        gradients = tape.gradient(loss, weights)
        return [loss, *map(tf.convert_to_tensor, gradients)]

    entries = [[x.path, [*x.shape], x.dtype] for x in variables]
    arrays = zip(draw_weights(entries), entries, strict=True)
    weights = [tf.cast(array, dtype) for array, (*_, dtype) in arrays]
    inputs = list(map(tf.constant, draw_inputs(program, setting)))
    graph = tf.function(function, autograph=False, jit_compile=True)
    text = graph.experimental_get_compiler_ir(weights, inputs)(
        stage="stablehlo", platform_name="GPU"
    )
    # In the oldest version of the format, for any later XLA.
    version = stablehlo.get_minimum_version()
    code = stablehlo.serialize_portable_artifact_str(text, version)
    kernels = tf.function(function, autograph=False)
    results = kernels(weights, inputs) if program.is_checked else []
    return code, entries, [np.ravel(tf.cast(x, tf.float32)) for x in results]


def run(folder: pathlib.Path) -> None:
    """Runs "jax" and "torch", a process each, and stops them after SECONDS."""
    end = time.monotonic() + SECONDS
    failed = []
    for mode in filter(importlib.util.find_spec, ("jax", "torch")):
        command = sys.executable, "-m", "benchmarks.xla_gpu", mode, str(folder)
        if subprocess.run(command, timeout=end - time.monotonic()).returncode:
            failed.append(mode)
    if failed:
        sys.exit(f"Failed, see above: {', '.join(failed)}.")


def read(folder: pathlib.Path) -> tuple[str, list]:
    """Returns TensorFlow's version, and [program, setting, weights] of each."""
    made = json.loads((folder / "programs.json").read_text(encoding="utf-8"))
    entries = []
    for fields, config, weights in made["programs"]:
        program = Program(*fields)
        entries.append((program, program.setting(config), weights))
    return made["tensorflow"], entries


def show(name, step, wait, flops: float, seconds: float, rate=0.0) -> float:
    """Prints times of a step, and returns its FLOP/s: medians of five rounds.

    `wait` waits for the device, `rate` are the FLOP/s of products.
    """
    wait(step())
    start = time.perf_counter()
    wait(step())
    count = 1 + int(seconds / (time.perf_counter() - start))
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            result = step()
        wait(result)
        times.append((time.perf_counter() - start) / count)
    own = flops / statistics.median(times)
    share = f", {100 * own / rate:.0f} % of products" if rate else ""
    print(
        f"{name}: {1000 * statistics.median(times):.2f} ms "
        f"({1000 * min(times):.2f} to {1000 * max(times):.2f}), "
        f"{own / 1e12:.2f} TFLOP/s{share}",
        flush=True,
    )
    return own


def run_jax(folder: pathlib.Path, seconds: float = 0.5) -> None:
    """Prints errors and times of programs, in rounds of some seconds.

    Raises:
      SystemExit: if an error is above its bound.
    """
    import jax
    import jaxlib

    device, wait = jax.devices()[0], jax.block_until_ready
    version, entries = read(folder)
    print(f"TensorFlow {version}, jaxlib {jaxlib.__version__}, {device}")
    size = 2048 if device.platform == "cpu" else 8192
    pair = jax.random.normal(jax.random.key(1), (2, size, size), "bfloat16")
    product = functools.partial(jax.jit(jax.numpy.matmul), *pair)
    rate = show("product", product, wait, 2.0 * size**3, seconds)

    def load(entry):
        code = (folder / f"{entry[0]}.stablehlo").read_bytes()
        return device.client.compile_and_load(code, [device])

    expected, wrong = np.load(folder / "expected.npz"), []
    # XLA compiles all programs of a size at once. The next size comes after
    # they were run, in case that time runs out.
    for _, group in itertools.groupby(entries, lambda entry: entry[0].size):
        group = list(group)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            executables = list(pool.map(load, group))
        for program, setting, weights in group:
            arrays = zip(draw_weights(weights), weights, strict=True)
            args = [jax.numpy.asarray(x, dtype) for x, (*_, dtype) in arrays]
            args += map(jax.numpy.asarray, draw_inputs(program, setting))
            step = functools.partial(executables.pop(0).execute, args)
            if not program.is_checked:
                flops = work.matmul_flops(setting)
                show(program, step, wait, flops, seconds, rate)
                continue
            bound = BOUNDS[program.precision]
            error = largest_error(program, step(), expected)
            print(f"{program}: error {error:.1e} (at most {bound})", flush=True)
            if not error <= bound:
                wrong.append(str(program))
    if wrong:
        sys.exit(f"Not the results of TensorFlow: {', '.join(wrong)}.")


def largest_error(program: Program, results: list, expected) -> float:
    """Returns the largest error of the results, as the module defines it."""
    errors, norms = [], []
    for i, x in enumerate(results):
        index, values = expected[f"{program}/{i}"]
        found = np.ravel(np.asarray(x, np.float32))[index.astype(int)]
        errors.append(np.linalg.norm(found - values))
        norms.append(np.linalg.norm(values))
    # Without that of the loss, which is the first of several results.
    least = max(norms[1:] or norms) / 1000
    return float(np.max(np.divide(errors, np.maximum(norms, least))))


def run_torch(folder: pathlib.Path, seconds: float = 0.5) -> None:
    """Prints times of the same steps in torch; arguments as in `run_jax`."""
    import torch

    from benchmarks.peers import hugging_face

    is_gpu = torch.cuda.is_available()
    device = "cuda" if is_gpu else "cpu"
    torch.set_default_device(device)
    print(f"torch {torch.__version__} on {device}")

    def wait(_):
        if is_gpu:
            torch.cuda.synchronize()

    size = 8192 if is_gpu else 2048
    pair = torch.randn(2, size, size, dtype=torch.bfloat16)
    product = functools.partial(torch.matmul, *pair)
    rate = show("product", product, wait, 2.0 * size**3, seconds)
    for program, setting, _ in read(folder)[1]:
        if program.is_checked:
            continue
        model, logits = hugging_face.build(setting)
        model.train(setting.is_training)
        for layer in model.bert.encoder.layer:
            layer.compile(dynamic=False)
        batch = hugging_face.prepare(work.random_batch(setting))

        if not setting.is_training:
            model.to(torch.bfloat16)  # As our weights.

        def step(model=model, logits=logits, batch=batch, setting=setting):
            model.zero_grad(set_to_none=True)
            with (
                torch.autocast(device, torch.bfloat16),
                torch.inference_mode(not setting.is_training),
            ):
                found = logits(model, batch)
            if setting.is_training:
                hugging_face.loss_of(found, batch).backward()

        show(program, step, wait, work.matmul_flops(setting), seconds, rate)


if __name__ == "__main__":
    modes = {"make": make, "run": run, "jax": run_jax, "torch": run_torch}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("mode", choices=modes)
    parser.add_argument("folder", type=pathlib.Path, help="of the programs")
    given = parser.parse_args()
    if given.mode != "make" and not given.folder.is_dir():
        parser.error(f"{given.folder} is no folder; `make` writes it.")
    programs = [all_programs()] if given.mode == "make" else []
    modes[given.mode](given.folder, *programs)
