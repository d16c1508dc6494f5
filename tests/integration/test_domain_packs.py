"""Every domain pack over its real context, without running its tasks: what they say and check, and how they differ."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

from assets.resources import PROJECT, Workshop
from assets.settings import Settings
from pipeline.admission.leaks import leak_gate
from pipeline.admission.lint import lint_gate
from pipeline.checkout import Tree
from pipeline.curation.dedup import THRESHOLD, Signature, signature
from pipeline.generators.domain_tasks import drafts
from pipeline.generators.drafts import Context, Draft, Pack, pack_of
from pipeline.instance_report import FAMILIES, LEVELS, PER_FAMILY
from pipeline.instances import task_text
from pipeline.types import DOMAINS, Domain, TaskInstance, Verifier, VerifierFile
from sandbox.building.base_images import RECIPES

pytestmark = [pytest.mark.docker, pytest.mark.network]


@pytest.fixture(scope="module")
def contexts(data_folder: Path) -> dict[str, Context]:
    """The material of each domain, fetched once for all tests here."""
    shop = Workshop(Settings(), PROJECT, data_folder)
    source = next(one for one in shop.sources() if one.name == "context")
    found = {}
    for repository in source.repositories(None):
        checkout = source.fetch(repository, shop.trees)
        found[repository.stream] = Context(Tree(shop.trees / f"{checkout.tree_sha256}.tar"))
    return found


def made(pack: Pack, context: Context) -> list[Draft]:
    return list(drafts(pack, context, PER_FAMILY))


def instance(domain: Domain, draft: Draft) -> TaskInstance:
    return TaskInstance(
        repository_id="repo-1",
        image_digest="sha256:1",
        instruction=draft.instruction,
        solution=draft.solution,
        verifier=Verifier(files=(VerifierFile(path="test_state.py", content=draft.verifier),)),
        generator="domains",
        domain=domain,
        language=draft.language,
        family=draft.family,
        seed=draft.seed,
        difficulty=draft.difficulty,
        state_scope=draft.state_scope,
        provenance={},
    )


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_pack_has_enough_families_and_levels(domain: Domain, contexts: dict[str, Context]) -> None:
    tasks = made(pack_of(domain), contexts[domain])
    assert len({task.family for task in tasks}) >= FAMILIES
    assert len(Counter(task.difficulty for task in tasks)) == LEVELS


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_pack_makes_the_same_tasks_each_time(domain: Domain, contexts: dict[str, Context]) -> None:
    assert made(pack_of(domain), contexts[domain]) == made(pack_of(domain), contexts[domain])


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_seeds_of_a_family_are_different_tasks(domain: Domain, contexts: dict[str, Context]) -> None:
    tasks = made(pack_of(domain), contexts[domain])
    assert len({(task.instruction, task.verifier) for task in tasks}) == len(tasks)


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_texts_of_a_pack_pass_the_gates_for_texts(domain: Domain, contexts: dict[str, Context]) -> None:
    for draft in made(pack_of(domain), contexts[domain]):
        task = instance(domain, draft)
        gates = [lint_gate(task.verifier, services=task.state_scope == "live"), leak_gate(task)]
        assert all(gate.passed for gate in gates), (draft.family, draft.seed, gates)


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_task_knows_a_right_way_and_two_wrong_ones(domain: Domain, contexts: dict[str, Context]) -> None:
    thin = [(d.family, d.seed) for d in made(pack_of(domain), contexts[domain]) if not d.right or len(d.weak) < 2]
    assert not thin


@pytest.mark.parametrize("domain", DOMAINS)
def test_what_is_collected_for_a_domain_is_what_its_tasks_are_made_from(
    domain: Domain, contexts: dict[str, Context]
) -> None:
    declared = RECIPES / "domains" / domain / "contexts.json"
    names = {one["name"] for one in json.loads(declared.read_text())} if declared.exists() else set()
    assert {name for task in made(pack_of(domain), contexts[domain]) for name in task.contexts} == names


def test_no_family_is_a_near_copy_of_another_one(contexts: dict[str, Context]) -> None:
    signatures: dict[tuple[str, str, int], Signature] = {
        (domain, draft.family, draft.seed): signature(task_text(instance(domain, draft)))
        for domain in DOMAINS
        for draft in made(pack_of(domain), contexts[domain])
    }
    copies = [
        (one, other, round(signatures[one].similarity(signatures[other]), 2))
        for one, other in itertools.combinations(signatures, 2)
        if one[:2] != other[:2] and signatures[one].similarity(signatures[other]) >= THRESHOLD
    ]
    assert not copies
