// L2 of PISCES: VLANs and switching; nothing of IP is parsed.
#define NO_ACL
#define NO_ROUTING
#include "l2l3_acl.p4"
