/* stats.h - the agent's own metrics: one row each, relaxed atomics, any thread. /metrics prints them in this order. */
#pragma once
#include "base/base.h"
#include "bpf/stats.h"
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

/* id, kind, family without "spoor_", labels, help. What the kernel side counts (KERNEL_STATS) is added by attach_collect_stats(). Rows of one family stand together; the first one's help counts. */
#define STATS(X)                                                                                   \
	X(ready, GAUGE, "ready", "", "Whether the agent has its pods and polls its ring (1) or not (0)")  \
	X(discovered_traced, GAUGE, "discovered_processes", "state=\"traced\"", "Processes seen, by what was decided about them") \
	X(discovered_not_selected, GAUGE, "discovered_processes", "state=\"not_selected\"", "")    \
	X(discovered_not_go, GAUGE, "discovered_processes", "state=\"not_go\"", "")                \
	X(discovered_unsupported, GAUGE, "discovered_processes", "state=\"unsupported\"", "")      \
	X(discovered_pending, GAUGE, "discovered_processes", "state=\"pending\"", "")              \
	X(instrumented_processes, GAUGE, "instrumented_processes", "", "Processes with probes attached") \
	X(attached_probes, GAUGE, "attached_probes", "", "Places in programs that are hooked")      \
	X(discovered_failed, GAUGE, "discovered_processes", "state=\"failed\"", "")                \
	X(exec_events, COUNTER, "exec_events_total", "", "execve notifications from the kernel")    \
	X(attach_total, COUNTER, "attach_total", "", "Processes that probes were attached to")      \
	X(detach_total, COUNTER, "detach_total", "", "Processes that probes were removed from, or that ended") \
	X(attach_failed, COUNTER, "attach_failures_total", "reason=\"attach\"", "Processes that could not be traced, by reason") \
	X(attach_failed_no_slot, COUNTER, "attach_failures_total", "reason=\"no_slot\"", "")        \
	X(attach_failed_nothing, COUNTER, "attach_failures_total", "reason=\"nothing_to_trace\"", "") \
	X(attach_failed_gone, COUNTER, "attach_failures_total", "reason=\"process_gone\"", "")      \
	X(trials_ended, COUNTER, "trial_probes_total", "change=\"taken_away\"", "Processes whose trial probes (the one for routes behind a copy of the request) were taken away, as they told nothing new, or hung again, as they might") \
	X(trials_begun, COUNTER, "trial_probes_total", "change=\"hung_again\"", "")                \
	X(analysis_open, COUNTER, "binary_analysis_failures_total", "reason=\"open\"", "Executables of selected pods that could not be analysed, by reason") \
	X(analysis_bits, COUNTER, "binary_analysis_failures_total", "reason=\"bits\"", "")        \
	X(analysis_machine, COUNTER, "binary_analysis_failures_total", "reason=\"machine\"", "")  \
	X(analysis_malformed, COUNTER, "binary_analysis_failures_total", "reason=\"malformed\"", "") \
	X(analysis_truncated, COUNTER, "binary_analysis_failures_total", "reason=\"truncated\"", "") \
	X(analysis_go_version, COUNTER, "binary_analysis_failures_total", "reason=\"go_version\"", "") \
	X(analysis_too_large, COUNTER, "binary_analysis_failures_total", "reason=\"too_large\"", "") \
	X(analysis_no_memory, COUNTER, "binary_analysis_failures_total", "reason=\"no_memory\"", "") \
	X(analysis_timeout, COUNTER, "binary_analysis_failures_total", "reason=\"timeout\"", "")  \
	X(kubelet_requests, COUNTER, "kubelet_requests_total", "", "Pod lists asked for")            \
	X(kubelet_failed_connect, COUNTER, "kubelet_failed_requests_total", "reason=\"connect\"", "Pod lists that were not had, by reason") \
	X(kubelet_failed_timeout, COUNTER, "kubelet_failed_requests_total", "reason=\"timeout\"", "") \
	X(kubelet_failed_tls_ca, COUNTER, "kubelet_failed_requests_total", "reason=\"tls_ca\"", "") \
	X(kubelet_failed_tls_name, COUNTER, "kubelet_failed_requests_total", "reason=\"tls_name\"", "") \
	X(kubelet_failed_tls_expired, COUNTER, "kubelet_failed_requests_total", "reason=\"tls_expired\"", "") \
	X(kubelet_failed_tls, COUNTER, "kubelet_failed_requests_total", "reason=\"tls\"", "") \
	X(kubelet_failed_unauthorized, COUNTER, "kubelet_failed_requests_total", "reason=\"unauthorized\"", "") \
	X(kubelet_failed_forbidden, COUNTER, "kubelet_failed_requests_total", "reason=\"forbidden\"", "") \
	X(kubelet_failed_http, COUNTER, "kubelet_failed_requests_total", "reason=\"http\"", "") \
	X(kubelet_failed_parse, COUNTER, "kubelet_failed_requests_total", "reason=\"parse\"", "") \
	X(kubelet_failed_truncated, COUNTER, "kubelet_failed_requests_total", "reason=\"truncated\"", "") \
	X(kubelet_failed_too_large, COUNTER, "kubelet_failed_requests_total", "reason=\"too_large\"", "") \
	X(kubelet_failed_token, COUNTER, "kubelet_failed_requests_total", "reason=\"token\"", "") \
	X(kubelet_response_size, GAUGE, "kubelet_response_size_bytes", "", "Size of the last pod list") \
	X(kubelet_last_success, GAUGE, "kubelet_last_success_timestamp_seconds", "", "When the last pod list was had, Unix time; 0: never") \
	X(pods, GAUGE, "pods", "", "Pods in the last pod list")                                     \
	X(container_lookups, COUNTER, "container_lookups_total", "", "Processes whose container was looked for in the pod list") \
	X(container_lookup_misses, COUNTER, "container_lookup_misses_total", "", "The same, when the container was not there (yet)") \
	X(events, COUNTER, "bpf_events_total", "", "Records read from the ring")                    \
	X(spans_produced, COUNTER, "spans_produced_total", "", "Ended operations, sampled or not: exported + dropped + sampled out + queued") \
	X(spans_sampled_out, COUNTER, "spans_sampled_out_total", "", "Ended operations that the sampler left out") \
	X(spans_exported, COUNTER, "spans_exported_total", "", "Spans that every exporter took")    \
	X(spans_dropped_ring_full, COUNTER, "spans_dropped_total", "reason=\"ring_full\"", "Spans lost, each once, by reason") \
	X(spans_dropped_decode, COUNTER, "spans_dropped_total", "reason=\"decode\"", "")            \
	X(spans_dropped_filtered, COUNTER, "spans_dropped_total", "reason=\"filtered\"", "")        \
	X(spans_dropped_sdk, COUNTER, "spans_dropped_total", "reason=\"sdk\"", "")                  \
	X(spans_dropped_exports, COUNTER, "spans_dropped_total", "reason=\"otlp_export\"", "")      \
	X(spans_dropped_stale, COUNTER, "spans_dropped_total", "reason=\"stale_slot\"", "")         \
	X(spans_dropped_traces_off, COUNTER, "spans_dropped_total", "reason=\"traces_off\"", "")    \
	X(spans_dropped_queue, COUNTER, "spans_dropped_total", "reason=\"queue_oldest\"", "")       \
	X(spans_dropped_rejected, COUNTER, "spans_dropped_total", "reason=\"rejected\"", "")        \
	X(spans_dropped_refused, COUNTER, "spans_dropped_total", "reason=\"refused\"", "")          \
	X(spans_dropped_too_old, COUNTER, "spans_dropped_total", "reason=\"too_old\"", "")          \
	X(spans_dropped_too_large, COUNTER, "spans_dropped_total", "reason=\"too_large\"", "")      \
	X(spans_dropped_shutdown, COUNTER, "spans_dropped_total", "reason=\"shutdown\"", "")        \
	X(spans_truncated, COUNTER, "spans_truncated_total", "", "Spans with at least one string cut at its limit") \
	X(spans_queued, GAUGE, "export_queue_items", "", "Spans that wait to be exported or are being sent") \
	X(export_queue_capacity, GAUGE, "export_queue_capacity_items", "", "Spans that fit into the queue") \
	X(otlp_items, COUNTER, "otlp_items_total", "signal=\"traces\"", "Spans, or data points, handed to the OTLP exporter, delivered or not") \
	X(otlp_points, COUNTER, "otlp_items_total", "signal=\"metrics\"", "") \
	X(otlp_failed_4xx, COUNTER, "otlp_failed_items_total", "signal=\"traces\",reason=\"http_4xx\"", "Of these, those that were not delivered, by (last) reason") \
	X(otlp_failed_5xx, COUNTER, "otlp_failed_items_total", "signal=\"traces\",reason=\"http_5xx\"", "") \
	X(otlp_failed_timeout, COUNTER, "otlp_failed_items_total", "signal=\"traces\",reason=\"timeout\"", "") \
	X(otlp_failed_connect, COUNTER, "otlp_failed_items_total", "signal=\"traces\",reason=\"connect\"", "") \
	X(otlp_failed_tls, COUNTER, "otlp_failed_items_total", "signal=\"traces\",reason=\"tls\"", "") \
	X(otlp_failed_too_large, COUNTER, "otlp_failed_items_total", "signal=\"traces\",reason=\"too_large\"", "") \
	X(otlp_failed_rejected, COUNTER, "otlp_failed_items_total", "signal=\"traces\",reason=\"rejected\"", "") \
	X(otlp_failed_shutdown, COUNTER, "otlp_failed_items_total", "signal=\"traces\",reason=\"shutdown\"", "") \
	X(otlp_points_4xx, COUNTER, "otlp_failed_items_total", "signal=\"metrics\",reason=\"http_4xx\"", "") \
	X(otlp_points_5xx, COUNTER, "otlp_failed_items_total", "signal=\"metrics\",reason=\"http_5xx\"", "") \
	X(otlp_points_timeout, COUNTER, "otlp_failed_items_total", "signal=\"metrics\",reason=\"timeout\"", "") \
	X(otlp_points_connect, COUNTER, "otlp_failed_items_total", "signal=\"metrics\",reason=\"connect\"", "") \
	X(otlp_points_tls, COUNTER, "otlp_failed_items_total", "signal=\"metrics\",reason=\"tls\"", "") \
	X(otlp_points_too_large, COUNTER, "otlp_failed_items_total", "signal=\"metrics\",reason=\"too_large\"", "") \
	X(otlp_points_rejected, COUNTER, "otlp_failed_items_total", "signal=\"metrics\",reason=\"rejected\"", "") \
	X(otlp_points_shutdown, COUNTER, "otlp_failed_items_total", "signal=\"metrics\",reason=\"shutdown\"", "") \
	X(otlp_points_queue, COUNTER, "otlp_failed_items_total", "signal=\"metrics\",reason=\"queue_oldest\"", "") \
	X(otlp_requests_2xx, COUNTER, "otlp_requests_total", "signal=\"traces\",code=\"2xx\"", "Requests to the OTLP receiver, by its answer") \
	X(otlp_requests_4xx, COUNTER, "otlp_requests_total", "signal=\"traces\",code=\"4xx\"", "")  \
	X(otlp_requests_5xx, COUNTER, "otlp_requests_total", "signal=\"traces\",code=\"5xx\"", "")  \
	X(otlp_requests_none, COUNTER, "otlp_requests_total", "signal=\"traces\",code=\"none\"", "") \
	X(otlp_metrics_2xx, COUNTER, "otlp_requests_total", "signal=\"metrics\",code=\"2xx\"", "") \
	X(otlp_metrics_4xx, COUNTER, "otlp_requests_total", "signal=\"metrics\",code=\"4xx\"", "") \
	X(otlp_metrics_5xx, COUNTER, "otlp_requests_total", "signal=\"metrics\",code=\"5xx\"", "") \
	X(otlp_metrics_none, COUNTER, "otlp_requests_total", "signal=\"metrics\",code=\"none\"", "") \
	X(otlp_retries, COUNTER, "otlp_retries_total", "signal=\"traces\"", "Requests that were not the first attempt") \
	X(otlp_metrics_retries, COUNTER, "otlp_retries_total", "signal=\"metrics\"", "") \
	X(otlp_sent_bytes, COUNTER, "otlp_sent_bytes_total", "signal=\"traces\"", "Bytes of request bodies, compressed") \
	X(otlp_metrics_bytes, COUNTER, "otlp_sent_bytes_total", "signal=\"metrics\"", "") \
	X(otlp_last_success, GAUGE, "otlp_last_success_timestamp_seconds", "signal=\"traces\"", "Unix time of the last request that was taken, 0: none yet") \
	X(otlp_metrics_last_success, GAUGE, "otlp_last_success_timestamp_seconds", "signal=\"metrics\"", "") \
	X(metric_measured, COUNTER, "metric_operations_total", "", "Ended operations that were measured") \
	X(runtime_failed, COUNTER, "go_runtime_read_failures_total", "", "Readings of a Go program's runtime that failed: its memory could not be read") \
	X(runtime_odd, COUNTER, "go_runtime_implausible_total", "", "Readings of a Go program's runtime of which a part did not look as it must, and was left out") \
	X(metric_overflow, COUNTER, "metric_overflow_measurements_total", "", "Measurements that went to the series of all others (metrics.cardinality_limit, metrics.max_series)") \
	X(metric_lost, COUNTER, "metric_lost_measurements_total", "", "Measurements that were lost for want of memory") \
	X(metric_series_evicted, COUNTER, "metric_series_evicted_total", "", "Series that ended with their pod or process") \
	X(graph_joined, COUNTER, "graph_edges_total", "result=\"joined\"", "Requests between services, by how the service graph knows both (metrics.service_graph): both spans were seen; a pod's address, or a name, that the client has; a caller without trace; or not: no name, or a server's whose client others trace") \
	X(graph_address, COUNTER, "graph_edges_total", "result=\"address\"", "") \
	X(graph_name, COUNTER, "graph_edges_total", "result=\"name\"", "") \
	X(graph_user, COUNTER, "graph_edges_total", "result=\"user\"", "") \
	X(graph_unnamed, COUNTER, "graph_edges_total", "result=\"unnamed\"", "") \
	X(graph_remote, COUNTER, "graph_edges_total", "result=\"remote_client\"", "") \
	X(graph_early, COUNTER, "graph_waits_cut_short_total", "", "Requests whose other span was not waited for as long as it might come, for want of room") \
	X(graph_waiting, GAUGE, "graph_waiting_edges", "", "Requests of which one span was seen, and the other may come") \
	X(points_queued, GAUGE, "metric_queue_points", "", "Data points that wait to be sent") \
	X(tp_header, COUNTER, "trace_context_total", "source=\"header\"", "Where operations got their trace from") \
	X(tp_local, COUNTER, "trace_context_total", "source=\"parent\"", "")                       \
	X(tp_started, COUNTER, "trace_context_total", "source=\"starting_goroutine\"", "")         \
	X(tp_new, COUNTER, "trace_context_total", "source=\"new\"", "")                            \
	X(tp_invalid, COUNTER, "trace_context_total", "source=\"invalid\"", "")                    \
	X(libraries_refused, COUNTER, "library_load_failures_total", "", "Libraries that are not traced because the kernel refused their programs") \
	X(bpf_memory, GAUGE, "bpf_memory_bytes", "", "Kernel memory of all BPF maps")             \
	X(log_error, COUNTER, "log_messages_total", "level=\"error\"", "Log messages, also those below log.level, by level") \
	X(log_warn, COUNTER, "log_messages_total", "level=\"warn\"", "")                          \
	X(log_info, COUNTER, "log_messages_total", "level=\"info\"", "")                          \
	X(log_debug, COUNTER, "log_messages_total", "level=\"debug\"", "") \
	X(log_lost, COUNTER, "log_messages_lost_total", "", "Log messages that nobody took: stderr is closed, or whoever reads it stands still") \
	KERNEL_STATS(X)

/* id, family without "spoor_", labels, help, upper bounds in seconds (at most HISTOGRAM_BOUNDS; +Inf is added). */
#define HISTOGRAMS(X)                                                                              \
	X(kubelet_request, "kubelet_request_duration_seconds", "", "Time of a pod list request to the kubelet", 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10) \
	X(otlp_request, "otlp_request_duration_seconds", "", "Time of one attempt to deliver a batch", 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30) \
	X(binary_analysis, "binary_analysis_duration_seconds", "", "Time to read what is needed of an executable", 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5) \
	X(attach, "attach_duration_seconds", "", "From when a process is first seen, or selected later, to its probes being attached", 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

enum stat_kind { GAUGE, COUNTER };

#define X(id, kind, family, labels, help) STAT_##id,
enum stat_id { STATS(X) STAT_COUNT };
#undef X

extern _Atomic uint64_t stats[STAT_COUNT];

#define stat_add(id, n) ((void)atomic_fetch_add_explicit(&stats[STAT_##id], (n), memory_order_relaxed))
#define stat_set(id, n) atomic_store_explicit(&stats[STAT_##id], (n), memory_order_relaxed)
#define stat_get(id)    atomic_load_explicit(&stats[STAT_##id], memory_order_relaxed)

#define X(id, ...) HISTOGRAM_##id,
enum stat_histogram { HISTOGRAMS(X) HISTOGRAM_COUNT };
#undef X

#define HISTOGRAM_BOUNDS 15

#define stat_observe(id, ns) stats_observe(HISTOGRAM_##id, (ns))
/* One measurement, in ns; read as stat_observe(attach, ns). */
void stats_observe(enum stat_histogram id, uint64_t ns);

/* The page that is being written; collectors add to it. */
struct stats_page;
/* Adds one sample. family is the whole name ("spoor_build_info"); labels is name, value, name, value, ... NULL, or NULL; values are
 * escaped here. Samples of one family end up together, whoever adds them. help of the first counts. All is copied but family and help,
 * which must outlive the page. */
void stats_sample(struct stats_page *page, enum stat_kind kind, const char *family, const char *const *labels, const char *help,
		  double value);
/* Calls collect for each page that is written, on the thread that writes it. At most 8; before the threads start. */
void stats_collector(void (*collect)(struct stats_page *page, void *arg), void *arg);
/* Forgets all collectors: what they were given is about to go away. No page may be under way. */
void stats_no_collectors(void);
/* Writes the Prometheus text format 0.0.4, or OpenMetrics 1.0.0. 0 or -ENOMEM. */
int stats_write(FILE *f, bool openmetrics) must_check;
/* A collector: the process_* metrics of this process. */
void stats_process(struct stats_page *page, void *arg);
