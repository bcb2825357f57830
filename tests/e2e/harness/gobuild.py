"""Builds Go programs: for a Go version, stripped, as PIE, with cgo...; kept in build/e2e/bin by what goes into them."""
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from .paths import WORK

# Versions of the matrix and how to call each: Debian keeps older ones apart, newer ones come as Go's own toolchain modules.
VERSIONS = ("1.19", "1.21", "1.22", "1.23", "1.26", "1.27")
TOOLCHAINS = {"1.21": "go1.21.13", "1.22": "go1.22.12", "1.23": "go1.23.5", "1.26": "go1.26.8", "1.27": "go1.27.3"}

# name -> (go build arguments, CGO_ENABLED, more of the environment)
FLAVOURS = {
    "plain": ((), "0"),
    "stripped": (("-ldflags=-s -w",), "0"),
    "pie": (("-buildmode=pie", "-ldflags=-s -w"), "0"),
    "static_pie": (("-buildmode=pie", "-ldflags=-s -w -linkmode=external -extldflags=-static-pie"), "1"),
    "cgo": (("-ldflags=-s -w -linkmode=external",), "1"),
    "cgo_pie": (("-buildmode=pie", "-trimpath", "-ldflags=-s -w -linkmode=external"), "1"),
    "trimmed": (("-trimpath", "-ldflags=-s -w -buildid="), "0"),
    "debug": (("-gcflags=all=-N -l",), "0"),
    "race": (("-race",), "1"),
    "boring": (("-ldflags=-s -w",), "0", {"GOEXPERIMENT": "boringcrypto", "GOAMD64": "v2"}),
    "splitgroups": (("-ldflags=-s -w",), "0", {"GOEXPERIMENT": "mapsplitgroup"}),
}


class NoGo(Exception):
    """This Go version is not installed here."""


@functools.lru_cache(None)
def go_command(version):
    """The command and environment that build with Go 1.NN ("" is the newest at hand, at least 1.21)."""
    if not version:
        return _any_go()
    special = os.environ.get("GO_" + version.replace(".", "_"))
    if special:
        return special, {}
    packaged = f"/usr/lib/go-{version}/bin/go"
    if Path(packaged).exists():
        return packaged, {"GOTOOLCHAIN": "local"}
    on_path = shutil.which("go")
    if on_path and _version(on_path, {"GOTOOLCHAIN": "local"}).startswith(f"go{version}"):
        return on_path, {"GOTOOLCHAIN": "local"}
    if version in TOOLCHAINS:
        try:
            return _any_go()[0], {"GOTOOLCHAIN": TOOLCHAINS[version]}
        except NoGo:
            pass
    raise NoGo(f"Go {version} is not installed (golang-{version}-go, or set GO_{version.replace('.', '_')})")


def _any_go():
    on_path = shutil.which("go")
    if on_path and _minor(_version(on_path, {"GOTOOLCHAIN": "local"})) >= 21:
        return on_path, {"GOTOOLCHAIN": "local"}
    packaged = sorted(Path("/usr/lib").glob("go-1.*/bin/go"), key=lambda p: _minor("go" + p.parts[3][3:]))
    if packaged and _minor("go" + packaged[-1].parts[3][3:]) >= 21:
        return str(packaged[-1]), {"GOTOOLCHAIN": "local"}
    raise NoGo("no Go >= 1.21: neither `go` on the PATH nor a package golang-1.2x")


def _minor(version):
    found = re.match(r"go1\.(\d+)", version)
    return int(found[1]) if found else 0


@functools.lru_cache(None)
def _version_of(go, env):
    return subprocess.run([go, "env", "GOVERSION"], env={**os.environ, **dict(env)}, capture_output=True, text=True,
                          cwd="/").stdout.strip()


def _version(go, env):
    return _version_of(go, tuple(sorted(env.items())))


def installed(version):
    try:
        go, env = go_command(version)
        return _version(go, env).startswith(f"go{version}")
    except NoGo:
        return False


def build(source, go="", flavour="stripped", require=(), vendor=False, tags="", name=""):
    """The program made from the folder `source`, as a path. `require` names modules (path@version) beyond the standard library."""
    source = Path(source)
    command, extra = go_command(go)
    args, cgo, *more = FLAVOURS[flavour]
    more = more[0] if more else {}
    env = {**os.environ, "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": cgo, "GOWORK": "off", **extra, **more}
    version = _version(command, extra)
    key = hashlib.sha256(json.dumps([version, args, cgo, more, sorted(require), vendor, tags]).encode())
    for file in sorted(source.glob("*.go")):
        key.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    name = name or source.name
    out = WORK / "bin" / f"{name}-{version}-{flavour}-{key.hexdigest()[:12]}"
    if out.exists():
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = WORK / "src" / out.name
    _prepare(folder, source, name, version, require, vendor, command, env)
    made = out.with_suffix(f".{os.getpid()}")
    words = [command, "build", *args, *(["-tags", tags] if tags else []), *(["-mod=vendor"] if vendor else []), "-o", str(made), "."]
    _run(words, folder, env)
    os.rename(made, out)
    return out


def _prepare(folder, source, name, version, require, vendor, command, env):
    """A module of its own whose `go` line is the compiler's own version: only then has the standard library that version's ways."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in source.glob("*.go"):
        shutil.copy(file, folder)
    (folder / "go.mod").write_text(f"module example.test/{name}\n\ngo 1.{_minor(version)}\n")
    if require:
        _run([command, "get", *require], folder, env)
        _run([command, "mod", "tidy"], folder, env)
    if vendor:
        _run([command, "mod", "vendor"], folder, env)


def _run(words, folder, env):
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} in {folder}:\n{done.stderr}{done.stdout}")
