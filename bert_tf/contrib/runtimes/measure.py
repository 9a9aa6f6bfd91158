"""Folder of an exported model, inputs and texts -> its outputs and times.

    measure.py FOLDER WORK_FOLDER NUM_TOKENS

A process of its own for the report, in which TensorFlow must not be loaded.
WORK_FOLDER has `random.npz`, inputs of the network, and perhaps `texts.json`,
a list of texts. It writes `outputs_0.npz` and so on, inputs and outputs of each
batch, and `measured.json`.
"""

import json
import os
import statistics
import sys
import time

import numpy as np

_BATCH = 16
_MAX_ROUNDS = 50
_MAX_SECONDS = 1.5


def time_calls(run, inputs):
    """Returns the median milliseconds of `run(inputs)`, once warmed up."""
    run(inputs)
    rounds, begun = [], time.perf_counter()
    while len(rounds) < _MAX_ROUNDS:
        start = time.perf_counter()
        run(inputs)
        rounds.append(time.perf_counter() - start)
        if time.perf_counter() - begun > _MAX_SECONDS:
            break
    return 1000 * statistics.median(rounds)


def full_inputs(inputs, batch_size, num_tokens):
    """Returns the first row of `inputs`, repeated to a full batch."""
    row = {name: values[:1] for name, values in inputs.items()}
    lengths = {
        name: 1 if name.startswith("masked_lm_") else num_tokens for name in row
    }
    row = {
        name: np.resize(values, (1, lengths[name]))
        for name, values in row.items()
    }
    row["input_mask"] = np.ones_like(row["input_mask"])
    return {
        name: np.repeat(values, batch_size, 0) for name, values in row.items()
    }


def main(folder, work_folder, num_tokens):
    """Runs the model on the inputs and texts of the report."""
    sys.path.insert(0, folder)
    import predict

    model = predict.Model(folder)
    with np.load(os.path.join(work_folder, "random.npz")) as file:
        random = dict(file)
    batches = [random]
    path = os.path.join(work_folder, "texts.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            encoded = [row for x in json.load(file) for row in model.encode(x)]
        batches += [
            predict.to_arrays(encoded[first : first + _BATCH])
            for first in range(0, len(encoded), _BATCH)
        ]
    for number, inputs in enumerate(batches):
        outputs = model.run(inputs)
        np.savez(
            os.path.join(work_folder, f"outputs_{number}.npz"),
            **{f"inputs/{name}": x for name, x in inputs.items()},
            **{f"outputs/{name}": x for name, x in outputs.items()},
        )
    times = {
        size: time_calls(model.run, full_inputs(random, size, num_tokens))
        for size in (1, _BATCH)
    }
    loaded = [name for name in sys.modules if name.startswith("tensorflow")]
    with open(os.path.join(work_folder, "measured.json"), "w") as file:
        json.dump({"milliseconds": times, "tensorflow": loaded}, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
