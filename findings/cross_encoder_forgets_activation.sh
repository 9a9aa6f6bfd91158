#!/usr/bin/env bash
# sentence-transformers 6.2.0 reads a cross-encoder's activation only beside modules.json.
#
# Guess: `CrossEncoder` takes "activation_fn" from config_sentence_transformers.json,
# where `save_pretrained` writes it, in any folder that has this file.
# Seen: a folder that lacks modules.json, such as one made from config.json and weights
# with that file copied beside them, is read without it: scores pass through the default,
# a sigmoid, and lie between 0 and 1, without a message. Regression scores and logits of
# listwise losses are other numbers then; thresholds and sums with other scores fail.
# The keys of versions 3 and 4, in config.json, are read in the same folder.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export HF_HUB_OFFLINE=1
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
  'sentence-transformers==6.2.0' 'transformers==5.24.0' 'torch==2.13.0'

cat > score.py <<'PY'
import json
import os
import shutil

import sentence_transformers
import torch
import transformers

print("sentence-transformers", sentence_transformers.__version__)
print("transformers", transformers.__version__)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "dull", "film"]
config = transformers.BertConfig(
    vocab_size=len(words),
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=1,
    intermediate_size=16,
    max_position_embeddings=16,
    num_labels=1,
)
model = transformers.BertForSequenceClassification(config)
torch.nn.init.zeros_(model.classifier.weight)
torch.nn.init.constant_(model.classifier.bias, 4.0)  # Every score is 4.
model.save_pretrained("given")
ids = {word: i for i, word in enumerate(words)}
transformers.BertTokenizer(vocab=ids).save_pretrained("given")


def score(folder, **settings):
    found = sentence_transformers.CrossEncoder(folder, device="cpu", **settings)
    return round(float(found.predict([("a film", "fine")])[0]), 4), found


identity = torch.nn.Identity()
value, encoder = score("given", activation_fn=identity)
print("in memory:", value)
encoder.save_pretrained("saved")
print("saved:", score("saved")[0])
os.remove("saved/modules.json")
with open("saved/config_sentence_transformers.json", encoding="utf-8") as file:
    print("the file still says:", json.load(file)["activation_fn"])
print("without modules.json:", score("saved")[0])
for key, entry in (
    ("sentence_transformers", {"activation_fn": "torch.nn.modules.linear.Identity"}),
    ("sbert_ce_default_activation_function", "torch.nn.modules.linear.Identity"),
):
    shutil.copytree("given", key)
    with open(f"{key}/config.json", encoding="utf-8") as file:
        values = json.load(file) | {key: entry}
    with open(f"{key}/config.json", "w", encoding="utf-8") as file:
        json.dump(values, file)
    print(f"config.json with {key}:", score(key)[0])
PY
venv/bin/python score.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff - seen.txt <<'END'
sentence-transformers 6.2.0
transformers 5.24.0
in memory: 4.0
saved: 4.0
the file still says: torch.nn.modules.linear.Identity
without modules.json: 0.982
config.json with sentence_transformers: 4.0
config.json with sbert_ce_default_activation_function: 4.0
END
echo "as stated"
