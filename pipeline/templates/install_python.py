"""Installs the Python project of the current folder, a copy of the tree, into the environment that runs this.

Usage: install_python.py TREE FOLDER [--tolerant] --with MODULE …

What is installed follows the files: a project with its optional test dependencies, else files of requirements, else
what the sources import. Test tools come after it and may fail. With --tolerant each requirement is tried by itself,
those that cannot be had are named and left out, and a project that cannot be built is put on the path as it lies.
"""

from __future__ import annotations

import ast
import configparser
import importlib.util
import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check"]
PIP += ["--root-user-action=ignore", "--prefer-binary", "--progress-bar=off"]
TEST_NAMES = ("test", "tests", "testing", "dev", "develop", "development")
# Distributions whose name is not that of their module.
MODULES = {
    "attr": "attrs", "bs4": "beautifulsoup4", "Crypto": "pycryptodome", "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil", "discord": "discord.py", "django_filters": "django-filter", "docx": "python-docx",
    "dotenv": "python-dotenv", "fitz": "PyMuPDF", "flask_cors": "Flask-Cors", "flask_login": "Flask-Login",
    "flask_sqlalchemy": "Flask-SQLAlchemy", "git": "GitPython", "github": "PyGithub", "google": "protobuf",
    "jose": "python-jose", "jwt": "PyJWT", "ldap3": "ldap3", "magic": "python-magic", "mpl_toolkits": "matplotlib",
    "MySQLdb": "mysqlclient", "nacl": "PyNaCl", "OpenSSL": "pyOpenSSL", "past": "future", "PIL": "Pillow",
    "pkg_resources": "setuptools<81", "psycopg2": "psycopg2-binary", "pptx": "python-pptx", "rest_framework":
    "djangorestframework", "ruamel": "ruamel.yaml", "sklearn": "scikit-learn", "skimage": "scikit-image",
    "serial": "pyserial", "slugify": "python-slugify", "socks": "PySocks", "telegram": "python-telegram-bot",
    "usb": "pyusb", "websocket": "websocket-client", "yaml": "PyYAML", "zmq": "pyzmq",
}  # fmt: skip
# Gigabytes for graphics cards, where a smaller one does the same work on a processor.
SMALLER = {
    "tensorflow": "tensorflow-cpu", "tensorflow-gpu": "tensorflow-cpu", "opencv-python": "opencv-python-headless",
}  # fmt: skip
GRAPHICS = re.compile(
    r"(torch(vision|audio|text)?|triton|xformers|vllm|flash-attn|deepspeed|nvidia-.*|cupy.*|bitsandbytes)$"
)
NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


def toml_reader() -> ModuleType:
    """Python's own, which those before 3.11 lack."""
    if importlib.util.find_spec("tomllib") is None:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "pip", "tomli"], check=True)
        return importlib.import_module("tomli")
    return importlib.import_module("tomllib")


TOML = toml_reader()


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def pip(*arguments: str, limit: int = 420) -> tuple[bool, str]:
    """Whether pip could install it, and what it said."""
    try:
        done = subprocess.run(
            [*PIP, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        say("pip took longer than", limit, "s:", *arguments[:8])
        return False, ""
    if done.returncode:
        say("pip install", *arguments[:8])
        say(done.stdout[-3000:])
    return done.returncode == 0, done.stdout


def toml(path: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = TOML.loads(Path(path).read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return {}
    return found


def as_requirement(name: str, wanted: Any) -> str | None:
    """A dependency as Poetry and Pipenv write it, as pip reads it; None for what comes from elsewhere."""
    if isinstance(wanted, list):
        wanted = wanted[0]
    if isinstance(wanted, dict):
        if wanted.get("optional") or any(key in wanted for key in ("git", "path", "url", "file")):
            return None
        extras = wanted.get("extras") or []
        name += f"[{','.join(extras)}]" if extras else ""
        wanted = wanted.get("version", "*")
    wanted = str(wanted).strip()
    if wanted in ("*", "", "latest"):
        return name
    if wanted[0] == "^":
        return f"{name}>={wanted[1:]}"
    if wanted[0] == "~" and not wanted.startswith("~="):
        return f"{name}>={wanted[1:]}"
    return name + (wanted if wanted[0] in "<>=!~" else f"=={wanted}")


class Project:
    """What the files of the folder say."""

    def __init__(self) -> None:
        self.pyproject = toml("pyproject.toml")
        self.project = self.pyproject.get("project", {})
        self.poetry = self.pyproject.get("tool", {}).get("poetry", {})
        self.setup = Path("setup.py").is_file() or self._has_metadata("setup.cfg")
        self.installable = self.setup or bool(self.project) or bool(self.poetry) or "build-system" in self.pyproject

    def _has_metadata(self, path: str) -> bool:
        return bool(self._configuration(path).get("metadata"))

    @staticmethod
    def _configuration(path: str) -> dict[str, dict[str, str]]:
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            return {}
        return {section: dict(parser.items(section)) for section in parser.sections()}

    def extras(self) -> list[str]:
        """Optional dependencies for tests and for the program; those for development only when there are no others."""
        names = [*self.project.get("optional-dependencies", {}), *self.poetry.get("extras", {})]
        names += list(self._configuration("setup.cfg").get("options.extras_require", {}))
        if Path("setup.py").is_file():
            said = Path("setup.py").read_text(encoding="utf-8", errors="replace")
            found = re.search(r"extras_require\s*=\s*\{(.*?)\}", said, re.DOTALL)
            names += re.findall(r"[\"']([\w-]+)[\"']\s*:", found[1]) if found else []
        tests = [name for name in TEST_NAMES if name in names]
        return [name for name in ("cli", "all") if name in names][:1] + tests[:2]

    def groups(self) -> list[str]:
        """Requirements of the dependency groups for tests."""
        groups = self.pyproject.get("dependency-groups", {})
        wanted: list[str | None] = []
        for name in [one for one in TEST_NAMES if one in groups][:2]:
            waiting = list(groups[name])
            while waiting:
                entry = waiting.pop()
                if isinstance(entry, str):
                    wanted.append(entry)
                else:
                    waiting += groups.get(entry.get("include-group", ""), [])
        for name, group in self.poetry.get("group", {}).items():
            if name in TEST_NAMES:
                wanted += [as_requirement(*pair) for pair in group.get("dependencies", {}).items()]
        wanted += [as_requirement(*pair) for pair in self.poetry.get("dev-dependencies", {}).items()]
        return [one for one in wanted if one]

    def dependencies(self) -> list[str]:
        """Requirements of the project itself, as far as they can be read without running it."""
        found = list(self.project.get("dependencies", []))
        poetry = self.poetry.get("dependencies", {})
        found += [as_requirement(name, wanted) for name, wanted in poetry.items() if name.lower() != "python"]
        options = self._configuration("setup.cfg").get("options", {})
        found += options.get("install_requires", "").splitlines()
        if Path("setup.py").is_file() and not found:
            said = Path("setup.py").read_text(encoding="utf-8", errors="replace")
            listed = re.search(r"(?:install_requires|requires|requirements)\s*=\s*\[(.*?)\]\s*[,)\n]", said, re.DOTALL)
            found += re.findall(r"[\"']([A-Za-z][^\"']+)[\"']", listed[1]) if listed else []
        return [one.strip() for one in found if one and NAME.match(one)]


def requirement_files() -> list[str]:
    """The files of requirements for use: the usual names first, at most two."""
    named = [f"requirements/{name}.txt" for name in ("base", "prod", "production", "requirements", "common", "main")]
    found = [name for name in ("requirements.txt", *named) if Path(name).is_file()][:1]
    apart = re.compile("dev|test|doc|lint")
    found = (
        found or sorted(str(path) for path in Path(".").glob("*requirements*.txt") if not apart.search(path.name))[:1]
    )
    return (
        found or sorted(str(path) for path in Path(".").glob("*/requirements.txt") if not apart.search(str(path)))[:2]
    )


def read_requirements(path: str | Path, seen: frozenset[Path] = frozenset()) -> list[str]:
    lines = []
    raw = Path(path).read_bytes()
    text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "replace")
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        included = re.match(r"(?:-r|--requirement)[ =]*(\S+)", line)
        if included:
            other = (Path(path).parent / included[1]).resolve()
            if other.is_file() and other not in seen:
                lines += read_requirements(other, seen | {other})
        elif line and not line.startswith("-") and "://" not in line.partition(";")[0].replace(" ", ""):
            lines.append(re.sub(r"\s+--hash\S*", "", line))
        elif line and not line.startswith("--hash"):
            say("left out:", line)
    return lines


def suitable(lines: list[str]) -> list[str]:
    """Requirements without what only a graphics card can use."""
    chosen = []
    for line in lines:
        found = NAME.match(line)
        if found is None:
            continue
        name = found[1].lower().replace("_", "-")
        if GRAPHICS.match(name):
            say("left out, it is for graphics cards:", line)
        elif name in SMALLER:
            chosen.append(SMALLER[name])
        else:
            chosen.append(line)
    return chosen


def without_pins(line: str) -> str:
    name, marker = line.partition(";")[::2]
    bare = re.match(r"\s*[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[^\]]*\])?", name)
    return bare[0].strip() + (f";{marker}" if marker else "") if bare else line


def install_all(lines: list[str], tolerant: bool) -> bool:
    """Together; then without their exact versions, which may be too old for this Python; then one by one."""
    if not lines:
        return True
    done, said = pip(*lines)
    if done:
        return True
    if not tolerant and SYSTEM.search(said):
        return False
    loose = list(dict.fromkeys(without_pins(line) for line in lines))
    if "conflict" not in said.lower() and pip("--only-binary=:all:", *loose)[0]:
        say("installed without their exact versions:", *loose)
        return True
    if not tolerant:
        return False
    missing = [
        line for line in loose if not pip("--only-binary=:all:", line, limit=120)[0] and not pip(line, limit=120)[0]
    ]
    say("could not be installed:", *missing)
    return True


SYSTEM = re.compile(
    r"fatal error: \S+: No such file|pg_config|mysql_config|pkg-config|Package \S+ was not found|command 'g?cc' failed"
    r"|command '\S*(?:gcc|g\+\+)' failed|not found in PATH|cmake(?: is)? not (?:found|installed)|Rust|cargo",
    re.IGNORECASE,
)


def imported() -> list[str]:
    """Distributions of the modules that the sources import and that neither Python nor the tree has."""
    names, own = set(), set()
    paths = [path for path in sorted(Path(".").rglob("*.py")) if "site-packages" not in path.parts][:400]
    for path in paths:
        own |= {path.stem, *path.parts[:-1]}
        try:
            parsed = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(parsed):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    own |= {path.name for path in Path(".").iterdir()}
    known = set(getattr(sys, "stdlib_module_names", ())) | own | {"distutils", "imp", "asyncore", "asynchat"}
    return suitable(sorted(MODULES.get(name, name) for name in names - known))


def from_other_files() -> list[str]:
    """Requirements of a Pipfile or a conda environment."""
    lock = Path("Pipfile.lock")
    pipfile = json.loads(lock.read_text())["default"] if lock.is_file() else toml("Pipfile").get("packages", {})
    found = [as_requirement(name, wanted) for name, wanted in pipfile.items()]
    for path in ("environment.yml", "environment.yaml", "conda.yml"):
        if Path(path).is_file():
            for entry in re.findall(
                r"^\s*-\s+([A-Za-z][\w.-]*(?:[=<>]=?[\w.*]+)?)",
                Path(path).read_text(encoding="utf-8", errors="replace"),
                re.MULTILINE,
            ):
                name = re.split(r"[=<>]", entry)[0]
                if name.lower() not in (
                    "python",
                    "pip",
                    "defaults",
                    "conda-forge",
                    "pytorch",
                    "cudatoolkit",
                    "anaconda",
                ):
                    found.append(name)
    return [one for one in found if one]


def put_on_path(tree: str, folder: str) -> None:
    """Modules of the tree can be imported from anywhere."""
    place = Path(tree, folder)
    roots = [str(place)] + ([str(place / "src")] if (place / "src").is_dir() else [])
    Path(sysconfig.get_paths()["purelib"], "project.pth").write_text("\n".join(reversed(roots)) + "\n")
    say("the tree was put on the path:", *roots)


def install_project(project: Project, tolerant: bool) -> bool:
    """Whether the project itself was installed."""
    needed = project.dependencies()
    if (
        suitable(needed) != needed
        and install_all(suitable(needed), True)
        and pip("--no-deps", "--ignore-requires-python", ".")[0]
    ):
        return True
    extras = project.extras()
    wanted = f".[{','.join(extras)}]" if extras else "."
    options: list[str] = []
    for _ in range(3):
        done, said = pip(*options, wanted)
        if done:
            return True
        if "requires a different Python" in said and "--ignore-requires-python" not in options:
            options.append("--ignore-requires-python")
        elif wanted != "." and not SYSTEM.search(said):
            wanted = "."
        else:
            break
    if not tolerant:
        return False
    install_all(suitable(project.dependencies()), True)
    pip("setuptools<81", "wheel", "cython<3", "hatchling", "flit_core", "poetry-core")
    return (
        pip("--no-deps", "--ignore-requires-python", ".")[0]
        or pip("--no-deps", "--no-build-isolation", "--ignore-requires-python", ".")[0]
    )


TEST_FILES = (
    "requirements-test.txt", "requirements-tests.txt", "test-requirements.txt", "requirements_test.txt",
    "tests/requirements.txt", "requirements/test.txt", "requirements/tests.txt", "requirements/testing.txt",
    "requirements-dev.txt", "requirements_dev.txt", "dev-requirements.txt",
)  # fmt: skip
# Tools of development that no test needs.
NO_TESTS = re.compile(
    r"(mypy|ruff|black|flake8|pylint|isort|pre-commit|tox|nox|twine|build|sphinx.*|mkdocs.*|furo|ipython|jupyter.*|bump.*"
    r"|types-.*|pyright|coveralls|codecov|safety|bandit)(\[|[^\w-]|$)",
    re.IGNORECASE,
)


def install_tests(project: Project) -> None:
    """What the tests need; nothing here may fail a build."""
    wanted = project.groups()
    for name in TEST_FILES:
        if Path(name).is_file():
            wanted += read_requirements(name)
            break
    told = "".join(
        Path(name).read_text(encoding="utf-8", errors="replace")
        for name in ("pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini")
        if Path(name).is_file()
    )
    wanted += ["pytest-cov"] if "--cov" in told else []
    wanted += ["pytest-asyncio"] if "asyncio_mode" in told or "pytest-asyncio" in told else []
    wanted = [line for line in suitable(wanted) if not NO_TESTS.match(line)]
    if not wanted or not pip("pytest", *wanted, limit=150)[0]:
        pip("pytest")


def main() -> None:
    tree, folder = sys.argv[1], sys.argv[2]
    tolerant = "--tolerant" in sys.argv
    project = Project()
    installed = False
    if project.installable:
        installed = install_project(project, tolerant)
        if not installed and not tolerant and (project.setup or "build-system" in project.pyproject):
            sys.exit("the project could not be installed")
    if not installed:
        files = requirement_files()
        lines = suitable(
            [line for path in files for line in read_requirements(path)] or from_other_files() or project.dependencies()
        )
        if not install_all(lines, tolerant):
            sys.exit("its requirements could not be installed")
        if not lines:
            for name in imported():
                pip("--only-binary=:all:", name, limit=120)
        put_on_path(tree, folder)
    for name in sys.argv[sys.argv.index("--with") + 1 :]:
        pip(MODULES.get(name, name), limit=120)
    install_tests(project)
    say(json.dumps({"installed": installed}))


main()
