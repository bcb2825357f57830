/* table.h - the last resort: layouts that have been the same in every Go version we support. */
#pragma once
#include "base/base.h"

/* True: the table has that field of that type. */
bool table_field(struct str type, struct str field, uint32_t *offset);
