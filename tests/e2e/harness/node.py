"""One test's node: kubelet, pods' control groups, programs, receivers and agents, all ended and checked by close()."""
import json
import shlex
import signal
from pathlib import Path

from . import gobuild
from .agent import Agent
from .certs import Certs
from .cgroup import Cgroups
from .collector import Collector
from .kubelet import Kubelet
from .paths import TESTS
from .pods import Pod
from .prometheus import Prometheus
from .process import Process
from .sink import Sink
from .wait import until

NET_HTTP = TESTS / "e2e" / "net_http"


def server(go="", flavour="stripped", **kw):
    """The web server of these tests, built for that Go version."""
    return gobuild.build(NET_HTTP / "server", go=go, flavour=flavour, **kw)


class Target:
    """A program in a container of a pod."""

    def __init__(self, process, pod, container, folders):
        self.process, self.pod, self.container, self.folders = process, pod, container, folders

    @property
    def pid(self):
        return self.process.pid

    @property
    def ports(self):
        return self.process.record("ports")

    @property
    def port(self):
        return self.ports["h1"]

    def truths(self):
        """What the program says about each request, by the request's id."""
        return {r["truth"]["rid"]: r["truth"] for r in self.process.records if "truth" in r}

    def stop(self, how=signal.SIGTERM):
        return self.process.stop(how)


class Node:
    def __init__(self, folder, pki):
        self.folder, self.certs = Path(folder), pki
        self.token = self.folder / "token"
        self.token.write_text("a-token")
        self.kubelet = Kubelet(self.pki_pair("kubelet"), token="a-token")
        self.cgroups = Cgroups()
        self.targets, self.agents, self.receivers = [], [], []

    def pki_pair(self, name):
        return getattr(self.certs, "made", {}).get(name) or self.certs.signed(name)

    # -- programs

    def run(self, program=None, *args, pod=None, container=None, layout="cgroupfs", known=True, env=None, enter=True, wrap=(), cwd=None,
            cgroups=None):
        """Starts a program (the web server) in a pod (of its own, opted in), and lets the kubelet tell of it."""
        argv = [*wrap, program or server(), *args]
        pod = pod or Pod.of_deployment()
        container = container or pod.main
        container.known = known
        folders = (cgroups or self.cgroups).make(pod, container, layout)
        process = Process(argv, folders if enter else (), env=env, cwd=cwd)
        target = Target(process, pod, container, folders)
        self.targets.append(target)
        self.kubelet.set(pod)
        return target

    def run_outside(self, program, *args, env=None):
        """Starts a program that is in no pod."""
        target = Target(Process([program, *args], env=env), None, None, ())
        self.targets.append(target)
        return target

    # -- where spans go

    def sink(self, *script, **kw):
        sink = Sink(script, **kw)
        self.receivers.append(sink)
        return sink

    def collector(self, **kw):
        collector = Collector(self.folder / f"collector{len(self.receivers)}", **kw)
        self.receivers.append(collector)
        return collector

    def prometheus(self, port):
        it = Prometheus(self.folder / f"prometheus{len(self.receivers)}", port)
        self.receivers.append(it)
        return it

    # -- the agent

    def options(self, receiver=None, **options):
        """What every agent of these tests is given; `a__b` stands for the key "a.b"."""
        base = {"kubelet.source": "kubelet", "kubelet.endpoint": self.kubelet.url, "kubelet.token_file": self.token,
                "kubelet.tls.mode": "ca", "kubelet.tls.ca_file": self.certs.ca.cert, "kubelet.min_refresh": "200ms",
                "kubelet.refresh": "1s", "batch.delay": "100ms", "log.level": "debug"}
        if receiver:
            base |= {"otlp.endpoint": receiver.url, "exporters": ["otlp"]}
        return base | {key.replace("__", "."): value for key, value in options.items()}

    def agent(self, receiver=None, start=True, ready=True, capabilities=None, wrap=(), env=None, folders=(), **options):
        kw = {"capabilities": capabilities} if capabilities is not None else {}
        agent = Agent(self.folder / f"agent{len(self.agents)}", self.options(receiver, **options), wrap=wrap, env=env, folders=folders, **kw)
        self.agents.append(agent)
        return agent.start(ready=ready) if start else agent

    def alone(self, *programs):
        """What to wrap an agent in so that it sees, in a PID namespace of its own, nothing but itself and these programs, each
        [folders of its control group, word, ...], which start after it. As on kind, BPF sees other pids than it does."""
        script = self.folder / f"alone{len(self.agents)}.sh"
        lines = []
        for folders, *words in programs:
            enter = "".join(f"echo 0 >'{folder}/cgroup.procs' && " for folder in folders)
            lines.append(f"(sleep 1; {enter}exec {' '.join(shlex.quote(str(w)) for w in words)}) </dev/null >{self.folder}/alone-{len(lines)}.out &")
        script.write_text("\n".join(["#!/bin/sh", *lines, 'exec "$@"']) + "\n")
        script.chmod(0o755)
        return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--", script]

    def said_alone(self, i):
        """The first line of the i-th of these programs, as a dictionary."""
        out = self.folder / f"alone-{i}.out"
        return json.loads(until(lambda: out.exists() and out.read_text().splitlines(), 15, f"program {i} speaks")[0])

    # -- the end

    def close(self):
        """Ends everything. A bad end of an agent is reported after all else is cleaned up."""
        problems = []
        for agent in self.agents:
            try:
                if agent.process and agent.process.running:
                    agent.stop()
            except AssertionError as e:
                problems.append(str(e))
            finally:
                agent.kill()
            if "Sanitizer" in agent.log:
                problems.append(f"a sanitizer spoke up:\n{agent.tail(60)}")
        for target in self.targets:
            target.process.stop(signal.SIGKILL)
        for receiver in self.receivers:
            receiver.stop()
        self.kubelet.stop()
        self.cgroups.close()
        assert not problems, "\n".join(problems)


def make_pki(folder):
    """All certificates of a run, made once."""
    pki = Certs(folder)
    pki.made = {"kubelet": pki.signed("kubelet"), "self": pki.self_signed("self"),
                "other_self": pki.self_signed("other_self"), "expired": pki.signed("expired", expired=True),
                "other_name": pki.signed("other_name", names="DNS:some-other-node")}
    return pki
