r"""Queries, a corpus, judgements and a model -> nDCG@10, MRR and recall.

    python -m run_scripts.score_retrieval --model_dir=models/all-MiniLM-L6-v2 \
      --corpus_file=corpus.jsonl --corpus_columns=title,text \
      --queries_file=queries.jsonl --judgements_file=qrels.tsv --id_column=_id

Search is exact, in chunks of bounded memory. The scores are those of trec_eval,
which also reads --run_file. Beside the model stand TF-IDF and, with
--baselines=tfidf,bm25, BM25 (`pip install bert_tf[bm25]`).
"""

from bert_tf.contrib.search import retrieval
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(retrieval.RetrievalConfig)


def main(argv: list[str]) -> None:
    """Writes the scores."""
    common_flags.parse(FLAGS, argv, __doc__)
    retrieval.score(common_flags.config(retrieval.RetrievalConfig, FLAGS))


run = common_flags.command(main)

if __name__ == "__main__":
    run()
