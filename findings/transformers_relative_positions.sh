#!/usr/bin/env bash
# transformers 5.24.0 computes a BERT with relative positions as one with absolute ones.
#
# Guess: a folder with "position_embedding_type": "relative_key", which transformers 4
# writes and computes, is refused by a version that has no such layers.
# Seen: it loads. The distance embeddings are listed as UNEXPECTED, which "can be ignored
# when loading from different task/architecture"; the table of absolute positions, which
# such a model never used, is added instead, and hidden states are others. The config
# keeps the key, so a folder that is saved again says relative_key, without its weights.
# Read such models with transformers 4.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export HF_HUB_OFFLINE=1
for version in 4.57.6 5.24.0; do
  python3 -m venv "venv-$version"
  "venv-$version/bin/pip" install --quiet --disable-pip-version-check \
    "transformers==$version" 'torch==2.13.0'
done

cat > make.py <<'PY'
import torch
import transformers

torch.manual_seed(0)
config = transformers.BertConfig(
    vocab_size=20,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=16,
    initializer_range=0.5,
    position_embedding_type="relative_key",
    attn_implementation="eager",
)
transformers.BertModel(config).save_pretrained("relative")
PY
cat > load.py <<'PY'
import json

import safetensors
import torch
import transformers

model = transformers.BertModel.from_pretrained(
    "relative", attn_implementation="eager"
).eval()
with torch.no_grad():
    states = model(torch.tensor([[2, 5, 6, 7, 8, 3]])).last_hidden_state
torch.save(states, f"{transformers.__version__}.pt")
model.save_pretrained("again")
with safetensors.safe_open("again/model.safetensors", "pt") as file:
    tables = [name for name in file.keys() if "distance_embedding" in name]
with open("again/config.json", encoding="utf-8") as file:
    kind = json.load(file).get("position_embedding_type")
print(transformers.__version__, "saves", kind, "with", len(tables), "tables")
PY
cat > compare.py <<'PY'
import torch

old, new = torch.load("4.57.6.pt"), torch.load("5.24.0.pt")
print("hidden states differ by more than 0.1:", bool((old - new).abs().max() > 0.1))
PY
{
  venv-4.57.6/bin/python make.py
  venv-4.57.6/bin/python load.py
  venv-5.24.0/bin/python load.py
  venv-5.24.0/bin/python compare.py
} 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff - seen.txt <<'END'
4.57.6 saves relative_key with 2 tables
5.24.0 saves relative_key with 0 tables
hidden states differ by more than 0.1: True
END
grep "distance_embedding.*UNEXPECTED" errors.txt
echo "as stated"
