"""filetests/p4/answers.p4 for bmv2."""

from program import PORT, Program, argument, assign, call, field, named, number, op


def d(name):
    return field("d", name)


def m(name):
    return field("scalars", name)


def answers():
    p = Program([("marked", 8), ("color", 8), ("r", 8)])
    p.header("d", [("kind", 8), ("a", 8), ("b", 16), ("c", 32), ("short", 16), ("long", 32), ("color", 8), ("flag", 8)])
    p.vset("P.known", 16)
    p.state("start", ["d"], [d("b")], [(("vset", "P.known"), "marked"), (None, None)])
    p.state("marked", [{"op": "set", "parameters": [m("marked"), number(1)]}], [], [(None, None)])
    p.action("NoAction", [], [])
    p.action("I.send", [("port", 9)], [assign(PORT, argument(0))])
    p.action("I.mark", [("port", 9), ("with", 8)], [assign(PORT, argument(0)), assign(d("flag"), argument(1))])
    p.action("I.colored", [], [assign(d("color"), m("color"))])
    p.counters.append({"name": "I.cells", "id": 0, "is_direct": False, "size": 8})
    p.meters.append(
        {"name": "I.meters", "id": 0, "is_direct": False, "rate_count": 2, "type": "packets", "size": 8}
    )
    p.registers.append({"name": "I.kept", "id": 0, "bitwidth": 32, "size": 8})
    kept = named("register_array", "I.kept")
    state = [call("count", named("counter_array", "I.cells"), d("a"))]
    state += [call("execute_meter", named("meter_array", "I.meters"), d("a"), m("color")), assign(d("color"), m("color"))]
    state += [call("register_read", d("long"), kept, d("a")), call("register_write", kept, d("a"), d("c"))]
    p.action("I.state_", [], state)
    inside = op("and", op(">=", m("r"), number(10)), op("<=", m("r"), number(20)))
    chance = [call("modify_field_rng_uniform", m("r"), number(10), number(20))]
    chance += [assign(d("flag"), op("b2d", None, inside))]
    chance += [call("modify_field_rng_uniform", m("r"), number(7), number(7)), assign(d("a"), m("r"))]
    p.action("I.chance", [], chance)
    inputs = [d("a"), d("b"), d("c")]
    p.calculation("calc", "crc16_custom", inputs)
    p.calculation("calc_0", "crc32_custom", inputs)
    p.calculation("calc_1", "crc16", [d("c")])
    p.calculation("calc_2", "csum16", inputs)
    hashed = [("short", 0, "calc", 0x10000), ("long", 0, "calc_0", 0x100000000)]
    hashed += [("flag", 3, "calc_1", 10), ("color", 0, "calc_2", 256)]
    each = "modify_field_with_hash_based_offset"
    p.action("I.hashed", [], [call(each, d(f), number(b), named("calculation", c), number(n)) for f, b, c, n in hashed])
    p.learn("learned_t", [d("b"), field("standard_metadata", "ingress_port")])
    p.action("I.learn", [], [call("generate_digest", number(1), number(1))])
    p.profile("profile", 16)
    p.profile("selector", 32, "crc16", [d("b"), d("c")])
    p.do("begin", [assign(PORT, number(1)), assign(m("color"), number(9))])
    kind = ("exact", "h.d.kind", "d", "kind")
    acts = ["I.send", "I.mark", "NoAction"]
    p.table("I.profiled", [kind, ("exact", "h.d.a", "d", "a")], acts, profile="profile")
    p.table("I.selected", [kind, ("ternary", "h.d.a", "d", "a")], acts, profile="selector")
    ranged = [kind, ("range", "h.d.b", "d", "b"), ("ternary", "h.d.c", "d", "c")]
    p.table("I.ranged", ranged, acts, "NoAction", counter="I.ranged_count")
    meter = ("I.metered_meter", "bytes", ["scalars", "color"])
    p.table("I.metered", [kind, ("exact", "h.d.a", "d", "a")], ["I.colored", "NoAction"], "NoAction", meter=meter)
    p.table("I.routed", [kind, ("lpm", "h.d.c", "d", "c")], acts, "NoAction", timeout=True)
    p.table("I.others", [kind], ["I.state_", "I.chance", "I.hashed", "I.learn", "NoAction"], "NoAction")
    high = op("&", op("<<", m("marked"), number(7)), number(255))
    p.do("end", [assign(d("kind"), op("&", op("+", d("kind"), high), number(255)))])
    return p.json("answers.p4")
