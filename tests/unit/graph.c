#include "metrics/graph.h"

#include "allocations.h"
#include "base/stats.h"
#include "config_rig.h"
#include "metrics/metrics.h"
#include "metrics/prometheus.h"
#include "pipeline/resource.h"
#include "trace/span.h"

#define S  1000000000ull
#define MS 1000000ull

static struct resource *named(const char *name)
{
	struct resource_attr attrs[] = { { .key = "service.name", .value = name } };
	struct resource *r = NULL;

	cr_assert_eq(resource_new(&r, attrs, ARRAY_SIZE(attrs)), 0);
	return r;
}

/* ---- one graph, with owners that are just names ---- */

#define TOLD_MAX 64
static char told[TOLD_MAX][160];
static size_t ntold;
static struct graph *g;
static struct resource *web, *cart;
#define OWNER(text) ((struct owner *)(void *)(text))

static void on_edge(void *arg, const struct edge *e)
{
	(void)arg;
	cr_assert_lt(ntold, (size_t)TOLD_MAX);
	(void)snprintf(told[ntold++], sizeof(told[0]), "%s: %.*s>%.*s [%s] %.3f %.3f%s",
		       (const char *)e->owner, (int)e->client.n, e->client.p, (int)e->server.n,
		       e->server.p, e->type, e->client_s, e->server_s, e->failed ? " failed" : "");
}

static void make(size_t most)
{
	cr_assert_eq(graph_new(&g, most, on_edge, NULL), 0);
	web = named("web");
	cart = named("cart");
	ntold = 0;
	graph_tick(g, 1);
}

static void end(void)
{
	cr_assert(atomic_load(&web->refs) >= 1);
	graph_free(&g);
	cr_assert_eq(atomic_load(&web->refs), 1u);
	cr_assert_eq(atomic_load(&cart->refs), 1u);
	resource_put(&web);
	resource_put(&cart);
}

static struct attr room[SPAN_ATTRS_MAX];

static struct span client(uint8_t id, uint64_t ms)
{
	return (struct span){ .kind = SPAN_CLIENT,
			      .start_ns = S,
			      .end_ns = S + ms * MS,
			      .trace_id = { 7 },
			      .span_id = { id },
			      .parent_id = { 99 },
			      .attrs = room };
}

static struct span server(uint8_t parent, uint64_t ms)
{
	return (struct span){ .kind = SPAN_SERVER,
			      .start_ns = S,
			      .end_ns = S + ms * MS,
			      .trace_id = { 7 },
			      .span_id = { 50, parent },
			      .parent_id = { parent },
			      .attrs = room };
}

static void ask(struct span s)
{
	graph_add(g, OWNER("web"), web, &s, false);
}

static void serve(struct span s)
{
	graph_add(g, OWNER("cart"), cart, &s, false);
}

Test(graph, two_spans_of_a_request_are_one_edge_whichever_comes_first)
{
	make(8);
	ask(client(1, 30));
	cr_assert_eq(ntold, 0u);
	serve(server(1, 20));
	serve(server(2, 5));
	ask(client(2, 6));
	cr_assert_eq(ntold, 2u);
	cr_assert_str_eq(told[0], "web: web>cart [] 0.030 0.020");
	cr_assert_str_eq(told[1], "web: web>cart [] 0.006 0.005");
	cr_assert_eq(stat_get(graph_joined), 2u);
	cr_assert_eq(stat_get(graph_waiting), 0u);
	graph_tick(g, 100 * S);
	cr_assert_eq(ntold, 2u, "nothing is left");
	end();
}

Test(graph, a_request_has_failed_if_either_side_says_so)
{
	struct span s = server(1, 1), c = client(2, 1);

	make(8);
	s.status = c.status = SPAN_ERROR;
	serve(s);
	ask(client(1, 2));
	serve(server(2, 1));
	ask(c);
	cr_assert_str_eq(told[0], "web: web>cart [] 0.002 0.001 failed");
	cr_assert_str_eq(told[1], "web: web>cart [] 0.001 0.001 failed");
	end();
}

Test(graph, spans_of_other_traces_do_not_meet)
{
	struct span s = server(1, 1);

	make(8);
	s.trace_id[15] = 1;
	ask(client(1, 2));
	serve(s);
	cr_assert_eq(ntold, 0u);
	end();
}

Test(graph, a_client_alone_waits_ten_seconds_and_counts_whom_it_asked_by_name)
{
	struct span c = client(1, 30);

	make(8);
	span_str(&c, "server.address", str_of("pay.example"));
	ask(c);
	graph_tick(g, 10 * S);
	cr_assert_eq(ntold, 0u);
	graph_tick(g, 10 * S + 1);
	cr_assert_eq(ntold, 1u);
	cr_assert_str_eq(told[0], "web: web>pay.example [virtual_node] 0.030 -1.000");
	serve(server(1, 20));
	cr_assert_eq(ntold, 1u, "its server's span comes too late");
	graph_tick(g, 30 * S);
	cr_assert_eq(ntold, 1u, "and counts nothing of its own");
	cr_assert_eq(stat_get(graph_name), 1u);
	cr_assert_eq(stat_get(graph_remote), 1u);
	end();
}

Test(graph, an_address_of_a_pod_is_its_service)
{
	struct span c = client(1, 30);
	struct peers *peers;

	make(8);
	cr_assert_eq(peers_new(&peers), 0);
	cr_assert_eq(peers_add(peers, peer_of(str_of("10.1.2.3"), 0), "cart"), 0);
	peers_sort(peers);
	graph_peers(g, &peers);
	cr_assert_null(peers);
	span_str(&c, "server.address", str_of("cart.shop.svc"));
	span_str(&c, "network.peer.address", str_of("10.1.2.3"));
	span_int(&c, "network.peer.port", 8080);
	ask(c);
	graph_settle(g, NULL);
	cr_assert_str_eq(told[0], "web: web>cart [virtual_node] 0.030 -1.000");
	cr_assert_eq(stat_get(graph_address), 1u);
	end();
}

Test(graph, a_name_that_is_an_address_is_looked_up_as_well)
{
	struct span c = client(1, 30);
	struct peers *peers;

	make(8);
	cr_assert_eq(peers_new(&peers), 0);
	cr_assert_eq(peers_add(peers, peer_of(str_of("10.1.2.3"), 80), "cart"), 0);
	peers_sort(peers);
	graph_peers(g, &peers);
	span_str(&c, "server.address", str_of("10.1.2.3"));
	span_int(&c, "server.port", 80);
	ask(c);
	c.span_id[0] = 2;
	room[1].i = 81;
	ask(c);
	graph_settle(g, NULL);
	cr_assert_str_eq(told[0], "web: web>cart [virtual_node] 0.030 -1.000");
	cr_assert_str_eq(told[1], "web: web>10.1.2.3 [virtual_node] 0.030 -1.000");
	end();
}

Test(graph, whoever_has_no_name_is_not_counted)
{
	make(8);
	ask(client(1, 30));
	graph_settle(g, NULL);
	cr_assert_eq(ntold, 0u);
	cr_assert_eq(stat_get(graph_unnamed), 1u);
	end();
}

Test(graph, a_request_without_trace_comes_from_a_user)
{
	make(8);
	serve(server(0, 20));
	cr_assert_eq(ntold, 1u);
	cr_assert_str_eq(told[0], "cart: user>cart [virtual_node] -1.000 0.020");
	cr_assert_eq(stat_get(graph_waiting), 0u, "it waits for nobody");
	end();
}

Test(graph, a_database_took_what_its_client_waited)
{
	struct span c = client(1, 30);

	make(8);
	span_str(&c, "db.system.name", str_of("postgresql"));
	span_str(&c, "db.namespace", str_of("orders"));
	ask(c);
	cr_assert_str_eq(told[0], "web: web>orders [database] 0.030 0.030");
	span_str(&c, "server.address", str_of("db.example"));
	ask(c);
	cr_assert_str_eq(told[1], "web: web>db.example [database] 0.030 0.030");
	end();
}

Test(graph, messages_are_requests_through_a_messaging_system)
{
	struct span p = client(1, 3), c = server(1, 4), alone = client(2, 5);

	make(8);
	p.kind = alone.kind = SPAN_PRODUCER;
	c.kind = SPAN_CONSUMER;
	ask(p);
	serve(c);
	cr_assert_str_eq(told[0], "web: web>cart [messaging_system] 0.003 0.004");
	span_str(&alone, "messaging.destination.name", str_of("orders"));
	ask(alone);
	graph_settle(g, NULL);
	cr_assert_str_eq(told[1], "web: web>orders [messaging_system] 0.005 -1.000");
	end();
}

Test(graph, what_happens_inside_a_service_is_no_edge)
{
	struct span s = client(1, 3);

	make(8);
	s.kind = SPAN_INTERNAL;
	ask(s);
	cr_assert_eq(stat_get(graph_waiting), 0u);
	end();
}

/* Two agents and one request from a node to the other. */
Test(graph, agents_of_two_nodes_count_a_request_between_them_once)
{
	struct span c = client(1, 30);

	make(8); /* where the client is */
	span_str(&c, "server.address", str_of("cart"));
	ask(c);
	graph_settle(g, NULL);
	cr_assert_eq(ntold, 1u);
	end();
	make(8); /* where the server is */
	serve(server(1, 20));
	graph_settle(g, NULL);
	cr_assert_eq(ntold, 0u);
	end();
}

Test(graph, without_room_the_oldest_waits_no_longer_and_is_counted_all_the_same)
{
	make(4);
	for (uint8_t i = 1; i <= 60; i++) {
		struct span c = client(i, i);

		span_str(&c, "server.address", str_of("x"));
		ask(c);
	}
	cr_assert_eq(ntold, 56u);
	cr_assert_eq(stat_get(graph_early), 56u);
	cr_assert_eq(stat_get(graph_waiting), 4u);
	cr_assert_str_eq(told[0], "web: web>x [virtual_node] 0.001 -1.000");
	serve(server(58, 1));
	cr_assert_str_eq(told[56], "web: web>cart [] 0.058 0.001");
	graph_settle(g, NULL);
	cr_assert_eq(ntold, 60u, "each once");
	end();
}

Test(graph, the_end_of_an_owner_ends_the_waiting_of_its_requests_alone)
{
	struct span c = client(1, 1), other = client(2, 1);

	make(8);
	span_str(&c, "server.address", str_of("x"));
	ask(c);
	other.attrs = c.attrs;
	other.nattrs = c.nattrs;
	graph_add(g, OWNER("shop"), cart, &other, false);
	graph_settle(g, OWNER("shop"));
	cr_assert_eq(ntold, 1u);
	cr_assert_str_eq(told[0], "shop: cart>x [virtual_node] 0.001 -1.000");
	graph_settle(g, NULL);
	cr_assert_eq(ntold, 2u);
	end();
}

Test(graph, any_order_of_spans_and_ends_counts_each_request_once)
{
	uint32_t seed = 1;
	size_t asked = 0;

	make(16);
	for (int round = 0; round < 2000; round++) {
		uint8_t id = (uint8_t)(round % 251 + 1);
		bool first = (seed = seed * 1103515245u + 12345u) >> 30 & 1;
		struct span c = client(id, 1);

		span_str(&c, "server.address", str_of("x"));
		if (first && seed >> 29 & 1)
			serve(server(id, 1));
		ask(c);
		asked++;
		if (!first && seed >> 28 & 1)
			serve(server(id, 1));
		if (ntold > TOLD_MAX / 2)
			ntold = 0;
		graph_tick(g, (uint64_t)round * S / 3);
	}
	graph_settle(g, NULL);
	cr_assert_eq(stat_get(graph_joined) + stat_get(graph_name), asked);
	cr_assert_eq(stat_get(graph_waiting), 0u);
	end();
}

/* ---- addresses ---- */

static const char *at(const struct peers *p, const char *ip, int64_t port)
{
	struct peer peer = peer_of(str_of(ip), port);

	return peers_find(p, &peer);
}

Test(peers, an_address_has_the_service_of_its_port_or_that_of_all_or_none)
{
	struct peers *p;

	cr_assert_eq(peers_new(&p), 0);
	cr_assert_eq(peers_add(p, peer_of(str_of("10.0.0.1"), 0), "pod"), 0);
	cr_assert_eq(peers_add(p, peer_of(str_of("10.0.0.1"), 9090), "sidecar"), 0);
	cr_assert_eq(peers_add(p, peer_of(str_of("fd00::1"), 80), "six"), 0);
	cr_assert_eq(peers_add(p, peer_of(str_of("10.0.0.2"), 0), "one"), 0);
	cr_assert_eq(peers_add(p, peer_of(str_of("10.0.0.2"), 0), "two"), 0);
	cr_assert_eq(peers_add(p, peer_of(str_of("10.0.0.2"), 0), "one"), 0);
	cr_assert_eq(peers_add(p, peer_of(str_of("10.0.0.3"), 0), "same"), 0);
	cr_assert_eq(peers_add(p, peer_of(str_of("10.0.0.3"), 0), "same"), 0);
	cr_assert_eq(peers_add(p, peer_of(str_of("no address"), 0), "none"), 0);
	peers_sort(p);
	cr_assert_str_eq(at(p, "10.0.0.1", 80), "pod");
	cr_assert_str_eq(at(p, "::ffff:10.0.0.1", 9090), "sidecar");
	cr_assert_str_eq(at(p, "fd00::1", 80), "six");
	cr_assert_null(at(p, "fd00::1", 81));
	cr_assert_null(at(p, "10.0.0.2", 0), "two claim it");
	cr_assert_str_eq(at(p, "10.0.0.3", 1), "same");
	cr_assert_null(at(p, "10.0.0.4", 1));
	cr_assert_null(at(p, "no address", 0));
	cr_assert_null(at(NULL, "10.0.0.1", 80));
	peers_free(&p);
}

/* ---- as metrics ---- */

static struct config *cfg;
static struct metrics *m;
static char *page;

static void begin(const char *first, const char *second)
{
	cfg = load("--metrics-exporters=prometheus", first, second, NULL);
	cr_assert(cfg);
	cr_assert_eq(metrics_new(&m, cfg), 0);
	web = named("web");
	cart = named("cart");
}

static void finish(void)
{
	metrics_free(&m);
	config_free(&cfg);
	resource_put(&web);
	resource_put(&cart);
	free(page);
	page = NULL;
}

static void record(struct owner *o, struct span s)
{
	metrics_enter(m);
	metrics_record(m, o, UINT8_MAX, &s, false);
	metrics_leave(m);
}

static const char *scrape(void)
{
	size_t size;
	FILE *f;

	free(page);
	f = open_memstream(&page, &size);
	cr_assert_eq(prometheus_write(f, m, cfg, false), 0);
	(void)fclose(f);
	return page;
}

#define SEES(text) cr_assert(strstr(scrape(), text), "%s is not in %s", text, page)

Test(derived, spans_are_counted_by_the_names_of_tempos_generator)
{
	struct owner *o;
	struct span s = server(0, 300);

	begin("--metrics-span-metrics=true", NULL);
	o = metrics_owner(m, web, "");
	s.name = str_of("GET /items/{id}");
	record(o, s);
	s.status = SPAN_ERROR;
	record(o, s);
	record(o, s);
	SEES("# TYPE traces_spanmetrics_calls_total counter\n");
	SEES("# TYPE traces_spanmetrics_latency histogram\n");
	SEES("traces_spanmetrics_calls_total{job=\"web\",otel_scope_name=\"spoor/"
	     "derived\",service=\"web\",span_name=\"GET "
	     "/items/{id}\",span_kind=\"SPAN_KIND_SERVER\",status_code=\"STATUS_CODE_UNSET\"} 1\n");
	SEES("status_code=\"STATUS_CODE_ERROR\"} 2\n");
	SEES("status_code=\"STATUS_CODE_UNSET\",le=\"0.256\"} 0\n");
	SEES("status_code=\"STATUS_CODE_UNSET\",le=\"0.512\"} 1\n");
	SEES("traces_spanmetrics_latency_count{");
	SEES("le=\"16.384\"}");
	cr_assert_null(strstr(page, "service_graph"));
	owner_put(&o);
	finish();
}

Test(derived, attributes_of_spans_may_be_added_to_span_metrics)
{
	struct owner *o;
	struct span s = server(0, 300);

	begin("--metrics-span-metrics=true",
	      "--metrics-add-attributes=traces_spanmetrics_calls_total=http.route");
	o = metrics_owner(m, web, "");
	span_str(&s, "http.route", str_of("/x"));
	record(o, s);
	SEES("traces_spanmetrics_calls_total{job=\"web\",otel_scope_name=\"spoor/derived\",");
	SEES(",http_route=\"/x\"} 1\n");
	owner_put(&o);
	finish();
}

Test(derived, edges_are_counted_by_the_names_of_tempos_generator)
{
	struct owner *o, *p;
	struct span failed = server(0, 300);

	begin("--metrics-service-graph=true",
	      "--metrics-histogram=base2_exponential_bucket_histogram");
	o = metrics_owner(m, web, "");
	p = metrics_owner(m, cart, "");
	failed.status = SPAN_ERROR;
	record(p, server(1, 20));
	record(o, client(1, 30));
	record(o, failed);
	SEES("traces_service_graph_request_total{job=\"web\",otel_scope_name=\"spoor/"
	     "derived\",client=\"web\",server=\"cart\",connection_type=\"\"} 1\n");
	SEES("traces_service_graph_request_failed_total{job=\"web\",otel_scope_name=\"spoor/"
	     "derived\",client=\"user\",server=\"web\",connection_type=\"virtual_node\"} 1\n");
	SEES("# TYPE traces_service_graph_request_server_seconds histogram\n");
	SEES("traces_service_graph_request_client_seconds_bucket{job=\"web\",otel_scope_name="
	     "\"spoor/derived\",client=\"web\",server=\"cart\",connection_type=\"\",le=\"0.1\"} "
	     "1\n");
	SEES("le=\"12.8\"}");
	cr_assert_null(strstr(page, "spanmetrics"));
	cr_assert_null(strstr(page, "client=\"user\",connection_type=\"virtual_node\",server="
				    "\"web\",le=\"0.1\"} 1"),
		       "who the user is did not tell how long it took");
	owner_put(&o);
	owner_put(&p);
	finish();
}

Test(derived, what_still_waits_is_counted_at_the_end)
{
	struct owner *o;
	struct span c = client(1, 1);

	begin("--metrics-service-graph=true", NULL);
	o = metrics_owner(m, web, "pod");
	span_str(&c, "server.address", str_of("x"));
	record(o, c);
	cr_assert_null(strstr(scrape(), "service_graph"));
	metrics_settle(m);
	SEES("server=\"x\",connection_type=\"virtual_node\"} 1\n");
	c.span_id[0] = 2;
	record(o, c);
	owner_put(&o);
	finish(); /* under the address sanitizer: nothing is told of an owner that is gone */
}

Test(derived, off_by_default)
{
	struct owner *o;

	begin(NULL, NULL);
	o = metrics_owner(m, web, "");
	record(o, server(0, 1));
	cr_assert_null(strstr(scrape(), "traces_"));
	owner_put(&o);
	finish();
}

Test(derived, nothing_is_allocated_for_a_span_in_steady_state)
{
	struct owner *o, *p;

	if (!CAN_COUNT) /* the sanitizers have allocators of their own */
		return;
	begin("--metrics-service-graph=true", "--metrics-span-metrics=true");
	o = metrics_owner(m, web, "");
	p = metrics_owner(m, cart, "");
	record(p, server(1, 20));
	record(o, client(1, 30));
	counting = 1;
	allocations = 0;
	for (uint32_t i = 1; i < 30000; i++) {
		struct span s = server(1, i % 1000), c = client(1, i % 1000);

		memcpy(s.trace_id, &i, sizeof(i));
		memcpy(c.trace_id, &i, sizeof(i));
		record(p, s);
		if (i % 2)
			record(o, c);
	}
	counting = 0;
	cr_assert_eq(allocations, 0u);
	cr_assert_geq(stat_get(graph_waiting), GRAPH_EDGES - 1u);
	owner_put(&o);
	owner_put(&p);
	finish();
}
