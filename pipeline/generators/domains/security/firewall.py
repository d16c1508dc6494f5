"""Reading a firewall: what a set of rules does to given connections."""

from __future__ import annotations

import ipaddress
import random
from dataclasses import dataclass, replace

from pipeline.generators.domains.security.commands import changed, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant


@dataclass(frozen=True)
class _Rule:
    target: str
    source: str = ""
    not_source: bool = False
    protocol: str = ""
    ports: tuple[tuple[int, int], ...] = ()
    interface: str = ""
    states: tuple[str, ...] = ()

    def text(self, chain: str) -> str:
        words = [f"-A {chain}"]
        if self.source:
            words.append(("! " if self.not_source else "") + f"-s {self.source}")
        if self.interface:
            words.append(f"-i {self.interface}")
        if self.protocol:
            words.append(f"-p {self.protocol}")
        if self.states:
            words.append(f"-m conntrack --ctstate {','.join(self.states)}")
        if len(self.ports) > 1:
            words.append("-m multiport --dports " + ",".join(_span(p, ":") for p in self.ports))
        elif self.ports:
            words.append(f"-m {self.protocol} --dport {_span(self.ports[0], ':')}")
        return " ".join([*words, f"-j {self.target}"])

    def meets(self, packet: _Packet) -> bool:
        if self.source:
            inside = ipaddress.ip_address(packet.source) in ipaddress.ip_network(self.source)
            if inside == self.not_source:
                return False
        return (
            self.interface in ("", packet.interface)
            and self.protocol in ("", packet.protocol)
            and (not self.states or packet.state in self.states)
            and (not self.ports or any(low <= packet.port <= high for low, high in self.ports))
        )


@dataclass(frozen=True)
class _Packet:
    interface: str
    source: str
    protocol: str
    port: int
    state: str


def _span(ports: tuple[int, int], mark: str) -> str:
    return str(ports[0]) if ports[0] == ports[1] else f"{ports[0]}{mark}{ports[1]}"


def _verdict(chains: dict[str, list[_Rule]], policy: str, packet: _Packet, chain: str = "INPUT") -> tuple[str, str]:
    """What becomes of a packet, and the rule that decided; a verdict of RETURN when a chain of one's own ends."""
    for number, rule in enumerate(chains[chain], 1):
        if not rule.meets(packet):
            continue
        if rule.target == "RETURN":
            break
        if rule.target not in chains:
            return rule.target, f"{chain}:{number}"
        found = _verdict(chains, policy, packet, rule.target)
        if found[0] != "RETURN":
            return found
    return (policy, f"{chain}:policy") if chain == "INPUT" else ("RETURN", "")


_SOLUTION = r"""
import csv, ipaddress, shlex
chains, policy = {}, "ACCEPT"
for line in open("/work/firewall/rules.v4"):
    if line.startswith(":INPUT"):
        policy = line.split()[1]
    if line.startswith("-A "):
        words = shlex.split(line)
        chains.setdefault(words[1], []).append(words[2:])
def matches(rule, p):
    negated, i = False, 0
    while i < len(rule):
        w, value = rule[i], rule[i + 1]
        if w == "!":
            negated, i = True, i + 1
            continue
        ok = True
        if w == "-s": ok = ipaddress.ip_address(p["source"]) in ipaddress.ip_network(value)
        if w == "-i": ok = value == p["interface"]
        if w == "-p": ok = value == p["protocol"]
        if w == "--ctstate": ok = p["state"] in value.split(",")
        if w in ("--dport", "--dports"):
            ok = False
            for part in value.split(","):
                low, _, high = part.partition(":")
                ok = ok or int(low) <= int(p["port"]) <= int(high or low)
        if ok == negated:
            return False
        negated, i = False, i + 2
    return True
def walk(chain, p):
    for n, rule in enumerate(chains.get(chain, []), 1):
        if matches(rule, p):
            target = rule[-1]
            if target == "RETURN":
                return None
            if target in ("ACCEPT", "DROP", "REJECT"):
                return target, f"{chain}:{n}"
            found = walk(target, p)
            if found:
                return found
rows = []
for p in csv.DictReader(open("/work/firewall/connections.csv")):
    rows.append((p["id"], *(walk("INPUT", p) or (policy, "INPUT:policy"))))
with open("/work/firewall/verdicts.csv", "w") as out:
    out.write("id,verdict,rule\n")
    out.writelines(",".join(row) + "\n" for row in rows)
"""


def _chains(rng: random.Random, seed: int) -> dict[str, list[_Rule]]:
    office, lab = f"10.{rng.randint(1, 60)}.0.0/16", f"10.{rng.randint(61, 120)}.{rng.randint(0, 9)}.0/24"
    bad = f"198.51.100.{rng.choice((0, 64, 128))}/26"
    web = ((80, 80), (443, 443), (8080, rng.randint(8085, 8099)))
    ssh = _Rule("ACCEPT", source=office, protocol="tcp", ports=((22, 22),), states=("NEW",))
    guard = [
        _Rule("RETURN", source=lab),
        _Rule("DROP", source=bad),
        _Rule("REJECT", protocol="tcp", ports=((23, 25),)),
    ]
    services = [
        _Rule("ACCEPT", protocol="tcp", ports=web),
        _Rule("ACCEPT", protocol="udp", ports=((53, 53), (123, 123))),
    ]
    rng.shuffle(services)
    inner = [_Rule("RETURN", source=office, not_source=True), _Rule("ACCEPT", protocol="tcp", ports=((5432, 5440),))]
    services[seed % 3 : seed % 3] = inner
    top = [
        _Rule("ACCEPT", interface="lo"),
        _Rule("ACCEPT", states=("RELATED", "ESTABLISHED")),
        _Rule("GUARD", states=("NEW", "INVALID")) if seed % 2 else _Rule("GUARD"),
        replace(ssh, source=lab) if seed % 2 else ssh,
        _Rule("SERVICES", interface="eth0"),
        _Rule("REJECT", source=office, protocol="tcp"),
        _Rule("DROP", states=("INVALID",)),
        _Rule("ACCEPT", protocol="icmp"),
    ]
    moved = top.pop(rng.randint(3, 6))
    top.insert(rng.randint(2, 5), moved)
    return {"INPUT": top, "GUARD": guard, "SERVICES": services}


def _packets(rng: random.Random, chains: dict[str, list[_Rule]]) -> list[_Packet]:
    networks = sorted({r.source for rules in chains.values() for r in rules if r.source})
    # Only a negation that is understood tells these apart.
    found = [_Packet("eth0", "203.0.113.77", "tcp", 5433, "NEW"), _Packet("eth0", "203.0.113.78", "tcp", 5440, "NEW")]
    for number in range(40):
        network = ipaddress.ip_network(rng.choice([*networks, "203.0.113.0/24"]))
        source = str(network[rng.choice((0, 1, -1, rng.randrange(network.num_addresses)))])
        protocol = rng.choice(("tcp", "tcp", "tcp", "udp", "icmp"))
        port = (
            rng.choice((22, 23, 25, 26, 53, 80, 123, 443, 5432, 5440, 5441, 8080, 8090, 8100))
            if protocol != "icmp"
            else 0
        )
        state = rng.choice(("NEW", "NEW", "NEW", "NEW", "ESTABLISHED", "INVALID"))
        found.append(
            _Packet("lo" if number == 9 else rng.choice(("eth0", "eth0", "eth1")), source, protocol, port, state)
        )
    return found


def firewall_verdicts(seed: int, context: Context) -> Draft:
    """What a saved rule set does to a list of connections."""
    rng = chance("security", "firewall_verdicts", seed)
    chains = _chains(rng, seed)
    policy = rng.choice(("DROP", "ACCEPT"))
    packets = _packets(rng, chains)
    rules = ["*filter", f":INPUT {policy} [0:0]", ":FORWARD DROP [0:0]", ":OUTPUT ACCEPT [0:0]"]
    rules += [f":{name} - [0:0]" for name in chains if name != "INPUT"]
    mixed = [(name, rule) for name, all_rules in chains.items() for rule in all_rules]
    if seed >= 2:
        mixed.sort(key=lambda pair: pair[0])
    rules += [rule.text(name) for name, rule in mixed] + ["COMMIT"]
    header = "id,interface,source,protocol,port,state\n"
    table = "".join(
        f"{n},{p.interface},{p.source},{p.protocol},{p.port},{p.state}\n" for n, p in enumerate(packets, 101)
    )
    verdicts = {str(n): list(_verdict(chains, policy, p)) for n, p in enumerate(packets, 101)}
    return Draft(
        family="firewall_verdicts",
        seed=seed,
        difficulty="hard",
        instruction="Before we load /work/firewall/rules.v4 (the output of iptables-save) on the gateway I want "
        "to know "
        "what it would do; there is no iptables here and none is needed. For each connection of /work/firewall/"
        "connections.csv, in that order, work out its fate in the INPUT chain: rules apply top down, a jump enters a "
        "chain of ours, RETURN or the end of that chain goes on after the jump, and the policy decides at the end of "
        "INPUT. Port 0 means that the packet has none.\n"
        "Write /work/firewall/verdicts.csv: a header line id,verdict,rule, then for each connection ACCEPT, DROP or "
        "REJECT and the rule that decided, as CHAIN:n, where n counts the rules of that chain from 1; `INPUT:policy` "
        "when no rule did.",
        files=(
            TaskFile(path="/work/firewall/rules.v4", text="\n".join(rules) + "\n"),
            TaskFile(path="/work/firewall/connections.csv", text=header + table),
        ),
        solution=(python(_SOLUTION),),
        right=(
            Variant(
                name="quoted_fields",
                commands=(python(_SOLUTION), "sed -i -E 's/[^,]+/\"&\"/g' /work/firewall/verdicts.csv"),
            ),
        ),
        weak=(
            Variant(name="negation_ignored", commands=(python(changed(_SOLUTION, ("ok == negated", "not ok"))),)),
            Variant(
                name="return_ends_all",
                commands=(
                    python(
                        changed(
                            _SOLUTION,
                            ("                return None\n", '                return policy, "INPUT:policy"\n'),
                        )
                    ),
                ),
            ),
            Variant(name="counted_from_zero", commands=(python(changed(_SOLUTION, ("[]), 1)", "[]))"))),)),
        ),
        verifier=filled(
            """
import csv

OUTCOME = __OUTCOME__


def lines(box):
    return list(csv.reader(box.text("/work/firewall/verdicts.csv").splitlines()))


def test_every_connection_in_order(box):
    head, *body = lines(box)
    assert head == ["id", "verdict", "rule"] and [number for number, *_ in body] == list(OUTCOME)


def test_fate_and_deciding_rule(box):
    wrong = [number for number, *fate in lines(box)[1:] if fate != OUTCOME.get(number)]
    assert wrong == []
""",
            outcome=verdicts,
        ),
    )
