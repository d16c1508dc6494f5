"""Makes and admits the task instances of each image, then drops near copies across repositories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pipeline.batch import Failure, Item, Outcome, StageReport
from pipeline.chosen import chosen_rows
from pipeline.errors import ConfigurationError
from pipeline.generators.domain_tasks import Build
from pipeline.generators.drafts import pack_sha256
from pipeline.instances import InstanceRow, InstancesConfig, make_instances, select_different
from pipeline.llm.protocol import ChatModel
from pipeline.rows import instance_of, instance_row
from pipeline.schemas import Row, to_rows
from pipeline.stages.building import Built
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store
from pipeline.types import TASKS, TaskInstance, content_id
from sandbox.locks import exclusive
from sandbox.protocol import Backend

_DIGEST_DIGITS = 12


def generate(
    store: Store,
    items: Sequence[Built],
    trees: Path,
    backend: Backend,
    config: InstancesConfig,
    options: Options,
    *,
    build: Build,
    push: Callable[[str], str] | None = None,
    model: ChatModel | None = None,
) -> StageReport:
    """Rows in `instances` for each image: admitted tasks, rejected ones, and documented places that gave none.

    `build` makes images that tasks have of their own, `push` sends those of admitted ones to a registry, `model` writes
    tasks. Raises ConfigurationError when the configuration asks for a model and there is none.
    """
    if config.llm is not None and model is None:
        raise ConfigurationError("[instances.llm] asks for tasks of a model; name its server in [model]")

    def work(item: Built) -> Outcome:
        repository, checkout = item.fetched
        tree = trees / f"{checkout.tree_sha256}.tar"
        made = make_instances(repository, tree, item.image_digest, backend, config, build=build, model=model)
        own = {one.instance.image for one in made if one.admitted and one.instance} - {item.image_digest}
        if push is not None:
            for digest in sorted(own):
                push(digest)
        return Outcome({"instances": [_row(one, item) for one in made]})

    def failed_rows(item: Built, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"instances": [_place(item) | {"admitted": False}]}

    batch = [Item(_key(item, config, model), item) for item in items]
    machines = options.machines
    return over_items(
        "instances", batch, work, store=store, failed_rows=failed_rows, options=options, machines=machines
    )


def select(store: Store) -> None:
    """Decide, once for each admitted instance and for good, whether it is a near copy of one that was there before.

    A row in `selections` for each. What was selected stays so, whatever comes later.
    """
    with exclusive(store.lock("selection"), "the selection of instances"):
        admitted = {str(row["instance_id"]): row for row in to_rows(store.current("instances")) if row["admitted"]}
        decided = {str(row["instance_id"]): row for row in to_rows(store.current("selections"))}
        new = [instance_of(row) for instance_id, row in admitted.items() if instance_id not in decided]
        standing = [
            instance_of(admitted[instance_id])
            for instance_id, row in decided.items()
            if row["selected"] and instance_id in admitted
        ]
        copies = select_different(new, standing)

        def work(instance: TaskInstance) -> Outcome:
            row: Row = {"instance_id": instance.instance_id, "repository_id": instance.repository_id}
            copy = copies.get(instance.instance_id)
            if copy is None:
                return Outcome({"selections": [row | {"selected": True}]})
            why = {"near_copy_of": copy.kept_id, "similarity": copy.similarity}
            reason = f"a near copy of {copy.kept_id} (similarity {copy.similarity:.2f})"
            rejected = row | why | {"selected": False, "failure_class": "near_copy", "reason": reason}
            return Outcome({"selections": [rejected]})

        def failed_rows(instance: TaskInstance, failure: Failure) -> Mapping[str, Sequence[Row]]:
            return {"selections": [{"instance_id": instance.instance_id, "selected": False}]}

        batch = [Item(instance.instance_id, instance) for instance in sorted(new, key=lambda one: one.instance_id)]
        over_items("selection", batch, work, store=store, failed_rows=failed_rows, options=Options())


def selected(store: Store, items: Sequence[Built]) -> list[TaskInstance]:
    """The chosen instances that were made in these images, sorted by id."""
    images = {item.image_digest for item in items}
    rows = chosen_rows(store)
    return [instance_of(row) for row in rows if (row["repository_image_digest"] or row["image_digest"]) in images]


def _key(item: Built, config: InstancesConfig, model: ChatModel | None) -> str:
    """What decides which tasks are made: repository and image, the pack of a domain; files, the model that writes."""
    repository = item.fetched.repository
    parts = [repository.repository_id, item.image_digest.removeprefix("sha256:")[:_DIGEST_DIGITS]]
    if repository.domain is not None:
        parts.append(pack_sha256(repository.domain)[:_DIGEST_DIGITS])
        return "/".join(parts)
    if repository.source != TASKS:
        parts.append(content_id("files", config.files.model_dump()))
    if config.llm is not None and model is not None:
        parts.append(content_id("model", model.name, config.llm.model_dump()))
    return "/".join(parts)


def _place(item: Built) -> Row:
    return {
        "repository_id": item.fetched.repository.repository_id,
        "image_digest": item.image_digest,
        "repository_image_digest": item.image_digest,
        "language": item.fetched.repository.language,
    }


def _row(one: InstanceRow, item: Built) -> Row:
    """An instance with what its gates said; where there is none, the documented place that gave none."""
    made: Row = {"provenance": {"document": one.document, "line": str(one.line), "excerpt": one.excerpt}}
    if one.instance is not None:
        made = instance_row(one.instance)
    return {
        **_place(item),
        **made,
        "admitted": one.admitted,
        "flake_rate": one.flake_rate,
        "right": [variant.model_dump() for variant in one.right],
        "weak": [variant.model_dump() for variant in one.weak],
        "gates": [gate.model_dump() for gate in one.gates],
        "failure_class": one.failure_class,
        "reason": one.reason,
    }
