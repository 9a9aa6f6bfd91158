#!/usr/bin/env bash
# Keras 3.15.1 on TensorFlow takes longer steps for rows of an Embedding that a batch
# uses more than once.
#
# Guess: a layer Embedding trains as the same table multiplied with one-hot vectors, as
# it did in Keras 2, which summed the gradients of a repeated row first.
# Seen: the gradient is IndexedSlices, in which a row may stand several times. Adam adds
# the squares of these parts, where it should square their sum. The first step of Adam
# is the learning rate, here 0.1; a row used three times goes 0.1 times the square root
# of 3, one used 16 times 0.4. AdamW, Nadam, Lamb and RMSprop likewise; SGD is right.
# No warning. Frequent tokens, segment types and categories are such rows.
# `ops.matmul(ops.one_hot(...), table)` trains as it should.
#
# Needs Python 3.11 with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'keras==3.15.1' \
  'tensorflow-cpu==2.20.0'

cat > train_it.py <<'END'
import keras
import numpy as np

print("keras", keras.__version__)


def first_step(optimizer, count, is_one_hot):
    ids = keras.Input((count,), dtype="int32")
    if is_one_hot:
        layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        vectors = layer(keras.ops.one_hot(ids, 4))
    else:
        layer = keras.layers.Embedding(4, 1, embeddings_initializer="zeros")
        vectors = layer(ids)
    model = keras.Model(ids, keras.ops.sum(vectors, axis=1))
    model.compile(optimizer(0.1), loss=lambda y, p: keras.ops.mean(y - p))
    model.fit(np.ones((1, count), "int32"), np.ones((1, 1)), verbose=0)
    return round(float(model.get_weights()[0][1, 0]), 3)


for name in ("Adam", "AdamW", "Nadam", "Lamb", "RMSprop", "SGD"):
    optimizer = getattr(keras.optimizers, name)
    steps = [first_step(optimizer, n, one) for n in (1, 3, 16) for one in (False, True)]
    print(name, *steps)
END
KERAS_BACKEND=tensorflow venv/bin/python train_it.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
# A row used 1, 3 and 16 times, each with an Embedding and with one-hot vectors.
diff seen.txt - <<'END'
keras 3.15.1
Adam 0.1 0.1 0.173 0.1 0.4 0.1
AdamW 0.1 0.1 0.173 0.1 0.4 0.1
Nadam 0.106 0.106 0.184 0.106 0.425 0.106
Lamb 0.1 0.1 0.173 0.1 0.4 0.1
RMSprop 0.316 0.316 0.548 0.316 1.265 0.316
SGD 0.1 0.1 0.3 0.3 1.6 1.6
END
echo "as stated"
