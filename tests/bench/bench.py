#!/usr/bin/env python3
"""What spoor costs, side by side with the untraced program and with two empty probes, in one run. Needs root and wrk.

The traced server runs alone on one CPU; load, agent and sink share another one. Rounds are interleaved and rotate their order;
medians are compared. Everything is on loopback and bounded in time. The table at the end is docs/performance.md's.
"""
import argparse, glob, json, os, platform, re, shutil, signal, socket, statistics, subprocess, sys, time, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HZ = os.sysconf("SC_CLK_TCK")
SERVER_CPU, OTHER_CPU = 0, os.cpu_count() - 1
HEADERS = ["User-Agent: bench/1.0 (load)", "Accept: application/json", "X-Request-Id: 0123456789abcdef"]
PEERS = {"kept": "OBI 0.20, otel-go-auto 0.38", "agent": "57-65", "rss1": "OBI 62-157", "rss20": "OBI 78", "first": "2-3.4 s"}


def sh(*cmd, **kw):
    return subprocess.run(cmd, check=True, text=True, capture_output=True, **kw).stdout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=5) as r:
        return r.read()


def cpu_seconds(pid):
    f = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / HZ


def memory_mb(pid, field="VmRSS"):
    return next(int(line.split()[1]) / 1024 for line in open(f"/proc/{pid}/status") if line.startswith(field))


def median(values):
    return statistics.median(values) if values else float("nan")


def spread(values, digits=2):
    return "/".join(f"{v:.{digits}f}" for v in values)


class Bench:
    def __init__(self, o):
        self.o, self.procs, self.rows = o, [], []
        self.out = os.path.join(ROOT, "build", "bench")
        os.makedirs(self.out, exist_ok=True)
        self.agent_path = os.path.abspath(o.agent)
        self.prio = ["chrt", "-r", "5"] if shutil.which("chrt") and not o.no_rt else []

    def build(self):
        env = dict(os.environ, GOFLAGS="-mod=mod -buildvcs=false", CGO_ENABLED="0")
        for name in ("httpapp", "grpcapp", "load", "sink"):
            flags = ["-ldflags=-s -w"] if name.endswith("app") else []
            sh("go", "build", *flags, "-o", f"{self.out}/{name}", f"./{name}", cwd=f"{HERE}/targets", env=env)
        sh("clang", "-O2", "-g", "-mcpu=v3", "-target", "bpf", "-idirafter", f"/usr/include/{platform.machine()}-linux-gnu", "-c",
           f"{HERE}/floor/floor.bpf.c", "-o", f"{self.out}/floor.bpf.o")
        sh("cc", "-O2", "-D_GNU_SOURCE", "-o", f"{self.out}/floor", f"{HERE}/floor/floor.c", "-lbpf")

    def start(self, cpu, cmd, log, env=None):
        f = open(os.path.join(self.out, log), "ab")
        p = subprocess.Popen([*self.prio, "taskset", "-c", str(cpu), *cmd], stdout=f, stderr=subprocess.STDOUT, env=env, start_new_session=True)
        self.procs.append(p)
        return p

    def stop(self, p, sig=signal.SIGTERM):
        if p is None:
            return
        if p.poll() is None:
            p.send_signal(sig)
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.procs.remove(p)

    def close(self):
        for p in list(self.procs):
            self.stop(p)

    def wait_port(self, port, p):
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.01)
            if p.poll() is not None:
                sys.exit(f"bench: {p.args} has ended, see build/bench/*.log")
        sys.exit(f"bench: {p.args} does not listen on {port}")

    # ---- the parts that are started ----

    def app(self, exe=None, port=None):
        port = port or free_port()
        p = self.start(SERVER_CPU, [exe or f"{self.out}/httpapp", "-addr", f"127.0.0.1:{port}"], "app.log")
        self.wait_port(port, p)
        p.url = f"http://127.0.0.1:{port}/items/1"
        return p

    def sink(self):
        port = free_port()
        p = self.start(OTHER_CPU, [f"{self.out}/sink", "-light", "-addr", f"127.0.0.1:{port}"], "sink.log")
        self.wait_port(port, p)
        p.url = f"http://127.0.0.1:{port}"
        return p

    def sunk(self, sink):
        return json.loads(get(sink.url + "/stats"))

    def reset(self, sink):
        urllib.request.urlopen(urllib.request.Request(sink.url + "/reset", method="POST"), timeout=5).read()

    def agent(self, sink, pattern, wait_for=None, env=None, *more):
        admin = free_port()
        p = self.start(OTHER_CPU, [self.agent_path, "agent", "--kubelet-source", "none", "--discovery-executables", pattern, "--otlp-endpoint",
                                   sink.url, "--admin-listen", "127.0.0.1", "--admin-port", str(admin), *more], "agent.log", env)
        p.admin = f"http://127.0.0.1:{admin}"
        for _ in range(200):
            try:
                get(p.admin + "/readyz")
                break
            except OSError:
                time.sleep(0.05)
            if p.poll() is not None:
                sys.exit("bench: the agent has ended, see build/bench/agent.log")
        if wait_for:
            self.reset(sink)
            for _ in range(100):
                get(wait_for)
                time.sleep(0.1)
                if self.metric(p, "spoor_spans_produced_total"):
                    return self.settled(p, wait_for)
            sys.exit("bench: no span of the target, see build/bench/agent.log")
        return p

    def settled(self, agent, url):
        """The probe that is on trial has had its thousand requests and is gone, as it goes from every program that it tells nothing."""
        self.wrk(url, 1)
        for _ in range(60):
            if self.metric(agent, "spoor_trial_probes_total"):
                break
            time.sleep(0.1)
        return agent

    def metric(self, agent, name):
        total = 0
        for line in get(agent.admin + "/metrics").decode().splitlines():
            if line.startswith(name) and line[len(name)] in " {":
                total += float(line.rsplit(" ", 1)[1])
        return total

    def places(self):
        """The two places that a request hits, as file offsets, by the agent's own analysis."""
        return self.functions(f"{self.out}/httpapp", "net/http.serverHandler.ServeHTTP", "net/http.(*response).finishRequest")

    def functions(self, exe, *symbols):
        found = json.loads(sh(self.agent_path, "inspect", "--json", exe))
        by_symbol = {f["function"]: f for lib in found["libraries"] for f in lib["functions"] if f["found"]}
        return [by_symbol[s] for s in symbols]

    def floor(self, app, offsets, exe=None, count=False):
        env = dict(os.environ, **({"FLOOR_COUNT": "1"} if count else {}))
        p = subprocess.Popen([*self.prio, "taskset", "-c", str(OTHER_CPU), f"{self.out}/floor", f"{self.out}/floor.bpf.o", exe or f"{self.out}/httpapp",
                              str(app.pid), *[hex(o) for o in offsets]], stdout=subprocess.PIPE, text=True, env=env)
        self.procs.append(p)
        if p.stdout.readline().strip() != "attached":
            sys.exit("bench: the floor could not attach")
        return p

    def wrk(self, url, seconds):
        cmd = [*self.prio, "taskset", "-c", str(OTHER_CPU), "wrk", "-t1", "-c16", f"-d{seconds}s"]
        for h in HEADERS:
            cmd += ["-H", h]
        out = sh(*cmd, url)
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
        if bad:
            sys.exit(f"bench: {bad[1]} requests failed")
        return dict(requests=int(re.search(r"(\d+) requests in", out)[1]), rps=float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]))

    def paced(self, url, seconds, rate=2000):
        out = sh(*self.prio, "taskset", "-c", str(OTHER_CPU), f"{self.out}/load", "-rate", str(rate), "-d", f"{seconds}s", "-target", url)
        r = json.loads(out.splitlines()[-1])
        if r["errors"]:
            sys.exit(f"bench: {r['errors']} requests failed")
        return r

    def row(self, what, value, goal, peers="", good=None):
        self.rows.append((what, value, goal, peers, "" if good is None else ("yes" if good else "NO")))
        print(f"  {what}: {value}  (goal {goal}{'' if good is None else ', met' if good else ', MISSED'})", flush=True)

    def calls(self, app, seconds):
        """gRPC, 64 connections."""
        out = sh(*self.prio, "taskset", "-c", str(OTHER_CPU), f"{self.out}/grpcapp", "-load", "-addr", app.address, "-d", f"{seconds}s")
        r = json.loads(out)
        if r["errors"]:
            sys.exit(f"bench: {r['errors']} calls failed")
        return r

    # ---- measurements ----

    def bpf_runs(self, agent):
        """Runs and time of the programs that the agent holds."""
        runs = ns = 0
        for f in glob.glob(f"/proc/{agent.pid}/fdinfo/*"):
            try:
                text = open(f).read()
            except OSError:
                continue
            if "prog_type" in text and "run_cnt" in text:
                runs += int(re.search(r"run_cnt:\s+(\d+)", text)[1])
                ns += int(re.search(r"run_time_ns:\s+(\d+)", text)[1])
        return runs, ns

    def m_hits(self):
        knob = "/proc/sys/kernel/bpf_stats_enabled"
        old = open(knob).read()
        sink, app = self.sink(), self.app()
        agent = self.agent(sink, "*/httpapp", app.url)
        places = self.places()
        try:
            open(knob, "w").write("1")
            best = {}
            for name, load in (("max", lambda: self.wrk(app.url, self.o.seconds)), ("paced", lambda: self.paced(app.url, self.o.seconds))):
                us, hits = [], []
                for _ in range(3):
                    a = self.bpf_runs(agent)
                    r = load()
                    b = self.bpf_runs(agent)
                    hits.append((b[0] - a[0]) / r["requests"])
                    us.append((b[1] - a[1]) / r["requests"] / 1000)
                best[name] = (median(hits), us)
        finally:
            open(knob, "w").write(old)
        self.stop(agent), self.stop(app), self.stop(sink)
        emulated = all(p["emulated"] for p in places)
        hits = best["max"][0]
        self.row("probe hits per request", f"{hits:.2f}, {'both' if emulated else 'NOT'} emulated", "2, both emulated", "OBI 13-23, otel-go-auto 5",
                 hits < 2.05 and emulated)
        for name, goal, what in (("max", 2.0, "at the maximum rate"), ("paced", 3.0, "at 2,000/s")):
            us = median(best[name][1])
            self.row(f"BPF time per request, three headers, {what}", f"{us:.2f} us ({spread(best[name][1])})", f"< {goal} us", "15-18 us", us < goal)

    def m_max(self):
        sink, app = self.sink(), self.app()
        offsets = [p["enter_offset"] for p in self.places()]
        names, got, sent = ["alone", "floor", "spoor"], {}, []
        self.wrk(app.url, 2)
        for k in range(self.o.rounds):
            for name in names[k % 3:] + names[:k % 3]:
                p = {"alone": lambda: None, "floor": lambda: self.floor(app, offsets), "spoor": lambda: self.agent(sink, "*/httpapp", app.url)}[name]()
                time.sleep(0.5)
                before = self.metric(p, "spoor_spans_produced_total") if name == "spoor" else 0
                r = self.wrk(app.url, self.o.seconds)
                if name == "spoor":
                    time.sleep(1.5)
                    sent.append((self.metric(p, "spoor_spans_produced_total") - before) / r["requests"])
                    dropped = self.metric(p, "spoor_spans_dropped_total")
                    if dropped:
                        print(f"    dropped {dropped:.0f}")
                got.setdefault(name, []).append(r["rps"])
                self.stop(p)
                time.sleep(0.5)
        self.stop(app), self.stop(sink)
        of_floor = [s / f for s, f in zip(got["spoor"], got["floor"])]
        of_alone = [s / a for s, a in zip(got["spoor"], got["alone"])]
        print(f"    req/s alone {spread(got['alone'], 0)} floor {spread(got['floor'], 0)} spoor {spread(got['spoor'], 0)}")
        self.row("throughput kept of two empty probes, exporting", f"{median(of_floor):.3f} ({spread(of_floor, 3)})", ">= 0.95", "", median(of_floor) >= 0.95)
        self.row("throughput kept of the untraced program, exporting", f"{median(of_alone):.3f} ({spread(of_alone, 3)})", ">= 0.88", PEERS["kept"],
                 median(of_alone) >= 0.88)
        self.row("spans produced per request at the maximum rate", f"{median(sent):.4f}", "1", "OBI 0.86", abs(median(sent) - 1) < 0.001)

    def m_paced(self):
        sink, app = self.sink(), self.app()
        names, got = ["alone", "spoor"], {}
        ms, arrived = [], []
        self.paced(app.url, 2)
        for k in range(self.o.rounds):
            for name in names[k % 2:] + names[:k % 2]:
                p = self.agent(sink, "*/httpapp", app.url) if name == "spoor" else None
                if p:
                    time.sleep(2)
                    self.reset(sink)
                    c = cpu_seconds(p.pid)
                r = self.paced(app.url, self.o.seconds)
                if p:
                    time.sleep(2.5)
                    ms.append((cpu_seconds(p.pid) - c) / r["requests"] * 1e6)
                    arrived.append(self.sunk(sink)["spans"] / r["requests"])
                got.setdefault(name, []).append(r["p99_us"])
                self.stop(p)
        self.stop(app), self.stop(sink)
        ratio = [s / a for s, a in zip(got["spoor"], got["alone"])]
        self.row("p99 at 2,000 requests/s, of the program alone", f"{median(ratio):.2f} ({spread(ratio)})", "<= 1.2", "6-11", median(ratio) <= 1.2)
        self.row("agent CPU per 1,000 requests exported", f"{median(ms):.1f} ms ({spread(ms, 1)})", "<= 6 ms", PEERS["agent"] + " ms", median(ms) <= 6)
        self.row("spans at the collector per request", f"{median(arrived):.4f}", "1", "0.98-1", abs(median(arrived) - 1) < 0.001)

    def m_metrics(self):
        """The same requests with and without metrics; and with metrics alone."""
        sink, app = self.sink(), self.app()
        ways = {"spans": ["--metrics-exporters", "none"], "both": ["--metrics-interval", "1s"],
                "metrics": ["--metrics-interval", "1s", "--traces-sampler", "always_off"]}
        names, ms = list(ways), {}
        for k in range(self.o.rounds):
            for name in names[k % 3:] + names[:k % 3]:
                p = self.agent(sink, "*/httpapp", app.url, None, *ways[name])
                time.sleep(1)
                c = cpu_seconds(p.pid)
                r = self.wrk(app.url, self.o.seconds)
                time.sleep(2.5)
                ms.setdefault(name, []).append((cpu_seconds(p.pid) - c) / r["requests"] * 1e6)
                if name != "spans":
                    assert self.metric(p, "spoor_metric_operations_total") >= r["requests"], "each is measured"
                self.stop(p)
        self.stop(app), self.stop(sink)
        share = [1 - s / b for s, b in zip(ms["spans"], ms["both"])]
        print(f"    agent CPU per 1,000 requests: " + ", ".join(f"{n} {spread(v)} ms" for n, v in ms.items()))
        self.row("metrics' share of the agent's CPU, at the maximum rate", f"{median(share):.2f} ({spread(share)})", "-")
        self.row("agent CPU per 1,000 requests that are measured only", f"{median(ms['metrics']):.2f} ms ({spread(ms['metrics'])})", "-")

    def m_client(self):
        """The load generator's own calls (net/http's client, HTTP/1, keep-alive) to a server that is not traced."""
        knob = "/proc/sys/kernel/bpf_stats_enabled"
        sink, app = self.sink(), self.app()
        old, hits, us = open(knob).read(), [], []
        agent = self.agent(sink, "*/load")
        try:
            open(knob, "w").write("1")
            for _ in range(3):
                a, spans = self.bpf_runs(agent), self.metric(agent, "spoor_spans_produced_total")
                self.paced(app.url, self.o.seconds)
                time.sleep(1.5)
                b = self.bpf_runs(agent)
                calls = self.metric(agent, "spoor_spans_produced_total") - spans
                hits.append((b[0] - a[0]) / calls)
                us.append((b[1] - a[1]) / calls / 1000)
        finally:
            open(knob, "w").write(old)
        self.stop(agent), self.stop(app), self.stop(sink)
        self.row("probe hits per HTTP/1 client call", f"{median(hits):.2f}", "2", "", median(hits) < 2.05)
        self.row("BPF time per HTTP/1 client call, at 2,000/s", f"{median(us):.2f} us ({spread(us)})", "-")

    def m_grpc(self):
        """A server that echoes, 64 connections: hits and BPF time a call, and what is kept of two empty probes."""
        sink, port = self.sink(), free_port()
        app = self.start(SERVER_CPU, [f"{self.out}/grpcapp", "-addr", f"127.0.0.1:{port}"], "app.log")
        self.wait_port(port, app)
        app.address = f"127.0.0.1:{port}"
        offsets = [f["enter_offset"] for f in self.functions(
            f"{self.out}/grpcapp", "google.golang.org/grpc.(*Server).handleStream",
            "google.golang.org/grpc/internal/transport.(*http2Server).writeStatus")]
        self.calls(app, 1)
        knob = "/proc/sys/kernel/bpf_stats_enabled"
        old, got, runs = open(knob).read(), {}, []
        for k in range(self.o.rounds):
            for name in ("floor", "spoor", "counted")[k % 3:] + ("floor", "spoor", "counted")[:k % 3]:
                p = self.floor(app, offsets, f"{self.out}/grpcapp") if name == "floor" else self.agent(sink, "/none", None, None, "--discovery-pids", str(app.pid))
                while name != "floor" and not self.metric(p, "spoor_spans_produced_total"):
                    self.calls(app, 1)  # until its programs have been verified, which takes the kernel a second
                time.sleep(1)
                try:
                    open(knob, "w").write("1" if name == "counted" else old)
                    before = self.bpf_runs(p)
                    r = self.calls(app, self.o.seconds)
                    after = self.bpf_runs(p)
                finally:
                    open(knob, "w").write(old)
                got.setdefault(name, []).append(r["rps"])
                if name == "counted":
                    runs.append(((after[0] - before[0]) / r["requests"], (after[1] - before[1]) / r["requests"] / 1000))
                self.stop(p)
                time.sleep(0.5)
        self.stop(app), self.stop(sink)
        hits, us = median([h for h, _ in runs]), [u for _, u in runs]
        kept = [s / f for s, f in zip(got["spoor"], got["floor"])]
        print(f"    calls/s floor {spread(got['floor'], 0)} spoor {spread(got['spoor'], 0)}")
        self.row("probe hits per gRPC call served", f"{hits:.2f}", "2", "", hits < 2.05)
        self.row("BPF time per gRPC call served, at the maximum rate", f"{median(us):.2f} us ({spread(us)})", "-")
        self.row("throughput kept of two empty probes, gRPC echo on 64 connections, exporting", f"{median(kept):.3f} ({spread(kept, 3)})", ">= 0.95", "",
                 median(kept) >= 0.95)

    def m_memory(self):
        many = os.path.join(self.out, "many")
        shutil.rmtree(many, ignore_errors=True)
        os.makedirs(many)
        sink = self.sink()
        agent = self.agent(sink, many + "/*")
        apps = []
        for n, goal, peers in ((1, 12, PEERS["rss1"]), (20, 16, PEERS["rss20"])):
            while len(apps) < n:
                exe = f"{many}/app{len(apps)}"
                shutil.copy(f"{self.out}/httpapp", exe)
                apps.append(self.app(exe))
            for _ in range(5):
                for a in apps:
                    get(a.url)
                time.sleep(0.5)
            seen = self.metric(agent, "spoor_instrumented_processes")
            mb = memory_mb(agent.pid)
            self.row(f"agent RSS, {n} traced process{'es' if n > 1 else ''}", f"{mb:.1f} MB ({seen:.0f} traced)", f"<= {goal} MB", peers + " MB",
                     mb <= goal and seen == n)
        for a in apps:
            self.stop(a)
        self.stop(agent), self.stop(sink)
        shutil.rmtree(many)

    def m_first(self):
        traced, arrives = [], []
        for k in range(5):
            exe = os.path.join(self.out, f"first{k}")
            shutil.copy(f"{self.out}/httpapp", exe)
            sink = self.sink()
            agent = self.agent(sink, exe)
            time.sleep(0.3 + 0.37 * k)
            port, begun = free_port(), time.time()
            app = self.start(SERVER_CPU, [exe, "-addr", f"127.0.0.1:{port}"], "app.log")
            while time.time() < begun + 20 and not (n := self.sunk(sink))["spans"]:
                for _ in range(10):
                    try:
                        get(f"http://127.0.0.1:{port}/items/1")
                    except OSError:
                        pass
                    time.sleep(0.004)
            traced.append((n["min_start_unix_ns"] / 1e9 - begun) * 1000)
            arrives.append((n["first_unix_ns"] / 1e9 - begun) * 1000)
            self.stop(app), self.stop(agent), self.stop(sink)
            os.unlink(exe)
        self.row("exec to the first traced request", f"{median(traced):.0f} ms ({spread(traced, 0)})", "< 100 ms", PEERS["first"], median(traced) < 100)
        self.row("exec to its arrival at the collector", f"{median(arrives):.0f} ms ({spread(arrives, 0)})", "-", "4.6-6.3 s")

    def m_analysis(self):
        there = [f for f in glob.glob(os.path.join(ROOT, "build", "**", "kube"), recursive=True) + ["/usr/bin/prometheus", f"{self.out}/sink"] if os.path.exists(f)]
        big = self.o.big or min(there, key=lambda f: abs(os.path.getsize(f) - 60e6))
        size = os.path.getsize(big) / 1e6
        found = [json.loads(sh(self.agent_path, "inspect", "--json", big)) for _ in range(5)]
        ms = [f["seconds"] * 1000 for f in found]
        peak = max(f["peak_bytes"] for f in found) / 1e6
        reads = []
        for _ in range(5):
            t = time.perf_counter()
            with open(big, "rb", buffering=0) as f:
                buf = bytearray(1 << 20)
                while f.readinto(buf):
                    pass
            reads.append((time.perf_counter() - t) * 1000)
        self.row(f"analysis of a binary of {size:.0f} MB", f"{median(ms):.1f} ms, {median(ms) / median(reads):.2f} of reading it once", "< 50 ms", "", median(ms) < 50)
        self.row("its peak memory", f"{peak:.1f} MB", "< 4 MB", "", peak < 4)

    def m_alloc(self):
        """Calls of malloc and friends in the agent while it handles spans, counted by probes on libc."""
        sink, app = self.sink(), self.app()
        agent = self.agent(sink, "*/httpapp", app.url)
        libc = next(line.split()[-1] for line in open(f"/proc/{agent.pid}/maps") if "libc.so" in line)
        syms = {}
        for line in sh("nm", "-D", "--defined-only", libc).splitlines():
            f = line.split()
            syms.setdefault(f[2].split("@")[0], int(f[0], 16))
        # all of these are in the first executable segment, whose file offset equals its address in libc
        offsets = [syms[s] for s in ("malloc", "calloc", "realloc")]
        self.paced(app.url, 3)
        time.sleep(2)
        p = self.floor(agent, offsets, libc, count=True)
        r = self.paced(app.url, 6, 5000)
        time.sleep(2)
        p.send_signal(signal.SIGTERM)
        calls = sum(int(x) for x in p.communicate()[0].split())
        self.procs.remove(p)
        self.stop(agent), self.stop(app), self.stop(sink)
        self.row("allocations per span, whole agent", f"{calls / r['requests']:.4f}", "0 per span (curl allocates per request)", "", calls / r["requests"] < 0.1)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = [m[2:] for m in dir(Bench) if m.startswith("m_")]
    order = ["hits", "max", "paced", "metrics", "client", "grpc", "memory", "first", "analysis", "alloc"]
    ap.add_argument("--agent", default=os.path.join(ROOT, "build/release/spoor"))
    ap.add_argument("-m", "--modes", default=",".join(order), help=f"of {', '.join(sorted(modes))}")
    ap.add_argument("-r", "--rounds", type=int, default=5)
    ap.add_argument("-s", "--seconds", type=int, default=4)
    ap.add_argument("--big", help="the large binary for the analysis row")
    ap.add_argument("--no-rt", action="store_true", help="do not run the measured processes under a real-time policy")
    o = ap.parse_args()
    b = Bench(o)
    print("building the targets", flush=True)
    b.build()
    try:
        for m in o.modes.split(","):
            print(f"{m} (load average {os.getloadavg()[0]:.1f})", flush=True)
            getattr(b, "m_" + m)()
    finally:
        b.close()
    print(f"\nLinux {platform.release()}, {os.cpu_count()} CPUs, {time.strftime('%Y-%m-%d')}, load average {os.getloadavg()[0]:.1f} at the end\n")
    print("| what | spoor | goal | peers | met |\n|---|---|---|---|---|")
    for r in b.rows:
        print("| " + " | ".join(r) + " |")


if __name__ == "__main__":
    main()
