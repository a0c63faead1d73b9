/* Access gateway: users of a customer (a VLAN) behind port 1, the Internet behind port 2. Up: the
 * tag goes, (VLAN, source) to the public address by a hash, the route by `rte_lpm`. Down: the
 * public address to VLAN, private address and Ethernet address by another hash. */
#include "common.h"

#include <rte_lpm.h>

#define ACCESS 1
#define INTERNET 2
#define USERS (1 << 20)

/* What replaces the first 12 octets of a frame, and its tag. */
struct user {
	struct addresses addresses;
	uint32_t private;
	rte_be16_t vlan;
};

/* Up: the public address and the user's number. Down: the user's number. */
static struct hash up, down;
static struct rte_lpm *routes;
static struct user users[USERS];
static struct addresses hops[4096];
static unsigned users_len, ups_len, hops_len;
static uint16_t vlan_of[256];

#ifdef COUNTING
/* Of customers by VLAN, of users, of routes by the number that the table answers then. */
static struct count customers[4096], ups[USERS], downs[USERS], route_counts[1 << 20];
/* The first one, those of customers, of routes, of what comes down. */
static struct table first, own, routed, back;
static uint16_t hop_of[1 << 20];
static unsigned routes_len;
#define HOP(found) (hops[hop_of[(found) & 0xffffff]])
#else
#define HOP(found) (hops[(found) & 0xffffff])
#endif

static void entry(const char *line)
{
	if (!routes) {
		struct rte_lpm_config config = { .max_rules = 1 << 20, .number_tbl8s = 1 << 17 };
		routes = rte_lpm_create("routes", SOCKET_ID_ANY, &config);
		if (!routes)
			die("no memory");
	}
	const char *table = field(line, "table="), *set = field(line, "set_field:");
	const char *dst = field(line, "nw_dst=");

	if (users_len == USERS || ups_len == USERS)
		die("the table of users is full");
	if (field(line, "dl_vlan=")) {
		vlan_of[atoi(field(line, "goto_table:"))] = atoi(field(line, "dl_vlan="));
	} else if (field(line, "nw_src=")) {
		uint64_t key = (uint64_t)vlan_of[atoi(table)] << 32 | address(field(line, "nw_src="));

		hash_add(&up, key, (uint64_t)ups_len++ << 32 | rte_cpu_to_be_32(address(set)));
	} else if (field(line, "push_vlan:")) {
		uint32_t key = address(dst);
		const char *vid = field(set, "set_field:");
		struct user *user = &users[users_len];

		hash_add(&down, key, users_len++);
		user->private = rte_cpu_to_be_32(address(set));
		user->vlan = rte_cpu_to_be_16(atoi(vid) & 0xfff);
		user->addresses = addresses(mac(field(field(vid, "set_field:"), "set_field:")), mac(field(vid, "set_field:")));
	} else if (dst) {
		struct addresses hop;
		unsigned h = 0;

		memset(&hop, 0, sizeof(hop));
		hop = addresses(mac(field(set, "set_field:")), mac(set));
		while (h < hops_len && (hops[h].first != hop.first || hops[h].rest != hop.rest))
			h++;
		if (h == hops_len)
			hops[hops_len++] = hop;
#ifdef COUNTING
		hop_of[routes_len] = h;
		h = routes_len++;
#endif
		if (rte_lpm_add(routes, address(dst), atoi(strchr(dst, '/') + 1), h) < 0)
			die("the table of routes is full");
	}
}

static void ready(void)
{
}

static inline void upwards(struct rte_mbuf **packets, unsigned n)
{
	uint64_t keys[BURST], at[BURST];

	for (unsigned i = 0; i < n; i++) {
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *);
		struct rte_vlan_hdr *vlan = (struct rte_vlan_hdr *)(eth + 1);
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(vlan + 1);

		if (i + PREFETCH < n)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH], void *));
		keys[i] = (uint64_t)(rte_be_to_cpu_16(vlan->vlan_tci) & 0xfff) << 32 |
			  rte_be_to_cpu_32(ip->src_addr);
		at[i] = hash_begin(&up, keys[i]);
		rte_prefetch0(&up.slots[at[i]]);
		rte_prefetch0(&routes->tbl24[rte_be_to_cpu_32(ip->dst_addr) >> 8]);
	}
	LOOKED_UP(&first, n);
	LOOKED_UP(&own, n);
	LOOKED_UP(&routed, n);
	for (unsigned i = 0; i < n; i++) {
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *);
		struct rte_vlan_hdr *vlan = (struct rte_vlan_hdr *)(eth + 1);
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(vlan + 1);
		struct slot *slot = hash_find(&up, at[i], keys[i]);
		uint32_t found;

		if (unlikely(!slot || eth->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN) ||
			     vlan->eth_proto != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) || ip->time_to_live <= 1 ||
			     rte_lpm_lookup(routes, rte_be_to_cpu_32(ip->dst_addr), &found) < 0)) {
			deal(packets[i], DROP);
			continue;
		}
		COUNT(&customers[keys[i] >> 32], &first, packets[i]);
		COUNT(&ups[slot->value >> 32], &own, packets[i]);
		COUNT(&route_counts[found & 0xffffff], &routed, packets[i]);
		rte_be32_t before = ip->src_addr, after = (uint32_t)slot->value;

		eth = (void *)rte_pktmbuf_adj(packets[i], sizeof(struct rte_vlan_hdr));
		set_addresses(eth, &HOP(found));
		mend_transport(ip, before, after);
		ip->src_addr = after;
		age(ip, before, after);
		deal(packets[i], INTERNET);
	}
}

static inline void downwards(struct rte_mbuf **packets, unsigned n)
{
	uint64_t at[BURST];

	for (unsigned i = 0; i < n; i++) {
		struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(packets[i], struct rte_ipv4_hdr *, RTE_ETHER_HDR_LEN);

		if (i + PREFETCH < n)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH], void *));
		at[i] = hash_begin(&down, rte_be_to_cpu_32(ip->dst_addr));
		rte_prefetch0(&down.slots[at[i]]);
	}
	LOOKED_UP(&first, n);
	LOOKED_UP(&back, n);
	for (unsigned i = 0; i < n; i++) {
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *);
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(eth + 1);
		struct slot *slot = hash_find(&down, at[i], rte_be_to_cpu_32(ip->dst_addr));

		if (unlikely(!slot || eth->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) || ip->time_to_live <= 1)) {
			deal(packets[i], DROP);
			continue;
		}
		const struct user *user = &users[slot->value];
		COUNT(&customers[0], &first, packets[i]);
		COUNT(&downs[slot->value], &back, packets[i]);
		rte_be32_t before = ip->dst_addr, after = user->private;

		eth = (void *)rte_pktmbuf_prepend(packets[i], sizeof(struct rte_vlan_hdr));
		struct rte_vlan_hdr *vlan = (struct rte_vlan_hdr *)(eth + 1);

		set_addresses(eth, &user->addresses);
		eth->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN);
		vlan->vlan_tci = user->vlan;
		vlan->eth_proto = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
		mend_transport(ip, before, after);
		ip->dst_addr = after;
		age(ip, before, after);
		deal(packets[i], ACCESS);
	}
}

static inline void forward(struct rte_mbuf **packets, unsigned n, unsigned in)
{
	if (in == ACCESS)
		upwards(packets, n);
	else
		downwards(packets, n);
}
