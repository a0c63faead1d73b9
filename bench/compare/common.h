/* What the hand-written programs share: start, the loop over ports in bursts of 32, counting.
 *
 *     PROGRAM EAL-ARGUMENTS -- FLOWS SECONDS
 *
 * A program reads the very flow entries that the switches get (`millrace bench use-case NAME --out`),
 * puts them into DPDK's structures, and forwards: `setup` and `forward` are its own. Port n is the
 * n-th device, from 1. It runs on the calling core; after a second of warming up it counts for
 * SECONDS, prints one line of JSON and ends; with SECONDS 0 it ends once nothing has come for a
 * while, for checking what it sends.
 *
 * Compiled with -DCOUNTING it counts as OpenFlow demands: of each entry packets, bytes and when it was last used, of
 * each table lookups and matches. */
#ifndef COMPARE_COMMON_H
#define COMPARE_COMMON_H

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_tcp.h>
#include <rte_udp.h>

#define BURST 32
#define PORTS 16
#define DROP 0
#define PREFETCH 4

/* Reads one line of the flow entries. */
static void entry(const char *line);
/* Called when all were read. */
static void ready(void);
/* Sets `out[i]` to the port that packet i leaves by, or DROP; `in` is the port it came by. */
static void forward(struct rte_mbuf **packets, unsigned n, unsigned in, uint8_t *out);

#ifdef COUNTING
struct count {
	uint64_t packets, bytes, used, unused;
};

struct table {
	uint64_t lookups, matches;
};

/* When the burst came. */
static uint64_t now;

static inline void count(struct count *entry, struct table *table, const struct rte_mbuf *packet)
{
	entry->packets++;
	entry->bytes += rte_pktmbuf_pkt_len(packet);
	entry->used = now;
	table->matches++;
}
#define COUNT(entry, table, packet) count(entry, table, packet)
#define LOOKED_UP(table, n) ((table)->lookups += (n))
#else
#define COUNT(entry, table, packet) do { } while (0)
#define LOOKED_UP(table, n) do { } while (0)
#endif

struct buffer {
	struct rte_mbuf *packets[BURST];
	unsigned n;
	uint64_t sent;
};

static struct buffer buffers[PORTS + 1];
static uint64_t received, dropped;

static inline void flush(unsigned port)
{
	struct buffer *b = &buffers[port];
	unsigned sent = rte_eth_tx_burst(port - 1, 0, b->packets, b->n);

	b->sent += sent;
	dropped += b->n - sent;
	for (; sent < b->n; sent++)
		rte_pktmbuf_free(b->packets[sent]);
	b->n = 0;
}

static inline unsigned once(unsigned ports)
{
	struct rte_mbuf *packets[BURST];
	uint8_t out[BURST];
	unsigned all = 0;

	for (unsigned in = 1; in <= ports; in++) {
		unsigned n = rte_eth_rx_burst(in - 1, 0, packets, BURST);

		if (!n)
			continue;
		all += n;
		for (unsigned i = 0; i < n && i < PREFETCH; i++)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i], void *));
#ifdef COUNTING
		now = rte_rdtsc();
#endif
		forward(packets, n, in, out);
		for (unsigned i = 0; i < n; i++) {
			if (out[i] == DROP || out[i] > ports) {
				rte_pktmbuf_free(packets[i]);
				dropped++;
				continue;
			}
			struct buffer *b = &buffers[out[i]];
			b->packets[b->n++] = packets[i];
			if (b->n == BURST)
				flush(out[i]);
		}
		for (unsigned port = 1; port <= ports; port++)
			if (buffers[port].n)
				flush(port);
	}
	received += all;
	return all;
}

/* Processor time of this thread, in seconds. */
static inline double processor(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static inline void die(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

/* The text behind `name` in a flow entry, or NULL. */
static inline const char *field(const char *line, const char *name)
{
	const char *at = strstr(line, name);
	return at ? at + strlen(name) : NULL;
}

static inline uint32_t address(const char *text)
{
	unsigned a, b, c, d;

	if (!text || sscanf(text, "%u.%u.%u.%u", &a, &b, &c, &d) != 4)
		die("an address was expected");
	return a << 24 | b << 16 | c << 8 | d;
}

static inline struct rte_ether_addr mac(const char *text)
{
	struct rte_ether_addr a;
	unsigned b[6];

	if (!text || sscanf(text, "%x:%x:%x:%x:%x:%x", b, b + 1, b + 2, b + 3, b + 4, b + 5) != 6)
		die("an Ethernet address was expected");
	for (int i = 0; i < 6; i++)
		a.addr_bytes[i] = b[i];
	return a;
}

/* RFC 1624, equation 3: a checksum after a 16-bit word under it has changed. */
static inline void mend16(rte_be16_t *sum, uint16_t before, uint16_t after)
{
	uint32_t s = (uint16_t)~*sum + (uint16_t)~before + after;

	s = (s & 0xffff) + (s >> 16);
	*sum = ~((s & 0xffff) + (s >> 16));
}

static inline void mend32(rte_be16_t *sum, uint32_t before, uint32_t after)
{
	mend16(sum, before, after);
	mend16(sum, before >> 16, after >> 16);
}

static inline void age(struct rte_ipv4_hdr *ip)
{
	/* The word of time to live and protocol; its first byte in memory is the time to live. */
	uint16_t before, after;

	memcpy(&before, &ip->time_to_live, 2);
	ip->time_to_live--;
	memcpy(&after, &ip->time_to_live, 2);
	mend16(&ip->hdr_checksum, before, after);
}

/* The transport checksum that an address is part of; a UDP checksum of zero stays zero. */
static inline void mend_transport(struct rte_ipv4_hdr *ip, uint32_t before, uint32_t after)
{
	if (ip->next_proto_id == IPPROTO_TCP) {
		mend32(&((struct rte_tcp_hdr *)(ip + 1))->cksum, before, after);
	} else if (ip->next_proto_id == IPPROTO_UDP) {
		struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);
		if (udp->dgram_cksum)
			mend32(&udp->dgram_cksum, before, after);
		if (!udp->dgram_cksum)
			udp->dgram_cksum = 0xffff;
	}
}

int main(int argc, char **argv)
{
	int eal = rte_eal_init(argc, argv);

	if (eal < 0 || argc - eal != 3)
		die("usage: PROGRAM EAL-ARGUMENTS -- FLOWS SECONDS");
	FILE *file = fopen(argv[eal + 1], "r");
	double seconds = atof(argv[eal + 2]);
	static char line[4096];

	if (!file)
		die("cannot read the flow entries");
	while (fgets(line, sizeof(line), file))
		entry(line);
	fclose(file);
	ready();

	const char *count = getenv("MBUFS");
	struct rte_mempool *pool = rte_pktmbuf_pool_create(
		"frames", count ? atoi(count) : 65535, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	unsigned ports = rte_eth_dev_count_avail();

	if (!pool || ports == 0 || ports > PORTS)
		die("no memory, no device, or too many");
	for (unsigned port = 0; port < ports; port++) {
		struct rte_eth_conf conf = { 0 };

		if (rte_eth_dev_configure(port, 1, 1, &conf) < 0 ||
		    rte_eth_rx_queue_setup(port, 0, 1024, SOCKET_ID_ANY, NULL, pool) < 0 ||
		    rte_eth_tx_queue_setup(port, 0, 1024, SOCKET_ID_ANY, NULL) < 0 ||
		    rte_eth_dev_start(port) < 0)
			die("cannot start a device");
	}

	uint64_t hz = rte_get_tsc_hz(), last = rte_rdtsc();
	double used = processor();

	if (seconds == 0) {
		while (rte_rdtsc() - last < hz / 2)
			if (once(ports))
				last = rte_rdtsc();
		for (unsigned port = 0; port < ports; port++)
			rte_eth_dev_stop(port);
	} else {
		while (rte_rdtsc() - last < hz)
			once(ports);
		received = dropped = 0;
		for (unsigned port = 1; port <= ports; port++)
			buffers[port].sent = 0;
		used = processor();
		last = rte_rdtsc();
		while (rte_rdtsc() - last < seconds * hz)
			once(ports);
	}
	printf("{\"packets\": %" PRIu64 ", \"dropped\": %" PRIu64 ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"per_port\": {",
	       received, dropped, (double)(rte_rdtsc() - last) / hz, processor() - used);
	for (unsigned port = 1; port <= ports; port++)
		printf("%s\"%u\": %" PRIu64, port > 1 ? ", " : "", port, buffers[port].sent);
	printf("}}\n");
	return 0;
}

#endif
