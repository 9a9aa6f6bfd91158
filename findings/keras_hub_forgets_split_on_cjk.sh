#!/usr/bin/env bash
# KerasHub 0.32.0 saves a WordPiece tokenizer without its setting split_on_cjk.
#
# Guess: get_config() has every argument of the tokenizer, so that its copy, and a
# model that was saved with it, cut texts into the same tokens.
# Seen: seven settings are in the config, split_on_cjk is not. A tokenizer that was
# made with split_on_cjk=False keeps a Chinese word in one piece; its copy splits it
# into characters, which have other ids. No warning. So set it again after loading.
#
# Needs Python 3.11 with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'keras-hub==0.32.0' \
  'keras==3.15.1' 'tensorflow-cpu==2.20.0' 'tensorflow-text==2.20.1'

cat > copy_it.py <<'END'
import keras
import keras_hub

print("keras_hub", keras_hub.__version__, "keras", keras.__version__)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "你", "好", "你好", "a"]
tokenizer = keras_hub.tokenizers.BertTokenizer(vocabulary=words, split_on_cjk=False)
config = tokenizer.get_config()
for name in ("lowercase", "strip_accents", "split", "oov_token", "split_on_cjk"):
    print(name, "is in the config:", name in config)
copy = keras_hub.tokenizers.BertTokenizer.from_config({**config, "vocabulary": words})
print("made:", [int(i) for i in tokenizer("你好 a")])
print("its copy:", [int(i) for i in copy("你好 a")])
END
KERAS_BACKEND=tensorflow venv/bin/python copy_it.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - <<'END'
keras_hub 0.32.0 keras 3.15.1
lowercase is in the config: True
strip_accents is in the config: True
split is in the config: True
oov_token is in the config: True
split_on_cjk is in the config: False
made: [7, 8]
its copy: [5, 6, 8]
END
echo "as stated"
