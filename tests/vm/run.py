#!/usr/bin/env python3
"""What no kernel under lockdown can try, in virtual machines: the agent writes into programs' memory (propagation: write).

    run.py [--kernel PACKAGE]... [--requests N] [CASE]...

A case is a name of CASES, or part of one. Kernels are packages of Debian, fetched by apt-get download and kept in build/vm.
"""
import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from harness import gobuild  # noqa: E402

KERNELS = ("linux-image-6.12.95+deb12-cloud-amd64",)
ALL = "h1 h2 xnet grpc"

# name -> (Go version, modules, what guest.sh is to do, more of the kernel's command line); N: how many requests
NEW, OLD = ("google.golang.org/grpc@v1.85.0", "golang.org/x/net@v0.61.0"), ("google.golang.org/grpc@v1.50.1", "golang.org/x/net@v0.8.0")
MIDDLE = ("google.golang.org/grpc@v1.60.1", "golang.org/x/net@v0.26.0")
CASES = {
    "all-1.26": ("1.26", NEW, f"all '{ALL}' N", ""),
    "tree-1.26": ("1.26", NEW, f"tree '{ALL}' 50", ""),
    "bytes-1.27": ("1.27", NEW, f"bytes '{ALL}' N", ""),
    "bytes-1.23": ("1.23", ("google.golang.org/grpc@v1.69.4", "golang.org/x/net@v0.35.0"), f"bytes '{ALL}' N", ""),
    "bytes-1.22": ("1.22", MIDDLE, f"bytes '{ALL}' N", ""),
    "bytes-1.21": ("1.21", MIDDLE, f"bytes '{ALL}' N", ""),
    "bytes-1.19": ("1.19", OLD, f"bytes '{ALL}' N", ""),
    "refused-lockdown": ("1.26", NEW, "refused 'lockdown is integrity'", "lockdown=integrity"),
    "refused-capability": ("1.26", NEW, "refused 'CAP_SYS_ADMIN is needed' -", ""),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", action="append", help=f"instead of {', '.join(KERNELS)}")
    parser.add_argument("--requests", type=int, default=400, help="of each kind")
    parser.add_argument("case", nargs="*")
    options = parser.parse_args()
    failed = 0
    for kernel in options.kernel or KERNELS:
        for name, (go, modules, what, append) in CASES.items():
            if options.case and not any(c in name for c in options.case):
                continue
            failed += not run(kernel, name, go, modules, re.sub(r"\bN\b", str(options.requests), what), append)
    sys.exit(1 if failed else 0)


def run(kernel, name, go, modules, what, append):
    began = time.time()
    try:
        program = gobuild.build(HERE / "traffic", go=go, require=modules)
    except gobuild.NoGo as none:
        print(f"-- {name} on {kernel}: left out: {none}", flush=True)
        return True
    log = ROOT / "build/vm" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    files = [ROOT / "build/release/spoor", f"{program}:/opt/traffic", HERE / "guest.sh", "/usr/bin/setpriv"]
    words = [HERE / "vm", "-t", "1500", "-m", "1536", "-k", append, kernel, *files, "--", f"sh guest.sh {what}"]
    with log.open("w") as out:
        status = subprocess.run(list(map(str, words)), stdout=out, stderr=subprocess.STDOUT, env=os.environ, check=False).returncode
    text = log.read_text()
    for line in text.splitlines():
        if line.startswith(("== ", "WRONG", "guest:")) or " requests: " in line or " calls: " in line or "propagation" in line[:30]:
            print("  ", line[:180], flush=True)
    passed = status == 0 and "\nPASS" in text
    print(f"{'ok' if passed else 'FAILED'} {name} on {kernel}: {time.time() - began:.0f} s, {log}", flush=True)
    return passed


if __name__ == "__main__":
    main()
