"""Pods as a kubelet tells them: built here, edited while it runs, rendered as v1.Pod."""
import secrets
import time
import uuid
from dataclasses import dataclass, field

ANNOTATION = "spoor.dev/instrument"


def new_container_id():
    return secrets.token_hex(32)


@dataclass
class Container:
    name: str = "app"
    image: str = "registry.test/shop/web:1.4.2"
    digest: str = "sha256:" + "ab" * 32
    id: str = field(default_factory=new_container_id)
    known: bool = True  # False: the kubelet does not know the id yet
    restarts: int = 0
    kind: str = "container"  # container, init, sidecar, ephemeral
    running: bool = True
    probe_paths: dict = field(default_factory=dict)  # {"livenessProbe": "/healthz"}
    env: dict = field(default_factory=dict)
    runtime: str = "containerd"  # or cri-o, docker

    def spec(self):
        spec = {"name": self.name, "image": self.image}
        if self.env:
            spec["env"] = [{"name": k, "value": v} for k, v in self.env.items()]
        if self.kind == "sidecar":
            spec["restartPolicy"] = "Always"
        for probe, path in self.probe_paths.items():
            spec[probe] = {"httpGet": {"path": path, "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}
        return spec

    def status(self):
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        status = {"name": self.name, "image": self.image, "imageID": f"{self.image.rsplit(':', 1)[0]}@{self.digest}",
                  "restartCount": self.restarts, "ready": self.known and self.running, "started": self.known}
        if not self.known:
            status["state"] = {"waiting": {"reason": "ContainerCreating"}}
        elif self.running:
            status["state"] = {"running": {"startedAt": started}}
        else:
            status["state"] = {"terminated": {"exitCode": 0, "reason": "Completed", "containerID": f"{self.runtime}://{self.id}"}}
        if self.known:
            status["containerID"] = f"{self.runtime}://{self.id}"
        return status


@dataclass
class Pod:
    name: str = ""
    namespace: str = "shop"
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    containers: list = field(default_factory=lambda: [Container()])
    annotations: dict = field(default_factory=dict)
    labels: dict = field(default_factory=dict)
    owner: tuple = ()  # (kind, name)
    node: str = "node-1"
    ip: str = "10.1.2.3"
    phase: str = "Running"
    host_network: bool = False
    host_pid: bool = False
    share_pid: bool = False
    qos: str = "burstable"
    static_hash: str = ""  # a static pod: its cgroup carries this, its mirror has the uid

    def __post_init__(self):
        self.name = self.name or f"pod-{secrets.token_hex(4)}"

    @classmethod
    def of_deployment(cls, deployment="web", opted_in=True, **kw):
        """A pod of a Deployment, opted in by annotation."""
        template = secrets.token_hex(5)
        pod = cls(name=f"{deployment}-{template}-{secrets.token_hex(3)[:5]}", owner=("ReplicaSet", f"{deployment}-{template}"), **kw)
        pod.labels = {"app": deployment, "pod-template-hash": template, **pod.labels}
        if opted_in:
            pod.annotations.setdefault(ANNOTATION, "true")
        return pod

    @property
    def main(self):
        return self.containers[0]

    def render(self):
        def specs(*kinds):
            return [c.spec() for c in self.containers if c.kind in kinds]

        def statuses(*kinds):
            return [c.status() for c in self.containers if c.kind in kinds]

        meta = {"name": self.name, "namespace": self.namespace, "uid": self.uid, "labels": dict(self.labels),
                "annotations": {"kubernetes.io/config.source": "api", **self.annotations},
                "creationTimestamp": "2026-01-02T03:04:05Z", "resourceVersion": "1234",
                "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                                   "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}}}]}
        if self.owner:
            meta["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": self.owner[0], "name": self.owner[1],
                                        "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, self.owner[1])), "controller": True}]
        spec = {"nodeName": self.node, "containers": specs("container"), "restartPolicy": "Always"}
        for key, value in (("initContainers", specs("init", "sidecar")), ("ephemeralContainers", specs("ephemeral")),
                           ("hostNetwork", self.host_network), ("hostPID", self.host_pid),
                           ("shareProcessNamespace", self.share_pid)):
            if value:
                spec[key] = value
        status = {"phase": self.phase, "podIP": self.ip, "podIPs": [{"ip": self.ip}], "hostIP": "127.0.0.1",
                  "qosClass": self.qos.capitalize(), "startTime": "2026-01-02T03:04:06Z",
                  "containerStatuses": statuses("container")}
        for key, value in (("initContainerStatuses", statuses("init", "sidecar")),
                           ("ephemeralContainerStatuses", statuses("ephemeral"))):
            if value:
                status[key] = value
        return {"metadata": meta, "spec": spec, "status": status}
