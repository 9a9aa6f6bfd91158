"""SWAG's files -> Swag: records, model, scores, prediction file.

Devlin et al. 2018, section 4.4: the only new weights are a vector whose dot
product with the output at [CLS] is the score of an ending; a softmax normalizes
the scores of an example's endings. So losses, scores and baseline are those of
classification with the endings as classes, and a model accepts any number of
endings.

N examples, C endings.
"""

import os

import numpy as np
from absl import logging

from bert_tf.model import models
from bert_tf.tasks.texts.classification import Classification
from tfrecords import schema
from tfrecords.io import atomic_files
from tfrecords.tasks import glue_tables, swag_examples, swag_files


class Swag(Classification):
    """Choice of one of C endings of a sentence.

    The paper fine-tunes with a learning rate of 2e-5 and batches of 16 (section
    4.4). These are the defaults of run_swag, but not of FineTuningConfig.

    Args:
      data: files and options; None if `make_records` is not used.
    """

    inputs = schema.CHOICE_INPUTS

    def __init__(self, data: swag_files.SwagData | None = None):
        table = glue_tables.GlueTask(name="SWAG", files={}, text_columns=())
        super().__init__(table, data)
        self.class_names = ()  # Endings have no names.
        self.schema = schema.MULTIPLE_CHOICE
        self.files = data.find_files() if data else {}

    def build_model(self, config, dtype=None):
        """Returns a BertMultipleChoice."""
        return models.BertMultipleChoice(config, dtype=dtype)

    def prepare(self, config, source):
        """Returns the task itself: the files are known."""
        return self

    def make_records(self, tokenizer, output_dir, max_seq_length):
        """Writes missing records; returns the folder of each split."""
        return swag_examples.make_records(
            self.files, output_dir, tokenizer, max_seq_length=max_seq_length
        )

    def read_test_labels(self, split):
        """Returns None: the labels of SWAG's test file are not public."""
        return None

    def evaluated_rows(self, split, outputs):
        """Yields none: an ending is no class."""
        return iter(())

    def write_predictions(self, predict, output_dir):
        """Writes test.csv, atomically, in the format of SWAG's csv_predict.py.

        ,pred
        0,2
        1,3
        """
        predicted = np.argmax(predict("test")["logits"], axis=-1)
        path = os.path.join(output_dir, "test.csv")
        os.makedirs(output_dir, exist_ok=True)
        with atomic_files.atomic_file(path) as file:
            file.write(",pred\n")
            file.writelines(f"{n},{p}\n" for n, p in enumerate(predicted))
        logging.info("%s  rows %d", path, len(predicted))

    def metadata(self, scores=None):
        """Returns the task, for model.json."""
        return {"task": "multiple_choice"}
