r"""Records -> metrics and outputs on 1, 2 and 4 devices of one process.

    python tests/replica_outputs.py FOLDER

FOLDER has `bert_config.json` and `records`. In a process of its own, since
TensorFlow can split the CPU only at its start. Writes to
`<devices>-<batch size>-<bucket lengths>.npz`.
"""

import functools
import os
import sys

import numpy as np
import tensorflow as tf

from bert_tf import config as config_lib
from bert_tf.tasks import pretraining
from bert_tf.training import config as training_config
from bert_tf.training import evaluation, loop, strategies
from tfrecords import schema
from tfrecords.io import records
from tfrecords.reading import batches

NUM_DEVICES = (1, 2, 4)
# Batch size, bucket lengths. With 64 there is one batch for all replicas.
CASES = ((2, ()), (2, (6, 9)), (64, ()))
SIZES = {"max_seq_length": 12, "max_predictions_per_seq": 3}


def path_of(folder, num_devices: int, case) -> str:
    """Returns the path of the results."""
    batch_size, bucket_lengths = case
    words = [num_devices, batch_size, *bucket_lengths]
    return os.path.join(folder, "-".join(map(str, words)) + ".npz")


def with_replica(model, batch, training):
    """Returns the model's outputs, and `replica` [B]: which computed a row."""
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    rows = tf.zeros_like(batch["is_real_example"])
    replica = rows + tf.cast(replica, tf.float32)
    return model(batch, training=training) | {"replica": replica}


def results(strategy, folder: str, cases) -> list[dict[str, np.ndarray]]:
    """Returns metrics and outputs by name, for each case."""
    config = config_lib.BertConfig.from_json_file(
        os.path.join(folder, "bert_config.json")
    )
    model = loop.build_model(
        pretraining.TASK,
        config,
        strategy,
        training_config.TrainingConfig(output_dir=folder, seed=1),
    )
    evaluate = evaluation.make_evaluation_step(
        pretraining.TASK, model, strategy
    )
    predict = evaluation.make_prediction_step(
        functools.partial(with_replica, model), strategy
    )
    found = []
    for batch_size, bucket_lengths in cases:
        make_batches = functools.partial(
            batches.evaluation_batches,
            records.Records.open(os.path.join(folder, "records")),
            schema.PRETRAINING,
            SIZES,
            batch_size=batch_size,
            bucket_lengths=bucket_lengths,
        )
        metrics = evaluation.evaluate(evaluate, make_batches, strategy)
        outputs = evaluation.predict(predict, make_batches, strategy)
        found.append(
            {name: np.float64(value) for name, value in metrics.items()}
            | outputs
        )
    return found


def main(folder: str) -> None:
    """Writes the results on each number of devices."""
    strategies.split_cpu(max(NUM_DEVICES))
    devices = strategies.local_devices()
    for number in NUM_DEVICES:
        strategy = tf.distribute.MirroredStrategy(devices[:number])
        if number == 1:
            strategy = tf.distribute.OneDeviceStrategy(devices[0])
        for case, found in zip(
            CASES, results(strategy, folder, CASES), strict=True
        ):
            np.savez(path_of(folder, number, case), **found)


if __name__ == "__main__":
    main(sys.argv[1])
