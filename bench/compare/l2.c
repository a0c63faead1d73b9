/* Layer 2: the destination address to a port, by `rte_hash`, a burst at once. */
#include "common.h"

#include <rte_hash.h>
#include <rte_hash_crc.h>

static struct rte_hash *table;
static uint8_t *port_of;

#define STATIONS (1 << 20)

#ifdef COUNTING
static struct count counts[2 * STATIONS];
static struct table stations;
#endif

static void entry(const char *line)
{
	if (!table) {
		struct rte_hash_parameters p = {
			.name = "stations", .entries = STATIONS + STATIONS / 4, .key_len = 8,
			.hash_func = rte_hash_crc, .socket_id = SOCKET_ID_ANY,
		};
		table = rte_hash_create(&p);
		port_of = calloc(2 * STATIONS, 1);
		if (!table || !port_of)
			die("no memory");
	}
	struct rte_ether_addr a = mac(field(line, "dl_dst="));
	uint64_t key = 0;

	memcpy(&key, &a, 6);
	int at = rte_hash_add_key(table, &key);
	if (at < 0)
		die("the table is full");
	port_of[at] = atoi(field(line, "output:"));
}

static void ready(void)
{
}

static void forward(struct rte_mbuf **packets, unsigned n, unsigned in, uint8_t *out)
{
	uint64_t keys[BURST];
	const void *pointers[BURST];
	int32_t at[BURST];

	(void)in;
	for (unsigned i = 0; i < n; i++) {
		if (i + PREFETCH < n)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH], void *));
		keys[i] = *rte_pktmbuf_mtod(packets[i], uint64_t *) & 0xffffffffffff;
		pointers[i] = &keys[i];
	}
	rte_hash_lookup_bulk(table, pointers, n, at);
	LOOKED_UP(&stations, n);
	for (unsigned i = 0; i < n; i++) {
		out[i] = at[i] < 0 ? DROP : port_of[at[i]];
		if (at[i] >= 0)
			COUNT(&counts[at[i]], &stations, packets[i]);
	}
}
