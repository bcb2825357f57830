"""Field case 13: programs of other people, as they come, give server spans with the right path, route and status."""
import shutil
import subprocess
import time

import pytest

import thirdparty
from harness.ports import free_port
from harness.wait import until


@pytest.fixture(scope="module")
def rig(shared):
    sink = shared.sink()
    return shared, sink, shared.agent(sink)


def curl(url, *args):
    """The status that curl saw."""
    done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "10", *args, url], capture_output=True, text=True)
    return int(done.stdout or 0)


def answers(url, *args):
    until(lambda: curl(url, *args) not in (0, 503), 20, f"{url} answers")


def check(rig, target, requests, scheme="http", version="1.1"):
    """Sends [(method, url, path)]; each is one span with its path and status, and no route but one that fits the path (which
    router a program uses, and whether its Go knows patterns, depends on who built it)."""
    node, sink, agent = rig
    agent.wait_traced(target.pid, 20)
    for method, url, path in requests:
        mark = f"{time.monotonic_ns():x}"
        code = curl(f"{url}{'&' if '?' in url else '?'}rid={mark}", "-X", method, "-H", "User-Agent: third-party-test")
        span, = until(lambda: [s for s in sink.spans if s.rid == mark], 10,
                      lambda: f"the span of {method} {path} ({code}); dropped {agent.dropped()}")
        assert span.attrs["url.path"] == path and span.code == code and code, f"{code}: {span}"
        assert span.attrs["http.request.method"] == method and span.attrs["user_agent.original"] == "third-party-test"
        assert span.attrs["url.scheme"] == scheme and span.attrs["network.protocol.version"] == version, span
        assert span.route is None or path.startswith(span.route.split("{")[0]), span
        assert span.resource["container.id"] == target.container.id and span.end > span.start
    target.stop()


def test_esbuild_serve(rig):
    """Go 1.26, without symbols and build info, textStart 0."""
    node, _, _ = rig
    if not shutil.which("npm"):
        pytest.skip("npm is not installed here: esbuild cannot be fetched")
    port = free_port()
    (node.folder / "www").mkdir()
    (node.folder / "www" / "index.html").write_text("<html></html>")
    target = node.run(thirdparty.esbuild(), f"--serve=127.0.0.1:{port}", f"--servedir={node.folder}/www", cwd=str(node.folder))
    base = f"http://127.0.0.1:{port}"
    answers(base)
    check(rig, target, [("GET", base + "/", "/"), ("GET", base + "/index.html", "/index.html"),
                        ("GET", base + "/missing/file", "/missing/file")])


def test_prometheus(rig):
    node, _, _ = rig
    port = free_port()
    (node.folder / "prometheus.yml").write_text("global: {}\n")
    target = node.run(thirdparty.debian_program("prometheus"), f"--config.file={node.folder}/prometheus.yml",
                      f"--storage.tsdb.path={node.folder}/tsdb", f"--web.listen-address=127.0.0.1:{port}")
    base = f"http://127.0.0.1:{port}"
    answers(base + "/-/ready")
    check(rig, target, [("GET", base + "/-/healthy", "/-/healthy"), ("GET", base + "/api/v1/query?query=up", "/api/v1/query"),
                        ("GET", base + "/api/v1/query?query=(", "/api/v1/query"), ("GET", base + "/nowhere", "/nowhere"),
                        ("POST", base + "/-/quit", "/-/quit")])


def test_caddy(rig):
    node, _, _ = rig
    port = free_port()
    (node.folder / "caddy").mkdir()
    (node.folder / "caddy" / "a.txt").write_text("a")
    target = node.run(thirdparty.debian_program("caddy"), "file-server", "--listen", f"127.0.0.1:{port}", "--root",
                      f"{node.folder}/caddy", env={"HOME": str(node.folder), "XDG_CONFIG_HOME": str(node.folder)})
    base = f"http://127.0.0.1:{port}"
    answers(base + "/a.txt")
    check(rig, target, [("GET", base + "/a.txt", "/a.txt"), ("GET", base + "/missing", "/missing")])


def test_etcd(rig):
    node, _, _ = rig
    client, peer = free_port(), free_port()
    target = node.run(thirdparty.debian_program("etcd-server"), "--data-dir", f"{node.folder}/etcd",
                      "--listen-client-urls", f"http://127.0.0.1:{client}", "--advertise-client-urls", f"http://127.0.0.1:{client}",
                      "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                      "--initial-cluster", f"default=http://127.0.0.1:{peer}", "--log-level", "error")
    base = f"http://127.0.0.1:{client}"
    answers(base + "/health")
    check(rig, target, [("GET", base + "/version", "/version"), ("GET", base + "/health", "/health"),
                        ("GET", base + "/nowhere", "/nowhere")])


def test_docker_registry(rig):
    node, _, _ = rig
    port = free_port()
    (node.folder / "registry.yml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {node.folder}/registry}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n")
    target = node.run(thirdparty.debian_program("docker-registry"), "serve", f"{node.folder}/registry.yml")
    base = f"http://127.0.0.1:{port}"
    answers(base + "/v2/")
    check(rig, target, [("GET", base + "/v2/", "/v2/"), ("GET", base + "/v2/an/image/manifests/1", "/v2/an/image/manifests/1")])


def test_webhook(rig):
    node, _, _ = rig
    port = free_port()
    (node.folder / "hooks.json").write_text('[{"id": "yes", "execute-command": "/bin/true"}]')
    target = node.run(thirdparty.debian_program("webhook"), "-hooks", f"{node.folder}/hooks.json", "-ip", "127.0.0.1", "-port", port)
    base = f"http://127.0.0.1:{port}"
    answers(base)
    check(rig, target, [("GET", base + "/hooks/yes", "/hooks/yes"), ("GET", base + "/hooks/no", "/hooks/no"),
                        ("GET", base + "/nowhere", "/nowhere")])
