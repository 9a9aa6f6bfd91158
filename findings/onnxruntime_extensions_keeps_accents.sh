#!/usr/bin/env bash
# onnxruntime-extensions 0.15.2 keeps the accents that an uncased BERT strips.
#
# Guess: gen_processing_models makes an ONNX tokenizer with the ids of the tokenizer
# that it is given. In BERT, lower case without another word means that accents go.
# Seen: a BertTokenizer of transformers 5.24.0 with lower case finds "naive" and "cafe"
# for "Naïve Café"; its ONNX tokenizer finds "naïve" and "café", which the released
# uncased vocabularies do not have as words: they become pieces or [UNK]. Only if
# strip_accents=True was given by name are both equal. No warning.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export HF_HUB_OFFLINE=1
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
  'onnxruntime-extensions==0.15.2' 'onnxruntime==1.32.0' 'onnx==1.23.2' \
  'transformers==5.24.0'

cat > compare.py <<'END'
import importlib.metadata

import transformers
from onnxruntime_extensions import OrtPyFunction, gen_processing_models

for name in ("onnxruntime-extensions", "transformers"):
    print(name, importlib.metadata.version(name))
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "naive", "naïve", "cafe", "café"]
ids = {word: i for i, word in enumerate(words)}
for settings in ({}, {"strip_accents": True}):
    tokenizer = transformers.BertTokenizer(vocab=ids, do_lower_case=True, **settings)
    in_onnx = OrtPyFunction(gen_processing_models(tokenizer, pre_kwargs={})[0])
    print(settings)
    print("  transformers:", tokenizer("Naïve Café")["input_ids"])
    print("  ONNX:", in_onnx(["Naïve Café"])[0].tolist())
END
venv/bin/python compare.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - <<'END'
onnxruntime-extensions 0.15.2
transformers 5.24.0
{}
  transformers: [2, 5, 7, 3]
  ONNX: [2, 6, 8, 3]
{'strip_accents': True}
  transformers: [2, 5, 7, 3]
  ONNX: [2, 5, 7, 3]
END
echo "as stated"
