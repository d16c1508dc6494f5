"""Three nights over a hub that changes: all of it, then only the change, then nothing. A day that is run again changes
no row.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator

import dagster as dg
import pytest

from assets.definitions import defs
from assets.partitions import range_tags
from assets.resources import open_workshop
from assets.schedules import nightly
from pipeline.schemas import TABLES, Row, canonical_json, to_rows
from pipeline.snapshots import load, locate, versions
from pipeline.snapshots.reading import tags_of
from pipeline.tables import Store
from tests.github_server.objects import objects
from tests.github_server.server import GithubServer, running
from tests.github_server.world import World
from tests.integration.projects import FRUIT, Project, ledger, word_tools

pytestmark = pytest.mark.docker

DAY_S = 86_400
BEES = ["apiary", "bee", "clover", "drone", "bee", "foulbrood", "honey", "queen", "swarm", "wax", "queen"]
MADE_OF = (
    "repositories",
    "scores",
    "image_builds",
    "instances",
    "selections",
    "trajectories",
    "verifications",
    "curations",
)
"""Tables whose rows belong to one repository; `listings` says which of them a day had."""


def files(whole: dict[str, str | bytes], *sections: str) -> dict[str, bytes]:
    """A repository whose document has only these of its sections."""
    head, *parts = str(whole["README.md"]).split("\n## ")
    kept = [part for part in parts if part.split("\n")[0] in sections]
    assert len(kept) == len(sections)
    del whole["Dockerfile"]
    changed = whole | {"README.md": "\n## ".join([head, *kept])}
    return {path: text.encode() if isinstance(text, str) else text for path, text in changed.items()}


class Nights:
    """A project whose only source is a hub, and the runs that its schedule asks for."""

    def __init__(self, project: Project, hub: GithubServer) -> None:
        self.project = project
        self.hub = hub
        (project.folder / "touchstone.toml").write_text(
            f"[scoring]\nthreshold = 0.0\n[instances.files]\nmax_tasks = 1\n[sources]\nuse = ['github']\n"
            f"[sources.github]\nbase_url = '{hub.base_url}'\nqualifiers = ''\nlanguages = ['python']\n"
        )

    def tick(self, day: datetime.date) -> dg.ExecuteInProcessResult:
        """What the schedule asks for on that day, carried out as the daemon's run would."""
        moment = datetime.datetime.combine(day, datetime.time(2), datetime.UTC)
        request = nightly(dg.build_schedule_context(scheduled_execution_time=moment))
        assert isinstance(request, dg.RunRequest)
        return self.run("main", dict(request.run_config), dict(request.tags))

    def clean(self) -> None:
        """The other schedule of a night."""
        self.run("cleaning", {}, {})

    def run(self, job: str, run_config: dict[str, object], tags: dict[str, str]) -> dg.ExecuteInProcessResult:
        open_workshop.cache_clear()  # each run of the daemon is a process of its own
        config, data = self.project.folder / "touchstone.toml", self.project.data
        place = {"workshop": {"config": {"config": str(config), "data": str(data)}}}
        resources = {"resources": run_config.get("resources", {}) | place}
        with open_workshop(config=config, data=data).dagster_instance() as instance:
            return defs.resolve_job_def(job).execute_in_process(
                instance=instance, run_config=run_config | resources, tags=tags
            )

    def rows(self) -> dict[str, list[Row]]:
        """All that the tables hold, in an order of its own."""
        store = Store(self.project.data)
        return {name: sorted(to_rows(store.read(name)), key=canonical_json) for name in TABLES}

    def repository(self, number: int) -> str:
        """Id of the row of what the hub has under this number now."""
        commit = objects(self.hub.world, number).commit
        (row,) = [row for row in to_rows(Store(self.project.data).read("repositories")) if row["commit"] == commit]
        return str(row["repository_id"])

    def published(self) -> dict[str, str]:
        """Tags of the nights, once it is sure that there is no version without one."""
        tags = dict(tags_of(self.project.data, "terminal"))
        assert {version.version for version in versions(self.project.data, "terminal")} == set(tags.values())
        return tags

    def ids(self, version: str) -> set[str]:
        return {str(row["trajectory_id"]) for row in to_rows(load(locate(self.project.data, f"terminal@{version}")))}


@pytest.fixture
def nights(make_project: Callable[[str], Project], monkeypatch: pytest.MonkeyPatch) -> Iterator[Nights]:
    monkeypatch.setenv("TOUCHSTONE_GITHUB_TOKENS", "one")
    world = World(2, kinds={1: "usual", 2: "usual"})
    world.language[:] = 0
    world.size[:] = 10
    world.contents[1] = files(word_tools("fruit", FRUIT))
    world.contents[2] = files(ledger("ledger"), "Balance of every account")
    with running(world) as hub:
        yield Nights(make_project("nights"), hub)
    open_workshop.cache_clear()


def test_each_night_takes_what_changed_and_publishes_when_rows_changed_and_a_day_that_is_run_again_changes_nothing(
    nights: Nights,
) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    days = [today - datetime.timedelta(days=number) for number in (2, 1, 0)]
    world = nights.hub.world

    nights.tick(days[0])
    first = nights.rows()
    fruit, ledger_before = nights.repository(1), nights.repository(2)
    assert stages_of(first, fruit) == stages_of(first, ledger_before) == set(MADE_OF)
    assert nights.published() == {"nightly-" + days[0].isoformat(): "v0001"}

    world.pass_time(DAY_S)
    world.contents[2] = files(ledger("ledger"), "Balance of every account", "Keeping sums in a database")
    world.push(2)
    bees = world.add("Python")
    world.contents[bees] = files(word_tools("bees", BEES))
    nights.tick(days[1])
    second = nights.rows()
    changed = {nights.repository(2), nights.repository(bees)}
    assert ledger_before not in changed and fruit not in changed
    # Nothing that was there is made again, and all that is new is of the two.
    assert {owner for owner, _ in made(second) - made(first)} == changed
    assert made(first) < made(second)
    assert all(stages_of(second, one) == set(MADE_OF) for one in changed)
    assert {str(row["repository_id"]) for row in second["listings"] if row["day"] == days[1].isoformat()} == {
        fruit,
        *changed,
    }
    assert nights.published() == {
        f"nightly-{day}": version for day, version in zip(days, ("v0001", "v0002"), strict=False)
    }
    assert nights.ids("v0001") < nights.ids("v0002")

    world.pass_time(DAY_S)
    before = nights.hub.counts["git"], nights.hub.counts["graphql"]
    night = nights.tick(days[2])
    third = nights.rows()
    assert made(third) == made(second)
    assert (nights.hub.counts["git"], nights.hub.counts["graphql"]) == before
    assert nights.published() == {f"nightly-{days[0]}": "v0001"} | dict.fromkeys(
        (f"nightly-{day}" for day in days[1:]), "v0002"
    )
    assert not written(night)

    nights.clean()
    again = nights.run("main", {}, range_tags(days[0].isoformat()))
    assert nights.rows() == third
    assert not written(again) and sorted(nights.published().values()) == ["v0001", "v0002", "v0002"]


def owners(rows: dict[str, list[Row]]) -> dict[str, str]:
    """Instance or trajectory -> repository."""
    of_instance = {
        str(row["instance_id"]): str(row["repository_id"]) for row in rows["instances"] if row["instance_id"]
    }
    of_trajectory = {str(row["trajectory_id"]): of_instance[str(row["instance_id"])] for row in rows["trajectories"]}
    return of_instance | of_trajectory


def made(rows: dict[str, list[Row]]) -> set[tuple[str, str]]:
    """Repository and what was done of it when, for every row of every stage."""
    known = owners(rows)
    found = set()
    for name in MADE_OF:
        for row in rows[name]:
            owner = row.get("repository_id") or known[str(row.get("instance_id") or row["trajectory_id"])]
            found.add((str(owner), f"{name} {row['item_key']} {row['attempt']} {row['recorded_at']}"))
    return found


def stages_of(rows: dict[str, list[Row]], repository: str) -> set[str]:
    return {what.split()[0] for owner, what in made(rows) if owner == repository}


def written(result: dg.ExecuteInProcessResult) -> bool:
    """Whether a run says that it wrote a version."""
    (event,) = result.asset_materializations_for_node("terminal_snapshot")
    return bool(event.metadata["written"].value)
