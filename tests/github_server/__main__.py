"""The hub as a process of its own. Its first line of output is its address; it ends with its standard input."""

from __future__ import annotations

import argparse
import sys

from tests.github_server.server import running
from tests.github_server.world import World


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repositories", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--crowd", type=int, default=0)
    arguments = parser.parse_args()
    world = World(arguments.repositories, arguments.seed, crowd=arguments.crowd)
    with running(world) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


main()
