#!/usr/bin/env bash
# transformers.js 4.3.2 takes the padding token from tokenizer_config.json alone.
#
# Guess: like transformers in Python, it has BERT's "[PAD]" as a default for
# tokenizer_class BertTokenizer, whose entry tokenizer.json has as a special token.
# Seen: a folder that transformers 5.24.0 pads with id 0 ends in transformers.js in
# "Cannot convert undefined to a BigInt"; with "pad_token" in tokenizer_config.json
# it pads. So a folder for the browser must name its special tokens there.
#
# Needs Python 3.10 or later with venv, Node.js 18 or later and npm.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'transformers==5.24.0'
npm init -y > /dev/null
# Its runtime's install script downloads a binary, which tokenizers do not need.
npm install --silent --ignore-scripts '@huggingface/transformers@4.3.2'

cat > make.py <<'END'
import json, pathlib
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "film"]
ids = {word: i for i, word in enumerate(words)}
tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
tokenizer.normalizer = normalizers.BertNormalizer()
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
tokenizer.add_special_tokens(words[:5])
for name, entries in (("without", {}), ("with", {"pad_token": "[PAD]"})):
    folder = pathlib.Path(name)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "BertTokenizer", "model_max_length": 64}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | entries))
    (folder / "config.json").write_text('{"model_type": "bert"}')
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
END
cat > in_python.py <<'END'
import transformers
tokenizer = transformers.AutoTokenizer.from_pretrained("without")
found = tokenizer(["a fine film", "film"], padding=True)["input_ids"]
print("Python", transformers.__version__, "without:", sum(found, []))
END
cat > in_node.mjs <<'END'
import { AutoTokenizer, env } from '@huggingface/transformers';
env.allowRemoteModels = false;
env.localModelPath = process.cwd();
for (const name of ['without', 'with']) {
  const tokenizer = await AutoTokenizer.from_pretrained(name);
  try {
    const found = tokenizer(['a fine film', 'film'], { padding: true });
    console.log(`JavaScript ${name}:`, Array.from(found.input_ids.data, Number).join(', '));
  } catch (error) {
    console.log(`JavaScript ${name}: ${error.message}`);
  }
}
END
venv/bin/python make.py
{ venv/bin/python in_python.py; node in_node.mjs; } 2>/dev/null | tee seen.txt
diff seen.txt - <<'END'
Python 5.24.0 without: [2, 5, 6, 7, 3, 2, 7, 3, 0, 0]
JavaScript without: Cannot convert undefined to a BigInt
JavaScript with: 2, 5, 6, 7, 3, 2, 7, 3, 0, 0
END
echo "as stated"
