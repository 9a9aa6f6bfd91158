"""Metadata, dependencies, console commands -> an installable bert_tf."""

from setuptools import find_packages, setup

# tensorflow-text, Keras and protobuf must fit TensorFlow: move them together.
REQUIRES = [
    "tensorflow==2.20.0",
    "tensorflow-text==2.20.1",
    "keras==3.15.1; python_version >= '3.11'",
    "keras==3.12.3; python_version < '3.11'",  # The last for Python 3.10.
    "protobuf==6.33.6",
    "numpy==2.4.6; python_version >= '3.11'",
    "numpy==2.2.6; python_version < '3.11'",  # The last for Python 3.10.
    # Dependencies of TensorFlow and Keras that we import directly.
    "h5py>=3.11,<4",
    "ml_dtypes>=0.5,<1",
    "absl-py==1.4.0",
    # Our own.
    "filelock>=3.30,<5",
    "google-crc32c==1.9.0",
    "langcodes==3.5.1",
    "safetensors==0.8.0",
    "scikit-learn>=1.7,<2",
    "scipy>=1.15,<2",
    "sentencex==1.0.32",
    "huggingface_hub>=1.0,<3",
    "tokenizers==0.23.3",
    "tqdm>=4.67,<5",
    "matplotlib>=3.10,<4",
]

# Pins shared by two extras, which `make parity` installs together.
RUNTIMES = ["onnx==1.23.2", "onnxruntime==1.32.0", "openvino==2026.4.1"]

# No extra for TPUs: TensorFlow Text requires the wheel `tensorflow`, over which
# tensorflow-tpu would be installed. See docs/guide/cloud_tpu.md.
EXTRAS = {
    "test": [
        "pytest==9.2.0",
        "pytest-xdist>=3.8,<4",
        "hypothesis>=6.148,<7",
        "ruff==0.17.5",
        # Its protocol buffers, to read the warm-up requests of exports.
        "tensorflow-serving-api==2.20.0",
    ],
    # The site that `make docs` builds.
    "docs": [
        "sphinx>=8.1,<9",
        "myst-parser>=4,<5",
        "myst-nb>=1.3,<2",
        # Dependencies of myst-nb that docs/conf.py imports.
        "nbclient>=0.10,<1",
        "jupyter_client>=8.10,<9",
        "sphinx-book-theme>=1.1.4,<2",
    ],
    # For make_pretraining_records --runner=spark and --runner=beam.
    "spark": ["pyspark==4.3.0"],
    "beam": ["apache-beam==2.77.0"],
    # For the page of bert-explore.
    "explore": ["gradio==6.31.0"],
    # For its test; the browser is not from PyPI.
    "browser": ["selenium==4.51.0"],
    # For reading Parquet and .zst.
    "parquet": ["pyarrow>=14,<26"],
    # For export_savedmodel --format=litert, onnx and openvino; Python 3.11 or
    # later.
    "export": ["ai-edge-litert==2.3.0", "nncf==3.4.0", "tf2onnx==1.17.0"]
    + RUNTIMES,
    # Implementations that `make parity` compares with; Python 3.11 or later.
    "parity": [
        "tf-models-official==2.20.0",
        "tf_keras==2.20.1",
        "keras-hub==0.32.0",
        "torch==2.13.0",
        "transformers==5.23.0",
        # Of benchmarks.inference; torch gives them the model as ONNX.
        *RUNTIMES,
        # For the Trainer of transformers.
        "accelerate==1.14.0",
        # tensorflow-hub, a dependency of the first, imports pkg_resources.
        "setuptools>=77,<81",
    ],
}

SCRIPTS = [
    "make_vocab",
    "make_pretraining_records",
    "make_glue_records",
    "make_squad_records",
    "make_swag_records",
    "make_ner_records",
    "doctor",
    "show_records",
    "run_pretraining",
    "run_glue",
    "glue_table",
    "make_glue_submission",
    "run_squad",
    "run_swag",
    "run_ner",
    "extract_features",
    "score_squad",
    "convert_checkpoint",
    "export_savedmodel",
    "predict",
]

setup(
    name="bert_tf",
    version="0.1.0",
    description="The reference reimplementation of BERT in TensorFlow.",
    license="Apache-2.0",
    packages=find_packages(
        include=[
            f"{package}{inner}"
            for package in ("bert_tf", "tfrecords", "run_scripts")
            for inner in ("", ".*")
        ]
    ),
    package_data={"run_scripts": ["recipes/*.flags", "recipes/*.json"]},
    python_requires=">=3.10,<3.13",
    install_requires=REQUIRES,
    extras_require=EXTRAS,
    entry_points={
        "console_scripts": [
            f"bert-{script.replace('_', '-')} = run_scripts.{script}:run"
            for script in SCRIPTS
        ]
        + ["bert-quickstart = run_scripts.quickstart.tour:run"]
        + ["bert-explore = run_scripts.explore.page:run"]
    },
)
