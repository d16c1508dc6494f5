"""The scrubber: what goes, what stays, and that a scrubbed row stays as it is."""

from __future__ import annotations

import base64
import json
import random
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kingfisher_sdk import Rules

from pipeline.curation import scrubbing
from pipeline.curation.own_host import HostFacts, host_facts
from pipeline.curation.scrub_views import PIECE, View, views
from pipeline.curation.scrubbing import Finding, NotScrubbable, Planted, Replacer, find, find_in_row, scrub_row, unsafe
from pipeline.schemas import Row
from tests.bench.scrubbing import CODINGS, HOST, POSITIVES, corpus, figures, measure
from tests.detectors import DETECTOR

NOBODY = HostFacts()
NOTHING = Planted()


def value(kind: str, seed: int = 5) -> str:
    return POSITIVES[kind](random.Random(seed))


def scrubbed(text: str, *, planted: Planted = NOTHING, host: HostFacts = NOBODY) -> str:
    return Replacer(find([text], planted=planted, host=host, detector=DETECTOR))(text)


def row(**columns: object) -> Row:
    step = {"index": 0, "observation": "", "thought": "", "action": "", "extra": "{}"}
    steps = [{**step, **dict(part)} for part in columns.pop("steps", [])]  # type: ignore[call-overload]
    empty = {"instruction": "Do it.", "solution": ["true"], "verifier_files": [], "messages": [], "details": "{}"}
    return {"source": "local", "full_name": "owner/name", **empty, "steps": steps, **columns}


def test_one_value_has_one_placeholder_in_prompt_files_and_trace() -> None:
    mail = value("email")
    given_row = row(
        instruction=f"Ask {mail}.",
        steps=[{"observation": f"Author: <{mail}>", "action": f"echo {mail}", "extra": json.dumps({"told": mail})}],
        messages=[{"role": "user", "content": mail.upper()}],
    )
    clean = scrub_row(given_row, find_in_row(given_row, NOBODY, DETECTOR))
    assert mail.lower() not in json.dumps(clean).lower()
    assert json.dumps(clean).count("SCRUBBED_EMAIL_1") == 5


def test_two_values_have_two_numbers_in_the_order_of_their_coming() -> None:
    assert scrubbed("ivo@acme-shop.net, marta@acme-shop.net") == "SCRUBBED_EMAIL_1, SCRUBBED_EMAIL_2"


def test_a_finding_counts_every_place_in_all_texts() -> None:
    mail = value("email")
    (finding,) = find([f"{mail} {mail}", mail, mail], planted=NOTHING, host=NOBODY, detector=DETECTOR)
    assert (finding.kind, finding.text, finding.count) == ("personal.email", mail, 4)


def test_findings_of_a_kept_row_can_be_replaced_later_from_their_fields_alone() -> None:
    text = f"token {value('github_token')} of {value('email')}"
    kept = [finding.model_dump() for finding in find([text], planted=NOTHING, host=NOBODY, detector=DETECTOR)]
    assert Replacer(Finding(**fields) for fields in kept)(text) == scrubbed(text)


@pytest.mark.parametrize("kind", sorted(set(POSITIVES) - {"password", "api_key", "bearer", "basic", "phone"}))
def test_a_value_of_this_form_goes(kind: str) -> None:
    places = {
        "aws_secret_key": "aws_secret_access_key = {}",
        "url_password": "ftp://x:{}@y.net/",
        "container": "root@{}:~#",
    }
    places["windows_user"] = "C:\\Users\\{}\\x"
    made = value(kind)
    assert made not in scrubbed(places.get(kind, "a {} b").format(made), host=HOST)


@pytest.mark.parametrize(
    "place",
    [
        'api_key = "{}"',
        "DB_PASSWORD={}",
        '"client_secret": "{}",',
        "Authorization: Bearer {}",
        "machine x.net login me password {}",
        "sshpass -p {} ssh x",
    ],
)
def test_a_random_value_goes_where_a_name_tells_what_it_is(place: str) -> None:
    made = "vK3mQ9xT2bLw7RzN"
    assert made not in scrubbed(place.format(made))


@pytest.mark.parametrize(
    "text",
    [
        "token_sha256 = 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "PASSWORD=${DB_PASSWORD_2}",
        'password = request.form["password1"]',
        "secret = os.environ['SECRET_KEY_7']",
        "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
        "password: '$2b$12$KIXQz9y8'",
        "https://user:password@localhost/x",
        "api_key = self.settings.api_key_2",
        '"secret": process.env.API_KEY,',
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert scrubbed(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "security@acme-shop.net",
        "someone@example.org",
        "1234+bot@users.noreply.acme-shop.net",
        "git clone git@git.acme-shop.net:shop/core.git",
        "npm install left-pad@1.3.0 icon@2x.png getty@tty1.service",
        "dev@lists.acme-shop.net",
    ],
)
def test_an_address_of_no_person_stays(text: str) -> None:
    assert scrubbed(text) == text


@pytest.mark.parametrize(
    "text", ["/home/user/x", "/home/ubuntu", "/Users/runner/y", "/home/$USER/x", "/var/home2/kasimir"]
)
def test_a_home_of_nobody_stays(text: str) -> None:
    assert scrubbed(text) == text


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "10.2.3.4", "192.168.0.9", "203.0.113.77", "8.8.8.8", "v4.18.77.91", "2001:db8::5"]
)
def test_an_address_that_is_nobodys_stays(text: str) -> None:
    assert scrubbed(text) == text


def test_the_folder_before_a_users_name_stays() -> None:
    assert scrubbed("cd /home/kasimir/src") == "cd /home/SCRUBBED_USER_1/src"


@pytest.mark.parametrize("coding", sorted(set(CODINGS) - {"upper"}))
def test_a_coded_value_goes_with_the_placeholder_of_the_plain_one(coding: str) -> None:
    made = value("private_key" if coding in ("json", "base64") else "email" if coding == "unicode" else "github_token")
    left = scrubbed(f"{made}\nx {CODINGS[coding](made)} y")
    assert len(set(re.findall(r"SCRUBBED_\w+", left))) == 1
    assert re.fullmatch(r"SCRUBBED_\w+\nx SCRUBBED_\w+ y", left)


def test_a_secret_in_base64_is_found_since_it_stands_plain_elsewhere() -> None:
    made = value("stripe_key")
    coded = base64.b64encode(made.encode()).decode()
    assert coded not in scrubbed(f"{made} {coded}")


def test_the_letter_of_a_line_break_is_no_part_of_an_address() -> None:
    text = json.dumps({"log": "from\nmarta@acme-shop.net"})
    assert json.loads(scrubbed(text)) == {"log": "from\nSCRUBBED_EMAIL_1"}


def test_a_key_that_was_cut_off_goes_as_far_as_it_stands() -> None:
    lines = value("private_key").splitlines()
    assert lines[1] not in scrubbed("\n".join(lines[:3]))
    assert lines[-2] not in scrubbed("\n".join(["… 9 lines left out …", *lines[-3:]]))


def test_a_longer_value_wins_over_one_inside_of_it() -> None:
    found = [
        Finding(kind="personal.email", text="marta@acme.net", placeholder="SCRUBBED_EMAIL_1", count=1),
        Finding(kind="secret.x", text="key-marta@acme.net-9", placeholder="SCRUBBED_X_1", count=1),
    ]
    assert Replacer(found)("key-marta@acme.net-9 marta@acme.net") == "SCRUBBED_X_1 SCRUBBED_EMAIL_1"


def test_nothing_of_two_values_that_overlap_is_left() -> None:
    found = [
        Finding(kind="secret.x", text="abcdefghijklmnop", placeholder="SCRUBBED_X_1", count=1),
        Finding(kind="secret.y", text="mnopqrstuvwxyz", placeholder="SCRUBBED_Y_1", count=1),
    ]
    assert Replacer(found)("-abcdefghijklmnopqrstuvwxyz-") == "-SCRUBBED_X_1-"


def test_a_placeholder_is_never_replaced() -> None:
    found = [Finding(kind="secret.x", text="SCRUBBED_EMAIL", placeholder="SCRUBBED_X_1", count=1)]
    assert Replacer(found)("SCRUBBED_EMAIL_1") == "SCRUBBED_EMAIL_1"


def test_a_short_secret_is_not_replaced_inside_of_a_word() -> None:
    found = [Finding(kind="secret.password", text="Ferry12", placeholder="SCRUBBED_PASSWORD_1", count=1)]
    assert Replacer(found)("Ferry12 Ferry123") == "SCRUBBED_PASSWORD_1 Ferry123"


def test_a_secret_of_the_task_stays_and_is_counted() -> None:
    key = value("aws_access_key")
    planted_row = row(instruction=f"Remove {key}.", steps=[{"observation": f"key: {key}"}])
    (finding,) = find_in_row(planted_row, NOBODY, DETECTOR)
    assert (finding.placeholder, finding.count) == ("", 2)
    assert scrub_row(planted_row, [finding]) == planted_row


def test_a_secret_that_only_the_observation_shows_is_not_of_the_task() -> None:
    key = value("github_token")
    (finding,) = find_in_row(row(instruction="Print the file.", steps=[{"observation": key}]), NOBODY, DETECTOR)
    assert finding.placeholder == "SCRUBBED_GITHUB_PAT_1"


def test_a_secret_in_a_file_that_the_generator_made_is_of_the_task() -> None:
    key = value("github_token")
    (finding,) = find_in_row(row(steps=[{"observation": key}]), NOBODY, DETECTOR, generated=[f"TOKEN={key}"])
    assert finding.placeholder == ""


@pytest.mark.parametrize(("source", "stays"), [("context", True), ("registry", False)])
def test_a_person_in_the_instruction_is_made_up_only_in_our_own_material(source: str, stays: bool) -> None:
    (finding,) = find_in_row(row(source=source, instruction=f"Write to {value('email')}."), NOBODY, DETECTOR)
    assert (finding.placeholder == "") is stays


def test_a_trace_of_the_host_is_never_planted() -> None:
    (finding,) = find_in_row(row(instruction=f"ls {HOST.paths[0]}", source="context"), HOST, DETECTOR)
    assert finding.placeholder


def test_a_folder_that_images_have_too_stays_when_the_task_speaks_of_it() -> None:
    host = HostFacts(paths=("/work/main",))
    told = row(instruction="See /work/main.")
    assert scrub_row(told, find_in_row(told, host, DETECTOR)) == told
    assert (
        find_in_row(row(steps=[{"observation": "/work/main/x"}]), host, DETECTOR)[0].placeholder == "/SCRUBBED_PATH_1"
    )


def test_a_row_whose_verifier_holds_a_person_cannot_be_scrubbed_safely() -> None:
    files = [{"path": "test_state.py", "content": f"assert 'by {value('email')}' in text"}]
    held = row(verifier_files=files)
    assert "verifier_files" in (unsafe(held, find_in_row(held, NOBODY, DETECTOR)) or "")


def test_a_row_with_a_person_in_its_trace_alone_can_be_scrubbed_safely() -> None:
    shown = row(steps=[{"observation": value("email")}])
    assert unsafe(shown, find_in_row(shown, NOBODY, DETECTOR)) is None


def test_columns_of_json_stay_json() -> None:
    details = json.dumps({"log": f'say "{value("private_key")}"\n', "at": [value("email")], "n": 1.5})
    given_row = row(details=details, steps=[{"extra": details}])
    clean = scrub_row(given_row, find_in_row(given_row, NOBODY, DETECTOR))
    assert json.loads(str(clean["details"])) == {
        "log": 'say "SCRUBBED_PRIVATE_KEY_1"\n',
        "at": ["SCRUBBED_EMAIL_1"],
        "n": 1.5,
    }


def test_what_names_the_row_is_left_alone() -> None:
    named = row(full_name="kasimir@acme-shop.net", steps=[{"observation": "kasimir@acme-shop.net"}])
    clean = scrub_row(named, find_in_row(named, NOBODY, DETECTOR))
    assert clean["full_name"] == "kasimir@acme-shop.net"


def test_a_row_with_too_many_values_is_refused() -> None:
    text = " ".join(f"kasimir{number}@acme-shop.net" for number in range(scrubbing.MAX_VALUES + 1))
    with pytest.raises(NotScrubbable, match="more than"):
        find([text], planted=NOTHING, host=NOBODY, detector=DETECTOR)


def test_a_value_across_the_end_of_a_piece_goes() -> None:
    key = value("private_key")
    text = "x" * (PIECE - 70) + "\n" + key + "\n" + "y" * 100
    assert key not in scrubbed(text)


def test_a_view_tells_what_stood_in_the_text() -> None:
    raw = "a\\u0040b \x1b[31mcd\x1b[0me\\\nf"
    decoded = list(views([raw]))[1]
    assert decoded.text == "a@b cdef"
    start = decoded.text.index("cdef")
    assert decoded.raw(start, start + 4) == "cd\x1b[0me\\\nf"


def test_a_word_is_found_behind_a_letter_that_grows_in_small_letters() -> None:
    view = View("İ PASSWORD=1")
    assert [found[0] for found in view.beginning(("pass",), re.compile("(?i)password"))] == ["PASSWORD"]


FACTS = {
    "HOME": "/home/qaleksander",
    "GIT_TOKEN": "q9ZkT3vLw8RbYx2M",
    "DEBUG_TOKEN": "disabled",
    "SSH_AUTH_SOCK_KEY": "/run/user/1/ssh",
    "https_proxy": "http://svc:Tr0ubadur77@proxy.rack4.north-mill.org:3128",
    "http_proxy": "http://127.0.0.1:3128",
    "PIP_INDEX_URL": "http://mirror.rack4.north-mill.org/simple",
}


def facts(**changed: str) -> HostFacts:
    given_facts = {"user": "root", "host": "localhost", **changed}
    paths = ["/work", "/root", "/usr/lib", "/srv/pipelines/data"]
    return host_facts(FACTS, user=given_facts["user"], host=given_facts["host"], paths=paths)


def test_ordinary_names_and_folders_are_no_facts() -> None:
    found = facts()
    assert (found.users, found.names, found.paths) == ((), (), ("/srv/pipelines/data",))


def test_values_of_secret_variables_are_facts_unless_they_are_words_or_paths() -> None:
    assert facts().secrets == ("q9ZkT3vLw8RbYx2M", "Tr0ubadur77")


def test_each_of_several_secrets_in_one_variable_is_a_fact() -> None:
    found = host_facts({"HUB_TOKENS": "q9ZkT3vLw8RbYx2M, k2WvR7tLq5XzPm8N"}, user="root", host="localhost", paths=())
    assert {"q9ZkT3vLw8RbYx2M", "k2WvR7tLq5XzPm8N"} <= set(found.secrets)


def test_a_proxy_is_known_by_url_port_and_host_but_not_a_loopback_one() -> None:
    found = facts().addresses
    assert "proxy.rack4.north-mill.org:3128" in found
    assert "mirror.rack4.north-mill.org" in found
    assert not any("127.0.0.1" in address for address in found)


def test_a_short_user_name_goes_only_from_its_home() -> None:
    host = HostFacts(users=("kim",))
    assert scrubbed("kim /home/kim/x", host=host) == "kim /home/SCRUBBED_USER_1/x"


def test_the_name_of_the_machine_goes_in_any_case_of_its_letters() -> None:
    host = HostFacts(names=("buildbox-17",))
    assert scrubbed("on BuildBox-17 and buildbox-17", host=host) == "on SCRUBBED_NAME_1 and SCRUBBED_NAME_1"


def test_a_secret_of_the_host_goes_where_it_is_coded_too() -> None:
    host = HostFacts(secrets=("q9ZkT3vLw8RbYx2M",))
    plain, coded = "q9ZkT3vLw8RbYx2M", "q9ZkT3\x1b[1;31mvLw8R\x1b[0mbYx2M"
    replace = Replacer(find([plain, coded], planted=NOTHING, host=host, detector=DETECTOR))
    assert (replace(plain), replace(coded)) == ("SCRUBBED_SECRET_1", "SCRUBBED_SECRET_1")


def test_a_path_of_the_host_is_not_the_beginning_of_another_ones_name() -> None:
    host = HostFacts(paths=("/srv/data/main",))
    assert scrubbed("/srv/data/main.c /srv/data/main/x", host=host) == "/srv/data/main.c /SCRUBBED_PATH_1/x"


FRAGMENTS = st.one_of(
    st.builds(value, st.sampled_from(sorted(POSITIVES)), st.integers(0, 20)),
    st.builds(
        lambda kind, coding, seed: CODINGS[coding](value(kind, seed)),
        st.sampled_from(sorted(POSITIVES)),
        st.sampled_from(sorted(CODINGS)),
        st.integers(0, 5),
    ),
    st.sampled_from(
        ["password=", "token: ", "://u:", "@", "tel ", "login ", "\n", " ", "\\", '"', "'", "\x1b[1m", "%40", "/home/"]
    ),
    st.text(max_size=6),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(FRAGMENTS, max_size=8).map("".join), max_size=4))
def test_scrubbing_a_scrubbed_text_changes_nothing(texts: list[str]) -> None:
    replace = Replacer(find(texts, planted=NOTHING, host=HOST, detector=DETECTOR))
    once = [replace(text) for text in texts]
    assert find(once, planted=NOTHING, host=HOST, detector=DETECTOR) == ()
    assert [replace(text) for text in once] == once


@settings(max_examples=50, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.lists(FRAGMENTS, max_size=3).map("".join),
        lambda e: st.dictionaries(st.text(max_size=3), e),
        max_leaves=6,
    )
)
def test_any_json_stays_json_of_the_same_shape(told: object) -> None:
    given_row = row(details=json.dumps(told))
    clean = json.loads(str(scrub_row(given_row, find_in_row(given_row, HOST, DETECTOR))["details"]))
    assert type(clean) is type(told)
    assert not isinstance(told, dict) or len(clean) == len(told)


def test_made_up_texts_are_scrubbed_as_well_as_was_measured() -> None:
    measured = figures(measure(corpus(seed=11, half="tuning", repeats=2)))
    assert float(str(measured["recall"])) >= 0.97
    assert float(str(measured["precision"])) >= 0.97


def test_compiled_rules_are_kept_for_the_next_process() -> None:
    DETECTOR.scanner()
    assert Rules(confidence="medium", cache_dir=DETECTOR.cache).cache_status == "loaded"
