"""Tasks as Harbor task folders: task.toml schema 1.4, as harbor 0.26.0 reads it.

The image of a trial is the task's own with the trusted verifier runtime beside it; the tests and the solution stay out
of it until Harbor copies them in. What is judged is judged by that runtime (harbor_judge.py), never by an interpreter
of the image.

Harbor's own way to keep a trial from the network (`network_mode` in task.toml) pulls an image of the world for each
engine, which an engine without a way out cannot. So the compose file takes the network away, which Harbor respects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pipeline.exports.account import Account, RowRefused, VersionExport, digest_of
from pipeline.exports.folders import new_folder, prove
from pipeline.exports.published import PublishedVersion, rows_of
from pipeline.exports.tasks import ExportedTask
from pipeline.exports.toml_text import toml_text
from pipeline.exports.verified import COLUMNS, task_of
from pipeline.task_formats.layout import COMMANDS, EXPECTED, VERIFIER, shown
from pipeline.types import Record, TaskInstance
from sandbox.errors import ImageMissing
from sandbox.types import USUAL

FORMAT = "harbor"
SCHEMA_VERSION = "1.4"
ORGANISATION = "touchstone"
RUNTIME = "/opt/touchstone/verifier"
"""Where the verifier runtime lies in the image of a trial."""
SPARE_S = 60
"""Between the verifier's own time limit and Harbor's: starting and reporting."""

_JUDGE = Path(__file__).with_name("harbor_judge.py")
_TEST = f"""\
#!/bin/sh
# Judged by the interpreter that came with the image, which reads nothing of what the agent could have installed.
runtime={RUNTIME}
echo '{{"reward": 0}}' > /logs/verifier/reward.json
exec "$runtime/lib/ld.so" --inhibit-cache --library-path "$runtime/lib" "$runtime/bin/python3" -I -S -B -X utf8 \\
  /tests/judge.py "$runtime" /tests /logs/verifier
"""
_SOLVE = """\
#!/bin/bash
# The commands of the solution, one after the other in this one shell; the first that fails ends it.
exec < /dev/null
"""


class HarborExport(Record):
    """What was written."""

    format: str = FORMAT
    schema_version: str = SCHEMA_VERSION
    folder: str
    tasks: tuple[str, ...]
    """Ids of the instances, each the name of its folder, sorted."""


def export_tasks(
    tasks: Iterable[ExportedTask], folder: Path, runtime: str, reference: Callable[[str], str]
) -> HarborExport:
    """Write a folder of task folders, all or nothing.

    `runtime` is a reference of the image of the verifier runtime, `reference` gives that of a task's image id. Raises
    ConfigurationError when `folder` is there and not empty or cannot be written, ExportDamaged, and what `reference`
    raises.
    """
    written = {}
    with new_folder(folder) as part:
        for task in tasks:
            name = task.instance.instance_id
            _write(part / name, task_files(task, runtime, reference(task.instance.image)))
            written[name] = digest_of(task.instance.verifier.texts)
        _prove_tasks(part, written)
    return HarborExport(folder=str(folder), tasks=tuple(sorted(written)))


def export_version_tasks(
    version: PublishedVersion, folder: Path, runtime: str, reference: Callable[[str], str], split: str | None = None
) -> VersionExport:
    """Write a task folder for each task of a version, or of one split, all or nothing.

    A task whose image is not there is refused. Raises NothingToExport for a split that is not there and when no row can
    be carried, ConfigurationError when `folder` is there and not empty or cannot be written, ExportDamaged,
    SnapshotDamaged, and what `reference` raises besides ImageMissing.
    """
    splits = version.chosen(split)
    account = Account(version, "instance_id")
    with new_folder(folder) as part:
        written = {}
        for found in (found for name in splits for found in rows_of(version, COLUMNS, name)):
            try:
                task = task_of(found)
                name = task.instance.instance_id
                digest = digest_of(task.model_dump(mode="json"))
                files = task_files(task, runtime, _image(task, reference))
                if account.carry(found, name, digest):
                    _write(part / name, files)
                    written[name] = digest_of(task.instance.verifier.texts)
            except RowRefused as error:
                account.refuse(found, error)
        _prove_tasks(part, written)
        made = account.close(part, format=FORMAT, format_version=SCHEMA_VERSION, splits=splits)
    return made.model_copy(update={"folder": str(folder)})


def _image(task: ExportedTask, reference: Callable[[str], str]) -> str:
    try:
        return reference(task.instance.image)
    except ImageMissing as error:
        raise RowRefused("no_image", str(error)) from error


def _prove_tasks(part: Path, written: Mapping[str, bytes]) -> None:
    """Read back the ids of the folders and the files of their verifiers. Raises ExportDamaged."""
    folders = sorted(path for path in part.iterdir() if path.is_dir())
    prove(
        part.name, ((path.name, digest_of(_texts(path / VERIFIER))) for path in folders), dict(sorted(written.items()))
    )


def _texts(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes().decode() for path in files}


def task_files(task: ExportedTask, runtime: str, image: str) -> dict[str, str]:
    """The files of one task folder by their paths; `runtime` and `image` are references for a FROM."""
    instance = task.instance
    expected = {
        "passing_tests": list(instance.verifier.passing_tests),
        "timeout_s": instance.verifier.timeout_s,
        "conditions": USUAL.model_dump(),
    }
    return {
        "task.toml": toml_text(_settings(task, image)),
        "instruction.md": shown(instance.instruction),
        "environment/Dockerfile": _dockerfile(runtime, image),
        "environment/docker-compose.yaml": _compose(instance),
        "solution/solve.sh": _script(instance.solution),
        COMMANDS: _json(list(instance.solution)),
        "tests/test.sh": _TEST,
        "tests/judge.py": _JUDGE.read_text(encoding="utf-8"),
        EXPECTED: _json(expected),
        **{f"{VERIFIER}{file.path}": file.content for file in instance.verifier.files},
    }


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
        target.chmod(0o755 if target.suffix == ".sh" else 0o644)


def _settings(task: ExportedTask, image: str) -> dict[str, object]:
    instance = task.instance
    words = [instance.domain, instance.family, instance.language, instance.difficulty]
    return {
        "schema_version": SCHEMA_VERSION,
        "task": {
            "name": f"{ORGANISATION}/{instance.instance_id}",
            "version": instance.verifier.sha256[:12],
            "description": f"{instance.family} ({instance.domain}, {instance.difficulty}), from {task.repository}",
            "keywords": list(dict.fromkeys(words)),
        },
        "metadata": _metadata(task, image),
        "agent": {"timeout_sec": float(instance.limits.lifetime_s)},
        "verifier": {"timeout_sec": float(instance.verifier.timeout_s + SPARE_S)},
        "environment": {"cpus": instance.limits.cpus, "memory_mb": instance.limits.memory_mb},
    }


def _metadata(task: ExportedTask, image: str) -> dict[str, object]:
    instance = task.instance
    found: dict[str, object] = {
        "instance_id": instance.instance_id,
        "repository": task.repository,
        "repository_id": instance.repository_id,
        "source": task.source,
        "commit": task.commit,
        "license": task.license or "",
        "image": image,
        "image_digest": instance.image_digest,
        "generator": instance.generator,
        "domain": instance.domain,
        "family": instance.family,
        "seed": instance.seed,
        "difficulty": instance.difficulty,
        "language": instance.language,
        "state_scope": instance.state_scope,
        "verifier_sha256": instance.verifier.sha256,
        "context_ids": list(instance.context_ids),
        "limits": instance.limits.model_dump(),
        "provenance": dict(instance.provenance),
        "evidence": dict(task.evidence),
        # What is judged is the state that the agent left, services and all, so there is no other place to judge it.
        "harbor": {"lint": {"ignore": ["shared-verifier"]}},
    }
    return found if task.flake_rate is None else found | {"flake_rate": task.flake_rate}


def _dockerfile(runtime: str, image: str) -> str:
    return (
        f"FROM {image}\n"
        f"COPY --from={runtime} /runtime {RUNTIME}\n"
        "# As in the sandboxes that admitted the task; what runs is Harbor's to say.\n"
        "ENV LANG=${LANG:-C.UTF-8} TERM=${TERM:-dumb}\n"
        "ENTRYPOINT []\n"
    )


def _compose(instance: TaskInstance) -> str:
    # Without an init each container takes ten seconds to stop.
    return (
        "services:\n"
        "  main:\n"
        "    init: true\n"
        "    hostname: sandbox\n"
        "    network_mode: none\n"
        f"    pids_limit: {instance.limits.pids}\n"
    )


def _script(commands: Iterable[str]) -> str:
    """One shell for all commands, each read as it is: a quoted here-document whose end is no line of it."""
    parts = [_SOLVE]
    for number, command in enumerate(commands, 1):
        end = f"END_OF_COMMAND_{number}"
        while end in command.split("\n"):
            end += "_"
        parts.append(
            f"IFS= read -r -d '' touchstone_command << '{end}'\n{command}\n{end}\n"
            'eval "$touchstone_command"\n'
            "touchstone_code=$?\n"
            '[ "$touchstone_code" -eq 0 ] || exit "$touchstone_code"\n'
        )
    return "\n".join(parts)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
