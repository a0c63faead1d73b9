//! Commands of Open vSwitch that are not there, each with its reason.

use super::dpif::NO_CACHE;

const ROUTES: &str = "routes are the kernel's; `ip route` changes them";
const NEIGHBOURS: &str = "neighbours are the kernel's; `ip neigh` changes them";

/// By the beginning of the name; the first that fits.
const REASONS: &[(&str, &str)] = &[
    ("autoattach/", "auto-attach is not done, and not planned"),
    ("cfm/", "connectivity fault management is not done, and not planned"),
    ("dpctl/add-dp", "bridges are made by ovs-vsctl add-br"),
    ("dpctl/del-dp", "bridges are removed by ovs-vsctl del-br"),
    ("dpctl/add-if", "ports are made by ovs-vsctl add-port"),
    ("dpctl/del-if", "ports are removed by ovs-vsctl del-port"),
    ("dpctl/set-if", "ports are changed by ovs-vsctl"),
    ("dpctl/add-flow", NO_CACHE),
    ("dpctl/mod-flow", NO_CACHE),
    ("dpctl/del-flow", NO_CACHE),
    ("dpctl/get-flow", NO_CACHE),
    ("dpctl/cache-", NO_CACHE),
    ("dpctl/offload-stats-show", "nothing is offloaded"),
    ("dpctl/ct-bkts", "connections are in one table without buckets"),
    ("dpctl/ct-disable-tcp-seq-chk", "sequence numbers are always checked"),
    ("dpctl/ct-enable-tcp-seq-chk", "sequence numbers are always checked"),
    ("dpctl/ct-get-tcp-seq-chk", "sequence numbers are always checked"),
    ("dpctl/ct-set-maxconns", "the room for connections is given at the start, by --connections"),
    ("dpctl/ipf-", "fragments are tracked without being gathered; there is nothing to set"),
    ("dpctl/normalize-actions", "there is no datapath whose actions could be read"),
    ("dpctl/parse-actions", "there is no datapath whose actions could be read"),
    ("dpctl/list-commands", "list-commands has them all"),
    (
        "dpif-netdev/",
        "there is no such datapath; millrace stats and millrace explain show what packets cost",
    ),
    ("dpif-netlink/", "there is no kernel datapath"),
    ("dpif/set-dp-features", "what can be done does not depend on a datapath"),
    ("dpif/show-dp-features", "what can be done does not depend on a datapath"),
    ("fdb/stats-clear", "counters are never set back"),
    ("mdb/", "multicast snooping is not there yet"),
    ("odp-execute/", "there is no such datapath"),
    (
        "ofproto/trace-packet-out",
        "not there: ofproto/trace shows the same entries for the same packet",
    ),
    ("ovs/route/add", ROUTES),
    ("ovs/route/del", ROUTES),
    ("revalidator/", NO_CACHE),
    ("rstp/", "spanning trees are not built"),
    ("stp/", "spanning trees are not built"),
    ("tnl/arp/flush", NEIGHBOURS),
    ("tnl/arp/set", NEIGHBOURS),
    ("tnl/egress_port_range", "outer source ports are 32768 to 60999"),
    ("tnl/neigh/aging", NEIGHBOURS),
    ("tnl/neigh/flush", NEIGHBOURS),
    ("tnl/neigh/set", NEIGHBOURS),
    ("upcall/", NO_CACHE),
    (
        "vlog/disable-rate-limit",
        "lines that come too often are counted, and that cannot be switched off",
    ),
    ("vlog/enable-rate-limit", "lines that come too often are counted always"),
    ("vlog/list-pattern", "the form of lines is fixed"),
];

/// Why there is no such command; none if Open vSwitch has none either.
pub(super) fn why(name: &str) -> Option<&'static str> {
    REASONS.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, why)| *why)
}
