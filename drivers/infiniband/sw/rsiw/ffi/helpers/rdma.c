// SPDX-License-Identifier: GPL-2.0

#include <linux/ethtool.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/netlink.h>
#include <net/sock.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>
#include <rdma/rdma_cm.h>
#include <rdma/rdma_netlink.h>
#include <rdma/uverbs_ioctl.h>

int rsiw_helper_ib_no_udata_io(struct ib_udata *udata)
{
	return ib_no_udata_io(udata);
}

void rsiw_helper_ib_mark_name_assigned_by_user(struct ib_device *dev)
{
	ib_mark_name_assigned_by_user(dev);
}

bool rsiw_helper_ib_device_try_get(struct ib_device *dev)
{
	return ib_device_try_get(dev);
}

/*
 * Returns whether the core removes @dev now, or moves it to another namespace: it asks all clients
 * to let go of the device and, in a move, adds the device to them again. It holds the lock all the
 * while, and at no other time.
 */
bool rsiw_helper_ib_device_is_moving(struct ib_device *dev)
{
	return mutex_is_locked(&dev->unregistration_lock);
}

/*
 * Returns the consumer's identifier, during its call to listen, connect or accept. The only user of
 * iw_cm is the RDMA CM, whose own identifiers begin with the consumer's.
 */
static const struct rdma_cm_id *consumer_of(const struct iw_cm_id *id)
{
	return id->context;
}

/* Returns whether @ndev is in the network namespace of the consumer of @id. */
bool rsiw_helper_iw_cm_id_sees_netdev(const struct iw_cm_id *id,
				      const struct net_device *ndev)
{
	return net_eq(dev_net(ndev), consumer_of(id)->route.addr.dev_addr.net);
}

/*
 * Returns the queue pair that the consumer of @id made for this connection. Identifiers of
 * processes have none: their queue pairs are known to uverbs only.
 */
struct ib_qp *rsiw_helper_iw_cm_id_qp(const struct iw_cm_id *id)
{
	return READ_ONCE(consumer_of(id)->qp);
}

/* Returns whether the consumer's identifier of @id is bound to @dev. */
bool rsiw_helper_iw_cm_id_is_on(const struct iw_cm_id *id, const struct ib_device *dev)
{
	return READ_ONCE(consumer_of(id)->device) == dev;
}

/* Returns the port space in which the consumer of @id has its port. */
unsigned int rsiw_helper_iw_cm_id_port_space(const struct iw_cm_id *id)
{
	return consumer_of(id)->ps;
}

/*
 * Returns the index of the interface by which the RDMA CM finds the device for a request that comes
 * to @addr; 0 if it finds none.
 */
int rsiw_helper_rdma_cm_owner(const struct sock *sk, const struct __kernel_sockaddr_storage *addr)
{
	struct rdma_dev_addr dev_addr = { .net = sock_net(sk) };

	if (rdma_translate_ip((const struct sockaddr *)addr, &dev_addr))
		return 0;
	return dev_addr.bound_dev_if;
}

/*
 * Returns whether a device over @dev suits the RDMA CM for what comes to the interface @ifindex:
 * the RDMA CM does not tell a VLAN from the interface below it (cma_validate_port()).
 */
bool rsiw_helper_rdma_cm_suits(struct net_device *dev, int ifindex)
{
	struct net_device *owner;
	bool suits = false;

	rcu_read_lock();
	owner = dev_get_by_index_rcu(dev_net_rcu(dev), ifindex);
	if (owner)
		suits = owner == dev ||
			(is_vlan_dev(owner) && vlan_dev_real_dev(owner) == dev) ||
			(is_vlan_dev(dev) && vlan_dev_real_dev(dev) == owner);
	rcu_read_unlock();
	return suits;
}

struct ib_device *rsiw_helper_rdma_cm_id_device(const struct rdma_cm_id *id)
{
	return READ_ONCE(id->device);
}

struct ib_ucontext *rsiw_helper_udata_ucontext(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata)->context;
}

struct ib_udata *
rsiw_helper_uverbs_attr_bundle_udata(struct uverbs_attr_bundle *attrs)
{
	return attrs ? &attrs->driver_udata : NULL;
}

/*
 * Gets speed and width of a port, without the core's warning for interfaces that have no speed.
 * Takes the RTNL.
 */
int rsiw_helper_ib_port_speed(struct ib_device *dev, struct net_device *ndev,
			      u16 *speed, u8 *width)
{
	struct ethtool_link_ksettings settings;
	int ret;

	/* An interface on top of others may have the operation without knowing its speed. */
	rtnl_lock();
	ret = -ENODEV;
	if (READ_ONCE(ndev->reg_state) == NETREG_REGISTERED)
		ret = __ethtool_get_link_ksettings(ndev, &settings);
	rtnl_unlock();
	if (ret) {
		*speed = IB_SPEED_SDR;
		*width = IB_WIDTH_1X;
		return 0;
	}
	return ib_get_eth_speed(dev, 1, speed, width);
}

struct nlattr *rsiw_helper_driver_nest_start(struct sk_buff *msg)
{
	return nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
}

void rsiw_helper_driver_nest_end(struct sk_buff *msg, struct nlattr *nest)
{
	nla_nest_end(msg, nest);
}

void rsiw_helper_driver_nest_cancel(struct sk_buff *msg, struct nlattr *nest)
{
	nla_nest_cancel(msg, nest);
}
