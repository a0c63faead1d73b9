/* Firewall: what comes from outside is judged by `rte_acl` (protocol, addresses, port), a burst at
 * once; what comes from inside leaves. */
#include "common.h"

#include <rte_acl.h>

#define INSIDE 2
#define OUTSIDE 1
#define RULES 32768

enum { PROTOCOL, SOURCE, DESTINATION, PORT_FIELD, FIELDS };

/* What is looked at, gathered from the packet; network byte order. */
struct key {
	uint8_t protocol;
	rte_be32_t src, dst;
	rte_be16_t unused, port;    /* a field of four bytes, as rte_acl groups them */
} __attribute__((packed, aligned(1)));

RTE_ACL_RULE_DEF(rule, FIELDS);

static struct rte_acl_ctx *acl;

#ifdef COUNTING
/* By the number of the rule, from 1, which is answered then; of what comes from inside. */
static struct count counts[RULES], outwards;
static struct table judged;
static uint8_t port_of[RULES];
static unsigned rules_len;
#endif
static const struct rte_acl_field_def fields[FIELDS] = {
	{ RTE_ACL_FIELD_TYPE_BITMASK, 1, PROTOCOL, 0, offsetof(struct key, protocol) },
	{ RTE_ACL_FIELD_TYPE_MASK, 4, SOURCE, 1, offsetof(struct key, src) },
	{ RTE_ACL_FIELD_TYPE_MASK, 4, DESTINATION, 2, offsetof(struct key, dst) },
	{ RTE_ACL_FIELD_TYPE_MASK, 4, PORT_FIELD, 3, offsetof(struct key, unused) },
};

static void entry(const char *line)
{
	const char *src = field(line, "nw_src="), *dst = field(line, "nw_dst=");
	const char *port = field(line, "tp_dst="), *out = field(line, "output:");
	struct rule rule;

	if (!acl) {
		struct rte_acl_param p = {
			.name = "rules", .socket_id = SOCKET_ID_ANY,
			.rule_size = RTE_ACL_RULE_SZ(FIELDS), .max_rule_num = RULES,
		};
		acl = rte_acl_create(&p);
		if (!acl)
			die("no memory");
	}
	if (!field(line, "in_port=") || atoi(field(line, "in_port=")) != OUTSIDE)
		return;
	memset(&rule, 0, sizeof(rule));
	rule.data.category_mask = 1;
	rule.data.priority = atoi(field(line, "priority="));
	/* 0 is no match: what is dropped by a rule is a port of its own. */
	rule.data.userdata = out ? atoi(out) : 255;
#ifdef COUNTING
	port_of[++rules_len] = rule.data.userdata;
	rule.data.userdata = rules_len;
#endif
	if (strstr(line, ",tcp,") || strstr(line, ",icmp,")) {
		rule.field[PROTOCOL].value.u8 = strstr(line, ",tcp,") ? IPPROTO_TCP : IPPROTO_ICMP;
		rule.field[PROTOCOL].mask_range.u8 = 0xff;
	}
	if (src) {
		rule.field[SOURCE].value.u32 = address(src);
		rule.field[SOURCE].mask_range.u32 = atoi(strchr(src, '/') + 1);
	}
	if (dst) {
		rule.field[DESTINATION].value.u32 = address(dst);
		rule.field[DESTINATION].mask_range.u32 = 32;
	}
	if (port || field(line, "icmp_type=")) {
		rule.field[PORT_FIELD].value.u32 = port ? atoi(port) : atoi(field(line, "icmp_type="));
		rule.field[PORT_FIELD].mask_range.u32 = 32;
	}
	if (rte_acl_add_rules(acl, (struct rte_acl_rule *)&rule, 1) < 0)
		die("a rule is refused");
}

static void ready(void)
{
	struct rte_acl_config config = { .num_categories = 1, .num_fields = FIELDS };

	memcpy(config.defs, fields, sizeof(fields));
	if (rte_acl_build(acl, &config) < 0)
		die("the rules cannot be built");
}

static inline void forward(struct rte_mbuf **packets, unsigned n, unsigned in)
{
	bool is_ip[BURST];
	struct key keys[BURST];
	const uint8_t *pointers[BURST];
	uint32_t found[BURST];

	if (in == INSIDE) {
		LOOKED_UP(&judged, n);
		for (unsigned i = 0; i < n; i++) {
			COUNT(&outwards, &judged, packets[i]);
			deal(packets[i], OUTSIDE);
		}
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *);
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(eth + 1);
		const uint8_t *l4 = (uint8_t *)(ip + 1);

		if (i + PREFETCH < n)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH], void *));
		is_ip[i] = eth->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
		keys[i].protocol = ip->next_proto_id;
		keys[i].src = ip->src_addr;
		keys[i].dst = ip->dst_addr;
		keys[i].unused = 0;
		if (ip->next_proto_id == IPPROTO_ICMP)
			keys[i].port = rte_cpu_to_be_16(l4[0]);
		else
			memcpy(&keys[i].port, l4 + 2, 2);
		pointers[i] = (const uint8_t *)&keys[i];
	}
	rte_acl_classify(acl, pointers, found, n, 1);
	LOOKED_UP(&judged, n);
#ifdef COUNTING
	for (unsigned i = 0; i < n; i++)
		if (is_ip[i] && found[i]) {
			COUNT(&counts[found[i]], &judged, packets[i]);
			found[i] = port_of[found[i]];
		}
#endif
	for (unsigned i = 0; i < n; i++)
		deal(packets[i], is_ip[i] && found[i] && found[i] != 255 ? found[i] : DROP);
}
