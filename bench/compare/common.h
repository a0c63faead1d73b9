/* What the hand-written programs share: start, the loop over ports in bursts of 32, sending, a hash table, counting.
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
/* Deals each packet to the port that it leaves by, or to DROP; `in` is the port that they came by. */
static inline void forward(struct rte_mbuf **packets, unsigned n, unsigned in);

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

/* Rounds between two times at which all that waits is sent: what fills a burst goes at once. */
#define DRAIN 16

struct buffer {
	struct rte_mbuf *packets[BURST];
	unsigned n;
	uint64_t sent;
};

static struct buffer buffers[PORTS + 1];
static uint64_t received, dropped;
static unsigned ports;

static __rte_noinline void flush(unsigned port)
{
	struct buffer *b = &buffers[port];
	unsigned sent = 0;

	if (port == DROP || port > ports) {
		rte_pktmbuf_free_bulk(b->packets, b->n);
		dropped += b->n;
		b->n = 0;
		return;
	}
	sent = rte_eth_tx_burst(port - 1, 0, b->packets, b->n);
	b->sent += sent;
	dropped += b->n - sent;
	for (; sent < b->n; sent++)
		rte_pktmbuf_free(b->packets[sent]);
	b->n = 0;
}

/* The packet leaves by this port. */
static inline void deal(struct rte_mbuf *packet, unsigned port)
{
	struct buffer *b = &buffers[port];

	b->packets[b->n++] = packet;
	if (unlikely(b->n == BURST))
		flush(port);
}

static inline unsigned once(void)
{
	static unsigned rounds;
	struct rte_mbuf *packets[BURST];
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
		forward(packets, n, in);
	}
	if (++rounds % DRAIN == 0 || all == 0)
		for (unsigned port = 0; port <= ports; port++)
			if (buffers[port].n)
				flush(port);
	received += all;
	return all;
}

/* A table by open addressing, half full at most: a key that is not 0 and a number, four to a cache line. */
struct slot {
	uint64_t key, value;
};

struct hash {
	struct slot *slots;
	uint64_t mask, count;
};

static inline uint64_t hash_of(uint64_t key)
{
	return __builtin_ia32_crc32di(0, key);
}

static __rte_unused void hash_add(struct hash *hash, uint64_t key, uint64_t value)
{
	if (hash->count * 2 >= hash->mask) {
		struct hash larger = { .mask = hash->mask * 4 + 1023 };

		larger.mask = rte_align64pow2(larger.mask) - 1;
		larger.slots = aligned_alloc(64, (larger.mask + 1) * sizeof(struct slot));
		if (!larger.slots) {
			fprintf(stderr, "no memory\n");
			exit(1);
		}
		memset(larger.slots, 0, (larger.mask + 1) * sizeof(struct slot));
		for (uint64_t at = 0; hash->slots && at <= hash->mask; at++)
			if (hash->slots[at].key)
				hash_add(&larger, hash->slots[at].key, hash->slots[at].value);
		free(hash->slots);
		*hash = larger;
	}
	uint64_t at = hash_of(key) & hash->mask;

	while (hash->slots[at].key && hash->slots[at].key != key)
		at = (at + 1) & hash->mask;
	hash->count += hash->slots[at].key == 0;
	hash->slots[at] = (struct slot){ key, value };
}

/* Where it begins to look. */
static inline uint64_t hash_begin(const struct hash *hash, uint64_t key)
{
	return hash_of(key) & hash->mask;
}

/* The slot of the key, or NULL. */
static inline struct slot *hash_find(const struct hash *hash, uint64_t at, uint64_t key)
{
	for (;; at = (at + 1) & hash->mask) {
		struct slot *slot = &hash->slots[at];

		if (likely(slot->key == key))
			return slot;
		if (slot->key == 0)
			return NULL;
	}
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

/* One less of its time to live; before and after are an address that is replaced, if they differ. */
static inline void age(struct rte_ipv4_hdr *ip, uint32_t before, uint32_t after)
{
	/* The word of time to live and protocol; its first byte in memory is the time to live. */
	uint16_t old, new;

	memcpy(&old, &ip->time_to_live, 2);
	ip->time_to_live--;
	memcpy(&new, &ip->time_to_live, 2);
	uint32_t s = (uint16_t)~ip->hdr_checksum + (uint16_t)~old + new + (uint16_t)~before + (uint16_t)after +
		     (uint16_t)~(before >> 16) + (after >> 16);

	s = (s & 0xffff) + (s >> 16);
	ip->hdr_checksum = ~((s & 0xffff) + (s >> 16));
}

/* Both Ethernet addresses, as two words: written at once. */
struct addresses {
	uint64_t first;
	uint32_t rest;
};

static inline struct addresses addresses(struct rte_ether_addr dst, struct rte_ether_addr src)
{
	struct addresses a;
	uint8_t octets[12];

	memcpy(octets, &dst, 6);
	memcpy(octets + 6, &src, 6);
	memcpy(&a.first, octets, 8);
	memcpy(&a.rest, octets + 8, 4);
	return a;
}

static inline void set_addresses(struct rte_ether_hdr *eth, const struct addresses *a)
{
	memcpy(eth, &a->first, 8);
	memcpy((uint8_t *)eth + 8, &a->rest, 4);
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
	ports = rte_eth_dev_count_avail();

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
			if (once())
				last = rte_rdtsc();
		for (unsigned port = 0; port < ports; port++)
			rte_eth_dev_stop(port);
	} else {
		while (rte_rdtsc() - last < hz)
			once();
		received = dropped = 0;
		for (unsigned port = 1; port <= ports; port++)
			buffers[port].sent = 0;
		used = processor();
		last = rte_rdtsc();
		while (rte_rdtsc() - last < seconds * hz)
			once();
	}
	printf("{\"packets\": %" PRIu64 ", \"dropped\": %" PRIu64 ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"per_port\": {",
	       received, dropped, (double)(rte_rdtsc() - last) / hz, processor() - used);
	for (unsigned port = 1; port <= ports; port++)
		printf("%s\"%u\": %" PRIu64, port > 1 ? ", " : "", port, buffers[port].sent);
	printf("}}\n");
	return 0;
}

#endif
