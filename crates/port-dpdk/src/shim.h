/* What Rust sees of DPDK: plain values and opaque pointers. `sys.rs` declares the same. */
#ifndef MILLRACE_SHIM_H
#define MILLRACE_SHIM_H

#include <stdint.h>

/* Bits of `mr_frame.flags`: what the driver says of the frame's bytes. */
#define MR_CSUM_GOOD 1    /* the transport checksum was found right */
#define MR_CSUM_OWED 2    /* it holds the pseudo header's sum; the data are known to be right */
#define MR_SCATTERED 4    /* several buffers, or one that others refer to: to be copied */
#define MR_LRO 8          /* stands for several segments of `segment` bytes */
#define MR_MARK 16        /* the device has said `mark` of it */

/* What a received mbuf says of itself in its first cache line. */
struct mr_mbuf {
	uint8_t *buffer;
	uint64_t unused1;
	uint16_t start;    /* where in the buffer the bytes begin */
	uint16_t references;
	uint16_t segments; /* buffers */
	uint16_t unused2;
	uint64_t flags;    /* what the driver says of the frame */
	uint32_t unused3;
	uint32_t len;      /* of the whole frame, all buffers */
	uint16_t len_here; /* of this buffer's part */
	uint16_t unused4[6];
	uint16_t buffer_len;
};

/* A received frame, with all that the driver says of it. */
struct mr_frame {
	void *mbuf;
	uint8_t *buffer;
	uint32_t len;      /* of the whole frame, all buffers */
	uint16_t buffer_len;
	uint16_t start;    /* where in the first buffer the bytes begin */
	uint16_t segment;
	uint16_t flags;
	uint32_t mark;
};

/* A flow that the device is to mark: addresses, IPv4's in the first four bytes, and ports, all in network order. */
struct mr_flow {
	uint8_t src[16];
	uint8_t dst[16];
	uint8_t src_port[2];
	uint8_t dst_port[2];
	uint8_t ipv6;
	uint8_t udp;      /* 0: TCP */
};

/* Bits of `mr_device.can`. */
#define MR_CAN_CSUM 1     /* completes TCP and UDP checksums */
#define MR_CAN_TSO 2      /* cuts TCP into segments */
#define MR_CAN_CHAIN 4    /* sends frames of several buffers */
#define MR_CAN_RX_CSUM 8  /* checks checksums */
#define MR_CAN_RSS 16     /* spreads over queues by a hash */

/* A device: what it is, and how it was set up. */
struct mr_device {
	char driver[32];
	uint8_t mac[6];
	uint16_t mtu;
	uint16_t rx_queues_max;
	uint16_t tx_queues_max;
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint32_t can;
};

/* What a frame still owes when it leaves. */
struct mr_owed {
	uint16_t l2_len;
	uint16_t l3_len;
	uint16_t l4_len;
	uint16_t segment;  /* 0: no segmentation */
	uint8_t ipv6;
	uint8_t udp;
};

struct mr_link {
	uint8_t up;
	uint32_t mbps;     /* UINT32_MAX: unknown */
};

struct mr_stats {
	uint64_t missed, rx_errors, rx_nombuf, tx_errors;
};

int mr_init(int argc, char **argv);
int mr_pool(uint32_t mbufs);
uint32_t mr_pool_free(void);
int mr_probe(const char *devargs, uint16_t *port);
int mr_setup(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, int symmetric,
	     struct mr_device *out);
int mr_start(uint16_t port);
int mr_restart(uint16_t port);
/* DPDK's interrupt thread calls `call` whenever `fd` is readable, for good. */
int mr_call_on(int fd, void (*call)(void *));
void mr_close(uint16_t port);
int mr_link(uint16_t port, struct mr_link *out);
int mr_set_link(uint16_t port, int up);
int mr_stats(uint16_t port, struct mr_stats *out);
int mr_thread(int on);
int mr_flow(uint16_t port, const struct mr_flow *flow, uint32_t mark, uint16_t queues, void **out);
int mr_flow_end(uint16_t port, void *flow);
uint16_t mr_rx(uint16_t port, uint16_t queue, void **mbufs, uint16_t max);
/* Bits of `mr_mbuf.flags`. */
struct mr_bits {
	uint64_t special; /* more to say than where the frame lies, or a buffer that is another's */
	uint64_t l4;      /* of the transport checksum */
	uint64_t l4_good;
	uint64_t l4_owed;
};
extern const struct mr_bits mr_bits;
/* Reads what the driver says of a frame, and has the mbuf forget it. */
void mr_look(void *mbuf, struct mr_frame *out);
uint16_t mr_tx(uint16_t port, uint16_t queue, void **mbufs, uint16_t n);
uint16_t mr_tx_prepare(uint16_t port, uint16_t queue, void **mbufs, uint16_t n);
void mr_cut(void *mbuf, uint16_t start, uint16_t len);
uint32_t mr_len(const void *mbuf);
void mr_owe(void *mbuf, const struct mr_owed *owed);
void *mr_copy_in(const uint8_t *bytes, uint32_t len);
int mr_copy_out(const void *mbuf, uint8_t *bytes, uint32_t len);
void mr_free(void *mbuf);
void mr_free_all(void *const *mbufs, uint32_t n);
const char *mr_error(int error);

#endif
