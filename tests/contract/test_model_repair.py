"""A scripted model's repair, built on a real engine: what is taken really builds, and the tree is where it was."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import docker
import pytest

from pipeline.checkout import Tree
from pipeline.dockerfiles import Candidate
from pipeline.llm.scripted import ScriptedModel
from pipeline.model_repair import rewritten
from sandbox.building.base_images import BaseImageConfig
from sandbox.building.images import ImageBuilder
from sandbox.types import BuildLimits, ImageSpec

pytestmark = pytest.mark.docker

LIMITS = BuildLimits(timeout_s=60)


def test_what_a_model_repaired_builds_from_the_same_tree(
    client: docker.DockerClient, builder: ImageBuilder, unique: str, tmp_path: Path
) -> None:
    archive = tmp_path / "tree.tar"
    with tarfile.open(archive, "w") as tar:
        info = tarfile.TarInfo("words.txt")
        info.size = 6
        tar.addfile(info, io.BytesIO(b"a\nb\nc\n"))
    head = (
        f"FROM {BaseImageConfig().base_image}\nLABEL test={unique}\nCOPY . /workspace/words\nWORKDIR /workspace/words\n"
    )
    failing = "RUN count-words words.txt > count.txt\n"
    candidate = Candidate("template", ImageSpec(name="words", dockerfile=head + failing, context=archive))
    failed = builder.build(candidate.spec, LIMITS)
    assert failed.status == "failed"
    tool = "RUN printf '#!/bin/sh\\nwc -l < $1' > /usr/bin/count-words && chmod +x /usr/bin/count-words\n"
    model = ScriptedModel([f"```dockerfile\n{head}{tool}{failing}```"])
    better = rewritten(model, candidate, failed, Tree(archive))
    assert "count-words: not found" in model.asked[0][0].content
    assert better is not None
    built = builder.build(better.spec, LIMITS)
    assert built.digest is not None, built
    said = client.containers.run(built.digest, ["cat", "count.txt"], remove=True, network_mode="none")
    assert said == b"3\n"
