/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * datadog_sdk.h - contract of the two halves of this library. It sends no records. */
#pragma once
#include "bpf/event.h"

#define X(id, type, field) F_##id,
enum datadog_sdk_field { GO_RUNTIME_FIELDS(X) DATADOG_SDK_NFIELDS };
#undef X
