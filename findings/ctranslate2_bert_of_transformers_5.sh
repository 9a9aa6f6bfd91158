#!/usr/bin/env bash
# ctranslate2 4.8.5 converts no BERT that transformers 5.24.0 has saved.
#
# Guess: its converter reads such a folder, as it accepts transformers 5 as installed.
# Seen: it ends in an AttributeError, since it asks the config for
# "position_embedding_type", which transformers 5 neither has nor writes. With that key in
# config.json, as transformers 4 wrote it, the same folder converts, and hidden states
# and pooled outputs are equal. So a folder that others are to convert needs the key.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export HF_HUB_OFFLINE=1
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
  'ctranslate2==4.8.5' 'transformers==5.24.0' 'torch==2.13.0'

cat > convert.py <<'PY'
import json

import ctranslate2
import numpy
import torch
import transformers
from ctranslate2.converters import TransformersConverter

print("ctranslate2", ctranslate2.__version__)
print("transformers", transformers.__version__)
torch.manual_seed(0)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "film"]
config = transformers.BertConfig(
    vocab_size=len(words),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=16,
)
model = transformers.BertModel(config).eval()
model.save_pretrained("bert")
ids = {word: i for i, word in enumerate(words)}
transformers.BertTokenizer(vocab=ids).save_pretrained("bert")
try:
    TransformersConverter("bert").convert("converted")
except AttributeError as error:
    print("as saved:", error)
with open("bert/config.json", encoding="utf-8") as file:
    values = json.load(file)
values["position_embedding_type"] = "absolute"
with open("bert/config.json", "w", encoding="utf-8") as file:
    json.dump(values, file)
TransformersConverter("bert").convert("converted")
text = [[2, 5, 6, 7, 3]]
theirs = ctranslate2.Encoder("converted").forward_batch(text)
with torch.no_grad():
    ours = model(torch.tensor(text))
for name in ("last_hidden_state", "pooler_output"):
    far = numpy.abs(numpy.array(getattr(theirs, name)) - getattr(ours, name).numpy())
    print("with the key,", name, "is equal:", bool(far.max() < 1e-4))
PY
venv/bin/python convert.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff - seen.txt <<'END'
ctranslate2 4.8.5
transformers 5.24.0
as saved: 'BertConfig' object has no attribute 'position_embedding_type'
with the key, last_hidden_state is equal: True
with the key, pooler_output is equal: True
END
echo "as stated"
