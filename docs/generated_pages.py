"""Flags of scripts, modules of packages -> Markdown pages of the reference."""

import importlib
import inspect
import pathlib
import pkgutil
import re

ROOT = pathlib.Path(__file__).parent.parent
# Scripts that are a folder -> their module.
_IN_FOLDERS = {"explore": "explore.page", "quickstart": "quickstart.tour"}


def write(folder: pathlib.Path) -> None:
    """Writes `scripts/*.md` and `api/*.md`; removes pages of what is gone."""
    pages = {f"scripts/{name}.md": script_page(name) for name in scripts()}
    pages |= {f"api/{name}.md": api_page(name) for name in packages()}
    for kind in ("scripts", "api"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for path in (folder / kind).glob("*.md"):
            if f"{kind}/{path.name}" not in pages:
                path.unlink()
    for name, text in pages.items():
        path = folder / name
        # An equal page is left alone: Sphinx then builds only what changed.
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def scripts() -> list[str]:
    """Returns the names of all scripts."""
    files = (ROOT / "run_scripts").glob("[a-z]*.py")
    return [*sorted(path.stem for path in files), *_IN_FOLDERS]


def script_page(name: str) -> str:
    """Returns the page of a script: its docstring, then all of its flags."""
    module = _IN_FOLDERS.get(name, name)
    script = importlib.import_module(f"run_scripts.{module}")
    lines = [f"# {name}", "", _markdown(inspect.cleandoc(script.__doc__))]
    lines += ["", "## Flags"]
    flags = script.FLAGS.flags_by_module_dict()
    for heading in flags:
        lines += ["", f"### {heading.rpartition('.')[2]}", ""]
        for flag in flags[heading]:
            default = "" if flag.default is None else f"={_text(flag.default)}"
            lines += [f"`--{flag.name}{default}`", f": {_help(flag)}", ""]
    return "\n".join(lines)


def _text(default) -> str:
    """Returns a default as one would type it."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, list):
        return ",".join(map(str, default))
    return str(default)


def _help(flag) -> str:
    """Returns the help of a flag, with its choices or its bounds."""
    # absl's enumerations begin with "<a|b>: ".
    text = re.sub(r"^<[^>]*>: ", "", " ".join(flag.help.split()))
    parser = flag.parser
    if getattr(parser, "enum_values", None):
        text += f" One of `{'`, `'.join(parser.enum_values)}`."
    least = getattr(parser, "lower_bound", None)
    most = getattr(parser, "upper_bound", None)
    if least is not None:
        text += f" At least {least}."
    if most is not None:
        text += f" At most {most}."
    # absl keeps no other trace of mark_flag_as_required.
    if any("other than None" in v.message for v in flag.validators):
        text += " Required."
    return _markdown(text)


def _markdown(text: str) -> str:
    """Returns text in which flags are code, and `<` is no HTML."""
    parts = re.split(r"(`[^`]*`|^    .*$)", text, flags=re.MULTILINE)
    for i in range(0, len(parts), 2):
        plain = re.sub(r"(?<![\w`-])(--\w+(=[\w./,:-]*\w)?)", r"`\1`", parts[i])
        parts[i] = plain.replace("<", "&lt;").replace("*", "\\*")
    return "".join(parts)


def packages() -> list[str]:
    """Returns the names of all packages of bert_tf and tfrecords."""
    names = []
    for root in ("bert_tf", "tfrecords"):
        package = importlib.import_module(root)
        inner = pkgutil.walk_packages(package.__path__, f"{root}.")
        names += [root, *(module.name for module in inner if module.ispkg)]
    return names


def api_page(package: str) -> str:
    """Returns the page of a package: each public module and its members."""
    module = importlib.import_module(package)
    blocks = [f"# {package}", _directive("automodule", package)]
    if package == "bert_tf":
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value):
                home = f"{value.__module__}.{name}"
                blocks.append(f"- `bert_tf.{name}` is `{home}`")
    for inner in pkgutil.iter_modules(module.__path__):
        name = f"{package}.{inner.name}"
        # Modules named `peer` import other implementations of BERT.
        if not inner.ispkg and inner.name != "peer":
            blocks.append(f"## {inner.name}")
            blocks.append(_directive("automodule", name, ":members:"))
    return "\n\n".join(blocks) + "\n"


def _directive(name: str, argument: str, *options: str) -> str:
    lines = ["```{eval-rst}", f".. {name}:: {argument}"]
    return "\n".join([*lines, *(f"   {option}" for option in options), "```"])


def adapt_docstring(app, what, name, obj, options, lines) -> None:
    """Makes indented blocks of a docstring literal blocks, in place.

    Docstrings show columns of data and commands by indenting them, as Markdown
    does; reStructuredText would fill such lines like a paragraph. Python's own
    docstrings of the fields of named tuples are removed.
    """
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()
    marked = []
    for i, line in enumerate(lines):
        before = next((x for x in reversed(lines[:i]) if x.strip()), "")
        depth = len(before) - len(before.lstrip())
        is_first = line.strip() and i and not lines[i - 1].strip()
        deeper = len(line) - len(line.lstrip()) - depth
        # Within a list, two columns more are a list in the list.
        if is_first and deeper >= (4 if depth else 2):
            if not before.lstrip().startswith((":", "..")):
                marked += [" " * depth + "::", ""]
        marked.append(line)
    lines[:] = marked
