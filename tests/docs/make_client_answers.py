"""Generates the answer types of ``gridbroker_client``: ``python -m tests.docs.make_client_answers``."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.api.app import described
from broker.api.browsing import REFERENCE, reachable, references
from tests.docs.source_tree import ROOT

FOLDER = ROOT / "gridbroker_client/answers"
#: Answer types by module; a type nested in answers is defined in the first module that needs it.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "decisions": ("TaskDecision", "WhyNot"),
    "tasks": ("TaskList", "History", "TaskSubscriptions", "MessageList"),
    "jobs": ("JobList", "JobAnswer"),
    "grid": ("Queues", "Nuclei", "NucleusAnswer", "Links", "Shares"),
    "queues": ("QueueAnswer",),
    "service": ("ServiceAnswer", "Alarms", "Me", "Reasons", "UserAnswer"),
}
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def modules() -> dict[str, str]:
    """The text of each module by name, including the package's ``__init__``."""
    schemas = described()["components"]["schemas"]
    home: dict[str, str] = {}
    for group, roots in GROUPS.items():
        for name in reachable(schemas, roots):
            home.setdefault(name, group)
    texts = {group: _module(schemas, group, home) for group in GROUPS}
    exported = sorted(name for roots in GROUPS.values() for name in roots)
    lines = ['"""What the broker answers, as types; `make reference` writes it from the description of the API."""', "",
             "from __future__ import annotations", ""]  # fmt: skip
    for group in sorted(GROUPS):
        lines.append(f"from gridbroker_client.answers.{group} import {', '.join(sorted(GROUPS[group]))}")
    lines += ["", "__all__ = [", *(f'    "{name}",' for name in exported), "]"]
    return {**texts, "__init__": "\n".join(lines) + "\n"}


def _module(schemas: Mapping[str, Any], group: str, home: Mapping[str, str]) -> str:
    own_names = [name for name, owner in home.items() if owner == group]
    body = "\n\n".join(_type(name, schemas[name]) for name in own_names)
    elsewhere: dict[str, set[str]] = {}
    for name in own_names:
        for reference in references(schemas[name]):
            if home[reference] != group:
                elsewhere.setdefault(home[reference], set()).add(python_name(reference))
    typing = "Any, Literal, TypedDict" if "Literal[" in body else "Any, TypedDict"
    typing = typing if "Any" in body else typing.removeprefix("Any, ")
    lines = [f'"""Answers about {group}, from the description of the API; `make reference` writes this file."""', "",
             "from __future__ import annotations", "", f"from typing import {typing}"]  # fmt: skip
    if elsewhere:
        lines += ["", *(f"from gridbroker_client.answers.{reference} import {', '.join(sorted(names))}"
                        for reference, names in sorted(elsewhere.items()))]  # fmt: skip
    return "\n".join(lines) + "\n\n\n" + body.replace("\n\nclass", "\n\n\nclass") + "\n"


def _type(name: str, schema: Mapping[str, Any]) -> str:
    summary = schema.get("description", "").partition("\n")[0].replace('"', "'") or "A part of an answer."
    fields = schema.get("properties", {})
    if not fields:
        return f"{python_name(name)} = dict[str, Any]"
    if any(keyword.iskeyword(field) for field in fields):
        members = ", ".join(f"{key!r}: {_of(field_schema)}" for key, field_schema in fields.items())
        return f"{python_name(name)} = TypedDict({python_name(name)!r}, {{{members}}})"
    return "\n".join(
        [
            f"class {python_name(name)}(TypedDict):",
            f'    """{summary}"""',
            "",
            *(f"    {key}: {_of(field_schema)}" for key, field_schema in fields.items()),
        ]
    )


def python_name(name: str) -> str:
    """The Python name of a model; the API description adds the module to a name that two models share.

    >>> python_name("broker__domain__ready_check__Check"), python_name("TaskList")
    ('ReadyCheckCheck', 'TaskList')
    """
    if "__" not in name:
        return name
    return "".join(word[0].upper() + word[1:] for part in name.split("__")[-2:] for word in part.split("_"))


def _of(schema: Mapping[str, Any]) -> str:
    """The Python type of a value."""
    if parts := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(_of(part) for part in parts))
    if "$ref" in schema:
        return python_name(str(schema["$ref"]).removeprefix(REFERENCE))
    if schema.get("enum"):
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    kind = schema.get("type")
    if kind == "array":
        return f"list[{_of(schema['items'])}]" if schema.get("items") else "list[Any]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_of(values)}]" if isinstance(values, Mapping) and values else "dict[str, Any]"
    return _PLAIN.get(str(kind), "Any")


def write(folder: Path = FOLDER) -> None:
    """Write all modules."""
    folder.mkdir(exist_ok=True)
    for name, text in modules().items():
        file = folder / f"{name}.py"
        if not file.exists() or not same(file.read_text(encoding="utf-8"), text):
            file.write_text(text, encoding="utf-8")


def same(left: str, right: str) -> bool:
    """Whether two modules are equal apart from formatting."""
    return ast.dump(ast.parse(left)) == ast.dump(ast.parse(right))


if __name__ == "__main__":
    write()
