#include "discover/neighbours.h"

#include "discover/pod.h"
#include "discover/proc.h"
#include "metrics/peers.h"
#include "pipeline/identity.h"
#include "pipeline/resource.h"

/* The name of its service as its spans would have it; *out NULL: only the process knows it. 0 or
 * -ENOMEM. */
static int name_of(struct resource **out, const struct config *cfg, const struct pod *pod,
		   const struct container *c)
{
	static const struct process nobody;
	const struct identity id = { .cfg = cfg,
				     .proc = &nobody,
				     .pod = pod,
				     .container = c,
				     .service_name = c->service_name,
				     .attributes = c->attributes };
	const char *says = pod_annotation(pod, "resource.opentelemetry.io/service.name");

	if (c->other_env && !(says && *says))
		return 0;
	return identity_resource(out, &id);
}

/* One port of a container, at all addresses it can be reached by. */
static int add_port(struct peers *to, const struct pod *pod, const struct pod_port *port,
		    const char *service)
{
	int err = 0;

	for (size_t i = 0; !err && i < pod->nips; i++)
		err = peers_add(to, peer_of(str_of(pod->ips[i]), port->container), service);
	if (!err && port->host && !pod->host_network)
		err = peers_add(to, peer_of(str_of(pod->host_ip), port->host), service);
	return err;
}

/* *all: the one service of the pod's containers so far. */
static int add_container(struct peers *to, const struct config *cfg, const struct pod *pod,
			 const struct container *c, struct resource **all, bool *differ)
{
	struct resource *r = NULL;
	int err = name_of(&r, cfg, pod, c);

	for (size_t i = 0; !err && i < c->nports; i++)
		err = add_port(to, pod, &c->ports[i], r ? r->service : NULL);
	if (!r || (*all && strcmp((*all)->service, r->service) != 0))
		*differ = true;
	if (r && !*all)
		*all = take(r);
	resource_put(&r);
	return err;
}

static int add_pod(struct peers *to, const struct config *cfg, const struct pod *pod)
{
	struct resource *all = NULL;
	bool differ = false;
	int err = 0;

	for (size_t i = 0; !err && i < pod->ncontainers; i++)
		err = add_container(to, cfg, pod, &pod->containers[i], &all, &differ);
	/* Its other ports; on the node's network they may be anybody's. */
	for (size_t i = 0; !err && all && !differ && !pod->host_network && i < pod->nips; i++)
		err = peers_add(to, peer_of(str_of(pod->ips[i]), 0), all->service);
	resource_put(&all);
	return err;
}

int neighbours(struct peers **out, const struct config *cfg, const struct pods *pods)
{
	__attribute__((cleanup(peers_free))) struct peers *to = NULL;
	int err = peers_new(&to);

	for (size_t i = 0; !err && pods && i < pods_count(pods); i++)
		if (strcmp(pods_at(pods, i)->phase, "Running") == 0)
			err = add_pod(to, cfg, pods_at(pods, i));
	if (err)
		return err;
	peers_sort(to);
	*out = take(to);
	return 0;
}
