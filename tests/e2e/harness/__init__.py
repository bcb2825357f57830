"""The e2e harness: a scripted kubelet, pod cgroups, Go programs, collectors, the agent and the truth of each request.

Nothing here but otlp.py and sink.py needs more than Python's standard library: the demo uses it on a fresh machine."""
