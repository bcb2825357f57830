"""Where things are: the checkout, what is built, what a run may write."""
import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TESTS = ROOT / "tests"
BUILD = ROOT / "build"
WORK = BUILD / "e2e"  # programs, certificates, logs; kept between runs


def agent_binary():
    """The agent under test: $SPOOR, else the release build."""
    return Path(os.environ.get("SPOOR", BUILD / "release" / "spoor"))


def tool(name):
    """Path of a program that Debian keeps in sbin, too."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        raise FileNotFoundError(f"{name} is not installed")
    return found
