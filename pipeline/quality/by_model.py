"""Scores by a language model, which sees of a task what people see on their sheet."""

from __future__ import annotations

from pipeline.errors import ItemRejected
from pipeline.llm.answers import NoAnswer, object_of
from pipeline.llm.protocol import ChatModel, Message, PromptRefused, Sampling
from pipeline.prompts import fenced, prompt
from pipeline.quality.ratings import Rating, Scores
from pipeline.types import TaskInstance

PROMPT = "rate_task"
_MAX_TOKENS = 400
_TRIES = 2


def rate(instance: TaskInstance, model: ChatModel) -> Rating:
    """Raises ItemRejected (no_answer, prompt_refused) when the model gives no scores, and ModelUnavailable."""
    question = prompt(PROMPT).render(
        instruction=fenced(instance.instruction),
        solution=fenced("\n".join(instance.solution), "sh"),
        verifier=fenced("\n\n".join(file.content for file in instance.verifier.files), "python"),
    )
    talk = [Message(role="user", content=question)]
    sampling = Sampling(max_tokens=_MAX_TOKENS, seed=0, answer_schema=Scores.model_json_schema())
    fault = ""
    for _ in range(_TRIES):
        try:
            answer = model.complete(talk, sampling)
        except PromptRefused as error:
            raise ItemRejected("prompt_refused", str(error)) from error
        try:
            scores = object_of(answer.text, Scores)
        except NoAnswer as error:
            fault = str(error)
            talk = [
                talk[0],
                Message(role="assistant", content=answer.text),
                Message(role="user", content=f"That cannot be used: {fault}. Answer with the JSON object alone."),
            ]
            continue
        provenance = {"prompt_sha256": prompt(PROMPT).sha256, "served_model": answer.model}
        return Rating(
            instance_id=instance.instance_id, rater=model.name, kind="model", scores=scores, provenance=provenance
        )
    raise ItemRejected("no_answer", fault)
