"""Long-running programs: one that answers on a socket, one that is steered by signals, one that owns the screen."""

from __future__ import annotations

import hashlib

from pipeline.generators.domains.environment_interaction.texts import DOMAIN, key_of, placed, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_PROBE = '''#!/usr/bin/env python3
"""The instrument. Answers on @PLACE@, one connection at a time; STOP ends it."""
import hashlib
import hmac
import json
import os
import socket

KEY, NAMES, STORE = b"@KEY@", @NAMES@, "/var/lib/instrument/calibration.json"
values = {n: int.from_bytes(hashlib.sha256(KEY + n.encode()).digest()[:2], "big") % 1000 for n in NAMES}
@OPEN@
server.listen(1)
calls = 0
while True:
    connection, _ = server.accept()
    calls += 1
    challenge = int.from_bytes(hashlib.sha256(KEY + b"%d" % calls).digest()[:4], "big")
    known = False
    with connection, connection.makefile("rw", newline="\\n") as wire:
        def say(text):
            wire.write(text + "\\n")
            wire.flush()
        say(f"READY {challenge}")
        for line in wire:
            words = line.split() or [""]
            if words[0] == "ANSWER" and len(words) == 2:
                known = words[1] == @ANSWER@
                say("OK" if known else "WRONG")
            elif not known:
                say("ANSWER FIRST")
            elif words == ["LIST"]:
                say(" ".join(NAMES))
            elif words[0] == "GET" and len(words) == 2 and words[1] in values:
                say(str(values[words[1]]))
            elif words[0] == "SET" and len(words) == 3 and words[1] in values and words[2].isdigit():
                values[words[1]] = int(words[2])
                say("OK")
            elif words == ["STORE"]:
                os.makedirs(os.path.dirname(STORE), exist_ok=True)
                body = json.dumps(values, sort_keys=True)
                with open(STORE, "w") as out:
                    json.dump({"values": values, "seal": hmac.new(KEY, body.encode(), "sha256").hexdigest()}, out)
                say("STORED")
            elif words == ["STOP"]:
                say("BYE")
                os._exit(0)
            else:
                say("?")
'''
_UNIX = (
    'import contextlib\nwith contextlib.suppress(FileNotFoundError):\n    os.unlink("/run/instrument.sock")\n'
    'server = socket.socket(socket.AF_UNIX)\nserver.bind("/run/instrument.sock")'
)
_TCP = (
    "server = socket.socket()\nserver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
    'server.bind(("127.0.0.1", 7301))'
)
_ASK = """
import json, socket, subprocess, time
daemon = subprocess.Popen(["/usr/local/sbin/instrument"])
for attempt in range(100):
    try:
        link = @CONNECT@
        break
    except OSError:
        time.sleep(0.1)
wire = link.makefile("rw", newline="\\n")
def ask(words):
    wire.write(words + "\\n")
    wire.flush()
    return wire.readline().strip()
challenge = int(wire.readline().split()[1])
ask("ANSWER " + @ANSWER@)
first = {}
for name in ask("LIST").split():
    first[name] = int(ask("GET " + name))
    @MEND@
@END@
ask("STOP")
daemon.wait(timeout=5)
json.dump(first, open("/work/readings.json", "w"))
"""
_ANSWERS = (
    ("its decimal digits in reverse order", "str(challenge)[::-1]"),
    ("it plus 4711 in lower-case hexadecimal, without prefix", 'format(challenge + 4711, "x")'),
    ("the sum of its decimal digits", "str(sum(map(int, str(challenge))))"),
    ("its remainder modulo 9973, as a decimal number", "str(challenge % 9973)"),
)


def calibrated_instrument(seed: int, context: Context) -> Draft:
    """A dialogue with a daemon over a socket."""
    rng = chance(DOMAIN, "calibrated_instrument", seed)
    tcp = seed % 2 == 1
    names = rng.sample(("gain", "offset", "drift", "span", "damping", "zero", "phase", "slope", "bias", "trim"), 7)
    key = key_of(rng)
    first = {n: int.from_bytes(hashlib.sha256(key.encode() + n.encode()).digest()[:2], "big") % 1000 for n in names}
    low, high = rng.randint(15, 30) * 10, rng.randint(60, 80) * 10
    wording, answer = _ANSWERS[seed % 4]
    rule, mended = (
        ("the nearer of the two limits", {n: min(high, max(low, v)) for n, v in first.items()}),
        ("the middle of the range", {n: v if low <= v <= high else (low + high) // 2 for n, v in first.items()}),
    )[seed // 2 % 2]
    value = (f"max({low}, min({high}, first[name]))", str((low + high) // 2))[seed // 2 % 2]
    mend = f'if not {low} <= first[name] <= {high}:\n        ask(f"SET {{name}} {{{value}}}")'
    place = "TCP port 7301 of 127.0.0.1" if tcp else "the Unix socket /run/instrument.sock"
    connect = (
        'socket.create_connection(("127.0.0.1", 7301))'
        if tcp
        else '(lambda s: (s.connect("/run/instrument.sock"), s)[1])(socket.socket(socket.AF_UNIX))'
    )
    given = {"connect": connect, "answer": answer}
    good = placed(_ASK, mend=mend, end='ask("STORE")', **given)
    careful = placed(good.replace("    first[name] = int", "    ask('GET ' + name)\n    first[name] = int"))
    every = placed(_ASK, mend=f'ask("SET " + name + " {(low + high) // 2}")', end='ask("STORE")', **given)
    forgotten = placed(_ASK, mend=mend, end='ask("LIST")', **given)
    late = good.replace('ask("STOP")', 'first = {name: int(ask("GET " + name)) for name in first}\nask("STOP")')
    opened = _TCP if tcp else _UNIX
    program = placed(_PROBE, place=place, key=key, names=repr(names), open=opened, answer=answer)
    return Draft(
        family="calibrated_instrument",
        seed=seed,
        difficulty="medium",
        language="python",
        instruction="Calibrate the simulated instrument. /usr/local/sbin/instrument is a daemon that you have to start "
        f"yourself; it listens on {place} and talks in lines. It greets with READY and a number and wants to hear "
        "ANSWER "
        f"followed by {wording}. After its OK it understands LIST (names of the registers), GET NAME, SET NAME "
        "VALUE, STORE "
        "(writes /var/lib/instrument/calibration.json, sealed) and STOP.\n\nRegisters have to lie between "
        f"{low} and {high}, limits included. Set every register outside that range to {rule}, leave the others "
        "alone, then "
        "store and stop the daemon. Put what the registers held at first into /work/readings.json, an object from "
        "name to "
        "integer with all registers.",
        files=(TaskFile(path="/usr/local/sbin/instrument", text=program, mode=0o755),),
        solution=(python(good),),
        right=(Variant(name="reads_twice", commands=(python(careful),)),),
        weak=(
            Variant(name="never_stored", commands=(python(forgotten),)),
            Variant(name="set_all_registers", commands=(python(every),)),
            Variant(name="noted_the_readings_afterwards", commands=(python(late),)),
        ),
        verifier=filled(
            """
import hmac
import json

KEY = __KEY__
FIRST = __FIRST__
MENDED = __MENDED__


def test_stored_calibration(box):
    stored = json.loads(box.text("/var/lib/instrument/calibration.json"))
    body = json.dumps(stored["values"], sort_keys=True)
    assert stored["seal"] == hmac.new(KEY.encode(), body.encode(), "sha256").hexdigest(), "not stored by the daemon"
    assert stored["values"] == MENDED


def test_readings_are_those_of_the_beginning(box):
    assert json.loads(box.text("/work/readings.json")) == FIRST
""",
            key=key,
            first=first,
            mended=mended,
        ),
    )


_PACER = '''#!/usr/bin/env python3
"""The pacer: does nothing, in a steady pace, until it is told to stop. Its journal is /var/log/pacer.journal."""
import hashlib
import os
import signal
import time

KEY, JOURNAL = "@KEY@", "/var/log/pacer.journal"
lines = []


def note(event):
    lines.append(event)
    chain = hashlib.sha256((KEY + "|".join(lines)).encode()).hexdigest()[:20]
    with open(JOURNAL, "a" if len(lines) > 1 else "w") as out:
        out.write(f"{event} {chain}\\n")


def pace():
    with open("/etc/pacer.conf") as conf:
        return dict(line.strip().split("=") for line in conf if "=" in line)["pace"]


def leave(number, frame):
    note("left")
    os.unlink("/run/pacer.pid")
    raise SystemExit(0)


signal.signal(signal.@MARK@, lambda number, frame: note("lap"))
signal.signal(signal.@LOAD@, lambda number, frame: note("pace=" + pace()))
signal.signal(signal.SIGCONT, lambda number, frame: note("woken"))
signal.signal(signal.@END@, leave)
with open("/run/pacer.pid", "w") as pid:
    pid.write(f"{os.getpid()}\\n")
note("begun pace=" + pace())
while True:
    # A signal between two looks is noted at the next one.
    time.sleep(0.05)
'''
_WAIT = """w() {
    for i in $(seq 400); do
        test "$(grep -c . /var/log/pacer.journal 2> /dev/null || echo 0)" -ge $1 && return
        sleep 0.05
    done
    return 1
}"""


def paced_process(seed: int, context: Context) -> Draft:
    """Job control: a process is steered by signals, in order."""
    rng = chance(DOMAIN, "paced_process", seed)
    mark, load, end = (
        ("USR1", "HUP", "TERM"),
        ("USR2", "USR1", "INT"),
        ("HUP", "USR2", "QUIT"),
        ("WINCH", "ALRM", "USR1"),
    )[seed % 4]
    old, new = rng.randint(2, 9), rng.randint(11, 90)
    order = (
        ["lap", "lap", "pace", "woken", "lap"],
        ["woken", "lap", "pace", "lap", "lap", "woken"],
        ["pace", "lap", "woken", "lap", "pace2", "lap"],
        ["lap", "woken", "woken", "pace", "lap"],
    )[seed % 4]
    again = rng.randint(100, 200)
    sed = "sed -i 's/^pace=.*/pace={}/' /etc/pacer.conf"
    words = {
        "lap": "one lap",
        "pace": f"the pace changed to {new} in /etc/pacer.conf and re-read by the process",
        "pace2": f"the pace changed to {again} and re-read again",
        "woken": "a suspension of the process, after which it is woken again",
    }
    events = [f"begun pace={old}"]
    commands = ["pacer & w 1", "p=$(cat /run/pacer.pid)"]
    for step in order:
        events.append({"pace": f"pace={new}", "pace2": f"pace={again}"}.get(step, step))
        after = f"w {len(events)}"
        if step.startswith("pace"):
            commands += [sed.format(new if step == "pace" else again), f"kill -{load} $p; {after}"]
        elif step == "lap":
            commands.append(f"kill -{mark} $p; {after}")
        else:
            commands.append(f"kill -STOP $p; kill -CONT $p; {after}")
    events.append("left")
    commands += [f"kill -{end} $p; w {len(events)}", "while test -e /run/pacer.pid; do sleep 0.05; done"]
    go = "\n".join([_WAIT, *commands])
    lines = "; ".join(f"{n}. {words[step]}" for n, step in enumerate(order, start=1))
    key = key_of(rng)
    lap = commands.index(f"kill -{mark} $p; w {1 + events.index('lap')}")
    fewer = [c.replace(f"w {n}", f"w {n - 1}") if k > lap else c for k, c in enumerate(commands) for n in [_count(c)]]
    del fewer[lap]
    early = [c for c in commands if not c.startswith(("sed", f"kill -{load} "))]
    never = [_renumbered(early), *early[-1:]]
    detached = go.replace("pacer & w 1", "setsid pacer < /dev/null > /dev/null 2>&1 & w 1")
    return Draft(
        family="paced_process",
        seed=seed,
        difficulty="medium",
        instruction="Steer a long-running process for me. Start /usr/local/bin/pacer in the background (it stays in "
        "the "
        "foreground by itself and notes its process id in /run/pacer.pid). It knows these signals: "
        f"{mark} makes a lap, {load} re-reads /etc/pacer.conf, {end} makes it leave properly; like every process it "
        "can be "
        f"suspended and continued. I want to see, in one single run and in this order: {lines}; finally the process "
        "leaves by "
        "its own signal. Every event that arrives is noted in /var/log/pacer.journal with a chained seal, so wait for "
        "each before you send the next: signals that come too fast are lost. The journal has to end with that run, "
        "have no "
        f"events beyond those, and the pacer may no longer be running. Start with the pace as it is now ({old}).",
        files=(
            TaskFile(
                path="/usr/local/bin/pacer",
                text=placed(_PACER, key=key, mark=f"SIG{mark}", load=f"SIG{load}", end=f"SIG{end}"),
                mode=0o755,
            ),
            TaskFile(path="/etc/pacer.conf", text=f"# laps per hour\npace={old}\n"),
        ),
        solution=(go,),
        right=(Variant(name="in_a_session_of_its_own", commands=(detached,)),),
        weak=(
            Variant(name="one_lap_missing", commands=("\n".join([_WAIT, *fewer]),)),
            Variant(name="pace_not_read_again", commands=("\n".join([_WAIT, *never]),)),
            Variant(
                name="killed_in_the_end",
                commands=(go.replace(f"kill -{end} $p; w {len(events)}", "kill -KILL $p; rm /run/pacer.pid"),),
            ),
        ),
        verifier=filled(
            """
import hashlib
import os

EVENTS = __EVENTS__
KEY = __KEY__


def test_journal_has_the_events_in_order(box):
    noted = [line.rsplit(" ", 1) for line in box.text("/var/log/pacer.journal").splitlines()]
    assert [event for event, _ in noted] == EVENTS


def test_journal_was_written_by_the_process(box):
    noted = [line.rsplit(" ", 1) for line in box.text("/var/log/pacer.journal").splitlines()]
    assert len(noted) == len(EVENTS)
    for n, (_, chain) in enumerate(noted, start=1):
        so_far = "|".join(event for event, _ in noted[:n])
        assert chain == hashlib.sha256((KEY + so_far).encode()).hexdigest()[:20], n


def test_configuration_and_end(box):
    pace = [line.strip() for line in box.text("/etc/pacer.conf").splitlines() if line.startswith("pace=")]
    assert pace == __PACE__
    assert not os.path.lexists("/run/pacer.pid")
""",
            events=events,
            key=key,
            pace=[f"pace={again if 'pace2' in order else new}"],
        ),
    )


def _count(command: str) -> int:
    tail = command.rsplit("w ", 1)
    return int(tail[1]) if len(tail) == 2 and tail[1].isdigit() else 0


def _renumbered(commands: list[str]) -> str:
    """The commands, each waiting for as many events as were sent."""
    done, count = [], 0
    for command in commands[:-1]:
        number = _count(command)
        if number:
            count += 1
            command = command[: -len(str(number))] + str(count)
        done.append(command)
    return "\n".join(done)
