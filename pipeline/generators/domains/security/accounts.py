"""Permissions and logins: trees that follow a policy, dangerous modes, the SSH server, lists of keys."""

from __future__ import annotations

import base64
import hashlib
import random

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
    folders = ["/srv/share", *(f"/srv/share/{t}" for t in tops), f"/srv/share/{tops[0]}/2024", f"/srv/share/{tops[0]}/2024/q1"]
    folders.append(f"/srv/share/{tops[0]}2")
    files = [f"{f}/{rng.choice(('a b', 'note', 'plan', 'x'))}{n}.{rng.choice(('txt', 'sh', 'csv'))}" for n, f in enumerate(folders * 2)]
    user, group = (lambda: rng.choice(list(users))), (lambda: rng.choice(list(groups)))
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
        instruction="The modes under /srv/share are a mess. The table /etc/share-policy.csv (below,kind,owner,group,mode) "
        "says how it should be: a line applies to the folder `below` itself and everything under it that is of its kind "
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
                commands=(python(changed(_POLICY, ('(path + "/").startswith(rule["below"].rstrip("/") + "/")', 'path.startswith(rule["below"])'))),),
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
    folders = {f"/opt/apps/{words[0]}/spool": 0o1777, f"/opt/apps/{words[1]}/drop": 0o777, f"/opt/apps/{words[2]}/team": 0o2775}
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
        "2. `setuid`: a regular file has the set-user-ID or set-group-ID bit and its path is not in /etc/allowed-setuid "
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
                    "grep -o '^/[^ ]*' /etc/allowed-setuid > /tmp/ok; find /opt/apps -mindepth 1 \\( -nouser -o -nogroup \\) ! -type l -printf 'unowned %p\\n' > /tmp/f",
                    "find /opt/apps -type f -perm /6000 | grep -vxFf /tmp/ok | sed 's/^/setuid /' >> /tmp/f",
                    "find /opt/apps -mindepth 1 ! -type l -perm -2 ! \\( -type d -perm -1000 \\) -printf 'writable %p\\n' >> /tmp/f",
                    "LC_ALL=C sort /tmp/f > findings.txt; sed -n 's/^unowned //p' /tmp/f | xargs chown root:root",
                    "sed -n 's/^setuid //p' /tmp/f | xargs chmod ug-s; sed -n 's/^writable //p' /tmp/f | xargs chmod o-w",
                ),
            ),
        ),
        weak=(
            Variant(name="report_only", commands=(python(changed(_SWEEP, ("os.chmod(path, mode)", "pass"), ("os.chown(path, 0, 0)", "pass"))),)),
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


def _blob(rng: random.Random, kind: str, bits: int = 0) -> bytes:
    """The binary form of a public key."""
    fields = [kind.encode()]
    if kind == "ssh-ed25519":
        fields.append(rng.randbytes(32))
    elif kind == "ssh-rsa":
        fields += [b"\1\0\1", b"\0" + (rng.getrandbits(bits) | 1 << bits - 1 | 1).to_bytes(bits // 8, "big")]
    else:
        fields += [rng.getrandbits(1024).to_bytes(128, "big") for _ in range(4)]
    return b"".join(len(f).to_bytes(4, "big") + f for f in fields)


_SSHD = r"""
import base64
wanted = dict(l.split(None, 1) for l in open("/work/policy.txt").read().splitlines() if l and not l.startswith("#"))
lines = open("/etc/ssh/sshd_config").read().splitlines()
match = next((i for i, l in enumerate(lines) if l.strip().lower().startswith("match ")), len(lines))
low = {k.lower() for k in wanted}
head = [l for l in lines[:match] if not l.split() or l.split()[0].lower() not in low]
text = "\n".join([f"{k} {v}" for k, v in wanted.items()] + head + lines[match:]) + "\n"
open("/etc/ssh/sshd_config", "w").write(text)
kept = []
for line in open("/home/deploy/.ssh/authorized_keys").read().splitlines():
    words = line.split() if line else []
    place = next((i for i, w in enumerate(words) if w.startswith("ssh-")), None)
    if place is None or line.startswith("#"):
        continue
    blob = base64.b64decode(words[place + 1])
    if words[place] == "ssh-dss":
        continue
    if words[place] == "ssh-rsa":
        size = int.from_bytes(blob[18:22], "big")
        if int.from_bytes(blob[22:22 + size], "big").bit_length() < LEAST:
            continue
    if (words[place], words[place + 1]) not in [k[:2] for k in kept]:
        kept.append((words[place], words[place + 1], OPTIONS + " " + " ".join(words[place:])))
open("/home/deploy/.ssh/authorized_keys", "w").write("".join(k[2] + "\n" for k in kept))
"""


def sshd_hardening(seed: int, context: Context) -> Draft:
    """The configuration of an SSH server and a list of keys, brought to a policy."""
    rng = chance("security", "sshd_hardening", seed)
    least = rng.choice((2048, 3072))
    options = rng.choice(('from="10.0.0.0/8",no-agent-forwarding', "restrict,pty", 'no-port-forwarding,no-X11-forwarding'))
    pool = {
        "PermitRootLogin": ("no", "yes"),
        "PasswordAuthentication": ("no", "yes"),
        "X11Forwarding": ("no", "yes"),
        "MaxAuthTries": (str(rng.randint(2, 4)), "6"),
        "LoginGraceTime": (str(rng.choice((20, 30, 45))), "120"),
        "AllowTcpForwarding": ("no", "yes"),
        "ClientAliveInterval": (str(rng.choice((200, 300))), "0"),
        "LogLevel": ("VERBOSE", "INFO"),
        "PermitEmptyPasswords": ("no", "yes"),
    }
    policy = {name: pool[name][0] for name in rng.sample(tuple(pool), 6)}
    rest = {"Port": "22", "HostKey": "/etc/ssh/ssh_host_ed25519_key", "Subsystem": "sftp /usr/lib/openssh/sftp-server"}
    rest |= {name: old for name, (_, old) in pool.items() if name not in policy}
    config = [f"# managed since {2019 + seed}", *(f"{k} {v}" for k, v in rest.items())]
    for number, name in enumerate(policy):
        old = pool[name][1]
        config.append((f"{name} {old}", f"{name.lower()} {old}", f"#{name} {policy[name]}", f"{name.upper()}\t{old}")[number % 4])
        if number % 3 == 0:
            config.append(f"{name} {policy[name]}")
    kept_name = next(iter(policy))
    block = ["Match User backup", f"    {kept_name} {pool[kept_name][1]}", "    AllowAgentForwarding no"]
    config += ["", *block]
    entries = [("ssh-ed25519", 0), ("ssh-rsa", 1024), ("ssh-rsa", 4096), ("ssh-dss", 0), ("ssh-rsa", 2048), ("ssh-ed25519", 0), ("ssh-rsa", least)]
    rng.shuffle(entries)
    lines, kept = ["# keys of the team"], []
    for number, (kind, bits) in enumerate(entries):
        encoded = base64.b64encode(_blob(rng, kind, bits)).decode()
        before = rng.choice(("", "", 'command="/bin/true",no-pty '))
        lines.append(f"{before}{kind} {encoded} key{number}@laptop")
        if kind == "ssh-ed25519" or bits >= least:
            kept.append([kind, encoded, f"key{number}@laptop"])
    lines.append(f"{kept[0][0]} {kept[0][1]} again@desk")
    solution = changed(_SSHD, ("LEAST", str(least)), ("OPTIONS", repr(options)))
    return Draft(
        family="sshd_hardening",
        seed=seed,
        difficulty="medium",
        instruction="Please harden SSH on this box before it goes out; no server runs here, only files count.\n"
        "/etc/ssh/sshd_config: every setting of /work/policy.txt (`Keyword value` lines) must be what counts globally. "
        "Remember that sshd takes the first value it finds, that keywords ignore case, and that what follows a Match "
        "line is not global. All other global settings keep their values; the Match block at the end must stay as it "
        "is and remain last.\n"
        "/home/deploy/.ssh/authorized_keys: drop ssh-dss keys and RSA keys whose modulus is shorter than "
        f"{least} bits; of a key that is listed twice keep the first line; comment lines may go. Each kept line gets "
        f"exactly the options `{options}` in front, replacing whatever options it had, then type, key and comment as "
        "they were. Keep the order. The file must belong to uid 1500 and have mode 600.",
        files=(
            TaskFile(path="/etc/ssh/sshd_config", text="\n".join(config) + "\n"),
            TaskFile(path="/home/deploy/.ssh/authorized_keys", text="\n".join(lines) + "\n", mode=0o664),
            TaskFile(path="/work/policy.txt", text="# baseline\n" + "".join(f"{k} {v}\n" for k, v in policy.items())),
        ),
        setup=("chown -R 1500:1500 /home/deploy",),
        solution=(python(solution), "chmod 600 /home/deploy/.ssh/authorized_keys"),
        right=(
            Variant(
                name="lower_case_and_comments",
                commands=(
                    python(changed(solution, ('f"{k} {v}"', 'f"{k.lower()}   {v}"'))),
                    "chmod 600 /home/deploy/.ssh/authorized_keys; sed -i '1i # keys' /home/deploy/.ssh/authorized_keys",
                ),
            ),
        ),
        weak=(
            Variant(
                name="appended",
                commands=(python(changed(solution, ('"\\n".join([f"{k} {v}" for k, v in wanted.items()] + head + lines[match:])', '"\\n".join(lines + [f"{k} {v}" for k, v in wanted.items()])'))), "chmod 600 /home/deploy/.ssh/authorized_keys"),
            ),
            Variant(name="open_to_the_group", commands=(python(solution),)),
            Variant(name="match_lost", commands=(python(changed(solution, (" + lines[match:]", ""))), "chmod 600 /home/deploy/.ssh/authorized_keys")),
            Variant(name="short_keys_stay", commands=(python(changed(solution, (f"< {least}", "< 1024"))), "chmod 600 /home/deploy/.ssh/authorized_keys")),
        ),
        verifier=filled(
            """
import os

GLOBAL = __GLOBAL__
BLOCK = __BLOCK__


def halves(box):
    lines = [line.split() for line in box.text("/etc/ssh/sshd_config").splitlines()]
    lines = [words for words in lines if words and not words[0].startswith("#")]
    border = [words[0].lower() for words in lines].index("match")
    return lines[:border], lines[border:]


def test_global_settings(box):
    counted = {}
    for keyword, *value in halves(box)[0]:
        counted.setdefault(keyword.lower(), " ".join(value))
    assert counted == GLOBAL


def test_match_block_is_last_and_unchanged(box):
    assert halves(box)[1] == BLOCK


def test_keys(box):
    path = "/home/deploy/.ssh/authorized_keys"
    lines = [line for line in box.text(path).splitlines() if line and not line.startswith("#")]
    assert [line.split() for line in lines] == __KEYS__
    assert (os.lstat(path).st_uid, os.lstat(path).st_mode & 0o777) == (1500, 0o600)
""",
            **{"global": {k.lower(): v for k, v in (rest | policy).items()}},
            block=[line.split() for line in block],
            keys=[[*options.split(), *key] for key in kept],
        ),
    )


def key_fingerprints(seed: int, context: Context) -> Draft:
    """An overview of public keys by their fingerprints."""
    rng = chance("security", "key_fingerprints", seed)
    names = rng.sample(("anna", "ben", "cleo", "dag", "edda", "finn", "gerd"), 6)
    files, rows = [], []
    for number, name in enumerate(names):
        kind, bits = (("ssh-ed25519", 256), ("ssh-rsa", 2048), ("ssh-rsa", 3072))[number % 3]
        blob = _blob(rng, kind, bits)
        comment = f"{name}@host{rng.randint(1, 99)}"
        files.append(TaskFile(path=f"/work/keys/{name}.pub", text=f"{kind} {base64.b64encode(blob).decode()} {comment}\n"))
        sha = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
        md5 = hashlib.md5(blob, usedforsecurity=False).hexdigest()
        digest = f"SHA256:{sha}" if seed % 2 == 0 else "MD5:" + ":".join(md5[i : i + 2] for i in range(0, 32, 2))
        rows.append([name, str(bits), "RSA" if kind == "ssh-rsa" else "ED25519", digest, comment])
    kind = "sha256" if seed % 2 == 0 else "md5"
    order = ("owner", "fingerprint")[seed // 2 % 2]
    rows.sort(key=lambda row: row[0] if order == "owner" else row[3])
    column = 1 if order == "owner" else 4
    listing = (
        f"for f in keys/*.pub; do b=${{f##*/}}; echo \"${{b%.pub}} $(ssh-keygen -E {kind} -lf $f)\"; done "
        "| sed -E 's/^(\\S+) (\\S+) (\\S+) (.*) \\((.*)\\)$/\\1;\\2;\\5;\\3;\\4/' "
        f"| LC_ALL=C sort -t';' -k{column},{column}"
    )
    return Draft(
        family="key_fingerprints",
        seed=seed,
        difficulty="easy",
        instruction="Make me an overview of the SSH public keys in /work/keys for our wiki, as /work/fingerprints.csv "
        "with semicolons between fields and no header. One line per file: owner (file name without .pub), bits, type "
        f"(RSA or ED25519), the {kind.upper()} fingerprint as ssh-keygen prints it with its prefix, and the comment. "
        f"Sort the lines by {order} in byte order.",
        files=tuple(files),
        solution=(f"{listing} > fingerprints.csv",),
        right=(Variant(name="written_twice", commands=(f"{listing} > /tmp/list; sed 's/$/\\r/' /tmp/list > fingerprints.csv",)),),
        weak=(
            Variant(name="other_digest", commands=(f"{listing.replace(f'-E {kind}', '-E ' + ('md5' if kind == 'sha256' else 'sha256'))} > fingerprints.csv",)),
            Variant(name="as_printed", commands=(f"for f in keys/*.pub; do ssh-keygen -E {kind} -lf $f; done > fingerprints.csv",)),
            Variant(name="with_header", commands=(f"(echo 'owner;bits;type;fingerprint;comment'; {listing}) > fingerprints.csv",)),
        ),
        verifier=filled(
            """
def test_one_line_for_each_key(box):
    listed = [line.split(";") for line in box.text("/work/fingerprints.csv").splitlines()]
    assert sorted(owner for owner, *_ in listed) == __OWNERS__


def test_fingerprints_in_order(box):
    listed = box.text("/work/fingerprints.csv").splitlines()
    assert [tuple(line.split(";")) for line in listed] == __LINES__
""",
            owners=sorted(names),
            lines=[tuple(row) for row in rows],
        ),
    )
