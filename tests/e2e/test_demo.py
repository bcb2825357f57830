"""`./run demo`, as a newcomer sees it."""
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from harness.paths import TESTS, agent_binary
from harness.wait import until

DEMO = [sys.executable, str(TESTS / "demo" / "demo.py"), "--agent", str(agent_binary())]


def leftovers(demo, text):
    """Processes named in its output that still run, control groups of the demo that are still there."""
    pids = [int(p) for p in re.findall(r"\bpid (\d+)", text)]
    return [p for p in pids if Path(f"/proc/{p}").exists()] + list(Path("/sys/fs/cgroup").glob(f"**/spoor-test-{demo.pid}-*"))


def test_the_demo_shows_its_spans_in_order_and_cleans_up():
    demo = subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out, _ = demo.communicate(timeout=120)
    assert demo.returncode == 0, out
    lines = [line for line in out.splitlines() if "trace=" in line]
    wanted = ["GET /fast 200", "GET /fast 200", "GET /slow 200", "GET /items/{id} 200", "GET /items/{id} 200", "GET /nowhere 404",
              "POST /broken 500", "GET /panic"]
    lines, story = lines[:len(wanted)], lines[len(wanted):]
    assert len(lines) == len(wanted) and all(w in line for w, line in zip(wanted, lines)), out
    assert all(re.search(r"\d+:\d+:\d+\.\d+ .*ms .*shop/shop-web-.* server .*trace=[0-9a-f]{32} span=[0-9a-f]{16}$", line)
               for line in lines), out
    times = [line.split()[0] for line in lines]
    assert times == sorted(times)
    for word in ("/status", "/metrics", "15 produced, 15 exported, 0 dropped", "0xc000081004"):
        assert word in out, word
    assert_story(story, out)
    assert_metrics(out.split("metrics of shop-web")[1])
    assert not leftovers(demo, out)


def assert_metrics(out):
    counts = dict(re.findall(r"^  (\S.*\S) +(\d+) requests?, mean \d+\.\d\d ms$", out, re.M))
    assert counts == {"GET /fast 200": "2", "GET /slow 200": "1", "GET /items/{id} 200": "2", "GET (no route) 404": "1", "POST /broken 500": "1",
                      "GET /panic panic": "1", "GET /orders/{id} 200": "1"}, out
    assert re.search(r"[1-9]\d* goroutines, [1-9]\d*\.\d MB used beside stacks, GOMAXPROCS [1-9]", out), out


# service, kind, name and status, and how deep it stands in the tree; a client's port is not known before.
TREE = [(0, "shop-web", "server", "GET /orders/{id} 200"), (1, "shop-web", "client", "GET http://HOST/stock/7 200"),
        (2, "shop-stock", "server", "GET /stock/{id} 200"), (3, "shop-stock", "client", "GET http://HOST/prices/7 200"),
        (4, "shop-stock", "server", "GET /prices/{id} 200"), (1, "shop-web", "client", "POST http://HOST/reserve 201"),
        (2, "shop-stock", "server", "POST /reserve 201")]


def assert_story(lines, out):
    """The spans of a request are one trace, their parents are the true ones, and the tree that is printed says the same."""
    spans = [re.search(r"ms  (\S+) +\S+ +(server|client)  (.*?) +trace=(\w+) span=(\w+)(?: parent=(\w+))?$", line) for line in lines]
    assert all(spans) and len({s[4] for s in spans}) == 1, out
    by_id = {s[5]: s for s in spans}

    def depth(s):
        return 0 if s[6] is None else 1 + depth(by_id[s[6]])

    def what(s):
        return s[1], s[2], re.sub(r"127\.0\.0\.1:\d+", "HOST", s[3])

    assert sorted((depth(s), *what(s)) for s in spans) == sorted(TREE), out
    above = {what(s): what(by_id[s[6]]) for s in spans if s[6]}
    for i, (deep, *one) in enumerate(TREE):
        if deep:
            assert above[tuple(one)] == next(tuple(t[1:]) for t in reversed(TREE[:i]) if t[0] == deep - 1), out
    printed = re.findall(r"^ +\S+ms  ( *)(shop-\w+) (server|client)  (.*)$", out.split("the whole story")[1], re.M)
    assert [(len(indent) // 3, *name, re.sub(r"127\.0\.0\.1:\d+", "HOST", operation)) for indent, *name, operation in printed] == TREE, out


def test_without_net_admin_it_shows_what_each_program_did_and_says_why_the_trace_ends_there():
    out = subprocess.run(["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", *DEMO], capture_output=True, text=True,
                         timeout=120)
    assert out.returncode == 0, out.stdout + out.stderr
    assert "0xc000080004" in out.stdout and "15 produced, 15 exported" in out.stdout, out.stdout
    story = out.stdout.split("the whole story")[1]
    assert len(re.findall(r"ms  shop-stock server ", story)) == 3, story  # roots
    assert re.search("traces of its own here, as propagation does not work: .", story), story


def test_ctrl_c_cleans_up(tmp_path):
    out = tmp_path / "out"
    with open(out, "w") as f:
        # As from a terminal: a shell starts what runs in its background with SIGINT ignored, and that is inherited.
        demo = subprocess.Popen([*DEMO, "--keep"], stdout=f, stderr=subprocess.STDOUT,
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    try:
        until(lambda: "Ctrl-C" in out.read_text() or demo.poll() is not None, 60, "the demo waits for requests")
        port = re.search(r"program +http://127.0.0.1:(\d+), with /fast", out.read_text())[1]
        subprocess.run(["curl", "-s", f"http://127.0.0.1:{port}/fast?of=mine"], check=True, stdout=subprocess.DEVNULL)
        until(lambda: out.read_text().count("trace=") == 16, 10, "a request of one's own is a line")
        demo.send_signal(signal.SIGINT)
        demo.wait(15)
    finally:
        demo.terminate()  # where something above went wrong
        demo.wait(15)
    assert not leftovers(demo, out.read_text()), out.read_text()


def test_without_root_it_says_what_it_needs():
    readable = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "cat", DEMO[1]], capture_output=True)
    if readable.returncode:
        home = Path(shutil.which("python3")).resolve()
        assert home.exists()  # a checkout below a folder of root's own: run a copy
        copy = Path("/tmp") / f"spoor-demo-copy-{os.getpid()}"
        shutil.copytree(TESTS / "demo", copy / "tests" / "demo")
        shutil.copytree(TESTS / "e2e" / "harness", copy / "tests" / "e2e" / "harness")
        script = str(copy / "tests" / "demo" / "demo.py")
    else:
        copy, script = None, DEMO[1]
    try:
        done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3", script],
                              capture_output=True, text=True, timeout=30, cwd="/")
    finally:
        if copy:
            shutil.rmtree(copy)
    assert done.returncode == 1 and "root" in done.stdout, done.stdout + done.stderr
