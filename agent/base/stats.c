#include "base/stats.h"

_Atomic uint64_t stats[STAT_COUNT];
