#!/usr/bin/env bash
# Optuna 5.0.0: a study whose journal lost the end of its last line, as after a kill
# while it was written, is read without a word, and then cannot be continued.
#
# Guess: JournalStorage on JournalFileBackend is meant for processes that die: a last
# line that is cut is dropped or refused when the study is loaded, and `ask` goes on.
# Seen: load_study reads all trials. The next `ask` fails with AttributeError, of an
# attribute of the storage's own, and has added its line to the cut one; the one in the
# next process fails with JSONDecodeError. A journal cut at the end of a line goes on.
# So a search that should survive a kill keeps its trials elsewhere, and makes the
# journal anew from them.
#
# Needs Python 3.11 with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'optuna==5.0.0'

cat > resume.py <<'END'
import pathlib

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

optuna.logging.set_verbosity(optuna.logging.ERROR)
print("optuna", optuna.__version__)


def load(path):
    storage = JournalStorage(JournalFileBackend(str(path)))
    return optuna.load_study(study_name="s", storage=storage)


journal = pathlib.Path("journal.log")
study = optuna.create_study(
    study_name="s", storage=JournalStorage(JournalFileBackend(str(journal)))
)
for _ in range(3):
    trial = study.ask()
    trial.suggest_float("x", 0.0, 1.0)
    study.tell(trial, 0.5)
written = journal.read_bytes()
last = len(written) - len(written.splitlines(keepends=True)[-1])
for name, size in {"a whole line": last, "part of a line": -20}.items():
    path = pathlib.Path(f"{name}.log")
    path.write_bytes(written[:size])
    for _ in range(2):
        study = load(path)
        found = [trial.state.name for trial in study.trials]
        try:
            study.ask()
            print(name, found, "goes on")
        except Exception as error:
            print(name, found, type(error).__name__)
END
venv/bin/python resume.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - <<'END'
optuna 5.0.0
a whole line ['COMPLETE', 'COMPLETE', 'RUNNING'] goes on
a whole line ['COMPLETE', 'COMPLETE', 'RUNNING', 'RUNNING'] goes on
part of a line ['COMPLETE', 'COMPLETE', 'RUNNING'] AttributeError
part of a line ['COMPLETE', 'COMPLETE', 'RUNNING'] JSONDecodeError
END
echo "as stated"
