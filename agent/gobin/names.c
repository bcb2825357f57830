#include "gobin/names.h"

static size_t hash(const char *p, size_t n)
{
	size_t some = n < 8 ? n : 8;
	uint64_t tail = 0;

	memcpy(&tail, p + n - some, some);
	return (size_t)(((tail ^ n) * 0x9e3779b97f4a7c15ull) >> 40);
}

int names_init(struct names *s, size_t n)
{
	size_t slots = 16;

	while (slots < 2 * n)
		slots *= 2;
	*s = (struct names){ .cap = n, .mask = slots - 1 };
	s->list = calloc(n + 1, sizeof(*s->list));
	s->next = calloc(n + 1, sizeof(*s->next));
	s->head = calloc(slots, sizeof(*s->head));
	if (s->list && s->next && s->head)
		return 0;
	names_clear(s);
	return -ENOMEM;
}

void names_clear(struct names *s)
{
	free(s->list);
	free(s->next);
	free(s->head);
	*s = (struct names){ 0 };
}

size_t names_add(struct names *s, struct str name)
{
	size_t h = hash(name.p, name.n) & s->mask, i = s->n;

	s->list[i] = name;
	s->next[i] = s->head[h];
	s->head[h] = (uint32_t)++s->n;
	return i;
}

long names_find(const struct names *s, const char *p, size_t n, long from)
{
	uint32_t i = from < 0 ? s->head[hash(p, n) & s->mask] : s->next[from];

	for (; i; i = s->next[i - 1])
		if (s->list[i - 1].n == n && memcmp(s->list[i - 1].p, p, n) == 0)
			return (long)i - 1;
	return -1;
}
