// SPDX-License-Identifier: GPL-2.0

#include <linux/bvec.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/ratelimit.h>
#include <linux/skbuff.h>
#include <linux/string.h>
#include <linux/timer.h>
#include <linux/uio.h>
#include <net/inet_common.h>
#include <net/inet_connection_sock.h>
#include <net/inet_ecn.h>
#include <net/inet_hashtables.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/net_namespace.h>
#include <net/rps.h>
#include <net/rtnetlink.h>
#include <net/sock.h>
#include <net/tcp.h>

/* Sockets. */

#ifdef CONFIG_DEBUG_LOCK_ALLOC
static struct lock_class_key rsiw_sk_key[2];
static struct lock_class_key rsiw_slock_key[2];
#endif

/*
 * A consumer may hold locks under which it also uses TCP sockets of its own, so ours are another
 * class to lockdep. This is not for accepted sockets: TCP makes them, and may have their lock
 * already.
 */
void rsiw_helper_sock_reclassify(struct sock *sk)
{
#ifdef CONFIG_DEBUG_LOCK_ALLOC
	if (WARN_ON_ONCE(!sock_allow_reclassification(sk)))
		return;
	if (sk->sk_family == AF_INET)
		sock_lock_init_class_and_name(sk, "slock-AF_INET-RSIW",
					      &rsiw_slock_key[0],
					      "sk_lock-AF_INET-RSIW",
					      &rsiw_sk_key[0]);
	else
		sock_lock_init_class_and_name(sk, "slock-AF_INET6-RSIW",
					      &rsiw_slock_key[1],
					      "sk_lock-AF_INET6-RSIW",
					      &rsiw_sk_key[1]);
#endif
}

/*
 * Consumers are block devices and file systems too: memory for sending must not be reclaimed
 * through them. Nor does what is sent go through the page fragment of the task: a thread that posts
 * may be in a page fault that came while it sent on a socket of its own. Sockets that are accepted
 * inherit both.
 */
void rsiw_helper_sock_prepare(struct sock *sk)
{
	sk->sk_allocation = GFP_NOIO;
	sk->sk_use_task_frag = false;
	tcp_sock_set_nodelay(sk);
	sock_set_reuseaddr(sk);
	sock_set_keepalive(sk);
}

/*
 * Lets @sk use the reserves of memory that the kernel keeps for those who free memory, to send and
 * to receive, or not any more. Process context; @sk is not locked.
 */
void rsiw_helper_sock_set_reclaims(struct sock *sk, bool reclaims)
{
	lock_sock(sk);
	if (reclaims)
		sk_set_memalloc(sk);
	else
		sk_clear_memalloc(sk);
	release_sock(sk);
}

/* Makes TCP charge @memcg for the buffers of @sk, a new socket, if nobody is charged yet. */
static void sock_charge_to(struct sock *sk, struct mem_cgroup *memcg)
{
#ifdef CONFIG_MEMCG
	if (mem_cgroup_sockets_enabled && memcg && !mem_cgroup_is_root(memcg) &&
	    cgroup_subsys_on_dfl(memory_cgrp_subsys) && !sk->sk_memcg &&
	    css_tryget(&memcg->css))
		sk->sk_memcg = memcg;
#endif
}

/*
 * As sock_charge_to(), for a socket that was accepted when it was not known for whom. What is in use
 * was charged to nobody, and will be given back to nobody: it cannot be charged to @memcg here. So
 * nobody is charged if there is anything.
 */
void rsiw_helper_sock_charge_later(struct sock *sk, struct mem_cgroup *memcg)
{
	lock_sock(sk);
	sk_mem_reclaim(sk);
	if (!sk->sk_forward_alloc && !sk_rmem_alloc_get(sk) && !READ_ONCE(sk->sk_wmem_queued))
		sock_charge_to(sk, memcg);
	release_sock(sk);
}

/*
 * As kernel_accept() without waiting, but @memcg is charged for the socket's buffers, also for what
 * has arrived already. TCP would charge the group of the thread that accepts, and a work item has
 * none.
 */
int rsiw_helper_accept_for(struct socket *sock, struct mem_cgroup *memcg, struct socket **to)
{
	struct proto_accept_arg arg = {
		.flags = O_NONBLOCK,
		.err = -EINVAL,
		.kern = true,
	};
	const struct proto_ops *ops = READ_ONCE(sock->ops);
	struct sock *sk = sock->sk, *child;
	struct socket *made;
	int err;

	err = sock_create_lite(sk->sk_family, sk->sk_type, sk->sk_protocol, &made);
	if (err < 0)
		return err;
	child = READ_ONCE(sk->sk_prot)->accept(sk, &arg);
	if (!child) {
		sock_release(made);
		return arg.err;
	}
	lock_sock(child);
	sock_charge_to(child, memcg);
	__inet_accept(sock, made, child);
	release_sock(child);
	made->ops = ops;
	__module_get(ops->owner);
	*to = made;
	return 0;
}

void rsiw_helper_lock_sock(struct sock *sk)
{
	lock_sock(sk);
}

void rsiw_helper_sk_callback_read_lock(struct sock *sk)
{
	read_lock_bh(&sk->sk_callback_lock);
}

void rsiw_helper_sk_callback_read_unlock(struct sock *sk)
{
	read_unlock_bh(&sk->sk_callback_lock);
}

void rsiw_helper_sk_callback_write_lock(struct sock *sk)
{
	write_lock_bh(&sk->sk_callback_lock);
}

void rsiw_helper_sk_callback_write_unlock(struct sock *sk)
{
	write_unlock_bh(&sk->sk_callback_lock);
}

/* Under sk_callback_lock. Accepted sockets do not inherit the pointer. */
void rsiw_helper_sk_set_user_data(struct sock *sk, void *data)
{
	if (data)
		__rcu_assign_sk_user_data_with_flags(sk, data,
						     SK_USER_DATA_NOCOPY);
	else
		rcu_assign_sk_user_data(sk, NULL);
}

void *rsiw_helper_sk_user_data(const struct sock *sk)
{
	return __locked_read_sk_user_data_with_flags(sk, 0);
}

int rsiw_helper_sk_state(const struct sock *sk)
{
	return inet_sk_state_load(sk);
}

int rsiw_helper_sk_err(const struct sock *sk)
{
	return READ_ONCE(sk->sk_err);
}

/* Any end of a connection shuts both ways down, but only the peer's FIN sets this flag. */
bool rsiw_helper_tcp_has_fin(const struct sock *sk)
{
	return sock_flag(sk, SOCK_DONE);
}

/*
 * With so many octets of space a sender goes on, even if TCP does not call the socket writeable
 * yet: for that a third of the send buffer has to be free. If the buffer limits what is under way,
 * as on a long way, it should be kept full. This is what TCP is given in one call.
 */
#define ENOUGH_SPACE	(128 * 1024)

/*
 * Returns whether a sender that was told "no space" may go on. If so, the socket stops reporting
 * space until the next sender runs out of it.
 */
bool rsiw_helper_sk_space_again(struct sock *sk)
{
	if (!sk->sk_socket || !sk_stream_memory_free(sk) ||
	    sk_stream_wspace(sk) < min(sk_stream_min_wspace(sk), ENOUGH_SPACE))
		return false;
	clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	return true;
}

int rsiw_helper_sk_stream_wspace(const struct sock *sk)
{
	return sk_stream_wspace(sk);
}

u32 rsiw_helper_tcp_mss(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->mss_cache);
}

bool rsiw_helper_tcp_all_acked(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return READ_ONCE(tp->snd_una) == READ_ONCE(tp->write_seq);
}

/*
 * As tcp_all_acked(). If not all is acknowledged, the next acknowledgement is reported as space:
 * the socket has to look as if a sender had found none.
 */
bool rsiw_helper_tcp_all_acked_or_tell(struct sock *sk)
{
	if (sk->sk_socket) {
		set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
		/* Pairs with the barrier of tcp_check_space(). */
		smp_mb__after_atomic();
	}
	return rsiw_helper_tcp_all_acked(sk);
}

/*
 * Takes the spin lock of a socket, under which softirq works on it. Returns whether no process has
 * the socket.
 */
bool rsiw_helper_sock_hold(struct sock *sk)
{
	spin_lock_bh(&sk->sk_lock.slock);
	return !sock_owned_by_user_nocheck(sk);
}

void rsiw_helper_sock_let_go(struct sock *sk)
{
	spin_unlock_bh(&sk->sk_lock.slock);
}

u32 rsiw_helper_tcp_written(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->write_seq);
}

u32 rsiw_helper_tcp_read_up_to(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->copied_seq);
}

u64 rsiw_helper_sock_net_cookie(const struct sock *sk)
{
	return sock_net(sk)->net_cookie;
}

/* As kernel_getpeername(), also if the connection has ended (as SO_PEERNAME). */
int rsiw_helper_sock_peer_name(struct socket *sock, struct sockaddr_storage *to)
{
	return READ_ONCE(sock->ops)->getname(sock, (struct sockaddr *)to, 2);
}

int rsiw_helper_ip6_sock_set_v6only(struct sock *sk)
{
	return ip6_sock_set_v6only(sk);
}

void rsiw_helper_sock_force_reuse(struct sock *sk)
{
	lock_sock(sk);
	sk->sk_reuse = SK_FORCE_REUSE;
	release_sock(sk);
}

static bool is_bound_to_any(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		return ipv6_addr_any(&sk->sk_v6_rcv_saddr);
#endif
	return !sk->sk_rcv_saddr;
}

/* Returns whether two sockets that are bound to one port would get the same connections. */
static bool share_connections(const struct sock *a, const struct sock *b)
{
	if (a->sk_bound_dev_if && b->sk_bound_dev_if && a->sk_bound_dev_if != b->sk_bound_dev_if)
		return false;
	/* A socket that is for IPv6 only leaves IPv4 to others. */
	if (a->sk_family != b->sk_family && (ipv6_only_sock(a) || ipv6_only_sock(b)))
		return false;
	if (is_bound_to_any(a) || is_bound_to_any(b))
		return true;
#if IS_ENABLED(CONFIG_IPV6)
	if (a->sk_family == AF_INET6 && b->sk_family == AF_INET6)
		return ipv6_addr_equal(&a->sk_v6_rcv_saddr, &b->sk_v6_rcv_saddr);
#endif
	return a->sk_rcv_saddr == b->sk_rcv_saddr;
}

/*
 * Returns whether another socket listens for connections that @sk, which is bound, would get. Looks
 * at all sockets that are bound to the port, as a bind does that is not forced.
 */
bool rsiw_helper_sock_is_contended(struct sock *sk)
{
	struct inet_hashinfo *hashinfo = tcp_get_hashinfo(sk);
	struct inet_bind_hashbucket *head;
	struct inet_bind2_bucket *bucket2;
	struct inet_bind_bucket *bucket;
	bool is_contended = false;
	struct sock *other;

	head = &hashinfo->bhash[inet_bhashfn(sock_net(sk), inet_sk(sk)->inet_num,
					     hashinfo->bhash_size)];
	spin_lock_bh(&head->lock);
	bucket = inet_csk(sk)->icsk_bind_hash;
	if (!bucket)
		goto out;
	hlist_for_each_entry(bucket2, &bucket->bhash2, bhash_node) {
		sk_for_each_bound(other, &bucket2->owners) {
			if (other == sk || other->sk_state != TCP_LISTEN ||
			    !share_connections(sk, other))
				continue;
			is_contended = true;
			goto out;
		}
	}
out:
	spin_unlock_bh(&head->lock);
	return is_contended;
}

void rsiw_helper_sock_set_tos(struct sock *sk, int tos)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		int tclass;

		lock_sock(sk);
		/* TCP sets the bits for congestion itself. */
		tclass = tos & ~INET_ECN_MASK;
		tclass |= inet6_sk(sk)->tclass & INET_ECN_MASK;
		if (inet6_sk(sk)->tclass != tclass) {
			inet6_sk(sk)->tclass = tclass;
			sk_dst_reset(sk);
		}
		release_sock(sk);
	}
#endif
	ip_sock_set_tos(sk, tos);
}

/* Sends what it can, except after an error, which is left to whoever asks for it later. */
static int send_unless_ended(struct sock *sk, struct msghdr *msg, size_t len)
{
	if (sk->sk_err)
		return -sk->sk_err;
	return tcp_sendmsg_locked(sk, msg, len);
}

/*
 * Sends @len octets of a bvec list, once and without blocking. TCP takes references to the pages,
 * to which nobody may write as long as TCP has them. -ENOBUFS: TCP has no memory, and nothing on
 * its way whose acknowledgement would be reported as space. TCP reports space at once in that case,
 * which means nothing.
 */
static int send_bvec(struct sock *sk, const struct bio_vec *bvec,
		     unsigned int nr, size_t len, int flags, bool cut)
{
	struct sk_buff *skb;
	int ret;

	struct msghdr msg = {
		.msg_flags = flags | MSG_DONTWAIT | MSG_NOSIGNAL |
			     MSG_SPLICE_PAGES | MSG_NO_SHARED_FRAGS,
	};

	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, bvec, nr, len);
	skb = cut ? tcp_write_queue_tail(sk) : NULL;
	if (skb)
		TCP_SKB_CB(skb)->eor = 1;
	ret = send_unless_ended(sk, &msg, len);
	if (ret == -EAGAIN && tcp_rtx_and_write_queues_empty(sk))
		ret = -ENOBUFS;
	return ret;
}

int rsiw_helper_tcp_send_bvec(struct sock *sk, const struct bio_vec *bvec,
			      unsigned int nr, size_t len, int flags, bool cut)
{
	int ret;

	lock_sock(sk);
	ret = send_bvec(sk, bvec, nr, len, flags, cut);
	release_sock(sk);
	return ret;
}

/* Sends as above, without sleeping: the spin lock is held, and no process has the socket. */
int rsiw_helper_tcp_send_bvec_held(struct sock *sk, const struct bio_vec *bvec,
				   unsigned int nr, size_t len, int flags,
				   bool cut)
{
	gfp_t gfp = sk->sk_allocation;
	int ret;

	/* Without memory this fails, and the caller leaves it to somebody who may wait. */
	sk->sk_allocation = GFP_NOWAIT | __GFP_NOWARN;
	ret = send_bvec(sk, bvec, nr, len, flags, cut);
	sk->sk_allocation = gfp;
	return ret;
}

/*
 * Gives @sk, which is locked, a page for what TCP copies next, unless it has memory for that. TCP
 * would take 32 KiB, and a frame of set-up has a few hundred octets.
 */
static void sock_add_page(struct sock *sk)
{
	struct page_frag *frag = &sk->sk_frag;

	if (frag->page)
		return;
	frag->page = alloc_page(sk->sk_allocation | __GFP_NOWARN);
	frag->offset = 0;
	frag->size = PAGE_SIZE;
}

/* Sends what it can of a frame, which TCP copies. */
int rsiw_helper_tcp_send(struct sock *sk, void *data, size_t len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = data, .iov_len = len };
	int ret;

	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, len);
	lock_sock(sk);
	sock_add_page(sk);
	ret = send_unless_ended(sk, &msg, len);
	/* A connection sends few frames, and does not keep the page for the next one. */
	if (sk->sk_frag.page) {
		put_page(sk->sk_frag.page);
		sk->sk_frag.page = NULL;
	}
	release_sock(sk);
	return ret;
}

/*
 * Copies the first octets that were received and not read, at most @len, into @to, and leaves them
 * where they are. Returns how many these are, 0 at the end of the stream, or an error.
 */
int rsiw_helper_tcp_peek(struct socket *sock, void *to, size_t len)
{
	struct msghdr msg = { };
	struct kvec vec = { .iov_base = to, .iov_len = len };

	return kernel_recvmsg(sock, &msg, &vec, 1, len, MSG_DONTWAIT | MSG_PEEK | MSG_NOSIGNAL);
}

/* Returns how many octets were received and not read. A FIN counts as one. */
u32 rsiw_helper_tcp_unread(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return READ_ONCE(tp->rcv_nxt) - READ_ONCE(tp->copied_seq);
}

/* Returns the number of the flow that arrives for @sk; 0 if RFS is off, or nothing has arrived. */
u32 rsiw_helper_sock_flow(const struct sock *sk)
{
#ifdef CONFIG_RPS
	if (static_branch_unlikely(&rfs_needed))
		return READ_ONCE(sk->sk_rxhash);
#endif
	return 0;
}

void rsiw_helper_flow_record_here(u32 flow)
{
	sock_rps_record_flow_hash(flow);
}

/* Received data, and memory of sends. */

/* As rsiw_helper_skb_piece(), for all but what is in lists. */
static const void *skb_piece(const struct sk_buff *skb, u32 offset, u32 *from, u32 *to,
			     u32 *next)
{
	const struct skb_shared_info *shared = skb_shinfo(skb);
	u32 i = 0, start, end = skb_headlen(skb);

	if (offset < end) {
		*from = 0;
		*to = end;
		*next = 0;
		return skb->data;
	}
	if (!skb_frags_readable(skb))
		return NULL;
	if (*next && offset >= *to) {
		i = *next;
		end = *to;
	}
	for (; i < shared->nr_frags; i++) {
		start = end;
		end += skb_frag_size(&shared->frags[i]);
		if (offset < end) {
			*from = start;
			*to = end;
			*next = i + 1;
			return skb_frag_address(&shared->frags[i]);
		}
	}
	return NULL;
}

/* As rsiw_helper_skb_piece(), for what is in the list of a buffer. */
static noinline const void *skb_piece_in_list(const struct sk_buff *skb, u32 offset, u32 *from,
					      u32 *to, u32 *next)
{
	u32 end = skb_pagelen(skb);
	const struct sk_buff *one;
	const void *piece;

	skb_walk_frags(skb, one) {
		if (offset - end < one->len) {
			*next = 0;
			piece = skb_piece(one, offset - end, from, to, next);
			*from += end;
			*to += end;
			/* The callee has set a place in the buffer of the list, not in this one. */
			*next = 0;
			return piece;
		}
		end += one->len;
	}
	return NULL;
}

/*
 * Returns the address of the piece of a buffer in which the octet @offset lies, and the offsets of
 * its first octet and of the one behind its last. @next is 0 the first time. With @to and @next as
 * the last call left them, the search begins behind the piece that was found then. A buffer may
 * have a list of others, as GRO makes of segments that are more than its pieces. NULL for what
 * cannot be read, or is in a list of one of these.
 */
const void *rsiw_helper_skb_piece(const struct sk_buff *skb, u32 offset, u32 *from, u32 *to,
				  u32 *next)
{
	const void *piece = skb_piece(skb, offset, from, to, next);

	if (!piece && skb_has_frag_list(skb))
		piece = skb_piece_in_list(skb, offset, from, to, next);
	return piece;
}

/*
 * Returns the buffer that goes on where octet @end of @skb would be, in the receive queue of @sk,
 * which is locked: it has @len octets for that, from @offset on. NULL if there is none, or if
 * octets of @skb are left behind @end.
 */
struct sk_buff *rsiw_helper_tcp_skb_behind(struct sock *sk, struct sk_buff *skb, u32 end,
					   u32 *offset, u32 *len)
{
	u32 seq = TCP_SKB_CB(skb)->end_seq;

	if (end != skb->len || (TCP_SKB_CB(skb)->tcp_flags & TCPHDR_FIN))
		return NULL;
	skb = skb_peek_next(skb, &sk->sk_receive_queue);
	if (!skb || (TCP_SKB_CB(skb)->tcp_flags & TCPHDR_SYN) ||
	    before(seq, TCP_SKB_CB(skb)->seq))
		return NULL;
	/* Buffers may overlap, since data may be sent again in other pieces. */
	*offset = seq - TCP_SKB_CB(skb)->seq;
	if (*offset >= skb->len)
		return NULL;
	*len = skb->len - *offset;
	return skb;
}

/*
 * Returns whether @more octets may follow octet @end of @skb in the receive queue of @sk, which is
 * locked, while what it has stays there: nothing is there yet, the peer knows of room for them, and
 * nothing was dropped for lack of memory.
 */
bool rsiw_helper_tcp_may_get(const struct sock *sk, const struct sk_buff *skb, u32 end, u32 more)
{
	return end == skb->len && TCP_SKB_CB(skb)->end_seq == tcp_sk(sk)->rcv_nxt &&
	       !(sk->sk_shutdown & RCV_SHUTDOWN) && sk->sk_state != TCP_CLOSE &&
	       tcp_receive_window(tcp_sk(sk)) >= more &&
	       atomic_read(&sk->sk_rmem_alloc) <= READ_ONCE(sk->sk_rcvbuf) &&
	       !(inet_csk(sk)->icsk_ack.pending & ICSK_ACK_NOMEM);
}

/*
 * Makes TCP call back only once @len octets can be read, as SO_RCVLOWAT does. Until then it
 * acknowledges segments at once instead of waiting for a reader. It calls back earlier on a FIN, or
 * if memory or the window runs short. @sk is locked.
 */
void rsiw_helper_tcp_expect(struct sock *sk, int len)
{
	WRITE_ONCE(sk->sk_rcvlowat, len);
}

/*
 * Makes TCP acknowledge what is read next at once, instead of together with an answer. @sk is
 * locked.
 */
void rsiw_helper_tcp_acknowledge(struct sock *sk)
{
	inet_csk_exit_pingpong_mode(sk);
}

/*
 * Returns @len octets of zeroed pages, or one page if more are not easily had, and sets @len; or
 * NULL. The group that pays at the moment is charged. This does not wait for block devices and file
 * systems, as one of them may be the consumer. Reserves are for the one page only.
 */
void *rsiw_helper_tx_pages_alloc(u32 *len, bool may_wait)
{
	unsigned int order = get_order(*len);
	struct page *page = NULL;

	if (order)
		page = alloc_pages((GFP_NOIO & ~__GFP_DIRECT_RECLAIM) |
				   __GFP_COMP | __GFP_ZERO | __GFP_NOWARN |
				   __GFP_NORETRY | __GFP_NOMEMALLOC |
				   __GFP_ACCOUNT, order);
	if (!page) {
		order = 0;
		page = alloc_page((may_wait ? GFP_NOIO : GFP_NOWAIT) |
				  __GFP_NOWARN | __GFP_ZERO | __GFP_ACCOUNT);
	}
	*len = PAGE_SIZE << order;
	/* They are not in high memory. */
	return page ? page_address(page) : NULL;
}

struct page *rsiw_helper_tx_pages_head(void *pages)
{
	return virt_to_page(pages);
}

/* Returns whether the caller's reference is the only one, so that it owns the pages. */
bool rsiw_helper_tx_pages_are_sole(void *pages)
{
	if (page_ref_count(virt_to_page(pages)) != 1)
		return false;
	/* Those who had the other references have read what they wanted before. */
	smp_acquire__after_ctrl_dep();
	return true;
}

void rsiw_helper_tx_pages_put(void *pages)
{
	put_page(virt_to_page(pages));
}

/* Timers, log, and numbers of TCP. */

void rsiw_helper_timer_setup(struct timer_list *timer,
			     void (*function)(struct timer_list *))
{
	timer_setup(timer, function, 0);
}

/* The kernel's default limit, about which the kernel itself writes nothing. */
void rsiw_helper_ratelimit_init(struct ratelimit_state *rs)
{
	ratelimit_default_init(rs);
	ratelimit_set_flags(rs, RATELIMIT_MSG_ON_RELEASE);
}

unsigned int rsiw_helper_ratelimit_state_reset_miss(struct ratelimit_state *rs)
{
	return ratelimit_state_reset_miss(rs);
}

/* Returns whether the timer was running. */
bool rsiw_helper_mod_timer_ms(struct timer_list *timer, unsigned int ms)
{
	return mod_timer(timer, jiffies + msecs_to_jiffies(ms));
}

/*
 * Whether TCP waits for the peer to acknowledge something, and how many milliseconds ago the peer
 * last acknowledged anything.
 */
bool rsiw_helper_tcp_is_unanswered(struct sock *sk, u32 *ms)
{
	struct tcp_info info;

	tcp_get_info(sk, &info);
	*ms = info.tcpi_last_ack_recv;
	return info.tcpi_unacked || info.tcpi_notsent_bytes;
}

/* Reads sequence numbers of TCP, as far as that goes without its lock. */
void rsiw_helper_tcp_numbers(const struct sock *sk, u32 *snd_una, u32 *snd_nxt,
			     u32 *write_seq, u32 *copied_seq, u32 *rcv_nxt)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	*snd_una = READ_ONCE(tp->snd_una);
	*snd_nxt = READ_ONCE(tp->snd_nxt);
	*write_seq = READ_ONCE(tp->write_seq);
	*copied_seq = READ_ONCE(tp->copied_seq);
	*rcv_nxt = READ_ONCE(tp->rcv_nxt);
}
