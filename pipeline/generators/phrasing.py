"""Words an instruction: the goal in the document's own prose, the inputs, the settings, and what the result must be.

Only what a competent engineer needs is said, and never the command line itself. No fixed frame: most of the text
comes from the document and from the shape of the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pipeline.generators.checks import sorted_column
from pipeline.generators.commands import Stage, looks_like_path, stages
from pipeline.generators.facts import Fact, Rows, csv_rows, json_value, sql_tables, table_cells
from pipeline.generators.plans import Plan
from pipeline.generators.prose import slug_of
from pipeline.generators.survey import Survey, option_names


def code(text: str) -> str:
    """Inline code, or a fenced block when the text does not fit into a line."""
    if "\n" in text:
        return "\n" + fenced(text) + "\n"
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def fenced(text: str) -> str:
    mark = "````" if "```" in text else "```"
    return f"{mark}\n{text.rstrip(chr(10))}\n{mark}"


def how(plan: Plan, survey: Survey) -> str:
    """The commands in prose: programs, inputs and settings, without the command line."""
    sentences = []
    for step in plan.steps:
        phrases: list[str] = []
        for stage in stages(step):
            phrase = _stage(stage, survey)
            if phrase:
                phrases.append(phrase if stage.joined_by != "|" else _piped(phrase))
        if phrases:
            sentences.append(_join(phrases))
    errors = " Messages on standard error belong to the output." if any("2>&1" in s for s in plan.steps) else ""
    return " ".join(s[0].upper() + s[1:] + "." for s in sentences) + errors


def _join(phrases: list[str]) -> str:
    return phrases[0] if len(phrases) == 1 else ", ".join(phrases[:-1]) + ", then " + phrases[-1].removeprefix("then ")


def _piped(phrase: str) -> str:
    return phrase.replace("run ", "pass that to ", 1) if phrase.startswith("run ") else phrase


def _stage(stage: Stage, survey: Survey) -> str:
    words = list(stage.words)
    if not words:
        return ""
    name, arguments = words[0], words[1:]
    if name in {"mkdir", "rm", "cd", "touch", "set", "export", "true"} or re.match(r"^\w+=", name):
        return (
            {"mkdir": f"make the folder {code(arguments[-1])}", "cd": f"go to {code(arguments[0])}"}.get(name, "")
            if arguments
            else ""
        )
    filtered = _filter(name, arguments)
    if filtered:
        return filtered
    return "run " + _tool(name, arguments, [*stage.reads], survey)


def _filter(name: str, arguments: list[str]) -> str:
    """Everyday filters in words; empty for any other program."""
    flags = "".join(a[1:] for a in arguments if re.fullmatch(r"-[A-Za-z]+", a))
    plain = [a for a in arguments if not a.startswith("-")]
    source = f" of {code(plain[-1])}" if plain and looks_like_path(plain[-1]) else ""
    if name in {"grep", "fgrep", "egrep"} and plain:
        kind = "text" if name == "fgrep" or "F" in flags else "pattern"
        case = ", ignoring case" if "i" in flags else ""
        return f"{'drop' if 'v' in flags else 'keep only'} the lines that match the {kind} {code(plain[0])}{case}"
    if name in {"echo", "printf"}:
        return f"start from the text {code(' '.join(plain))}"
    if name == "cat":
        return f"start from the content of {', '.join(map(code, plain))}" if plain else ""
    if name == "sort":
        return (
            "sort the lines"
            + (" in reverse" if "r" in flags else "")
            + (" numerically" if "n" in flags else "")
            + (" without duplicates" if "u" in flags else "")
        )
    if name == "uniq":
        return "count equal neighbouring lines" if "c" in flags else "drop repeated neighbouring lines"
    if name in {"head", "tail"}:
        number = re.search(r"\d+", " ".join(arguments))
        return f"keep the {'first' if name == 'head' else 'last'} {number[0] if number else '10'} lines{source}"
    if name == "sed" and arguments == ["1d"]:
        return "drop the first line"
    if name in {"python", "python3"} and re.fullmatch(r"-m ?json\.tool", " ".join(arguments)):
        return "pretty-print the JSON with Python's `json.tool`"
    if name == "tr" and len(plain) == 2:
        return f"translate the characters {code(plain[0])} into {code(plain[1])}"
    if name == "cut" and re.fullmatch(r"-c\d+-", " ".join(arguments)):
        return f"drop the first {int(arguments[0][2:-1]) - 1} characters of each line"
    if name == "go" and arguments[:1] == ["run"] and len(arguments) > 1:
        given = f" with {_listed([code(a) for a in arguments[2:]])}" if len(arguments) > 2 else ""
        return f"run the Go program {code(arguments[1])}{given}"
    if name == "make":
        target = [a for a in plain if "=" not in a]
        given = "".join(f", {code(a)}" for a in plain if "=" in a)
        return f"build the target {code(target[-1])} with make{given}" if target else f"run make{given}"
    if name == "wc" and flags == "l":
        return f"count the lines{source}"
    return ""


def _tool(name: str, arguments: list[str], reads: list[str], survey: Survey) -> str:
    others = list(arguments)
    sub = ""
    if len(others) > 1 and f"{name} {others[0]}" in survey.help_texts:
        sub = others.pop(0)
    options = option_names(survey.help_texts.get(name, "")) | option_names(survey.help_texts.get(f"{name} {sub}", ""))
    settings, plain = _settings(others, options)
    text = code(f"{name} {sub}".strip())
    paths = [code(o) for o in plain if looks_like_path(o)] + list(map(code, reads))
    paths += [f"the output of {code(o[2:-1])}" for o in plain if o.startswith("<(")]
    values = [code(o) for o in plain if not looks_like_path(o) and o not in {"-", "--"} and not o.startswith("<(")]
    if paths:
        text += f" on {_listed(paths)}"
    if values or settings:
        text += f" with {_listed([*values, *settings])}"
    return text


def _settings(arguments: list[str], options: dict[str, tuple[str, bool]]) -> tuple[list[str], list[str]]:
    """Options in words, and the arguments that are none."""
    settings: list[str] = []
    plain: list[str] = []
    index = 0
    while index < len(arguments):
        word = arguments[index]
        index += 1
        if not re.match(r"^--?[A-Za-z]", word) or re.search(r"\s", word.split("=")[0]):
            plain.append(word)
            continue
        option, _, value = word.partition("=")
        known = options.get(option)
        following = arguments[index] if index < len(arguments) else "-"
        takes = known[1] if known else not following.startswith("-") and not looks_like_path(following)
        if not value and takes and not following.startswith("-"):
            value = following
            index += 1
        # The long name says more than a letter; where it is not known, the option is named as it is typed.
        name = known[0] if known and len(known[0]) > 1 else option.lstrip("-") if option.startswith("--") else option
        if value:
            settings.append(f"{code(name)} set to {code(value)}")
        else:
            settings.append(code(name if name.startswith("-") else f"--{name}"))
    return settings, plain


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def shape(fact: Fact, *, with_name: bool) -> str:
    """What a result file must look like, in words."""
    name = code(fact.path) if with_name else "it"
    if fact.kind in {"json", "jsonl"}:
        return _json_shape(fact, name)
    if fact.kind in {"csv", "table"}:
        rows = csv_rows(fact) if fact.kind == "csv" else table_cells(fact.lines)
        kind = (
            "tab-separated"
            if "\t" in fact.text.split("\n")[0]
            else "CSV"
            if fact.kind == "csv"
            else "a table drawn with `|`"
        )
        return _rows_shape(rows, name, kind)
    if fact.kind == "sqlite":
        return " ".join(_sql_shape(fact, name))
    count = len(fact.lines)
    lines = "a single line" if count == 1 else f"{count} lines"
    return f"{name} has {lines}" + (
        f", from {code(fact.lines[0].strip())} to {code(fact.lines[-1].strip())}."
        if count > 3 and _short(fact)
        else "."
    )


def _short(fact: Fact) -> bool:
    return 0 < len(fact.lines[0].strip()) < 60 and 0 < len(fact.lines[-1].strip()) < 60


def _json_shape(fact: Fact, name: str) -> str:
    value = json_value(fact)
    form = "one JSON document per line" if fact.kind == "jsonl" else "JSON"
    if isinstance(value, list):
        keys = list(value[0]) if value and isinstance(value[0], dict) else []
        what = (
            f"objects with the keys {', '.join(map(code, keys[:8]))}"
            if keys and all(isinstance(v, dict) for v in value)
            else "elements"
        )
        if len(value) == 1:
            what = what.replace("objects", "object").replace("elements", "element")
        return f"{name} is {form}: {len(value)} {what}."
    if isinstance(value, dict):
        return f"{name} is a JSON object with the top-level keys {', '.join(map(code, list(value)[:10]))}."
    return f"{name} is a JSON value."


def _rows_shape(rows: Rows, name: str, kind: str) -> str:
    header, body = rows[0], rows[1:]
    text = f"{name} is {kind} with the columns {', '.join(code(h or '(empty)') for h in header[:8])}"
    text += f" and {len(header) - 8} more" if len(header) > 8 else ""
    text += f", {len(body)} row{'' if len(body) == 1 else 's'} below the header"
    if (order := sorted_column(body)) is not None and len(body) > 3:
        text += f", ordered by {code(header[order[0]])} {'from high to low' if order[1] else 'from low to high'}"
    return text + "."


def _sql_shape(fact: Fact, name: str) -> list[str]:
    found = []
    for table in sql_tables(fact)[:4]:
        columns = ", ".join(code(f"{c} {kind}".strip()) for c, kind, _ in table.columns[:10])
        keys = [c for c, _, position in sorted(table.columns, key=lambda c: c[2]) if position]
        key = f", primary key {', '.join(map(code, keys))}" if keys else ""
        index = "".join(f", an index on {', '.join(map(code, i))}" for i in table.indexes)
        rows = f"{len(table.rows)} row{'' if len(table.rows) == 1 else 's'}"
        found.append(f"In {name} the {table.kind} {code(table.name)} has the columns {columns}{key}{index} and {rows}.")
    return found


def inputs(files: Iterable[tuple[str, str]]) -> str:
    """The files that the document shows and the solver has to create, with their content."""
    return "\n\n".join(f"{code(name)}:\n\n{fenced(text)}" for name, text in files)


def reference(plan: Plan, survey: Survey) -> str:
    """Where to read more, when the document is in the image."""
    document = plan.block.document
    if document not in survey.files or not plan.block.headings:
        return ""
    heading = plan.block.headings[-1]
    return f"“{heading}” in {code(document)}" if len(heading) < 80 else f"{code(document)}"


def extension_of(plan: Plan, fact: Fact) -> str:
    """File name extension that fits the content."""
    text = fact.text.strip()
    if fact.kind == "csv":
        return "tsv" if "\t" in text.split("\n")[0] else "csv"
    if fact.kind in {"json", "jsonl", "xml"}:
        return fact.kind
    if text.startswith("<") and re.search(r"</\w+>|/>", text):
        return "html"
    if re.match(r"CREATE TABLE|BEGIN TRANSACTION|INSERT INTO", text):
        return "sql"
    by_language = {"javascript": "js", "js": "js", "css": "css", "php": "php", "html": "html"}
    if plan.shown_language in by_language:
        return by_language[plan.shown_language]
    return "txt"


def result_name(plan: Plan, goal: str, fact: Fact, taken: set[str]) -> str:
    """Name of the file that keeps what is printed; unlike any name in the tree."""
    slug = slug_of(plan, goal)
    extension = extension_of(plan, fact)
    name = f"{slug}.{extension}"
    number = 2
    while name in taken:
        name = f"{slug}-{number}.{extension}"
        number += 1
    return name
