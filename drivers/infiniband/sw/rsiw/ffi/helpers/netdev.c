// SPDX-License-Identifier: GPL-2.0

#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/string.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/net_namespace.h>
#include <net/rtnetlink.h>

void rsiw_helper_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

void rsiw_helper_dev_put(struct net_device *dev)
{
	dev_put(dev);
}

/* Copies the name, which can change at any time, into @to (IFNAMSIZ bytes). */
void rsiw_helper_netdev_copy_name(struct net_device *dev, char *to)
{
	rcu_read_lock();
	strscpy(to, dev->name, IFNAMSIZ);
	rcu_read_unlock();
}

/* Returns the index of the VRF that @dev is in; 0 if it is in none. */
int rsiw_helper_netdev_vrf(struct net_device *dev)
{
	return l3mdev_master_ifindex(dev);
}

/* Returns the number of the namespace of @dev. No other namespace has or will have it. */
u64 rsiw_helper_netdev_namespace(const struct net_device *dev)
{
	u64 cookie;

	rcu_read_lock();
	cookie = dev_net_rcu(dev)->net_cookie;
	rcu_read_unlock();
	return cookie;
}

/* Returns the number while no move to another namespace is under way. Takes the RTNL. */
u64 rsiw_helper_netdev_settled_namespace(const struct net_device *dev)
{
	u64 cookie;

	rtnl_lock();
	cookie = rsiw_helper_netdev_namespace(dev);
	rtnl_unlock();
	return cookie;
}

int rsiw_helper_netdev_index(const struct net_device *dev)
{
	return READ_ONCE(dev->ifindex);
}

/*
 * Returns whether @dev is of a kind that is there to keep others out: a tunnel with keys, or one
 * whose other end is a program or a policy of IPsec.
 */
bool rsiw_helper_netdev_is_tunnel(const struct net_device *dev)
{
	static const char *const kinds[] = {
		"wireguard", "ovpn", "tun", "xfrm", "vti", "vti6", "macsec",
	};
	/* Its module waits for references to its interfaces before it goes. */
	const struct rtnl_link_ops *ops = READ_ONCE(dev->rtnl_link_ops);

	return ops && match_string(kinds, ARRAY_SIZE(kinds), ops->kind) >= 0;
}

unsigned int rsiw_helper_netdev_mtu(const struct net_device *dev)
{
	return READ_ONCE(dev->mtu);
}

unsigned int rsiw_helper_netdev_max_mtu(const struct net_device *dev)
{
	return READ_ONCE(dev->max_mtu);
}

/* Copies up to @len octets of the hardware address; returns its true length. */
unsigned int rsiw_helper_netdev_copy_addr(const struct net_device *dev, u8 *to,
					  unsigned int len)
{
	memcpy(to, dev->dev_addr, min_t(unsigned int, len, dev->addr_len));
	return dev->addr_len;
}

bool rsiw_helper_netif_is_loopback(const struct net_device *dev)
{
	return READ_ONCE(dev->flags) & IFF_LOOPBACK;
}

bool rsiw_helper_netif_running(const struct net_device *dev)
{
	return netif_running(dev);
}

bool rsiw_helper_netif_carrier_ok(const struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

/* Takes a reference to the namespace of @dev; NULL once that is going away. */
struct net *rsiw_helper_netdev_get_net(const struct net_device *dev)
{
	struct net *net;

	rcu_read_lock();
	net = maybe_get_net(dev_net_rcu(dev));
	rcu_read_unlock();
	return net;
}

void rsiw_helper_put_net(struct net *net)
{
	put_net(net);
}

/* Returns whether listening at @port takes CAP_NET_BIND_SERVICE in the namespace of @dev. */
bool rsiw_helper_netdev_port_is_reserved(const struct net_device *dev, u16 port)
{
	bool is_reserved;

	rcu_read_lock();
	is_reserved = inet_port_requires_bind_service(dev_net_rcu(dev), port);
	rcu_read_unlock();
	return is_reserved;
}

/*
 * Copies the addresses of @dev, up to @max, to @to, IPv4 ones in IPv6 form. Returns how many there
 * are. Leaves out IPv6 addresses that another host has or may have. @is_pending tells whether the
 * kernel is still finding that out for one of them.
 */
unsigned int rsiw_helper_netdev_copy_ips(struct net_device *dev, struct in6_addr *to,
					 unsigned int max, bool *is_pending)
{
	const struct inet6_ifaddr *ip6;
	const struct in_ifaddr *ip4;
	struct in_device *in4;
	struct inet6_dev *in6;
	unsigned int n = 0;

	*is_pending = false;
	rcu_read_lock();
	in4 = __in_dev_get_rcu(dev);
	if (in4) {
		in_dev_for_each_ifa_rcu(ip4, in4) {
			if (n < max)
				ipv6_addr_set_v4mapped(ip4->ifa_local, &to[n]);
			n++;
		}
	}
	in6 = IS_ENABLED(CONFIG_IPV6) ? __in6_dev_get(dev) : NULL;
	if (in6) {
		list_for_each_entry_rcu(ip6, &in6->addr_list, if_list) {
			u32 flags = READ_ONCE(ip6->flags);

			if (flags & IFA_F_DADFAILED)
				continue;
			if ((flags & IFA_F_TENTATIVE) && !(flags & IFA_F_OPTIMISTIC)) {
				*is_pending = true;
				continue;
			}
			if (n < max)
				to[n] = ip6->addr;
			n++;
		}
	}
	rcu_read_unlock();
	return n;
}

struct net_device *rsiw_helper_in_ifaddr_to_dev(void *info)
{
	const struct in_ifaddr *ip4 = info;

	return ip4->ifa_dev->dev;
}

struct net_device *rsiw_helper_inet6_ifaddr_to_dev(void *info)
{
	const struct inet6_ifaddr *ip6 = info;

	return ip6->idev->dev;
}

int rsiw_helper_register_inet6addr_notifier(struct notifier_block *nb)
{
	return IS_ENABLED(CONFIG_IPV6) ? register_inet6addr_notifier(nb) : 0;
}

int rsiw_helper_unregister_inet6addr_notifier(struct notifier_block *nb)
{
	return IS_ENABLED(CONFIG_IPV6) ? unregister_inet6addr_notifier(nb) : 0;
}

struct net_device *rsiw_helper_netdev_notifier_info_to_dev(void *info)
{
	return netdev_notifier_info_to_dev(info);
}

