"""Reads the document's own prose: sentences that stand by themselves, the goal of a block, names made from it.

How a whole instruction is put together is in phrasing.py and instance_text.py.
"""

from __future__ import annotations

import re

from pipeline.generators.commands import looks_like_path, stages
from pipeline.generators.plans import Plan

POINTER = re.compile(
    r"(?i)[,;]?\s*(?:like (?:so|this)|as follows|as shown below|for example|for instance|e\.g\."
    r"|by (?:doing|running)(?: this| the following)?"
    r"|(?:with|using|run|use|do|try)?\s*(?:the|this) (?:following|below)(?: command| code| example)?s?"
    r"|run|type|do|use|simply type|simply)?"
    r"\s*[:,]\s*$"
)
HOLLOW = re.compile(
    r"(?i)^(?:or|and|then|now|also|examples?|for example|usage|output|e\.g\.|otherwise|alternatively"
    r"|result|note|more)?[:.,]?$"
)
DEICTIC = re.compile(
    r"(?i)\b(?:th[ei]s[ei]? (?:\w+ )?(?:commands?|examples?|snippets?|sections?|page|tutorial"
    r"|chapter|tutorials)|(?:previous|earlier|last|next) (?:\w+ )?"
    r"(?:section|operations?|example|step)s?|(?:shown|described|mentioned|seen|looked at) (?:above"
    r"|below|earlier|before)|as you can see|above|below"
    r"|all our|take a look|let's (?:see|look|take|examine|imagine)|see what|what's in there"
    r"|same output|documentation for|described (?:in|at)"
    r"|work(?:s)? the same way|two examples?|see the [\w ]*section|more (?:documentation|information|details)"
    r"|let's|you might want to try|an? \w+ example|installation|install)\b|\bI (?:also |am "
    r"|have )|^(?:Now|Here|Notice|In this case|This means|Warning|Caution|Deprecated|Here's"
    r"|If you're|Back in|TODO)\b"
)
DANGLING = re.compile(
    r"(?i)\b(?:are|is|looks?|with|by|be|the|and|or|to|of|like|following|example|type|run|do)$|[:,;]$|\$ |>>>|\{%|^\W*$"
)
NOT_IMPERATIVE = {
    "the", "this", "you", "if", "in", "to", "it", "for", "we", "when", "these", "there", "by", "an", "a", "as",
    "some", "all", "most", "on", "with", "note", "since", "because", "passing", "using", "however", "that",
    "your", "many", "each", "any", "every", "like", "once", "and", "or", "here",
}  # fmt: skip
MAX_HOLLOW_WORDS = 5
ENOUGH_WORDS = 15
STOP_WORDS = NOT_IMPERATIVE | {
    "of", "is", "are", "be", "its", "from", "at", "can", "will", "not", "only", "into", "use", "but", "them",
    "their", "also", "then", "so", "do", "does", "has", "have", "how", "which", "what", "one", "two", "example",
    "following", "specify", "option", "options", "set",
}  # fmt: skip


def goal_of(plan: Plan) -> str:
    """What the document says the commands are for; empty when it says nothing that stands by itself."""
    block = plan.block
    paragraphs = block.prose.split("\n")
    sentences = sentences_of(paragraphs[-1]) + sentences_of(plan.comment)
    if not _tells(" ".join(sentences)) and len(paragraphs[-1].split()) > MAX_HOLLOW_WORDS:
        # What introduces the block only makes sense on its page; the prose before it is about something else.
        return ""
    if not _tells(" ".join(sentences)) and len(paragraphs) > 1:
        sentences = sentences_of(paragraphs[-2]) + sentences
    if not _tells(" ".join(sentences)):
        sentences = [s for s in sentences_of(block.section_prose) if s not in sentences] + sentences
    if not _tells(" ".join(sentences)):
        title = block.headings[-1].rstrip(".:") + "." if block.headings and len(block.headings) > 1 else ""
        sentences = [*([title] if title else []), *sentences_of(block.opening)[:1]]
    text = _last_words(sentences)
    return text if _tells(text) else ""


def context_of(plan: Plan, goal: str) -> str:
    """A sentence of the section or the document for a goal of few words; empty when none is needed or there is none."""
    if len(goal.split()) >= ENOUGH_WORDS:
        return ""
    for paragraph in (plan.block.section_prose, plan.block.opening):
        for sentence in sentences_of(paragraph)[:1]:
            if sentence not in goal and _tells(sentence) and len(sentence.split()) < 40:
                return sentence
    return ""


def is_imperative(goal: str) -> bool:
    """Whether a goal reads as an order."""
    match = re.match(r"([A-Za-z']+)\s+(\w+)", goal)
    if match is None or match[1].lower() in NOT_IMPERATIVE or match[1].endswith(("s", "ing")):
        return False
    return match[2] not in {"is", "are", "can", "has", "have", "will", "may", "also", "allows", "makes", "provides"}


def _tells(text: str) -> bool:
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= 4


def sentences_of(paragraph: str) -> list[str]:
    """Sentences that mean something away from their page, each with a full stop."""
    text = paragraph.strip()
    text = POINTER.sub(".", text) if text.endswith((":", ",")) else text
    text = re.sub(r"\s+([.,])", r"\1", text).lstrip("- *")
    found = []
    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`\"'(])", text):
        sentence = re.sub(r"^(?:So|Then|And|Also|Finally|Of course|Again|Or),? (?=\w)", "", sentence.strip())
        sentence = re.sub(r"(?i)^if you(?: want| wish|'d like| would like| need) to (\w[^,]*)$", r"\1", sentence)
        if sentence.split(" ")[0].islower() and sentence.split(" ")[0] in NOT_IMPERATIVE | {"have", "use"}:
            sentence = sentence[0].upper() + sentence[1:]
        if re.match(r"(?:If|When|While|Although) [^,]*$", sentence) or _is_drawing(sentence):
            continue
        if not sentence or HOLLOW.match(sentence) or DEICTIC.search(sentence):
            continue
        sentence = re.sub(r"[.\s]+$", "", sentence)
        if DANGLING.search(sentence):
            continue
        found.append(sentence if sentence[-1] in "!?" else sentence + ".")
    return found


def _is_drawing(sentence: str) -> bool:
    """Whether it is letters drawn with lines, or markup of a manual page, and no sentence."""
    marks = sum(not (c.isalnum() or c.isspace() or c in ".,;:'\"`()-") for c in sentence)
    return marks * 6 > len(sentence) or "\\n[" in sentence


def _last_words(sentences: list[str]) -> str:
    """At most about 70 words, whole sentences, counted from the end: those stand next to the code."""
    kept: list[str] = []
    for sentence in reversed(sentences):
        if kept and len(" ".join([sentence, *kept]).split()) > 70:
            break
        kept.insert(0, sentence)
    text = " ".join(kept)
    return text if len(text.split()) <= 110 else ""


def slug_of(plan: Plan, goal: str) -> str:
    """A short name for result files: from an order in the goal, else from the heading and the command."""
    prose = re.sub(r"`[^`]*`|\"[^\"]*\"|'[^']*'", " ", goal)
    words = [w.lower() for w in re.findall(r"[A-Za-z][A-Za-z0-9]+", prose)]
    if is_imperative(goal):
        chosen = [w for w in words if w not in STOP_WORDS][:3]
    else:
        title = re.sub(r"`[^`]*`|\([^)]*\)", " ", plan.block.headings[-1] if plan.block.headings else "")
        chosen = [w.lower() for w in re.findall(r"[A-Za-z0-9]+", title) if w.lower() not in STOP_WORDS][:3]
        last = [w for s in stages(plan.steps[-1]) for w in s.words[1:]]
        special = [w.lower() for x in last for w in re.findall(r"[A-Za-z]{3,}", x) if not looks_like_path(x)]
        chosen += [w for w in dict.fromkeys(special) if w not in chosen and w not in STOP_WORDS][:2]
    return "-".join(chosen or ["result"])[:40].strip("-")
