/* Access gateway: users of a customer (a VLAN) behind port 1, the Internet behind port 2. Up: the
 * tag goes, (VLAN, source) to the public address by `rte_hash`, the route by `rte_lpm`. Down: the
 * public address to VLAN, private address and Ethernet address by another `rte_hash`. */
#include "common.h"

#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_lpm.h>

#define ACCESS 1
#define INTERNET 2
#define USERS (1 << 21)

struct user {
	uint32_t private;
	uint16_t vlan;
	struct rte_ether_addr mac;
};

static struct rte_hash *up, *down;
static struct rte_lpm *routes;
static uint32_t *public_of;
static struct user *user_of;
static struct rte_ether_addr inner, outer, hops[4096];
static unsigned hops_len;
static uint16_t vlan_of[256];

#ifdef COUNTING
/* Of customers by VLAN, of users, of routes by the number that the table answers then. */
static struct count customers[4096], ups[2 * USERS], downs[2 * USERS], route_counts[1 << 20];
/* The first one, those of customers, of routes, of what comes down. */
static struct table first, own, routed, back;
static uint16_t hop_of[1 << 20];
static unsigned routes_len;
#define HOP(found) (hops[hop_of[(found) & 0xffffff]])
#else
#define HOP(found) (hops[(found) & 0xffffff])
#endif

static struct rte_hash *hash(const char *name, unsigned len)
{
	struct rte_hash_parameters p = {
		.name = name, .entries = USERS, .key_len = len,
		.hash_func = rte_hash_crc, .socket_id = SOCKET_ID_ANY,
	};
	return rte_hash_create(&p);
}

static void entry(const char *line)
{
	if (!up) {
		struct rte_lpm_config config = { .max_rules = 1 << 20, .number_tbl8s = 1 << 17 };
		up = hash("up", 8);
		down = hash("down", 4);
		routes = rte_lpm_create("routes", SOCKET_ID_ANY, &config);
		public_of = calloc(2 * USERS, sizeof(*public_of));
		user_of = calloc(2 * USERS, sizeof(*user_of));
		if (!up || !down || !routes || !public_of || !user_of)
			die("no memory");
	}
	const char *table = field(line, "table="), *set = field(line, "set_field:");
	const char *dst = field(line, "nw_dst=");
	int at;

	if (field(line, "dl_vlan=")) {
		vlan_of[atoi(field(line, "goto_table:"))] = atoi(field(line, "dl_vlan="));
	} else if (field(line, "nw_src=")) {
		uint64_t key = (uint64_t)vlan_of[atoi(table)] << 32 | address(field(line, "nw_src="));
		at = rte_hash_add_key(up, &key);
		if (at < 0)
			die("the table of users is full");
		public_of[at] = address(set);
	} else if (field(line, "push_vlan:")) {
		uint32_t key = address(dst);
		at = rte_hash_add_key(down, &key);
		if (at < 0)
			die("the table of users is full");
		const char *vid = field(set, "set_field:");
		user_of[at].private = address(set);
		user_of[at].vlan = atoi(vid) & 0xfff;
		inner = mac(field(vid, "set_field:"));
		user_of[at].mac = mac(field(field(vid, "set_field:"), "set_field:"));
	} else if (dst) {
		struct rte_ether_addr hop = mac(field(set, "set_field:"));
		unsigned h = 0;

		outer = mac(set);
		while (h < hops_len && memcmp(&hops[h], &hop, sizeof(hop)))
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

static void upwards(struct rte_mbuf **packets, unsigned n, uint8_t *out)
{
	uint64_t keys[BURST];
	uint32_t addresses[BURST], found[BURST];
	const void *pointers[BURST];
	int32_t at[BURST];

	for (unsigned i = 0; i < n; i++) {
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *);
		struct rte_vlan_hdr *vlan = (struct rte_vlan_hdr *)(eth + 1);
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(vlan + 1);

		if (i + PREFETCH < n)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH], void *));
		out[i] = eth->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN) &&
			 vlan->eth_proto == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) && ip->time_to_live > 1;
		keys[i] = (uint64_t)(rte_be_to_cpu_16(vlan->vlan_tci) & 0xfff) << 32 |
			  rte_be_to_cpu_32(ip->src_addr);
		addresses[i] = rte_be_to_cpu_32(ip->dst_addr);
		pointers[i] = &keys[i];
	}
	rte_hash_lookup_bulk(up, pointers, n, at);
	rte_lpm_lookup_bulk(routes, addresses, found, n);
	LOOKED_UP(&first, n);
	LOOKED_UP(&own, n);
	LOOKED_UP(&routed, n);
	for (unsigned i = 0; i < n; i++) {
		if (!out[i] || at[i] < 0 || !(found[i] & RTE_LPM_LOOKUP_SUCCESS)) {
			out[i] = DROP;
			continue;
		}
		COUNT(&customers[keys[i] >> 32], &first, packets[i]);
		COUNT(&ups[at[i]], &own, packets[i]);
		COUNT(&route_counts[found[i] & 0xffffff], &routed, packets[i]);
		struct rte_ether_hdr *eth = (void *)rte_pktmbuf_adj(packets[i], sizeof(struct rte_vlan_hdr));
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(eth + 1);
		rte_be32_t before = ip->src_addr, after = rte_cpu_to_be_32(public_of[at[i]]);

		eth->dst_addr = HOP(found[i]);
		eth->src_addr = outer;
		eth->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
		mend32(&ip->hdr_checksum, before, after);
		mend_transport(ip, before, after);
		ip->src_addr = after;
		age(ip);
		out[i] = INTERNET;
	}
}

static void downwards(struct rte_mbuf **packets, unsigned n, uint8_t *out)
{
	uint32_t keys[BURST];
	const void *pointers[BURST];
	int32_t at[BURST];

	for (unsigned i = 0; i < n; i++) {
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *);
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(eth + 1);

		if (i + PREFETCH < n)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH], void *));
		out[i] = eth->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) && ip->time_to_live > 1;
		keys[i] = rte_be_to_cpu_32(ip->dst_addr);
		pointers[i] = &keys[i];
	}
	rte_hash_lookup_bulk(down, pointers, n, at);
	LOOKED_UP(&first, n);
	LOOKED_UP(&back, n);
	for (unsigned i = 0; i < n; i++) {
		if (!out[i] || at[i] < 0) {
			out[i] = DROP;
			continue;
		}
		const struct user *user = &user_of[at[i]];
		COUNT(&customers[0], &first, packets[i]);
		COUNT(&downs[at[i]], &back, packets[i]);
		struct rte_ether_hdr *eth = (void *)rte_pktmbuf_prepend(packets[i], sizeof(struct rte_vlan_hdr));
		struct rte_vlan_hdr *vlan = (struct rte_vlan_hdr *)(eth + 1);
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(vlan + 1);
		rte_be32_t before = ip->dst_addr, after = rte_cpu_to_be_32(user->private);

		eth->dst_addr = user->mac;
		eth->src_addr = inner;
		eth->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN);
		vlan->vlan_tci = rte_cpu_to_be_16(user->vlan);
		vlan->eth_proto = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
		mend32(&ip->hdr_checksum, before, after);
		mend_transport(ip, before, after);
		ip->dst_addr = after;
		age(ip);
		out[i] = ACCESS;
	}
}

static void forward(struct rte_mbuf **packets, unsigned n, unsigned in, uint8_t *out)
{
	if (in == ACCESS)
		upwards(packets, n, out);
	else
		downwards(packets, n, out);
}
