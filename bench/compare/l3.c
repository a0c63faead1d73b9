/* Layer 3: the longest prefix to a next hop, by `rte_lpm`, a burst at once; both Ethernet addresses,
 * time to live, checksum. */
#include "common.h"

#include <rte_lpm.h>

struct hop {
	struct rte_ether_addr dst, src;
	uint8_t port;
};

static struct rte_lpm *routes;
static struct hop hops[4096];
static unsigned hops_len;

#ifdef COUNTING
/* By the number of the route, which the table answers then. */
static struct count counts[1 << 20];
static struct table table;
static uint16_t hop_of[1 << 20];
static unsigned routes_len;
#define HOP(found) (&hops[hop_of[(found) & 0xffffff]])
#else
#define HOP(found) (&hops[(found) & 0xffffff])
#endif

static void entry(const char *line)
{
	if (!routes) {
		struct rte_lpm_config config = { .max_rules = 1 << 20, .number_tbl8s = 1 << 17 };
		routes = rte_lpm_create("routes", SOCKET_ID_ANY, &config);
		if (!routes)
			die("no memory");
	}
	const char *dst = field(line, "nw_dst=");
	struct hop hop;

	memset(&hop, 0, sizeof(hop));
	hop.src = mac(field(line, "set_field:"));
	hop.dst = mac(field(field(line, "set_field:"), "set_field:"));
	hop.port = atoi(field(line, "output:"));
	unsigned h = 0;
	while (h < hops_len && memcmp(&hops[h], &hop, sizeof(hop)))
		h++;
	if (h == hops_len)
		hops[hops_len++] = hop;
#ifdef COUNTING
	hop_of[routes_len] = h;
	h = routes_len++;
#endif
	if (rte_lpm_add(routes, address(dst), atoi(strchr(dst, '/') + 1), h) < 0)
		die("the table is full");
}

static void ready(void)
{
}

static void forward(struct rte_mbuf **packets, unsigned n, unsigned in, uint8_t *out)
{
	uint32_t addresses[BURST], found[BURST];

	(void)in;
	for (unsigned i = 0; i < n; i++) {
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *);
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(eth + 1);

		if (i + PREFETCH < n)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH], void *));
		addresses[i] = rte_be_to_cpu_32(ip->dst_addr);
		out[i] = eth->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) && ip->time_to_live > 1;
	}
	rte_lpm_lookup_bulk(routes, addresses, found, n);
	LOOKED_UP(&table, n);
	for (unsigned i = 0; i < n; i++) {
		if (!out[i] || !(found[i] & RTE_LPM_LOOKUP_SUCCESS)) {
			out[i] = DROP;
			continue;
		}
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *);
		const struct hop *hop = HOP(found[i]);

		eth->dst_addr = hop->dst;
		eth->src_addr = hop->src;
		age((struct rte_ipv4_hdr *)(eth + 1));
		out[i] = hop->port;
		COUNT(&counts[found[i] & 0xffffff], &table, packets[i]);
	}
}
