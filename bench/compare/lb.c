/* Load balancer: service (address, TCP port 80) by a hash, the server by the source's first bit;
 * what else comes from outside is dropped, what comes from servers leaves. */
#include "common.h"

#define OUTSIDE 1

static struct hash table;
static uint8_t servers[65536][2];
static unsigned services_len;

#ifdef COUNTING
/* Of what goes to each server; of what comes from servers, and of what is dropped. */
static struct count counts[65536][2], outwards, rest;
static struct table services;
#endif

static void entry(const char *line)
{
	if (!field(line, "nw_dst="))
		return;
	uint64_t key = (uint64_t)address(field(line, "nw_dst=")) << 16 | atoi(field(line, "tp_dst="));
	struct slot *slot = table.slots ? hash_find(&table, hash_begin(&table, key), key) : NULL;
	unsigned at = slot ? slot->value : services_len++;

	if (!slot)
		hash_add(&table, key, at);
	servers[at][address(field(line, "nw_src=")) >> 31] = atoi(field(line, "output:"));
}

static void ready(void)
{
}

static inline void forward(struct rte_mbuf **packets, unsigned n, unsigned in)
{
	LOOKED_UP(&services, n);
	if (in != OUTSIDE) {
		for (unsigned i = 0; i < n; i++) {
			COUNT(&outwards, &services, packets[i]);
			deal(packets[i], OUTSIDE);
		}
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *);
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(eth + 1);
		struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + 1);

		if (i + PREFETCH < n)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH], void *));
		uint64_t key = (uint64_t)rte_be_to_cpu_32(ip->dst_addr) << 16 | rte_be_to_cpu_16(tcp->dst_port);
		struct slot *slot = NULL;

		if (likely(eth->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) && ip->next_proto_id == IPPROTO_TCP))
			slot = hash_find(&table, hash_begin(&table, key), key);
		if (!slot) {
			COUNT(&rest, &services, packets[i]);
			deal(packets[i], DROP);
			continue;
		}
		unsigned half = rte_be_to_cpu_32(ip->src_addr) >> 31;

		COUNT(&counts[slot->value][half], &services, packets[i]);
		deal(packets[i], servers[slot->value][half]);
	}
}
