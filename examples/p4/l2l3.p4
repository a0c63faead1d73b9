// L2L3 of PISCES: L2L3-ACL without the access list, and without parsing what only that looks at.
#define NO_ACL
#include "l2l3_acl.p4"
