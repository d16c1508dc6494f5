"""Permissions: trees that follow a policy, dangerous modes."""

from __future__ import annotations

from functools import partial

from pipeline.generators.domains.security.commands import changed, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_POLICY = r"""
import csv, os
rules = list(csv.DictReader(open("/etc/share-policy.csv")))
ids = {}
for name in ("passwd", "group"):
    ids[name] = {l.split(":")[0]: int(l.split(":")[2]) for l in open("/etc/" + name)}
for folder, folders, files in os.walk("/srv/share"):
    for path in [folder, *(os.path.join(folder, f) for f in files)]:
        if os.path.islink(path):
            continue
        kind = "dir" if os.path.isdir(path) else "file"
        for rule in reversed(rules):
            if rule["kind"] == kind and (path + "/").startswith(rule["below"].rstrip("/") + "/"):
                os.chown(path, ids["passwd"][rule["owner"]], ids["group"][rule["group"]])
                os.chmod(path, int(rule["mode"], 8))
                break
"""


def permission_policy(seed: int, context: Context) -> Draft:
    """Owners and modes of a tree, by a table."""
    rng = chance("security", "permission_policy", seed)
    users = dict(zip(rng.sample(("alma", "bent", "caro", "dino"), 3), (2001, 2002, 2003), strict=True))
    groups = {"staff2": 3001, "finance": 3002, "media": 3003}
    tops = rng.sample(("reports", "photos", "projects", "archive", "invoices"), 3)
    folders = [
        "/srv/share",
        *(f"/srv/share/{t}" for t in tops),
        f"/srv/share/{tops[0]}/2024",
        f"/srv/share/{tops[0]}/2024/q1",
    ]
    folders.append(f"/srv/share/{tops[0]}2")
    files = [
        f"{f}/{rng.choice(('a b', 'note', 'plan', 'x'))}{n}.{rng.choice(('txt', 'sh', 'csv'))}"
        for n, f in enumerate(folders * 2)
    ]
    user, group = partial(rng.choice, list(users)), partial(rng.choice, list(groups))
    rules = [
        ("/srv/share", "dir", user(), group(), "750"),
        ("/srv/share", "file", user(), group(), "640"),
        (f"/srv/share/{tops[0]}", "file", user(), group(), "600"),
        (f"/srv/share/{tops[0]}", "dir", user(), group(), "770"),
        (f"/srv/share/{tops[1]}", "file", user(), group(), rng.choice(("444", "440"))),
        (f"/srv/share/{tops[0]}/2024", "file", user(), group(), rng.choice(("660", "664"))),
        (f"/srv/share/{tops[2]}", "dir", user(), group(), rng.choice(("1777", "1770"))),
    ]
    expected = {}
    for path, kind in [*((f, "dir") for f in folders), *((f, "file") for f in files)]:
        rule = next(r for r in reversed(rules) if r[1] == kind and f"{path}/".startswith(f"{r[0]}/"))
        expected[path] = [int(rule[4], 8), users[rule[2]], groups[rule[3]]]
    modes = "\n".join(f"chmod {rng.choice(('777', '600', '4755', '644', '2755'))} '{f}'" for f in files)
    setup = "\n".join(
        [
            *(f"groupadd -g {number} {name}" for name, number in groups.items()),
            *(f"useradd -u {number} -M -N {name}" for name, number in users.items()),
            modes,
            "mkdir -p /srv/outside; echo keep > /srv/outside/ledger; chmod 604 /srv/outside/ledger",
            f"ln -s /srv/outside/ledger '/srv/share/{tops[1]}/ledger'",
            f"ln -s /srv/outside '/srv/share/{tops[2]}/elsewhere'",
        ]
    )
    solution = python(_POLICY)
    shell = "\n".join(
        f"find {below} -type {kind[0]} -exec chown {owner}:{group} {{}} + -exec chmod {int(mode, 8):04o} {{}} +"
        for below, kind, owner, group, mode in rules
    )
    return Draft(
        family="permission_policy",
        seed=seed,
        difficulty="easy",
        instruction="The modes under /srv/share are a mess. The table /etc/share-policy.csv "
        "(below,kind,owner,group,mode) "
        "says how it should be: a line applies to the folder `below` itself and everything under it that is of "
        "its kind "
        "(`dir` or `file`); when several lines apply, the last of them wins. Give every folder and every regular file "
        "the owner, group and exact octal mode it should have. Symbolic links and what they point to outside of the "
        "tree must not be touched, and no content changes.",
        files=(
            *(TaskFile(path=path, text=f"{number}\n") for number, path in enumerate(files)),
            TaskFile(
                path="/etc/share-policy.csv",
                text="below,kind,owner,group,mode\n" + "".join(",".join(rule) + "\n" for rule in rules),
            ),
        ),
        setup=(setup,),
        solution=(solution,),
        right=(Variant(name="find_in_order", commands=(shell,)),),
        weak=(
            Variant(name="first_line_wins", commands=(python(changed(_POLICY, ("reversed(rules)", "rules"))),)),
            Variant(name="links_followed", commands=(solution, "chmod 640 /srv/share/*/ledger")),
            Variant(
                name="neighbours_by_name",
                commands=(
                    python(
                        changed(
                            _POLICY,
                            (
                                '(path + "/").startswith(rule["below"].rstrip("/") + "/")',
                                'path.startswith(rule["below"])',
                            ),
                        )
                    ),
                ),
            ),
            Variant(name="modes_only", commands=(python(changed(_POLICY, ("os.chown", "print"))),)),
        ),
        verifier=filled(
            """
import os
import stat

WANTED = __WANTED__


def state(path):
    found = os.lstat(path)
    return [stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid]


def test_every_entry_follows_the_policy():
    assert {path: state(path) for path in WANTED} == WANTED


def test_nothing_outside_was_touched(box):
    assert state("/srv/outside/ledger") == [0o604, 0, 0] and state("/srv/outside")[1:] == [0, 0]
    assert all(stat.S_ISLNK(os.lstat(link).st_mode) for link in __LINKS__)
    assert [box.text(path) for path in __FILES__] == [f"{number}\\n" for number in range(__COUNT__)]
""",
            wanted=expected,
            links=[f"/srv/share/{tops[1]}/ledger", f"/srv/share/{tops[2]}/elsewhere"],
            files=files,
            count=len(files),
        ),
    )


_SWEEP = r"""
import os, stat
root = "/opt/apps"
allowed = {l.split("#")[0].strip() for l in open("/etc/allowed-setuid")} - {""}
users = {int(l.split(":")[2]) for l in open("/etc/passwd")}
groups = {int(l.split(":")[2]) for l in open("/etc/group")}
found = []
for folder, folders, files in os.walk(root):
    for name in folders + files:
        path = os.path.join(folder, name)
        s = os.lstat(path)
        if stat.S_ISLNK(s.st_mode):
            continue
        mode = stat.S_IMODE(s.st_mode)
        if s.st_uid not in users or s.st_gid not in groups:
            found.append(("unowned", path))
            os.chown(path, 0, 0)
        if stat.S_ISREG(s.st_mode) and mode & 0o6000 and path not in allowed:
            found.append(("setuid", path))
            mode &= ~0o6000
        if mode & 0o002 and not (stat.S_ISDIR(s.st_mode) and mode & 0o1000):
            found.append(("writable", path))
            mode &= ~0o002
        os.chmod(path, mode)
with open("/work/findings.txt", "w") as out:
    out.writelines(f"{kind} {path}\n" for kind, path in sorted(found))
"""


def setuid_sweep(seed: int, context: Context) -> Draft:
    """Dangerous modes and lost owners in a tree, reported and put right."""
    rng = chance("security", "setuid_sweep", seed)
    words = rng.sample(("agent", "batch", "cache", "daemon", "editor", "feeds", "gate", "hooks", "index", "jobs"), 10)
    paths = [f"/opt/apps/{words[n % 4]}/{('bin', 'lib', 'var')[n % 3]}/{word}{n}" for n, word in enumerate(words * 2)]
    state: dict[str, tuple[int, int, int]] = {path: (rng.choice((0o644, 0o755, 0o640)), 0, 0) for path in paths}
    picked = iter(rng.sample(paths, 12))
    allowed = [next(picked) for _ in range(2)]
    for path in allowed:
        state[path] = (0o4755, 0, 0)
    planted = ((0o4755, 0, 0), (0o2755, 0, 0), (0o6711, 0, 0), (0o666, 0, 0), (0o757, 0, 0), (0o4777, 0, 0))
    for path, bits in zip(picked, planted, strict=False):
        state[path] = bits
    for path in (next(picked), next(picked)):
        state[path] = (0o644, rng.choice((4242, 0)), 5151)
    folders = {
        f"/opt/apps/{words[0]}/spool": 0o1777,
        f"/opt/apps/{words[1]}/drop": 0o777,
        f"/opt/apps/{words[2]}/team": 0o2775,
    }
    findings, after = [], {}
    for path, (mode, owner, group) in [*state.items(), *((f, (m, 0, 0)) for f, m in folders.items())]:
        is_folder = path in folders
        if owner or group:
            findings.append(f"unowned {path}")
        if not is_folder and mode & 0o6000 and path not in allowed:
            findings.append(f"setuid {path}")
            mode &= ~0o6000
        if mode & 0o002 and not (is_folder and mode & 0o1000):
            findings.append(f"writable {path}")
            mode &= ~0o002
        after[path] = f"{mode:o}"
    make = [f"install -D -m {mode:o} -o {u} -g {g} /dev/null {p}" for p, (mode, u, g) in state.items()]
    make += [f"mkdir -p {path} && chmod {mode:o} {path}" for path, mode in folders.items()]
    listed = "# reviewed in spring\n" + "".join(f"{path}   # needs it\n" for path in allowed)
    return Draft(
        family="setuid_sweep",
        seed=seed,
        difficulty="medium",
        instruction="An auditor is coming: sweep /opt/apps (everything below it, without following symbolic links).\n"
        "1. `unowned`: owner or group number is unknown to /etc/passwd or /etc/group. Give it to root:root.\n"
        "2. `setuid`: a regular file has the set-user-ID or set-group-ID bit and its path is not in "
        "/etc/allowed-setuid "
        "(one path a line, `#` begins a comment). Take both bits away.\n"
        "3. `writable`: a file or folder may be written by everybody, unless it is a folder with the sticky bit. Take "
        "that one permission bit away.\n"
        "Something may have several faults. All other mode bits stay, and files that were set-ID by permission keep "
        "theirs. List what you found, as it was before, in /work/findings.txt: lines `<fault> <path>`, sorted as text "
        "in byte order.",
        files=(TaskFile(path="/etc/allowed-setuid", text=listed),),
        setup=("\n".join(make), f"ln -s /etc/passwd /opt/apps/{words[3]}/accounts"),
        solution=(python(_SWEEP),),
        right=(
            Variant(
                name="with_find",
                commands=(
                    "grep -o '^/[^ ]*' /etc/allowed-setuid > /tmp/ok; find /opt/apps -mindepth 1 \\( -nouser -o "
                    "-nogroup \\) ! -type l -printf 'unowned %p\\n' > /tmp/f",
                    "find /opt/apps -type f -perm /6000 | grep -vxFf /tmp/ok | sed 's/^/setuid /' >> /tmp/f",
                    "find /opt/apps -mindepth 1 ! -type l -perm -2 ! \\( -type d -perm -1000 \\) -printf "
                    "'writable %p\\n' >> /tmp/f",
                    "LC_ALL=C sort /tmp/f > findings.txt; sed -n 's/^unowned //p' /tmp/f | xargs chown root:root",
                    "sed -n 's/^setuid //p' /tmp/f | xargs chmod ug-s; sed -n 's/^writable //p' /tmp/f | xargs "
                    "chmod o-w",
                ),
            ),
        ),
        weak=(
            Variant(
                name="report_only",
                commands=(python(changed(_SWEEP, ("os.chmod(path, mode)", "pass"), ("os.chown(path, 0, 0)", "pass"))),),
            ),
            Variant(name="allowed_ones_too", commands=(python(changed(_SWEEP, (" and path not in allowed", ""))),)),
            Variant(name="group_bit_missed", commands=(python(changed(_SWEEP, ("0o6000", "0o4000"))),)),
        ),
        verifier=filled(
            """
import os

MODES = __MODES__
FINDINGS = __FINDINGS__


def test_faults_are_reported(box):
    assert box.text("/work/findings.txt").splitlines() == FINDINGS


def test_modes_afterwards():
    now = {name: format(os.lstat(name).st_mode & 0o7777, "o") for name in MODES}
    assert now == MODES


def test_everything_has_an_owner():
    strange = [name for name in MODES if (os.lstat(name).st_uid, os.lstat(name).st_gid) != (0, 0)]
    assert not strange
""",
            modes=after,
            findings=sorted(findings),
        ),
    )
