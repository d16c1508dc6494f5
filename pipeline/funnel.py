"""How many items each stage was given and how many it kept: the numbers of `status`, of the funnel and of the card."""

from __future__ import annotations

import duckdb

from pipeline.tables import Store
from pipeline.types import CONTEXT, Record


class Funnel(Record):
    """Counts over the working tables; each is a number of distinct items, not of attempts."""

    repositories: int
    """Repositories that a source listed."""
    kept: int
    """… whose score reached the threshold, or that were kept all the same to learn from them."""
    images_built: int
    """… for which an image was built."""
    languages: tuple[str, ...]
    """Languages of the repositories with an image, sorted; the material of a domain has none that counts."""
    instances: int
    """Tasks that were written, rejected ones included; documented places that gave none do not count."""
    instances_admitted: int
    """… that passed every gate."""
    rollouts: int
    """Attempts with a recorded trajectory."""
    trajectories_verified: int
    """… whose final state passed the verifier."""

    def stages(self) -> list[tuple[str, int]]:
        """The funnel in the order of the pipeline."""
        return [
            ("repositories", self.repositories),
            ("kept", self.kept),
            ("images", self.images_built),
            ("instances", self.instances),
            ("admitted", self.instances_admitted),
            ("trajectories", self.rollouts),
            ("verified", self.trajectories_verified),
        ]


_COUNTS = f"""
SELECT (SELECT count(DISTINCT repository_id) FROM listings),
       (SELECT count(DISTINCT repository_id) FROM scores WHERE kept),
       (SELECT count(DISTINCT repository_id) FROM image_builds WHERE smoke_ok),
       (SELECT list_sort(list(DISTINCT r.language)) FROM repositories r
          JOIN image_builds b USING (repository_id) WHERE b.smoke_ok AND r.source <> '{CONTEXT}'),
       (SELECT count(DISTINCT instance_id) FROM instances),
       (SELECT count(*) FROM selections WHERE selected
           AND instance_id NOT IN (SELECT instance_id FROM contaminations WHERE decision = 'drop')),
       (SELECT count(*) FROM trajectories WHERE trajectory_id IS NOT NULL),
       (SELECT count(*) FROM verifications WHERE outcome = 'passed')
"""
_TABLES = {
    "listings": ["repository_id"],
    "repositories": ["repository_id", "language", "source"],
    "scores": ["repository_id", "kept"],
    "image_builds": ["repository_id", "smoke_ok"],
    "instances": ["instance_id"],
    "selections": ["instance_id", "selected"],
    "contaminations": ["instance_id", "decision"],
    "trajectories": ["trajectory_id"],
    "verifications": ["outcome"],
}
"""With the columns that are counted."""


def funnel(store: Store) -> Funnel:
    """Count what the working tables hold now. Empty tables count as zero."""
    with duckdb.connect() as connection:
        for table, columns in _TABLES.items():
            connection.register(table, store.current(table, columns))
        row = connection.execute(_COUNTS).fetchone()
    assert row is not None  # an aggregate always has one row
    repositories, kept, built, languages, instances, admitted, rollouts, verified = row
    return Funnel(
        repositories=repositories,
        kept=kept,
        images_built=built,
        languages=tuple(languages or ()),
        instances=instances,
        instances_admitted=admitted,
        rollouts=rollouts,
        trajectories_verified=verified,
    )
