"""Tables of similar texts -> task Embeddings: records, model, losses, scores.

The vectors of texts that belong together become similar. What a row is decides
the loss:

  a sentence        its vector, computed twice, with two draws of dropout, is to
                    be found among those of the other rows (SimCSE, Gao et al.
                    2021, arXiv 2104.08821, section 3)
  a pair, and any   the vector of the second text is to be found among those of
  wrong texts       all texts but the first ones, of the rows of all replicas
                    (Henderson et al. 2017, arXiv 1705.00652, section 4.4)
  with a teacher    the difference between the similarities of the second text
                    and of a wrong one is to be that of a cross-encoder's scores
                    (margin MSE, Hofstätter et al. 2020, arXiv 2010.02666)
  a pair, a score   the cosine is to be the score (Reimers and Gurevych 2019,
                    arXiv 1908.10084, section 3)

B rows of a replica, T texts of each, S sequence, E size of a vector, R rows of
all replicas, K candidates of a row: its texts but the first.
"""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_tf.checkpoint import contents
from bert_tf.contrib.search import in_batch, prompts, ranker, ranking
from bert_tf.contrib.search.options import EmbeddingData
from bert_tf.contrib.search.records import search_files, text_examples
from bert_tf.model.sentence_embedding import Normalize, SentenceEmbedding
from bert_tf.model.sentence_encoder import BertSentenceEncoder
from bert_tf.tasks import losses, metrics
from bert_tf.tasks.task import DEV_SEED, FineTuningTask, Target
from tfrecords import schema

_NEVER = -1e9  # Logit of what is not compared.
_TEXTS_AT_ONCE = 4096
# Metric of dev -> the flags that it needs. Pairs, whose is mrr, need none.


class Embeddings(FineTuningTask):
    """Vectors of texts.

    Args:
      data: tables and settings.

    Attributes:
      embedding: the steps from hidden states to a vector, with their initial
        weights.
    """

    name = "embeddings"
    inputs = schema.TEXTS

    def __init__(self, data: EmbeddingData):
        self.data = data
        self.embedding = self._chosen(None)
        self.schema = schema.SCORED_TEXTS if data.score_column else schema.TEXTS
        tables = data.tables()
        if not tables and not data.corpus_file:
            raise ValueError(
                "No data: give --train_file, --dev_file, or --corpus_file, "
                "--queries_file and --judgements_file."
            )
        dev = tables.get("dev") or tables.get("train")
        self.best_metric = "mrr"
        if data.corpus_file:
            self.best_metric = f"ndcg@{ranking.NDCG_DEPTH}"
        elif dev.score_column:
            self.best_metric = "spearman"
        self.labels: dict[str, np.ndarray] = {}  # Dev split -> [N] scores.
        # Dev split -> numbers of the texts of each row, [N, T]: the same for
        # equal texts.
        self.numbers: dict[str, np.ndarray] = {}
        # Ids of the documents, and the grades of each query.
        self.documents: list[str] = []
        self.grades: list[ranking.Grades] = []
        self.first_lengths = (None, None)  # See BertSentenceEncoder.
        self.prompts: dict = {}  # Entries of model.json.
        self.similarity = "cosine"  # How vectors are compared.
        self.rank = None  # Scores of a teacher.
        self.trains = True

    def _chosen(self, given: SentenceEmbedding | None) -> SentenceEmbedding:
        """Returns the steps of a model, as the options change them."""
        data = self.data
        steps = given or SentenceEmbedding(steps=(Normalize(),))
        if data.pooling:
            steps = dataclasses.replace(steps, pooling=(data.pooling,))
        if data.normalize is not None:
            others = [x for x in steps.steps if not isinstance(x, Normalize)]
            others += [Normalize()] * data.normalize
            steps = dataclasses.replace(steps, steps=tuple(others))
        return steps

    def prepare(self, config, source):
        """Takes what a sentence model says, and the scores of --teacher.

        Raises:
          ValueError: for --do_predict, and batches without negatives.
        """
        self.check_config(config)
        self.use_source(source)
        if config.do_train and config.teacher:
            self.use_ranker(ranker.Ranker(config))
        return self

    def use_source(self, source):
        """Takes pooling, dense layers and length of a sentence model."""
        embedding = source and source.sentence_embedding
        self.embedding = self._chosen(embedding)
        if embedding:
            length = source.metadata.get("max_seq_length")
            self.max_seq_length = length or type(self).max_seq_length
        names = ("prompts", "default_prompt_name") if embedding else ()
        found = {x: source.metadata[x] for x in names if x in source.metadata}
        if embedding and not self.trains:
            self.similarity = ranking.choose_similarity(source.metadata)
        self.prompts = prompts.replaced(
            found, query=self.data.query_prompt, corpus=self.data.corpus_prompt
        )

    def check_config(self, config):
        """Raises ValueError for --do_predict, and batches without negatives."""
        self.trains = config.do_train
        if config.do_predict:
            raise ValueError(
                "--do_predict: bert-embed (run_scripts.embed) writes the "
                "vectors of a file. Omit the flag."
            )
        if config.do_train and config.teacher:
            columns = self.data.text_column
            if len(columns) < 3 or self.data.score_column:
                raise ValueError(
                    f"--teacher={config.teacher} needs three or more columns "
                    "in --text_column, a query, its passage, and passages that "
                    f"are like it but wrong; it is {','.join(columns)}. Add "
                    "them, without --score_column."
                )
            return
        if not config.do_train or self.data.score_column:
            return
        if config.gradient_accumulation_steps > 1:
            raise ValueError(
                "--gradient_accumulation_steps="
                f"{config.gradient_accumulation_steps}: each part of a batch "
                "would only have its own negatives, which is another loss. "
                "Omit it, and choose a --train_batch_size that fits into "
                "memory, or add --remat."
            )
        if config.train_batch_size == 1 and len(self.data.text_column) < 3:
            raise ValueError(
                "--train_batch_size=1: the negatives of a row are the other "
                "rows of its batch, of which there are none. Choose a larger "
                "batch."
            )

    def use_ranker(self, rank):
        """Takes the scores of a cross-encoder."""
        self.rank = rank
        if not self.has_unit_length():  # Its margins are of dot products.
            self.similarity = "dot"
        self.schema = schema.TAUGHT_TEXTS

    def build_model(self, config, dtype=None):
        """Returns a BertSentenceEncoder."""
        model = BertSentenceEncoder.of(
            *(config, self.embedding, dtype), scale=self.data.similarity_scale
        )
        model.first_lengths = self.first_lengths
        return model

    def has_unit_length(self) -> bool:
        """Returns whether the last step divides vectors by their lengths."""
        steps = self.embedding.steps
        return bool(steps) and isinstance(steps[-1], Normalize)

    def outputs(self, model, batch, dropout_key):
        """Returns `embedding`, `similarity` [B], or logits and labels.

        `similarity_logits` are [B, R K] float32, and `similarity_labels` [B]
        int32.
        """
        ids = batch["input_word_ids"]
        if ids.shape[1] == 1:  # Each row twice, with dropout of its own.
            names = schema.ENCODER_INPUTS
            batch = {
                name: tf.repeat(x, 2, axis=1) if name in names else x
                for name, x in batch.items()
            }
        outputs = dict(model(batch, training=True, dropout_key=dropout_key))
        vectors = outputs["embedding"]
        if self.rank:
            # As they are served; cosines are scaled, or a difference of them
            # could not be that of any scores.
            similarities = tf.einsum(
                "be,bte->bt", vectors[:, 0], vectors[:, 1:]
            )
            if self.has_unit_length():
                similarities *= model.scale
            margins = similarities[:, :1] - similarities[:, 1:]
            return outputs | {"margins": margins}
        vectors = tf.math.l2_normalize(vectors, axis=-1)
        if self.data.score_column:
            similarity = tf.reduce_sum(vectors[:, 0] * vectors[:, 1], axis=-1)
            return outputs | {"similarity": similarity}
        return outputs | in_batch_similarities(
            vectors,
            batch["input_word_ids"],
            batch["is_real_example"],
            model.scale,
            are_copies=ids.shape[1] == 1,
        )

    def targets(self, batch):
        """Returns the target of each real row."""
        weights = batch["is_real_example"]
        if self.rank:
            scores = batch["teacher_scores"]
            margins = scores[:, :1] - scores[:, 1:]  # [B, T - 2]
            each = tf.repeat(weights[:, None], margins.shape[1], axis=1)
            target = Target("margins", margins, each, losses.squared_error)
            return {"margin": target}
        if self.data.score_column:
            target = Target(
                *("similarity", batch["label_scores"], weights),
                losses.squared_error,
            )
            return {"squared_error": target}
        target = Target("similarity_logits", "similarity_labels", weights)
        return {"in_batch": target}

    def make_records(self, tokenizer, output_dir, max_seq_length):
        """Writes missing records; returns the folder of each split.

        Raises:
          ValueError: if a prompt leaves no token for texts.
        """
        for name in prompts.NAMES:
            prompt = self.prompt_of(name)
            prompts.check_length(
                *(prompt, f"{name}_prompt", tokenizer, max_seq_length)
            )
        folders = text_examples.make_records(
            self.data,
            output_dir,
            tokenizer,
            max_seq_length=max_seq_length,
            seed=DEV_SEED,
            prompts=(self.prompt_of("query"), self.prompt_of("corpus")),
            search=self.data if self.data.corpus_file else None,
            rank=self.rank,
            only_dev=not self.trains,
        )
        # Apart: dropout masks of training do not depend on dev.
        train = {x: folders[x] for x in folders if x == "train"}
        dev = {x: folders[x] for x in folders if x not in train}
        self.first_lengths = (
            text_examples.first_length(train),
            text_examples.first_length(dev),
        )
        return folders

    def prompt_of(self, name: str) -> str:
        """Returns the prompt of texts of "query" or "corpus"."""
        return prompts.choose(self.prompts, name)

    def open_splits(self, splits):
        """Reads scores and judgements, and which texts of dev are equal."""
        for split, records in splits.items():
            if split == text_examples.SEARCH:
                self._read_judgements(records)
                continue
            if not split.startswith("dev"):
                continue
            if records.manifest.schema_name == "scored_texts":
                name = "label_scores"
                wanted = {name: schema.SCORED_TEXTS[name]}
                self.labels[split] = records.read(wanted)[name]
                continue
            name = "input_word_ids"
            ids = records.read({name: schema.TEXTS[name]})[name]  # [N, T, S]
            shape = ids.shape[:2]
            _, numbers = np.unique(
                ids.reshape(-1, ids.shape[-1]), axis=0, return_inverse=True
            )
            self.numbers[split] = numbers.reshape(shape)

    def _read_judgements(self, records) -> None:
        """Reads grades and documents; their number must be that of records."""
        judged = search_files.read_judgements(self.data.judgements_file)
        queries, _ = search_files.read_queries(self.data, judged)
        self.grades = [judged[name] for name in queries]
        corpus = search_files.read_corpus(self.data)
        self.documents = [name for name, _ in corpus]
        if len(records) != len(queries) + len(self.documents):
            raise ValueError(
                f"{os.path.dirname(records.paths[0])} has {len(records)} texts "
                f"of {len(queries)} queries with judgements and "
                f"{len(self.documents)} documents. Delete that folder, so that "
                "its records are made again."
            )

    def score(self, split, outputs):
        """Returns Spearman's and Pearson's correlation; or scores of search.

        Queries search the corpus; without one, each first text searches among
        all other texts of the split.
        """
        vectors = outputs["embedding"]  # [N, T, E]
        if split == text_examples.SEARCH:
            num_queries, vectors = len(self.grades), vectors[:, 0]
            ranked = ranked_ids(
                *(vectors[:num_queries], vectors[num_queries:]),
                self.documents,
                self.similarity,
            )
            return ranking.scores(ranked, self.grades)
        if split in self.labels:
            first, second = map(
                ranking.normalized, (vectors[:, 0], vectors[:, 1])
            )
            return metrics.compute(
                ("spearman", "pearson"),
                np.sum(first * second, axis=-1),
                self.labels[split],
                split,
            )
        return search_scores(vectors, self.numbers[split], self.similarity)

    def majority_baseline(self):
        """Returns the scores of vectors that are all the same, by dev split.

        Equal scores are ranked in an arbitrary, but fixed, order.
        """
        found = {}
        for split, labels in self.labels.items():
            found[split] = metrics.compute(
                ("spearman", "pearson"), np.zeros_like(labels), labels
            )
        if self.grades:
            equal = np.ones((len(self.grades) + len(self.documents), 1, 1))
            split = text_examples.SEARCH
            found[split] = self.score(split, {"embedding": equal})
        for split, numbers in self.numbers.items():
            equal = np.ones((*numbers.shape, 1), np.float32)
            found[split] = search_scores(equal, numbers)
        return found

    def decisive_settings(self):
        """Returns the settings that decide the weights of a run."""
        settings = self.data.decisive()
        if self.rank:
            settings["teacher_sha256"] = self.rank.sha256
        return settings

    def metadata(self, scores=None):
        """Returns task and steps, for model.json."""
        similarity = {}
        if self.similarity != "cosine":
            similarity["similarity_fn_name"] = self.similarity
        return {
            "task": "pretraining",  # Of a BERT without a head.
            contents.SENTENCE_EMBEDDING: self.embedding.settings(),
            **self.prompts,
            **similarity,
        }


def in_batch_similarities(
    vectors: tf.Tensor,
    ids: tf.Tensor,
    is_real: tf.Tensor,
    scale: tf.Tensor,
    *,
    are_copies: bool = False,
) -> dict[str, tf.Tensor]:
    """Returns `similarity_logits` and `similarity_labels`, see `Embeddings`.

    A text is no negative of a row if it equals the row's second text, or if it
    is the second text of a row with the same first one: that would punish a
    right answer.

    Args:
      vectors: [B, T, E] float32, of length 1.
      ids: [B, T, S] int32, tokens of the texts.
      is_real: [B] float32, 0 for rows that fill the batch.
      scale: factor of cosines.
      are_copies: whether the texts of a row are the same one, of which equal
        ones in other rows remain negatives of no row.
    """
    rows, texts = vectors.shape[:2]
    replica = tf.distribute.get_replica_context()
    first = replica.replica_id_in_sync_group * tf.constant(rows)
    own = {"vectors": vectors[:, 1:], "ids": ids, "is_real": is_real}
    everywhere = in_batch.gathered(own)
    candidates = everywhere["vectors"]
    candidates = tf.reshape(candidates, [-1, vectors.shape[-1]])  # [R K, E]
    logits = scale * tf.matmul(vectors[:, 0], candidates, transpose_b=True)
    others = everywhere["ids"]
    is_known = in_batch.equal_texts(
        ids[:, 1], tf.reshape(others[:, 1:], [-1, ids.shape[2]])
    )
    if not are_copies:
        # Second texts of rows with the same first text.
        is_second = tf.one_hot(0, texts - 1, True, False, dtype=tf.bool)
        is_same = (
            in_batch.equal_texts(ids[:, 0], others[:, 0])[:, :, None]
            & is_second
        )
        is_known |= tf.reshape(is_same, [rows, -1])
    labels = (first + tf.range(rows)) * (texts - 1)
    is_own = tf.range(tf.shape(candidates)[0]) == labels[:, None]
    is_row = tf.repeat(everywhere["is_real"] > 0, texts - 1)
    logits = tf.where(is_own | (is_row & ~is_known), logits, _NEVER)
    return {"similarity_logits": logits, "similarity_labels": labels}


def search_scores(
    vectors: np.ndarray, numbers: np.ndarray, similarity: str = "cosine"
) -> dict[str, float]:
    """Returns the scores of finding second texts among all but the first.

    Equal texts are one document; the second texts of all rows with the same
    first one are relevant.

    Args:
      vectors: [N, T, E] float32.
      numbers: [N, T] of the texts, the same for equal ones.
      similarity: one of `ranking.SIMILARITIES`.
    """
    places = {}  # Of each document: row and column of one of its texts.
    relevant: dict[int, dict[str, int]] = {}
    for row, (query, *others) in enumerate(numbers.tolist()):
        for column, number in enumerate(others, 1):
            places.setdefault(number, (row, column))
        relevant.setdefault(query, {})[str(others[0])] = 1
    documents = vectors[tuple(np.array([*places.values()]).T)]
    ids = [str(number) for number in places]
    _, queries = np.unique(numbers[:, 0], return_index=True)
    ranked = ranked_ids(vectors[queries, 0], documents, ids, similarity)
    grades = [relevant[number] for number in numbers[queries, 0].tolist()]
    return ranking.scores(ranked, grades)


def ranked_ids(
    queries: np.ndarray,
    documents: np.ndarray,
    ids: Sequence[str],
    similarity: str = "cosine",
) -> list[list[str]]:
    """Returns the ids of the best documents of each query, the best first.

    Memory does not grow with the number of queries times that of documents.

    Args:
      queries: [Q, E] float32.
      documents: [C, E] float32.
      ids: [C], of the documents.
      similarity: one of `ranking.SIMILARITIES`.
    """
    queries = ranking.comparable(queries, similarity)
    documents = ranking.comparable(documents, similarity)
    found = []
    for first in range(0, len(queries), _TEXTS_AT_ONCE):
        some = queries[first : first + _TEXTS_AT_ONCE]
        best = ranking.Ranking(len(some))
        for begin in range(0, len(documents), _TEXTS_AT_ONCE):
            part = slice(begin, begin + _TEXTS_AT_ONCE)
            best.add(some @ documents[part].T, ids[part])
        found += best.ids()
    return found
