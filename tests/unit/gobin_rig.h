/* gobin_rig.h - what the tests of gobin look for in Go programs. */
#pragma once
#include "bpf/event.h"
#include "go_bins.h"
#include <criterion/parameterized.h>
#include <elf.h>
#include <time.h>

/* The fields that the agent reads of every server, and what they are in each Go version (read in
 * its sources, compared with DWARF). */
static const __attribute__((unused)) struct gobin_want want[] = {
	{ "runtime.g", "goid" },
	{ "runtime.g", "parentGoid" },
	{ "net/http.Request", "Method" },
	{ "net/http.Request", "Pattern" },
	{ "net/http.Request", "ctx" },
	{ "net/http.response", "status" },
	{ "net/http.response", "written" },
	{ "net/http/internal/http2.responseWriterState|net/http.http2responseWriterState",
	  "status" },
	{ "net/http.Request", "" },
};
#define WANTS  ARRAY_SIZE(want)
#define ABSENT UINT32_MAX

static const char *const serve[] = { "net/http.absent", "net/http.serverHandler.ServeHTTP",
				     "main.main", NULL };
static const char *const finish[] = { "net/http.(*response).finishRequest", NULL };
static const char *const func1[] = { "net/http.(*conn).serve.func1", NULL };
static const char *const absent[] = { "net/http.absent", "net/http.serverHandler.ServeHTT", NULL };
static const char *const ends[] = { "main.ends", NULL };
static const char *const *const names[] = { serve, finish, func1, absent, ends };
enum { SERVE, FINISH, FUNC1, NOT_THERE, ENDS, NAMES };
