#!/usr/bin/env bash
# bm25s 0.3.16 ranks documents that have no word of the query, last ones first.
#
# Guess: as in Lucene, a document that shares no word with the query is not found, so
# that a query without a known word has no results.
# Seen: `retrieve` always fills its k places. Documents with score 0 follow those that
# match, from the end of the corpus to its beginning; a query of unknown words, of stop
# words or of nothing has the last document of the corpus first. So nDCG and MRR that are
# computed from the ids depend on the order of the corpus: below, the same query and the
# same relevant document have a reciprocal rank of 1 or of 0.25. Leave out results whose
# score is 0 before scoring.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
  'bm25s==0.3.16' 'numpy==2.2.6'

cat > rank.py <<'END'
import importlib.metadata

import bm25s

print("bm25s", importlib.metadata.version("bm25s"))
corpus = ["cats sit on mats", "dogs run in parks", "birds fly", "orcas swim"]


def ranked(texts, query):
    retriever = bm25s.BM25()
    words = bm25s.tokenize(texts, stopwords="en", show_progress=False)
    retriever.index(words, show_progress=False)
    words = bm25s.tokenize([query], stopwords="en", show_progress=False)
    ids, scores = retriever.retrieve(words, k=4, show_progress=False)
    return ids[0].tolist(), [round(float(x), 2) for x in scores[0]]


for query in ("cats", "whales", "of the"):
    print(f"{query}:", *ranked(corpus, query))
for texts in (corpus, corpus[::-1]):
    ids, _ = ranked(texts, "whales")
    print("reciprocal rank:", 1 / (1 + ids.index(texts.index("orcas swim"))))
END
venv/bin/python rank.py | tee seen.txt
cat > expected.txt <<'END'
bm25s 0.3.16
cats: [0, 3, 2, 1] [0.44, 0.0, 0.0, 0.0]
whales: [3, 2, 1, 0] [0.0, 0.0, 0.0, 0.0]
of the: [3, 2, 1, 0] [0.0, 0.0, 0.0, 0.0]
reciprocal rank: 1.0
reciprocal rank: 0.25
END
diff expected.txt seen.txt
echo "as stated"
