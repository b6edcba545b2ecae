// SPDX-License-Identifier: GPL-2.0

#include <linux/bottom_half.h>
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/inet.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/sizes.h>
#include <linux/tls.h>
#include <net/handshake.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <net/tls.h>
#include <net/tls_prot.h>

/*
 * Gives a socket a file, by which a daemon in user space gets it for the handshake. The socket is
 * gone if this fails. The name of the file is the address of the peer: another name would have to
 * be kept as long as the daemon may ask for it, and without a name the daemon asks the DNS who the
 * peer is.
 */
int rsiw_helper_sock_add_file(struct socket *sock, const struct sockaddr_storage *peer)
{
	char name[INET6_ADDRSTRLEN + 1];

	snprintf(name, sizeof(name), "%pISc", peer);
	return PTR_ERR_OR_ZERO(sock_alloc_file(sock, 0, name));
}

/* Gives up the file that rsiw_helper_sock_add_file() has made, and with it the socket. */
void rsiw_helper_sock_put_file(struct socket *sock)
{
	fput(sock->file);
}

#if IS_ENABLED(CONFIG_NET_HANDSHAKE)
/* Asks for a handshake. After 0 @done is called once, unless the handshake is cancelled. */
int rsiw_helper_tls_hello(struct socket *sock, bool is_server, bool has_psk, int keyring, int key,
			  unsigned int timeout_ms, void (*done)(void *data, int status, int peer),
			  void *data)
{
	struct tls_handshake_args args = {
		.ta_sock = sock,
		.ta_done = done,
		.ta_data = data,
		.ta_peername = sock->file->f_path.dentry->d_name.name,
		.ta_timeout_ms = timeout_ms,
		.ta_keyring = keyring,
		/* The key by which a client says who it is. */
		.ta_my_peerids = { key },
		.ta_num_peerids = 1,
	};

	if (has_psk)
		return is_server ? tls_server_hello_psk(&args, GFP_KERNEL) :
				   tls_client_hello_psk(&args, GFP_KERNEL);
	return is_server ? tls_server_hello_x509(&args, GFP_KERNEL) :
			   tls_client_hello_x509(&args, GFP_KERNEL);
}

/* Cancels a handshake. Returns whether one was under way: nobody will be told of its end. */
bool rsiw_helper_tls_cancel(struct socket *sock)
{
	return tls_handshake_cancel(sock->sk);
}

/*
 * Takes a record that is no data. Returns its type, and its first octets in @to (2 bytes), or an
 * error.
 */
int rsiw_helper_tls_recv_control(struct socket *sock, u8 *to)
{
	u8 type[CMSG_SPACE(sizeof(u8))] __aligned(sizeof(size_t)) = { };
	struct msghdr msg = {
		.msg_control = type,
		.msg_controllen = sizeof(type),
	};
	struct kvec vec = { .iov_base = to, .iov_len = 2 };
	int ret;

	ret = kernel_recvmsg(sock, &msg, &vec, 1, vec.iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (ret < 0)
		return ret;
	return tls_get_record_type(sock->sk, (struct cmsghdr *)type);
}
#else
int rsiw_helper_tls_hello(struct socket *sock, bool is_server, bool has_psk, int keyring, int key,
			  unsigned int timeout_ms, void (*done)(void *data, int status, int peer),
			  void *data)
{
	return -EOPNOTSUPP;
}

bool rsiw_helper_tls_cancel(struct socket *sock)
{
	return false;
}

int rsiw_helper_tls_recv_control(struct socket *sock, u8 *to)
{
	return -EOPNOTSUPP;
}
#endif

/* Returns whether TLS has the keys of both directions. */
bool rsiw_helper_sock_has_tls(const struct sock *sk)
{
	const struct tcp_ulp_ops *ulp = inet_csk(sk)->icsk_ulp_ops;
	const struct tls_context *ctx;

	if (!ulp || strcmp(ulp->name, "tls"))
		return false;
	ctx = tls_get_ctx(sk);
	return ctx->tx_conf != TLS_BASE && ctx->rx_conf != TLS_BASE;
}

/*
 * Exchanges *@found with what TLS calls when it has a record, if the socket has TLS. The locks of
 * the socket and of its callbacks are held.
 */
void rsiw_helper_tls_exchange_found(struct sock *sk, void (**found)(struct sock *sk))
{
	struct tls_sw_context_rx *rx;

	if (!rsiw_helper_sock_has_tls(sk))
		return;
	rx = tls_sw_ctx_rx(tls_get_ctx(sk));
	if (rx && rx->saved_data_ready)
		swap(rx->saved_data_ready, *found);
}

/*
 * Returns how many octets of TCP's stream one key has encrypted, in the direction that has more of
 * them; 0 if the cipher has no limit. Of what was sent, TCP counts what the peer has acknowledged.
 */
u64 rsiw_helper_tls_aes_octets(const struct sock *sk)
{
	const struct tls_context *ctx = tls_get_ctx(sk);

	if (!ctx || ctx->prot_info.cipher_type == TLS_CIPHER_CHACHA20_POLY1305)
		return 0;
	return max(READ_ONCE(tcp_sk(sk)->bytes_acked), READ_ONCE(tcp_sk(sk)->bytes_received));
}

/* Returns whether TLS may give TCP something that goes out. The lock is held. */
static bool tls_may_send(const struct sock *sk)
{
	return rsiw_helper_sock_has_tls(sk) && !(sk->sk_shutdown & SEND_SHUTDOWN);
}

/* Space for the record or two that TLS may not have given to TCP yet, and for an alert. */
#define RSIW_TLS_REST SZ_128K

/*
 * Gives TCP space for the alert and what is in front of it. TCP makes the space smaller whenever it
 * lacks memory, so this is done before each attempt. The lock is held.
 */
static void tls_make_space(struct sock *sk)
{
	WRITE_ONCE(sk->sk_sndbuf, max(sk->sk_sndbuf, sk->sk_wmem_queued + RSIW_TLS_REST));
	WRITE_ONCE(tcp_sk(sk)->notsent_lowat, U32_MAX);
}

/*
 * Makes TLS tell the peer that nothing follows (close_notify). Returns false if there is no memory
 * for that; then call this again. See rsiw_helper_tls_is_through() for what comes next.
 */
bool rsiw_helper_tls_close(struct socket *sock)
{
	u8 alert[] = { TLS_ALERT_LEVEL_WARNING, TLS_ALERT_DESC_CLOSE_NOTIFY };
	u8 control[CMSG_SPACE(sizeof(u8))] __aligned(sizeof(size_t)) = { };
	struct msghdr msg = {
		.msg_control = control,
		.msg_controllen = sizeof(control),
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL,
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	struct kvec vec = { .iov_base = alert, .iov_len = sizeof(alert) };
	struct sock *sk = sock->sk;
	struct mutex *sends;
	bool is_due;
	int ret;

	cmsg->cmsg_level = SOL_TLS;
	cmsg->cmsg_type = TLS_SET_RECORD_TYPE;
	cmsg->cmsg_len = CMSG_LEN(sizeof(u8));
	*(u8 *)CMSG_DATA(cmsg) = TLS_RECORD_TYPE_ALERT;
	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, vec.iov_len);

	lock_sock(sk);
	is_due = tls_may_send(sk);
	if (is_due)
		tls_make_space(sk);
	release_sock(sk);
	if (!is_due)
		return true;

	sends = &tls_get_ctx(sk)->tx_lock;
	do {
		/* With a signal pending, sock_sendmsg() does not wait for another sender. */
		mutex_lock(sends);
		mutex_unlock(sends);
		ret = sock_sendmsg(sock, &msg);
	} while (ret == -EINTR);
	if (ret == -EAGAIN || ret == -ENOMEM)
		return false;
	if (ret != -EPIPE)
		return true;

	/* Sending clears the error of a reset, the only thing that closes TCP before this FIN. */
	lock_sock(sk);
	if (sk->sk_state == TCP_CLOSE && !sk->sk_err)
		WRITE_ONCE(sk->sk_err, EPIPE);
	release_sock(sk);
	return true;
}

/*
 * Returns whether TCP has all that TLS was given. TLS reports success even if TCP has refused a
 * record for want of memory, and TLS cannot give it to TCP behind a FIN. With nothing on its way,
 * TCP does not say when it has memory again: so TLS tries once more, in the background, whenever
 * this is called.
 */
bool rsiw_helper_tls_is_through(struct sock *sk)
{
	const struct tls_context *ctx;
	bool is_left = false;

	lock_sock(sk);
	if (tls_may_send(sk) && (1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT)) {
		ctx = tls_get_ctx(sk);
		is_left = ctx->partially_sent_record ||
			  (ctx->tx_conf == TLS_SW && !list_empty(&tls_sw_ctx_tx(ctx)->tx_list));
	}
	if (is_left) {
		tls_make_space(sk);
		/* TCP calls it with bottom halves off, too. */
		local_bh_disable();
		READ_ONCE(sk->sk_write_space)(sk);
		local_bh_enable();
	}
	release_sock(sk);
	return !is_left;
}

/* As tcp_read_sock(), of what TLS has decrypted. The lock is held, and given back in between. */
int rsiw_helper_tls_read_sock(struct sock *sk, read_descriptor_t *desc, sk_read_actor_t actor)
{
	return READ_ONCE(sk->sk_socket->ops)->read_sock(sk, desc, actor);
}

/*
 * Makes TLS send records of what @msg has, without blocking. -ENOBUFS: try again later. TLS may
 * have no memory while TCP has nothing on its way whose acknowledgement would be reported as space;
 * and a thread with a signal does not wait for another sender.
 */
static int tls_send_msg(struct socket *sock, struct msghdr *msg)
{
	int ret = -READ_ONCE(sock->sk->sk_err);
	bool is_idle;

	/* An error is left to whoever asks for it later, as in send_unless_ended(). */
	if (ret)
		return ret;
	ret = sock_sendmsg(sock, msg);
	switch (ret) {
	case -EAGAIN:
		lock_sock(sock->sk);
		is_idle = tcp_rtx_and_write_queues_empty(sock->sk);
		release_sock(sock->sk);
		return is_idle ? -ENOBUFS : -EAGAIN;
	case -ENOMEM:
	case -EINTR:
		return -ENOBUFS;
	}
	return ret;
}

/* Sends as rsiw_helper_tcp_send_bvec() does, in records of TLS. */
int rsiw_helper_tls_send_bvec(struct socket *sock, const struct bio_vec *bvec, unsigned int nr,
			      size_t len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_SPLICE_PAGES };

	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, bvec, nr, len);
	return tls_send_msg(sock, &msg);
}

/* Sends as rsiw_helper_tcp_send() does, in records of TLS. */
int rsiw_helper_tls_send(struct socket *sock, void *data, size_t len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = data, .iov_len = len };

	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, len);
	return tls_send_msg(sock, &msg);
}
