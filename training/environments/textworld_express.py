"""TextWorldExpress: eight small games in a JVM: cooking, tidying up, searching, reading maps, sums, sorting, orders.

Jansen and Côté 2022, "TextWorldExpress: Simulating Text Games at One Million Steps Per Second"; the package
textworld-express with its jar, each game with its default parameters. A template is a game; its instances are the seeds
of the package's folds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from training.environments.express_expert import SYSTEMATIC, searching, tidying
from training.environments.game import GameFacts, GameTask, Opening, Played
from training.environments.java import need_java
from training.environments.levels import levelled

if TYPE_CHECKING:
    from textworld_express import TextWorldExpressEnv

FACTS = GameFacts(
    name="textworld_express",
    package="textworld-express",
    license="Apache-2.0",
    needs_java=True,
    has_admissible=True,
    by_chance=False,
    max_steps=150,
    step_timeout_s=30.0,
)
UNSEEN = ("mapreader", "peckingorder")
"""Games that are held out: the one goes through rooms like others, the other follows orders like another one."""
PER_GAME = {"train": 80, "seen": 20, "unseen": 50}
"""Seeds of each game, the first ones of the package's folds train and, for what is seen, test."""
_FOLDS = {"train": "train", "seen": "test", "unseen": "train"}


def make() -> TextWorldExpress:
    """Raises ConfigurationError without Java."""
    need_java(FACTS.name)
    return TextWorldExpress()


class TextWorldExpress:
    """One simulator; see Game."""

    def __init__(self) -> None:
        from textworld_express import TextWorldExpressEnv

        self._env: TextWorldExpressEnv = TextWorldExpressEnv(envStepLimit=10**9)
        self._task: tuple[str, str] | None = None
        self._admissible: tuple[str, ...] = ()
        self._loaded = ""

    @property
    def facts(self) -> GameFacts:
        return FACTS

    def candidates(self) -> Iterator[GameTask]:
        """See Game: each gold path is played."""
        found = []
        for name in sorted(self._env.getGameNames()):
            for split in ("unseen",) if name in UNSEEN else ("train", "seen"):
                for seed in self._seeds(name, _FOLDS[split])[: PER_GAME[split]]:
                    variation = f"{_FOLDS[split]}-{seed}"
                    if steps := self._played(name, variation):
                        found.append({"task_type": name, "variation": variation, "split": split} | steps)
        return levelled(found)

    def start(self, task_type: str, variation: str) -> Opening:
        """See Game: `variation` is FOLD-SEED with a seed of that fold."""
        if task_type not in self._env.getGameNames():
            raise ValueError(f"TextWorldExpress has no game {task_type!r}")
        fold, _, seed = variation.partition("-")
        if fold not in ("train", "dev", "test") or int(seed) not in self._seeds(task_type, fold):
            raise ValueError(f"{task_type} has no seed {seed} in a fold {fold!r}")
        return self._begin(task_type, variation, gold=False)

    def act(self, action: str) -> Played:
        """See Game."""
        observation, _, done, told = self._env.step(" ".join(action.replace("\0", " ").split()))
        # What the package writes beside each step for a whole attempt is of no use here.
        self._env.clearRunHistory()
        self._admissible = tuple(told["validActions"])
        return Played(
            observation=str(observation).strip() or "(nothing)",
            score=max(-1.0, min(1.0, round(float(told["score"]), 4))),
            done=bool(done),
            rejected=str(observation).startswith("Unknown action"),
        )

    def gold(self) -> tuple[str, ...]:
        """See Game: the package's own, but for games whose own ones are walks by chance (express_expert.py)."""
        assert self._task is not None
        name, variation = self._task
        self._begin(name, variation, gold=True)
        own = tuple(self._env.getGoldActionSequence())
        if name not in SYSTEMATIC:
            return own
        self._begin(name, variation, gold=False)
        path: list[str] = []
        over = False

        def act(action: str) -> str:
            nonlocal over
            if over:
                return ""
            path.append(action)
            played = self.act(action)
            over = played.done
            return played.observation

        if name == "coin":
            searching(act, self.admissible)
        else:
            tidying(act, self.admissible, own)
        return tuple(path)

    def admissible(self) -> tuple[str, ...]:
        """See Game."""
        return tuple(sorted(set(self._admissible)))

    def close(self) -> None:
        """See Game."""
        self._env.close()

    def _begin(self, name: str, variation: str, *, gold: bool) -> Opening:
        fold, _, seed = variation.partition("-")
        self._load(name)
        observation, told = self._env.reset(seed=int(seed), gameFold=fold, generateGoldPath=gold)
        self._task = (name, variation)
        self._admissible = tuple(told["validActions"])
        return Opening(task=str(told["taskDescription"]).strip(), observation=str(observation).strip())

    def _load(self, name: str) -> None:
        if self._loaded != name:
            self._env.load(name, "")
            self._loaded = name

    def _seeds(self, name: str, fold: str) -> list[int]:
        self._load(name)
        seeds: dict[str, Any] = {
            "train": self._env.getValidSeedsTrain,
            "dev": self._env.getValidSeedsDev,
            "test": self._env.getValidSeedsTest,
        }
        return sorted(int(seed) for seed in seeds[fold]())

    def _played(self, name: str, variation: str) -> dict[str, int] | None:
        """The length of the gold path; None where it does not reach the full score at its end."""
        self.start(name, variation)
        gold = self.gold()
        self.start(name, variation)
        played = [self.act(action) for action in gold]
        return {"gold_steps": len(gold)} if played and played[-1].score >= 1.0 else None
