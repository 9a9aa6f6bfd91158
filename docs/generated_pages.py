"""Flags of scripts, modules of packages -> Markdown pages of the reference."""

import ast
import functools
import importlib
import importlib.util
import inspect
import pathlib
import pkgutil
import re
import types

import bert_tf
from docs import other_libraries
from run_scripts.flags import headings

ROOT = pathlib.Path(__file__).parent.parent
# Scripts that are a folder -> their module.
_IN_FOLDERS = {"quickstart": "quickstart.tour"}


def write(folder: pathlib.Path) -> None:
    """Writes `scripts/*.md` and `api/*.md`; removes others."""
    pages = {f"scripts/{name}.md": script_page(name) for name in scripts()}
    pages["scripts/list.md"] = script_list()
    for package in packages():
        pages[f"api/{package}.md"] = package_page(package)
        for name in modules(package):
            pages[f"api/{name}.md"] = module_page(name)
    pages["api/list.md"] = module_list()
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


def script(name: str) -> types.ModuleType:
    """Returns the module of a script."""
    return importlib.import_module(f"run_scripts.{_IN_FOLDERS.get(name, name)}")


def script_list() -> str:
    """Returns the list of scripts, each with the first line of its docstring.

    It is included by scripts.md, so links are relative to the folder of that.
    """
    lines = [
        f"- [{name}](scripts/{name}.md): {_first_line(script(name).__name__)}"
        for name in scripts()
    ]
    pages = [f"scripts/{name}" for name in scripts()]
    return "\n".join(lines) + "\n\n" + _toctree(pages) + "\n"


def script_page(name: str) -> str:
    """Returns the page of a script: its docstring, then all of its flags."""
    module = script(name)
    lines = [f"# {name}", "", _markdown(inspect.cleandoc(module.__doc__))]
    lines += ["", "## Flags"]
    grouped = headings.by_heading(module.FLAGS, module.__doc__)
    for heading, flags in grouped.items():
        lines += ["", f"### {heading}", ""]
        for flag in flags:
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
    if headings.is_required(flag):
        text += " Required."
    return _markdown(text)


def _markdown(text: str) -> str:
    """Returns text in which flags are code, and `<` is escaped."""
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


def modules(package: str) -> list[str]:
    """Returns the names of the modules of a package, without its packages."""
    path = importlib.import_module(package).__path__
    # Modules named `peer` import other implementations of BERT.
    return [
        f"{package}.{inner.name}"
        for inner in pkgutil.iter_modules(path)
        if not inner.ispkg and inner.name != "peer"
    ]


def module_list() -> str:
    """Returns the list of all modules by package, to be included by api.md."""
    blocks = []
    for package in packages():
        root, _, inner = package.partition(".")
        heading = f"### {inner}" if inner else f"## {root}"
        blocks += [heading, _list_modules(package, "api/")]
    blocks.append(_toctree([f"api/{package}" for package in packages()]))
    return "\n\n".join(blocks) + "\n"


def _list_modules(package: str, folder: str = "") -> str:
    """Returns a package's own line, and a list of its modules and theirs."""
    lines = [
        f"- [{name.rpartition('.')[2]}]({folder}{name}.md): {_first_line(name)}"
        for name in modules(package)
    ]
    return f"{_first_line(package)}\n\n" + "\n".join(lines)


def package_page(package: str) -> str:
    """Returns the page of a package: its docstring, a list of its modules."""
    blocks = [
        f"# {package}",
        _directive("automodule", package),
        *_list_modules(package).split("\n\n")[1:],
    ]
    return "\n\n".join(blocks) + "\n"


def module_page(name: str) -> str:
    """Returns the page of a module: its docstring and its members.

    Names that `bert_tf` exports are documented as `bert_tf.NAME`, on a page of
    their own, and only linked here. The page is in no table of contents:
    Sphinx would write all of them into the sidebar of every page.
    """
    package = name.rpartition(".")[0]
    exported = exported_from(name)
    options = [":members:"]
    path = f"[Modules](../api.md) / [{package}]({package}.md)"
    blocks = ["---\norphan: true\n---", f"# {name}", path]
    if exported:
        options.append(f":exclude-members: {', '.join(exported)}")
        links = ", ".join(f"{{py:obj}}`bert_tf.{x}`" for x in exported)
        blocks.append(f"Documented under the name to import: {links}.")
    blocks.append(_directive("automodule", name, *options))
    return "\n\n".join(blocks) + "\n"


def exported_from(module: str) -> list[str]:
    """Returns the names in `bert_tf.__all__` that a module defines."""
    return [
        name
        for name in bert_tf.__all__
        if getattr(bert_tf, name).__module__ == module
    ]


def _first_line(module: str) -> str:
    """Returns the first line of a module's docstring, without importing it."""
    path = pathlib.Path(importlib.util.find_spec(module).origin)
    doc = ast.get_docstring(ast.parse(path.read_text("utf-8")))
    return _markdown(doc.partition("\n")[0])


def _directive(name: str, argument: str, *options: str) -> str:
    lines = ["```{eval-rst}", f".. {name}:: {argument}"]
    return "\n".join([*lines, *(f"   {option}" for option in options), "```"])


def _toctree(pages: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", "", *pages, "```"])


def adapt_signature(app, what, name, obj, options, signature, returns):
    """Returns the arguments of a constructor, which Keras's `__new__` hides."""
    if what == "class" and signature == "(*args, **kwargs)":
        from sphinx.util import inspect as sphinx_inspect

        found = sphinx_inspect.signature(obj)
        signature = sphinx_inspect.stringify_signature(
            found, show_annotation=False
        )
    return signature, returns


def _linked(line: str) -> str:
    """Returns a line of a docstring with links for names that have a page.

    These are names of other libraries in backticks, `keras.Model`, and those of
    bert_tf, such as BertConfig, with or without backticks.
    """
    # Examples and columns stay as they are.
    if line.lstrip().startswith((">>>", "...")) or "  " in line.strip():
        return line
    names = _names_with_a_page()
    line = re.sub(
        r"(?<![`:])`([\w.]+)`",
        lambda x: f":py:obj:{x[0]}" if x[1] in names else x[0],
        line,
    )
    # Predictor and the functions are also ordinary words.
    classes = [x for x in bert_tf.__all__ if re.match("[A-Z].*[A-Z]", x)]
    return re.sub(
        rf"(?<![\w.`:/])`?\b({'|'.join(classes)})\b`?(?!\w|\.\w|[`(])",
        r":py:obj:`\1 <bert_tf.\1>`",
        line,
    )


@functools.cache
def _names_with_a_page() -> set[str]:
    names = {row.name for row in other_libraries.rows()}
    return names | {f"bert_tf.{name}" for name in bert_tf.__all__}


def adapt_docstring(app, what, name, obj, options, lines) -> None:
    """Makes indented blocks of a docstring literal blocks, in place.

    Docstrings show columns of data and commands by indenting them, as Markdown
    does; reStructuredText would fill such lines like a paragraph. Names that
    have a page become links. Python's own docstrings of the fields of named
    tuples are removed.
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
        # "S." after a name is a dimension, not the number of a list's item;
        # napoleon writes it on a line of its own.
        line = re.sub(
            r"^(\s*:[^`]*?: | {8,})([A-Z])\.(?= |$)", r"\1\2\\.", line
        )
        marked.append(_linked(line))
    lines[:] = marked
