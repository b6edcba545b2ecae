// SPDX-License-Identifier: GPL-2.0

#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/socket.h>
#include <linux/sockptr.h>
#include <linux/uio.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include <net/udp.h>

static int set_option(struct socket *sock, int level, int name, int value)
{
	return READ_ONCE(sock->ops)->setsockopt(sock, level, name, KERNEL_SOCKPTR(&value),
						sizeof(value));
}

/* @sock is a new one that receives. It keeps up to @octets of buffers with what was received. */
int rsiw_helper_udp_prepare_receiver(struct socket *sock, int octets)
{
	struct sock *sk = sock->sk;
	int ret;

	/* The kernel doubles the number, for what buffers take beside their octets. */
	sock_set_rcvbuf(sk, octets / 2);
	/* Nobody polls the interface for it; kernels that cannot poll do not know the option. */
	set_option(sock, SOL_SOCKET, SO_BUSY_POLL, 0);
	if (sk->sk_family == AF_INET)
		return 0;
	ret = ip6_sock_set_v6only(sk);
	/* Adapters send without a checksum. */
	return ret ?: set_option(sock, SOL_UDP, UDP_NO_CHECK6_RX, 1);
}

/*
 * @sock is a new one that sends datagrams from @port. An IPv6 socket sends those of IPv4, too. As
 * the socket has a number, UDP looks for none, and as it is in none of UDP's tables, it receives
 * nothing, and others may send from the same port.
 */
int rsiw_helper_udp_prepare_sender(struct socket *sock, u16 port)
{
	struct sock *sk = sock->sk;
	int ret = set_option(sock, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);

	if (!ret && sk->sk_family == AF_INET6) {
		ret = set_option(sock, SOL_IPV6, IPV6_V6ONLY, 0);
		ret = ret ?: set_option(sock, SOL_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
		ret = ret ?: set_option(sock, SOL_IPV6, IPV6_DONTFRAG, 1);
	}
	sk->sk_use_task_frag = false;
	inet_sk(sk)->inet_num = port;
	inet_sk(sk)->inet_sport = htons(port);
	return ret;
}

/* Adds a control message behind those of @msg, for which there is room. Returns its data. */
static void *put_option(struct msghdr *msg, int level, int type, size_t len)
{
	struct cmsghdr *cmsg = msg->msg_control + msg->msg_controllen;

	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(len);
	msg->msg_controllen += CMSG_SPACE(len);
	return CMSG_DATA(cmsg);
}

static void put_ipv4(struct msghdr *msg, const struct sockaddr_in *from, int ifindex, int tos,
		     int hops)
{
	struct in_pktinfo *info = put_option(msg, SOL_IP, IP_PKTINFO, sizeof(*info));

	info->ipi_ifindex = ifindex;
	info->ipi_spec_dst = from->sin_addr;
	msg->msg_namelen = sizeof(*from);
	*(int *)put_option(msg, SOL_IP, IP_TOS, sizeof(int)) = tos;
	if (hops)
		*(int *)put_option(msg, SOL_IP, IP_TTL, sizeof(int)) = hops;
}

static void put_ipv6(struct msghdr *msg, const struct sockaddr_in6 *from, int ifindex, int tos,
		     int hops)
{
	struct in6_pktinfo *info = put_option(msg, SOL_IPV6, IPV6_PKTINFO, sizeof(*info));

	info->ipi6_addr = from->sin6_addr;
	info->ipi6_ifindex = from->sin6_scope_id ?: ifindex;
	msg->msg_namelen = sizeof(*from);
	*(int *)put_option(msg, SOL_IPV6, IPV6_TCLASS, sizeof(int)) = tos;
	if (hops)
		*(int *)put_option(msg, SOL_IPV6, IPV6_HOPLIMIT, sizeof(int)) = hops;
}

static bool has_room(const struct sock *sk)
{
	return sk_wmem_alloc_get(sk) < READ_ONCE(sk->sk_sndbuf);
}

/*
 * Sends a datagram between two addresses of one family by the interfaces of this index (0: those in
 * no VRF), with this traffic class and hop limit; 0 is the hop limit of the host. Returns -EAGAIN
 * if the socket has no room; it tells when there is some.
 */
int rsiw_helper_udp_send(struct socket *sock, struct sockaddr_storage *from,
			 struct sockaddr_storage *to, int ifindex, void *data, size_t len, int tos,
			 int hops)
{
	char control[2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct in6_pktinfo))]
		__aligned(__alignof__(struct cmsghdr)) = {};
	struct kvec vec = { .iov_base = data, .iov_len = len };
	struct msghdr msg = {
		.msg_name = to,
		.msg_control = control,
		.msg_flags = MSG_DONTWAIT,
	};
	int ret;

	if (to->ss_family == AF_INET)
		put_ipv4(&msg, (void *)from, ifindex, tos, hops);
	else
		put_ipv6(&msg, (void *)from, ifindex, tos, hops);
	ret = kernel_sendmsg(sock, &msg, &vec, 1, len);
	/* There may be room since then. */
	if (ret == -EAGAIN && has_room(sock->sk))
		ret = kernel_sendmsg(sock, &msg, &vec, 1, len);
	/* That was not for lack of room: IPsec says it while it has no keys, for example. */
	if (ret == -EAGAIN && has_room(sock->sk))
		return -EHOSTUNREACH;
	return ret;
}

bool rsiw_helper_sock_writeable(const struct sock *sk)
{
	return sock_writeable(sk);
}

/*
 * Takes the next datagram, linear and with the right checksum. Returns -EAGAIN if there is none,
 * and -EBADMSG if one was dropped.
 */
int rsiw_helper_udp_receive(struct sock *sk, struct sk_buff **to)
{
	struct sk_buff *skb;
	int err;

	skb = skb_recv_udp(sk, MSG_DONTWAIT, &err);
	if (!skb)
		return err == -EAGAIN ? err : -EBADMSG;
	if (udp_lib_checksum_complete(skb) || skb_linearize(skb) ||
	    skb_transport_offset(skb) != -(int)sizeof(struct udphdr)) {
		kfree_skb(skb);
		return -EBADMSG;
	}
	*to = skb;
	return 0;
}

/* The octets from the IP header to that of UDP. */
const void *rsiw_helper_udp_ip_header(const struct sk_buff *skb, unsigned int *len)
{
	*len = skb_network_header_len(skb);
	return skb_network_header(skb);
}

/* The octets from the header of UDP on. */
const void *rsiw_helper_udp_datagram(const struct sk_buff *skb, unsigned int *len)
{
	*len = skb_headlen(skb) + sizeof(struct udphdr);
	return skb_transport_header(skb);
}

void rsiw_helper_udp_free(struct sk_buff *skb)
{
	consume_skb(skb);
}
