"""A PostgreSQL server that does not start, and the settings it has to run with."""

from __future__ import annotations

from pipeline.generators.domains.sql.server import START, STOP, WRITTEN, asking, loaded, psql
from pipeline.generators.drafts import Context, Draft, chance, filled
from pipeline.types import Variant

CONF = "/etc/postgresql/15/main/postgresql.conf"
BROKEN = (
    ("echo 'shared_bufers = 64MB' > {d}/10-memory.conf", "rm {d}/10-memory.conf"),
    ("echo \"work_mem = '12 megabytes'\" > {d}/20-work.conf", "rm {d}/20-work.conf"),
    ("chmod 755 /var/lib/postgresql/15/main", "chmod 700 /var/lib/postgresql/15/main"),
    ("echo \"include '/etc/postgresql/15/site.conf'\" > {d}/30-site.conf", "rm {d}/30-site.conf"),
)
VERIFY_SETTINGS = """
PORT = __PORT__


def shown(names, login):
    return [ask(f"show {name}", login, PORT)[0][0] for name in names]


def test_the_server_runs_with_the_new_settings():
    wanted = __SERVER__
    assert shown(wanted, "postgres") == list(wanted.values())
    assert ask("select name from pg_settings where pending_restart", port=PORT) == []


def test_the_files_say_the_same_for_the_next_start():
    said = dict(ask("select name, setting from pg_file_settings where applied and error is null", port=PORT))
    assert {name: said.get(name) is not None for name in __SERVER__} == dict.fromkeys(__SERVER__, True)
    assert ask("select 1 from pg_file_settings where error is not null", port=PORT) == []


def test_the_login_has_its_own_settings_and_others_do_not():
    own = __OWN__
    assert shown(own, "__LOGIN__") == list(own.values())
    others = shown(own, "plain")
    assert [mine == other for mine, other in zip(own.values(), others, strict=True)] == [False] * len(own)


def test_the_data_is_that_of_before():
    assert ask("select sum(amount), count(*) from bills", "postgres", PORT) == [__SUMS__]
"""


def server_settings(seed: int, context: Context) -> Draft:
    rng = chance("sql", "server_settings", seed)
    port, login = rng.randint(5440, 5990), rng.choice(("reports", "nightly", "import", "audit"))
    login += "_job"
    chosen = rng.sample(
        (("max_connections", "37"), ("shared_buffers", "48MB"), ("max_wal_senders", "3"), ("wal_level", "logical")), 2
    )
    chosen += rng.sample((("log_min_duration_statement", "750ms"), ("deadlock_timeout", "3s"), ("jit", "off")), 2)
    server = {"port": str(port), **dict(chosen)}
    memory, limit = f"{rng.randint(11, 60)}MB", f"{rng.randint(21, 59)}s"
    own = {"work_mem": memory, "statement_timeout": limit}
    amounts = [rng.randint(5, 900) for _ in range(60)]
    script = "create table bills(amount integer);\n" + "".join(f"insert into bills values ({n});\n" for n in amounts)
    script += f"create role {login} login;\ncreate role plain login;\ngrant select on bills to plain;\n"
    files, setup = loaded("office", script)
    fault, repair = (text.format(d="/etc/postgresql/15/main/conf.d") for text in BROKEN[seed % len(BROKEN)])
    system = "".join(f"alter system set {name} = '{value}';\n" for name, value in server.items() if name != "port")
    conf = "".join(f"{name} = '{value}'\n" for name, value in server.items())
    by_role = "".join(f"alter role {login} set {name} = '{value}';\n" for name, value in own.items())
    everybody = "".join(f"alter database office set {name} = '{value}';\n" for name, value in own.items())
    change_port = f"sed -i 's/^port = .*/port = {port}/' {CONF}"
    restart = f"{STOP} && {START}"
    append = f"cat >> {CONF} <<'EOF'\n{conf}EOF"

    def at_port(script: str) -> str:
        return psql("office", script).replace("-U postgres", f"-U postgres -p {port}")

    written = WRITTEN.replace("-U postgres", f"-U postgres -p {port}")
    listed = ", ".join(f"{name} {value}" for name, value in chosen)
    return Draft(
        family="server_settings",
        seed=seed,
        difficulty="medium",
        instruction="Since somebody tidied up, PostgreSQL (cluster 15/main) refuses to start. Find out why, take the "
        f"fault away and let it run again, with its data, but on port {port} and with these settings: {listed}. They "
        "have to be in force now, and to be so again after a restart, and none of the files it reads its "
        f"configuration from may contain an error any more. In sessions of the login {login}, wherever it connects, "
        f"work_mem is {memory} and statement_timeout {limit}; nobody else gets these two values. Leave the server "
        "running. How logins are let in (trust on this machine) stays as it is.",
        files=files,
        setup=(*setup, fault),
        solution=(repair, change_port, START, at_port(system), restart, at_port(by_role), written),
        right=(Variant(name="all_in_the_file", commands=(repair, append, START, at_port(by_role))),),
        weak=(
            Variant(name="not_restarted", commands=(repair, change_port, START, at_port(system + by_role))),
            Variant(name="for_everybody", commands=(repair, append, START, at_port(everybody))),
            Variant(name="old_port", commands=(repair, START, psql("office", system + by_role), restart)),
            Variant(name="login_forgotten", commands=(repair, append, START)),
            Variant(name="stopped_again", commands=(repair, append, START, at_port(by_role), STOP)),
        ),
        verifier=filled(
            asking("office", VERIFY_SETTINGS).replace("__LOGIN__", login),
            port=port,
            server=server,
            own=own,
            sums=(str(sum(amounts)), str(len(amounts))),
        ),
        state_scope="live",
    )
