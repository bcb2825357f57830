#include "discover/waiting.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define S 1000000000ULL

static struct waiting w;

static void name(char id[CONTAINER_ID_LEN + 1], int i)
{
	(void)snprintf(id, CONTAINER_ID_LEN + 1, "%064x", (unsigned int)i);
}

/* How often it is time to ask within that many seconds. */
static int asks(uint64_t from, uint64_t seconds)
{
	int n = 0;

	for (uint64_t t = from; t < from + seconds * S; t += S / 100)
		n += waiting_due(&w, t, true);
	return n;
}

Test(waiting, a_new_container_asks_at_once_and_then_less_and_less_often)
{
	char id[CONTAINER_ID_LEN + 1];

	name(id, 1);
	cr_expect_not(waiting_due(&w, S, true), "nothing to ask for");
	cr_expect_eq(waiting_add(&w, id, S), S);
	cr_expect(waiting_due(&w, S, true));
	cr_expect_not(waiting_due(&w, S, true));
	cr_expect_eq(asks(S, 10), 5, "after 0.2, 0.6, 1.4, 3.0 and 6.2 s");
	cr_expect_eq(asks(100 * S, 60), 6, "every 10 s");
	cr_expect_eq(waiting_add(&w, id, 200 * S), S, "it has been known for long");
	cr_expect_not(waiting_due(&w, 155 * S, true), "and is no reason to hurry");
}

Test(waiting, many_containers_ask_in_one_rhythm)
{
	char id[CONTAINER_ID_LEN + 1];

	for (int i = 0; i < 100; i++) {
		name(id, i);
		(void)waiting_add(&w, id, S);
	}
	cr_expect_eq(asks(S, 10), 6);
}

Test(waiting, when_nobody_waits_nobody_asks)
{
	char id[CONTAINER_ID_LEN + 1];

	name(id, 1);
	(void)waiting_add(&w, id, S);
	cr_expect_not(waiting_due(&w, S, false));
	cr_expect_eq(asks(S, 100), 0);
	waiting_done(&w, id);
	cr_expect_eq(waiting_add(&w, id, 300 * S), 300 * S, "it was forgotten");
	cr_expect(waiting_due(&w, 300 * S, true));
}

Test(waiting, of_too_many_the_oldest_is_forgotten)
{
	char id[CONTAINER_ID_LEN + 1];

	for (int i = 0; i <= WAITING_MAX; i++) {
		name(id, i);
		(void)waiting_add(&w, id, (uint64_t)(i + 1) * S);
	}
	cr_expect_eq(w.n, WAITING_MAX);
	name(id, 1);
	cr_expect_eq(waiting_add(&w, id, 1000 * S), 2 * S);
	name(id, 0);
	cr_expect_eq(waiting_add(&w, id, 1000 * S), 1000 * S);
}
