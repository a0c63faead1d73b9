"""Programs for bmv2, written out as the JSON that its simple_switch reads.

What p4c would make of a program, for programs that are at hand as P4 beside it: a few lines for each header,
state, action and table, in bmv2's own terms.
"""

STANDARD = [
    ("ingress_port", 9), ("egress_spec", 9), ("egress_port", 9), ("clone_spec", 32), ("instance_type", 32),
    ("drop", 1), ("recirculate_port", 16), ("packet_length", 32), ("enq_timestamp", 32), ("enq_qdepth", 19),
    ("deq_timedelta", 32), ("deq_qdepth", 19), ("ingress_global_timestamp", 48), ("egress_global_timestamp", 48),
    ("lf_field_list", 32), ("mcast_grp", 16), ("resubmit_flag", 32), ("egress_rid", 16), ("checksum_error", 1),
    ("recirculate_flag", 32), ("_padding", 5),
]  # fmt: skip
ERRORS = ["NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout"]
ALIASES = ["ingress_global_timestamp", "egress_global_timestamp", "lf_field_list", "mcast_grp", "resubmit_flag"]
ALIASES += ["egress_rid", "recirculate_flag"]


def field(header, name):
    return {"type": "field", "value": [header, name]}


def number(value):
    return {"type": "hexstr", "value": hex(value)}


def argument(n):
    return {"type": "runtime_data", "value": n}


def valid(header):
    return op("d2b", None, field(header, "$valid$"))


def op(name, left, right):
    return {"type": "expression", "value": {"op": name, "left": left, "right": right}}


def assign(to, what):
    if what["type"] == "expression":
        what = {"type": "expression", "value": what}
    return {"op": "assign", "parameters": [to, what]}


def call(name, *parameters):
    return {"op": name, "parameters": list(parameters)}


def named(kind, name):
    return {"type": kind, "value": name}


PORT = field("standard_metadata", "egress_spec")
DROP = [call("mark_to_drop", {"type": "header", "value": "standard_metadata"}), call("exit")]


class Program:
    def __init__(self, scalars):
        self.types, self.headers, self.order = [], [], []
        self.states, self.vsets, self.actions, self.nodes = [], [], [], []
        self.tables, self.conditionals, self.profiles = [], [], []
        self.counters, self.meters, self.registers = [], [], []
        self.calculations, self.checksums, self.lists = [], [], []
        pad = -sum(w for _, w in scalars) % 8
        self.header("scalars", scalars + ([("_pad", pad)] if pad else []), True)
        self.header("standard_metadata", STANDARD, True)

    def header(self, name, fields, metadata=False):
        n = len(self.types)
        self.types.append({"name": f"{name}_t", "id": n, "fields": [[f, w, False] for f, w in fields]})
        self.headers.append({"name": name, "id": n, "header_type": f"{name}_t", "metadata": metadata, "pi_omit": True})
        if not metadata:
            self.order.append(name)

    def state(self, name, ops, keys, cases):
        """Cases: (value, next), (("vset", name), next) or (None, next); next None is accept."""
        ops = [{"op": "extract", "parameters": [named("regular", o)]} if isinstance(o, str) else o for o in ops]
        transitions = []
        for value, to in cases:
            kind = "default" if value is None else "parse_vset" if isinstance(value, tuple) else "hexstr"
            value = value[1] if isinstance(value, tuple) else value
            transitions.append({"type": kind, "value": value, "mask": None, "next_state": to})
        n = len(self.states)
        self.states.append({"name": name, "id": n, "parser_ops": ops, "transition_key": keys, "transitions": transitions})

    def vset(self, name, bits):
        self.vsets.append({"name": name, "id": len(self.vsets), "compressed_bitwidth": bits})

    def action(self, name, parameters, primitives):
        n = len(self.actions)
        data = [{"name": p, "bitwidth": w} for p, w in parameters]
        self.actions.append({"name": name, "id": n, "runtime_data": data, "primitives": primitives})

    def learn(self, name, fields):
        self.lists.append({"id": len(self.lists) + 1, "name": name, "elements": fields})

    def calculation(self, name, algorithm, fields):
        self.calculations.append({"name": name, "id": len(self.calculations), "algo": algorithm, "input": fields})

    def update_checksum(self, target, calculation, condition):
        n = len(self.checksums)
        self.checksums.append(
            {"name": f"cksum_{n}", "id": n, "target": target, "type": "generic", "calculation": calculation,
             "verify": False, "update": True, "if_cond": condition}
        )  # fmt: skip

    def profile(self, name, size, algorithm=None, fields=()):
        profile = {"name": name, "id": len(self.profiles), "max_size": size}
        if algorithm:
            profile["selector"] = {"algo": algorithm, "input": list(fields)}
        self.profiles.append(profile)

    def table(self, name, keys, actions, default=None, *, counter=None, meter=None, profile=None, timeout=False):
        """Keys: (kind, name, header, field). Tables run in the order in which they are made."""
        ids = [next(a["id"] for a in self.actions if a["name"] == action) for action in actions]
        kinds = [k[0] for k in keys]
        kind = next((k for k in ("range", "ternary", "lpm") if k in kinds), "exact")
        selector = profile and any(p["name"] == profile and "selector" in p for p in self.profiles)
        table = {
            "name": name, "id": len(self.tables), "match_type": kind, "max_size": 65536,
            "key": [{"match_type": k, "name": n, "target": [h, f], "mask": None} for k, n, h, f in keys],
            "type": "simple" if not profile else "indirect_ws" if selector else "indirect",
            "with_counters": counter is not None, "support_timeout": timeout, "direct_meters": meter and meter[0],
            "action_ids": ids, "actions": actions,
        }  # fmt: skip
        if profile:
            table["action_profile"] = profile
        if default is not None:
            id = ids[actions.index(default)]
            table["default_entry"] = {"action_id": id, "action_const": False, "action_data": [], "action_entry_const": False}
        if counter:
            self.counters.append({"name": counter, "id": len(self.counters), "is_direct": True, "binding": name})
        if meter:
            meter_name, unit, target = meter
            self.meters.append(
                {"name": meter_name, "id": len(self.meters), "is_direct": True, "rate_count": 2, "type": unit,
                 "size": 65536, "binding": name, "result_target": target}
            )  # fmt: skip
        self.tables.append(table)
        self.nodes.append(table)

    def do(self, name, primitives):
        """What stands between tables."""
        self.action(name, [], primitives)
        self.table(f"tbl_{name}", [], [name], name)

    def when(self, name, condition, skip, hit_of=None):
        """Goes on if the condition holds, else skips so many nodes."""
        node = {"name": name, "id": len(self.conditionals), "expression": condition, "skip": skip}
        self.conditionals.append(node)
        self.nodes.append(node)

    def json(self, name, on_miss=None):
        """`on_miss`: tables after whose miss as many nodes are skipped."""
        names = [n["name"] for n in self.nodes] + [None] * 8
        for at, node in enumerate(self.nodes):
            if "skip" in node:
                node["true_next"], node["false_next"] = names[at + 1], names[at + 1 + node.pop("skip")]
                continue
            node["base_default_next"] = names[at + 1]
            skip = (on_miss or {}).get(node["name"])
            if skip:
                node["next_tables"] = {"__HIT__": names[at + 1], "__MISS__": names[at + 1 + skip]}
            else:
                node["next_tables"] = {a: names[at + 1] for a in node["actions"]}
        empty = {"init_table": None, "tables": [], "action_profiles": [], "conditionals": []}
        ingress = {"init_table": names[0], "tables": self.tables, "action_profiles": self.profiles}
        aliases = [[f"intrinsic_metadata.{a}", ["standard_metadata", a]] for a in ALIASES]
        return {
            "program": name, "__meta__": {"version": [2, 18], "compiler": "by hand"},
            "header_types": self.types, "headers": self.headers, "header_stacks": [], "header_union_types": [],
            "header_unions": [], "header_union_stacks": [], "field_lists": [], "enums": [],
            "errors": [[e, n + 1] for n, e in enumerate(ERRORS)],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": self.states}],
            "parse_vsets": self.vsets, "deparsers": [{"name": "deparser", "id": 0, "order": self.order}],
            "meter_arrays": self.meters, "counter_arrays": self.counters, "register_arrays": self.registers,
            "calculations": self.calculations, "learn_lists": self.lists, "actions": self.actions,
            "pipelines": [
                {"name": "ingress", "id": 0, **ingress, "conditionals": self.conditionals},
                {"name": "egress", "id": 1, **empty},
            ],
            "checksums": self.checksums, "force_arith": [], "extern_instances": [], "field_aliases": aliases,
        }  # fmt: skip
