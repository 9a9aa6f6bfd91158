"""Flags of an export -> its format and settings, checked."""

import dataclasses
import importlib.util

from bert_tf.contrib.runtimes import tokenizer
from bert_tf.serving import kinds
from tfrecords.options import option

SAVED_MODEL = "savedmodel"
HUGGING_FACE = "hugging_face_onnx"
# Format -> modules that write and run it.
MODULES = {
    "litert": ("ai_edge_litert",),
    "onnx": ("tf2onnx", "onnx", "onnxruntime"),
    "openvino": ("openvino",),
}
# Settings of a SavedModel that also apply to these formats.
_SHARED = (
    *("model_dir", "export_dir", "overwrite", "precision", "license"),
    *(field.name for field in dataclasses.fields(kinds.AnswerOptions)),
    "accept_tokenizer_differences",
)
# Those of answers that a Hugging Face folder has a place for.
_WRITTEN = ("kind", "max_seq_length", "pooling")
# Format -> its further modules for --quantize.
QUANTIZERS = {"openvino": ("nncf",)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuntimeConfig(kinds.ExportConfig):
    """Which format to export, and settings of formats but the SavedModel."""

    format: str = option(
        SAVED_MODEL,
        "savedmodel, which takes strings; or a model for LiteRT, onnxruntime "
        "or OpenVINO that takes token ids, with a tokenizer in plain Python "
        "beside it; or hugging_face_onnx, a folder of Hugging Face with "
        "onnx/model.onnx, for transformers.js, sentence-transformers, optimum, "
        "fastembed and onnxruntime.",
        choices=(SAVED_MODEL, *MODULES, HUGGING_FACE),
    )
    quantize: str | None = option(
        None,
        "int8 weights: dynamic, with ranges of activations computed at run "
        "time (OpenVINO decides whether to use them); or static, with ranges "
        "measured on --calibration_file. Default: float32. hugging_face_onnx: "
        "dynamic writes onnx/model_quantized.onnx, too.",
        choices=("dynamic", "static"),
    )
    calibration_file: str | None = option(
        None,
        "With --quantize=static: typical texts, of which 300 are read. Lines "
        "of text; .jsonl, objects; or .csv or .tsv, whose header names the "
        "columns as the kind's fields: text_a, text_b, question, context and "
        "so on; each also compressed (.gz). Lists, such as endings, need "
        ".jsonl.",
        reads=True,
    )
    half: bool = option(
        False,
        "Store the weights in float16: half the size, float32 products. "
        "hugging_face_onnx: in onnx/model_fp16.onnx, too.",
    )
    report: bool = option(
        True,
        "Run the exported model in a process without TensorFlow, and write "
        "differences, sizes and times to report.json. hugging_face_onnx has no "
        "report; it logs differences.",
    )
    report_file: str | None = option(
        None,
        "Texts for the report, as in --calibration_file. With a column `label` "
        "the report has the accuracy, or for scores their correlation, of the "
        "texts that have one.",
        reads=True,
    )

    def __post_init__(self):
        super().__post_init__()
        if self.format == SAVED_MODEL:
            self._check_unused()
            return
        if self.kind != "auto" and self.kind not in tokenizer.FIELDS:
            raise ValueError(
                f"--kind={self.kind} is for --format=savedmodel: its graph "
                "reads texts, and models of the other formats take token ids. "
                "Omit one of them."
            )
        for field in dataclasses.fields(self):
            is_known = field.name in (*_SHARED, *RuntimeConfig.__annotations__)
            value = getattr(self, field.name)
            if not is_known and value != field.default:
                raise ValueError(
                    f"--{field.name}={value} is for --format=savedmodel, and "
                    f"the format is {self.format}. Omit the flag."
                )
        computes = ["float32", "bfloat16"][: 1 + (self.format == "openvino")]
        if self.precision not in (None, *computes):
            raise ValueError(
                f"--precision={self.precision} is for --format=savedmodel; "
                f"{self.format} computes in {' or '.join(computes)}. Omit it, "
                "or use --half or --quantize for smaller files."
            )
        if self.format == HUGGING_FACE:
            self._check_hugging_face()
        elif self.half and self.quantize:
            raise ValueError(
                f"--half and --quantize={self.quantize}: weights are float16 "
                "or int8. Omit one of them."
            )
        if (self.quantize == "static") != bool(self.calibration_file):
            raise ValueError(
                f"--quantize={self.quantize} and --calibration_file="
                f"{self.calibration_file}: static quantization needs the file, "
                "and nothing else reads it. Give both or neither."
            )
        if self.report_file and not self.report:
            raise ValueError(
                f"--report_file={self.report_file} needs the report. Omit "
                "--noreport or the file."
            )

    def _check_unused(self):
        names = ("quantize", "calibration_file", "half", "report_file")
        formats = ", ".join((*MODULES, HUGGING_FACE))
        for name in names:
            if value := getattr(self, name):
                raise ValueError(
                    f"--{name}={value} is for --format={formats}. "
                    "Add one of these, or omit the flag; a smaller SavedModel "
                    "is written with --weights_dtype=bfloat16."
                )

    def _check_hugging_face(self):
        answers = [x.name for x in dataclasses.fields(kinds.AnswerOptions)]
        refused = [name for name in answers if name not in _WRITTEN]
        for name in (*refused, "calibration_file", "report_file"):
            if (value := getattr(self, name)) is not None:
                raise ValueError(
                    f"--{name}={value}: files of --format={HUGGING_FACE} have "
                    "no place for it; the library that reads them decides. "
                    "Omit the flag."
                )
        if self.quantize == "static":
            raise ValueError(
                f"--quantize=static: int8 of --format={HUGGING_FACE} is that "
                "of --quantize=dynamic. Give this."
            )

    def check_installed(self):
        """Raises ValueError if a package that the format needs is missing."""
        is_onnx = self.format == HUGGING_FACE
        modules = MODULES["onnx" if is_onnx else self.format]
        if self.quantize:
            modules += QUANTIZERS.get(self.format, ())
        missing = [m for m in modules if importlib.util.find_spec(m) is None]
        if missing:
            raise ValueError(
                f"--format={self.format} needs {', '.join(missing)}, not "
                "installed here: pip install 'bert_tf[export]'."
            )
