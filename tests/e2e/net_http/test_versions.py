"""Field case 12: every Go version, built in every way, is traced: spans == requests, and each is true."""
import shutil
import subprocess

import pytest

from harness import gobuild, truth
from harness.gobuild import VERSIONS
from harness.load import Request, send
from harness.node import NET_HTTP, server
from harness.paths import WORK

SLOW = pytest.mark.slow
FLAVOURS = ("stripped", "plain", "pie", "static_pie", "cgo", "cgo_pie", "trimmed")
# Without `slow`: every version stripped and as PIE, every flavour with one. Each other pair means to build a standard library first,
# so some are tried with the oldest, the newest and one or two between.
SOME = {"trimmed": ("1.19", "1.26", "1.27"), "cgo": ("1.19", "1.23", "1.26", "1.27"), "cgo_pie": ("1.26", "1.27"),
        "static_pie": ("1.19", "1.22", "1.26", "1.27")}
MATRIX = [pytest.param(v, f, marks=() if f in ("stripped", "pie") or v == "1.26" else SLOW)
          for v in VERSIONS for f in FLAVOURS if v in SOME.get(f, VERSIONS)]


def kinds(n=3):
    return [Request(p, trace=t) for p in [*truth.ANSWERS, "/items/3", "/nowhere"] for t in (True, None)] + \
        [Request("/fast") for _ in range(n * 20)]


def check_program(rig, program, routes):
    target = rig.run(program, "-truth")
    requests = send(target.port, kinds(), workers=8)
    pairs = truth.check(rig.spans(target, len(requests)), requests, routes=routes)
    truth.check_pod([s for _, s in pairs], target.pod)
    assert target.stop() == 7, "the program's own exit code"


@pytest.mark.parametrize("version, flavour", MATRIX)
def test_every_version_in_every_flavour(rig, version, flavour):
    check_program(rig, server(version, flavour), float(version) > 1.215)


@pytest.mark.parametrize("version", ("1.19", "1.23", "1.27"))
def test_section_headers_zeroed(rig, version):
    """As some packers leave it: nothing but program headers to go by."""
    program = WORK / "bin" / f"{server(version).name}-headerless"
    data = bytearray(server(version).read_bytes())
    table, count, size = int.from_bytes(data[0x28:0x30], "little"), int.from_bytes(data[0x3c:0x3e], "little"), 64
    data[table:table + count * size] = bytes(count * size)
    data[0x28:0x30], data[0x3c:0x40] = bytes(8), bytes(4)
    program.write_bytes(data)
    program.chmod(0o755)
    check_program(rig, program, float(version) > 1.215)


def test_vendored_modules(rig):
    program = gobuild.build(NET_HTTP / "xh2c", go="1.26", require=("golang.org/x/net@v0.38.0",), vendor=True)
    target = rig.run(program)
    requests = send(target.ports["h2c"], [Request("/fast") for _ in range(50)], proto="h2c", workers=10, conns=1)
    truth.check_ids(truth.one_each(rig.spans(target, 50), requests))


@pytest.mark.parametrize("linker", ("lld", "gold"))
def test_other_linkers(rig, linker):
    """lld leaves zeros where RELA has the addresses."""
    if not shutil.which("ld.lld" if linker == "lld" else "ld.gold"):
        pytest.fail(f"the linker {linker} is needed (package lld, binutils)")
    flags = f"-ldflags=-s -w -linkmode=external -extldflags=-fuse-ld={linker}"
    gobuild.FLAVOURS[f"pie_{linker}"] = (("-buildmode=pie", flags), "1")
    check_program(rig, server("1.26", f"pie_{linker}"), True)


@pytest.mark.slow
@pytest.mark.parametrize("version, flavour", (("1.26", "debug"), ("1.19", "debug"), ("1.26", "race"),
                                                ("1.26", "boring"), ("1.27", "splitgroups")))
def test_programs_without_optimisation_with_the_race_detector_and_of_experiments(rig, version, flavour):
    check_program(rig, server(version, flavour), float(version) > 1.215)


@pytest.mark.slow
def test_twenty_starts_each_are_traced_and_end_as_they_would(rig):
    """Field case 12: 20 starts each, the program's own exit code unchanged."""
    for program in (server("1.19"), server("1.26"), server("1.27", "pie")):
        for _ in range(20):
            target = rig.run(program)
            requests = send(target.port, [Request("/fast"), Request("/panic")], workers=1)
            truth.one_each(rig.spans(target, 2), requests)
            assert target.stop() == 7


def test_version_strings_of_all_kinds_are_no_reason_to_refuse(rig):
    """Field case 15. The same program with another text at its build version and in its build info."""
    original = server("1.26").read_bytes()
    version = subprocess.run([*_go("1.26"), "env", "GOVERSION"], capture_output=True, text=True).stdout.strip().encode()
    for text in ("go1.26rc2", "go1.25.0X", "devel x", "(devel)", "", "go9.9", "gibberis"):
        data = original.replace(version, text.encode()[:len(version)].ljust(len(version), b" "))
        assert data != original
        program = WORK / "bin" / f"version-{text.strip('()').replace(' ', '_') or 'empty'}"
        program.write_bytes(data)
        program.chmod(0o755)
        target = rig.run(program)
        requests = send(target.port, [Request("/items/1")])
        truth.check(rig.spans(target, 1), requests)


def _go(version):
    return [gobuild.go_command(version)[0]]


def test_the_matrix_is_whole():
    """It must not shrink unseen: only Go 1.19 may be missing, where the distribution has no such package."""
    missing = [v for v in VERSIONS if not gobuild.installed(v)]
    policy = subprocess.run(["apt-cache", "policy", "golang-1.19-go"], capture_output=True, text=True).stdout
    packaged = "Candidate:" in policy and "Candidate: (none)" not in policy
    assert missing in ([], [] if packaged else ["1.19"]), missing
