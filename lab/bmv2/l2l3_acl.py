"""examples/p4/l2l3_acl.p4 for bmv2."""

from program import DROP, PORT, Program, argument, assign, call, field, number, op, valid

META = field("scalars", "port")


def h(header, name):
    return field(header, name)


def l2l3_acl():
    p = Program([("port", 9)])
    p.header("eth", [("dst", 48), ("src", 48), ("kind", 16)])
    p.header("vlan", [("pcp", 3), ("dei", 1), ("vid", 12), ("kind", 16)])
    ip = [("version", 4), ("ihl", 4), ("tos", 8), ("len", 16), ("id", 16), ("flags", 3), ("offset", 13)]
    ip += [("ttl", 8), ("proto", 8), ("sum", 16), ("src", 32), ("dst", 32)]
    p.header("ip", ip)
    p.header("l4", [("src", 16), ("dst", 16)])
    p.state("start", ["eth"], [h("eth", "kind")], [("0x8100", "vlan"), ("0x0800", "ipv4"), (None, None)])
    p.state("vlan", ["vlan"], [h("vlan", "kind")], [("0x0800", "ipv4"), (None, None)])
    # Offset 13 bits, ihl 4, protocol 8: bmv2 takes each as whole bytes.
    select = [h("ip", "offset"), h("ip", "ihl"), h("ip", "proto")]
    p.state("ipv4", ["ip"], select, [("0x00000506", "l4"), ("0x00000511", "l4"), (None, None)])
    p.state("l4", ["l4"], [], [(None, None)])

    vlan = {"type": "header", "value": "vlan"}
    p.action("Forward.drop", [], DROP)
    p.action("Forward.no_op", [], [])
    add = [call("add_header", vlan), assign(h("vlan", "pcp"), number(0)), assign(h("vlan", "dei"), number(0))]
    add += [assign(h("vlan", "vid"), argument(0)), assign(h("vlan", "kind"), h("eth", "kind"))]
    p.action("Forward.add_vlan", [("vid", 12)], add + [assign(h("eth", "kind"), number(0x8100))])
    p.learn("learned_t", [field("standard_metadata", "ingress_port"), h("vlan", "vid"), h("eth", "src")])
    p.action("Forward.learn", [], [call("generate_digest", number(1), number(1))])
    less = op("&", op("+", h("ip", "ttl"), number(0xFF)), number(0xFF))
    route = [assign(h("eth", "src"), argument(0)), assign(h("eth", "dst"), argument(1))]
    route += [assign(h("vlan", "vid"), argument(2)), assign(h("ip", "ttl"), less)]
    p.action("Forward.route", [("own", 48), ("next", 48), ("vid", 12)], route)
    p.action("Forward.forward", [("port", 9)], [assign(META, argument(0))])
    p.action("Forward.send", [], [assign(PORT, META)])
    without = [assign(h("eth", "kind"), h("vlan", "kind")), call("remove_header", vlan), assign(PORT, META)]
    p.action("Forward.send_without_vlan", [], without)

    inside = ("exact", "sm.ingress_port", "standard_metadata", "ingress_port")
    vid, dst = ("exact", "h.vlan.vid", "vlan", "vid"), ("exact", "h.eth.dst", "eth", "dst")
    t = lambda name: f"Forward.{name}"
    p.table(
        t("vlan_ingress"), [inside, ("exact", "h.vlan.isValid()", "vlan", "$valid$"), vid],
        [t("add_vlan"), t("no_op"), t("drop")], t("drop"), counter=t("c_ingress"),
    )  # fmt: skip
    learned = [inside, vid, ("exact", "h.eth.src", "eth", "src")]
    p.table(t("learned"), learned, [t("no_op"), t("learn")], t("learn"), counter=t("c_learned"))
    p.when("is_ip", valid("ip"), 1)
    acl = [("ternary", f"h.{a}.{f}", a, f) for a, f in (("ip", "src"), ("ip", "dst"), ("ip", "proto"), ("l4", "src"), ("l4", "dst"))]
    p.table(t("acl"), acl, [t("no_op"), t("drop")], t("no_op"), counter=t("c_acl"))
    p.when("may_be_routed", valid("ip"), 4)
    p.table(t("routable"), [vid, dst], [t("no_op")], t("no_op"), counter=t("c_routable"))
    p.when("is_old", op("<=", h("ip", "ttl"), number(1)), 1)
    p.do("too_old", DROP)
    p.table(t("routes"), [("lpm", "h.ip.dst", "ip", "dst")], [t("route"), t("drop")], t("drop"), counter=t("c_routes"))
    p.table(t("switching"), [vid, dst], [t("forward"), t("drop")], t("drop"), counter=t("c_switching"))
    leave = [("exact", "m.port", "scalars", "port"), vid]
    p.table(t("vlan_egress"), leave, [t("send"), t("send_without_vlan"), t("drop")], t("drop"), counter=t("c_egress"))
    summed = [h("ip", f) for f, _ in ip if f != "sum"]
    p.calculation("calc", "csum16", summed)
    whole = op("and", valid("ip"), op("==", h("ip", "ihl"), number(5)))
    p.update_checksum(["ip", "sum"], "calc", whole)
    return p.json("l2l3_acl.p4", {t("routable"): 3})
