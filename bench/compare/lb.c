/* Load balancer: service (address, TCP port 80) by `rte_hash`, the server by the source's first bit;
 * what else comes from outside is dropped, what comes from servers leaves. */
#include "common.h"

#include <rte_hash.h>
#include <rte_hash_crc.h>

#define OUTSIDE 1

static struct rte_hash *table;
static uint8_t servers[65536][2];

#ifdef COUNTING
/* Of what goes to each server; of what comes from servers, and of what is dropped. */
static struct count counts[65536][2], outwards, rest;
static struct table services;
#endif

static void entry(const char *line)
{
	if (!table) {
		struct rte_hash_parameters p = {
			.name = "services", .entries = 16384, .key_len = 8,
			.hash_func = rte_hash_crc, .socket_id = SOCKET_ID_ANY,
		};
		table = rte_hash_create(&p);
		if (!table)
			die("no memory");
	}
	if (!field(line, "nw_dst="))
		return;
	uint64_t key = (uint64_t)address(field(line, "nw_dst=")) << 16 | atoi(field(line, "tp_dst="));
	int at = rte_hash_add_key(table, &key);
	if (at < 0)
		die("the table is full");
	servers[at][address(field(line, "nw_src=")) >> 31] = atoi(field(line, "output:"));
}

static void ready(void)
{
}

static void forward(struct rte_mbuf **packets, unsigned n, unsigned in, uint8_t *out)
{
	uint64_t keys[BURST];
	const void *pointers[BURST];
	uint8_t half[BURST], which[BURST];
	unsigned asked = 0;
	int32_t at[BURST];

	if (in != OUTSIDE) {
		memset(out, OUTSIDE, n);
		LOOKED_UP(&services, n);
		for (unsigned i = 0; i < n; i++)
			COUNT(&outwards, &services, packets[i]);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *);
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(eth + 1);
		struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + 1);

		if (i + PREFETCH < n)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH], void *));
		out[i] = DROP;
		if (eth->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) ||
		    ip->next_proto_id != IPPROTO_TCP)
			continue;
		keys[asked] = (uint64_t)rte_be_to_cpu_32(ip->dst_addr) << 16 |
			      rte_be_to_cpu_16(tcp->dst_port);
		half[asked] = rte_be_to_cpu_32(ip->src_addr) >> 31;
		pointers[asked] = &keys[asked];
		which[asked++] = i;
	}
	if (asked)
		rte_hash_lookup_bulk(table, pointers, asked, at);
	LOOKED_UP(&services, n);
	for (unsigned i = 0; i < asked; i++)
		if (at[i] >= 0) {
			out[which[i]] = servers[at[i]][half[i]];
			COUNT(&counts[at[i]][half[i]], &services, packets[which[i]]);
		}
#ifdef COUNTING
	for (unsigned i = 0; i < n; i++)
		if (out[i] == DROP)
			COUNT(&rest, &services, packets[i]);
#endif
}
