"""Given PHP applications that have to be wired into a web server through FastCGI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipeline.generators.domains.web_service.commands import nginx, put_in, written
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_FRONT = """<?php
// The only door of the shop: every address that is no file of public/ ends here.
header('Content-Type: application/json');
$route = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if ($route === '/gone') {
    http_response_code(410);
}
echo json_encode(['route' => $route, 'search' => $_GET['q'] ?? null, 'method' => $_SERVER['REQUEST_METHOD'],
    'stage' => $_SERVER['SHOP_STAGE'] ?? null, 'mark' => '@MARK@', 'door' => php_sapi_name()]);
"""
_REPORT = """<?php
// Old script: report.php/YEAR/QUARTER
header('Content-Type: application/json');
[$year, $quarter] = array_pad(explode('/', trim($_SERVER['PATH_INFO'] ?? '', '/')), 2, null);
echo json_encode(['year' => $year, 'quarter' => $quarter, 'script' => $_SERVER['SCRIPT_NAME'],
    'mark' => '@MARK@', 'door' => php_sapi_name()]);
"""
_INBOX = """<?php
// Counts what was sent: bytes of the body, and its digest.
header('Content-Type: application/json');
$body = file_get_contents('php://input');
echo json_encode(['bytes' => strlen($body), 'digest' => hash('sha256', $body), 'limit' => ini_get('memory_limit'),
    'zone' => date_default_timezone_get(), 'mark' => '@MARK@', 'door' => php_sapi_name()]);
"""
_WHO = """<?php
header('Content-Type: application/json');
echo json_encode(['user' => posix_getpwuid(posix_geteuid())['name'], 'base' => dirname($_SERVER['SCRIPT_NAME']),
    'tenant' => getenv('TENANT'), 'mark' => '@MARK@', 'door' => php_sapi_name()]);
"""
_NGINX = """
user www-data;
pid /run/shop.pid;
events {}
http {
    include /etc/nginx/mime.types;
    access_log off;
    server {
        listen @PORT@;
        root @ROOT@;
        index index.php index.html;
        @PLACES@
    }
}
"""
_FPM = """
[global]
pid = /run/shop-fpm.pid
error_log = /work/fpm.log
@POOLS@
"""
_POOL = """
[@NAME@]
user = @USER@
group = @GROUP@
listen = 127.0.0.1:@FPM@
pm = static
pm.max_children = 2
@MORE@
"""
_PASS = (
    "include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; "
    "fastcgi_pass 127.0.0.1:{fpm};"
)
_VERIFIER = """
import hashlib
import json
from http.client import HTTPConnection

DOOR = ("127.0.0.1", __PORT__)
MARK = __MARK__


def knock(method, target, body=None):
    visit = HTTPConnection(*DOOR, timeout=3)
    visit.request(method, target, body)
    reply = visit.getresponse()
    content = reply.read()
    visit.close()
    return reply.status, content


def told(target, method="GET", body=None):
    status, content = knock(method, target, body)
    said = json.loads(content)
    assert said.pop("mark") == MARK and said.pop("door") in ("fpm-fcgi", "cgi-fcgi")
    return status, said

"""


@dataclass(frozen=True)
class _App:
    """One application: its files, how it is wired, and how that is checked."""

    difficulty: Literal["medium", "hard"]
    wish: str
    files: dict[str, str]
    root: str
    places: str
    """Lines of nginx."""
    pools: tuple[dict[str, str], ...]
    tests: str
    weak: dict[str, tuple[str, str]]
    cgi: str = ""
    """Command that serves FastCGI without FPM, where that can do the same."""


def _shop(mark: str, fpm: int, stage: str) -> _App:
    handed = _PASS.format(fpm=fpm)
    return _App(
        difficulty="medium",
        wish="It is a shop with one front controller: addresses that are files of /srv/app/public are sent as they "
        "are, every other one is handled by /srv/app/public/index.php, which reads the original address and the query "
        f"itself and expects the server variable SHOP_STAGE to be {stage}. Nothing outside of public may be reachable, "
        "and customers can upload into public/uploads: a PHP file there must never be executed nor shown (403 or 404).",
        files={
            "/srv/app/public/index.php": _FRONT.replace("@MARK@", mark),
            "/srv/app/public/style.css": f"/* {mark} */\nbody {{ margin: 0 }}\n",
            "/srv/app/public/uploads/note.txt": f"a note {mark}\n",
            "/srv/app/public/uploads/evil.php": "<?php echo 'executed ' . (40 + 2);\n",
            "/srv/app/.env": f"KEY={mark}\n",
        },
        root="/srv/app/public",
        places="location / { try_files $uri /index.php$is_args$args; }\n"
        "        location ~ ^/uploads/.*\\.php { return 403; }\n"
        f"        location = /index.php {{ {handed} fastcgi_param SHOP_STAGE {stage}; }}",
        pools=({"name": "shop", "user": "www-data", "group": "www-data", "fpm": str(fpm), "more": ""},),
        cgi=f"php-cgi -b 127.0.0.1:{fpm}",
        tests=put_in(
            """
def test_the_front_controller_handles_what_is_no_file():
    assert told("/cart/12?q=a%20b") == (
        200, {"route": "/cart/12", "search": "a b", "method": "GET", "stage": "@STAGE@"}
    )
    assert told("/", "POST", b"x=1")[1] == {"route": "/", "search": None, "method": "POST", "stage": "@STAGE@"}
    assert told("/gone")[0] == 410


def test_files_are_sent_and_secrets_are_not():
    assert knock("GET", "/style.css") == (200, f"/* {MARK} */\\nbody {{ margin: 0 }}\\n".encode())
    assert knock("GET", "/uploads/note.txt") == (200, f"a note {MARK}\\n".encode())
    for target in ("/uploads/evil.php", "/uploads/evil.php/x", "/../.env"):
        status, content = knock("GET", target)
        assert b"executed" not in content and b"KEY=" not in content and b"<?php" not in content, target
    assert knock("GET", "/uploads/evil.php")[0] in (403, 404)
""",
            stage=stage,
        ),
        weak={
            "uploads_executed": (
                "location ~ ^/uploads/.*\\.php { return 403; }",
                f"location ~ ^/uploads/.*\\.php {{ {handed} }}",
            ),
            "query_lost": ("$uri /index.php$is_args$args", "$uri /index.php?"),
            "no_stage": (f"fastcgi_param SHOP_STAGE {stage};", ""),
            "root_too_high": ("root /srv/app/public;", "root /srv/app;"),
        },
    )


def _reports(mark: str, fpm: int, folder: str) -> _App:
    split = (
        "fastcgi_split_path_info ^(.+?\\.php)(/.*)$; set $rest $fastcgi_path_info; "
        "if (!-f $document_root$fastcgi_script_name) { return 404; } "
    )
    return _App(
        difficulty="hard",
        wish=f"It is a set of old scripts below /srv/legacy/{folder}, reachable under the same paths as their files. "
        "They get arguments behind the script's name: for /report.php/2023/q2 the script report.php has to run with "
        "PATH_INFO /2023/q2 and SCRIPT_NAME /report.php; scripts in subfolders work alike. A PHP path whose script "
        "does not exist is a plain 404, whatever follows it, even when a file of another kind lies there "
        "(/logo.txt/x.php is one too). Files that end in .inc must not be reachable (403 or 404); "
        "other files are sent as they are.",
        files={
            f"/srv/legacy/{folder}/report.php": _REPORT.replace("@MARK@", mark),
            f"/srv/legacy/{folder}/archive/old.php": _REPORT.replace("@MARK@", mark),
            f"/srv/legacy/{folder}/settings.inc": f"<?php $secret = '{mark}';\n",
            f"/srv/legacy/{folder}/logo.txt": "<?php echo 'logo executed';\n",
        },
        root=f"/srv/legacy/{folder}",
        places="location / { try_files $uri =404; }\n        location ~ \\.inc$ { return 404; }\n"
        f"        location ~ ^.+?\\.php(/|$) {{ {split}{_PASS.format(fpm=fpm)} fastcgi_param PATH_INFO $rest; }}",
        pools=(
            {
                "name": "legacy",
                "user": "www-data",
                "group": "www-data",
                "fpm": str(fpm),
                "more": "php_admin_value[cgi.fix_pathinfo] = 0",
            },
        ),
        cgi=f"php-cgi -d cgi.fix_pathinfo=0 -b 127.0.0.1:{fpm}",
        tests="""
def test_arguments_follow_the_script():
    assert told("/report.php/2023/q2?x=1")[1] == {"year": "2023", "quarter": "q2", "script": "/report.php"}
    assert told("/archive/old.php/1999")[1] == {"year": "1999", "quarter": None, "script": "/archive/old.php"}
    assert told("/report.php")[1]["year"] == ""


def test_what_is_no_script_is_not_run():
    paths = ("/none.php", "/none.php/2023", "/logo.txt/x.php", "/archive/none.php", "/none")
    assert [knock("GET", path)[0] for path in paths] == [404] * 5
    assert knock("GET", "/logo.txt") == (200, b"<?php echo 'logo executed';\\n")
    status, content = knock("GET", "/settings.inc")
    assert status in (403, 404) and MARK.encode() not in content
""",
        weak={
            "no_arguments": ("fastcgi_param PATH_INFO $rest;", ""),
            "includes_shown": ("location ~ \\.inc$ { return 404; }", ""),
            "ends_in_php_only": ("^.+?\\.php(/|$)", "\\.php$"),
        },
    )


def _inbox(mark: str, fpm: int, limit: int, zone: str, memory: str) -> _App:
    return _App(
        difficulty="medium",
        wish=f"It is an inbox, /srv/inbox/index.php, that answers on /inbox and on nothing else (404). Bodies of up to "
        f"{limit} KiB (1 KiB = 1024 bytes) have to arrive there unharmed, larger ones are refused with status 413. "
        f"Only POST and GET are allowed, other methods get 405. PHP has to run with a memory_limit of {memory} and the "
        f"time zone {zone}, set for this application (the settings in /etc/php stay as they are).",
        files={"/srv/inbox/index.php": _INBOX.replace("@MARK@", mark)},
        root="/srv/inbox",
        places=f"client_max_body_size {limit}k;\n        location / {{ return 404; }}\n"
        "        location = /inbox { if ($request_method !~ ^(GET|POST)$) { return 405; } include "
        "/etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME /srv/inbox/index.php; "
        f"fastcgi_pass 127.0.0.1:{fpm}; }}",
        pools=(
            {
                "name": "inbox",
                "user": "www-data",
                "group": "www-data",
                "fpm": str(fpm),
                "more": f"php_admin_value[memory_limit] = {memory}\nphp_admin_value[date.timezone] = {zone}",
            },
        ),
        cgi=f"php-cgi -d memory_limit={memory} -d date.timezone={zone} -b 127.0.0.1:{fpm}",
        tests=put_in(
            """
def test_bodies_arrive_up_to_the_limit():
    for size in (0, 5000, @LIMIT@ * 1024):
        body = bytes(number * 7 % 251 for number in range(size))
        status, said = told("/inbox", "POST", body)
        assert (status, said["bytes"], said["digest"]) == (200, size, hashlib.sha256(body).hexdigest())
    assert knock("POST", "/inbox", b"x" * (@LIMIT@ * 1024 + 1))[0] == 413


def test_only_this_address_and_these_methods():
    assert [knock(method, "/inbox")[0] for method in ("PUT", "DELETE", "PATCH")] == [405] * 3
    assert [knock("GET", target)[0] for target in ("/", "/index.php", "/inbox/x")] == [404] * 3


def test_php_runs_with_its_own_settings():
    said = told("/inbox")[1]
    assert (said["limit"], said["zone"]) == ("@MEMORY@", "@ZONE@")
""",
            limit=limit,
            memory=memory,
            zone=zone,
        ),
        weak={
            "no_limit": (f"client_max_body_size {limit}k", "client_max_body_size 20m"),
            "limit_in_thousands": (f"client_max_body_size {limit}k", f"client_max_body_size {limit}000"),
            "settings_forgotten": ("php_admin_value[memory_limit]", ";php_admin_value[memory_limit]"),
            "any_method": ("if ($request_method !~ ^(GET|POST)$) { return 405; }", ""),
        },
    )


def _tenants(mark: str, fpm: int, names: tuple[str, str], users: tuple[str, str]) -> _App:
    places = "".join(
        f"location = /{name}/who {{ include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME "
        f"/srv/tenants/{name}/who.php; fastcgi_param SCRIPT_NAME /{name}/who.php; "
        f"fastcgi_pass 127.0.0.1:{fpm + n}; }}\n"
        f"        location /{name}/ {{ alias /srv/tenants/{name}/files/; }}\n        "
        for n, name in enumerate(names)
    )
    first, second = names
    return _App(
        difficulty="hard",
        wish=f"There are two tenants, {first} and {second}. /{first}/who has to run /srv/tenants/{first}/who.php as "
        f"the system user {users[0]} with SCRIPT_NAME /{first}/who.php and the environment variable TENANT={first}, "
        f"/{second}/who the same for {second} as the user {users[1]} (both users exist already). Any other path below "
        f"/{first}/ or /{second}/ is a file of /srv/tenants/NAME/files, everything else a 404; "
        "who.php itself cannot be asked for.",
        files={f"/srv/tenants/{name}/who.php": _WHO.replace("@MARK@", mark + name) for name in names}
        | {f"/srv/tenants/{name}/files/terms.txt": f"terms of {name}\n" for name in names},
        root="/var/empty",
        places=places,
        pools=tuple(
            {"name": n, "user": u, "group": "nogroup", "fpm": str(fpm + i), "more": f"env[TENANT] = {n}"}
            for i, (n, u) in enumerate(zip(names, users, strict=True))
        ),
        tests=put_in(
            """
def test_each_tenant_runs_as_its_own_user():
    seen = []
    for name in ("@FIRST@", "@SECOND@"):
        status, content = knock("GET", f"/{name}/who")
        said = json.loads(content)
        assert (said["mark"], said["door"], status) == (MARK + name, "fpm-fcgi", 200)
        seen.append((said["user"], said["base"], said["tenant"]))
    assert seen == [("@ONE@", "/@FIRST@", "@FIRST@"), ("@TWO@", "/@SECOND@", "@SECOND@")]


def test_files_of_tenants_and_nothing_else():
    assert [knock("GET", f"/{name}/terms.txt") for name in ("@FIRST@", "@SECOND@")] == [
        (200, b"terms of @FIRST@\\n"), (200, b"terms of @SECOND@\\n")
    ]
    closed = ("/", "/who", "/@FIRST@/who.php", "/@SECOND@/none.txt", "/@SECOND@/files/terms.txt")
    assert [knock("GET", path)[0] for path in closed] == [404] * 5
""",
            first=first,
            second=second,
            one=users[0],
            two=users[1],
        ),
        weak={
            "same_user": (f"user = {users[1]}", f"user = {users[0]}"),
            "same_pool": (f"127.0.0.1:{fpm + 1};", f"127.0.0.1:{fpm};"),
            "no_environment": ("env[TENANT]", ";env[TENANT]"),
        },
    )


def php_app(seed: int, context: Context) -> Draft:
    rng = chance("web_service", "php_app", seed)
    port = rng.randint(8100, 8999)
    fpm = port + 1000
    mark = f"{rng.choice(('oak', 'elm', 'fir'))}-{rng.randrange(1 << 24):06x}"
    tenants = rng.sample(("bakery", "cinema", "garage", "florist"), 2)
    users = rng.sample(("games", "news", "backup", "list", "irc"), 2)
    app = (
        _shop(mark, fpm, rng.choice(("trial", "nightly", "preview"))),
        _reports(mark, fpm, rng.choice(("www", "htdocs", "site"))),
        _inbox(
            mark, fpm, rng.choice((48, 96, 200)), rng.choice(("Asia/Tokyo", "America/Lima", "Africa/Nairobi")), "96M"
        ),
        _tenants(mark, fpm, (tenants[0], tenants[1]), (users[0], users[1])),
    )[seed % 4]
    pools = "".join(put_in(_POOL, **pool) for pool in app.pools)
    conf = put_in(_NGINX, port=port, root=app.root, places=app.places)
    serve = (written("/work/shop.conf", conf), nginx("/work/shop.conf", port))
    solution = (
        written("/work/fpm.conf", put_in(_FPM, pools=pools)),
        "php-fpm8.2 -R -y /work/fpm.conf > /dev/null 2>&1",
        *serve,
    )
    if app.cgi:
        right = Variant(name="php_cgi", commands=(f"(setsid nohup {app.cgi} > /dev/null 2>&1 < /dev/null &)", *serve))
    else:
        shared = tuple(c.replace("pm = static", "pm = ondemand") for c in solution)
        right = Variant(name="on_demand", commands=shared)
    return Draft(
        family="php_app",
        seed=seed,
        difficulty=app.difficulty,
        language="php",
        instruction=f"I have a PHP application here without a web server before it. {app.wish} Serve it on "
        f"127.0.0.1:{port}, with PHP behind the web server through FastCGI (PHP's built-in server is no option). nginx "
        "and PHP 8.2 (FPM and CGI) are installed, nothing is running yet. Leave the application's files alone, and "
        "everything running when you are done.",
        files=tuple(TaskFile(path=path, text=text) for path, text in app.files.items()),
        solution=solution,
        right=(right,),
        weak=(
            *(
                Variant(name=name, commands=tuple(c.replace(old, new) for c in solution))
                for name, (old, new) in app.weak.items()
            ),
            Variant(name="without_php", commands=serve),
            Variant(
                name="built_in_server",
                commands=(f"(cd {app.root}; setsid nohup php -S 127.0.0.1:{port} > /dev/null 2>&1 &) ; sleep 0.5",),
            ),
        ),
        verifier=filled(_VERIFIER, port=port, mark=mark) + app.tests,
        state_scope="live",
    )
