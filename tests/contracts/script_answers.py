"""Scripts of run_scripts, wrong flags -> what each prints and imports, as JSON.

    python tests/contracts/script_answers.py

No script needs TensorFlow for these answers: one process has all of them in two
seconds.
"""

import contextlib
import importlib
import io
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "run_scripts").rglob("*.py")
    if "\ndef main(argv" in path.read_text("utf-8")
)
# Libraries that take seconds to import.
SLOW = ("tensorflow", "tensorflow_text", "keras", "matplotlib", "sentencex")


class Imports:
    """Remembers which slow libraries are imported; finds none."""

    def __init__(self):
        self.names = []

    def find_spec(self, name, path=None, target=None):
        del path, target
        if name in SLOW:
            self.names.append(name)


def kind(flag):
    """Returns "Integer" for the parser of a whole number, and so on."""
    return type(flag.parser).__name__.removesuffix("Parser")


def options_of(values):
    """Returns flag -> the field of the dataclass that defines it."""
    from tfrecords import options

    found, todo = {}, [options.Options]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        for field in cls.__dataclass_fields__.values():
            if values.find_module_defining_flag(field.name) == cls.__name__:
                found[field.name] = field
    return found


def required(values):
    """Returns required flag -> a value that it accepts."""
    from run_scripts.flags import headings
    from tfrecords.options import REQUIRED

    marked = {
        name
        for name, field in options_of(values).items()
        if field.default is REQUIRED
    }
    return {
        name: getattr(values[name].parser, "enum_values", ["x"])[0]
        for name in values
        if headings.is_required(values[name]) or name in marked
    }


def _wrong_values(flag):
    """Yields texts that no flag of this kind accepts, or not these bounds."""
    if kind(flag) in ("Boolean", "Enum", "Integer", "Float"):
        yield "nonsense"
    if kind(flag) == "Integer":
        yield "1.5"
    if kind(flag) in ("Integer", "Float"):
        least, most = flag.parser.lower_bound, flag.parser.upper_bound
        yield from [] if least is None else [str(least - 1)]
        yield from [] if most is None else [str(most + 1)]


def mistakes(values):
    """Yields the word that the line should have, and the arguments."""
    given = required(values)
    yield "'no_such_flag'", ["--no_such_flag=1"]
    for name in given:
        yield (
            f"--{name}=None: it is required",
            [f"--{other}={x}" for other, x in given.items() if other != name],
        )
    for name in values:
        for value in _wrong_values(values[name]):
            yield f"--{name}={value}", [f"--{name}={value}"]


def late_mistakes(values):
    """Yields a flag and arguments that only a dataclass of settings refuses."""
    given = required(values)
    words = [f"--{name}={value}" for name, value in given.items()]
    for name in values:
        late = {"Float": ("nan", "inf", "-inf"), "Integer": (f"{10**22}",)}
        for value in late.get(kind(values[name]), ()):
            yield name, [*words, f"--{name}={value}"]
        if name in given and name.startswith(("output_", "export_")):
            yield name, [*words, f"--{name}="]


def ask(module, words):
    """Returns status, stdout and stderr of a script."""
    sys.argv = ["script", *words]
    out, errors, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            module.run()
        except SystemExit as stop:
            status = stop.code
        except Exception as error:
            status = repr(error)
    return status, out.getvalue(), errors.getvalue()


def main():
    """Prints script -> its answers and imports, as JSON."""
    imports = Imports()
    sys.meta_path.insert(0, imports)
    found = {}
    for script in SCRIPTS:
        imports.names = []
        module = importlib.import_module(script)
        found[script] = {
            "help": ask(module, ["--help"]),
            "mistakes": [
                [part, *ask(module, words)]
                for part, words in mistakes(module.FLAGS)
            ],
            "imported": imports.names,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
