"""Flags of extend_vocab -> ExtendVocabConfig; for `--help`, no TensorFlow."""

import dataclasses

from bert_tf.checkpoint.options import FORMATS, OURS, CheckpointOptions
from tfrecords.options import REQUIRED, option
from tfrecords.text.documents import TextOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExtendVocabConfig(TextOptions, CheckpointOptions):
    """The model to extend, and its new words: of a text, or listed."""

    init_checkpoint: str = option(
        REQUIRED,
        "Folder of a run or model, or a checkpoint of any format that "
        "convert_checkpoint reads.",
        reads=True,
    )
    output_dir: str = option(
        REQUIRED, "New folder for the extended model.", writes="folder"
    )
    to: str = option(OURS, "Format of the extended model.", choices=FORMATS)
    input_file: str | None = option(
        None,
        "Text to take words from, as for make_vocab.",
        instead_of="words_file",
    )
    num_words: int = option(
        500,
        "Number of words from --input_file: those that have the most pieces "
        "beyond the first in all of the text.",
        at_least=1,
        needs="input_file",
    )
    words_file: str | None = option(
        None, "The words to add, one per line.", reads=True
    )

    def __post_init__(self):
        super().__post_init__()
        if self.input_file is None and self.words_file is None:
            raise ValueError(
                "No words are given: --input_file finds those of a text, "
                "--words_file lists them."
            )
