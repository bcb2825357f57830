/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * stats.h - what the kernel side counts, one row each: every lost or refused event is in one of
 * them. The rows are rows of agent/base/stats.h as well (the agent adds the per-CPU sums to its own
 * table and may add to a row itself). */
#pragma once

/* id, kind, family without "spoor_", labels, help. Rows of one family stand together; the first
 * one's help counts. */
#define KERNEL_STATS(X)                                                                            \
	X(exec_missed, COUNTER, "exec_events_missed_total", "",                                    \
	  "execve notifications lost because the exec ring was full")                              \
	X(lost_ring_full, COUNTER, "bpf_lost_events_total", "reason=\"ring_full\"",                \
	  "Records that found no room in the ring")                                                \
	X(hits_stale, COUNTER, "bpf_ignored_hits_total", "reason=\"stale_slot\"",                  \
	  "Probe hits that did nothing, by reason")                                                \
	X(hits_no_program, COUNTER, "bpf_ignored_hits_total", "reason=\"no_program\"", "")         \
	X(ops_no_room, COUNTER, "operations_skipped_total", "reason=\"no_room\"",                  \
	  "Operations that could not be followed, by reason")                                      \
	X(ops_no_share, COUNTER, "operations_skipped_total", "reason=\"no_share\"", "")            \
	X(ops_no_buffer, COUNTER, "operations_skipped_total", "reason=\"no_buffer\"", "")          \
	X(ops_unreadable, COUNTER, "operations_skipped_total", "reason=\"unreadable\"", "")        \
	X(live_no_room, COUNTER, "parents_skipped_total", "reason=\"no_room\"",                    \
	  "Operations that their children will not find as their parents, by reason")              \
	X(live_no_share, COUNTER, "parents_skipped_total", "reason=\"no_share\"", "")              \
	X(ops_covered, COUNTER, "operations_covered_total", "",                                    \
	  "Operations whose span another library sends (gRPC over net/http)")                      \
	X(ops_forwarded, COUNTER, "operations_skipped_total", "reason=\"ids_of_another\"", "")     \
	X(ops_new_begin, COUNTER, "operations_abandoned_total", "reason=\"new_begin\"",            \
	  "Operations that began and whose end was never seen, by reason")                         \
	X(ops_process_exit, COUNTER, "operations_abandoned_total", "reason=\"process_exit\"", "")  \
	X(ops_opt_out, COUNTER, "operations_abandoned_total", "reason=\"opt_out\"", "")            \
	X(reads_headers, COUNTER, "bpf_read_failures_total", "what=\"headers\"",                   \
	  "Things of the traced program that could not be read, the span goes without, by what")   \
	X(reads_string, COUNTER, "bpf_read_failures_total", "what=\"string\"", "")                 \
	X(reads_contexts, COUNTER, "bpf_read_failures_total", "what=\"contexts\"", "")             \
	X(propagation_inserted, COUNTER, "propagation_inserted_total", "",                         \
	  "Requests that a traceparent was put into")                                              \
	X(propagation_own, COUNTER, "propagation_absent_total", "reason=\"own_header\"",           \
	  "Requests that no traceparent was put into, by reason")                                  \
	X(propagation_no_span, COUNTER, "propagation_absent_total", "reason=\"no_span\"", "")      \
	X(propagation_tls, COUNTER, "propagation_absent_total", "reason=\"tls\"", "")              \
	X(propagation_connection, COUNTER, "propagation_absent_total", "reason=\"connection\"",    \
	  "")                                                                                      \
	X(propagation_unreadable, COUNTER, "propagation_absent_total", "reason=\"unreadable\"",    \
	  "")                                                                                      \
	X(propagation_no_room, COUNTER, "propagation_absent_total", "reason=\"no_room\"", "")      \
	X(propagation_not_sent, COUNTER, "propagation_absent_total", "reason=\"not_sent\"", "")    \
	X(propagation_stale, COUNTER, "propagation_absent_total", "reason=\"stale\"", "")          \
	X(propagation_not_request, COUNTER, "propagation_absent_total", "reason=\"other_bytes\"",  \
	  "")                                                                                      \
	X(propagation_busy, COUNTER, "propagation_absent_total", "reason=\"in_flight\"", "")       \
	X(propagation_long_line, COUNTER, "propagation_absent_total", "reason=\"long_line\"", "")  \
	X(propagation_kernel, COUNTER, "propagation_absent_total", "reason=\"kernel\"", "")        \
	X(propagation_no_space, COUNTER, "propagation_absent_total", "reason=\"no_space\"", "")    \
	X(propagation_unwritable, COUNTER, "propagation_absent_total", "reason=\"unwritable\"",    \
	  "")                                                                                      \
	X(propagation_socket, COUNTER, "propagation_sockets_refused_total", "",                    \
	  "Connections of traced processes that the kernel did not let into the socket map")

#define X(id, ...) COUNTER_##id,
enum kernel_counter { KERNEL_STATS(X) KERNEL_COUNTERS };
#undef X
