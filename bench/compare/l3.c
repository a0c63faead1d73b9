/* Layer 3: the longest prefix to a next hop, by `rte_lpm`; both Ethernet addresses, time to live, checksum. */
#include "common.h"

#include <rte_lpm.h>

struct hop {
	struct addresses addresses;
	uint32_t port;
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
	hop.addresses = addresses(mac(field(field(line, "set_field:"), "set_field:")), mac(field(line, "set_field:")));
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

static inline void forward(struct rte_mbuf **packets, unsigned n, unsigned in)
{
	uint32_t to[BURST];

	(void)in;
	for (unsigned i = 0; i < n; i++) {
		struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(packets[i], struct rte_ipv4_hdr *, RTE_ETHER_HDR_LEN);

		if (i + PREFETCH < n)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH], void *));
		to[i] = rte_be_to_cpu_32(ip->dst_addr);
		rte_prefetch0(&routes->tbl24[to[i] >> 8]);
	}
	LOOKED_UP(&table, n);
	for (unsigned i = 0; i < n; i++) {
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *);
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(eth + 1);
		uint32_t found;

		if (unlikely(eth->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) || ip->time_to_live <= 1 ||
			     rte_lpm_lookup(routes, to[i], &found) < 0)) {
			deal(packets[i], DROP);
			continue;
		}
		const struct hop *hop = HOP(found);

		set_addresses(eth, &hop->addresses);
		age(ip, 0, 0);
		COUNT(&counts[found & 0xffffff], &table, packets[i]);
		deal(packets[i], hop->port);
	}
}
