/* options.h - every option, one row each; config.h makes the struct of it, config.c the YAML keys, environment variables, flags,
 * --help and `spoor config`. Flag and environment follow from the key: "kubelet.tls.mode" is --kubelet-tls-mode and
 * SPOOR_KUBELET_TLS_MODE; `also` names variables of somebody else's (OTEL_*, the chart's downward API) that are read as well, below
 * SPOOR_*, the first that is set wins. */
#pragma once

/* type, member, key, also, default, allowed or "", help. `allowed`: words of an ENUM or LIST; "least-most" of a number; "URL",
 * "address", "ratio", "pid": see option.h; "secret": a MAP whose values are never shown. */
#define OPTIONS(X)                                                                                 \
	X(ENUM, log_level, "log.level", "OTEL_LOG_LEVEL", "info", "error warn info debug", "least level that is logged") \
	X(ENUM, log_format, "log.format", "", "logfmt", "logfmt json", "form of a log line")       \
	X(STRING, admin_listen, "admin.listen", "", "0.0.0.0", "address", "address of /metrics, /healthz, /readyz and /status; \"::\" for IPv6, \"\" for no endpoint") \
	X(UINT, admin_port, "admin.port", "", "9464", "0-65535", "port of the same; 0: any free one (printed at start)") \
	X(STRING, proc_root, "proc.root", "", "/proc", "", "where the host's processes are seen")  \
	X(STRING, node_name, "node.name", "NODE_NAME", "", "", "name of this node: k8s.node.name, and the kubelet's TLS name") \
	X(STRING, node_ip, "node.ip", "HOST_IP", "", "address", "address of this node: the kubelet's and the default collector's") \
	X(ENUM, kubelet_source, "kubelet.source", "", "auto", "auto kubelet none", "who tells the pods; auto: the kubelet inside Kubernetes, else none") \
	X(STRING, kubelet_endpoint, "kubelet.endpoint", "", "", "URL", "URL of the kubelet; empty: https://<node.ip>:10250") \
	X(DURATION, kubelet_refresh, "kubelet.refresh", "", "30s", "1s-1h", "longest time between two pod lists") \
	X(DURATION, kubelet_min_refresh, "kubelet.min_refresh", "", "1s", "0s-1m", "shortest time between two pod lists") \
	X(DURATION, kubelet_timeout, "kubelet.timeout", "", "5s", "100ms-1m", "time-out of one request") \
	X(SIZE, kubelet_max_response, "kubelet.max_response", "", "32MiB", "64KiB-1GiB", "largest pod list that is accepted") \
	X(STRING, kubelet_token_file, "kubelet.token_file", "", "/var/run/secrets/kubernetes.io/serviceaccount/token", "", "bearer token; read anew when it changes") \
	X(ENUM, kubelet_tls_mode, "kubelet.tls.mode", "", "auto", "auto ca node-cert insecure", "how its certificate is verified; auto: ca, then node-cert") \
	X(STRING, kubelet_tls_ca_file, "kubelet.tls.ca_file", "", "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "", "CA for mode ca") \
	X(STRING, kubelet_tls_node_cert, "kubelet.tls.node_cert_file", "", "/proc/1/root/var/lib/kubelet/pki/kubelet.crt", "", "the node's own certificate, pinned in mode node-cert") \
	X(STRING, kubelet_tls_server_name, "kubelet.tls.server_name", "", "", "", "name in the certificate; empty: node.name") \
	X(ENUM, discovery_mode, "discovery.mode", "", "annotation", "annotation selector all", "which processes are traced: those of annotated pods; also what the selectors below match; every Go process in a pod") \
	X(STRING, annotation_prefix, "discovery.annotation_prefix", "", "spoor.dev", "", "prefix of the pod annotations") \
	X(LIST, select_namespaces, "discovery.namespaces", "", "", "", "mode selector: pods of these namespaces (globs)") \
	X(LIST, select_labels, "discovery.labels", "", "", "", "mode selector: pods with these labels (key=value)") \
	X(LIST, select_executables, "discovery.executables", "", "", "", "processes by executable path (globs); the way without Kubernetes") \
	X(LIST, select_pids, "discovery.pids", "", "", "pid", "processes by pid; the way without Kubernetes") \
	X(LIST, exclude_namespaces, "discovery.exclude_namespaces", "", "kube-system, kube-node-lease", "", "never by a selector, only by annotation") \
	X(LIST, exclude_executables, "discovery.exclude_executables", "", "*/spoor, */otelcol*, */kubelet, */containerd*, */runc, */dockerd", "", "never by a selector (globs)") \
	X(LIST, libraries_disabled, "libraries.disabled", "", "", "", "names of libraries that are not traced") \
	X(ENUM, sampler, "traces.sampler", "OTEL_TRACES_SAMPLER", "parentbased_always_on", "always_on always_off traceidratio parentbased_always_on parentbased_always_off parentbased_traceidratio", "which requests become spans") \
	X(STRING, sampler_arg, "traces.sampler_arg", "OTEL_TRACES_SAMPLER_ARG", "", "ratio", "ratio 0..1 of the ratio samplers") \
	X(BOOL, health_probes, "traces.health_probes", "", "false", "", "whether health probes (the kubelet's, gRPC's) and Prometheus' scrapes become spans") \
	X(ENUM, sdk, "sdk", "", "auto", "auto always never", "programs with a tracing SDK of their own. auto: its spans are parents, and operations of which it sends spans are left to it; always: traced in any case; never: not traced") \
	X(LIST, propagators, "propagators", "OTEL_PROPAGATORS", "tracecontext", "tracecontext b3 b3multi", "trace headers that are read besides traceparent, which always is and wins: b3 and b3multi both stand for B3 in one header or several") \
	X(BOOL, starting_goroutine, "parents.starting_goroutine", "", "true", "", "whether a call without a better parent is a child of the operation whose goroutine started its own: an inference, such spans have spoor.parent=goroutine") \
	X(BOOL, url_query, "privacy.url_query", "", "true", "", "whether url.query is recorded (redacted)") \
	X(LIST, redact_query_keys, "privacy.redact_query_keys", "", "X-Amz-Signature, X-Amz-Credential, X-Amz-Security-Token, AWSAccessKeyId, Signature, sig, X-Goog-Signature", "", "query parameters whose value is replaced by REDACTED") \
	X(LIST, known_methods, "http.known_methods", "OTEL_INSTRUMENTATION_HTTP_KNOWN_METHODS", "CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, TRACE, QUERY", "", "methods that are not _OTHER") \
	X(BOOL, body_sizes, "http.body_sizes", "", "false", "", "whether http.request.body.size and http.response.body.size are recorded") \
	X(ENUM, routes, "routes", "", "exact", "exact free off", "http.route; exact: also behind a middleware that copies the request, by one more probe where that tells more; free: only what costs nothing; off: none") \
	X(LIST, exporters, "exporters", "OTEL_TRACES_EXPORTER", "otlp", "otlp stdout none", "where spans go; none: nowhere")                \
	X(ENUM, stdout_format, "stdout.format", "", "text", "text json", "lines of the stdout exporter") \
	X(LIST, metrics_exporters, "metrics.exporters", "OTEL_METRICS_EXPORTER", "auto", "auto otlp prometheus none", "where metrics of the traced programs go: to the collector (auto: if spans go there, too), to whoever scrapes prometheus.port, or nowhere, which measures nothing") \
	X(DURATION, metrics_interval, "metrics.interval", "OTEL_METRIC_EXPORT_INTERVAL", "60s", "100ms-1h", "time between two exports of metrics") \
	X(ENUM, metrics_temporality, "metrics.temporality", "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative", "cumulative delta lowmemory", "whether OTLP has sums since a series began, or since the last export; lowmemory: the latter, but for what is read of each process (metrics.process, metrics.runtime)") \
	X(ENUM, metrics_histogram, "metrics.histogram", "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "explicit_bucket_histogram", "explicit_bucket_histogram base2_exponential_bucket_histogram", "form of histograms: with the bounds that the conventions advise, or exponential") \
	X(ENUM, metrics_exemplars, "metrics.exemplars", "OTEL_METRICS_EXEMPLAR_FILTER", "trace_based", "trace_based always_on always_off", "which operations may be exemplars; trace_based: those whose spans are sampled") \
	X(UINT, metrics_limit, "metrics.cardinality_limit", "", "2000", "2-100000", "most series of one metric and service instance; what is over it goes to the series otel.metric.overflow=true") \
	X(UINT, metrics_max_series, "metrics.max_series", "", "20000", "16-10000000", "most series in all; about 0.5 KiB of memory each (1.7 KiB exponential, twice with delta)") \
	X(MAP, metrics_add, "metrics.add_attributes", "", "", "", "attributes of spans that become a metric's, too (http.server.request.duration=server.address server.port)") \
	X(MAP, metrics_drop, "metrics.drop_attributes", "", "", "", "attributes that a metric does not have (http.server.request.duration=network.protocol.version)") \
	X(BOOL, metrics_health_probes, "metrics.health_probes", "", "false", "", "whether health probes and Prometheus' scrapes are measured") \
	X(BOOL, metrics_process, "metrics.process", "", "false", "", "whether CPU time, memory, threads, file descriptors and context switches of each traced process are metrics, too") \
	X(BOOL, metrics_runtime, "metrics.runtime", "", "true", "", "whether what Go's runtime in each traced process says (memory, garbage collection, goroutines, scheduling) is metrics, too; read from the program's memory") \
	X(BOOL, metrics_span_metrics, "metrics.span_metrics", "", "false", "", "whether all spans are counted and timed as Tempo's metrics generator does (traces_spanmetrics_calls_total, traces_spanmetrics_latency)") \
	X(BOOL, metrics_service_graph, "metrics.service_graph", "", "false", "", "whether requests between two services are counted and timed as Tempo's metrics generator does (traces_service_graph_request_total and others)") \
	X(SIZE, metrics_queue, "metrics.queue", "", "4MiB", "64KiB-1GiB", "encoded metrics that wait while the receiver does not answer; the oldest are dropped") \
	X(STRING, prometheus_listen, "prometheus.listen", "OTEL_EXPORTER_PROMETHEUS_HOST", "0.0.0.0", "address", "address of the traced programs' /metrics, with metrics.exporters prometheus; \"::\" for IPv6") \
	X(UINT, prometheus_port, "prometheus.port", "OTEL_EXPORTER_PROMETHEUS_PORT", "9465", "0-65535", "port of the same; 0: any free one (printed at start)") \
	X(LIST, prometheus_resource_attributes, "prometheus.resource_attributes", "", "k8s.namespace.name, k8s.pod.name, k8s.container.name", "", "attributes of the resource that are labels of every sample there (k8s.pod.label.<key> with resource.pod_labels); all are in target_info") \
	X(STRING, otlp_endpoint, "otlp.endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", "", "URL", "collector, without /v1/traces or /v1/metrics; empty: http://<node.ip or localhost>:4318") \
	X(STRING, otlp_traces_endpoint, "otlp.traces_endpoint", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "", "URL", "the same for traces only, used as it is") \
	X(STRING, otlp_metrics_endpoint, "otlp.metrics_endpoint", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "", "URL", "the same for metrics only, used as it is") \
	X(ENUM, otlp_protocol, "otlp.protocol", "OTEL_EXPORTER_OTLP_PROTOCOL OTEL_EXPORTER_OTLP_TRACES_PROTOCOL OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf", "http/protobuf", "wire protocol") \
	X(ENUM, otlp_compression, "otlp.compression", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "gzip none", "compression of requests") \
	X(DURATION, otlp_timeout, "otlp.timeout", "OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "10ms-10m", "time-out of one attempt") \
	X(MAP, otlp_headers, "otlp.headers", "OTEL_EXPORTER_OTLP_HEADERS", "", "secret", "headers of each request (key=value)") \
	X(STRING, otlp_ca_file, "otlp.ca_file", "OTEL_EXPORTER_OTLP_CERTIFICATE", "", "", "CA of the collector; empty: the system's") \
	X(ENUM, otlp_traces_compression, "otlp.traces_compression", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "same", "same gzip none", "otlp.compression for traces only; same: that one") \
	X(DURATION, otlp_traces_timeout, "otlp.traces_timeout", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0s", "0s-10m", "otlp.timeout for traces only; 0s: that one") \
	X(MAP, otlp_traces_headers, "otlp.traces_headers", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "", "secret", "headers of each request with traces, instead of otlp.headers") \
	X(STRING, otlp_traces_ca_file, "otlp.traces_ca_file", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "", "", "CA of the collector of traces; empty: otlp.ca_file") \
	X(ENUM, otlp_metrics_compression, "otlp.metrics_compression", "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "same", "same gzip none", "otlp.compression for metrics only; same: that one") \
	X(DURATION, otlp_metrics_timeout, "otlp.metrics_timeout", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "0s", "0s-10m", "otlp.timeout for metrics only; 0s: that one") \
	X(MAP, otlp_metrics_headers, "otlp.metrics_headers", "OTEL_EXPORTER_OTLP_METRICS_HEADERS", "", "secret", "headers of each request with metrics, instead of otlp.headers") \
	X(STRING, otlp_metrics_ca_file, "otlp.metrics_ca_file", "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "", "", "CA of the collector of metrics; empty: otlp.ca_file") \
	X(SIZE, otlp_max_request, "otlp.max_request", "", "3584KiB", "64KiB-60MiB", "largest request before compression; larger batches are split") \
	X(DURATION, export_max_age, "export.max_age", "", "5m", "1s-24h", "a batch that could not be delivered for so long is dropped") \
	X(DURATION, export_retry_min, "export.retry_min", "", "1s", "1ms-1h", "first wait before a failed attempt is repeated; doubled each time, with jitter") \
	X(DURATION, export_retry_max, "export.retry_max", "", "30s", "1ms-1h", "longest such wait") \
	X(UINT, batch_spans, "batch.spans", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "512", "1-16384", "spans in a full batch") \
	X(DURATION, batch_delay, "batch.delay", "OTEL_BSP_SCHEDULE_DELAY", "1s", "10ms-5m", "longest wait before a batch that is not full is sent") \
	X(UINT, batch_count, "batch.count", "", "24", "4-4096", "batches in the pool: with batch.spans and batch.bytes the ceiling of the queue") \
	X(SIZE, batch_bytes, "batch.bytes", "", "384KiB", "16KiB-16MiB", "memory of one batch") \
	X(SIZE, ring_size, "ring.size", "", "1MiB", "4KiB-1GiB", "kernel ring for events; rounded up to a power of two") \
	X(SIZE, ring_wakeup, "ring.wakeup", "", "64KiB", "0-512MiB", "waiting bytes at which the kernel wakes the agent") \
	X(DURATION, ring_interval, "ring.interval", "", "100ms", "1ms-10s", "how often the ring is drained while there is traffic") \
	X(ENUM, propagation, "propagation", "", "off", "off headers write", "whether requests that traced programs send are given a traceparent; headers: plaintext HTTP/1, needs CAP_NET_ADMIN; write: TLS, HTTP/2 and gRPC as well, by writing into the programs' memory, needs CAP_SYS_ADMIN and a kernel without lockdown") \
	X(UINT, targets_max, "targets.max", "", "256", "1-65535", "most processes traced at a time") \
	X(UINT, operations_max, "operations.max", "", "8192", "16-1048576", "most open connections and requests remembered in the kernel, per library") \
	X(UINT, operations_max_per_process, "operations.max_per_process", "", "4096", "1-1048576", "most of them of one process, so that one with thousands of idle connections leaves room for others") \
	X(DURATION, shutdown_timeout, "shutdown.timeout", "", "10s", "0s-5m", "time to detach and flush after SIGTERM") \
	X(MAP, resource_attributes, "resource.attributes", "OTEL_RESOURCE_ATTRIBUTES", "", "", "attributes of every span's resource (key=value)") \
	X(LIST, resource_pod_labels, "resource.pod_labels", "", "", "", "pod labels that become k8s.pod.label.<key>") \
	X(LIST, resource_pod_annotations, "resource.pod_annotations", "", "", "", "pod annotations that become k8s.pod.annotation.<key>") \
	X(BOOL, resource_well_known, "resource.well_known_labels", "", "false", "", "whether app.kubernetes.io/name, instance and version name the service")
