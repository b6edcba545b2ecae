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

/* Makes an IPv6 socket send datagrams whole, and take those of adapters, which have no checksum. */
static int prepare_ipv6(struct socket *sock)
{
	int ret = ip6_sock_set_v6only(sock->sk);

	if (!ret)
		ret = set_option(sock, SOL_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	if (!ret)
		ret = set_option(sock, SOL_IPV6, IPV6_DONTFRAG, 1);
	if (!ret)
		ret = set_option(sock, SOL_UDP, UDP_NO_CHECK6_RX, 1);
	return ret;
}

/* @sock is new. It keeps up to @octets of buffers with what was received. */
int rsiw_helper_udp_prepare(struct socket *sock, int octets)
{
	struct sock *sk = sock->sk;

	sk->sk_use_task_frag = false;
	/* The kernel doubles the number, for what buffers take beside their octets. */
	sock_set_rcvbuf(sk, octets / 2);
	sock_set_sndtimeo(sk, 1);
	/* Nobody polls the interface for it; kernels that cannot poll do not know the option. */
	set_option(sock, SOL_SOCKET, SO_BUSY_POLL, 0);
	if (sk->sk_family == AF_INET6)
		return prepare_ipv6(sock);
	return set_option(sock, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
}

/* Adds a control message with a number. Returns the place of the next. */
static struct cmsghdr *put_number(struct cmsghdr *cmsg, int level, int type, int number)
{
	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(sizeof(number));
	*(int *)CMSG_DATA(cmsg) = number;
	return (void *)cmsg + CMSG_SPACE(sizeof(number));
}

/* Sends a datagram with this traffic class and hop limit; 0 is the hop limit of the host. */
int rsiw_helper_udp_send(struct socket *sock, struct sockaddr_storage *to, int to_len, void *data,
			 size_t len, int tos, int hops)
{
	char control[2 * CMSG_SPACE(sizeof(int))] __aligned(__alignof__(struct cmsghdr)) = {};
	bool is_ipv6 = sock->sk->sk_family == AF_INET6;
	struct kvec vec = { .iov_base = data, .iov_len = len };
	struct cmsghdr *cmsg = (void *)control;
	struct msghdr msg = {
		.msg_name = to,
		.msg_namelen = to_len,
		.msg_control = control,
	};

	cmsg = put_number(cmsg, is_ipv6 ? SOL_IPV6 : SOL_IP, is_ipv6 ? IPV6_TCLASS : IP_TOS, tos);
	if (hops)
		cmsg = put_number(cmsg, is_ipv6 ? SOL_IPV6 : SOL_IP,
				  is_ipv6 ? IPV6_HOPLIMIT : IP_TTL, hops);
	msg.msg_controllen = (char *)cmsg - control;
	return kernel_sendmsg(sock, &msg, &vec, 1, len);
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
