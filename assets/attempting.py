"""What one run may choose for its attempts, in place of what the settings say."""

import dagster as dg
from pydantic import ValidationError

from assets.resources import Workshop
from assets.settings import AgentsConfig
from pipeline.errors import ConfigurationError
from pipeline.llm.local_server import LocalModelConfig
from pipeline.llm.protocol import ChatModel


class AttemptsResource(dg.ConfigurableResource):
    """Who attempts the instances in this run; `touchstone run --agents` and its neighbours."""

    agents: list[str] = []  # noqa: RUF012 - pydantic copies it
    """Empty for those of [rollout]."""
    samples: int = 0
    """Attempts of each agent with a model; 0 for the count of [rollout.samples]."""
    difficulties: list[str] = []  # noqa: RUF012
    """Of the instances that models attempt; empty for those of [rollout.samples]."""
    max_steps: int = 0
    """Decisions of each attempt; 0 for the number of [rollout]."""
    local_model: str = ""
    """`smollm2` or the path of a GGUF file, for the agents alone; empty for the model of [model]."""

    def config(self, workshop: Workshop) -> AgentsConfig:
        """Raises ConfigurationError for agents that there are not, and for a number of samples that cannot be."""
        config = workshop.settings.rollout
        changed = config.model_dump()
        if self.agents:
            changed["agents"] = self.agents
        if self.samples:
            changed["samples"]["count"] = self.samples
        if self.difficulties:
            changed["samples"]["difficulties"] = self.difficulties
        if self.max_steps:
            changed["max_steps"] = self.max_steps
        try:
            return AgentsConfig.model_validate(changed)
        except ValidationError as error:
            fault = error.errors()[0]
            raise ConfigurationError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from error

    def model(self, workshop: Workshop) -> ChatModel | None:
        """Raises ConfigurationError as Workshop.model does."""
        if not self.local_model:
            return workshop.model()
        usual = workshop.settings.model
        if isinstance(usual, LocalModelConfig):
            # The adapter of other weights is none of theirs.
            return workshop.model_of(usual.model_copy(update={"local": self.local_model, "adapter": None}))
        return workshop.model_of(LocalModelConfig(local=self.local_model))
