"""Programs of other people (field case 13), fetched by the registries' own clients into build/e2e/thirdparty, never installed."""
import shutil
import subprocess
import tarfile
from pathlib import Path

from harness.paths import WORK

FOLDER = WORK / "thirdparty"


def _run(*words, cwd=None):
    done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr[-500:]}")
    return done.stdout


def debian(package, path):
    """The file at `path` in a Debian package, which is unpacked, not installed."""
    folder = FOLDER / package
    found = folder / path
    if not found.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _run("apt-get", "download", package, cwd=folder)
        _run("dpkg-deb", "-x", next(folder.glob("*.deb")), folder)
    return found


def npm(package, version, path):
    """The file at `path` in an npm package."""
    folder = FOLDER / f"{package.replace('/', '_')}-{version}"
    found = folder / "package" / path
    if not found.exists():
        folder.mkdir(parents=True, exist_ok=True)
        npm_client = shutil.which("npm")
        if not npm_client:
            raise RuntimeError("npm is not installed")
        name = _run(npm_client, "pack", "--silent", f"{package}@{version}", cwd=folder).strip().splitlines()[-1]
        with tarfile.open(folder / name) as tar:
            tar.extractall(folder, filter="data")
    return found


def esbuild():
    """Go 1.26, no symbols, no build info."""
    return npm("@esbuild/linux-x64", "0.28.2", "bin/esbuild")


def old_esbuild():
    """Go 1.17.2."""
    return npm("esbuild-linux-64", "0.14.0", "bin/esbuild")


def debian_program(name):
    """prometheus is a package of ours (promtool); the others are only unpacked."""
    if name == "prometheus":
        return Path(shutil.which("prometheus") or "/usr/bin/prometheus")
    paths = {"caddy": "usr/bin/caddy", "etcd-server": "usr/bin/etcd", "docker-registry": "usr/bin/docker-registry", "webhook": "usr/bin/webhook"}
    return debian(name, paths[name])
