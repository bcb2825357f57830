/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * otel_sdk.h - contract of the two halves of this library: the Go fields it reads. It sends no
 * records. */
#pragma once
#include "bpf/event.h"

#define OTEL_SDK_FIELDS(X)                                                                         \
	GO_RUNTIME_FIELDS(X)                                                                       \
	X(SPAN_CONTEXT, "go.opentelemetry.io/otel/sdk/trace.recordingSpan", "spanContext")         \
	X(SPAN_KIND, "go.opentelemetry.io/otel/sdk/trace.recordingSpan", "spanKind")               \
	X(NONE_CONTEXT, "go.opentelemetry.io/otel/sdk/trace.nonRecordingSpan", "sc")               \
	X(TRACE_ID, "go.opentelemetry.io/otel/trace.SpanContext", "traceID")                       \
	X(SPAN_ID, "go.opentelemetry.io/otel/trace.SpanContext", "spanID")                         \
	X(TRACE_FLAGS, "go.opentelemetry.io/otel/trace.SpanContext", "traceFlags")                 \
	X(CONFIG_KIND, "go.opentelemetry.io/otel/trace.SpanConfig", "spanKind")

#define X(id, type, field) F_##id,
enum otel_sdk_field { OTEL_SDK_FIELDS(X) OTEL_SDK_NFIELDS };
#undef X

/* go_slot.parts */
#define OTEL_SDK_PART_SPANS      0x01
#define OTEL_SDK_PART_LEFT       0x02
#define OTEL_SDK_PART_AUTOEXPORT 0x04

_Static_assert(OTEL_SDK_NFIELDS <= GO_FIELDS_MAX, "struct go_slot has no room for more fields");
