"""What lab/gnmi asks of pygnmi: reads TLS PINGS | sets TLS | errors TLS | stranger | follows TLS | names "" PORT NAME..."""
import sys
import time

from pygnmi.client import gNMIclient, gNMIException

BELOW = "/interfaces/interface"
STATUS = BELOW + "/state/oper-status"


def client(tls="", port=9339):
    if not tls:
        return gNMIclient(target=("127.0.0.1", port), insecure=True)
    return gNMIclient(
        target=("127.0.0.1", port),
        path_root=f"{tls}/ca.crt",
        path_cert=f"{tls}/client.crt",
        path_key=f"{tls}/client.key",
        override="switch",
    )


def values(answer):
    return {update["path"]: update["val"] for n in answer["notification"] for update in n.get("update", [])}


def subscription(path, mode, **more):
    return {"path": path, "mode": mode, **more}


def told(messages):
    """Path and value of each update up to the sync, by pygnmi's dictionaries."""
    out = {}
    for message in messages:
        if "sync_response" in message:
            return out
        out.update({u["path"]: u["val"] for u in message["update"]["update"]})
    raise AssertionError("there was no sync")


def reads(tls, pings):
    with client(tls) as c:
        there = c.capabilities()
        assert [m["name"] for m in there["supported_models"]][0] == "openconfig-interfaces", there
        assert set(there["supported_encodings"]) == {"json", "json_ietf", "proto"}, there
        got = values(c.get(path=[BELOW + "/state"], encoding="proto"))
        of = "interfaces/interface[name=p1]/state/"
        assert got[of + "oper-status"] == "UP" and got[of + "id"] == 1, got
        assert got[of + "hardware-port"] == "af_packet:p1", got
        assert got[of + "counters/in-pkts"] >= int(pings), got
        assert abs(time.time() - got[of + "last-change"] / 1e9) < 600, got
        tree = values(c.get(path=["/"], datatype="config", encoding="json_ietf"))
        (whole,) = tree.values()
        names = [i["config"]["name"] for i in whole["openconfig-interfaces:interfaces"]["interface"]]
        assert names == ["p1", "p2"], whole
        one = values(c.get(prefix="/interfaces", path=["interface[name=p2]/state/counters"], encoding="json"))
        (counters,) = one.values()
        assert counters["out-pkts"] >= int(pings), counters
        by_origin = values(c.get(path=["openconfig-interfaces:interfaces/interface[name=p2]/config"]))
        assert list(by_origin.values()) == [{"enabled": True, "name": "p2"}], by_origin
        once = {"subscription": [subscription(STATUS, "target_defined")], "mode": "once", "encoding": "proto"}
        got = told(c.subscribe2(once))
        assert list(got.values()) == ["UP", "UP"], got
        octets = subscription(BELOW + "[name=p1]/state/counters/in-octets", "sample", sample_interval=50_000_000)
        samples = 0
        for message in c.subscribe2({"subscription": [octets], "mode": "stream", "encoding": "proto"}):
            samples += "update" in message
            if samples == 5:
                break
        poll = c.subscribe_poll({"subscription": [subscription(STATUS, "on_change")], "mode": "poll", "encoding": "proto"})
        polled = [poll.get_update(timeout=10) for _ in range(2)]
        assert all(polled), polled
        poll.close()
    print(f"  {len(got)} interfaces read in three encodings, once, by samples and by polls")


def sets(tls):
    enabled = BELOW + "[name=p1]/config/enabled"
    with client(tls) as c:
        status = lambda: values(c.get(path=[BELOW + "[name=p1]/state"], encoding="json"))
        one = lambda: next(iter(status().values()))
        done = c.set(update=[(BELOW + "[name=p1]/config", {"enabled": False})], encoding="json_ietf")
        assert done["response"][0]["op"] == "UPDATE", done
        assert (one()["oper-status"], one()["admin-status"], one()["enabled"]) == ("DOWN", "DOWN", False), one()
        before = one()["counters"]["interface-transitions"]
        done = c.set(delete=[enabled])
        assert done["response"][0]["op"] == "DELETE", done
        until = time.time() + 20
        while one()["oper-status"] != "UP":
            assert time.time() < until, one()
            time.sleep(0.05)
        assert one()["counters"]["interface-transitions"] == before + 1, one()
        c.set(replace=[(BELOW + "[name=p1]/config", {"name": "p1", "enabled": True})])
    print("  p1 was put down and up")


def refused(f, *parts):
    try:
        f()
    except gNMIException as error:
        assert all(part in str(error) for part in parts), (parts, str(error))
        return str(error)
    raise AssertionError(f"not refused: {parts}")


def errors(tls):
    with client(tls) as c:
        text = refused(lambda: c.get(path=[BELOW + "[name=p9]/state"]), "no interface", "p1, p2")
        refused(lambda: c.get(path=["/interfaces/interface/state/mtu"]), "path element 4, mtu", "oper-status")
        refused(lambda: c.get(path=[BELOW + "[id=1]"]), "`name`, not `id`")
        refused(lambda: c.set(update=[(BELOW + "[name=p1]/config", {"enabled": "no"})]), "true or false")
        refused(lambda: c.set(update=[(BELOW + "[name=p1]/state", {"id": 7})]), "is state")
        both = [(BELOW + "[name=p1]/config", {"enabled": False}), (BELOW + "[name=p9]/config", {"enabled": False})]
        refused(lambda: c.set(update=both), "update 1", "p9")
        assert next(iter(values(c.get(path=[BELOW + "[name=p1]/config"])).values()))["enabled"] is True
    print("  refused as it should:", text.split("Error: ")[-1])


def stranger():
    gNMIclient(target=("127.0.0.1", 9339), insecure=True, gnmi_timeout=2).connect().capabilities()


def follows(tls):
    with client(tls) as c:
        asked = {"subscription": [subscription(STATUS, "on_change")], "mode": "stream", "encoding": "proto"}
        was_down = False
        for message in c.subscribe2(asked):
            if "sync_response" in message:
                print("sync", flush=True)
                continue
            for update in message["update"]["update"]:
                name = update["path"].split("name=")[1].split("]")[0]
                print(name, update["val"], flush=True)
                was_down |= (name, update["val"]) == ("p2", "DOWN")
                if was_down and (name, update["val"]) == ("p2", "UP"):
                    return


def names(tls, port, *wanted):
    with client(tls, int(port)) as c:
        got = values(c.get(path=[BELOW + "/name"], encoding="proto"))
        assert tuple(got.values()) == wanted, got
    print("  interfaces:", *wanted)


{"reads": reads, "sets": sets, "errors": errors, "stranger": stranger, "follows": follows, "names": names}[sys.argv[1]](*sys.argv[2:])
