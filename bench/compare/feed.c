/* A source and a sink for the comparison: a device of DPDK's that gives frames of a capture file again and again, and takes frames.
 *
 *     -d feed.so --vdev net_feedN,file=CAPTURE --vdev net_feedM
 *
 * Receiving takes mbufs of the queue's pool, a burst at once, writes what a driver of a card writes into each, and puts the
 * frame's first 64 octets there, from memory that is read in order: what a card does by DMA. The rest of longer frames is copied, too.
 * Sending gives mbufs back to their pool, a burst at once. Without `file=` nothing comes.
 *
 * `net_pcap` with infinite_rx, which this takes the place of, costs 25 to 30 ns a packet by itself, which hides what forwarding costs.
 *
 * Built against DPDK's driver headers, which Debian does not package: bench/compare/run takes them from its source. */
#include <bus_vdev_driver.h>
#include <ethdev_driver.h>
#include <ethdev_vdev.h>
#include <rte_kvargs.h>
#include <rte_malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BULK 64

struct frame {
	uint8_t octets[64];
};

struct feed {
	/* The first octets of each frame, then lengths, then where the rest of a longer one is. */
	struct frame *frames;
	uint16_t *lens;
	uint8_t **rests;
	uint32_t count, at;
	bool long_ones;
	uint16_t port;
	struct rte_mempool *pool;
	uint64_t received, received_octets, sent, sent_octets, no_mbuf;
	struct rte_ether_addr mac;
	bool up;
};

static uint16_t receive(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
	struct feed *feed = queue;

	if (feed->count == 0 || n == 0)
		return 0;
	if (n > BULK)
		n = BULK;
	if (unlikely(rte_mempool_get_bulk(feed->pool, (void **)mbufs, n) < 0)) {
		feed->no_mbuf += n;
		return 0;
	}
	/* Where data begins, one reference, one segment, the port: one word. */
	const uint64_t rearm = RTE_PKTMBUF_HEADROOM | 1ull << 16 | 1ull << 32 | (uint64_t)feed->port << 48;
	uint64_t octets = 0;
	uint32_t at = feed->at;

	for (uint16_t i = 0; i < n && i < 4; i++)
		rte_prefetch0((uint8_t *)mbufs[i]->buf_addr + RTE_PKTMBUF_HEADROOM);
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = mbufs[i];
		uint16_t len = feed->lens[at];

		if (i + 4 < n)
			rte_prefetch0((uint8_t *)mbufs[i + 4]->buf_addr + RTE_PKTMBUF_HEADROOM);
		*(uint64_t *)&m->rearm_data = rearm;
		m->ol_flags = 0;
		m->packet_type = 0;
		m->pkt_len = len;
		m->data_len = len;
		m->vlan_tci = 0;
		m->hash.rss = 0;
		m->next = NULL;
		uint8_t *to = (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM;
		rte_mov64(to, feed->frames[at].octets);
		if (unlikely(feed->long_ones && len > 64))
			rte_memcpy(to + 64, feed->rests[at], len - 64);
		octets += len;
		if (++at == feed->count)
			at = 0;
	}
	feed->at = at;
	feed->received += n;
	feed->received_octets += octets;
	return n;
}

static uint16_t transmit(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
	struct feed *feed = queue;
	void *back[BULK];
	unsigned held = 0;
	struct rte_mempool *pool = NULL;
	uint64_t octets = 0;

	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = mbufs[i];

		octets += m->pkt_len;
		if (unlikely(m->nb_segs != 1 || rte_mbuf_refcnt_read(m) != 1 || !RTE_MBUF_DIRECT(m))) {
			rte_pktmbuf_free(m);
			continue;
		}
		if (unlikely(m->pool != pool || held == BULK)) {
			if (held)
				rte_mempool_put_bulk(pool, back, held);
			pool = m->pool;
			held = 0;
		}
		back[held++] = m;
	}
	if (held)
		rte_mempool_put_bulk(pool, back, held);
	feed->sent += n;
	feed->sent_octets += octets;
	return n;
}

static int configure(struct rte_eth_dev *dev)
{
	(void)dev;
	return 0;
}

static int start(struct rte_eth_dev *dev)
{
	dev->data->dev_link.link_status = RTE_ETH_LINK_UP;
	return 0;
}

static int stop(struct rte_eth_dev *dev)
{
	dev->data->dev_link.link_status = RTE_ETH_LINK_DOWN;
	dev->data->dev_started = 0;
	return 0;
}

static int infos(struct rte_eth_dev *dev, struct rte_eth_dev_info *info)
{
	(void)dev;
	info->max_mac_addrs = 1;
	info->max_rx_pktlen = 9000;
	info->max_rx_queues = 1;
	info->max_tx_queues = 16;
	info->min_rx_bufsize = 0;
	info->tx_offload_capa = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	return 0;
}

static int rx_queue(struct rte_eth_dev *dev, uint16_t queue, uint16_t n, unsigned socket,
		    const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
	struct feed *feed = dev->data->dev_private;

	(void)n, (void)socket, (void)conf;
	feed->pool = pool;
	feed->port = dev->data->port_id;
	dev->data->rx_queues[queue] = feed;
	return 0;
}

static int tx_queue(struct rte_eth_dev *dev, uint16_t queue, uint16_t n, unsigned socket, const struct rte_eth_txconf *conf)
{
	(void)n, (void)socket, (void)conf;
	dev->data->tx_queues[queue] = dev->data->dev_private;
	return 0;
}

static int link_update(struct rte_eth_dev *dev, int wait)
{
	(void)dev, (void)wait;
	return 0;
}

static int stats(struct rte_eth_dev *dev, struct rte_eth_stats *stats)
{
	struct feed *feed = dev->data->dev_private;

	stats->ipackets = stats->q_ipackets[0] = feed->received;
	stats->ibytes = stats->q_ibytes[0] = feed->received_octets;
	stats->opackets = stats->q_opackets[0] = feed->sent;
	stats->obytes = stats->q_obytes[0] = feed->sent_octets;
	stats->rx_nombuf = feed->no_mbuf;
	return 0;
}

static int stats_reset(struct rte_eth_dev *dev)
{
	struct feed *feed = dev->data->dev_private;

	feed->received = feed->received_octets = feed->sent = feed->sent_octets = feed->no_mbuf = 0;
	return 0;
}

static int set_mtu(struct rte_eth_dev *dev, uint16_t mtu)
{
	(void)dev, (void)mtu;
	return 0;
}

static int promiscuous(struct rte_eth_dev *dev)
{
	(void)dev;
	return 0;
}

static int set_mac(struct rte_eth_dev *dev, struct rte_ether_addr *mac)
{
	(void)dev, (void)mac;
	return 0;
}

static const struct eth_dev_ops ops = {
	.dev_configure = configure,
	.dev_start = start,
	.dev_stop = stop,
	.dev_infos_get = infos,
	.rx_queue_setup = rx_queue,
	.tx_queue_setup = tx_queue,
	.link_update = link_update,
	.stats_get = stats,
	.stats_reset = stats_reset,
	.mtu_set = set_mtu,
	.promiscuous_enable = promiscuous,
	.promiscuous_disable = promiscuous,
	.allmulticast_enable = promiscuous,
	.allmulticast_disable = promiscuous,
	.mac_addr_set = set_mac,
};

/* Memory that is read in order, by large pages if there are some. */
static void *memory(size_t octets)
{
	octets = (octets + (2 << 20) - 1) & ~(size_t)((2 << 20) - 1);
	void *at = mmap(NULL, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	madvise(at, octets, MADV_HUGEPAGE);
	return at;
}

static int read_capture(struct feed *feed, const char *path)
{
	FILE *file = fopen(path, "rb");
	uint32_t head[6], record[4], count = 0;

	if (!file || fread(head, sizeof(head), 1, file) != 1 || (head[0] != 0xa1b2c3d4 && head[0] != 0xa1b23c4d)) {
		fprintf(stderr, "feed: %s is no capture file\n", path);
		return -1;
	}
	while (fread(record, sizeof(record), 1, file) == 1 && fseek(file, record[2], SEEK_CUR) == 0)
		count++;
	feed->frames = memory(count * sizeof(struct frame) + 64);
	feed->lens = memory(count * sizeof(uint16_t) + 64);
	feed->rests = memory(count * sizeof(uint8_t *) + 64);
	if (!feed->frames || !feed->lens || !feed->rests)
		return -1;
	fseek(file, sizeof(head), SEEK_SET);
	for (feed->count = 0; feed->count < count && fread(record, sizeof(record), 1, file) == 1; feed->count++) {
		uint8_t octets[9216] = { 0 };
		uint32_t len = record[2], at = feed->count;

		if (len > sizeof(octets) || fread(octets, 1, len, file) != len)
			break;
		memcpy(feed->frames[at].octets, octets, 64);
		feed->lens[at] = len;
		if (len > 64) {
			feed->long_ones = true;
			feed->rests[at] = malloc(len - 64);
			if (!feed->rests[at])
				return -1;
			memcpy(feed->rests[at], octets + 64, len - 64);
		}
	}
	fclose(file);
	return 0;
}

static int take_file(const char *key, const char *value, void *to)
{
	(void)key;
	*(const char **)to = value;
	return 0;
}

static int probe(struct rte_vdev_device *vdev)
{
	static const char *const keys[] = { "file", NULL };
	const char *path = NULL;

	if (rte_eal_process_type() != RTE_PROC_PRIMARY)
		return -ENOTSUP;
	struct rte_eth_dev *dev = rte_eth_vdev_allocate(vdev, sizeof(struct feed));

	if (!dev)
		return -ENOMEM;
	struct feed *feed = dev->data->dev_private;

	struct rte_kvargs *args = rte_kvargs_parse(rte_vdev_device_args(vdev), keys);

	if (args)
		rte_kvargs_process(args, "file", take_file, &path);
	if (path && read_capture(feed, path) < 0)
		return -EINVAL;
	rte_kvargs_free(args);
	rte_eth_random_addr(feed->mac.addr_bytes);
	dev->data->mac_addrs = &feed->mac;
	dev->data->promiscuous = 1;
	dev->data->nb_rx_queues = dev->data->nb_tx_queues = 1;
	dev->data->dev_link = (struct rte_eth_link){
		.link_speed = RTE_ETH_SPEED_NUM_100G, .link_duplex = RTE_ETH_LINK_FULL_DUPLEX,
		.link_status = RTE_ETH_LINK_DOWN, .link_autoneg = RTE_ETH_LINK_FIXED,
	};
	dev->data->dev_flags |= RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS;
	dev->dev_ops = &ops;
	dev->rx_pkt_burst = receive;
	dev->tx_pkt_burst = transmit;
	rte_eth_dev_probing_finish(dev);
	return 0;
}

static int forget(struct rte_vdev_device *vdev)
{
	struct rte_eth_dev *dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));

	if (!dev)
		return 0;
	dev->data->mac_addrs = NULL;
	return rte_eth_dev_release_port(dev);
}

static struct rte_vdev_driver driver = { .probe = probe, .remove = forget };

RTE_PMD_REGISTER_VDEV(net_feed, driver);
RTE_PMD_REGISTER_PARAM_STRING(net_feed, "file=<path>");
