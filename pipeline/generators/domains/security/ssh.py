"""Keys of SSH and the daemon that takes them."""

from __future__ import annotations

import base64
import hashlib
import random

from pipeline.generators.domains.security.commands import changed, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant


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
    options = rng.choice(
        ('from="10.0.0.0/8",no-agent-forwarding', "restrict,pty", "no-port-forwarding,no-X11-forwarding")
    )
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
        config.append(
            (f"{name} {old}", f"{name.lower()} {old}", f"#{name} {policy[name]}", f"{name.upper()}\t{old}")[number % 4]
        )
        if number % 3 == 0:
            config.append(f"{name} {policy[name]}")
    kept_name = next(iter(policy))
    block = ["Match User backup", f"    {kept_name} {pool[kept_name][1]}", "    AllowAgentForwarding no"]
    config += ["", *block]
    entries = [
        ("ssh-ed25519", 0),
        ("ssh-rsa", 1024),
        ("ssh-rsa", 4096),
        ("ssh-dss", 0),
        ("ssh-rsa", 2048),
        ("ssh-ed25519", 0),
        ("ssh-rsa", least),
    ]
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
                commands=(
                    python(
                        changed(
                            solution,
                            (
                                '"\\n".join([f"{k} {v}" for k, v in wanted.items()] + head + lines[match:])',
                                '"\\n".join(lines + [f"{k} {v}" for k, v in wanted.items()])',
                            ),
                        )
                    ),
                    "chmod 600 /home/deploy/.ssh/authorized_keys",
                ),
            ),
            Variant(name="open_to_the_group", commands=(python(solution),)),
            Variant(
                name="match_lost",
                commands=(
                    python(changed(solution, (" + lines[match:]", ""))),
                    "chmod 600 /home/deploy/.ssh/authorized_keys",
                ),
            ),
            Variant(
                name="short_keys_stay",
                commands=(
                    python(changed(solution, (f"< {least}", "< 1024"))),
                    "chmod 600 /home/deploy/.ssh/authorized_keys",
                ),
            ),
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
        files.append(
            TaskFile(path=f"/work/keys/{name}.pub", text=f"{kind} {base64.b64encode(blob).decode()} {comment}\n")
        )
        sha = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
        md5 = hashlib.md5(blob, usedforsecurity=False).hexdigest()
        digest = f"SHA256:{sha}" if seed % 2 == 0 else "MD5:" + ":".join(md5[i : i + 2] for i in range(0, 32, 2))
        rows.append([name, str(bits), "RSA" if kind == "ssh-rsa" else "ED25519", digest, comment])
    kind = "sha256" if seed % 2 == 0 else "md5"
    order = ("owner", "fingerprint")[seed // 2 % 2]
    rows.sort(key=lambda row: row[0] if order == "owner" else row[3])
    column = 1 if order == "owner" else 4
    other = "-E md5" if kind == "sha256" else "-E sha256"
    listing = (
        f'for f in keys/*.pub; do b=${{f##*/}}; echo "${{b%.pub}} $(ssh-keygen -E {kind} -lf $f)"; done '
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
        right=(
            Variant(
                name="written_twice", commands=(f"{listing} > /tmp/list; sed 's/$/\\r/' /tmp/list > fingerprints.csv",)
            ),
        ),
        weak=(
            Variant(
                name="other_digest",
                commands=(f"{listing.replace(f'-E {kind}', other)} > fingerprints.csv",),
            ),
            Variant(
                name="as_printed",
                commands=(f"for f in keys/*.pub; do ssh-keygen -E {kind} -lf $f; done > fingerprints.csv",),
            ),
            Variant(
                name="with_header",
                commands=(f"(echo 'owner;bits;type;fingerprint;comment'; {listing}) > fingerprints.csv",),
            ),
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
