"""Certificates: making a small authority, and sorting out what lies in a folder of keys and certificates."""

from __future__ import annotations

import json
import shlex

from pipeline.generators.domains.security.commands import changed, python
from pipeline.generators.drafts import Context, Draft, chance, filled
from pipeline.types import Variant

_NAMED = {
    "serverAuth": "1.3.6.1.5.5.7.3.1",
    "clientAuth": "1.3.6.1.5.5.7.3.2",
}
_READER = '''
import base64
import calendar
import hashlib
import os

import pytest

FOLDER = "/work/pki/"


def split(data):
    """Elements of a DER sequence: tag, content, and the whole."""
    found = []
    while data:
        size, head = data[1], 2
        if size > 127:
            head += size - 128
            size = int.from_bytes(data[2:head], "big")
        found.append((data[0], data[head : head + size], data[: head + size]))
        data = data[head + size :]
    return found


def oid(body):
    numbers, value = [body[0] // 40, body[0] % 40], 0
    for byte in body[1:]:
        value = value << 7 | byte & 127
        if byte < 128:
            numbers.append(value)
            value = 0
    return ".".join(map(str, numbers))


def moment(text):
    text = text.decode().rstrip("Z")
    text = text if len(text) == 14 else "20" + text
    return calendar.timegm([int(text[:4])] + [int(text[i : i + 2]) for i in range(4, 14, 2)] + [0, 0, 0])


def blocks(text):
    return [base64.b64decode(part.split("-----")[0]) for part in text.split("-----BEGIN CERTIFICATE-----")[1:]]


class Certificate:
    def __init__(self, der):
        (_, _, self.signed), (_, algorithm, _), (_, signature, _) = split(split(der)[0][1])
        self.algorithm = oid(split(algorithm)[0][1])
        self.signature = int.from_bytes(signature[1:], "big")
        fields = split(split(self.signed)[0][1])[1:]
        self.issuer, self.subject = fields[2][1], fields[4][1]
        self.seconds = moment(split(fields[3][1])[1][1]) - moment(split(fields[3][1])[0][1])
        parts = (split(part)[0][1] for _, part, _ in split(self.subject))
        self.names = {oid(split(s)[0][1]): split(s)[1][1].decode() for s in parts}
        key = split(split(split(fields[5][1])[1][1][1:])[0][1])
        self.modulus, self.exponent = (int.from_bytes(number[1], "big") for number in key)
        self.extensions = {}
        for _, body, _ in split(split(fields[-1][1])[0][1]):
            parts = split(body)
            self.extensions[oid(parts[0][1])] = (len(parts) == 3, split(parts[-1][1])[0])

    def is_signed_by(self, other, name, prefix):
        size = (other.modulus.bit_length() + 7) // 8
        made = bytes.fromhex(prefix) + hashlib.new(name, self.signed).digest()
        padded = b"\\0\\1" + b"\\xff" * (size - len(made) - 3) + b"\\0" + made
        return pow(self.signature, other.exponent, other.modulus) == int.from_bytes(padded, "big")


@pytest.fixture
def authority(box):
    return Certificate(blocks(box.text(FOLDER + "ca.crt"))[0])


@pytest.fixture
def leaf(box):
    return Certificate(blocks(box.text(FOLDER + "__LEAF__.crt"))[0])


def test_authority(authority):
    assert authority.names["2.5.4.3"] == __CA_NAME__ and authority.issuer == authority.subject
    assert authority.is_signed_by(authority, __DIGEST__, __PREFIX__) and authority.seconds == __CA_DAYS__ * 86400
    critical, (_, limits, _) = authority.extensions["2.5.29.19"]
    assert critical and [(tag, body) for tag, body, _ in split(limits)] == __CONSTRAINTS__
    assert authority.extensions["2.5.29.15"][1][1][1] == 0b110


def test_leaf(leaf, authority):
    assert leaf.issuer == authority.subject and leaf.is_signed_by(authority, __DIGEST__, __PREFIX__)
    assert leaf.names == __SUBJECT__ and leaf.seconds == __DAYS__ * 86400
    names = {(tag, body) for tag, body, _ in split(leaf.extensions["2.5.29.17"][1][1])}
    assert names == __NAMES__
    assert {oid(body) for _, body, _ in split(leaf.extensions["2.5.29.37"][1][1])} == __USAGES__
    assert not split(leaf.extensions["2.5.29.19"][1][1]) if "2.5.29.19" in leaf.extensions else True


def test_keys_and_chain(box, leaf, authority):
    assert [os.lstat(f"{FOLDER}{name}.key").st_mode & 0o777 for name in ("ca", __LEAF__)] == [0o600, 0o600]
    for name, owner in (("ca", authority), (__LEAF__, leaf)):
        text = box.text(f"{FOLDER}{name}.key")
        der = base64.b64decode("".join(line for line in text.splitlines() if not line.startswith("-----")))
        assert owner.modulus.to_bytes(__BYTES__, "big") in der and owner.modulus.bit_length() == __BYTES__ * 8
    chain = [Certificate(der).signed for der in blocks(box.text(FOLDER + "chain.pem"))]
    assert chain == [leaf.signed, authority.signed]
'''
_PREFIXES = {
    "sha256": "3031300d060960864801650304020105000420",
    "sha384": "3041300d060960864801650304020205000430",
    "sha512": "3051300d060960864801650304020305000440",
}


def private_ca(seed: int, context: Context) -> Draft:
    """An authority of one's own and the first certificate that it signs."""
    rng = chance("security", "private_ca", seed)
    digest = ("sha256", "sha384", "sha256", "sha512")[seed % 4]
    usages = (("serverAuth",), ("clientAuth",), ("serverAuth", "clientAuth"), ("serverAuth",))[seed % 4]
    leaf = ("web", "laptop", "broker", "mail")[seed % 4]
    company, ca_name = (
        rng.choice(("Kiosk Works", "Tidal Labs", "North Mill")),
        f"{leaf.title()} Test Root {rng.randint(1, 9)}",
    )
    hosts = [f"{leaf}{n}.intern.example" for n in rng.sample(range(1, 30), 2)]
    names = {
        0: [("DNS", hosts[0]), ("DNS", "*.intern.example"), ("IP", "10.20.0.7")],
        1: [("email", f"{leaf}@intern.example"), ("DNS", hosts[0])],
        2: [("DNS", hosts[0]), ("DNS", hosts[1]), ("IP", "127.0.0.1")],
        3: [("DNS", hosts[1]), ("DNS", "localhost"), ("IP", "192.168.7.25"), ("DNS", hosts[0])],
    }[seed % 4]
    limited = seed % 2 == 0
    days, ca_days = rng.choice((90, 180, 397)), rng.choice((1825, 3650))
    tags = {"DNS": 0x82, "email": 0x81, "IP": 0x87}
    encoded = {
        (tags[kind], bytes(map(int, name.split("."))) if kind == "IP" else name.encode()) for kind, name in names
    }
    constraints = "critical,CA:TRUE" + (",pathlen:0" if limited else "")
    subject = f"/O={company}/CN={hosts[0]}"
    san = ",".join(f"{kind}:{name}" for kind, name in names)
    root = (
        f"umask 077; mkdir -p /work/pki; cd /work/pki; openssl req -x509 -newkey rsa:2048 -nodes -{digest} -days "
        f"{ca_days} "
        f"-subj {shlex.quote('/CN=' + ca_name)} -keyout ca.key -out ca.crt "
        f"-addext basicConstraints={constraints} -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null"
    )
    request = (
        f"openssl req -new -newkey rsa:2048 -nodes -keyout {leaf}.key -subj {shlex.quote(subject)} -out "
        f"{leaf}.csr 2>/dev/null"
    )
    extension = (
        f"printf 'subjectAltName=%s\\nextendedKeyUsage=%s\\nbasicConstraints=CA:FALSE\\n' '{san}' "
        f"{','.join(usages)} > {leaf}.ext"
    )
    sign = (
        f"openssl x509 -req -in {leaf}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -{digest} -days {days} "
        f"-extfile {leaf}.ext -out {leaf}.crt 2>/dev/null"
    )
    chain = f"cat {leaf}.crt ca.crt > chain.pem"
    solution = (root, request, extension, sign, chain)
    config = (
        f"[req]\ndistinguished_name=dn\nprompt=no\nx509_extensions=leaf\n[dn]\nO={company}\nCN={hosts[0]}\n"
        f"[leaf]\nsubjectAltName={san}\nextendedKeyUsage={','.join(usages)}\n"
    )
    other = (
        root,
        f"cat > leaf.cnf <<'END'\n{config}END",
        f"openssl genrsa -traditional -out {leaf}.key 2048 2>/dev/null",
        f"openssl req -x509 -config leaf.cnf -key {leaf}.key -CA ca.crt -CAkey ca.key -{digest} -days {days} -out "
        f"{leaf}.crt",
        f"openssl x509 -in {leaf}.crt > chain.pem; openssl x509 -in ca.crt >> chain.pem",
    )
    wanted = "\n".join(f"  - {kind} {name}" for kind, name in names)
    return Draft(
        family="private_ca",
        seed=seed,
        difficulty="hard",
        instruction="Set up a little certificate authority for our test network, everything as PEM in the folder "
        "/work/pki (make it).\n"
        f"* ca.key and ca.crt: a self-signed root with common name `{ca_name}` (further name parts as you like), "
        f"good for exactly {ca_days} days. Critical basic constraints: it is a CA"
        + (", path length 0" if limited else ", without a path length")
        + ". Key usage: certificate signing and CRL signing, nothing else.\n"
        f"* {leaf}.key and {leaf}.crt: subject with organisation `{company}` and common name `{hosts[0]}` only, signed "
        f"by the root, valid exactly {days} days, not a CA, extended key usage {' and '.join(usages)} only, with these "
        f"subject alternative names and no others:\n{wanted}\n"
        f"* chain.pem: the {leaf} certificate, then the root.\n"
        f"Both keys are RSA of 2048 bits without a passphrase, readable by their owner only (mode 600); both "
        f"certificates are signed with {digest.upper()}.",
        solution=solution,
        right=(Variant(name="one_step_request", commands=other),),
        weak=(
            Variant(
                name="name_in_subject_only",
                commands=(root, request, f"printf 'extendedKeyUsage={','.join(usages)}\\n' > {leaf}.ext", sign, chain),
            ),
            Variant(
                name="self_signed_leaf",
                commands=(
                    root,
                    request,
                    extension,
                    f"openssl x509 -req -in {leaf}.csr -signkey {leaf}.key -{digest} -days {days} -extfile "
                    f"{leaf}.ext -out {leaf}.crt 2>/dev/null",
                    chain,
                ),
            ),
            Variant(name="keys_for_everybody", commands=(*solution, "chmod 644 *.key")),
            Variant(name="chain_reversed", commands=(*solution[:-1], f"cat ca.crt {leaf}.crt > chain.pem")),
        ),
        verifier=filled(
            _READER.replace('"__LEAF__.crt"', repr(f"{leaf}.crt")),
            leaf=leaf,
            ca_name=ca_name,
            digest=digest,
            prefix=_PREFIXES[digest],
            ca_days=ca_days,
            days=days,
            constraints=[(1, b"\xff"), (2, b"\0")] if limited else [(1, b"\xff")],
            subject={"2.5.4.10": company, "2.5.4.3": hosts[0]},
            names=encoded,
            usages={_NAMED[usage] for usage in usages},
            bytes=256,
        ),
    )


_MAKE = r"""
mkdir -p /work/vault /tmp/ca && cd /tmp/ca && touch index.txt && echo 01 > serial
printf '%s\n' '[ca]' default_ca=a '[a]' database=index.txt serial=serial new_certs_dir=. default_md=sha256 \
  policy=p unique_subject=no '[p]' commonName=supplied > ca.cnf
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj '/CN=Inventory Root' -days 9000 2>/dev/null
new_key() {
  case $1 in
    ec) openssl ecparam -name prime256v1 -genkey -noout;;
    ed) openssl genpkey -algorithm ed25519;;
    *) openssl genrsa 2048 2>/dev/null;;
  esac
}
issue() {
  openssl req -new -key "$1" -subj "/CN=$2" -out r.csr
  openssl ca -batch -notext -config ca.cnf -keyfile ca.key -cert ca.crt -in r.csr -out c.pem -startdate "$3" \
    -enddate "$4" 2>/dev/null
  openssl x509 -in c.pem -outform "$5" -out "$6"
}
"""
_INVENTORY = r"""
import glob, json, subprocess
def run(*command):
    done = subprocess.run(["openssl", *command], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None
keys = {run("pkey", "-in", k, "-pubout"): k.rsplit("/", 1)[1] for k in glob.glob("/work/vault/*.key")}
months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
def moment(text):
    month, day, clock, year, _ = text.split()
    return f"{year}-{months.index(month) + 1:02}-{int(day):02}"
rows = []
for path in sorted(glob.glob("/work/vault/*.crt")):
    form = "PEM" if open(path, "rb").read(10) == b"-----BEGIN" else "DER"
    said = run("x509", "-in", path, "-inform", form, "-noout", "-subject", "-nameopt", "multiline", "-dates")
    name = said.split("commonName")[1].split("=")[1].split("\n")[0].strip()
    begin, end = (moment(said.split(k + "=")[1].split("\n")[0]) for k in ("notBefore", "notAfter"))
    state = "future" if begin > DAY else "expired" if end < DAY else "expiring" if end <= SOON else "valid"
    key = keys.get(run("x509", "-in", path, "-inform", form, "-noout", "-pubkey"))
    rows.append({"file": path.rsplit("/", 1)[1], "name": name, "state": state, "key": key})
used = {row["key"] for row in rows}
json.dump({"certificates": rows, "orphans": sorted(set(keys.values()) - used)}, open("/work/inventory.json", "w"))
"""


def cert_inventory(seed: int, context: Context) -> Draft:
    """Which key belongs to which certificate, and which certificates are out of date."""
    rng = chance("security", "cert_inventory", seed)
    year = 2024 + seed
    day, soon, window = f"{year}-06-15", f"{year}-07-15", 30
    spans = {
        "expired": (f"{year - 1}0110", f"{year}0614"),
        "expiring": (f"{year - 1}0501", f"{year}0715"),
        "valid": (f"{year}0615", f"{year + 1}0614"),
        "future": (f"{year}0701", f"{year + 2}0630"),
    }
    states = [*spans, *rng.choices(tuple(spans), k=4)]
    rng.shuffle(states)
    numbers = rng.sample(range(10, 99), 24)
    lines, rows, orphans = [], [], []
    for number, state in enumerate(states):
        key_file, cert_file = f"k{numbers[number]}.key", f"c{numbers[number + 8]}.crt"
        host = f"{rng.choice(('api', 'db', 'mx', 'vpn'))}{number}.corp.example"
        form = "DER" if rng.random() < 0.4 else "PEM"
        begin, end = spans[state]
        lost = number in (2, 5)
        lines.append(f"new_key {rng.choice(('ec', 'ed', 'ec', 'rsa'))} > /work/vault/{key_file}")
        lines.append(f"issue /work/vault/{key_file} {host} {begin}120000Z {end}120000Z {form} /work/vault/{cert_file}")
        if lost:
            lines.append(f"rm /work/vault/{key_file}")
        rows.append({"file": cert_file, "name": host, "state": state, "key": None if lost else key_file})
    for number in (20, 21):
        orphans.append(f"k{numbers[number]}.key")
        lines.append(f"new_key ec > /work/vault/{orphans[-1]}")
    rows.sort(key=lambda row: str(row["file"]))
    solution = changed(_INVENTORY, ("DAY", repr(day)), ("SOON", repr(soon)))
    blind = json.dumps({"certificates": [{**r, "key": None} for r in rows], "orphans": []})
    return Draft(
        family="cert_inventory",
        seed=seed,
        difficulty="medium",
        instruction="A colleague left a heap of private keys (*.key) and certificates (*.crt, some PEM, some DER) in "
        f"/work/vault. I need to know what fits together, as of noon UTC on {day}. Write /work/inventory.json with\n"
        "`certificates`: objects in order of file name with `file`, `name` (common name of the subject), `state`, and "
        "`key`, the file name of its private key or null when that is not in the folder;\n"
        "`orphans`: sorted file names of the keys that fit no certificate.\n"
        f"`state` is `future` when it begins later than that day, `expired` when it ended before that day, `expiring` "
        f"when it ends within {window} days (up to and including {soon}), else `valid`. Compare the UTC days only. "
        "File names say nothing about what belongs together.",
        setup=(_MAKE + "\n".join(lines) + "\nrm -rf /tmp/ca; chmod 600 /work/vault/*.key",),
        solution=(python(solution),),
        right=(
            Variant(name="indented", commands=(python(solution), "jq . inventory.json > i && mv i inventory.json")),
        ),
        weak=(
            Variant(name="without_soon", commands=(python(changed(solution, ('"expiring" if', '"valid" if'))),)),
            Variant(
                name="pem_only",
                commands=(
                    python(
                        changed(
                            solution,
                            (
                                '    form = "PEM" if',
                                '    if open(path, "rb").read(1) != b"-": continue\n    form = "PEM" if',
                            ),
                        )
                    ),
                ),
            ),
            Variant(name="no_pairs", commands=(f"cat > inventory.json <<'END'\n{blind}\nEND",)),
        ),
        verifier=filled(
            """
import json

PAIRS = __PAIRS__
STATES = __STATES__


def inventory(box):
    return json.loads(box.text("/work/inventory.json"))


def test_keys_are_matched(box):
    listed = inventory(box)["certificates"]
    assert [[entry["file"], entry["key"]] for entry in listed] == PAIRS


def test_names_and_states(box):
    said = {entry["file"]: [entry["name"], entry["state"]] for entry in inventory(box)["certificates"]}
    assert said == STATES


def test_keys_without_certificate(box):
    assert inventory(box)["orphans"] == __ORPHANS__
""",
            pairs=[[r["file"], r["key"]] for r in rows],
            states={str(r["file"]): [r["name"], r["state"]] for r in rows},
            orphans=sorted(orphans),
        ),
    )
