#!/usr/bin/env bash
# flash-tokenizer 1.2.0 and blingfire 0.1.8 do not know accents written apart.
#
# Guess: both say that they give BERT's tokens, only faster. An uncased BERT decomposes
# text and drops what is an accent, so "café" and "cafe" with U+0301 after it, as some
# systems and PDF files write it, are one word; a soft hyphen within a word is dropped.
# Seen: with the accent apart both give [UNK] (here id 1; 100 in blingfire's vocabulary)
# where tokenizers 0.23.3 gives the word. With a soft hyphen the word is unknown to
# flash-tokenizer, and two words to blingfire. Normalize to NFC, and remove U+00AD.
#
# Needs Python 3.11 with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
  'flash-tokenizer==1.2.0' 'blingfire==0.1.8' 'tokenizers==0.23.3'

cat > compare.py <<'END'
import importlib.metadata
import pathlib

import blingfire
import flash_tokenizer
import tokenizers

for name in ("flash-tokenizer", "blingfire", "tokenizers"):
    print(name, importlib.metadata.version(name))
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe"]
pathlib.Path("vocab.txt").write_text("\n".join(words) + "\n")
theirs = flash_tokenizer.BertTokenizerFlash("vocab.txt", do_lower_case=True)
right = tokenizers.BertWordPieceTokenizer("vocab.txt", lowercase=True)
folder = pathlib.Path(blingfire.__file__).parent
model = blingfire.load_model(str(folder / "bert_base_tok.bin"))
texts = {"one": "caf\u00e9", "apart": "cafe\u0301", "soft hyphen": "ca\u00adfe"}
for name, text in texts.items():
    print(f"{name}:")
    print("  tokenizers", right.encode(text).ids)
    encoded = theirs(text, padding="longest", max_length=8)
    print("  flash-tokenizer", encoded.input_ids[0])
    found = blingfire.text_to_ids(model, text, 8, 100)
    print("  blingfire", [int(i) for i in found if i])
END
venv/bin/python compare.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - <<'END'
flash-tokenizer 1.2.0
blingfire 0.1.8
tokenizers 0.23.3
one:
  tokenizers [2, 5, 3]
  flash-tokenizer [2, 5, 3]
  blingfire [7668]
apart:
  tokenizers [2, 5, 3]
  flash-tokenizer [2, 1, 3]
  blingfire [100]
soft hyphen:
  tokenizers [2, 5, 3]
  flash-tokenizer [2, 1, 3]
  blingfire [6187, 10768]
END
echo "as stated"
