#!/usr/bin/env bash
# TensorFlow 2.21.0: tf.random.stateless_uniform draws other floats under
# jit_compile=True than without, from the same seed and algorithm on the same CPU.
#
# Guess: alg="philox" names the numbers, so that a function draws the same ones
# compiled by XLA or not; the documentation calls the output consistent on the same
# hardware, and between CPU and GPU.
# Seen: none of 1,000 float32 or float64 numbers is the same. Integers are, with a full
# range and with bounds. If the seed is a constant in the function, floats are the same,
# too. stateless_normal: none is the same.
# So a model that draws masks or samples as floats has other ones as soon as it is
# compiled; drawing integers and comparing those does not.
#
# Needs Python 3.11 with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'tensorflow-cpu==2.21.0'

cat > draw_it.py <<'END'
import functools

import tensorflow as tf

print("tensorflow", tf.__version__)
uniform = functools.partial(tf.random.stateless_uniform, [1000], alg="philox")
draws = {
    "float32": uniform,
    "float64": functools.partial(uniform, dtype=tf.float64),
    "full range": functools.partial(
        uniform, minval=None, maxval=None, dtype=tf.int32
    ),
    "below 100": functools.partial(uniform, minval=0, maxval=100, dtype=tf.int32),
    "normal": functools.partial(
        tf.random.stateless_normal, [1000], alg="philox"
    ),
}
seed = tf.constant([12345, 7])
for name, draw in draws.items():

    def of_constant(seed=seed, draw=draw):
        return draw(seed=[12345, 7])

    same = []
    for function in (lambda seed: draw(seed=seed), of_constant):
        plain = tf.function(function)(seed)
        compiled = tf.function(function, jit_compile=True)(seed)
        same.append(int(tf.math.count_nonzero(plain == compiled)))
    print(name, *same)
END
venv/bin/python draw_it.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
# Of 1,000 numbers those that are the same: seed as an argument, seed as a constant.
diff seen.txt - <<'END'
tensorflow 2.21.0
float32 0 1000
float64 0 1000
full range 1000 1000
below 100 1000 1000
normal 0 1000
END
echo "as stated"
