"""The last attempt at an image: a language model sees the Dockerfile and the end of its log, and writes a better one.

Its answer is a proposal of a stranger. It is taken only when it stays within what was there: the same bases, the tree
of the project in its place, nothing fetched around the builder. Whether it really builds and works is found out by
building and trying it (sandbox/building, smoke.py), never here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from markdown_it import MarkdownIt

from pipeline.checkout import Tree
from pipeline.dockerfiles import Candidate
from pipeline.llm.protocol import ChatModel, Message, PromptRefused, Sampling
from pipeline.prompts import fenced, prompt
from pipeline.types import Language
from sandbox.building.dockerfile_text import external_images, instructions
from sandbox.escapes import clean
from sandbox.types import ImageBuild

logger = logging.getLogger(__name__)

_PROMPT = "repair_dockerfile"
_TEMPERATURES = (0.0, 0.7)
"""One try each: the likeliest answer, and where that is none, another one, told what was wrong with the first."""
_REASONING_TOKENS = 1_024
"""Room in an answer besides the Dockerfile itself; a small model may fill all of it with repetitions."""
_LOG_CHARACTERS = 2_500
_FILES = 50
_SHOWN = 200
"""Characters of an instruction that an explanation repeats."""
_MOST_CHARACTERS = 30_000
"""A Dockerfile that is longer is neither asked about nor taken."""

_NO_STEP_HELPS = frozenset(
    {"base_missing", "base_unsupported", "context_invalid", "disk", "infrastructure", "secrets_needed"}
)
_KNOWN = frozenset(
    {"ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER"}
    | {"RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"}
)
"""ONBUILD is not among them: an image of a task is nobody's base."""
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://|git@|\S+\.git\b", re.IGNORECASE)
_FLAG_OF_RUN = re.compile(r"RUN\s+(?:--\S+\s+)*--(network|security|device|mount)=", re.IGNORECASE)
_DIRECTIVE = re.compile(r"\A(?:\s*#.*\n)*?\s*#\s*(syntax|escape|check)\s*=", re.IGNORECASE)


class _Unusable(Exception):
    """Why an answer is not taken, in words for the model."""


def rewritten(model: ChatModel, candidate: Candidate, build: ImageBuild, tree: Tree) -> Candidate | None:
    """A candidate with the model's Dockerfile in the place of one that failed; None when the model has none.

    It is not asked where no other step could help. Raises what `model_repaired` raises.
    """
    if build.failure_class in _NO_STEP_HELPS:
        return None
    language = candidate.recipe.repository.language if candidate.recipe else None
    dockerfile = model_repaired(model, candidate.spec.dockerfile, build.log_tail, list(tree.files), language)
    if dockerfile is None:
        return None
    spec = candidate.spec.model_copy(update={"dockerfile": dockerfile})
    return Candidate("model", spec, repairs=(*candidate.repairs, repair_name(model)))


def model_repaired(
    model: ChatModel, candidate_dockerfile: str, log_tail: str, files: Sequence[str], language: Language | None
) -> str | None:
    """A corrected Dockerfile, or None when the model gave none that can be used, also when told what was wrong.

    `log_tail` is the end of the log of the failed build, or of the program that does not work in the image; `files` are
    the paths of the tree. Raises ModelUnavailable, and ConfigurationError for a mistake in the model's settings.
    """
    if len(candidate_dockerfile) > _MOST_CHARACTERS:
        return None
    bases = external_images(candidate_dockerfile)
    question = prompt(_PROMPT).render(
        language=language or "software",
        dockerfile=fenced(candidate_dockerfile, "dockerfile"),
        log=fenced(clean(log_tail)[-_LOG_CHARACTERS:]),
        files=fenced("\n".join(_shown(files))),
        bases=", ".join(bases),
    )
    conversation = [Message(role="user", content=question)]
    most = _REASONING_TOKENS + len(candidate_dockerfile) // 2
    for temperature in _TEMPERATURES:
        try:
            answer = model.complete(conversation, Sampling(temperature=temperature, max_tokens=most, seed=0))
        except PromptRefused as error:
            logger.warning("no repair: %s", error)
            return None
        try:
            return _checked(_dockerfile_of(answer.text), candidate_dockerfile)
        except _Unusable as fault:
            logger.info("an answer of model %s cannot be used: %s", model.name, fault)
            conversation += [
                Message(role="assistant", content=answer.text[: len(candidate_dockerfile) + _LOG_CHARACTERS]),
                Message(role="user", content=f"That cannot be used: {fault}. Answer again, with the whole Dockerfile."),
            ]
    return None


def repair_name(model: ChatModel) -> str:
    """How the column `repairs` of an image names what was done: which model, asked in which words."""
    return f"model {model.name}, prompt {prompt(_PROMPT).sha256[:16]}"


def _shown(files: Sequence[str]) -> list[str]:
    """The paths nearest to the root, which say most of how a project is built."""
    nearest = sorted(files, key=lambda path: (path.count("/"), path))
    left_out = len(nearest) - _FILES
    return nearest[:_FILES] + ([f"… and {left_out} more"] if left_out > 0 else [])


def _dockerfile_of(answer: str) -> str:
    """The text of the one block that can be a Dockerfile. Raises _Unusable."""
    fences = [token for token in MarkdownIt("commonmark").parse(answer) if token.type == "fence"]
    named = [token for token in fences if token.info.split()[:1] in (["dockerfile"], ["Dockerfile"], ["docker"])]
    found = named or [token for token in fences if re.search(r"(?im)^\s*FROM\s", token.content)]
    if not found:
        raise _Unusable("there is no block that begins with ```dockerfile")
    if len(found) > 1:
        raise _Unusable("there is more than one block with a Dockerfile")
    return found[0].content


def _checked(text: str, original: str) -> str:
    """`text` when it may take the place of `original`. Raises _Unusable."""
    text = text.strip("\n") + "\n"
    if len(text) > _MOST_CHARACTERS:
        raise _Unusable(f"it is longer than {_MOST_CHARACTERS:,} characters")
    if "\x00" in text or text.splitlines() != text[:-1].split("\n"):
        # What we take for the end of a line and the builder does not could hide an instruction from us.
        raise _Unusable("it holds characters that no Dockerfile has")
    if match := _DIRECTIVE.match(text):
        raise _Unusable(f"it begins with a `# {match[1]}=` line")
    steps, former = _steps(text), _steps(original)
    if steps == former:
        raise _Unusable("it does the same as the one that failed")
    if _of(steps, "FROM") != _of(former, "FROM"):
        raise _Unusable(f"its FROM lines are not those of the Dockerfile that failed: {'; '.join(_of(former, 'FROM'))}")
    for step in steps:
        if step not in former:
            _check_new(step)
    _check_images(text, original)
    _check_kept(steps, former)
    return text


def _steps(text: str) -> list[str]:
    """The instructions with single spaces and their heredocs, so that two that do the same are equal."""
    return [
        "\n".join([" ".join(step.text.split()), *(one.body for one in step.heredocs)]) for step in instructions(text)
    ]


def _word(step: str) -> str:
    return step.split(None, 1)[0].upper()


def _of(steps: Sequence[str], word: str) -> list[str]:
    return [step for step in steps if _word(step) == word]


def _check_new(step: str) -> None:
    """An instruction that was not there before."""
    if _word(step) not in _KNOWN or len(step.split(None, 1)) < 2:
        raise _Unusable(f"`{step[:_SHOWN]}` is no instruction")
    if _word(step) == "ADD" and _REMOTE.search(step):
        raise _Unusable(f"`{step[:_SHOWN]}` adds an address")
    if match := _FLAG_OF_RUN.match(step):
        raise _Unusable(f"`{step[:_SHOWN]}` has the flag --{match[1]}")


def _check_images(text: str, original: str) -> None:
    """Nothing new is pulled: neither by COPY --from nor by another value of a variable in a FROM."""
    allowed = external_images(original)
    for reference in external_images(text):
        if reference not in allowed:
            raise _Unusable(f"it needs {reference[:_SHOWN]}, which cannot be pulled; there is {', '.join(allowed)}")


def _check_kept(steps: Sequence[str], former: Sequence[str]) -> None:
    """The tree still comes to its place, our own files are taken out again, and agents are who they were."""
    found = iter(steps)
    for needed in filter(_places_the_tree, former):
        if needed not in found:  # goes on from where the last one was found: their order counts
            raise _Unusable(f"the line `{needed[:_SHOWN]}` is gone, was changed or has another place")
    if _of(steps, "USER")[-1:] != _of(former, "USER")[-1:]:
        raise _Unusable("its last USER is another one")


def _places_the_tree(step: str) -> bool:
    sources = [word for word in step.split(" ")[1:] if not word.startswith("--")]
    whole = _word(step) in {"COPY", "ADD"} and sources[:1] == ["."]
    return whole or _word(step) == "WORKDIR" or ".touchstone" in step
