"""The packages that training needs and the rest of the project does not."""

from importlib.util import find_spec

from pipeline.errors import ConfigurationError

NEEDED = ("torch", "transformers", "peft", "accelerate")


def need_training_packages(needed: tuple[str, ...] = NEEDED) -> None:
    """Raises ConfigurationError where they are not installed."""
    if missing := [name for name in needed if find_spec(name) is None]:
        raise ConfigurationError(
            f"training needs {', '.join(missing)}: `infra/bootstrap.sh train`, or the extra `train`, installs them"
        )
