#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The list of rsiw-tricks.rst is the whole list.

What ffi/ looks at, or sets, in structures of other parts of the kernel is either an ordinary use,
by the table here, or has a name in that list; so have the calls and flags that are tricks. What
the list says is in a file, is there. Run at the top of the checkout.
"""

import glob
import os
import re
import sys

from source import main

DRIVER = "drivers/infiniband/sw/rsiw"
LIST = "Documentation/infiniband/rsiw-tricks.rst"
NOISE = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|^\s*#\s*include[^\n]*', re.S | re.M)

# Fields that whoever uses these structures looks at or sets, as the header that declares them says,
# as others in many drivers do, or because the structure is ours.
ORDINARY = {
    "messages and lists of memory": "cmsg_len cmsg_level cmsg_type iov_len msg_control "
                                    "msg_controllen msg_namelen msg_iter frags nr_frags data len "
                                    "is_iomem vaddr",
    "addresses of sockets, and of what they send": "ss_family sin_addr sin6_addr sin6_scope_id "
                                                   "ipi_ifindex ipi_spec_dst ipi6_addr "
                                                   "ipi6_ifindex",
    "sockets: what they are, under the locks that are for it":
        "sk sk_family sk_state sk_shutdown sk_socket sk_callback_lock sk_rcv_saddr "
        "sk_v6_rcv_saddr sk_bound_dev_if sk_data_ready sk_error_report sk_state_change "
        "sk_write_space ops net_cookie",
    "what TCP tells everybody (TCP_INFO)":
        "tcpi_last_ack_recv tcpi_unacked tcpi_notsent_bytes",
    # netif_is_vxlan() compares the kind.
    "interfaces": "ifindex mtu max_mtu addr_len dev_addr flags name reg_state rtnl_link_ops kind",
    # As the core does for RoCE (roce_gid_mgmt.c).
    "addresses of interfaces": "ifa_local addr_list ifa_dev idev",
    "files, buffers, areas": "file f_mode size dmabuf dev vm_start vm_end",
    "callbacks of tcp_read_sock()": "arg count",
    "objects of the RDMA core, as its drivers use them":
        "device pd qp gid sgt cqe cq_context comp_handler event_handler uobject qp_num qp_type counter stats "
        "id index list inlen outlen value driver_udata attr",
    "identifiers of iw_cm, as its drivers use them":
        "provider_data add_ref rem_ref local_addr remote_addr m_remote_addr tos",
    "ours": "handle inner object filler memory rcu mem node min max words number",
    "the thread itself": "mm nr_cpus_allowed",
    "memory cgroups, whose references are counted there": "css",
}
# Functions that begin as the kernel's own do, and are offered to everybody all the same.
OFFERED = set("__alloc_percpu __ffs64 __vmalloc __xa_insert __xa_erase __set_current_state "
              "___ratelimit __ethtool_get_link_ksettings __rcu_assign_sk_user_data_with_flags "
              "__locked_read_sk_user_data_with_flags __aligned __alignof__ __ATTR __stringify "
              "__MODULE_PARM_TYPE __sysfs_match_string __flush_workqueue __spin_lock_init "
              "__printk __in_dev_get_rcu __in6_dev_get".split())
# Calls and flags that ask for a reason wherever they are used.
ASKED = re.compile(
    r"\b(SOCK_[A-Z]\w+|SK_[A-Z]\w+|ICSK_[A-Z]\w+|preemptible|synchronize_rcu_tasks\w*"
    r"|vhost_task_create|kset_find_obj|sock_alloc_file|iw_create_cm_id|rdma_translate_ip"
    r"|dma_buf_vmap\w*|port_groups|tcp_get_hashinfo|tcp_write_queue_tail|skb_peek_next"
    r"|sock_owned_by_user_nocheck|mutex_is_locked|kallsyms_lookup_name|find_module|symbol_get)\b")

C_FIELD = re.compile(r"(?:->|(?<=[\w)\]])\.)\s*([a-z]\w*)\b(?!\s*\()")
RUST_FIELD = re.compile(r"\(\*[\w.]+(?: \.[\w.]+)*(?:\([^()]*\))*(?:\.\w+(?:\([^()]*\))*)*\)\s*\.\s*(\w+)\b(?!\s*\()")
INTERNAL = re.compile(r"\b(__\w+)\s*\(")
# "``a``, ``b`` and ``c`` in ``ffi/x.c``"
PLACED = re.compile(r"((?:``[\w.>-]+``(?:,\s+|\s+and\s+)?)+)\s+in\s+``(ffi/[\w/.]+)``")


def entries(text):
    """The entries of the list, each with its title."""
    found = re.split(r"(?m)^(?=\S[^\n]*\n    \S)", text)
    return [(one.split("\n", 1)[0], one) for one in found if re.match(r"\S[^\n]*\n    \S", one)]


def used(path, code):
    """What the code of a file uses that may be a trick, with the place of each."""
    rules = [ASKED]
    if path.endswith(".c"):
        rules += [C_FIELD, INTERNAL]
    else:
        rules.append(RUST_FIELD)
    for rule in rules:
        for m in rule.finditer(code):
            yield m.group(1), code.count("\n", 0, m.start()) + 1


def check(files, text):
    """What is wrong with the list, given the files by path below ffi/."""
    ordinary = {name for names in ORDINARY.values() for name in names.split()} | OFFERED
    listed = entries(text)
    named = set(re.findall(r"\w+", " ".join(
        word for _, one in listed for word in re.findall(r"``([^`]*)``", one))))
    seen = set()
    for path, code in files.items():
        for name, line in used(path, code):
            if name not in ordinary and name not in named | seen:
                yield (f"{DRIVER}/{path}:{line}: {name} belongs to others: it is ordinary "
                       f"(tools/lint/tricks.py), or has an entry in {LIST}")
            seen.add(name)
    for title, one in listed:
        places = PLACED.findall(one)
        if not places:
            yield f"{LIST}: \"{title}\" says in no file of ffi/ where it is"
        for names, path in places:
            for name in re.findall(r"``[^`]*?(\w+)``", names):
                if not re.search(r"\b(?:rsiw_helper_)?%s\b" % name, files.get(path, "")):
                    yield f"{LIST}: \"{title}\" says that {name} is in {path}"
        if "*Interface:*" not in one:
            yield f"{LIST}: \"{title}\" does not say which interface is wished for"
        if not re.search(r"\*(?!Interface)[^*]+[?.]\*|\*[^*]+\*\s*``[^`]*``\?", one):
            yield f"{LIST}: \"{title}\" does not say what a reviewer would ask"
    for name in sorted({name for names in ORDINARY.values() for name in names.split()} - seen):
        yield f"tools/lint/tricks.py: nobody uses {name} any more"


def self_test():
    """Each rule finds what breaks it."""
    good = ("Title\n=====\n\nA thing\n    ``one`` in ``ffi/a.c``: ``sk_odd``. *Why?* So."
            " *Interface:* x.\n")
    code = "void rsiw_helper_one(void) { sk->sk_odd = 1; sk->sk_family; }"

    def found(code, text=good):
        return len([at for at in check({"ffi/a.c": code}, text) if "any more" not in at])
    assert not found(code)
    assert found(code + " sk->sk_other = 1;") == 1
    assert found(code + " __tcp_secret(sk);") == 1
    assert found(code.replace("_one", "_two")) == 1
    for part in (" in ``ffi/a.c``", "*Why?*", "*Interface:*"):
        assert found(code, good.replace(part, "")) == 1, part
    assert list(used("a.rs", "(*sk).sk_odd; (*self.0.get()).deep; x.y")) == [
        ("sk_odd", 1), ("deep", 1)]


def check_all():
    self_test()
    files = {}
    for path in sorted(glob.glob(DRIVER + "/ffi/**/*", recursive=True)):
        if path.endswith((".c", ".rs")):
            with open(path, encoding="utf-8") as f:
                files[os.path.relpath(path, DRIVER)] = NOISE.sub(
                    lambda m: re.sub(r"[^\n]", " ", m.group()), f.read())
    with open(LIST, encoding="utf-8") as f:
        yield from check(files, f.read())


if __name__ == "__main__":
    sys.exit(main(check_all))
