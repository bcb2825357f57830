/* Needs root: the probes of net_http on places of this program, hit by hand with a goroutine, a
 * request and a response that lie in its memory as Go's would. So things can be had that no Go
 * program does on demand: an entry whose goroutine ended unseen, and whose g is another's by now.
 */
#include "bpf/libs/net_http/net_http.h"

#include "attach_rig.h"

#if !defined(__x86_64__)
#error "amd64 registers only, as the agent"
#endif

#define PLACE(name)                                                                                \
	__asm__(".pushsection .text\n.globl " name "\n.type " name ", %function\n" name            \
		":\npush %rbp\npop %rbp\nret\n.size " name ", . - " name "\n.popsection\n")
PLACE("place_begin");
PLACE("place_end");
PLACE("place_conn_end");
extern const char place_begin[], place_end[], place_conn_end[];

/* Go's structs, as far as the probes read them. */
struct text {
	const char *p;
	uint64_t n;
};

struct request {
	struct text method, host, remote, uri;
	uint64_t url, header, length, tls, major, minor, pat;
	struct text pattern;
};

struct response {
	struct request *req;
	uint64_t status, written;
	uint8_t wrote_header, cw_wrote_header;
};

struct goroutine {
	uint64_t goid, panic;
};

struct registers {
	const void *p1, *p3, *p4, *g;
};

/* Calls a place as Go's ABIInternal would. */
static void hit(const char *place, struct registers r)
{
	__asm__ volatile("sub $128, %%rsp\n\tpush %%r14\n\tmov %%rsi, %%r14\n\tcall *%[place]\n\t"
			 "pop %%r14\n\tadd $128, %%rsp"
			 : "+a"(r.p1), "+c"(r.p3), "+D"(r.p4)
			 : [place] "b"(place), "d"(0), "S"(r.g)
			 : "memory", "cc");
}

static const struct lib *net_http(void)
{
	lib_foreach (it)
		if (strcmp((*it)->name, "net_http") == 0)
			return *it;
	cr_assert(false, "it is not built in");
	return NULL;
}

static uint8_t probe_of(const char *program)
{
	const struct lib *lib = net_http();

	for (size_t i = 0; i < lib->nprobes; i++)
		if (strcmp(lib->probes[i].enter, program) == 0)
			return (uint8_t)i;
	cr_assert(false, "%s", program);
	return 0;
}

static struct plan_lib planned[LIBS_MAX];
static struct plan_place places[3];
static struct gobin_field fields[GO_FIELDS_MAX];

static void field(size_t id, size_t offset)
{
	fields[id] = (struct gobin_field){ (uint32_t)offset, GOBIN_TYPES, 0 };
}

#define FIELD(id, type, member) field(F_##id, offsetof(struct type, member))

static void make_plan(void)
{
	static const struct {
		const char *place, *program;
	} hooks[] = { { place_begin, "net_http_begin" },
		      { place_end, "net_http_end" },
		      { place_conn_end, "net_http_conn_end" } };
	static struct plan made = { .libs = planned, .places = places, .nplaces = 3 };
	uint8_t at = (uint8_t)index_of(net_http());

	field(F_REQ_SIZE, sizeof(struct request));
	FIELD(REQ_METHOD, request, method);
	FIELD(REQ_URL, request, url);
	FIELD(REQ_HEADER, request, header);
	FIELD(REQ_HOST, request, host);
	FIELD(REQ_REMOTE, request, remote);
	FIELD(REQ_URI, request, uri);
	FIELD(REQ_LENGTH, request, length);
	FIELD(REQ_TLS, request, tls);
	FIELD(REQ_MAJOR, request, major);
	FIELD(REQ_MINOR, request, minor);
	FIELD(REQ_PAT, request, pat);
	FIELD(REQ_PATTERN, request, pattern);
	field(F_RESP_SIZE, sizeof(struct response));
	FIELD(RESP_REQ, response, req);
	FIELD(RESP_STATUS, response, status);
	FIELD(RESP_WRITTEN, response, written);
	FIELD(RESP_WROTE_HEADER, response, wrote_header);
	FIELD(RESP_CW, response, cw_wrote_header);
	field(F_CW_WROTE_HEADER, 0);
	FIELD(G_GOID, goroutine, goid);
	FIELD(G_PANIC, goroutine, panic);
	field(F_PANIC_ARG, 0);
	for (size_t i = 0; i < lib_count(); i++)
		planned[i].lib = lib_at(i);
	planned[at].parts = NET_HTTP_PART_H1;
	planned[at].fields = fields;
	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++) {
		unsigned long offset;

		cr_assert_eq(selftest_offset(hooks[i].place, &offset), 0);
		places[i] = (struct plan_place){ .offset = offset,
						 .lib = at,
						 .probe = probe_of(hooks[i].program) };
	}
	made.nlibs = lib_count();
	plan = &made;
}

/* ---- a server of one connection at a time, with the one g that Go would use again and again ----
 */

static struct goroutine g;
static struct response response;
static struct request request;
static char remote[32]; /* Go uses the memory of strings again as well */
static struct attached *attached[1];

static struct text text(const char *t)
{
	return (struct text){ t, strlen(t) };
}

static void begin(uint64_t goid, int port)
{
	g = (struct goroutine){ .goid = goid };
	(void)snprintf(remote, sizeof(remote), "10.0.0.1:%d", port);
	request = (struct request){ .method = text("GET"),
				    .host = text("host"),
				    .uri = text("/path"),
				    .remote = text(remote),
				    .major = 1,
				    .minor = 1 };
	response = (struct response){ .req = &request };
	hit(place_begin, (struct registers){ .p3 = &response, .p4 = &request, .g = &g });
}

static void finish(uint64_t status)
{
	response.status = status;
	response.wrote_header = 1;
	hit(place_end, (struct registers){ .p1 = &response, .g = &g });
}

static void end_connection(uint64_t goid)
{
	g.goid = goid;
	hit(place_conn_end, (struct registers){ .g = &g });
}

static void open_server(const char *share)
{
	uint16_t slot;

	open_middle("1MiB", share);
	make_plan();
	cr_assert_eq(ring_start(ring), 0);
	attached[0] = follow(getpid(), &slot);
}

static void set_up(void)
{
	open_server("4096");
}

static void fini(void)
{
	attach_detach(attach, attached, 1);
	tear_down();
}

static void arrives(int port, int64_t status)
{
	struct span s;

	cr_assert_eq(receive(1, &s), 1, "the span of %d", port);
	cr_assert_eq(value(&s, "network.peer.port"), port);
	cr_assert_eq(value(&s, "http.response.status_code"), status);
}

static void no_more_arrives(size_t events)
{
	(void)usleep(100000); /* ring.interval is 20 ms */
	cr_assert_eq(stat_get(events), events);
	attach_collect_stats(attach);
	cr_assert_eq(stat_get(ops_unreadable), 0);
}

TestSuite(net_http_stale, .init = set_up, .fini = fini, .timeout = 60);

Test(net_http_stale, a_request_and_its_end_are_a_span_and_the_next_of_the_connection_another)
{
	begin(7, 1001);
	finish(200);
	arrives(1001, 200);
	begin(7, 1001);
	finish(404);
	arrives(1001, 404);
	end_connection(7);
	no_more_arrives(2);
	cr_assert_eq(stat_get(ops_new_begin), 0);
}

Test(net_http_stale, an_idle_connection_that_ended_unseen_leaves_nothing_to_the_next_one_on_its_g)
{
	begin(7, 1001);
	finish(200);
	arrives(1001, 200);
	begin(8, 2002); /* the address string lies where the other one's lay */
	finish(201);
	arrives(2002, 201);
	no_more_arrives(2);
	cr_assert_eq(stat_get(ops_new_begin), 0, "nothing was open");
}

Test(net_http_stale, a_request_that_ended_unseen_is_counted_and_is_not_the_next_one_on_its_g)
{
	begin(7, 1001);
	begin(8, 2002);
	finish(201);
	arrives(2002, 201);
	no_more_arrives(1);
	cr_assert_eq(stat_get(ops_new_begin), 1);
}

Test(net_http_stale, the_end_of_a_connection_does_not_end_the_request_of_another_goroutine)
{
	begin(7, 1001);
	end_connection(8); /* a connection that was there before the agent */
	no_more_arrives(0);
	cr_assert_eq(stat_get(ops_new_begin), 1);
	begin(9, 3003);
	finish(200);
	arrives(3003, 200);
}

TestSuite(net_http_stale_small, .fini = fini, .timeout = 60);

Test(net_http_stale_small, an_entry_that_takes_a_stale_ones_place_takes_no_second_share)
{
	static struct goroutine other = { .goid = 99 };

	open_server("1");
	for (uint64_t goid = 1; goid <= 5; goid++)
		begin(goid, 1001);
	finish(200);
	arrives(1001, 200);
	end_connection(5);
	hit(place_begin, (struct registers){ .p3 = &response, .p4 = &request, .g = &other });
	finish(202);
	no_more_arrives(1); /* finish() is hit with g, and the entry is other's */
	cr_assert_eq(stat_get(ops_new_begin), 4);
	cr_assert_eq(stat_get(ops_no_share), 0);
	begin(6, 1001);
	attach_collect_stats(attach);
	cr_assert_eq(stat_get(ops_no_share), 1, "the other one has it now");
}
