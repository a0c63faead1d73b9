/* Layer 2: the destination address to a port. A table of words, six octets of an address and the port, eight to a cache line. */
#include "common.h"

static uint64_t *stations, mask, stations_len;
static bool large;

#ifdef COUNTING
static struct count *counts;
static struct table table;
#endif

static void add(uint64_t word)
{
	uint64_t at = hash_of(word >> 16) & mask;

	while (stations[at] && stations[at] >> 16 != word >> 16)
		at = (at + 1) & mask;
	stations_len += stations[at] == 0;
	stations[at] = word;
}

static void entry(const char *line)
{
	struct rte_ether_addr a = mac(field(line, "dl_dst="));
	uint64_t word = atoi(field(line, "output:"));

	memcpy((uint8_t *)&word + 2, &a, 6);
	if (stations_len * 2 >= mask) {
		uint64_t *old = stations, len = old ? mask + 1 : 0;

		mask = mask ? mask * 2 + 1 : 1023;
		stations = aligned_alloc(64, (mask + 1) * 8);
		if (!stations)
			die("no memory");
		memset(stations, 0, (mask + 1) * 8);
		stations_len = 0;
		for (uint64_t at = 0; at < len; at++)
			if (old[at])
				add(old[at]);
		free(old);
	}
	add(word);
}

static void ready(void)
{
	large = mask > (1 << 14);
#ifdef COUNTING
	counts = calloc(mask + 1, sizeof(*counts));
#endif
}

static inline uint64_t key(const struct rte_mbuf *packet)
{
	return *rte_pktmbuf_mtod(packet, uint64_t *) & 0xffffffffffff;
}

static inline void one(struct rte_mbuf *packet, uint64_t key, uint64_t at)
{
	uint64_t word;

	while (unlikely((word = stations[at]) >> 16 != key) && word)
		at = (at + 1) & mask;
	if (word)
		COUNT(&counts[at], &table, packet);
	deal(packet, word & 0xffff);
}

static inline void forward(struct rte_mbuf **packets, unsigned n, unsigned in)
{
	uint64_t at[BURST];

	(void)in;
	LOOKED_UP(&table, n);
	if (!large) {
		for (unsigned i = 0; i < n; i++) {
			if (i + PREFETCH < n)
				rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH], void *));
			uint64_t k = key(packets[i]);
			one(packets[i], k, hash_of(k) & mask);
		}
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		if (i + PREFETCH < n)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH], void *));
		at[i] = hash_of(key(packets[i])) & mask;
		rte_prefetch0(&stations[at[i]]);
	}
	for (unsigned i = 0; i < n; i++)
		one(packets[i], key(packets[i]), at[i]);
}
