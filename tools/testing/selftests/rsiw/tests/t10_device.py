# SPDX-License-Identifier: GPL-2.0
"""The device as the tools see it."""

import json
import re
import time

from rsiwtest.core import Fail, test
from rsiwtest.groups import Group
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.tools import Perftest, perftest
from rsiwtest.topo import IF_A, NS_A, objects, sh, status


@test("devinfo", cost=2)
def devinfo(t):
    """ibv_devices and ibv_devinfo show the devices as iWARP.

    L-CORE-2, L-CORE-18
    """
    out = t.run("ibv_devices")
    for dev in (t.topo.dev_a, t.topo.dev_b, t.topo.dev_lo):
        if dev not in out:
            raise Fail("ibv_devices does not list %s:\n%s" % (dev, out))
    out = t.run("ibv_devinfo", "-v", "-d", t.topo.dev_a)
    for want in ("PORT_ACTIVE", "iWARP", "phys_port_cnt", "GID["):
        if want not in out:
            raise Fail("ibv_devinfo -v does not say %s:\n%s" % (want, out))
    if t.type == "rsiw":
        version(t, out)
        with t.library("rsiw"):
            version(t, t.run("ibv_devinfo", "-v", "-d", t.topo.dev_a))


def version(t, devinfo):
    """The firmware of the device is the module, in its version."""
    with open("/sys/module/rsiw/version") as f:
        wanted = f.read().strip()
    with open("/sys/class/infiniband/%s/fw_ver" % t.topo.dev_a) as f:
        found = f.read().strip()
    if not re.fullmatch(r"\d+\.\d+", wanted) or found != wanted:
        raise Fail("fw_ver is %s, the module %s" % (found, wanted))
    if not re.search(r"fw_ver:\s+%s\.0$" % re.escape(wanted), devinfo, re.M):
        raise Fail("not %s:\n%s" % (wanted, devinfo))


def of_process(kind, pid):
    """What `rdma resource show` tells of a process's objects."""
    return [o for o in objects(kind) if o.get("pid") == pid]


def used(t, pid):
    """A connected program's objects are shown as they are."""
    wait_until("a QP is in RTS", 10, lambda: any(
        q["state"] == "RTS" for q in of_process("qp", pid)))
    qp = of_process("qp", pid)[0]
    if not 0 < qp["lqpn"] < 1 << 24 or qp["type"] != "RC":
        raise Fail("QP: %s" % qp)
    if not any(cm.get("state") == "CONNECT" and cm.get("lqpn") == qp["lqpn"]
               for cm in of_process("cm_id", pid)):
        raise Fail("cm_id: %s" % of_process("cm_id", pid))
    for kind, key in (("cq", "cqe"), ("mr", "mrlen"), ("pd", "users")):
        found = of_process(kind, pid)
        if not found or not all(o[key] for o in found):
            raise Fail("%s: %s" % (kind, found))


@test("rdma-tool", cost=2)
def rdma_tool(t):
    """rdma dev, link, resource and system answer and tell the truth.

    L-CORE-17
    """
    links = {link["ifname"]: link
             for link in json.loads(sh("rdma", "-j", "link", netns=NS_A))}
    mine = links.get(t.topo.dev_a, {})
    if mine.get("netdev") != IF_A or mine.get("state") != "ACTIVE" or \
            mine.get("physical_state") != "LINK_UP":
        raise Fail("rdma link: %s" % mine)
    devs = {d["ifname"]: d for d in json.loads(sh("rdma", "-j", "dev"))}
    if devs[t.topo.dev_a].get("node_type") not in ("rnic", "4"):
        raise Fail("rdma dev: %s" % devs[t.topo.dev_a])
    sh("rdma", "system")
    sh("rdma", "resource")
    port = t.port()
    server = t.start("rping", "-s", "-a", t.topo.wire.addr4, "-p", port,
                     netns=NS_A)
    server.wait_listening(port)
    cms = objects("cm_id")
    if not any(c.get("state") == "LISTEN" and c.get("pid") == server.pid
               for c in cms):
        raise Fail("rdma resource shows no listening cm_id: %s" % cms)
    client = t.start("rping", "-c", "-a", t.topo.wire.addr4, "-p", port, "-C",
                     1000000, netns=t.topo.wire.client_ns)
    used(t, client.pid)


@test("link-add-del", cost=6)
def link_add_del(t):
    """Devices come and go; what cannot be is refused (V-RNIC-2)."""
    sh("ip", "link", "add", "rsdum", "type", "dummy")
    try:
        sh("ip", "link", "set", "rsdum", "up")
        for i in range(20):
            name = "%s_x%d" % (t.type, i)
            t.topo.add_link(name, "rsdum")
            if name not in t.topo.links():
                raise Fail("%s is not there" % name)
            sh("rdma", "link", "del", name)
        rv, out = status("rdma", "link", "add", t.topo.dev_lo, "type", t.type,
                         "netdev", "rsdum")
        if not rv:
            raise Fail("a name was given twice")
        rv, out = status("rdma", "link", "add", t.type + "_y", "type", t.type,
                         "netdev", "nosuchdev")
        if not rv:
            raise Fail("a device without an interface")
        # Removal of the interface removes the device.
        t.topo.add_link(t.type + "_z", "rsdum")
        rv, out = status("rdma", "link", "add", t.type + "_w", "type", t.type,
                         "netdev", "rsdum")
        if not rv or "File exists" not in out:
            raise Fail("a second device of one interface: %s" % out.strip())
        sh("ip", "link", "del", "rsdum")
        wait_until("the device to go with its interface", 10,
                   lambda: t.type + "_z" not in t.topo.links())
    finally:
        status("ip", "link", "del", "rsdum")


@test("limits", cost=5)
def limits(t):
    """Queues of all sizes; queries that tell the truth.

    V-CQ-1, V-CQ-9, V-QP-2, V-QP-6, V-QP-11, V-RNIC-7, V-RNIC-8, V-RNIC-10,
    V-RNIC-13
    """
    t.own("limits", t.topo.wire, "--mtu", 1500)


@test("negative", cost=4)
def negative(t):
    """What iWARP, or the stock library, cannot do ends in a clean error (verbs)."""
    with t.library("stock"):
        t.own("negative", t.topo.loopback)


@test("memory-cgroup", cost=5)
def memory_cgroup(t):
    """Rings count for the memory cgroup of the process (S-5042-10)."""
    depth = 4096
    with Group("rsiw", "memory") as group:
        pair = Perftest(t, t.topo.wire, "ib_write_bw", "-D", "30", "-t", depth, group=group)
        pair.connect()
        # Entries of the send queue have 120 octets.
        want, most = depth * 120, 0
        while most < want:
            pair.ensure_running()
            t.left()
            time.sleep(0.1)
            most = max(most, group.stat("vmalloc"))
        pair.client.reap()
        pair.server.reap()
        wait_until(lambda: "nothing of %d octets stays charged" % group.stat("vmalloc"),
                   10, lambda: not group.stat("vmalloc"))


KUNIT = "/sys/kernel/debug/kunit"


@test("workqueue", cost=3, only_type="rsiw")
def workqueue(t):
    """The priority of the work items that send can be looked at and changed."""
    for name, want in ((t.env.module, "-20"), (t.env.module + "-post", "0")):
        path = "/sys/devices/virtual/workqueue/%s/nice" % name
        usual = LOCAL.read(path).strip()
        if usual != want:
            raise Fail("nice of %s is %s" % (name, usual))
        try:
            LOCAL.write(path, "5")
            perftest(t, t.topo.wire, "ib_write_bw", 65536, 200)
            if LOCAL.read(path).strip() != "5":
                raise Fail("nice of %s is not what was written" % name)
        finally:
            LOCAL.write(path, usual)


@test("kunit", cost=1, only_type="rsiw", where=KUNIT)
def kunit(t):
    """The driver's KUnit suites, which ran when it was loaded."""
    suites = [s for s in LOCAL.listdir(KUNIT) if s.startswith("rsiw_")]
    if not suites:
        raise Fail("the driver has none")
    for suite in suites:
        results = LOCAL.read("%s/%s/results" % (KUNIT, suite))
        cases = re.findall(r"^    (not )?ok \d+ (\S+)", results, re.M)
        if not cases or not re.search(r"^ok ", results, re.M):
            raise Fail("%s:\n%s" % (suite, results))
        for bad, name in cases:
            t.subtests.append(("%s.%s" % (suite, name), not bad, results))
