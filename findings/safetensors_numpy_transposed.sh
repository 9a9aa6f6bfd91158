#!/usr/bin/env bash
# safetensors 0.8.0 saves a transposed NumPy array with its values in another order.
#
# Guess: safetensors.numpy.save_file saves what the array holds, as 0.7.0 does, or
# refuses one that is not contiguous, as safetensors.torch does.
# Seen: 0.8.0 copies the array's memory and writes its shape beside it, without an error
# or a warning. Kernels that are transposed with .T, as between TensorFlow and PyTorch,
# come back as other matrices of the right shape. Its docstring asks for contiguous
# arrays, and nothing checks it. So give numpy.ascontiguousarray(x), and read back what
# was written.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat > save.py <<'END'
import numpy
import safetensors
from safetensors.numpy import load_file, save_file

kernel = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
save_file({"weight": kernel.T}, "weights.safetensors")
found = load_file("weights.safetensors")["weight"]
print(safetensors.__version__, "given:", kernel.T.tolist())
print(safetensors.__version__, "found:", found.tolist())
save_file({"weight": numpy.ascontiguousarray(kernel.T)}, "weights.safetensors")
found = load_file("weights.safetensors")["weight"]
print(safetensors.__version__, "found, contiguous:", found.tolist())
END
python3 -m venv venv
for version in 0.7.0 0.8.0; do
  venv/bin/pip install --quiet --disable-pip-version-check \
    "safetensors==$version" 'numpy==2.2.6'
  venv/bin/python save.py 2> errors.txt || { cat errors.txt; exit 1; }
done | tee seen.txt
diff seen.txt - <<'END'
0.7.0 given: [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
0.7.0 found: [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
0.7.0 found, contiguous: [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
0.8.0 given: [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
0.8.0 found: [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
0.8.0 found, contiguous: [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
END
echo "as stated"
