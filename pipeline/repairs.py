"""What is changed after a failed build: rules from what the log says to another recipe. The first that fits counts.

A rule changes the recipe, never the rendered text; own_repairs.py says what is mended in a repository's own Dockerfile.
Why a build failed is classed in sandbox/building/build_failures.py, and a model's repair is not here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pipeline import own_repairs
from pipeline.checkout import Tree
from pipeline.dockerfiles import Candidate
from pipeline.prerequisites import Kind, packages_for
from pipeline.recipes import Recipe, Toolchain, render
from sandbox.types import ImageBuild

logger = logging.getLogger(__name__)

Change = Callable[[Recipe, str, Tree], Recipe | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """`change` gives the next recipe for a log; None, or the same one, when it has nothing to change."""

    name: str
    templates: frozenset[str]
    """Templates it is for; empty for all."""
    change: Change
    repeats: bool = False
    """It may be applied again, since each time something else is meant."""


def repaired(candidate: Candidate, build: ImageBuild, tree: Tree, toolchain: Toolchain) -> Candidate | None:
    """The candidate to try after `build` failed, or gave an image that does not work (`log_tail` is then what its
    program said). None when no rule fits.
    """
    log = f"{build.reason}\n{build.log_tail}"
    recipe = candidate.recipe
    if recipe is None:
        return _mended(candidate, log)
    for rule in RULES:
        if build.failure_class == "build_timeout" and rule.name not in QUICKER:
            continue
        if (rule.templates and recipe.template not in rule.templates) or (
            rule.name in candidate.repairs and not rule.repeats
        ):
            continue
        changed = rule.change(recipe, log, tree)
        if changed is None or changed == recipe:
            continue
        try:
            dockerfile, files = render(changed, tree, toolchain)
        except ValueError as error:
            logger.info("repair %s of %s is not possible: %s", rule.name, candidate.spec.name, error)
            continue
        spec = candidate.spec.model_copy(update={"dockerfile": dockerfile, "context_files": files})
        return Candidate("repaired", spec, changed, (*candidate.repairs, rule.name))
    return None


def _mended(candidate: Candidate, log: str) -> Candidate | None:
    """A repository's own Dockerfile with one thing in it changed."""
    found = own_repairs.mended(candidate.spec.dockerfile, log, candidate.repairs)
    if found is None or candidate.strategy == "model":
        return None
    dockerfile, rule = found
    spec = candidate.spec.model_copy(update={"dockerfile": dockerfile})
    return Candidate("repaired", spec, None, (*candidate.repairs, rule))


# What a log says is missing: (pattern with one group, what its name is the name of).
_MISSING: tuple[tuple[str, Kind], ...] = (
    (r"fatal error: ['\"]?([\w./+-]+)['\"]?(?:: No such file| file not found)", "headers"),
    (
        r"(?:No package|Package) ['\"]*([\w.+-]+)['\"]*(?:,? (?:required by .*|was not )?found|, required by)",
        "pkg_config",
    ),
    (r"Dependency \"?([\w.+-]+)\"? (?:found: NO|not found)", "pkg_config"),
    (r"Could NOT find (\w[\w+-]*)", "cmake"),
    (r"package configuration file provided by \"([\w+-]+)\"", "cmake"),
    (r"By not providing \"Find([\w+-]+)\.cmake\"", "cmake"),
    (r"cannot find -l([\w.+-]+)", "libraries"),
    (r"(?:sh|bash|env): (?:\d+: |line \d+: )?['‘]?(?:[\w./-]+/)?([\w.+-]+)['’]?: (?:command )?not found", "commands"),
    (r"(?:sh|bash): (?:\d+: |line \d+: )[\w./-]+: ([\w.+-]+): not found", "commands"),
    (r"env: ['‘]?([\w.+-]+)['’]?: No such file", "commands"),
    (r"make(?:\[\d+\])?: ([\w.+-]+): No such file or directory", "commands"),
    (r"Program '?\"?([\w.+-]+?)'?\"?(?:[\w. -]*)? (?:found: NO|not found)", "commands"),
    (r"No such file or directory: '([\w.+-]+)'", "commands"),
    (r"(pg_config|mysql_config|xml2-config|xslt-config|krb5-config|mariadb_config)", "commands"),
    (r"(?:command|execute) '\S*?(g\+\+|gcc|gfortran|cmake|swig|cargo)' failed: No such file", "commands"),
    (r"(?:ImportError|OSError): (lib[\w.+-]+): cannot open shared object", "shared_objects"),
    (r"error while loading shared libraries: (lib[\w.+-]+)", "shared_objects"),
    (r"cannot load library '(lib[\w.+-]+)'", "shared_objects"),
)


def _missing_packages(recipe: Recipe, log: str, tree: Tree) -> Recipe | None:
    """Everything that the log names at once, since each further build costs a minute."""
    return recipe.with_packages(*(package for kind, name in _missing(log) for package in packages_for(kind, name)))


def _missing(log: str) -> Iterator[tuple[Kind, str]]:
    for pattern, kind in _MISSING:
        for name in re.findall(pattern, log):
            yield kind, name


def _compilers(recipe: Recipe, log: str, tree: Tree) -> Recipe | None:
    """Node's and Python's native parts need more than the small toolchains have."""
    if re.search(r"node-gyp|gyp ERR|g\+\+|c\+\+|command '\S*gcc' failed|CMake|cc1plus|Python\.h", log):
        return recipe.with_packages("g++", "make", "python3-dev", "pkg-config")
    return None


def _older_python(recipe: Recipe, log: str, tree: Tree) -> Recipe | None:
    """Versions that are pinned from before this Python: they have wheels for an older one."""
    if recipe.version is None and re.search(_OLD_PYTHON, log, re.IGNORECASE):
        return replace(recipe, version="3.9")
    return None


def _option(option: str, pattern: str = "") -> Change:
    """Give the template's script a further option when the log fits; `pattern` empty fits every log."""

    def change(recipe: Recipe, log: str, tree: Tree) -> Recipe | None:
        known = recipe.word("options").split()
        if option in known or not re.search(pattern, log, re.IGNORECASE):
            return None
        return recipe.with_words(options=" ".join([*known, option]))

    return change


def _environment(name: str, value: str, pattern: str) -> Change:
    def change(recipe: Recipe, log: str, tree: Tree) -> Recipe | None:
        return recipe.with_environment(**{name: value}) if re.search(pattern, log, re.IGNORECASE) else None

    return change


def _missing_modules(recipe: Recipe, log: str, tree: Tree) -> Recipe | None:
    """Modules that the program asked for when it was started, though no file names them."""
    named = re.findall(r"ModuleNotFoundError: No module named '([\w]+)", log)
    if not named or re.search(r"attempted relative import", log):
        return None
    known = recipe.word("modules").split()
    return recipe.with_words(modules=" ".join(dict.fromkeys([*known, *sorted(named)])))


def _other_version(language_versions: tuple[tuple[str, str], ...]) -> Change:
    """The first version whose pattern fits and that was not yet the recipe's."""

    def change(recipe: Recipe, log: str, tree: Tree) -> Recipe | None:
        for pattern, version in language_versions:
            if recipe.version != version and re.search(pattern, log, re.IGNORECASE):
                return replace(recipe, version=version)
        return None

    return change


def _newer_libraries(recipe: Recipe, log: str, tree: Tree) -> Recipe | None:
    """Of Go: libraries that Debian's stable release lacks, or has in versions that are too old."""
    if not recipe.word("libraries"):
        return None
    return replace(recipe, version="1.27").with_words(options="--newer=forky")


_OLD_PYTHON = (
    r"No matching distribution found for \S+=="
    r"|Failed building wheel for (?:numpy|pandas|scipy|scikit-learn|lxml|greenlet|cffi|pillow|aiohttp|pyyaml)"
)
_NEW_IN_GO = r"(?:slices|maps|cmp|iter|log/slog|unique|math/rand/v2)"
_GO_VERSIONS = (
    (r"requires go >= 1\.2[5-9]|note: module requires Go 1\.2[5-9]", "1.27"),
    (
        r"requires go >= |note: module requires Go|invalid go version|parameters require|cannot range over .*func\(",
        "1.24",
    ),
    (rf"package {_NEW_IN_GO} is not in|cannot find package \"{_NEW_IN_GO}\"", "1.24"),
    (r"undefined: (?:min|max|clear|sync\.OnceFunc|errors\.Join|atomic\.\w+|strings\.Cut\w*)\b", "1.24"),
)
_NODE_VERSIONS = (
    (
        r"does not provide an export named|requires at least Node|(?:File|Iterator|WebSocket|navigator) is not defined",
        "24",
    ),
    (
        r"Unsupported engine.*(?:>=|\^)\s*2[2-9]|requires? node(?:\.js)? ?(?:version )?(?:>=|v)?\s*2[1-9]|node:sqlite",
        "24",
    ),
    (r"primordials is not defined|node-sass|digital envelope routines", "14"),
    (r"gyp ERR! node -v v2\d", "16"),
)
_JAVA_VERSIONS = (
    (r"(?:patterns in switch|record patterns|unnamed \w+) .*are|invalid source release: (?:18|19|2\d)", "21"),
    (r"package (?:javax\.xml\.bind|javax\.annotation|sun\.misc) .*does not exist", "11"),
)
_PYTHON: frozenset[str] = frozenset({"python"})
_NPM: frozenset[str] = frozenset({"npm"})
_C: frozenset[str] = frozenset({"c"})
_ANY: frozenset[str] = frozenset()

QUICKER = frozenset({"for_use_only"})
"""Rules that can help where a build took too long: the others would make it longer."""
RULES: tuple[Rule, ...] = (
    Rule("missing_packages", _ANY, _missing_packages, repeats=True),
    Rule("compilers", frozenset({"python", "npm"}), _compilers),
    Rule("missing_modules", _PYTHON, _missing_modules, repeats=True),
    Rule("older_python", _PYTHON, _older_python),
    Rule("tolerant", _PYTHON, _option("--tolerant")),
    Rule(
        "old_common_symbols", _C, _option("--common", r"multiple definition of|implicit declaration|conflicting types")
    ),
    Rule(
        "standard_17", _C, _option("--standard=17", r"not a member of .std\W|C\+\+1[47]|compiler and library support")
    ),
    Rule("standard_20", _C, _option("--standard=20", r"C\+\+20|c\+\+20|std::(?:span|ranges)|.concept. does not name")),
    Rule(
        "permissive",
        _C,
        _option(
            "--permissive", r"\[-fpermissive\]|was not declared in this scope|has not been declared|numeric_limits"
        ),
    ),
    Rule("tolerant", _C, _option("--tolerant")),
    Rule(
        "legacy_openssl", _NPM, _environment("NODE_OPTIONS", "--openssl-legacy-provider", r"ERR_OSSL_EVP_UNSUPPORTED")
    ),
    Rule("other_node", _NPM, _other_version(_NODE_VERSIONS)),
    Rule("without_lock", _NPM, _option("--no-lock", r"npm error|ERR!|ERR_PNPM|YN\d{4}|integrity|yarn")),
    Rule("for_use_only", _NPM, _option("--use-only")),
    Rule("tolerant", _NPM, _option("--tolerant")),
    Rule("newer_go", frozenset({"go"}), _other_version(_GO_VERSIONS)),
    Rule("newer_libraries", frozenset({"go"}), _newer_libraries),
    Rule("other_java", frozenset({"java"}), _other_version(_JAVA_VERSIONS)),
    Rule("tolerant", frozenset({"java"}), _option("--tolerant")),
)
