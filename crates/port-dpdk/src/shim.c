/* DPDK as Rust calls it: what its headers define as inline functions, and set-up that would be
 * tedious to declare again. No state but the pool of buffers.
 *
 * Every function that may fail returns a negative errno. Nothing here checks its arguments: callers
 * are the safe wrappers of `sys.rs`, whose promises stand beside each call. */
#include "shim.h"

/* Interrupt handles of one's own are marked so in 22.11. */
#define ALLOW_EXPERIMENTAL_API

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_interrupts.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* As every worker thread keeps its own; at most half of it lies idle. */
#define CACHE 256
#define RX_DESCRIPTORS 1024
#define TX_DESCRIPTORS 1024

/* All frames of all devices: they come in by one and leave by another. Made once, kept for good. */
static struct rte_mempool *pool;

int mr_init(int argc, char **argv)
{
	return rte_eal_init(argc, argv) < 0 ? -rte_errno : 0;
}

int mr_pool(uint32_t mbufs)
{
	if (pool)
		return 0;
	pool = rte_pktmbuf_pool_create("millrace", mbufs, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
				       SOCKET_ID_ANY);
	return pool ? 0 : -rte_errno;
}

uint32_t mr_pool_free(void)
{
	return pool ? rte_mempool_avail_count(pool) : 0;
}

int mr_probe(const char *devargs, uint16_t *port)
{
	struct rte_dev_iterator it;
	uint16_t id, found = RTE_MAX_ETHPORTS;
	int error = rte_dev_probe(devargs);

	if (error < 0)
		return error;
	RTE_ETH_FOREACH_MATCHING_DEV(id, devargs, &it) {
		found = id;
		rte_eth_iterator_cleanup(&it);
		break;
	}
	if (found == RTE_MAX_ETHPORTS)
		return -ENODEV;
	*port = found;
	return 0;
}

/* Toeplitz with a key of equal 16-bit words gives both directions of a flow one hash (Woo, Park,
 * *Scalable TCP Session Monitoring with Symmetric Receive-side Scaling*, 2012). */
static void symmetric_key(uint8_t *key, size_t len)
{
	for (size_t i = 0; i < len; i++)
		key[i] = i % 2 ? 0x5a : 0x6d;
}

int mr_setup(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, int symmetric,
	     struct mr_device *out)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	struct rte_ether_addr mac;
	uint8_t key[64];
	uint16_t rx_descriptors = RX_DESCRIPTORS, tx_descriptors = TX_DESCRIPTORS;
	int socket = rte_eth_dev_socket_id(port);
	int error = rte_eth_dev_info_get(port, &info);

	if (error < 0)
		return error;
	memset(&conf, 0, sizeof(conf));
	memset(out, 0, sizeof(*out));
	strncpy(out->driver, info.driver_name ? info.driver_name : "", sizeof(out->driver) - 1);
	out->rx_queues_max = info.max_rx_queues;
	out->tx_queues_max = info.max_tx_queues;
	out->rx_queues = RTE_MIN(rx_queues, info.max_rx_queues);
	out->tx_queues = RTE_MIN(tx_queues, info.max_tx_queues);

	/* Marks come with frames where the device can; most that can do so unasked. */
	uint64_t metadata = RTE_ETH_RX_METADATA_USER_MARK;
	(void)rte_eth_rx_metadata_negotiate(port, &metadata);

	const uint64_t checks = RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	if ((info.rx_offload_capa & checks) == checks) {
		conf.rxmode.offloads |= checks;
		out->can |= MR_CAN_RX_CSUM;
	}
	const uint64_t sums = RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	if ((info.tx_offload_capa & sums) == sums) {
		conf.txmode.offloads |= sums;
		out->can |= MR_CAN_CSUM;
		/* Its IPv4 header is summed anew for each segment. */
		if (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_TCP_TSO) {
			conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_TCP_TSO;
			conf.txmode.offloads |= info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
			out->can |= MR_CAN_TSO;
		}
	}
	if (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) {
		conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
		out->can |= MR_CAN_CHAIN;
	}
	const uint64_t hashed = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
	if (out->rx_queues > 1 && (info.flow_type_rss_offloads & hashed)) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & hashed;
		if (symmetric && info.hash_key_size <= sizeof(key)) {
			symmetric_key(key, info.hash_key_size);
			conf.rx_adv_conf.rss_conf.rss_key = key;
			conf.rx_adv_conf.rss_conf.rss_key_len = info.hash_key_size;
		}
		out->can |= MR_CAN_RSS;
	}
	error = rte_eth_dev_configure(port, out->rx_queues, out->tx_queues, &conf);
	if (error < 0)
		return error;
	error = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx_descriptors, &tx_descriptors);
	if (error < 0)
		return error;
	for (uint16_t queue = 0; queue < out->rx_queues; queue++) {
		error = rte_eth_rx_queue_setup(port, queue, rx_descriptors, socket, NULL, pool);
		if (error < 0)
			return error;
	}
	for (uint16_t queue = 0; queue < out->tx_queues; queue++) {
		error = rte_eth_tx_queue_setup(port, queue, tx_descriptors, socket, NULL);
		if (error < 0)
			return error;
	}
	if (rte_eth_macaddr_get(port, &mac) == 0)
		memcpy(out->mac, mac.addr_bytes, sizeof(out->mac));
	if (rte_eth_dev_get_mtu(port, &out->mtu) < 0)
		out->mtu = RTE_ETHER_MTU;
	return 0;
}

int mr_start(uint16_t port)
{
	int error = rte_eth_dev_start(port);

	if (error < 0)
		return error;
	/* A switch takes what is for others. Virtual devices take it anyway, and may not know this. */
	rte_eth_promiscuous_enable(port);
	return 0;
}

/* Stops and starts it. That its peer is not there is not worth a line each time. */
int mr_restart(uint16_t port)
{
	const int type = rte_log_register("pmd.net.memif");
	const int level = type < 0 ? -1 : rte_log_get_level(type);
	int error;

	if (level >= 0 && level <= (int)RTE_LOG_NOTICE)
		rte_log_set_level(type, RTE_LOG_CRIT);
	rte_eth_dev_stop(port);
	error = mr_start(port);
	if (level >= 0)
		rte_log_set_level(type, level);
	return error;
}

int mr_call_on(int fd, void (*call)(void *))
{
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	int error = -ENOMEM;

	if (!handle)
		return error;
	if (rte_intr_fd_set(handle, fd) || rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT))
		error = -rte_errno;
	else
		error = rte_intr_callback_register(handle, call, NULL);
	/* DPDK keeps a copy. */
	rte_intr_instance_free(handle);
	return error;
}

void mr_close(uint16_t port)
{
	struct rte_eth_dev_info info;
	int known = rte_eth_dev_info_get(port, &info) == 0;

	rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
	if (known && info.device)
		rte_dev_remove(info.device);
}

int mr_link(uint16_t port, struct mr_link *out)
{
	struct rte_eth_link link;
	int error = rte_eth_link_get_nowait(port, &link);

	if (error < 0)
		return error;
	out->up = link.link_status == RTE_ETH_LINK_UP;
	out->mbps = link.link_speed;
	return 0;
}

int mr_set_link(uint16_t port, int up)
{
	return up ? rte_eth_dev_set_link_up(port) : rte_eth_dev_set_link_down(port);
}

/* Has the device mark a flow. Frames go where they went before if it can do that, else, of a port with one queue, there. */
int mr_flow(uint16_t port, const struct mr_flow *flow, uint32_t mark, uint16_t queues, void **out)
{
	const struct rte_flow_attr attr = { .ingress = 1 };
	const struct rte_flow_action_mark id = { .id = mark };
	const struct rte_flow_action_queue first = { .index = 0 };
	struct rte_flow_item_ipv4 v4 = { 0 }, v4_mask = { 0 };
	struct rte_flow_item_ipv6 v6 = { 0 }, v6_mask = { 0 };
	/* The ports lie at the same places in both. */
	struct rte_flow_item_tcp tcp = { 0 }, tcp_mask = { 0 };
	struct rte_flow_item_udp udp = { 0 }, udp_mask = { 0 };
	struct rte_flow_item pattern[4] = {
		{ .type = RTE_FLOW_ITEM_TYPE_ETH },
		{ .type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &v4, .mask = &v4_mask },
		{ .type = RTE_FLOW_ITEM_TYPE_TCP, .spec = &tcp, .mask = &tcp_mask },
		{ .type = RTE_FLOW_ITEM_TYPE_END },
	};
	struct rte_flow_action actions[3] = {
		{ .type = RTE_FLOW_ACTION_TYPE_MARK, .conf = &id },
		{ .type = RTE_FLOW_ACTION_TYPE_PASSTHRU },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	struct rte_flow_error error = { 0 };

	memcpy(&v4.hdr.src_addr, flow->src, 4);
	memcpy(&v4.hdr.dst_addr, flow->dst, 4);
	memset(&v4_mask.hdr.src_addr, 0xff, 4);
	memset(&v4_mask.hdr.dst_addr, 0xff, 4);
	memcpy(&tcp.hdr.src_port, flow->src_port, 2);
	memcpy(&tcp.hdr.dst_port, flow->dst_port, 2);
	memset(&tcp_mask.hdr.src_port, 0xff, 2);
	memset(&tcp_mask.hdr.dst_port, 0xff, 2);
	if (flow->ipv6) {
		memcpy(&v6.hdr.src_addr, flow->src, 16);
		memcpy(&v6.hdr.dst_addr, flow->dst, 16);
		memset(&v6_mask.hdr.src_addr, 0xff, 16);
		memset(&v6_mask.hdr.dst_addr, 0xff, 16);
		pattern[1].type = RTE_FLOW_ITEM_TYPE_IPV6;
		pattern[1].spec = &v6;
		pattern[1].mask = &v6_mask;
	}
	if (flow->udp) {
		memcpy(&udp.hdr.src_port, flow->src_port, 2);
		memcpy(&udp.hdr.dst_port, flow->dst_port, 2);
		memset(&udp_mask.hdr.src_port, 0xff, 2);
		memset(&udp_mask.hdr.dst_port, 0xff, 2);
		pattern[2].type = RTE_FLOW_ITEM_TYPE_UDP;
		pattern[2].spec = &udp;
		pattern[2].mask = &udp_mask;
	}
	*out = rte_flow_create(port, &attr, pattern, actions, &error);
	if (*out == NULL && queues == 1) {
		actions[1].type = RTE_FLOW_ACTION_TYPE_QUEUE;
		actions[1].conf = &first;
		*out = rte_flow_create(port, &attr, pattern, actions, &error);
	}
	if (*out == NULL)
		return rte_errno ? -rte_errno : -ENOTSUP;
	return 0;
}

int mr_flow_end(uint16_t port, void *flow)
{
	struct rte_flow_error error = { 0 };

	return rte_flow_destroy(port, flow, &error);
}

int mr_stats(uint16_t port, struct mr_stats *out)
{
	struct rte_eth_stats stats;
	int error = rte_eth_stats_get(port, &stats);

	if (error < 0)
		return error;
	out->missed = stats.imissed;
	out->rx_errors = stats.ierrors;
	out->rx_nombuf = stats.rx_nombuf;
	out->tx_errors = stats.oerrors;
	return 0;
}

int mr_thread(int on)
{
	if (!on) {
		rte_thread_unregister();
		return 0;
	}
	return rte_thread_register() < 0 ? -rte_errno : 0;
}

/* `struct mr_mbuf` is the first cache line of an mbuf, as far as Rust reads it (`port::Native`). */
#define SAME(field, of) \
	_Static_assert(offsetof(struct mr_mbuf, field) == offsetof(struct rte_mbuf, of) && \
		       sizeof(((struct mr_mbuf *)0)->field) == sizeof(((struct rte_mbuf *)0)->of), #of)
SAME(buffer, buf_addr);
SAME(start, data_off);
SAME(references, refcnt);
SAME(segments, nb_segs);
SAME(flags, ol_flags);
SAME(len, pkt_len);
SAME(len_here, data_len);
SAME(buffer_len, buf_len);

uint16_t mr_rx(uint16_t port, uint16_t queue, void **mbufs, uint16_t max)
{
	return rte_eth_rx_burst(port, queue, (struct rte_mbuf **)mbufs, max);
}

const struct mr_bits mr_bits = {
	.special = RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_FDIR_ID | RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL,
	.l4 = RTE_MBUF_F_RX_L4_CKSUM_MASK,
	.l4_good = RTE_MBUF_F_RX_L4_CKSUM_GOOD,
	.l4_owed = RTE_MBUF_F_RX_L4_CKSUM_NONE,
};

void mr_look(void *mbuf, struct mr_frame *out)
{
	struct rte_mbuf *m = mbuf;
	const uint64_t sum = m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
	uint16_t flags = 0;

	if (sum == RTE_MBUF_F_RX_L4_CKSUM_GOOD)
		flags |= MR_CSUM_GOOD;
	else if (sum == RTE_MBUF_F_RX_L4_CKSUM_NONE)
		flags |= MR_CSUM_OWED;
	if (m->ol_flags & RTE_MBUF_F_RX_LRO)
		flags |= MR_LRO;
	if (m->ol_flags & RTE_MBUF_F_RX_FDIR_ID) {
		flags |= MR_MARK;
		out->mark = m->hash.fdir.hi;
	}
	if (m->nb_segs != 1 || !RTE_MBUF_DIRECT(m) || rte_mbuf_refcnt_read(m) != 1)
		flags |= MR_SCATTERED;
	out->mbuf = mbuf;
	out->buffer = m->buf_addr;
	out->len = m->pkt_len;
	out->buffer_len = m->buf_len;
	out->start = m->data_off;
	/* In the mbuf's second cache line, which nothing else here needs. */
	out->segment = flags & MR_LRO ? m->tso_segsz : 0;
	out->flags = flags;
	/* What the frame owes when it leaves is said anew. */
	m->ol_flags &= RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;
}

uint16_t mr_tx(uint16_t port, uint16_t queue, void **mbufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, (struct rte_mbuf **)mbufs, n);
}

uint16_t mr_tx_prepare(uint16_t port, uint16_t queue, void **mbufs, uint16_t n)
{
	return rte_eth_tx_prepare(port, queue, (struct rte_mbuf **)mbufs, n);
}

/* Which bytes of its one buffer the frame is now. */
void mr_cut(void *mbuf, uint16_t start, uint16_t len)
{
	struct rte_mbuf *m = mbuf;

	m->data_off = start;
	m->data_len = len;
	m->pkt_len = len;
}

uint32_t mr_len(const void *mbuf)
{
	return rte_pktmbuf_pkt_len((const struct rte_mbuf *)mbuf);
}

void mr_owe(void *mbuf, const struct mr_owed *owed)
{
	struct rte_mbuf *m = mbuf;

	m->l2_len = owed->l2_len;
	m->l3_len = owed->l3_len;
	m->l4_len = owed->l4_len;
	m->ol_flags |= owed->ipv6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4;
	m->ol_flags |= owed->udp ? RTE_MBUF_F_TX_UDP_CKSUM : RTE_MBUF_F_TX_TCP_CKSUM;
	if (owed->segment) {
		m->tso_segsz = owed->segment;
		m->ol_flags |= RTE_MBUF_F_TX_TCP_SEG;
		if (!owed->ipv6)
			m->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
	}
}

/* A copy of bytes in one buffer, or in several where one is too small; NULL if none is left. */
void *mr_copy_in(const uint8_t *bytes, uint32_t len)
{
	struct rte_mbuf *head = NULL, *last = NULL;

	do {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
		uint16_t part;

		if (!m || (head && head->nb_segs == RTE_MBUF_MAX_NB_SEGS)) {
			rte_pktmbuf_free(m);
			rte_pktmbuf_free(head);
			return NULL;
		}
		part = RTE_MIN(len, (uint32_t)rte_pktmbuf_tailroom(m));
		memcpy(rte_pktmbuf_mtod(m, void *), bytes, part);
		m->data_len = part;
		m->pkt_len = part;
		if (head) {
			last->next = m;
			head->nb_segs++;
			head->pkt_len += part;
		} else {
			head = m;
		}
		last = m;
		bytes += part;
		len -= part;
	} while (len);
	return head;
}

/* Copies the first `len` bytes of a frame, over all its buffers. */
int mr_copy_out(const void *mbuf, uint8_t *bytes, uint32_t len)
{
	const void *at = rte_pktmbuf_read(mbuf, 0, len, bytes);

	if (!at)
		return -EINVAL;
	if (at != bytes)
		memcpy(bytes, at, len);
	return 0;
}

void mr_free(void *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

void mr_free_all(void *const *mbufs, uint32_t n)
{
	struct rte_mbuf *const *of = (struct rte_mbuf *const *)mbufs;
	struct rte_mempool *pool = n ? of[0]->pool : NULL;
	uint64_t odd = 0;

	/* Nearly always all are of one pool, whole, and nobody else's: then they go back as they are. */
	for (uint32_t i = 0; i < n; i++) {
		const struct rte_mbuf *m = of[i];

		odd |= (uint64_t)(m->pool != pool) | (uint64_t)(m->nb_segs ^ 1) | (uint64_t)(rte_mbuf_refcnt_read(m) ^ 1) |
		       (m->ol_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL));
	}
	if (n && !odd)
		rte_mempool_put_bulk(pool, mbufs, n);
	else
		rte_pktmbuf_free_bulk((struct rte_mbuf **)(uintptr_t)mbufs, n);
}

const char *mr_error(int error)
{
	return rte_strerror(error < 0 ? -error : error);
}
