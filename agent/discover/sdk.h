/* sdk.h - what is to be done about the tracing SDK that a process brings along. Reads its
 * environment; pure otherwise. */
#pragma once
#include "base/base.h"

struct config;
struct plan;

struct sdk_verdict {
	bool found;     /* an SDK is in the binary */
	bool refused;   /* ... and the process is not to be traced for it */
	uint8_t use;    /* SDK_PARENT: its spans' ids are used; SDK_LEFT: its operations are left to
			   it */
	char text[192]; /* one clause for the status page, "" without an SDK */
};

void sdk_judge(struct sdk_verdict *out, const struct config *cfg, const struct plan *plan, int pid);
