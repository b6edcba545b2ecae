// SPDX-License-Identifier: GPL-2.0

#include <linux/err.h>
#include <linux/key.h>
#include <linux/key-type.h>
#include <linux/rwsem.h>
#include <linux/slab.h>

#ifdef CONFIG_KEYS
/* Returns the keyring with this number, and a reference to it, or an error. */
struct key *rsiw_helper_keyring_lookup(int serial)
{
	struct key *ring = key_lookup(serial);

	if (!IS_ERR(ring) && ring->type != &key_type_keyring) {
		key_put(ring);
		ring = ERR_PTR(-ENOTDIR);
	}
	return ring;
}

void rsiw_helper_keyring_put(struct key *ring)
{
	key_put(ring);
}

int rsiw_helper_keyring_serial(const struct key *ring)
{
	return key_serial(ring);
}

/* Returns 0 if the key with this number is linked into @ring, whose lock is held. */
static int is_linked(const struct key *ring, key_serial_t serial)
{
	long i, len = ring->type->read(ring, NULL, 0);
	key_serial_t *all;
	int ret = -ENOKEY;

	if (len <= 0)
		return len ?: -ENOKEY;
	all = kvmalloc(len, GFP_KERNEL);
	if (!all)
		return -ENOMEM;
	len = min(len, ring->type->read(ring, (char *)all, len));
	for (i = 0; i < len / (long)sizeof(*all); i++)
		if (all[i] == serial)
			ret = 0;
	kvfree(all);
	return ret;
}

/*
 * Returns 0 if the key with this number is linked into @ring, directly, and both are valid:
 * -EKEYREVOKED or -EKEYEXPIRED if not, -ENOKEY if it is not linked. A search by name would be no
 * answer, as the type of a key decides which names are the same. Process context.
 */
int rsiw_helper_keyring_check(struct key *ring, int serial)
{
	struct key *key = key_lookup(serial);
	int ret;

	if (IS_ERR(key))
		return PTR_ERR(key);
	ret = key_validate(key);
	if (!ret) {
		down_read(&ring->sem);
		ret = key_validate(ring) ?: is_linked(ring, serial);
		up_read(&ring->sem);
	}
	key_put(key);
	return ret;
}
#else
struct key *rsiw_helper_keyring_lookup(int serial)
{
	return ERR_PTR(-EOPNOTSUPP);
}

void rsiw_helper_keyring_put(struct key *ring)
{
}

int rsiw_helper_keyring_serial(const struct key *ring)
{
	return 0;
}

int rsiw_helper_keyring_check(struct key *ring, int serial)
{
	return -ENOKEY;
}
#endif
