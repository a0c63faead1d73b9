"""Feeds p4runtime-shell with what a user types, and says which cases it came through.

    p4runtime_shell_cases.py PYTHON ADDRESS P4INFO PROGRAM

A case is a list of lines, typed at the shell's prompt one after the other; its last line asserts. The shell runs unmodified,
`python -m p4runtime_sh`, in a namespace with both ends of the switch's cables, so that lines may send and receive frames.
"""
import re
import subprocess
import sys

# A module that is imported first: frames of the program's kind, out of the far end of port 1 and in at that of port 2.
HELPERS = r'''
import socket, time
from p4.v1 import p4runtime_pb2
far = {n: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88b5)) for n in (1, 2)}
_ = [s.bind((f"e{n}", 0x88b5)) for n, s in far.items()]
_ = [s.settimeout(5) for s in far.values()]
frame = lambda kind, a=0, b=0, c=0: bytes.fromhex("020000000002" "020000000001" "88b5") + bytes([kind, a]) + b.to_bytes(2, "big") + c.to_bytes(4, "big") + bytes(38)
send = lambda *args: far[1].send(frame(*args))
seen = lambda n: far[n].recv(2000)[14:22]
got = lambda n, *args: (send(*args), seen(n) == frame(*args)[14:22])[1]
def code(f):
    try: f()
    except Exception as error: return str(error)
    return "done"

'''

CASES = [
    ("APIVersion", ["assert APIVersion() == '1.5.0', APIVersion()"]),
    ("tables, actions and their info", [
        "names = sorted(t.name for t in tables)", "tables['I.exactly'].info()", "str(tables['I.exactly'])",
        "assert names == ['I.exactly', 'I.fixed', 'I.longest', 'I.many', 'I.profiled', 'I.selected'], names",
    ]),
    ("counters, direct_counters, meters, direct_meters", [
        "assert sorted(c.name for c in counters) == ['I.cells', 'I.packets_only']",
        "assert [c.name for c in direct_counters] == ['I.exact_count'] and [m.name for m in direct_meters] == ['I.lpm_meter']",
        "assert [m.name for m in meters] == ['I.meters']",
    ]),
    ("action_profiles, digests, controller_packet_metadata, registers", [
        "assert sorted(c.name for c in action_profiles) == ['I.profile', 'I.selector'], [c.name for c in action_profiles]",
        "assert sorted(c.name for c in controller_packet_metadata) == ['packet_in', 'packet_out'], [c.name for c in controller_packet_metadata]",
        "assert len(list(digests)) == 1, list(digests)",
    ]),
    ("p4info", ["assert len(p4info.tables) == 6 and len(p4info.registers) == 1 and len(p4info.value_sets) == 1"]),
    ("TableEntry insert, exact", [
        "te = table_entry['I.exactly'](action='I.send')", "te.match['h.d.kind'] = '1'", "te.match['h.d.a'] = '1'",
        "te.action['port'] = '2'", "te.insert", "assert got(2, 1, 1)",
    ]),
    ("TableEntry read", [
        "read = list(table_entry['I.exactly']().read())",
        "assert len(read) == 1 and read[0].action['port'].value == b'\\x02', read",
        "table_entry['I.exactly']().read(lambda e: print(e))", "assert len(list(TableEntry('I.exactly').read())) == 1",
    ]),
    ("TableEntry read of one entry", ["assert len(list(te.read())) == 1"]),
    ("TableEntry insert twice", ["assert 'ALREADY_EXISTS' in code(te.insert)"]),
    ("TableEntry modify", ["te.action['port'] = '1'", "te.modify", "assert got(1, 1, 1)", "te.action['port'] = '2'", "te.modify()"]),
    ("TableEntry delete", ["te.delete()", "assert list(te.read()) == [] and 'NOT_FOUND' in code(te.delete)"]),
    ("TableEntry lpm", [
        "le = table_entry['I.longest'](action='metered')", "le.match['h.d.c'] = '10.0.0.0/8'", "le.action['port'] = '2'", "le.insert()",
        "assert got(2, 2, 0, 0, 0x0a010203)",
    ]),
    ("TableEntry ternary, range, optional, with a priority", [
        "me = table_entry['I.many'](action='send')", "me.match['h.d.a'] = '0x10&&&0xf0'", "me.match['h.d.b'] = '5..9'",
        "me.match['h.d.c'] = '7'", "me.priority = 10", "me.action['port'] = '2'", "me.insert()",
        "assert got(2, 3, 0x1f, 9, 7) and list(me.read())[0].priority == 10",
        "me.delete()", "me.match.clear()", "me.insert()", "assert got(2, 3, 1, 2, 3)", "me.delete()",
    ]),
    ("TableEntry without a priority", ["me.priority = 0", "assert 'INVALID_ARGUMENT' in code(me.insert)"]),
    ("TableEntry metadata", [
        "te.metadata = b'abc'", "te.insert()", "assert list(te.read())[0].metadata == b'abc'", "te.delete()", "te.metadata = b''",
    ]),
    ("TableEntry default action", [
        "de = table_entry['I.exactly'](action='I.send', is_default=True)", "de.action['port'] = '2'", "de.modify()",
        "assert got(2, 1, 99)", "de.clear_action()", "de.modify()",
        "assert list(table_entry['I.exactly'](is_default=True).read())[0].action.action_name == 'NoAction'",
    ]),
    ("TableEntry const entries", [
        "assert len(list(table_entry['I.fixed']().read())) == 1", "fe = table_entry['I.fixed'](action='send')", "fe.match['h.d.a'] = '2'",
        "fe.action['port'] = '1'", "assert 'PERMISSION_DENIED' in code(fe.insert), code(fe.insert)",
    ]),
    ("TableEntry idle_timeout_ns and time_since_last_hit", [
        "te.idle_timeout_ns = 300000000", "te.insert()", "assert list(te.read())[0].idle_timeout_ns == 300000000",
        "te.time_since_last_hit.elapsed_ns = 0", "assert list(te.read())[0].time_since_last_hit.elapsed_ns > 0",
    ]),
    ("idle_timeout_notification.sniff", [
        "told = list(idle_timeout_notification.sniff(timeout=2))",
        "assert told and told[0].idle_timeout_notification.table_entry[0].table_id == te.id, told",
        "te.delete()", "te.clear_time_since_last_hit()", "te.idle_timeout_ns = 0",
    ]),
    ("TableEntry counter_data", [
        "te.insert()", "assert got(2, 1, 1)", "te.counter_data", "data = [e.counter_data for e in te.read()]",
        "assert data[0].packet_count == 1 and data[0].byte_count > 0, data", "te.clear_counter_data()",
    ]),
    ("DirectCounterEntry read and modify", [
        "dc = direct_counter_entry['I.exact_count']", "dc.table_entry = te", "assert [c.packet_count for c in dc.read()] == [1]",
        "dc.packet_count = 40", "dc.byte_count = 4000", "dc.modify()", "assert [(c.packet_count, c.byte_count) for c in dc.read()] == [(40, 4000)]",
        "assert got(2, 1, 1) and [c.packet_count for c in dc.read()] == [41]", "te.delete()",
    ]),
    ("CounterEntry read and modify", [
        "se = table_entry['I.exactly'](action='state_')", "se.match['h.d.kind'] = '1'", "se.match['h.d.a'] = '3'", "se.insert()",
        "assert got(2, 1, 3, 0, 77)", "ce = counter_entry['I.cells']", "ce.index = 3", "assert [c.packet_count for c in ce.read()] == [1]",
        "ce.packet_count = 9", "ce.byte_count = 90", "ce.modify()", "assert [(c.packet_count, c.byte_count) for c in ce.read()] == [(9, 90)]",
        "ce.clear_data()",
    ]),
    ("CounterEntry of all cells", [
        "all = list(CounterEntry('I.cells').read())", "assert [c.index for c in all] == list(range(8)), all",
        "po = counter_entry['I.packets_only']", "po.index = 1", "po.packet_count = 5", "po.modify()", "assert [c.packet_count for c in po.read()] == [5]",
    ]),
    ("MeterEntry read, modify and reset", [
        "ma = meter_entry['I.meters']", "ma.index = 3", "ma.cir = 1000", "ma.cburst = 100", "ma.pir = 2000", "ma.pburst = 200", "ma.modify()",
        "assert [(m.cir, m.cburst, m.pir, m.pburst) for m in ma.read()] == [(1000, 100, 2000, 200)]", "ma.clear_config()", "ma.modify()",
        "assert len(list(MeterEntry('I.meters').read())) == 8",
    ]),
    ("DirectMeterEntry read and modify", [
        "dm = direct_meter_entry['I.lpm_meter']", "dm.table_entry = le", "dm.cir, dm.cburst, dm.pir, dm.pburst = 10, 1, 20, 2", "dm.modify()",
        "assert [(m.cir, m.cburst, m.pir, m.pburst) for m in dm.read()] == [(10, 1, 20, 2)]", "dm.clear_config()", "dm.modify()",
    ]),
    ("TableEntry meter_config", [
        "le.meter_config.cir, le.meter_config.cburst, le.meter_config.pir, le.meter_config.pburst = 1, 2, 3, 4", "le.modify()",
        "assert [e.meter_config.pburst for e in le.read()] == [4]", "le.clear_meter_config()", "le.modify()", "le.delete()",
        "assert list(table_entry['I.longest']().read()) == []",
    ]),
    ("ActionProfileMember", [
        "m1 = action_profile_member['profile'](member_id=1, action='send')", "m1.action['port'] = '1'", "m1.insert()",
        "m1.action['port'] = '2'", "m1.modify()", "read = list(m1.read())", "assert read[0].action['port'].value == b'\\x02', read",
        "pe = table_entry['I.profiled'](member_id=1)", "pe.match['h.d.a'] = '1'", "pe.insert()", "assert got(2, 4, 1)",
        "assert [e.member_id for e in pe.read()] == [1] and 'FAILED_PRECONDITION' in code(m1.delete), code(m1.delete)",
        "pe.delete()", "m1.delete()", "assert list(m1.read()) == []",
    ]),
    ("ActionProfileGroup and GroupMember", [
        "s1 = action_profile_member['selector'](member_id=1, action='send')", "s1.action['port'] = '2'", "s1.insert()",
        "s2 = ActionProfileMember('selector')(member_id=2, action='send')", "s2.action['port'] = '2'", "s2.insert()",
        "g = action_profile_group['selector'](group_id=1, max_size=4)", "g.add(1, weight=2)", "g.insert()", "g.add(2)", "g.modify()",
        "read = list(g.read())", "assert [(m.member_id, m.weight) for m in read[0].members] == [(1, 2), (2, 1)], read",
        "ge = table_entry['I.selected'](group_id=1)", "ge.match['h.d.a'] = '1'", "ge.insert()", "assert got(2, 5, 1, 0, 5) and [e.group_id for e in ge.read()] == [1]",
        "g.clear()", "gm = GroupMember(2, 3)", "gm.member_id, gm.weight", "ge.delete()", "g.delete()", "s1.delete()", "s2.delete()", "assert list(g.read()) == []",
    ]),
    ("Oneshot", [
        "oe = table_entry['I.selected'](oneshot=Oneshot('I.selected'))", "oe.match['h.d.a'] = '2'", "a = Action('send')", "a['port'] = '2'",
        "oe.oneshot.add(a, weight=2)", "oe.oneshot.add(a)", "oe.insert()",
        "assert got(2, 5, 2, 0, 9) and [o.weight for o in list(oe.read())[0].oneshot.actions] == [2, 1]", "oe.delete()",
    ]),
    ("MulticastGroupEntry and Replica", [
        "mg = multicast_group_entry(5)", "mg.add(1, 1).add(2, 1)", "mg.insert()", "mg.modify()", "Replica(1, 2)",
        "assert [(r.egress_port, r.instance) for r in list(MulticastGroupEntry(5).read())[0].replicas] == [(1, 1), (2, 1)]",
        "fl = table_entry['I.exactly'](action='flood')", "fl.match['h.d.kind'], fl.match['h.d.a'], fl.action['group'] = '1', '5', '5'", "fl.insert()",
        "send(1, 5)", "assert seen(1) == seen(2) == frame(1, 5)[14:22]", "fl.delete()", "mg.delete()", "assert list(MulticastGroupEntry(5).read()) == []",
    ]),
    ("MulticastGroupEntry of all groups", [
        "assert 'done' == code(multicast_group_entry(6).add(1, 1).insert)", "assert [g.group_id for g in MulticastGroupEntry().read()] == [6]",
        "multicast_group_entry(6).delete()",
    ]),
    ("CloneSessionEntry", [
        "cs = clone_session_entry(7)", "cs.add(1, 1)", "cs.insert()", "mi = table_entry['I.exactly'](action='mirror')",
        "mi.match['h.d.kind'], mi.match['h.d.a'], mi.action['session'] = '1', '7', '7'", "mi.insert()", "send(1, 7)",
        "assert seen(1) == seen(2) == frame(1, 7)[14:22]", "cs.modify()", "assert [r.egress_port for r in list(CloneSessionEntry(7).read())[0].replicas] == [1]",
        "mi.delete()", "cs.delete()", "assert list(CloneSessionEntry(7).read()) == []",
    ]),
    ("CloneSessionEntry with packet_length_bytes", [
        "ct = clone_session_entry(8)", "ct.packet_length_bytes = 20", "ct.add(1, 1)", "ct.insert()", "assert list(CloneSessionEntry(8).read())[0].packet_length_bytes == 20",
        "ct.delete()",
    ]),
    ("CloneSessionEntry with cos", ["cc = clone_session_entry(9)", "cc.cos = 1", "cc.add(1, 1)", "cc.insert()", "assert list(CloneSessionEntry(9).read())[0].cos == 1", "cc.delete()"]),
    ("packet_in.sniff", [
        "cpu = table_entry['I.exactly'](action='to_cpu')", "cpu.match['h.d.kind'], cpu.match['h.d.a'] = '1', '8'", "cpu.insert()", "send(1, 8)",
        "packets = list(packet_in.sniff(timeout=1))", "assert len(packets) == 1 and packets[0].packet.payload == frame(1, 8), packets",
        "assert [m.value for m in packets[0].packet.metadata] == [b'\\x01', b'\\x00'], packets", "cpu.delete()",
    ]),
    ("packet_out", [
        "po = packet_out()", "po.payload = frame(9, 9)", "po.metadata['egress_port'] = '2'", "po.metadata['_pad'] = '0'", "po.send()",
        "assert seen(2) == frame(9, 9)[14:22]",
    ]),
    ("DigestEntry", [
        "name = [d.name for d in digests][0]", "di = digest_entry[name]", "di.max_list_size, di.max_timeout_ns, di.ack_timeout_ns = 4, 50000000, 1000000000",
        "di.insert()", "assert list(di.read())[0].max_list_size == 4", "di.modify()",
    ]),
    ("digest_list.sniff", [
        "ln = table_entry['I.exactly'](action='learn')", "ln.match['h.d.kind'], ln.match['h.d.a'] = '1', '9'", "ln.insert()", "send(1, 9)",
        "lists = list(digest_list.sniff(timeout=1))", "assert lists and len(lists[0].digest.data) == 1, lists",
        "assert lists[0].digest.data[0].struct.members[1].bitstring == b'\\x01'", "ln.delete()", "di.delete()", "assert list(di.read()) == []",
    ]),
    ("Write of a file, with a register", [
        "reg = p4info.registers[0].preamble.id",
        "_ = open('write.txt', 'w').write(f'updates {{ type: MODIFY entity {{ register_entry {{ register_id: {reg} index {{ index: 2 }} data {{ bitstring: \"\\\\x01\\\\x02\" }} }} }} }}')",
        "assert code(lambda: Write('write.txt')) == 'done', code(lambda: Write('write.txt'))",
        "import p4runtime_sh.shell as inner", "req = p4runtime_pb2.ReadRequest(device_id=1)", "req.entities.add().register_entry.register_id = reg",
        "cells = [e.register_entry.data.bitstring for r in inner.client.stub.Read(req) for e in r.entities]",
        "assert cells[2] == b'\\x01\\x02' and cells[3] == b'M', cells",
    ]),
    ("Write of a file that is wrong", [
        "_ = open('wrong.txt', 'w').write('updates { type: INSERT entity { table_entry { table_id: 1 } } }')",
        "assert 'NOT_FOUND' in code(lambda: Write('wrong.txt')), code(lambda: Write('wrong.txt'))",
        "assert 'not a file' in code(lambda: Write('none.txt'))",
    ]),
    ("Write of a value set", [
        "vs = p4info.value_sets[0].preamble.id",
        "_ = open('set.txt', 'w').write(f'updates {{ type: MODIFY entity {{ value_set_entry {{ value_set_id: {vs} members {{ match {{ field_id: 1 exact {{ value: \"\\\\x05\" }} }} }} }} }} }}')",
        "assert code(lambda: Write('set.txt')) == 'done', code(lambda: Write('set.txt'))",
    ]),
    ("global_options", [
        "global_options['canonical_bytestrings'] = False", "te.action['port'] = '2'", "te.insert()", "assert list(te.read())[0].action['port'].value == b'\\x02'",
        "te.delete()", "global_options.reset()", "assert global_options['canonical_bytestrings'] is True",
    ]),
    ("a table that is full", [
        "le.match.clear()", "e = lambda n: (le.match.__setitem__('h.d.c', f'10.1.{n // 256}.{n % 256}/32'), le.insert())",
        "full = [code(lambda: e(n)) for n in range(1026)]", "assert full[1023] == 'done' and 'RESOURCE_EXHAUSTED' in full[1024], full[1023:]",
        "_ = [x.delete() for x in list(table_entry['I.longest']().read())]", "assert list(table_entry['I.longest']().read()) == []",
    ]),
]


def main():
    python, address, p4info, program = sys.argv[1:]
    with open("helpers.py", "w", encoding="utf-8") as out:
        out.write(HELPERS)
    lines = ["from helpers import *"]
    for number, (_, typed) in enumerate(CASES):
        lines.append(f"print('@@begin {number}', flush=True)")
        # A line that fails is told, and the case with it.
        lines.extend(typed)
        lines.append(f"print('@@end {number}', flush=True)")
    lines.append("exit()")
    shell = subprocess.run(
        [python, "-W", "ignore", "-m", "p4runtime_sh", "--grpc-addr", address, "--election-id", "0,1", "--config", f"{p4info},{program}"],
        input="\n".join(lines) + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )
    with open("shell.out", "w", encoding="utf-8") as out:
        out.write(shell.stdout)
    passed = 0
    for number, (name, _) in enumerate(CASES):
        _, _, rest = shell.stdout.partition(f"@@begin {number}\n")
        said, ended, _ = rest.partition(f"@@end {number}\n")
        errors = [line for line in said.splitlines() if "Error" in line and not line.lstrip().startswith(("File", "raise", "->"))]
        if ended and "Traceback" not in said and not errors:
            passed += 1
            continue
        errors = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in errors]
        causes = [line.strip() for line in said.splitlines() if line.lstrip().startswith("* At index")]
        why = next(iter(causes), None) or next((line.strip() for line in errors if ": " in line), None) or (errors or ["the shell ended"])[-1].strip()
        print(f"FAIL {name}: {why[:300]}")
    print(f"{passed} of {len(CASES)}")
    sys.exit(passed != len(CASES))


main()
