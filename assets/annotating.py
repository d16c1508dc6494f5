"""Who divides published attempts into sub-goals, which attempts, and how far two annotators agree."""

from collections.abc import Iterator, Sequence

from assets.resources import Workshop
from pipeline.batch import StageReport, together
from pipeline.errors import ConfigurationError
from pipeline.hierarchy import attempts, rules
from pipeline.hierarchy.agreement import Agreement, agreement
from pipeline.hierarchy.annotated import Annotated, Annotations, annotated
from pipeline.hierarchy.by_model import ModelAnnotator
from pipeline.hierarchy.path import Annotation
from pipeline.snapshots import versions
from pipeline.snapshots.attempts import VersionAttempts
from pipeline.stages.annotating import RULES, Annotator, annotate_all
from pipeline.stages.options import Options

COMPARED = 300
"""Attempts, at most, that the agreement of two annotators is taken from: the first ones by their ids."""


def parents(shop: Workshop) -> tuple[str, ...]:
    """The versions that are annotated. Raises ConfigurationError where there is none."""
    told = shop.settings.hierarchy.parents
    if told:
        return told
    names = (shop.settings.environments.snapshot, shop.settings.snapshot)
    found = tuple(f"{one.name}@{one.version}" for name in names for one in versions(shop.data, name)[-1:])
    if not found:
        raise ConfigurationError(
            f"there is no version of {' or '.join(names)} yet: `touchstone environments play` publishes one of games, "
            "`touchstone run` one of the terminal"
        )
    return found


def annotators(shop: Workshop) -> list[Annotator]:
    """Those of [hierarchy], the one whose annotations are taken first at the front. Raises ConfigurationError."""
    if shop.settings.hierarchy.annotator == "rules":
        return [RULES]
    if (model := shop.model()) is None:
        raise ConfigurationError('[hierarchy] annotator = "model" asks the model of [model], and none is named there')
    asked = ModelAnnotator(model)
    return [Annotator(asked.name_of, asked.annotate), RULES]


def names_of(shop: Workshop) -> tuple[str, ...]:
    """What annotations are signed with, those that are taken first at the front."""
    made = [rules.NAMES if one is RULES else (one.name_of(""),) for one in annotators(shop)]
    return tuple(name for names in made for name in names)


def annotate(shop: Workshop, options: Options) -> StageReport:
    """All annotators over all attempts of the parents."""
    read = [VersionAttempts(shop.data, one, attempts.COLUMNS) for one in parents(shop)]
    return together([annotate_all(shop.store(), read, one, options) for one in annotators(shop)])


def agreed(shop: Workshop) -> Agreement | None:
    """Of the model and the rules, over attempts that both annotated; None where only one of them is asked."""
    asked = annotators(shop)
    if len(asked) < 2:
        return None
    pairs = list(_pairs(shop, asked[0].name_of("")))
    return agreement(pairs) if pairs else None


def _pairs(shop: Workshop, model: str) -> Iterator[tuple[Annotation, Annotation]]:
    read = [VersionAttempts(shop.data, one, attempts.COLUMNS) for one in parents(shop)]
    ours, theirs = Annotations(shop.store(), (model,)), Annotations(shop.store(), rules.NAMES)
    found = {one.facts.trajectory_id: one for one in _usable(read, ours)}
    for trajectory_id in sorted(found)[:COMPARED]:
        one = found[trajectory_id]
        other = theirs.of(trajectory_id, one.path)
        if isinstance(other, Annotation):
            yield one.annotation, other


def _usable(read: Sequence[VersionAttempts], found: Annotations) -> Iterator[Annotated]:
    return (one for one in annotated(read, found) if isinstance(one, Annotated))
