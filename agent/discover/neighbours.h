/* neighbours.h - which service answers at which address of this node, by the kubelet's list: pods,
 * ports of the node that are a pod's. CONTROL. */
#pragma once
#include "base/base.h"

struct config;
struct peers;
struct pods;

/* Right, or absent: not of pods that do not run, nor of a name that only a running process could
 * tell. pods may be NULL. 0 or -ENOMEM: then *out is untouched. */
int neighbours(struct peers **out, const struct config *cfg, const struct pods *pods) must_check;
