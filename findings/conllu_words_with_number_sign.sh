#!/usr/bin/env bash
# conllu 6.0.0 drops words that begin with "#", wherever they stand in a sentence.
#
# Guess: with `fields=["form", "tag"]`, which is for files whose columns are not those of
# CoNLL-U, as CoNLL-2003's, lines that begin with "#" are comments only before the first
# word of a sentence.
# Seen: every such line is dropped without a word, in the middle of a sentence too. Words
# of tweets, "#london" with B-LOC, are gone with their tags, and so is an entity that is
# only such a word; the words beside it then stand next to each other. Read such files
# line by line, or by a reader that knows no comments.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'conllu==6.0.0'

printf '%s\tO\n' Rain in > tweets.txt
printf '#london\tB-LOC\n' >> tweets.txt
printf '%s\tO\n' today . >> tweets.txt

cat > read.py <<'PY'
import importlib.metadata

import conllu

print("conllu", importlib.metadata.version("conllu"))
with open("tweets.txt", encoding="utf-8") as file:
    text = file.read()
print("lines:", len(text.splitlines()))
for sentence in conllu.parse(text, fields=["form", "tag"]):
    print("words:", *(f"{token['form']}/{token['tag']}" for token in sentence))
    print("metadata:", dict(sentence.metadata))
PY
venv/bin/python read.py | tee seen.txt
diff - seen.txt <<'END'
conllu 6.0.0
lines: 5
words: Rain/O in/O today/O ./O
metadata: {}
END
echo "as stated"
