"""Queries, documents, judgements, a model -> nDCG, MRR and recall.

Search is exact: each document is compared with each query. Documents are read
and compared in chunks: of a large corpus only the ids stay in memory, except
for BM25, which needs its words.

Shapes: Q queries, C documents of a chunk.
"""

import dataclasses
import functools
import itertools
import json
import logging as python_logging
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from absl import logging

from bert_tf.contrib.search import embedding, prompts, ranking
from bert_tf.contrib.search.records import search_files
from tfrecords import libraries
from tfrecords.io import atomic_files, progress, streams
from tfrecords.options import option
from tfrecords.tables import parts

DOCUMENTS_AT_ONCE = 4096
SCORES_AT_ONCE = 1 << 24  # Fewer documents, if there are many queries.
_BASELINES = ("tfidf", "bm25")
# Words of two or more letters, as of scikit-learn and bm25s; and each Chinese
# character, as of BERT, since there are no spaces: XQuAD's questions in Chinese
# find their paragraphs with an nDCG@10 of 0.94 instead of 0.12.
_CHINESE = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = rf"[{_CHINESE}]|[^\W{_CHINESE}]{{2,}}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueryOptions(embedding.VectorOptions):
    """Which model, and how queries are compared with documents."""

    query_prompt: str | None = option(
        None,
        "Text put before each query, for models that were trained so. Default: "
        "the prompt `query` of a folder of sentence-transformers, or its "
        "default one; otherwise none.",
    )
    similarity: str | None = option(
        None,
        "How vectors are compared: by the cosine, or by the dot product. "
        "Default: as a folder of sentence-transformers says, otherwise cosine.",
        choices=ranking.SIMILARITIES,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetrievalConfig(search_files.SearchOptions, QueryOptions):
    """Which queries, documents and judgements, and which model."""

    corpus_prompt: str | None = option(
        None,
        "Text put before each document. Default: likewise, of the prompts "
        "`document`, `passage` and `corpus` the first with a text.",
    )
    baselines: tuple[str, ...] = option(
        ("tfidf",),
        "What to score beside the model: tfidf, of scikit-learn; bm25, of the "
        "library bm25s; or both.",
    )
    output_file: str = option(
        "-", "JSON file of the scores; - is stdout.", writes="file"
    )
    run_file: str | None = option(
        None,
        "File to write the model's ranking to, as trec_eval reads it.",
        writes="file",
    )

    def __post_init__(self):
        super().__post_init__()
        if not self.corpus_file:
            raise ValueError(
                "--corpus_file, --queries_file and --judgements_file are "
                "needed. Give all three."
            )
        for name in self.baselines:
            if name not in _BASELINES:
                raise ValueError(
                    f"--baselines={name} should be some of "
                    f"{', '.join(_BASELINES)}."
                )


def score(config: RetrievalConfig) -> dict:
    """Writes the scores of the model and of baselines, and returns them.

    Raises:
      ValueError: if a file is malformed, an id occurs twice, or no query or
        document that is judged is there.
      OSError: if a file cannot be read or written.
    """
    inputs = [
        (name, path)
        for name in ("corpus_file", "queries_file", "judgements_file")
        for path in parts.find(getattr(config, name))
    ]
    streams.check_output("output_file", config.output_file, inputs)
    if config.run_file:
        inputs.append(("output_file", config.output_file))
        streams.check_output("run_file", config.run_file, inputs)
    if "bm25" in config.baselines:
        with libraries.extra("bm25", "--baselines=bm25"):
            import bm25s  # noqa: F401
    judged = search_files.read_judgements(config.judgements_file)
    query_ids, queries = search_files.read_queries(config, judged)
    num_documents = search_files.check_documents(config, judged)
    if num_documents < ranking.DEPTH:
        logging.warning(
            "%s has %d documents, of which recall@%d finds all",
            config.corpus_file,
            num_documents,
            ranking.DEPTH,
        )
    grades = [judged[name] for name in query_ids]
    sizes = len(queries), num_documents
    # First: they are fast, and may fail.
    baselines = {
        name: ranking.scores(
            _rank_by_words(config, name, queries, num_documents), grades
        )
        for name in config.baselines
    }
    given, embed = embedding.open_embedder(config)
    similarity = config.similarity or ranking.choose_similarity(given.metadata)
    logging.info("vectors are compared by %s", similarity)
    chosen = {
        of: choose_prompt(given.metadata, config, of) for of in prompts.NAMES
    }
    for of, prompt in chosen.items():
        embed.check_prompt(prompt, f"{of}_prompt")
    embed.prompt = chosen["query"]
    vectors = ranking.comparable(embed(queries), similarity)
    embed.prompt = chosen["corpus"]
    found = _rank(
        config,
        "model",
        *sizes,
        lambda texts: vectors @ ranking.comparable(embed(texts), similarity).T,
    )
    embed.warn_of_cut(embed.num_cut, embed.num_texts)
    scores = {"model": ranking.scores(found.ids(), grades)} | baselines
    results = {
        "queries": len(queries),
        "documents": num_documents,
        "scores": scores,
    }
    for name, values in scores.items():
        line = "  ".join(f"{key} {value:.4f}" for key, value in values.items())
        logging.info("%s  %s", name, line)
    if config.run_file:
        with atomic_files.atomic_file(config.run_file) as file:
            file.writelines(_run_lines(query_ids, found))
    with atomic_files.atomic_file(config.output_file) as file:
        file.write(json.dumps(results, indent=2) + "\n")
    return results


def choose_prompt(metadata: Mapping, config: QueryOptions, of: str) -> str:
    """Returns the prompt of each text of "query" or "corpus"."""
    prompt = getattr(config, f"{of}_prompt")
    if prompt is None:
        prompt = prompts.choose(metadata, of)
    embedding.log_prompt(f"texts of the {of}", prompt, metadata)
    return prompt


def _rank(
    config: RetrievalConfig,
    name: str,
    num_queries: int,
    num_documents: int,
    compare: Callable[[Sequence[str]], np.ndarray],
) -> ranking.Ranking:
    """Returns the best documents, and shows progress.

    `compare` takes C texts, in the order of the corpus, and returns [Q, C].
    """
    found = ranking.Ranking(num_queries)
    most = min(DOCUMENTS_AT_ONCE, max(1, SCORES_AT_ONCE // num_queries))
    starts = range(0, num_documents, most)
    sizes = [min(most, num_documents - x) for x in starts]

    def results():
        rows = search_files.read_corpus(config)
        for i, size in enumerate(sizes):
            chunk = itertools.islice(rows, size)
            ids, texts = zip(*chunk, strict=True)
            found.add(compare(texts), ids)
            yield i, None

    for _ in progress.show(
        results(), sizes, sizes, name=name, unit="documents"
    ):
        pass
    return found


def _rank_by_words(
    config: RetrievalConfig,
    name: str,
    queries: Sequence[str],
    num_documents: int,
) -> list[list[str]]:
    """Returns the ids of the best documents of each query, by a baseline.

    Documents without a word of the query, of score 0, are left out, as in
    Lucene.
    """
    try:
        if name == "bm25":
            found = _bm25(config, queries)
        else:
            compare = _tf_idf(config, queries)
            sizes = len(queries), num_documents
            found = _rank(config, name, *sizes, compare).best
        return [[x for score, x in best if score > 0] for best in found]
    except ValueError as error:
        raise ValueError(
            f"--baselines={name} cannot rank {config.corpus_file}: {error}. "
            f"Leave out {name}, or correct the file."
        ) from error


def _tf_idf(config: RetrievalConfig, queries: Sequence[str]) -> Callable:
    """Returns [Q, C] of texts: cosines of TF-IDF vectors."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    rows = search_files.read_corpus(config)
    vectorizer = TfidfVectorizer(
        sublinear_tf=True, stop_words="english", token_pattern=_WORD
    )
    vectorizer.fit(text for _, text in rows)
    of_queries = vectorizer.transform(queries)
    return lambda texts: (of_queries @ vectorizer.transform(texts).T).toarray()


def _bm25(config: RetrievalConfig, queries: Sequence[str]) -> list:
    """Returns BM25 and id of the best documents, as `ranking.Ranking.best`."""
    import bm25s

    python_logging.getLogger("bm25s").setLevel(python_logging.WARNING)
    options = {"stopwords": "en", "token_pattern": _WORD}
    tokenize = functools.partial(bm25s.tokenize, show_progress=False, **options)
    ids, texts = zip(*search_files.read_corpus(config), strict=True)
    retriever = bm25s.BM25()
    tokens = tokenize(texts)
    if not any(tokens.ids):
        raise ValueError("its documents have stop words alone")
    retriever.index(tokens, show_progress=False)
    numbers, scores = retriever.retrieve(
        tokenize(queries, return_ids=False),
        k=min(ranking.DEPTH, len(ids)),
        show_progress=False,
    )
    return [
        sorted(
            ((float(x), ids[i]) for x, i in zip(*best, strict=True)),
            reverse=True,
        )
        for best in zip(scores, numbers, strict=True)
    ]


def _run_lines(
    query_ids: Sequence[str], found: ranking.Ranking
) -> Iterator[str]:
    for query, best in zip(query_ids, found.best, strict=True):
        for rank, (value, name) in enumerate(best, 1):
            yield f"{query} Q0 {name} {rank} {value!r} bert_tf\n"
